"""Configured servers as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias

from mcpagent.python.argument_checks import expect, expect_fields

TransportName: TypeAlias = Literal["auto", "stdio", "http", "sse"]
"""How a server is reached; "auto" is stdio for a command, and streamable HTTP or else SSE for a URL."""


LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""What a server is asked to report of its own work, from the most to the least (MCP, after RFC 5424)."""

Era: TypeAlias = Literal["auto", "legacy"]
"""How to greet a server: by a `server/discover` probe first, or at once with `initialize`."""


Approval: TypeAlias = Literal["allow", "ask", "deny"]
"""What becomes of a tool's calls: run unasked, asked about, never run."""


Scope: TypeAlias = Literal["", "user", "project", "given"]
"""Whose file a server stands in: the user's own, one that was found in a project, one that was named (`--config`, a
card) and is not in the user's own folders; "" for a server that whoever runs the program wrote."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One MCP server, variables already expanded.

    Seconds: `connect_timeout_seconds` bounds start, handshake and listing; `timeout_seconds` is how long a call may
    stay silent (progress starts it again); `total_timeout_seconds` bounds a call whatever it reports. `enabled_tools`,
    `disabled_tools` and `always_load` are globs over the server's own tool names. `defer_loading`: whether its tools
    are hidden until they are found (True), never (False), only those named and no other, or as the agent's tool
    search says (None). `source` is "file:line", and `scope` says whose file that is. `written` is the entry as it
    stands there, variables not expanded; `told` has for each text with a secret of the user's what may be shown of it.
    `vouched` is the digest of what somebody said yes to (`mcpagent.trust.descriptions`): nothing else is started.

    `eager`: a server whose lists are kept on disk is started in the background, not by its first call.
    `safe_to_repeat` are globs of tools that do no harm when they run twice; with `trust_hints` those count too of which
    the server says so, and its word that a tool only reads is believed. `approval`: (glob of tools, what becomes of
    their calls), see `mcpagent.config.permissions`. `max_message_bytes` bounds one message. A result of more than
    `large_result_tokens` (estimated) is set aside: of all its tools, or by globs of them; 0: never, None: the agent's
    own limit. `log_level` None: what the
    server chooses. `elicitation`: it may ask the person at the terminal something; `sampling`: it may have our model
    answer; `roots`: the folders it gets to know of, absolute.
    """

    name: str
    command: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    transport: TransportName = "auto"
    disabled: bool = False
    connect_timeout_seconds: float = 30.0
    timeout_seconds: float = 60.0
    total_timeout_seconds: float = 300.0
    shutdown_seconds: float = 5.0
    description: str = ""
    required: bool = False
    enabled_tools: tuple[str, ...] = ()
    disabled_tools: tuple[str, ...] = ()
    always_load: tuple[str, ...] = ()
    defer_loading: bool | Sequence[str] | None = None
    eager: bool = False
    safe_to_repeat: tuple[str, ...] = ()
    trust_hints: bool = False
    approval: tuple[tuple[str, Approval], ...] = ()
    max_message_bytes: int = 64 * 1024 * 1024
    large_result_tokens: int | Mapping[str, int] | None = None
    log_level: LogLevel | None = None
    era: Era = "auto"
    elicitation: bool = False
    sampling: bool = False
    roots: tuple[str, ...] = ()
    source: str = ""
    scope: Scope = ""
    written: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    told: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    vouched: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        label = f"server {str(self.name)!r:.80}".replace("'", '"')
        said = "True or a list of names"
        expect(f"{label}: defer_loading", self.defer_loading, (bool, list, tuple, NoneType), said)
        expect_fields(self, label)
        limits = self.large_result_tokens
        for tokens in limits.values() if isinstance(limits, Mapping) else (limits,):
            told = "a whole number of tokens, or 0"
            expect(
                f"{label}: large_result_tokens", tokens, (int, NoneType), told, holds=lambda it: it is None or it >= 0
            )
        for name in ("connect_timeout_seconds", "timeout_seconds", "total_timeout_seconds", "shutdown_seconds"):
            expect(f"{label}: {name}", getattr(self, name), (int, float), "seconds above 0", holds=lambda it: it > 0)


McpServer: TypeAlias = ServerConfig
"""The same value under the name that fits `Agent(tools=[McpServer("files", command="npx", args=[...])])`."""


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A configured server that cannot be used; `reason` is one line with the place and the fix."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The servers to start, those that cannot be, and the files they came from (in reading order)."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()
    files: tuple[str, ...] = ()


ServersSource: TypeAlias = str | Path | Mapping[str, Any] | Sequence[ServerConfig]


def tool_prefix(server_name: str) -> str:
    """The server's name with each character that a tool name cannot have as "_"."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", server_name)
