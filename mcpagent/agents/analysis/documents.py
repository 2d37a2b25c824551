"""Documents by name: the store that provides them, and the filter of a task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol, TypeAlias

from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line

_WORD = re.compile(r"\w+")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")

IsSeen: TypeAlias = Callable[[str], bool]
"""Predicate over a document's name: True if it is visible."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document that a search found."""

    document: str
    text: str


class Documents(Protocol):
    """A store of documents that the user of the library implements. A name may be a title or an address, and identifies
    one document.
    """

    async def names(self) -> Sequence[str]:
        """Return the names of all documents, in a stable order."""
        ...

    async def text(self, name: str) -> str:
        """Return the whole text of the document of this name."""
        ...

    async def search(
        self, query: str, limit: int, among: Sequence[str]
    ) -> Sequence[Passage]:
        """Return up to `limit` passages that match the query, best first, only from the documents `among`."""
        ...


class Texts:
    """Documents that are texts in memory, by name. A search counts the words of the query in each paragraph."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {str(name): str(text) for name, text in texts.items()}

    async def names(self) -> Sequence[str]:
        """Return the names in the caller's order."""
        return list(self._texts)

    async def text(self, name: str) -> str:
        """Return the text unchanged."""
        return self._texts[name]

    async def search(
        self, query: str, limit: int, among: Sequence[str]
    ) -> Sequence[Passage]:
        """Return paragraphs that contain words of the query: most distinct words first, then most occurrences."""
        wanted = set(_WORD.findall(query.casefold()))
        scored: list[tuple[int, int, Passage]] = []
        for name in among:
            for paragraph in filter(
                None, map(str.strip, _PARAGRAPH.split(self._texts[name]))
            ):
                counts = Counter(
                    word
                    for word in _WORD.findall(paragraph.casefold())
                    if word in wanted
                )
                if counts:
                    scored.append(
                        (-len(counts), -counts.total(), Passage(name, paragraph))
                    )
        scored.sort(
            key=lambda one: one[:2]
        )  # the sort is stable: equal paragraphs stay in order
        return [passage for _, _, passage in scored[:limit]]


def meant(names: Sequence[str], wanted: str) -> str:
    """Return the document that a model means by a name or a part of a name. Raises an `InputError` written for the
    model.
    """
    if wanted in names:
        return wanted
    plain = _plain(wanted)
    same = [name for name in names if _plain(name) == plain]
    found = same or [name for name in names if plain and plain in _plain(name)]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(safe_line(name, 80) for name in found[:5])
        raise InputError(
            f'"{safe_line(wanted, 80)}" may be {len(found)} documents: {shown}; give the whole name'
        )
    near = ", ".join(
        safe_line(name, 80) for name in get_close_matches(wanted, names[:5_000], 3)
    )
    raise InputError(
        f'There is no document "{safe_line(wanted, 80)}".{f" Near: {near}." if near else ""}'
    )


def _plain(name: str) -> str:
    return "".join(name.casefold().split())
