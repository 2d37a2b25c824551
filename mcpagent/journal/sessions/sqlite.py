"""Sessions in one SQLite file: standard library, write-ahead log, readable by its user only."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions.protocol import Hit
from mcpagent.journal.sessions.sql_store import BUSY_SECONDS, SqlStore
from mcpagent.journal.sessions.sql_tables import Migrations, tables
from mcpagent.utilities.filesystem.file_changes import make_private
from mcpagent.utilities.text.safe_text import safe_line

_T = TypeVar("_T")

CLOSE_SECONDS = 2.0
"""How long closing waits for other processes to release leases; the end of the process also releases them."""

_WAIT_SECONDS = (0.0005, 0.002)

APPLICATION_ID = 0x6D637061
""""mcpa", by which `file` and mcpagent recognise the file (https://sqlite.org/fileformat2.html#application_id)."""

_DIALECT = {"real": "REAL", "rowless": "WITHOUT ROWID", "bytes": ""}

MIGRATIONS: Migrations = (
    tables(
        _DIALECT,
        """CREATE TABLE words(
            number INTEGER PRIMARY KEY, session TEXT NOT NULL, key TEXT NOT NULL, words TEXT NOT NULL,
            UNIQUE(session, key))""",
        # The words are stored only in the table `words`; the triggers are those of
        # https://sqlite.org/fts5.html#external_content_tables
        "CREATE VIRTUAL TABLE said USING fts5(words, content='words', content_rowid='number')",
        """CREATE TRIGGER said_more AFTER INSERT ON words BEGIN
            INSERT INTO said(rowid, words) VALUES(new.number, new.words); END""",
        """CREATE TRIGGER said_less AFTER DELETE ON words BEGIN
            INSERT INTO said(said, rowid, words) VALUES('delete', old.number, old.words); END""",
    ),
)

_of_other_processes: list[sqlite3.Connection] = []
"""Connections inherited by a fork: closing one here would release the locks of the process that opened it
(https://sqlite.org/howtocorrupt.html).
"""


class SqliteStore(SqlStore):
    """A session store in the SQLite file `path`. `durability` "full" also survives a power failure, by a sync of the
    disk at each write.
    """

    def __init__(
        self,
        path: Path,
        durability: Literal["normal", "full"],
        migrations: Migrations = MIGRATIONS,
    ) -> None:
        super().__init__(safe_line(str(path), 200), migrations)
        self.path, self._durability = path, durability
        self._connection: sqlite3.Connection | None = None
        self._alive: int | None = None
        self._alive_as = path
        self._until = math.inf
        """The time of `time.monotonic` until which the current use waits for other processes."""

    @property
    def is_open(self) -> bool:
        """Return whether the connection is open."""
        return self._connection is not None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SQL statement, and return its rows."""
        assert self._connection is not None
        return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        """Run the block as a transaction: all or nothing."""
        try:
            connection = self._opened()
            self._begin(connection, "BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                self._known = ""
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OSError) as error:
            raise SessionStoreError(f"{self.where}: {_told(error)}") from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            raise OSError(errno.EINVAL, "is no regular file")
        make_private(self.path.parent)
        # SQLite gives its other files the permissions of this one. Permissions that the umask removed must not come
        # back.
        os.close(_private(self.path))
        connection = sqlite3.connect(
            self.path,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            found = self._begin(connection, "BEGIN")
            connection.execute("COMMIT")
            if found == 0:
                _patiently(
                    lambda: connection.execute("PRAGMA auto_vacuum = INCREMENTAL"),
                    self._until,
                )
            _patiently(
                lambda: connection.execute("PRAGMA journal_mode = WAL"), self._until
            )
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(
                f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}"
            )
            if found < self.version:
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: sqlite3.Connection, how: str) -> int:
        """Begin a transaction; return the version of the tables, which must be a known one."""

        def begin() -> int:
            connection.execute(how)
            try:
                return self._require_known(
                    connection
                )  # checked every time, because a newer mcpagent may have migrated the file meanwhile
            except BaseException:
                connection.execute("ROLLBACK")
                raise

        return _patiently(begin, self._until)

    def _require_known(self, connection: sqlite3.Connection) -> int:
        """Return the version of the tables. Raises `SessionStoreError` for a newer version, and for a file of another
        program.
        """
        found, owner = (
            _pragma(connection, "user_version"),
            _pragma(connection, "application_id"),
        )
        if owner != APPLICATION_ID and (
            found
            or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        ):
            raise SessionStoreError(
                f"{self.where}: is another program's database; use another file: --set session_db=FILE"
            )
        self.require_version(found, "another file: --set session_db=FILE")
        return found

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Migrate the tables to this version in one transaction, so that others see either the old or the new version,
        even after a crash.
        """
        found = self._begin(
            connection, "BEGIN IMMEDIATE"
        )  # another process may have migrated them first
        try:
            for statement in self.statements(found):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {self.version}")
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    # -- Which processes are alive -------------------------------------------------------------------------------------

    def be_alive(self, token: str) -> None:
        """Lock a separate file, which the system unlocks when the process ends in any way."""
        if self._alive is None:
            folder = self._holders
            make_private(folder)
            self._alive_as = folder / token
            self._alive = _private(self._alive_as)
            _lock(self._alive)

    def is_alive(self, token: str) -> bool:
        """Return whether the lock file of that process is locked."""
        file = self._holders / Path(token).name
        try:
            handle = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            if not _lock(handle):
                return True
            with contextlib.suppress(OSError):
                file.unlink()
            return False
        finally:
            os.close(handle)

    @property
    def _holders(self) -> Path:
        return self.path.with_name(f"{self.path.name}-holders")

    # -- Searches and checks -------------------------------------------------------------------------------------------

    def add_words(self, session: str, key: str, words: str) -> None:
        """Make the words of an entry searchable."""
        self.execute(
            "INSERT INTO words(session, key, words) VALUES(?, ?, ?)",
            (session, key, words),
        )

    def search(self, words: Sequence[str], limit: int) -> list[Hit]:
        """Search by FTS5 and bm25. Each word is quoted, so that none is an operator; the last one is a prefix."""
        quoted = ['"{}"'.format(word.replace('"', '""')) for word in words]
        with self.transaction(writes=False):
            rows = self.execute(
                "SELECT w.session, w.key, snippet(said, 0, '', '', ' ... ', 16) FROM said"
                " JOIN words w ON w.number = said.rowid WHERE said MATCH ? ORDER BY bm25(said) LIMIT ?",
                (f"{' '.join(quoted)}*", limit),
            )
        return [Hit(*map(str, row)) for row in rows]

    def return_space(self) -> None:
        """Return free pages to the file system."""
        assert self._connection is not None
        with contextlib.suppress(
            sqlite3.OperationalError
        ):  # another process is writing; a later call can do it
            self._connection.execute("INSERT INTO said(said) VALUES('optimize')")
            self._connection.executescript(
                "PRAGMA incremental_vacuum"
            )  # `execute` would free only one page
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def attempt(self, work: Callable[[], _T], until: float) -> _T:
        """Do the work, which waits for other processes until that time; it is tried once in any case."""
        self._until = until
        return work()

    def check(self) -> list[str]:
        """Return the problems that SQLite's own check finds; a damaged index of words is rebuilt."""
        with self.transaction(writes=False):
            wrong = [str(row[0]) for row in self.execute("PRAGMA integrity_check(10)")]
        wrong = [line for line in wrong if line != "ok"]
        with self.transaction():
            try:
                self.execute(
                    "INSERT INTO said(said, rank) VALUES('integrity-check', 1)"
                )
            except sqlite3.DatabaseError as error:
                if wrong:  # if the file itself is damaged, do not check the index
                    return wrong
                self.execute("INSERT INTO said(said) VALUES('rebuild')")
                wrong.append(
                    f"the index of words was damaged ({safe_line(str(error), 80)}), and is made anew"
                )
        return wrong

    def close(self) -> None:
        """Release the leases, and close the file."""
        if self._connection is not None:
            self._until = time.monotonic() + CLOSE_SECONDS
            with contextlib.suppress(SessionStoreError):
                self.leave()
            self._connection.close()
            self._connection = None
        if self._alive is not None:
            handle, self._alive = self._alive, None
            with contextlib.suppress(OSError):
                self._alive_as.unlink()
            os.close(handle)
        self._known = ""

    def disown(self) -> None:
        """Forget the connection inherited by a fork, and close the lock file: its lock lasts as long as any process has
        it open.
        """
        if self._connection is not None:
            _of_other_processes.append(self._connection)
            self._connection = None
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None
        self._known = ""


def _patiently(work: Callable[[], _T], until: float) -> _T:
    """Retry the work while other processes lock the database, until that time of `time.monotonic`.

    SQLite's own busy handler retries less and less often, so a process that has waited long keeps waiting: with 8
    processes that write all the time, one write in a hundred took 3 s.
    """
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(random.uniform(*_WAIT_SECONDS))  # noqa: S311 - no secret


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _told(error: sqlite3.Error | OSError) -> str:
    """Return the error and its fix as text."""
    if isinstance(error, OSError):
        return f"cannot be used: {safe_line(error.strerror or str(error))}; name another file: --set session_db=FILE"
    text = safe_line(str(error), 160)
    if isinstance(error, sqlite3.OperationalError):
        if "full" in text:
            return "the disk is full; make room and go on"
        if "disk I/O error" in text:
            return "the disk takes no more (disk I/O error): full, at a limit of yours, or broken; make room and go on"
        if "readonly" in text or "unable to open" in text:
            return f"cannot be written ({text}); make it writable, or name another file: --set session_db=FILE"
        if "locked" in text:
            return f"another program has kept it locked for {BUSY_SECONDS:g} seconds; end that one"
        if "no such module: fts5" in text:
            return "this Python's SQLite has no full text search (FTS5); use another Python"
    if isinstance(error, sqlite3.DatabaseError) and (
        "not a database" in text or "malformed" in text
    ):
        return f"is no file of sessions, or a damaged one ({text}); see `mcpagent sessions doctor`, or move it away"
    return text


def _private(path: Path) -> int:
    """Open the file; only its user can access a new one, regardless of the umask."""
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    if sys.platform != "win32":
        os.fchmod(handle, 0o600)
    return handle


def _lock(handle: int) -> bool:
    """Lock a file for as long as it is open; return True if no other process had the lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
