"""Which tool calls run, which somebody is asked about, and which are denied.

The rules, first match wins:

1. `--deny` denies, then `"approval": "deny"` (or `"never"`) of the server's configuration.
2. `--allow` runs, then `"approval": "allow"` (or `"always"`), then what the user answered with "always" or "this
   session", then `--approve all`.
3. `--approve none` denies.
4. What only reads runs, where the user believes it: a tool whose server says so and is marked with `"trust": true`, and
   every tool of the bundled server, which changes nothing outside its own memory. `"approval": "ask"` takes it out.
5. `--approve ask`, the default, asks about the rest, `safe` denies it. Where nobody can be asked, asking is a denial.

A project's `.mcp.json` can deny and ask, but neither allow nor trust.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from glob import escape
from typing import Any, Literal, TypeAlias

from mcpagent.cli.kept_approvals import KeptApprovals, What, own_name
from mcpagent.cli.options import ApproveMode
from mcpagent.config import ServerConfig
from mcpagent.config.permissions import approval_for
from mcpagent.config.values import Approval
from mcpagent.messages import ToolDefinition
from mcpagent.pending import CallAnswer, PendingCall
from mcpagent.run_context import RunContext
from mcpagent.safe_text import safe_line

Verdict: TypeAlias = Literal["run", "ask", "deny"]
Scope: TypeAlias = Literal["once", "session", "tool", "reads", "server", "no"]
"""How far it reaches: "session" is the tool until the program ends; "tool", "reads" and "server" are for good."""

NOBODY = "no one can be asked here"


@dataclass(frozen=True, slots=True)
class Reply:
    """What somebody said about one call. `arguments` replace the call's own; `words` say why not."""

    scope: Scope
    arguments: dict[str, Any] | None = None
    words: str = ""


Ask: TypeAlias = Callable[[PendingCall, str, ToolDefinition | None], Awaitable[Reply]]
"""Asks somebody about one call of the tool with this label."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run. `mend` is the flag that would have allowed it, empty where none would."""

    call: PendingCall
    label: str
    reason: str
    mend: str = ""

    def line(self) -> str:
        """`denied: git.git_push (no one can be asked here). allow it with --allow git.git_push`."""
        hint = f". allow it with {self.mend}" if self.mend else ""
        return f"denied: {self.label} ({self.reason}){hint}"


def label_of(tool: ToolDefinition | None, name: str = "") -> str:
    """`server.tool`, by the server's own name for it: what `--allow` and `--deny` are matched with."""
    if tool is None:
        return safe_line(name, 80)
    own = own_name(tool)
    return safe_line(f"{tool.server}.{own}" if tool.server else own, 140)


def allow_flag(label: str) -> str:
    """The flag that allows just this tool, fit to be pasted into a shell whatever the tool is called."""
    return f"--allow {shlex.quote(escape(label))}"


@dataclass(slots=True)
class Rules:
    """The rules of one run; `allow` and `deny` are globs over labels and offered names, and grow in a chat."""

    mode: ApproveMode = ApproveMode.ask
    allow: list[str] = field(default_factory=list[str])
    deny: list[str] = field(default_factory=list[str])
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    harmless_servers: frozenset[str] = frozenset()

    def judge(self, tool: ToolDefinition, *, approved: bool = False) -> Verdict:
        """What becomes of a call of this tool; `approved`: the user has said yes to it for longer than one call."""
        configured = self.configured(tool)
        if self.denied_by(tool) is not None or configured == "deny":
            return "deny"
        if any(covers(glob, tool) for glob in self.allow) or configured == "allow":
            return "run"
        if approved or self.mode is ApproveMode.all:
            return "run"
        if self.mode is ApproveMode.none:
            return "deny"
        if configured != "ask" and self._only_reads(tool):
            return "run"
        return "ask" if self.mode is ApproveMode.ask else "deny"

    def configured(self, tool: ToolDefinition) -> Approval | None:
        """What the configuration of the tool's server says of it."""
        server = self.servers.get(tool.server or "")
        return approval_for(server.approval, own_name(tool)) if server is not None else None

    def _only_reads(self, tool: ToolDefinition) -> bool:
        """As far as it is believed: what a server says of itself is a hint until its user trusts it."""
        if tool.server in self.harmless_servers:
            return True
        if tool.server is None:  # a function or an agent of the user's own
            return tool.read_only is True
        server = self.servers.get(tool.server)
        return tool.read_only is True and server is not None and server.trust_hints

    def denied_by(self, tool: ToolDefinition) -> str | None:
        """The glob of `--deny` that covers the tool."""
        return next((glob for glob in self.deny if covers(glob, tool)), None)

    def without_effect(self, tools: Iterable[ToolDefinition]) -> list[str]:
        """The globs that cover none of the tools."""
        known = list(tools)
        return [glob for glob in (*self.allow, *self.deny) if not any(covers(glob, tool) for tool in known)]


