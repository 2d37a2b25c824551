"""Validation errors of a value, and their messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mcpagent.utilities.text.safe_text import safe_line

_ROOM, _LAST_ROOM = 100, 300
"""Maximum number of characters of a value in an error: inside a sentence, and at its end."""

_NEST = 8
"""For each level of nesting, that maximum shrinks by this number, so that every level appears."""

_WEAK = ("anyOf", "oneOf")


class Misfit(NamedTuple):
    """A validation error. `path` leads to the wrong part of the value; `words` has a `{}` for each entry of `shown`.

    `branches`: the errors against each schema of an `anyOf` or `oneOf`. `right_type`: the schema that reports the error
    accepts the type of this value.
    """

    words: str
    shown: tuple[Any, ...] = ()
    path: tuple[str | int, ...] = ()
    keyword: str = ""
    right_type: bool = False
    branches: tuple[Misfit, ...] = ()

    def below(self, step: str | int) -> Misfit:
        """Return the same error with `step` (a key or an index) prepended to its path."""
        return self._replace(path=(step, *self.path))

    def text(self) -> str:
        """Return the error's text without its path."""
        last = None
        if self.words.endswith("{}"):
            last = len(self.shown) - 1
        rooms = [
            _LAST_ROOM if place == last else _ROOM for place in range(len(self.shown))
        ]
        return safe_line(
            self.words.format(*map(shown, self.shown, rooms)), _ROOM + _LAST_ROOM
        )


class UnexpectedMembers(NamedTuple):
    """Names or items that no keyword of the schema allows. In a message they appear as `'a', 'b' were`."""

    items: Sequence[Any]


def telling(misfit: Misfit) -> Misfit:
    """Return the deepest error in the most relevant branch of an `anyOf` or `oneOf`; `misfit` itself if no branch
    stands out.

    A branch is relevant if its schema accepts the type of the value, or if only a deeper part of the value does not
    fit.
    """
    path = misfit.path
    while misfit.branches:
        ranked = sorted(misfit.branches, key=_relevance)
        if len(ranked) > 1 and _relevance(ranked[0]) == _relevance(ranked[1]):
            break
        misfit = ranked[0]
        path += misfit.path
    return misfit._replace(path=path)


def _relevance(misfit: Misfit) -> tuple[Any, ...]:
    return (
        -len(misfit.path),
        [str(step) for step in misfit.path],
        misfit.keyword not in _WEAK,
        not misfit.right_type,
    )


def shown(value: Any, room: int) -> str:
    """Return the value as Python source, cut to `room` characters; the rest of a large value is never read."""
    if isinstance(value, UnexpectedMembers):
        return f"{_cut(_joined(value.items, room), room)} {'was' if len(value.items) == 1 else 'were'}"
    return _cut(_shown(value, room), room)


def _cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…"


def _shown(value: Any, room: int) -> str:
    if isinstance(value, str):
        return repr(value[: room + 1])
    if isinstance(value, list):
        return f"[{_joined(value, room - _NEST)}]"
    if isinstance(value, dict):
        return f"{{{_joined(value, room - _NEST, value)}}}"
    if isinstance(value, int) and value.bit_length() > _LAST_ROOM * 4:
        return "a number of many digits"
    return repr(value)


def _joined(
    items: Iterable[Any], room: int, values: Mapping[Any, Any] | None = None
) -> str:
    parts: list[str] = []
    for item in items:
        if room <= 0:
            break
        part = _shown(item, room)
        if values is not None:
            part += f": {_shown(values[item], room)}"
        parts.append(part)
        room -= len(part) + 2
    return ", ".join(parts)
