"""What a server may ask of us, if the user allows it: input from a person, an answer of our model, our folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mcpagent.python.argument_checks import expect_fields

Elicit: TypeAlias = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Asks a person: (server's configured name, message, schema of the flat object wanted). None: they decline."""

Visit: TypeAlias = Callable[[str, str, str], Awaitable[bool]]
"""Asks a person to open an address by themselves: (server's configured name, message, URL). False: they decline."""


class DismissedError(Exception):
    """Raised by a handler: the person takes the question away without an answer."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A model's answer for a server, with the name of the model that gave it."""

    text: str
    model: str


Sample: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[str | Sampled]]
"""Has our model answer for a server: (server's configured name, `sampling/createMessage` parameters) -> its answer."""


@dataclass(frozen=True, slots=True)
class Handlers:
    """The handlers that are allowed; what is None is refused, an address without `visit` declined.

    `roots` are file URIs of folders a server may know, or give them when it asks.
    """

    elicit: Elicit | None = None
    sample: Sample | None = None
    visit: Visit | None = None
    roots: tuple[str, ...] | Callable[[], Sequence[str]] = ()

    def __post_init__(self) -> None:
        expect_fields(self)

    def root_uris(self) -> Sequence[str]:
        """The folders as they are now."""
        return self.roots() if callable(self.roots) else self.roots

    def methods(self) -> frozenset[str]:
        """The server requests these answer."""
        named = {
            "elicitation/create": self.elicit is not None,
            "sampling/createMessage": self.sample is not None,
            "roots/list": bool(self.roots),
        }
        return frozenset(method for method, is_allowed in named.items() if is_allowed)


def folder_uris(folders: Sequence[str | Path]) -> tuple[str, ...]:
    """As `Handlers.roots` has them; relative ones from the current folder."""
    return tuple(Path(folder).expanduser().absolute().as_uri() for folder in folders)
