"""Sessions in a database, in SQL for both SQLite and PostgreSQL; each of them adds its connection.

Only one thread at a time uses a store. Each method is one transaction.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from typing import Any, TypeVar

from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions.loaded_session import Holder
from mcpagent.journal.sessions.protocol import Entry, Hit, StoredSession
from mcpagent.journal.sessions.sql_tables import FIRST_VERSION, Migrations

MAX_EXPIRING = 1_000_000_000
"""Maximum characters of all entries that expire, over all sessions; beyond it, the oldest are deleted early."""

BUSY_SECONDS = 30.0
"""Maximum time that one use of the store waits for other processes."""

TIDY_SECONDS = 600.0
"""Interval of checks for expired entries in a process that uses the store."""

_T = TypeVar("_T")

_FIELDS = "key, kind, data, time, run, call, expires"

_REPLACING = (
    "ON CONFLICT(session, key) DO UPDATE SET size = excluded.size, kind = excluded.kind, data = excluded.data,"
    " time = excluded.time, run = excluded.run, call = excluded.call, expires = excluded.expires"
)

_LAST = chr(0x10FFFF)
"""A character that sorts after all others: `prefix + _LAST` sorts after every key that begins with the prefix."""

_HOLDER = (
    "SELECT h.pid, h.host, h.since, h.token FROM leases l "
    "JOIN holders h ON h.token = l.holder WHERE l.session = ?"
)


class SqlStore(ABC):
    """A `SessionStore` in one database. `where` names it in errors, without a password.

    Each process that has a lease has a row in `holders`. Its token is alive as long as the process is.
    """

    renew_seconds: float | None = None

    for_update = ""
    """SQL that is appended to a SELECT, so that no other process changes a lease until the transaction ends."""

    def __init__(self, where: str, migrations: Migrations) -> None:
        self.where, self.migrations = where, migrations
        self._known: str = ""
        """The token that identifies this process in the table `holders` (processes with open sessions). It is "" until
        the process is in that table.
        """
        self._tidied = 0.0

    @property
    def version(self) -> int:
        """The version of the tables that this code uses."""
        return FIRST_VERSION - 1 + len(self.migrations)

    def statements(self, found: int) -> list[str]:
        """Return the statements that migrate tables of version `found` to this version; 0: no tables."""
        done = 0
        if found:
            done = found - FIRST_VERSION + 1
        return list(chain.from_iterable(self.migrations[done:]))

    def require_version(self, found: int, other: str) -> None:
        """Raise `SessionStoreError` for tables of a version that this code cannot use; `other` suggests another
        location.
        """
        if found > self.version:
            raise SessionStoreError(
                f"{self.where}: was written by a newer mcpagent (tables {found}, this one knows {self.version});"
                f" update mcpagent, or use {other}"
            )
        if 0 < found < FIRST_VERSION:
            raise SessionStoreError(
                f"{self.where}: was written by mcpagent before its first release (tables {found}); use {other}"
            )

    # -- Methods that each database implements -------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Return whether there is a connection; without one, the store holds no lock."""

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement with `?` for each value, and return its rows."""

    @abstractmethod
    def transaction(self, *, writes: bool = True) -> AbstractContextManager[None]:
        """Run the block as a transaction: all or nothing. Raises `SessionStoreError` in one line for any error of the
        database.
        """

    def together(self) -> AbstractContextManager[object]:
        """Return a context in which statements are sent as a batch, without waiting for each; they return no rows."""
        return nullcontext()

    @abstractmethod
    def be_alive(self, token: str) -> None:
        """Make `is_alive` return True for this token in all processes, until this process ends in any way."""

    @abstractmethod
    def is_alive(self, token: str) -> bool:
        """Return whether the other process with this token is alive."""

    @abstractmethod
    def search(self, words: Sequence[str], limit: int) -> list[Hit]:
        """Return entries that have all the words, the best first."""

    @abstractmethod
    def add_words(self, session: str, key: str, words: str) -> None:
        """Make the words of an entry searchable."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the problems of the database itself, one line each."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; the next use opens it again."""

    @abstractmethod
    def disown(self) -> None:
        """Forget a connection inherited by a fork without a message to the database: it belongs to the parent
        process.
        """

    def signing_key(self) -> bytes | None:
        """Return the key that all workers of this database share; None if each machine has its own."""
        return None

    @abstractmethod
    def attempt(self, work: Callable[[], _T], until: float) -> _T:
        """Do the work, which may wait for other processes until the time `until` of `time.monotonic`."""

    def return_space(self) -> None:  # noqa: B027 - a server does so by itself
        """Return the disk space of deleted rows to the system."""

    # -- Leases --------------------------------------------------------------------------------------------------------

    def lease(self, session: str, owner: Holder) -> Holder | None:
        """Take the lease, also from a dead process; return None. If another living process has it, return that
        process.
        """
        with self.transaction():
            self._be_known(owner)
            self.execute(
                "INSERT INTO leases(session, holder) VALUES(?, ?) ON CONFLICT DO NOTHING",
                (session, None),
            )
            holder = self._holder(session)
            if (
                holder is not None
                and holder.token != owner.token
                and self.is_alive(holder.token)
            ):
                return holder
            self.execute(
                "UPDATE leases SET holder = ? WHERE session = ?", (owner.token, session)
            )
            if holder is not None and holder.token != owner.token:
                self._forget_holder(holder.token)
        self.tidy_sometimes()
        return None

    def release(self, session: str, owner: Holder) -> None:
        """Release the lease, if `owner` has it."""
        if self.is_open:
            with self.transaction():
                self.execute(
                    "DELETE FROM leases WHERE session = ? AND holder = ?",
                    (session, owner.token),
                )

    def join(self, owner: Holder) -> None:
        """Make this process known to others, even before it has a lease."""
        with self.transaction():
            self._be_known(owner)

    def has(self, token: str) -> bool:
        """Return whether another process with this token is alive."""
        with self.transaction(writes=False):
            return self.is_alive(token)

    def dead_holders(self, owner: Holder) -> list[Holder]:
        """Return the processes that ended without releasing their leases, and remove them."""
        with self.transaction():
            known = [
                Holder(*row)
                for row in self.execute(
                    "SELECT pid, host, since, token FROM holders ORDER BY token"
                )
            ]
            dead = [
                one
                for one in known
                if one.token != owner.token and not self.is_alive(one.token)
            ]
            for one in dead:
                self.execute("DELETE FROM leases WHERE holder = ?", (one.token,))
                self.execute("DELETE FROM holders WHERE token = ?", (one.token,))
        return dead

    def leave(self) -> None:
        """Release all leases of this process; `close` calls this while the connection is open."""
        if self._known:
            with self.transaction():
                self.execute("DELETE FROM leases WHERE holder = ?", (self._known,))
                self.execute("DELETE FROM holders WHERE token = ?", (self._known,))
        self._known = ""

    def _be_known(self, owner: Holder) -> None:
        if self._known == owner.token:
            return
        self.be_alive(owner.token)
        self.execute("DELETE FROM holders WHERE token = ?", (owner.token,))
        self.execute(
            "INSERT INTO holders(token, pid, host, since) VALUES(?, ?, ?, ?)",
            (owner.token, owner.pid, owner.host, owner.since),
        )
        self._known = owner.token

    def _holder(self, session: str) -> Holder | None:
        sql = f"SELECT holder FROM leases WHERE session = ?{self.for_update}"  # noqa: S608 - ours
        rows = self.execute(sql, (session,))
        if not rows or rows[0][0] is None:
            return None
        known = self.execute(
            "SELECT pid, host, since, token FROM holders WHERE token = ?", (rows[0][0],)
        )
        if known:
            return Holder(*known[0])
        return None

    def _forget_holder(self, token: str) -> None:
        self.execute(
            "DELETE FROM holders WHERE token = ? AND NOT EXISTS (SELECT 1 FROM leases WHERE holder = ?)",
            (token, token),
        )

    # -- Entries -------------------------------------------------------------------------------------------------------

    def append(
        self, session: str, entries: Sequence[Entry], owner: Holder | None
    ) -> bool:
        """Write all entries. Return False, without writing, if `owner` does not have the lease; None needs no lease."""
        with self.transaction():
            if owner is not None:
                self._be_known(owner)
                holder = self._holder(session)
                if holder is None or holder.token != owner.token:
                    return False
            with self.together():
                for entry in entries:
                    self._write(session, entry)
        self.tidy_sometimes()
        return True

    def _write(self, session: str, entry: Entry) -> None:
        place = (session, entry.key)
        self.execute("DELETE FROM words WHERE session = ? AND key = ?", place)
        if entry.data is None:
            self.execute("DELETE FROM entries WHERE session = ? AND key = ?", place)
            return
        self.execute(
            f"INSERT INTO entries(session, size, {_FIELDS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) {_REPLACING}",
            (
                session,
                len(entry.data),
                entry.key,
                entry.kind,
                entry.data,
                entry.time,
                entry.run,
                entry.call,
                entry.expires,
            ),
        )
        if entry.words:
            self.add_words(session, entry.key, entry.words)

    def read(self, session: str, *prefixes: str) -> StoredSession | None:
        """Return the entries whose keys begin with one of the prefixes; None if the session does not exist."""
        with self.transaction(writes=False):
            entries: list[Entry] = []
            for prefix in prefixes:
                entries += self._entries(session, prefix)
            holder = None
            if entries:
                holder = self._living(self._holder_of_reader(session), {})
        if entries:
            return StoredSession(session, entries, holder)
        return None

    def _entries(self, session: str, prefix: str) -> list[Entry]:
        rows = self.execute(
            f"SELECT {_FIELDS} FROM entries WHERE session = ? AND key >= ? AND key < ?"  # noqa: S608 - names of ours
            " AND (expires = 0 OR expires > ?)",
            (session, prefix, prefix + _LAST, time.time()),
        )
        return [_entry(row) for row in rows]

    def _holder_of_reader(self, session: str) -> Holder | None:
        rows = self.execute(_HOLDER, (session,))
        if rows:
            return Holder(*rows[0])
        return None

    def _living(self, holder: Holder | None, alive: dict[str, bool]) -> Holder | None:
        """Return the holder if its process is alive, else None; `alive` caches the answers."""
        if holder is None or holder.token == self._known:
            return holder
        if holder.token not in alive:
            alive[holder.token] = self.is_alive(holder.token)
        if alive[holder.token]:
            return holder
        return None

    def list(self) -> list[StoredSession]:
        """Return every session, with the entries whose keys begin with `info/`."""
        found: dict[str, list[Entry]] = {}
        alive: dict[str, bool] = {}
        with self.transaction(writes=False):
            # An index covers exactly these keys ("0" follows "/"), so the condition is written out.
            covered = "key >= 'info/' AND key < 'info0'"
            query = f"SELECT session, {_FIELDS} FROM entries WHERE {covered}"  # noqa: S608 - ours
            rows = self.execute(query)
            for session, *row in rows:
                found.setdefault(session, []).append(_entry(row))
            held = self.execute(
                "SELECT l.session, h.pid, h.host, h.since, h.token FROM leases l JOIN holders h ON h.token = l.holder"
            )
            holders = {
                session: self._living(Holder(*row), alive) for session, *row in held
            }
        return [
            StoredSession(session, entries, holders.get(session))
            for session, entries in found.items()
        ]

    def delete(self, session: str) -> None:
        """Delete all entries of a session, and its lease."""
        with self.transaction():
            for table in ("entries", "words", "leases"):
                self.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - names of ours
        self.return_space()

    def size(self, prefix: str) -> tuple[int, int]:
        """Return the number of entries whose keys begin with the prefix, and their total characters."""
        with self.transaction(writes=False):
            count, size = self.execute(
                "SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE key >= ? AND key < ?",
                (prefix, prefix + _LAST),
            )[0]
        return int(count), int(size)

    # -- Retention -----------------------------------------------------------------------------------------------------

    def tidy_sometimes(self) -> None:
        """Call `tidy` if it was not called for a while."""
        if time.monotonic() - self._tidied >= TIDY_SECONDS or self._tidied == 0.0:
            self._tidied = time.monotonic()
            with suppress(SessionStoreError):  # a later call can do it
                self.tidy()

    def tidy(self, most: int = MAX_EXPIRING) -> None:
        """Delete expired entries.

        If the remaining entries with an expiry exceed `most` characters together, delete those that expire first.
        """
        dropped = 0
        with self.transaction():
            rows = self.execute(
                "SELECT session, key, size, expires FROM entries WHERE expires > 0 ORDER BY expires DESC"
            )
            room, now = most, time.time()
            for session, key, size, expires in rows:
                room -= size
                if expires > now and room >= 0:
                    continue
                self.execute(
                    "DELETE FROM entries WHERE session = ? AND key = ?", (session, key)
                )
                dropped += 1
        if dropped:
            self.return_space()


def _entry(row: Sequence[Any]) -> Entry:
    key, kind, data, moment, run, call, expires = row
    return Entry(
        str(key),
        str(kind),
        str(data),
        float(moment),
        str(run),
        str(call),
        expires=float(expires),
    )
