"""Documents in a folder of LanceDB, for collections whose vectors do not fit into memory: `mcpagent[lancedb]`.

One table has a row for each document and each chunk, so that saving a document is one commit. Rows are selected by keys
that are digests, so no third-party text becomes part of a condition. `document_filters.matches` evaluates filters.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from mcpagent.documents.document_filters import folded_name, matches
from mcpagent.documents.document_values import (
    Chunk,
    DocumentPage,
    Filter,
    SearchHit,
    StoredDocument,
)
from mcpagent.documents.stores.chunk_vectors import ChunkVectors, installed_embedder
from mcpagent.documents.stores.indexed_words import indexed_words, query_words
from mcpagent.documents.stores.rank_fusion import CANDIDATES, fused
from mcpagent.errors import ConfigError, DocumentStoreError
from mcpagent.search.semantic.embedding import Embedder
from mcpagent.utilities.filesystem.file_changes import alone_with, make_private
from mcpagent.utilities.text.safe_text import safe_line, without_halves

_T = TypeVar("_T")

_TABLE = "documents"
_OF_DOCUMENT = -1
"""The position of the row that is the document itself."""

_OPTIMIZE_EVERY = 500
"""Number of saved or removed documents after which the store adds their rows to its indexes."""

_OPTIMIZE_BEFORE_SEARCH = 20
"""The same number, checked before a search. It is smaller, because a search reads rows without an index one by one."""

_MOST_ROWS = 1_000_000
_READ = ("id", "document", "position", "page", "section", "text")


class LanceDocuments:
    """A `DocumentStore` in a folder. `embedder` is the same as in `SqliteDocuments`. A folder has vectors only of the
    embedder that it was created with.

    From `index_vectors_from` rows on, vectors have an index, and searches by meaning are approximate.

    Raises `ConfigError` if the extra is not installed.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        embedder: Embedder | Literal["auto"] | None = "auto",
        index_vectors_from: int = 50_000,
    ) -> None:
        if find_spec("lancedb") is None:
            raise ConfigError(
                "LanceDB is not installed; pip install 'mcpagent[lancedb]'"
            )
        self._folder = Path(folder)
        self._many = index_vectors_from
        if embedder == "auto":
            embedder = installed_embedder()
        self._vectors = ChunkVectors(embedder) if embedder is not None else None
        self._lock = threading.RLock()
        self._opened: Any = None
        self._is_closed = False
        self._changes = 0
        self._documents: tuple[int, dict[str, StoredDocument]] = (-1, {})

    async def save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        """Save the document with all its chunks, or on an error nothing. It replaces the document with the same
        address.
        """
        await self._run(lambda: self._save(document, chunks))

    async def remove(self, uri: str) -> bool:
        """Remove the document with this address, and its chunks. Returns whether it existed."""
        return await self._run(lambda: self._remove(uri))

    async def documents(
        self, *, offset: int = 0, limit: int = 50, where: Filter | None = None
    ) -> DocumentPage:
        """Return a page of documents in the order of their addresses: at most `limit`, after the first `offset`
        documents.
        """
        found = await self._run(lambda: [*self._allowed(where).values()])
        found.sort(key=lambda one: one.uri)
        first = max(offset, 0)
        return DocumentPage(tuple(found[first : first + max(limit, 0)]), len(found))

    async def find(
        self, name: str, *, where: Filter | None = None
    ) -> StoredDocument | None:
        """Return the document with this address. If there is none, return a document whose address contains the name,
        else a document whose title does.
        """
        allowed = await self._run(lambda: self._allowed(where))
        exact = allowed.get(_key(name))
        wanted = folded_name(name)
        if exact is not None or not wanted:
            return exact
        ordered = sorted(allowed.values(), key=lambda one: one.uri)
        by_uri = [one for one in ordered if wanted in folded_name(one.uri)]
        by_title = [one for one in ordered if wanted in folded_name(one.title)]
        return next(iter(by_uri + by_title), None)

    async def chunk(
        self, chunk_id: str, *, where: Filter | None = None
    ) -> Chunk | None:
        """Return the chunk with this ID."""
        condition = f"key = '{_key(chunk_id)}' AND position >= 0"
        found = await self._run(lambda: self._chunks(condition, where))
        return next(iter(found), None)

    async def chunks(
        self, document_id: str, *, start: int = 0, stop: int | None = None
    ) -> Sequence[Chunk]:
        """Return the chunks of a document from position `start` to before `stop`, in order."""

        def read() -> list[Chunk]:
            known = self._allowed(None)
            keys = [key for key, one in known.items() if one.id == document_id]
            if not keys:
                return []
            condition = f"document = '{keys[0]}' AND position >= {max(start, 0):d}"
            if stop is not None:
                condition += f" AND position < {stop:d}"
            return self._chunks(condition, None)

        return await self._run(read)

    async def search(
        self, query: str, *, limit: int = 10, where: Filter | None = None
    ) -> Sequence[SearchHit]:
        """Return the chunks that match best, the best first; `ranks` has `keywords` and `embeddings`."""
        if limit < 1 or not query.strip():
            return ()
        return await self._run(lambda: self._search(query, limit, where))

    async def close(self) -> None:
        """Close the store. Later calls raise `DocumentStoreError`."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> LanceDocuments:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- in a worker thread -------------------------------------------------------------------------------------------

    async def _run(self, work: Callable[[], _T]) -> _T:
        def run() -> _T:
            with self._lock, self._errors_named():
                return work()

        return await asyncio.to_thread(run)

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        shown = safe_line(str(self._folder), 200)
        if self._is_closed:
            raise DocumentStoreError(f"{shown}: the store is closed; open a new one")
        try:
            yield
        except DocumentStoreError:
            raise
        except (OSError, RuntimeError, ValueError, ConfigError) as error:
            # LanceDB raises these exceptions if it cannot read or write its files.
            text = safe_line(str(error), 200)
            raise DocumentStoreError(f"{shown}: {text}; use another folder") from error

    def _table(self) -> Any:
        if self._opened is None:
            import lancedb

            make_private(self._folder)
            # With an interval of 0, a reader sees the last commit of any process.
            database = lancedb.connect(
                self._folder, read_consistency_interval=timedelta(0)
            )
            with alone_with(self._folder / _TABLE):
                try:
                    self._opened = database.open_table(_TABLE)
                except ValueError:
                    self._opened = self._created(database)
        return self._opened

    def _created(self, database: Any) -> Any:
        import pyarrow as pa
        from lancedb.index import FTS

        texts = ("key", "id", "document", "section", "text", "heading", "words")
        fields = [pa.field(name, pa.string()) for name in texts]
        fields += [pa.field(name, pa.int64()) for name in ("position", "page")]
        if self._vectors is not None:
            width = self._vectors.rows(["width"]).shape[1]
            vector = pa.list_(pa.float32(), width)
            fields.append(pa.field(_vector_column(self._vectors), vector))
        table = database.create_table(_TABLE, schema=pa.schema(fields))
        for column in ("heading", "words"):
            table.create_index(column, config=FTS(remove_stop_words=False))
        return table

    def _save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        rows = [_document_row(document), *map(_chunk_row, chunks)]
        if len({row["key"] for row in rows}) < len(rows):
            raise DocumentStoreError(
                f"{safe_line(document.uri, 200)}: two chunks have one ID; give each its own"
            )
        table = self._table()
        if self._vectors is not None and self._has_vectors(table):
            column = _vector_column(self._vectors)
            width = table.schema.field(column).type.list_size
            vectors = [[0.0] * width, *self._vectors.rows_of(chunks).tolist()]
            for row, vector in zip(rows, vectors, strict=True):
                row[column] = vector
        import pyarrow as pa

        merge = table.merge_insert("key").when_matched_update_all()
        merge = merge.when_not_matched_insert_all().when_not_matched_by_source_delete(
            f"document = '{_key(document.uri)}'"
        )
        merge.execute(pa.Table.from_pylist(rows, schema=table.schema))
        self._changed(table)

    def _remove(self, uri: str) -> bool:
        key = _key(uri)
        if key not in self._allowed(None):
            return False
        table = self._table()
        table.delete(f"document = '{key}'")
        self._changed(table)
        return True

    def _changed(self, table: Any) -> None:
        self._changes += 1
        if self._changes >= _OPTIMIZE_EVERY:
            self._optimize(table)

    def _optimize(self, table: Any) -> None:
        """Add new rows to the indexes. If the table has become large and its vectors have no index yet, create that
        index.
        """
        table.optimize()
        self._changes = 0
        if not self._has_vectors(table) or table.count_rows() < self._many:
            return
        assert self._vectors is not None
        column = _vector_column(self._vectors)
        if not any(column in index.columns for index in table.list_indices()):
            from lancedb.index import IvfFlat

            table.create_index(column, config=IvfFlat(distance_type="dot"))

    def _has_vectors(self, table: Any) -> bool:
        return (
            self._vectors is not None
            and _vector_column(self._vectors) in table.schema.names
        )

    def _allowed(self, where: Filter | None) -> dict[str, StoredDocument]:
        """Return the documents that match the filter, by the keys of their rows."""
        table = self._table()
        version = table.version
        if self._documents[0] != version:
            rows = _selected(table, f"position = {_OF_DOCUMENT}")
            self._documents = version, {row["document"]: _read(row) for row in rows}
        known = self._documents[1]
        return {key: one for key, one in known.items() if matches(one, where)}

    def _chunks(self, condition: str, where: Filter | None) -> list[Chunk]:
        allowed = self._allowed(where)
        rows = _selected(self._table(), condition)
        found = [
            _chunk(row, allowed[row["document"]])
            for row in rows
            if row["document"] in allowed
        ]
        return sorted(found, key=lambda chunk: chunk.position)

    def _search(
        self, query: str, limit: int, where: Filter | None
    ) -> Sequence[SearchHit]:
        table, allowed = self._table(), self._allowed(where)
        if not allowed:
            return ()
        condition = "position >= 0"
        if where is not None:
            keys = ", ".join(f"'{key}'" for key in allowed)
            condition += f" AND document IN ({keys})"
        if self._changes >= _OPTIMIZE_BEFORE_SEARCH:
            self._optimize(table)
        found = self._rankings(table, query, max(CANDIDATES, limit), condition)
        rows = {row["key"]: row for ranking in found.values() for row in ranking}
        keys_found = {
            name: [row["key"] for row in ranking] for name, ranking in found.items()
        }
        best = fused(keys_found)[:limit]
        chunks = [
            _chunk(rows[one.key], allowed[rows[one.key]["document"]]) for one in best
        ]
        return [
            SearchHit(chunk, one.score, one.ranks)
            for chunk, one in zip(chunks, best, strict=True)
        ]

    def _rankings(
        self, table: Any, query: str, count: int, condition: str
    ) -> dict[str, list[dict[str, Any]]]:
        """Return the best rows of each ranking: by words, and by vectors if the table has vectors."""
        found = {"keywords": _by_words(table, query, count, condition)}
        if self._vectors is not None and self._has_vectors(table):
            [asked] = self._vectors.rows([query])
            column = _vector_column(self._vectors)
            nearest = table.search(asked, vector_column_name=column).metric("dot")
            found["embeddings"] = _rows(nearest, condition, count, "_distance")
        return found

    def _close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._opened = None


def _key(name: str) -> str:
    return hashlib.sha256(without_halves(name).encode()).hexdigest()[:32]


def _vector_column(vectors: ChunkVectors) -> str:
    return f"vector_{_key(vectors.encoder)[:8]}"


def _document_row(document: StoredDocument) -> dict[str, Any]:
    about = [document.id, document.uri, document.title, document.digest]
    facts = [*map(without_halves, about), document.indexed_at, dict(document.metadata)]
    key = _key(document.uri)
    return {
        "key": _key(f"document {key}"),
        "id": without_halves(document.id),
        "document": key,
        "position": _OF_DOCUMENT,
        "page": None,
        "section": "",
        "text": json.dumps(facts),
        "heading": "",
        "words": "",
    }


def _chunk_row(chunk: Chunk) -> dict[str, Any]:
    document = chunk.document
    heading, words = indexed_words(document.title, chunk.section, chunk.text)
    return {
        "key": _key(chunk.id),
        "id": without_halves(chunk.id),
        "document": _key(document.uri),
        "position": chunk.position,
        "page": chunk.page,
        "section": json.dumps(chunk.section),
        "text": without_halves(chunk.text),
        "heading": heading,
        "words": words,
    }


def _read(row: dict[str, Any]) -> StoredDocument:
    return StoredDocument(*json.loads(row["text"]))


def _chunk(row: dict[str, Any], document: StoredDocument) -> Chunk:
    section = tuple(json.loads(row["section"]))
    return Chunk(
        row["id"], document, row["text"], section, row["page"], row["position"]
    )


def _selected(table: Any, condition: str) -> list[dict[str, Any]]:
    return _rows(table.search(), condition, _MOST_ROWS)


def _by_words(
    table: Any, query: str, count: int, condition: str
) -> list[dict[str, Any]]:
    from lancedb.query import MultiMatchQuery

    words = " ".join(query_words(query))
    if not words:
        return []
    asked = MultiMatchQuery(words, ["heading", "words"], boosts=[2.0, 1.0])
    return _rows(table.search(asked, query_type="fts"), condition, count, "_score")


def _rows(query: Any, condition: str, count: int, *scores: str) -> list[dict[str, Any]]:
    selected = query.where(condition, prefilter=True).select(["key", *_READ, *scores])
    found: list[dict[str, Any]] = selected.limit(count).to_list()
    return found
