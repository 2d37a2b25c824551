"""The protocol of document stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mcpagent.documents.document_values import (
    Chunk,
    DocumentPage,
    Filter,
    SearchHit,
    StoredDocument,
)


class DocumentStore(Protocol):
    """A store of documents and their chunks. What a filter excludes is treated as missing."""

    async def save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        """Add the document, or replace the one with its address, with all its chunks, or change nothing."""
        ...

    async def remove(self, uri: str) -> bool:
        """Remove the document with this address, and its chunks. Returns whether it existed."""
        ...

    async def documents(
        self, *, offset: int = 0, limit: int = 50, where: Filter | None = None
    ) -> DocumentPage:
        """Return documents in the order of their addresses."""
        ...

    async def find(
        self, name: str, *, where: Filter | None = None
    ) -> StoredDocument | None:
        """Return the document with this address, else one whose address, then title contains the name."""
        ...

    async def chunk(
        self, chunk_id: str, *, where: Filter | None = None
    ) -> Chunk | None:
        """Return the chunk with this ID."""
        ...

    async def chunks(
        self, document_id: str, *, start: int = 0, stop: int | None = None
    ) -> Sequence[Chunk]:
        """Return the chunks of a document from position `start` to before `stop`, in order."""
        ...

    async def search(
        self, query: str, *, limit: int = 10, where: Filter | None = None
    ) -> Sequence[SearchHit]:
        """Return the chunks that match best, the best first."""
        ...

    async def close(self) -> None:
        """Close the store. Later calls raise `StoreError`."""
        ...
