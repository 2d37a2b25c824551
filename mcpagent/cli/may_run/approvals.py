"""Decide which calls of servers' tools run, which need the user's approval, and which are denied.

A prompt and a resource are judged as a tool is, by what `Tool.asked` says that a call is for.

The rules, first match wins:

1. `--deny` denies, then `"approval": "deny"` (or `"never"`) of the server's configuration.
2. `--allow` runs, then `"approval": "allow"` (or `"always"`), then what the user answered with "always" or "this
   session", then `--approve all`.
3. `--approve none` denies.
4. What only reads runs, if the user believes it: a tool whose server says so, or a resource that its server lists, if
   the server is marked with `"trust": true`; and all of the bundled server, which changes nothing outside its own
   memory. `"approval": "ask"` takes it out.
5. `--approve ask`, the default, asks about the rest, `safe` denies it. If nobody can be asked, asking is a denial.

A project's `.mcp.json` can deny and ask, but neither allow nor trust.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from glob import escape
from typing import Any, Literal, TypeAlias

from mcpagent.cli.frame.options import ApproveMode
from mcpagent.cli.may_run.kept_approvals import KeptApprovals
from mcpagent.config import ServerConfig
from mcpagent.config.permissions import approval_for, is_about
from mcpagent.config.rule_names import forbids, permits, resource_servers, rule_of
from mcpagent.run.agent_run import RunContext
from mcpagent.utilities.text.safe_text import safe_line, visible
from mcpagent.values.approval import Approval, CallAnswer, PendingCall
from mcpagent.values.messages import ToolDefinition

Verdict: TypeAlias = Literal["run", "ask", "deny"]
Scope: TypeAlias = Literal["once", "session", "tool", "reads", "server", "no"]
"""How far it reaches: "session" is the tool (or prompt, or resource) until the program ends; "tool", "reads" and
"server" are for good."""

MAX_FLAG = 2_000
"""Characters of a rule that is proposed; it is never cut, since it would name something else."""

NOBODY = "no one can be asked here"


@dataclass(frozen=True, slots=True)
class Reply:
    """The user's answer about one call. `arguments` replace the call's own; `words` are the reason for a denial."""

    scope: Scope
    arguments: dict[str, Any] | None = None
    words: str = ""


Ask: TypeAlias = Callable[[PendingCall, str, ToolDefinition | None], Awaitable[Reply]]
"""Asks somebody about one call of the tool with this label."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run. `flag` would have allowed it, empty if none would."""

    call: PendingCall
    label: str
    reason: str
    flag: str = ""

    def line(self) -> str:
        """Return `denied: git.git_push (no one can be asked here). allow it with --allow git.git_push`."""
        hint = ""
        if self.flag:
            hint = f". allow it with {self.flag}"
        return f"denied: {self.label} ({self.reason}){hint}"


_PLAIN_NAME = re.compile(r"[\w.:/@-]+")


def label_of(tool: ToolDefinition | None, name: str = "", limit: int = 140) -> str:
    """Return `server.tool`, by the server's own name for it, to be shown; rules match the uncut name.

    A name with spaces or invisible characters is quoted, with such characters escaped. So no two tools look alike
    because of them, and no name can imitate mcpagent's own text.
    """
    if tool is None:
        return safe_line(name, 80)
    own, rule = tool.key.own_name, rule_of(tool)
    shown = visible(own, "")
    is_plain = (
        shown == own
        and (tool.kind != "tool" or _PLAIN_NAME.fullmatch(own))
        and " " not in own
    )
    quoted = visible(own.replace("\\", "\\\\").replace('"', '\\"'), "")
    whole = visible(rule.removesuffix(own), "") + (own if is_plain else f'"{quoted}"')
    if len(whole) <= limit:
        return whole
    return safe_line(whole, limit)


def allow_flag(tool: ToolDefinition) -> str:
    """Return the flag that allows just this, safe for a shell: `?` replaces unsafe characters; "" if too long."""
    own = tool.key.own_name
    named = rule_of(tool).removesuffix(own) + escape(own)
    shown = "".join(char if visible(char, "") == char else "?" for char in named)
    if len(shown) <= MAX_FLAG:
        return f"--allow {shlex.quote(shown)}"
    return ""


