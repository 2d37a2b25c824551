"""Documents in one SQLite file: full text search (FTS5), fused with embeddings if an encoder is installed."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

from mcpagent.documents.document_filters import comparable, folded_name, identity
from mcpagent.documents.document_values import (
    Chunk,
    DocumentPage,
    Filter,
    MetadataValue,
    SearchHit,
    StoredDocument,
)
from mcpagent.documents.stores.chunk_vectors import ChunkVectors, installed_embedder
from mcpagent.documents.stores.indexed_words import indexed_words, query_words
from mcpagent.documents.stores.rank_fusion import CANDIDATES, fused
from mcpagent.documents.stores.sqlite_file import SqliteFile
from mcpagent.documents.stores.sqlite_filters import Condition, sql_condition
from mcpagent.search.semantic.embedding import Embedder
from mcpagent.utilities.text.safe_text import without_halves

_T = TypeVar("_T")

_MOST_RATED = 5_000
"""Maximum number of chunks that a search rates by their words. It rates more only if the rarest word is in more chunks.
"""

_DOCUMENT = "d.id, d.uri, d.title, d.digest, d.indexed_at, d.metadata"
_CHUNK = "c.id, c.text, c.section, c.page, c.position"


class SqliteDocuments:
    """A `DocumentStore` in one file, for several processes at once.

    `embedder` computes the vectors. The default is the encoder of `mcpagent[semantic]`, else the encoder of
    `mcpagent[multilingual]`. If neither is installed, or with None, the store has no vectors.
    """

    def __init__(
        self, path: Path | str, *, embedder: Embedder | Literal["auto"] | None = "auto"
    ) -> None:
        self._file = SqliteFile(Path(path))
        if embedder == "auto":
            embedder = installed_embedder()
        self._vectors = ChunkVectors(embedder) if embedder is not None else None

    async def save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        """Save the document with all its chunks, or on an error nothing. It replaces the document with the same
        address.
        """
        await asyncio.to_thread(self._save, document, tuple(chunks))

    async def remove(self, uri: str) -> bool:
        """Remove the document with this address, and its chunks. Returns whether it existed."""
        return await self._written(lambda file: _remove(file, without_halves(uri)))

    async def documents(
        self, *, offset: int = 0, limit: int = 50, where: Filter | None = None
    ) -> DocumentPage:
        """Return a page of documents in the order of their addresses: at most `limit`, after the first `offset`
        documents.
        """
        condition = sql_condition(where)
        return await self._read(lambda file: _page(file, offset, limit, condition))

    async def find(
        self, name: str, *, where: Filter | None = None
    ) -> StoredDocument | None:
        """Return the document with this address. If there is none, return a document whose address contains the name,
        else a document whose title does.
        """
        condition = sql_condition(where)
        return await self._read(
            lambda file: _find(file, without_halves(name), condition)
        )

    async def chunk(
        self, chunk_id: str, *, where: Filter | None = None
    ) -> Chunk | None:
        """Return the chunk with this ID."""
        condition = sql_condition(where)
        found = Condition(
            f"c.id = ? AND {condition.sql}",
            (without_halves(chunk_id), *condition.values),
        )
        chunks = await self._read(lambda file: _chunks(file, found))
        return next(iter(chunks), None)

    async def chunks(
        self, document_id: str, *, start: int = 0, stop: int | None = None
    ) -> Sequence[Chunk]:
        """Return the chunks of a document from position `start` to before `stop`, in order."""
        found = Condition(
            "d.id = ? AND c.position >= ?", (without_halves(document_id), max(start, 0))
        )
        if stop is not None:
            found = Condition(f"{found.sql} AND c.position < ?", (*found.values, stop))
        return await self._read(lambda file: _chunks(file, found))

    async def search(
        self, query: str, *, limit: int = 10, where: Filter | None = None
    ) -> Sequence[SearchHit]:
        """Return the chunks that match best, the best first; `ranks` has `keywords` and `embeddings`."""
        if limit < 1 or not query.strip():
            return ()
        condition = sql_condition(where) if where is not None else None
        return await self._read(
            lambda file: self._search(file, query, limit, condition)
        )

    async def close(self) -> None:
        """Close the store. Later calls raise `DocumentStoreError`."""
        await asyncio.to_thread(self._file.close)

    async def __aenter__(self) -> SqliteDocuments:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def count_chunks(self) -> tuple[int, int]:
        """Return the number of all chunks, and the number of chunks that have a vector of this store's encoder."""
        return await self._read(self._counted)

    async def add_missing_vectors(self, at_once: int = 500) -> int:
        """Encode the next `at_once` chunks without a vector of this store's encoder. Return their number; 0 if no chunk
        is left.
        """
        return await asyncio.to_thread(self._add_missing_vectors, at_once)

    # -- in a worker thread -------------------------------------------------------------------------------------------

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def run() -> _T:
            with self._file.reading() as connection:
                return work(connection)

        return await asyncio.to_thread(run)

    async def _written(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def run() -> _T:
            with self._file.writing() as connection:
                return work(connection)

        return await asyncio.to_thread(run)

    def _save(self, document: StoredDocument, chunks: Sequence[Chunk]) -> None:
        vectors: dict[str, bytes] = {}
        if self._vectors is not None:
            with self._file.reading() as connection:
                vectors = _vectors_of(connection, document.uri, self._vectors.encoder)
            # Encode before the transaction: encoding takes most of the time, and other writers should not wait for it.
            fresh = [chunk for chunk in chunks if chunk.id not in vectors]
            encoded = self._vectors.encode(fresh)
            vectors.update(
                (chunk.id, row) for chunk, row in zip(fresh, encoded, strict=True)
            )
        with self._file.writing() as connection:
            _remove(connection, without_halves(document.uri))
            number = _insert_document(connection, document)
            for chunk in chunks:
                chunk_number = _insert_chunk(connection, number, document, chunk)
                if self._vectors is not None:
                    connection.execute(
                        "INSERT INTO vectors VALUES(?, ?, ?)",
                        (chunk_number, self._vectors.encoder, vectors[chunk.id]),
                    )

    def _search(
        self,
        connection: sqlite3.Connection,
        query: str,
        limit: int,
        condition: Condition | None,
    ) -> Sequence[SearchHit]:
        count = max(CANDIDATES, limit)
        rankings = {"keywords": _by_keywords(connection, query, count, condition)}
        if self._vectors is not None:
            allowed = None
            if condition is not None:
                allowed = _allowed_chunks(connection, condition)
            rankings["embeddings"] = self._vectors.nearest(
                connection, query, count, allowed
            )
        found = fused(rankings)[:limit]
        numbers = json.dumps([item.key for item in found])
        chunks = _numbered_chunks(connection, numbers)
        return [SearchHit(chunks[item.key], item.score, item.ranks) for item in found]

    def _counted(self, connection: sqlite3.Connection) -> tuple[int, int]:
        [chunks] = connection.execute("SELECT count(*) FROM chunks").fetchone()
        encoder = self._vectors.encoder if self._vectors is not None else ""
        [encoded] = connection.execute(
            "SELECT count(*) FROM vectors WHERE encoder = ?", (encoder,)
        ).fetchone()
        return chunks, encoded

    def _add_missing_vectors(self, at_once: int) -> int:
        if self._vectors is None:
            return 0
        encoder = self._vectors.encoder
        with self._file.reading() as connection:
            rows = connection.execute(
                f"SELECT c.number, {_CHUNK}, {_DOCUMENT} FROM chunks c JOIN documents d ON d.number = c.document"  # noqa: S608
                " LEFT JOIN vectors v ON v.chunk = c.number WHERE v.encoder IS NOT ? LIMIT ?",
                (encoder, at_once),
            ).fetchall()
        chunks = [(row[0], _chunk_of(row[1:])) for row in rows]
        encoded = self._vectors.encode([chunk for _, chunk in chunks])
        with self._file.writing() as connection:
            for (number, chunk), vector in zip(chunks, encoded, strict=True):
                # Write only if the chunk still exists: another process may have removed it.
                connection.execute(
                    "INSERT OR REPLACE INTO vectors SELECT number, ?, ? FROM chunks WHERE number = ? AND id = ?",
                    (encoder, vector, number, chunk.id),
                )
        return len(chunks)


# -- writing ----------------------------------------------------------------------------------------------------------


def _insert_document(connection: sqlite3.Connection, document: StoredDocument) -> int:
    uri, title = without_halves(document.uri), without_halves(document.title)
    names = (uri, title, folded_name(uri), folded_name(title))
    number = connection.execute(
        "INSERT INTO documents(id, uri, title, folded_uri, folded_title, digest, indexed_at, metadata)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(without_halves(document.id), *names, document.digest),
            *(document.indexed_at, json.dumps(dict(document.metadata))),
        ),
    ).lastrowid
    assert number is not None
    for key, value in document.metadata.items():
        kind, stored = comparable(value)
        connection.execute(
            "INSERT INTO metadata VALUES(?, ?, ?, ?, ?)",
            (number, without_halves(key), kind, stored, identity(value)),
        )
    return number


