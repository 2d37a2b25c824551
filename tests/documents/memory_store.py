"""A document store in memory, whose filters and ranking are written a second time, as simply as possible."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from mcpagent.documents.document_values import (
    AllOf,
    AnyOf,
    Chunk,
    DocumentPage,
    Filter,
    MetadataAfter,
    MetadataBefore,
    MetadataEquals,
    MetadataIn,
    NameContains,
    SearchHit,
    StoredDocument,
    UriPrefix,
)


def plain(text: str) -> str:
    """The text without regard to case and spaces."""
    return "".join(text.casefold().split())


def matches(where: Filter | None, document: StoredDocument) -> bool:
    """Whether the filter accepts the document."""
    match where:
        case None:
            return True
        case NameContains(name):
            return any(plain(name) in plain(text) for text in (document.uri, document.title))
        case UriPrefix(prefix):
            return document.uri.startswith(prefix)
        case AllOf(filters):
            return all(matches(one, document) for one in filters)
        case AnyOf(filters):
            return any(matches(one, document) for one in filters)
        case MetadataEquals(key, value):
            return document.metadata.get(key) == value
        case MetadataIn(key, values):
            return document.metadata.get(key) in values
        case MetadataBefore(key, value):
            return key in document.metadata and _is_less(document.metadata[key], value)
        case MetadataAfter(key, value):
            return key in document.metadata and _is_less(value, document.metadata[key])


def _is_less(one: Any, other: Any) -> bool:
    return isinstance(one, str) == isinstance(other, str) and one < other


def digest(*texts: str) -> str:
    """A short hash of the texts."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def made(uri: str, text: str, title: str = "", **metadata: Any) -> tuple[StoredDocument, list[Chunk]]:
    """A document with a chunk for each paragraph; a line `# X` begins a section, `@3` a page."""
    document = StoredDocument(digest(uri), uri, title or uri, digest(text), 1_700_000_000.0, metadata)
    chunks: list[Chunk] = []
    section: tuple[str, ...] = ()
    page = None
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("# "):
            section = (paragraph[2:],)
        elif paragraph.startswith("@"):
            page = int(paragraph[1:])
        else:
            chunks.append(Chunk(digest(uri, *section, paragraph), document, paragraph, section, page, len(chunks)))
    return document, chunks


class MemoryStore:
    """The eight methods over a dict; a search counts the words that a chunk shares with the query."""

    def __init__(self, documents: Iterable[tuple[StoredDocument, list[Chunk]]] = ()) -> None:
        self.stored = {document.uri: (document, chunks) for document, chunks in documents}
        self.wheres: list[Filter | None] = []

    async def save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        self.stored[document.uri] = (document, list(chunks))

    async def remove(self, uri: str) -> bool:
        return self.stored.pop(uri, None) is not None

    async def documents(self, *, offset: int = 0, limit: int = 50, where: Filter | None = None) -> DocumentPage:
        found = self._visible(where)
        return DocumentPage(tuple(found[offset : offset + limit]), len(found))

    async def find(self, name: str, *, where: Filter | None = None) -> StoredDocument | None:
        visible = self._visible(where)
        for finds in (
            lambda it: it.uri == name,
            lambda it: name.casefold() in it.uri.casefold(),
            lambda it: name.casefold() in it.title.casefold(),
            lambda it: plain(name) in plain(it.uri) or plain(name) in plain(it.title),
        ):
            if found := [document for document in visible if finds(document)]:
                return found[0]
        return None

    async def chunk(self, chunk_id: str, *, where: Filter | None = None) -> Chunk | None:
        return next((one for one in self._chunks(where) if one.id == chunk_id), None)

    async def chunks(self, document_id: str, *, start: int = 0, stop: int | None = None) -> Sequence[Chunk]:
        own = [one for one in self._chunks(None) if one.document.id == document_id]
        return own[start:stop]

    async def search(self, query: str, *, limit: int = 10, where: Filter | None = None) -> Sequence[SearchHit]:
        self.wheres.append(where)
        words = set(re.findall(r"\w+", query.casefold()))
        scored = [
            SearchHit(chunk, len(words & set(re.findall(r"\w+", chunk.text.casefold()))))
            for chunk in self._chunks(where)
        ]
        ranked = sorted((hit for hit in scored if hit.score), key=lambda hit: -hit.score)
        return [replace(hit, ranks={"words": rank}) for rank, hit in enumerate(ranked[:limit], 1)]

    async def close(self) -> None:
        self.stored.clear()

    async def __aenter__(self) -> MemoryStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _visible(self, where: Filter | None) -> list[StoredDocument]:
        documents = (document for document, _ in self.stored.values())
        return sorted((one for one in documents if matches(where, one)), key=lambda one: one.uri)

    def _chunks(self, where: Filter | None) -> list[Chunk]:
        return [chunk for document, chunks in self.stored.values() if matches(where, document) for chunk in chunks]


CLIMATE: Mapping[str, str] = {
    "climate/sea.md": (
        "# Sea level\n\n@3\n\nThe sea rises 4 mm a year.\n\nTides hide the rise.\n\n# Storms\n\nStorms grow."
    ),
    "climate/air.md": "# Air\n\nThe air warms 0.2 degrees a decade.",
    "board/secret.md": "# Plans\n\nThe sea wall costs 9 million.",
}


def climate() -> MemoryStore:
    """Two open documents, and one that only the board may see."""
    return MemoryStore(made(uri, text, uri.split("/")[1][:-3].title()) for uri, text in CLIMATE.items())
