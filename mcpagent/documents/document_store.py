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
    """A store of documents and their chunks. With a filter, methods behave as if all other documents did not exist."""

    async def save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        """Save the document with all its chunks, or on an error nothing. It replaces the document with the same
        address.
        """
        ...

    async def remove(self, uri: str) -> bool:
        """Remove the document with this address, and its chunks. Returns whether it existed."""
        ...

    async def documents(
        self, *, offset: int = 0, limit: int = 50, where: Filter | None = None
    ) -> DocumentPage:
        """Return a page of documents in the order of their addresses: at most `limit`, after the first `offset`
        documents.
        """
        ...

    async def find(
        self, name: str, *, where: Filter | None = None
    ) -> StoredDocument | None:
        """Return the document with this address. If there is none, return a document whose address contains the name,
        else a document whose title does.
        """
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