def _insert_chunk(
    connection: sqlite3.Connection, document: int, of: StoredDocument, chunk: Chunk
) -> int:
    section = json.dumps(chunk.section)
    number = connection.execute(
        "INSERT INTO chunks(id, document, position, page, section, text) VALUES(?, ?, ?, ?, ?, ?)",
        (
            *(without_halves(chunk.id), document, chunk.position, chunk.page, section),
            without_halves(chunk.text),
        ),
    ).lastrowid
    assert number is not None
    connection.execute(
        "INSERT INTO words(rowid, heading, text) VALUES(?, ?, ?)",
        (number, *indexed_words(of.title, chunk.section, chunk.text)),
    )
    return number


def _remove(connection: sqlite3.Connection, uri: str) -> bool:
    rows = connection.execute(
        "SELECT c.number, d.title, c.section, c.text FROM chunks c JOIN documents d ON d.number = c.document"
        " WHERE d.uri = ?",
        (uri,),
    ).fetchall()
    for number, title, section, text in rows:
        # The index does not store the texts, so removing needs them: https://sqlite.org/fts5.html#the_delete_command
        connection.execute(
            "INSERT INTO words(words, rowid, heading, text) VALUES('delete', ?, ?, ?)",
            (number, *indexed_words(title, json.loads(section), text)),
        )
    return (
        connection.execute("DELETE FROM documents WHERE uri = ?", (uri,)).rowcount > 0
    )