@dataclass(slots=True)
class Rules:
    """The rules of one run; `allow` and `deny` use the syntax of `rule_names`, and grow in a chat."""

    mode: ApproveMode = "ask"
    allow: list[str] = field(default_factory=list[str])
    deny: list[str] = field(default_factory=list[str])
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    harmless_servers: frozenset[str] = frozenset()

    def judge(self, tool: ToolDefinition, *, approved: bool = False) -> Verdict:
        """Return the verdict on a call of this tool; `approved`: the user allowed it for longer than one call."""
        configured = self.configured(tool)
        if self.denied_by(tool) is not None or configured == "deny":
            return "deny"
        if (
            any(self.permits(rule, tool) for rule in self.allow)
            or configured == "allow"
        ):
            return "run"
        if approved or self.mode == "all":
            return "run"
        if self.mode == "none":
            return "deny"
        if configured != "ask" and self._only_reads(tool):
            return "run"
        if self.mode == "ask":
            return "ask"
        return "deny"

    def configured(self, tool: ToolDefinition) -> Approval | None:
        """Return the approval in the configuration of the tool's server."""
        server = self.servers.get(tool.server or "")
        if server is not None:
            return approval_for(server.approval, tool)
        return None

    def _only_reads(self, tool: ToolDefinition) -> bool:
        """Return whether the tool only reads; a server's own hint counts only if the user trusts the server."""
        if tool.server in self.harmless_servers:
            return True
        if tool.server is None:  # a function or an agent of the user's own
            return tool.read_only is True
        server = self.servers.get(tool.server)
        return tool.read_only is True and server is not None and server.trust_hints

    def permits(self, rule: str, tool: ToolDefinition) -> bool:
        """Return whether a rule of `allow` matches the tool."""
        return permits(rule, tool, self.servers)

    def denied_by(self, tool: ToolDefinition) -> str | None:
        """Return the rule of `--deny` that names this."""
        return next((rule for rule in self.deny if forbids(rule, tool)), None)

    def without_effect(self, asked: Iterable[ToolDefinition]) -> list[str]:
        """Return the rules that name nothing of all that can be asked for.

        A resource need not be listed: for it will do that its server has some.
        """
        known = list(asked)
        readable = {tool.server for tool in known if tool.kind == "resource"}
        named = [
            *(
                (rule, any(self.permits(rule, tool) for tool in known))
                for rule in self.allow
            ),
            *((rule, any(forbids(rule, tool) for tool in known)) for rule in self.deny),
        ]
        return [
            rule
            for rule, names_something in named
            if not (names_something or resource_servers(rule) & readable)
        ]

    def configured_without_effect(
        self, asked: Iterable[ToolDefinition]
    ) -> list[tuple[ServerConfig, str]]:
        """Return the patterns in the servers' configurations that match nothing, for servers with known tools."""
        of_server: dict[str, list[ToolDefinition]] = {}
        for tool in asked:
            of_server.setdefault(tool.server or "", []).append(tool)
        return [
            (server, glob)
            for name, server in self.servers.items()
            for glob, approval in server.approval
            if (known := of_server.get(name))
            and not any(is_about(glob, approval, tool) for tool in known)
            if not (
                glob.startswith("@") and any(tool.kind == "resource" for tool in known)
            )
        ]


def _digest(arguments: dict[str, Any]) -> bytes:
    """Return a digest that distinguishes calls of one tool: `get_resource` serves a different resource each time."""
    return hashlib.sha256(
        json.dumps(arguments, sort_keys=True, default=str).encode()
    ).digest()


