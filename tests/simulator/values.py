"""What the simulated providers have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass
class Refusal(Exception):  # noqa: N818 - a provider refuses
    """An answer with an error status."""

    status: int
    message: str
    code: str = "invalid_request_error"


@dataclass(frozen=True)
class View:
    """What the model sees of a request: the tools it knows the schema of, and the texts in order.

    `answered` counts its own turns so far. With `must_answer` it may not call. `output` is the schema that it is held
    to, `must_call` says that words are no answer: "" or the name of the only tool that may be called, "any" for any.
    """

    shown: Mapping[str, Mapping[str, Any]]
    texts: Sequence[str]
    answered: int
    must_answer: bool = False
    output: Mapping[str, Any] | None = None
    must_call: str = ""


Said: TypeAlias = str | tuple[str, Mapping[str, Any]]
"""A text, or a call: name and arguments. Calls to PROVIDER_SEARCH and PROVIDER_RUN are run on the provider's side, at
once; the latter's arguments are the `tool` (web_search, code_execution, ...) and its `input`."""

PROVIDER_SEARCH = "#search"
PROVIDER_RUN = "#run"
CITED = "#cited"
"""A call whose `text` is said with a citation of the page that a search found."""

THEIRS = (PROVIDER_SEARCH, PROVIDER_RUN, CITED)
PAGE = {"url": "https://example.org/rain", "title": "Rain today"}


def matching(tools: Mapping[str, Mapping[str, Any]], query: str) -> list[str]:
    """What the provider's search finds: tools with one of the words in name or description, at most five.

    A tool whose very name was asked for comes first.
    """
    words = query.lower().split()
    texts = {name: f"{name} {tool.get('description', '')}".lower() for name, tool in tools.items()}
    found = [name for name, text in texts.items() if any(word in text for word in words)]
    return sorted(found, key=lambda name: name != query)[:5]


Brain: TypeAlias = Callable[[View], Sequence[Said]]


@dataclass(frozen=True)
class Unit:
    """A piece of a rendered prompt; `breakpoint` where the cache is written and looked up."""

    text: str
    breakpoint: bool = False

    @property
    def tokens(self) -> int:
        return -(-len(self.text) // 4)


@dataclass(frozen=True)
class Counted:
    """One request's tokens. `definitions` are those of tool definitions, in `tools` or in the history."""

    total: int
    read: int
    written: int
    definitions: int
    output: int


@dataclass
class Log:
    """What the simulator was asked: bodies in order, what each cost, and which were refused."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    blind_calls: list[str] = field(default_factory=list)


def rendered(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def require(condition: object, message: str, code: str = "invalid_request_error") -> None:
    if not condition:
        raise Refusal(400, message, code)