def covers(glob: str, tool: ToolDefinition) -> bool:
    return fnmatchcase(label_of(tool), glob) or fnmatchcase(tool.name, glob)


class Approvals:
    """Decides on the calls of one agent, and keeps what was denied.

    `ask` is None where nobody can be asked. `kept` holds what the user said yes to.
    """

    def __init__(self, rules: Rules, kept: KeptApprovals, ask: Ask | None) -> None:
        self.rules = rules
        self.denials: list[Denial] = []
        self.kept = kept
        self._ask = ask
        self._called: dict[tuple[str | None, str], ToolDefinition] = {}

    def needed(self, context: RunContext[Any], tool: ToolDefinition, _arguments: dict[str, Any]) -> bool:
        """Whether a call has to be decided on, as `Agent(approval=...)` asks."""
        # By the name that the model calls: where servers share one, it is not the server's own.
        tool = replace(tool, name=context.tool_name or tool.name)
        self._called[tool.server, tool.name] = tool
        return self._judge(tool) != "run"

    async def decide(self, request: PendingCall) -> CallAnswer:
        """The answer to one call, as `Agent(on_approval=...)` wants it."""
        tool = self._called.get((request.server, request.tool))
        label = label_of(tool, request.tool)
        verdict = self._judge(tool) if tool is not None else "ask"
        if verdict == "run":  # said "always" while this one waited
            return request.approve()
        if verdict == "deny" or self._ask is None:
            return self._deny(request, tool, label)
        reply = await self._ask(request, label, tool)
        if reply.scope == "no":
            self.denials.append(Denial(request, label, "you said no"))
            return request.deny(reply.words)
        if tool is not None:
            self._remember(reply.scope, tool)
        return request.approve(reply.arguments)

    def _judge(self, tool: ToolDefinition) -> Verdict:
        return self.rules.judge(tool, approved=self.kept.has(tool))

    def _deny(self, request: PendingCall, tool: ToolDefinition | None, label: str) -> CallAnswer:
        reason, mend = self._why_denied(tool)
        self.denials.append(Denial(request, label, reason, allow_flag(label) if mend else ""))
        return request.deny("the rules of this run do not allow it, and nobody can be asked; do not call it again")

    def _why_denied(self, tool: ToolDefinition | None) -> tuple[str, bool]:
        """The reason, and whether `--allow` would have helped."""
        glob = self.rules.denied_by(tool) if tool is not None else None
        if glob is not None:
            return f"--deny {safe_line(glob, 80)}", False
        if tool is not None and self.rules.configured(tool) == "deny":
            server = self.rules.servers[tool.server or ""]
            return f"approval is deny in {safe_line(server.source or 'its configuration', 120)}", False
        if self.rules.mode is ApproveMode.ask:
            return NOBODY, True
        claim = tool is not None and tool.read_only is True and self.rules.mode is ApproveMode.safe
        hint = "; its server says that it only reads, but is not trusted" if claim else ""
        return f"--approve {self.rules.mode.value}{hint}", True

    def _remember(self, scope: Scope, tool: ToolDefinition) -> None:
        if scope == "session":
            self.kept.add(tool, "tool", always=False)
        elif scope in ("tool", "reads", "server"):
            what: What = scope
            self.kept.add(tool, what, always=True)