def _vectors_of(
    connection: sqlite3.Connection, uri: str, encoder: str
) -> dict[str, bytes]:
    """Return the vectors of a document's chunks by the chunks' IDs. An ID follows from the text."""
    rows = connection.execute(
        "SELECT c.id, v.vector FROM vectors v JOIN chunks c ON c.number = v.chunk"
        " JOIN documents d ON d.number = c.document WHERE d.uri = ? AND v.encoder = ?",
        (without_halves(uri), encoder),
    )
    return dict(rows.fetchall())


# -- reading ----------------------------------------------------------------------------------------------------------


def _page(
    connection: sqlite3.Connection, offset: int, limit: int, condition: Condition
) -> DocumentPage:
    [total] = connection.execute(
        f"SELECT count(*) FROM documents d WHERE {condition.sql}",  # noqa: S608 - no text of others, see sqlite_filters
        condition.values,
    ).fetchone()
    rows = connection.execute(
        f"SELECT {_DOCUMENT} FROM documents d WHERE {condition.sql} ORDER BY d.uri LIMIT ? OFFSET ?",  # noqa: S608
        (*condition.values, max(limit, 0), max(offset, 0)),
    )
    return DocumentPage(tuple(map(_document_of, rows)), total)


def _find(
    connection: sqlite3.Connection, name: str, condition: Condition
) -> StoredDocument | None:
    wanted = folded_name(name)
    places = ["d.uri = ?"]
    values = [name]
    if wanted:
        places += ["instr(d.folded_uri, ?) > 0", "instr(d.folded_title, ?) > 0"]
        values += [wanted, wanted]
    for place, value in zip(places, values, strict=True):
        row = connection.execute(
            f"SELECT {_DOCUMENT} FROM documents d WHERE {place} AND {condition.sql} ORDER BY d.uri LIMIT 1",  # noqa: S608
            (value, *condition.values),
        ).fetchone()
        if row is not None:
            return _document_of(row)
    return None