class Approvals:
    """Decides on the calls of one agent, and stores the denials.

    `ask` is None if no user can be asked. `kept` has the stored approvals.
    """

    def __init__(self, rules: Rules, kept: KeptApprovals, ask: Ask | None) -> None:
        self.rules = rules
        self.denials: list[Denial] = []
        self.kept = kept
        self._ask = ask
        self._called: dict[tuple[str | None, str, bytes], ToolDefinition] = {}

    def needed(
        self, context: RunContext[Any], tool: ToolDefinition, arguments: dict[str, Any]
    ) -> bool:
        """Return whether a call needs a decision, for `Agent(approval=...)`."""
        # By the name that the model calls: if servers share one, it is not the server's own.
        tool = replace(tool, name=context.tool_name or tool.name)
        self._called[tool.server, tool.name, _digest(arguments)] = tool
        return self._judge(tool) != "run"

    async def decide(self, request: PendingCall) -> CallAnswer:
        """Return the answer to one call, as `ApprovalPolicy(decide=...)` wants it."""
        tool = self._called.get(
            (request.server, request.tool, _digest(request.arguments))
        )
        verdict = self._judge(tool) if tool is not None else "ask"
        if verdict == "run":  # said "always" while this one waited
            return request.approve()
        return await self._decided(request, tool, verdict)

    async def decide_or_wait(self, request: PendingCall) -> CallAnswer | PendingCall:
        """Decide as `decide` does, but leave calls that need the user's answer pending."""
        tool = self._called.get(
            (request.server, request.tool, _digest(request.arguments))
        )
        if tool is not None and self._judge(tool) == "ask":
            return request
        return await self.decide(request)

    async def decide_again(
        self, request: PendingCall, tool: ToolDefinition | None
    ) -> CallAnswer:
        """Decide on a call pending from an earlier run: a rule may deny it, but only the user can allow it."""
        verdict = self._judge(tool) if tool is not None else "ask"
        return await self._decided(
            request, tool, "ask" if verdict == "run" else verdict
        )

    async def _decided(
        self, request: PendingCall, tool: ToolDefinition | None, verdict: Verdict
    ) -> CallAnswer:
        label = label_of(tool, request.tool)
        if verdict == "deny" or self._ask is None:
            self.denials.append(self._denial(request, tool, label))
            nobody = ", and nobody can be asked"
            if verdict == "deny":
                nobody = ""
            return request.deny(
                f"the rules of this run do not allow it{nobody}; do not call it again"
            )
        reply = await self._ask(request, label, tool)
        if reply.scope == "no":
            self.denials.append(Denial(request, label, "you said no"))
            return request.deny(reply.words)
        if reply.arguments is not None and tool is not None and tool.kind != "tool":
            return request.approve(
                reply.arguments
            )  # for something else, which is judged and kept by its own name
        match reply.scope:
            case "session" if tool is not None:
                self.kept.add(tool, tool.kind, always=False)
            case "tool" if tool is not None:
                await asyncio.to_thread(self.kept.add, tool, tool.kind, always=True)
            case "reads" | "server" as what if tool is not None:
                await asyncio.to_thread(self.kept.add, tool, what, always=True)
        return request.approve(reply.arguments)

    def _judge(self, tool: ToolDefinition) -> Verdict:
        return self.rules.judge(tool, approved=self.kept.has(tool))

    def _denial(
        self, request: PendingCall, tool: ToolDefinition | None, label: str
    ) -> Denial:
        """Return the denial with its reason, and `--allow` if that would have helped."""
        glob = None
        if tool is not None:
            glob = self.rules.denied_by(tool)
        if glob is not None:
            return Denial(request, label, f"--deny {safe_line(glob, 80)}")
        if tool is not None and self.rules.configured(tool) == "deny":
            source = self.rules.servers[tool.server or ""].source or "its configuration"
            return Denial(
                request, label, f"approval is deny in {safe_line(source, 120)}"
            )
        if self.rules.mode == "ask":
            reason = NOBODY
        else:
            reason = f"--approve {self.rules.mode}"
        if tool is not None and tool.read_only is True and self.rules.mode == "safe":
            said = "says that it only reads"
            if tool.kind == "resource":
                said = "lists it"
            reason += f"; its server {said}, but is not trusted"
        return Denial(
            request, label, reason, allow_flag(tool) if tool is not None else ""
        )
