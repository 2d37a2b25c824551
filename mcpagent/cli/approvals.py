"""Which tool calls run, which somebody is asked about, and which are denied.

The rules, first match wins: `--deny` denies; `--allow`, and what the user answered with "always" or "this session",
runs; `--approve all` runs, `none` denies; a tool of which its server says that it only reads runs, and so does every
tool of the bundled server, which changes nothing outside its own memory; `ask` asks about the rest, `safe` denies it.
Where nobody can be asked, asking is a denial.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.cli.folders import state_folder
from mcpagent.cli.options import ApproveMode
from mcpagent.config import ServerConfig
from mcpagent.mcp.cache import fingerprint
from mcpagent.messages import ToolDefinition
from mcpagent.pending import CallAnswer, PendingCall
from mcpagent.run_context import RunContext
from mcpagent.safe_text import safe_line

Verdict: TypeAlias = Literal["run", "ask", "deny"]
Scope: TypeAlias = Literal["once", "session", "tool", "server", "no"]

NOBODY = "no one can be asked here"
EVERY_TOOL = "*"


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
    own = tool.original_name or tool.name
    return safe_line(f"{tool.server}.{own}" if tool.server else own, 140)


@dataclass(slots=True)
class Rules:
    """The rules of one run; `allow` and `deny` are globs over labels and offered names, and grow in a chat."""

    mode: ApproveMode = ApproveMode.ask
    allow: list[str] = field(default_factory=list[str])
    deny: list[str] = field(default_factory=list[str])
    harmless_servers: frozenset[str] = frozenset()

    def judge(self, tool: ToolDefinition, *, approved: bool = False) -> Verdict:
        """What becomes of a call of this tool; `approved`: the user has said yes to it for good."""
        if self.denied_by(tool) is not None:
            return "deny"
        if approved or self.mode is ApproveMode.all or any(covers(glob, tool) for glob in self.allow):
            return "run"
        if self.mode is ApproveMode.none:
            return "deny"
        if tool.read_only or tool.server in self.harmless_servers:
            return "run"
        return "ask" if self.mode is ApproveMode.ask else "deny"

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

    `ask` is None where nobody can be asked. `find` gives a tool by its offered name; it is set once the agent is made.
    """

    def __init__(self, rules: Rules, kept: KeptApprovals, ask: Ask | None) -> None:
        self.rules = rules
        self.denials: list[Denial] = []
        self.find: Callable[[str], ToolDefinition | None] = lambda _name: None
        self._kept = kept
        self._ask = ask

    def needed(self, _context: RunContext[Any], tool: ToolDefinition, _arguments: dict[str, Any]) -> bool:
        """Whether a call has to be decided on, as `Agent(approval=...)` asks."""
        return self._judge(tool) != "run"

    async def decide(self, request: PendingCall) -> CallAnswer:
        """The answer to one call, as `Agent(on_approval=...)` wants it."""
        tool = self.find(request.tool)
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
        return self.rules.judge(tool, approved=self._kept.has(tool))

    def _deny(self, request: PendingCall, tool: ToolDefinition | None, label: str) -> CallAnswer:
        glob = self.rules.denied_by(tool) if tool is not None else None
        if glob is not None:
            denial = Denial(request, label, f"--deny {safe_line(glob, 80)}")
        elif self.rules.mode is ApproveMode.ask:
            denial = Denial(request, label, NOBODY, f"--allow {label}")
        else:
            denial = Denial(request, label, f"--approve {self.rules.mode.value}", f"--allow {label}")
        self.denials.append(denial)
        return request.deny("the rules of this run do not allow it, and nobody can be asked; do not call it again")

    def _remember(self, scope: Scope, tool: ToolDefinition) -> None:
        if scope == "session":
            self.rules.allow.append(label_of(tool))
        elif scope in ("tool", "server"):
            self._kept.add(tool, EVERY_TOOL if scope == "server" else tool.original_name or tool.name)


class KeptApprovals:
    """What the user said "always" to, in a file readable by that user only.

    An approval holds for one server as it is configured: another command, address or key under the same name is
    another server. A file that cannot be read counts as empty, one that cannot be written changes nothing.
    """

    def __init__(self, path: Path | None, servers: Iterable[ServerConfig]) -> None:
        self._path = path
        self._servers = {server.name: fingerprint(server) for server in servers}
        self._approved = _read(path) if path is not None else {}

    @classmethod
    def of_user(cls, environ: Mapping[str, str], servers: Iterable[ServerConfig]) -> KeptApprovals:
        return cls(state_folder(environ) / "approvals.json", servers)

    def has(self, tool: ToolDefinition) -> bool:
        server = self._servers.get(tool.server or "")
        own = tool.original_name or tool.name
        return server is not None and ((server, own) in self._approved or (server, EVERY_TOOL) in self._approved)

    def add(self, tool: ToolDefinition, name: str) -> None:
        server = self._servers.get(tool.server or "")
        if server is None:
            return
        self._approved[server, name] = safe_line(tool.server or "", 64)
        if self._path is None:
            return
        self._approved |= _read(self._path)
        entries = [
            {"name": shown, "server": server, "tool": name}
            for (server, name), shown in sorted(self._approved.items(), key=lambda item: (item[1], item[0]))
        ]
        _write(self._path, json.dumps({"format": 1, "allow": entries}, indent=1) + "\n")


def _read(path: Path) -> dict[tuple[str, str], str]:
    """(server's fingerprint, tool) -> the server's name, which is for whoever reads the file."""
    try:
        entries = json.loads(path.read_bytes())["allow"]
        return {(str(entry["server"]), str(entry["tool"])): str(entry["name"]) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _write(path: Path, text: str) -> None:
    """A whole file or none."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            file.write(text)
        Path(file.name).replace(path)
    except OSError:
        pass  # it holds for this run; the next one asks again