def _chunks(connection: sqlite3.Connection, condition: Condition) -> list[Chunk]:
    rows = connection.execute(
        f"SELECT {_CHUNK}, {_DOCUMENT} FROM chunks c JOIN documents d ON d.number = c.document"  # noqa: S608
        f" WHERE {condition.sql} ORDER BY c.position",
        condition.values,
    )
    return [_chunk_of(row) for row in rows]


def _numbered_chunks(connection: sqlite3.Connection, numbers: str) -> dict[int, Chunk]:
    rows = connection.execute(
        f"SELECT c.number, {_CHUNK}, {_DOCUMENT} FROM chunks c JOIN documents d ON d.number = c.document"  # noqa: S608
        " WHERE c.number IN (SELECT value FROM json_each(?))",
        (numbers,),
    )
    return {row[0]: _chunk_of(row[1:]) for row in rows}


def _allowed_chunks(connection: sqlite3.Connection, condition: Condition) -> list[int]:
    rows = connection.execute(
        "SELECT c.number FROM chunks c WHERE c.document IN"  # noqa: S608
        f" (SELECT d.number FROM documents d WHERE {condition.sql})",
        condition.values,
    )
    return [number for (number,) in rows]


def _by_keywords(
    connection: sqlite3.Connection,
    query: str,
    count: int,
    condition: Condition | None,
) -> list[int]:
    """Return the numbers of the chunks with words of the query, the best first, by bm25."""
    words = _telling_words(connection, query)
    if not words:
        return []
    quoted = " OR ".join(f'"{word}"' for word in words)
    is_allowed = Condition("1")
    if condition is not None:
        is_allowed = Condition(
            "(SELECT c.document FROM chunks c WHERE c.number = words.rowid) IN"  # noqa: S608
            f" (SELECT d.number FROM documents d WHERE {condition.sql})",
            condition.values,
        )
    rows = connection.execute(
        f"SELECT rowid FROM words WHERE words MATCH ? AND {is_allowed.sql} ORDER BY rank, rowid LIMIT ?",  # noqa: S608
        (quoted, *is_allowed.values, count),
    )
    return [number for (number,) in rows]


def _telling_words(connection: sqlite3.Connection, query: str) -> list[str]:
    """Return the words of a query, the rarest first. Omit words that are in too many chunks to distinguish them.

    Rating a chunk by a word takes 2 us, and words that most chunks contain hardly change the order.
    """
    counted = [(_count(connection, word), word) for word in query_words(query)]
    total = 0
    found: list[str] = []
    for count, word in sorted(counted):
        total += count
        if total > _MOST_RATED and found:
            break
        found.append(word)
    return found


def _count(connection: sqlite3.Connection, word: str) -> int:
    [count] = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)",
        (f'"{word}"', _MOST_RATED),
    ).fetchone()
    return int(count)


def _document_of(row: Sequence[Any]) -> StoredDocument:
    identifier, uri, title, digest, indexed_at, metadata = row
    found: Mapping[str, MetadataValue] = json.loads(metadata)
    return StoredDocument(identifier, uri, title, digest, indexed_at, found)


def _chunk_of(row: Sequence[Any]) -> Chunk:
    identifier, text, section, page, position = row[:5]
    document = _document_of(row[5:])
    return Chunk(identifier, document, text, tuple(json.loads(section)), page, position)
