"""Index files, folders and web pages: read new and changed sources, remove documents of deleted files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from mcpagent.documents.chunking import chunks_of, document_id, document_title
from mcpagent.documents.document_reading.reading_files import text_of_file
from mcpagent.documents.document_sources import (
    Content,
    Source,
    content_of,
    files_of,
    is_gone,
    source_of,
)
from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_values import Chunk, StoredDocument, UriPrefix
from mcpagent.errors import DocumentReadError

if TYPE_CHECKING:
    import httpx2

READER = 1
"""Version of the code that reads and chunks documents. Each document has it as metadata; documents of another version
are read again.
"""

_PAGE = 1_000
_CONNECT_SECONDS = 15.0

Outcome: TypeAlias = Literal[
    "added", "changed", "unchanged", "skipped", "failed", "removed"
]
"""The result for one document. `skipped`: a file in a folder that is no document, such as a picture."""


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """Progress of a run: `done` of `total` files, and the number of `chunks` written. `uri` is the address of the last
    document.
    """

    done: int
    total: int
    chunks: int
    uri: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of one run: the number of documents by outcome, the chunks written, and the errors."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    removed: int = 0
    chunks: int = 0
    failures: tuple[DocumentReadError, ...] = ()


async def index_documents(
    store: DocumentStore,
    named: Iterable[str | Path],
    *,
    on_progress: Callable[[IndexProgress], None] | None = None,
    client: httpx2.AsyncClient | None = None,
) -> IndexReport:
    """Index files, folders and addresses. A file is not read again if its size and its time are unchanged.

    Each document is saved in a separate transaction, so a run that is killed loses at most one document. Documents of a
    folder whose files no longer exist are removed. Errors of unreadable files are in `failures`; the other files are
    indexed. Raises `InputError` for a path that does not exist, and `DocumentStoreError`.
    """
    roots = [source_of(one) for one in named]
    indexing = _Indexing(store, on_progress)
    async with _client_for(roots, client) as opened:
        for root in roots:
            files = await asyncio.to_thread(list, files_of(root))
            indexing.total += len(files)
            known = await _known(store, root)
            for file in files:
                await indexing.index(file, known.get(file.uri), opened)
            gone = await asyncio.to_thread(_gone, known, files)
            indexing.total += len(gone)
            for uri in gone:
                await store.remove(uri)
                indexing.note(uri, "removed")
    return indexing.report


class _Indexing:
    """State of one indexing run. It counts the outcomes and reports each outcome."""

    def __init__(
        self,
        store: DocumentStore,
        on_progress: Callable[[IndexProgress], None] | None,
    ) -> None:
        self._store = store
        self._on_progress = on_progress
        self.total = 0
        self._done = 0
        self.report = IndexReport()

    async def index(
        self,
        source: Source,
        known: StoredDocument | None,
        client: httpx2.AsyncClient | None,
    ) -> None:
        """Read a source that has changed, and save its document."""
        if known is not None and _is_current(source, known):
            self.note(source.uri, "unchanged")
            return
        try:
            content = await content_of(source, known, client)
            outcome, chunks = await self._save(source, content)
        except DocumentReadError as error:
            if error.reason == "unknown-kind" and not source.is_named:
                self.note(source.uri, "skipped")
                return
            self.report = replace(self.report, failures=(*self.report.failures, error))
            self.note(source.uri, "failed")
            return
        self.note(source.uri, outcome, chunks)

    async def _save(self, source: Source, content: Content) -> tuple[Outcome, int]:
        if content.data is None:
            return "unchanged", 0
        digest = hashlib.sha256(content.data).hexdigest()
        # Look the document up again, since another process may have indexed it in the meantime.
        before = await _stored(self._store, source.uri)
        if before is not None and _is_of(before, digest):
            await self._touch(before, content)
            return "unchanged", 0
        document, chunks = await asyncio.to_thread(_read, source, content, digest)
        await self._store.save(document, chunks)
        return ("added" if before is None else "changed"), len(chunks)

    async def _touch(self, before: StoredDocument, content: Content) -> None:
        """Store the new state, such as the file's time, of unchanged content, so that the next run does not read it
        again.
        """
        metadata = {**before.metadata, **dict(content.state)}
        if metadata != before.metadata:
            touched = replace(before, metadata=metadata)
            chunks = await self._store.chunks(before.id)
            await self._store.save(
                touched, [replace(chunk, document=touched) for chunk in chunks]
            )

    def note(self, uri: str, outcome: Outcome, chunks: int = 0) -> None:
        """Count an outcome, and report it."""
        self._done += 1
        counted = {outcome: getattr(self.report, outcome) + 1}
        self.report = replace(
            self.report, chunks=self.report.chunks + chunks, **counted
        )
        if self._on_progress is not None:
            self._on_progress(
                IndexProgress(self._done, self.total, self.report.chunks, uri, outcome)
            )


def _read(
    source: Source, content: Content, digest: str
) -> tuple[StoredDocument, Sequence[Chunk]]:
    assert content.data is not None
    text = text_of_file(content.data, source.uri if source.url else str(source.path))
    document = StoredDocument(
        document_id(source.uri),
        source.uri,
        document_title(text) or source.name,
        digest,
        time.time(),
        {"kind": text.kind, "reader": READER, **dict(content.state)},
    )
    return document, chunks_of(document, text)


def _is_current(source: Source, known: StoredDocument) -> bool:
    return known.metadata.get("reader") == READER and source.is_unchanged(known)


def _is_of(document: StoredDocument, digest: str) -> bool:
    return document.digest == digest and document.metadata.get("reader") == READER


async def _stored(store: DocumentStore, uri: str) -> StoredDocument | None:
    """Return the document with exactly this address, or None. It is the first of the documents whose address begins
    with this one, since a store sorts by address.
    """
    page = await store.documents(limit=1, where=UriPrefix(uri))
    return next((one for one in page.documents if one.uri == uri), None)


async def _known(store: DocumentStore, root: Source) -> dict[str, StoredDocument]:
    """Return the documents of a root by their addresses."""
    if root.path is None or not root.path.is_dir():
        found = await _stored(store, root.uri)
        return {} if found is None else {found.uri: found}
    known: dict[str, StoredDocument] = {}
    where = UriPrefix(root.uri.rstrip("/") + "/")
    while True:
        page = await store.documents(offset=len(known), limit=_PAGE, where=where)
        known.update((one.uri, one) for one in page.documents)
        if len(page.documents) < _PAGE:
            return known


def _gone(known: dict[str, StoredDocument], files: Sequence[Source]) -> list[str]:
    found = {file.uri for file in files}
    return [
        uri for uri, document in known.items() if uri not in found and is_gone(document)
    ]


@contextlib.asynccontextmanager
async def _client_for(
    roots: Sequence[Source], client: httpx2.AsyncClient | None
) -> AsyncIterator[httpx2.AsyncClient | None]:
    """Yield the caller's client, else a new one if an address has to be read."""
    if client is not None or not any(root.url for root in roots):
        yield client
        return
    import httpx2

    async with httpx2.AsyncClient(timeout=_CONNECT_SECONDS) as opened:
        yield opened


async def watch_documents(
    store: DocumentStore,
    named: Sequence[str | Path],
    *,
    on_report: Callable[[IndexReport], None],
    on_progress: Callable[[IndexProgress], None] | None = None,
    seconds: float = 2.0,
) -> None:
    """Repeat the indexing until the caller cancels it. `on_report` receives the report of each run.

    Between two runs it waits `seconds`. An unchanged file costs one `stat` in each run.
    """
    while True:
        on_report(await index_documents(store, named, on_progress=on_progress))
        await asyncio.sleep(seconds)
