"""The values that describe a configured server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias

from mcpagent.utilities.python.argument_checks import expect, expect_fields
from mcpagent.utilities.text.secrets import (
    Secret,
    SecretMapping,
    hide,
    named_words,
    revealed,
    secrets_in_server_address,
    secrets_under,
    without_shapes,
)
from mcpagent.values.approval import Approval
from mcpagent.values.tools import ALL_CALLERS, ToolCaller, expect_callers

TransportName: TypeAlias = Literal["auto", "stdio", "http", "sse"]
"""The transport of a server. "auto": stdio for a command; for a URL streamable HTTP, or SSE if the server lacks that.
"""


LogLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
"""The minimum level of log messages that a server should send, from the most messages to the fewest (MCP, after RFC
5424).
"""

Era: TypeAlias = Literal["auto", "legacy"]
"""The first request to a server. "auto": a `server/discover` probe; "legacy": `initialize` at once."""


APPROVALS: Mapping[str, Approval] = {
    "allow": "allow",
    "always": "allow",
    "ask": "ask",
    "deny": "deny",
    "never": "deny",
}
"""Values of `approval` in a configuration, with their meaning: run without asking, ask about each call, never run."""


Scope: TypeAlias = Literal["", "user", "project", "card"]
"""The origin of a server's entry: "user" for the user's own file, "project" for a file found in a project, "card" for a
card outside the user's own folders. "" is a file that the user named, or an entry written by the calling program.
"""


Grant: TypeAlias = Literal["authorization_code", "client_credentials", "jwt-bearer"]
"""How tokens are obtained: the user signs in; the client authenticates itself (RFC 6749 4.4); an assertion of a third
party (RFC 7523).
"""


@dataclass(frozen=True, slots=True)
class SignInConfig:
    """Settings for the sign-in to one remote server. By default, a user signs in, and the client registers itself.

    - `client_id`: a client that was registered beforehand. It authenticates with `client_secret`, or with `private_key`
      (PEM) and its signing `algorithm` ("": by the type of key).
    - `token`: a JWT that another issuer signed for this client; `token_file`: a file with one, read again each time.
      With "jwt-bearer" it is exchanged for the server's token (workload identity); with "client_credentials" it
      replaces the secret.
    - `idp_token_endpoint`: the token is then the identity token of a user of this identity provider. The provider,
      which knows the client as `idp_client_id`, exchanges it for an assertion to the server's authorization server
      (enterprise-managed authorization).
    - `issuer`: the only authorization server that receives any of this, even if the server names another.
    - `client_metadata_url`: the https address of a client metadata document; servers that support such documents use it
      as the client ID.
    - `callback_port`: the port of 127.0.0.1 to which a user's sign-in returns (0: any).
    - `proof_of_possession`: tokens require a key of this client (DPoP, RFC 9449); None: if the authorization server
      supports such tokens.
    """

    grant: Grant = "authorization_code"
    client_id: str = ""
    client_secret: str | Secret = field(default="", repr=False)
    private_key: str | Secret = field(default="", repr=False)
    private_key_file: str = ""
    algorithm: str = ""
    token: str | Secret = field(default="", repr=False)
    token_file: str = ""
    idp_token_endpoint: str = ""
    idp_client_id: str = ""
    idp_client_secret: str | Secret = field(default="", repr=False)
    issuer: str = ""
    scopes: tuple[str, ...] = ()
    client_metadata_url: str = ""
    callback_port: int = 0
    proof_of_possession: bool | None = None

    def __post_init__(self) -> None:
        expect_fields(self, "sign_in")
        for name in ("client_secret", "private_key", "token", "idp_client_secret"):
            if isinstance(text := getattr(self, name), str) and text:
                hide(text)
                object.__setattr__(self, name, Secret(text))

    @property
    def is_unattended(self) -> bool:
        """Return whether the sign-in works without a user."""
        return self.grant != "authorization_code"


_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key"}
)


class FileEntry(SecretMapping):
    """A server's entry as written in its file, including literal secrets, which `repr` does not show."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The configuration of an MCP server, with its variables expanded.

    - `connect_timeout_seconds` limits start, handshake and listing. `timeout_seconds` is how long a call may stay
      silent; progress restarts it. `total_timeout_seconds` limits a call despite progress.
    - `enabled_tools`, `disabled_tools`, `always_load` and `safe_to_repeat` are globs over the server's own tool names;
      the last are tools that may run twice.
    - `defer_loading`: its tools are hidden until they are found (True), never hidden (False), hidden if listed, or as
      the agent's tool search decides (None).
    - `source` is "file:line", `scope` the owner of that file, `written` the entry in it without expanded variables.
    - A text is a `Secret` if it contains a value of the user's environment or keyring, is a literal credential, or is
      the value of an Authorization, Cookie or X-API-Key header. Literal credentials are redacted in all output
      (`mcpagent.utilities.text.secrets`).
    - `keeps_running`: processes that a server started may outlive it if it exits by itself when it is closed.
    - `eager`: a server with cached lists starts in the background, not at its first call.
    - `trust_hints`: mcpagent also believes the server's hints about tools that only read or may be repeated.
    - `approval` is a list of (glob over tools, approval of their calls), see `mcpagent.permissions.decision`.
    - `max_message_bytes` limits one message. `large_result_tokens` is the estimated size above which a result is
      offloaded, for all tools or by globs; 0: never, None: the agent's setting.
    - `allowed_callers` may call its tools in code mode: the model ("direct"), its programs ("code").
    - `log_level` None: the server's choice. `elicitation`: the server may ask the user questions. `sampling`: the
      server may request answers of the agent's model. `roots`: absolute folders reported to the server. `sign_in`: the
      sign-in to a remote server.
    - `openapi`: the server is an HTTP API with this OpenAPI document (a path, a URL, or the document itself). `url` is
      then the address of the API ("": as in the document). `credentials` are by the document's security schemes, or "*"
      for any scheme: a key, a token, or `user:password`.
    """

    name: str
    command: str | Secret = ""
    args: Sequence[str | Secret] = field(default=(), repr=False)
    env: Mapping[str, str | Secret] = field(
        default_factory=dict[str, str | Secret], repr=False
    )
    cwd: str = ""
    url: str | Secret = field(default="", repr=False)
    headers: Mapping[str, str | Secret] = field(
        default_factory=dict[str, str | Secret], repr=False
    )
    transport: TransportName = "auto"
    disabled: bool = False
    connect_timeout_seconds: float = 30.0
    timeout_seconds: float = 60.0
    total_timeout_seconds: float = 300.0
    shutdown_seconds: float = 5.0
    keeps_running: bool = False
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
    allowed_callers: tuple[ToolCaller, ...] = ALL_CALLERS
    log_level: LogLevel | None = None
    era: Era = "auto"
    elicitation: bool = False
    sampling: bool = False
    roots: tuple[str, ...] = ()
    sign_in: SignInConfig = field(default_factory=SignInConfig)
    openapi: str | Mapping[str, Any] = field(default="", repr=False)
    credentials: Mapping[str, str | Secret] = field(
        default_factory=dict[str, str | Secret], repr=False
    )
    source: str = ""
    scope: Scope = ""
    written: Mapping[str, Any] = field(
        default_factory=dict[str, Any], repr=False, compare=False
    )

    def __post_init__(self) -> None:
        label = f"server {str(self.name)!r:.80}".replace("'", '"')
        said = "True or a list of names"
        expect(
            f"{label}: defer_loading",
            self.defer_loading,
            (bool, list, tuple, NoneType),
            said,
        )
        expect_fields(self, label)
        expect_callers(label, self.allowed_callers)
        limits = self.large_result_tokens
        for tokens in limits.values() if isinstance(limits, Mapping) else (limits,):
            told = "a whole number of tokens, or 0"
            expect(
                f"{label}: large_result_tokens",
                tokens,
                (int, NoneType),
                told,
                holds=lambda it: it is None or it >= 0,
            )
        for name in (
            "connect_timeout_seconds",
            "timeout_seconds",
            "total_timeout_seconds",
            "shutdown_seconds",
        ):
            expect(
                f"{label}: {name}",
                getattr(self, name),
                (int, float),
                "seconds above 0",
                holds=lambda it: it > 0,
            )
        named = {place: (name, text) for place, name, text in named_words(self.args)}
        held = {
            "args": tuple(
                _held(word, *named.get(place, ()))
                for place, word in enumerate(self.args)
            ),
            "env": {name: _held(text, name) for name, text in self.env.items()},
            "headers": {name: _held(text, name) for name, text in self.headers.items()},
            "url": _held_address(self.url),
            "credentials": {
                name: _concealed(text) for name, text in self.credentials.items()
            },
            "written": FileEntry(self.written),
        }
        for name, value in held.items():
            object.__setattr__(self, name, value)

    @property
    def address(self) -> str:
        """The server's URL with secrets in full, for requests."""
        return revealed(self.url)

    @property
    def may_sign_in(self) -> bool:
        """Return whether the server can have a sign-in: a remote MCP server, or an HTTP API whose entry configures
        one.
        """
        return bool(self.url) and (not self.openapi or self.sign_in != SignInConfig())


