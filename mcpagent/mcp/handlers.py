"""Handlers for requests that a server may send, if the user allows them: user input, a model's answer, and folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from mcpagent.config.server_config import ServerConfig
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.utilities.python.argument_checks import expect_fields

Elicit: TypeAlias = Callable[
    [str, str, dict[str, Any]], Awaitable[dict[str, Any] | None]
]
"""Callback that asks a person for input: (server's configured name, message, schema of a flat object). None if the
person declines.
"""

Visit: TypeAlias = Callable[[str, str, str], Awaitable[bool]]
"""Callback that asks a person to open an address: (server's configured name, message, URL). False if the person
declines.
"""


class DismissedError(Exception):
    """Raised by a handler if the user dismisses the question without an answer.

    Its text is the reason for the server, if no user was asked.
    """


@dataclass(frozen=True, slots=True)
class Sampled:
    """A model's answer for a server, with the model's name."""

    text: str
    model: str


Sample: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[str | Sampled]]
"""Callback that lets a model answer for a server: (server's configured name, `sampling/createMessage` parameters) ->
its answer."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """A client behind this one that answers a server's requests itself.

    `methods` returns the methods of the requests that it answers. `send` forwards one: it receives the server's
    configured name, the SDK's request, and the server's key for it, and returns the SDK's result or its `ErrorData`.
    `sampling` returns the client's sampling capability as JSON.
    """

    methods: Callable[[], frozenset[str]]
    send: Callable[[str, Any, str], Awaitable[Any]]
    sampling: Callable[[], dict[str, Any]] = dict


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers for servers' requests. A request without a handler is refused; without `visit`, addresses are
    declined.

    `roots` are file URIs of folders that a server may know, or a function that returns them on demand. `forwarding`
    replaces the other handlers for the requests that it answers.
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    visit: Visit | None = None
    roots: tuple[str, ...] | Callable[[], Sequence[str]] = ()
    forwarding: Forwarding | None = None

    def __post_init__(self) -> None:
        expect_fields(self)

    def root_uris(self) -> Sequence[str]:
        """Return the current folders as URIs."""
        if callable(self.roots):
            return self.roots()
        return self.roots

    def within(self, config: ServerConfig) -> Handlers:
        """Return the handlers without those that the server's entry disables, such as `"elicitation": false`."""
        written = {KEY_OF_SPELLING.get(key, key) for key in config.written}
        allowed, refused = self, set[str]()
        if "elicitation" in written and not config.elicitation:
            allowed = replace(allowed, elicit=None, visit=None)
            refused.add("elicitation/create")
        if "sampling" in written and not config.sampling:
            allowed = replace(allowed, sample=None)
            refused.add("sampling/createMessage")
        if (behind := self.forwarding) is not None and refused:
            rest = replace(behind, methods=lambda: behind.methods() - refused)
            allowed = replace(allowed, forwarding=rest)
        return allowed

    def methods(self) -> frozenset[str]:
        """Return the methods of server requests that these handlers answer."""
        named = {
            "elicitation/create": self.elicit is not None,
            "sampling/createMessage": self.sample is not None,
            "roots/list": bool(self.roots),
        }
        own = frozenset(method for method, is_allowed in named.items() if is_allowed)
        if self.forwarding is not None:
            return own | self.forwarding.methods()
        return own


def folder_uris(folders: Sequence[str | Path]) -> tuple[str, ...]:
    """Return folders as URIs for `Handlers.roots`; relative paths start from the current folder."""
    return tuple(Path(folder).expanduser().absolute().as_uri() for folder in folders)
