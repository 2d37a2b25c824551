"""Open one SQLite file of documents: tables, two connections, and errors as `DocumentStoreError`."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from mcpagent.errors import ConfigError, DocumentStoreError
from mcpagent.utilities.filesystem.bounded_files import check_own
from mcpagent.utilities.filesystem.file_changes import alone_with, make_private
from mcpagent.utilities.text.safe_text import safe_line

_APPLICATION_ID = 0x6D637064
""""mcpd" (https://sqlite.org/fileformat2.html#application_id)."""

_VERSION = 1
_BUSY_SECONDS = 60.0
_MAPPED_BYTES = 1 << 30

_TABLES = """
CREATE TABLE documents(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, uri TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
    folded_uri TEXT NOT NULL, folded_title TEXT NOT NULL, digest TEXT NOT NULL, indexed_at REAL NOT NULL,
    metadata TEXT NOT NULL);
CREATE TABLE metadata(
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, key TEXT NOT NULL, kind TEXT NOT NULL,
    value, same TEXT NOT NULL, PRIMARY KEY(document, key)) WITHOUT ROWID;
CREATE TABLE chunks(
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, position INTEGER NOT NULL,
    page INTEGER, section TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX chunks_of_document ON chunks(document, position);
CREATE TABLE vectors(
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, encoder TEXT NOT NULL, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(heading, text, content='', tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO words(words, rank) VALUES('rank', 'bm25(4.0, 1.0)');
"""

_FIXES = (
    ("full", "the disk is full; make room and try again"),
    ("disk I/O error", "the disk accepts no more data; make room and try again"),
    ("readonly", "cannot be written; make it writable, or use another file"),
    ("unable to open", "cannot be opened; make it readable, or use another file"),
    (
        "locked",
        f"another program has kept it locked for {_BUSY_SECONDS:g} s; end that one",
    ),
    (
        "no such module: fts5",
        "this Python's SQLite has no full text search (FTS5); use another Python",
    ),
    ("not a database", "is no store of documents; use another file"),
    ("malformed", "is damaged; move it away and add the documents again"),
)
"""A part of SQLite's message, and the text for the user."""


class SqliteFile:
    """Opens the file on first use. Reading does not wait for a writer, in this process or another one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections: dict[str, sqlite3.Connection] = {}
        self._locks = {"read": threading.RLock(), "write": threading.RLock()}
        self._is_closed = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the file."""
        with self._transaction("read", "BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction: everything or nothing is written."""
        with self._transaction("write", "BEGIN IMMEDIATE") as connection:
            yield connection

    def close(self) -> None:
        """Close the file. Later uses raise `DocumentStoreError`."""
        with self._locks["read"], self._locks["write"]:
            self._is_closed = True
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()

    @contextlib.contextmanager
    def _transaction(self, role: str, begin: str) -> Iterator[sqlite3.Connection]:
        with self._locks[role], self._errors_named():
            connection = self._connection(role)
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        shown = safe_line(str(self.path), 200)
        try:
            yield
        except (sqlite3.Error, OSError, ConfigError) as error:
            raise DocumentStoreError(f"{shown}: {_explained(error)}") from error

    def _connection(self, role: str) -> sqlite3.Connection:
        if self._is_closed:
            raise DocumentStoreError(
                f"{safe_line(str(self.path), 200)}: the store is closed; open a new one"
            )
        if role not in self._connections:
            self._connections[role] = self._connected()
        return self._connections[role]

    def _connected(self) -> sqlite3.Connection:
        make_private(self.path.parent)
        check_own(self.path)
        # SQLite gives its other files the permissions of this file.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            self.path,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        # A lock is necessary: SQLite does not wait for other processes when it changes to write-ahead logging.
        with alone_with(self.path):
            owner = _pragma(connection, "application_id")
            if (
                owner == 0
                and not connection.execute("SELECT 1 FROM sqlite_master").fetchone()
            ):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(
                    f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {_APPLICATION_ID};"
                    f" PRAGMA user_version = {_VERSION}; COMMIT;"
                )
        self._require_known(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")

    def _require_known(self, connection: sqlite3.Connection) -> None:
        shown = safe_line(str(self.path), 200)
        if _pragma(connection, "application_id") != _APPLICATION_ID:
            raise DocumentStoreError(
                f"{shown}: is another program's database; use another file"
            )
        if _pragma(connection, "user_version") > _VERSION:
            raise DocumentStoreError(
                f"{shown}: a newer mcpagent wrote it; update mcpagent"
            )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _explained(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be used: {safe_line(error.strerror or str(error))}; use another file"
    text = safe_line(str(error), 160)
    for part, explanation in _FIXES:
        if part in text:
            return explanation
    return text