def _held(text: str | Secret, name: str = "", value: str = "") -> str | Secret:
    """Return the text; as a `Secret`, if a literal value under this name contains one. Its secrets are redacted from
    then on.

    `value` is the part of an argument after its name.
    """
    if isinstance(text, Secret):
        return text
    found = list(secrets_under(name, value or text))
    hide(*found)
    if found or name.lower() in _SECRET_HEADERS or without_shapes(text) != text:
        return Secret(text)
    return text


def _concealed(text: str | Secret) -> Secret:
    """Return a credential as a `Secret`; a literal one is redacted from now on."""
    if isinstance(text, Secret):
        return text
    hide(text)
    return Secret(text)


def _held_address(url: str | Secret) -> str | Secret:
    """Return the address of a server; as a `Secret`, if it contains one."""
    if isinstance(url, str) and any(secrets_in_server_address(url)):
        hide(*secrets_in_server_address(url))
        return Secret(url)
    return _held(url)


McpServer: TypeAlias = ServerConfig
"""The name of `ServerConfig` in programs: `Agent(tools=[McpServer("files", command="npx", args=[...])])`."""


@dataclass(frozen=True, slots=True)
class ServerProblem:
    """A configured server that cannot be used; `reason` is one line with the position and the fix."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServersConfig:
    """The servers to start, the unusable servers, and the files that were read, in order."""

    servers: tuple[ServerConfig, ...] = ()
    problems: tuple[ServerProblem, ...] = ()
    files: tuple[str, ...] = ()


ServersSource: TypeAlias = str | Path | Mapping[str, Any] | Sequence[ServerConfig]


def tool_prefix(server_name: str) -> str:
    """Return the server's name, with "_" for each character that a tool name cannot have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", server_name)
