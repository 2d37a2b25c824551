"""Sessions in a database, in SQL for both SQLite and PostgreSQL; each adds its own connection.

One thread at a time uses a store. Each method is one transaction.
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
"""Characters of entries that expire, over all sessions; beyond this the oldest are dropped before their time."""

BUSY_SECONDS = 30.0
"""The total time that one use of the store waits for other processes."""

TIDY_SECONDS = 600.0
"""Interval of checks for expired entries, in a process that uses the store."""

_T = TypeVar("_T")

_FIELDS = "key, kind, data, time, run, call, expires"

_REPLACING = (
    "ON CONFLICT(session, key) DO UPDATE SET size = excluded.size, kind = excluded.kind, data = excluded.data,"
    " time = excluded.time, run = excluded.run, call = excluded.call, expires = excluded.expires"
)

_LAST = chr(0x10FFFF)
"""Sorts after every character of a key, so `prefix + _LAST` is after every key that begins with the prefix."""

_HOLDER = (
    "SELECT h.pid, h.host, h.since, h.token FROM leases l "
    "JOIN holders h ON h.token = l.holder WHERE l.session = ?"
)


class SqlStore(ABC):
    """A `SessionStore` over one database. `where` names it in errors, without a password.

    A process that has a lease has a row in `holders`. Its token is alive as long as the process is.
    """

    renew_seconds: float | None = None

    for_update = ""
    """SQL after a SELECT, so that no other process changes a lease until the transaction ends."""

    def __init__(self, where: str, migrations: Migrations) -> None:
        self.where, self.migrations = where, migrations
        self._known: str = ""
        """The token of this process, once it is in `holders`."""
        self._tidied = 0.0

    @property
    def version(self) -> int:
        """The version of the tables that this code knows."""
        return FIRST_VERSION - 1 + len(self.migrations)

    def statements(self, found: int) -> list[str]:
        """Return the statements that make the tables of this version from those of version `found`; 0: no tables."""
        done = 0
        if found:
            done = found - FIRST_VERSION + 1
        return list(chain.from_iterable(self.migrations[done:]))

    def require_version(self, found: int, other: str) -> None:
        """Raise `SessionStoreError` for tables that this code cannot use; `other` names a place to use instead."""
        if found > self.version:
            raise SessionStoreError(
                f"{self.where}: was written by a newer mcpagent (tables {found}, this one knows {self.version});"
                f" update mcpagent, or use {other}"
            )
        if 0 < found < FIRST_VERSION:
            raise SessionStoreError(
                f"{self.where}: was written by mcpagent before its first release (tables {found}); use {other}"
            )

    # -- parts that each database implements-------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """True if there is a connection; without one, the store holds no lock."""

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement, `?` for each value, and return its rows."""

    @abstractmethod
    def transaction(self, *, writes: bool = True) -> AbstractContextManager[None]:
        """Run all that is inside, or nothing. Raise `SessionStoreError` in one line for any error of the database."""

    def together(self) -> AbstractContextManager[object]:
        """Return a context in which statements are sent as a batch, without waiting for each; they return no rows."""
        return nullcontext()

    @abstractmethod
    def be_alive(self, token: str) -> None:
        """Make `is_alive` of this token true everywhere until the process ends in any way."""

    @abstractmethod
    def is_alive(self, token: str) -> bool:
        """Return whether the process with this token lives; asked of other processes only."""

    @abstractmethod
    def search(self, words: Sequence[str], limit: int) -> list[Hit]:
        """Return entries that have all the words, the best first."""

    @abstractmethod
    def add_words(self, session: str, key: str, words: str) -> None:
        """Make the words of an entry searchable."""

    @abstractmethod
    def check(self) -> list[str]:
        """Return the faults of the database itself, a line each."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; the next use opens it again."""

    @abstractmethod
    def disown(self) -> None:
        """Forget the connection that a fork has copied, without a word to the database: it is the other process's."""

    def signing_key(self) -> bytes | None:
        """Return the key that all workers of this database share; None if each machine has its own."""
        return None

    @abstractmethod
    def attempt(self, work: Callable[[], _T], until: float) -> _T:
        """Do the work, which waits for other processes until that moment of `time.monotonic` in all."""

    def return_space(self) -> None:  # noqa: B027 - a server does so by itself
        """Give the space of dropped rows back to the system."""

    # -- leases -------------------------------------------------------------------------------------------------------

    def lease(self, session: str, owner: Holder) -> Holder | None:
        """Take the lease, also from a dead process. Return the other living process that has it, else None."""
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
        """Give the lease back, if `owner` has it."""
        if self.is_open:
            with self.transaction():
                self.execute(
                    "DELETE FROM leases WHERE session = ? AND holder = ?",
                    (session, owner.token),
                )

    def join(self, owner: Holder) -> None:
        """Make this process known, also before it has a lease."""
        with self.transaction():
            self._be_known(owner)

    def has(self, token: str) -> bool:
        """Return whether another process with this token is alive."""
        with self.transaction(writes=False):
            return self.is_alive(token)

    def dead_holders(self, owner: Holder) -> list[Holder]:
        """Return processes that ended without giving back their leases, and drop these."""
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

    # -- entries ------------------------------------------------------------------------------------------------------

    def append(
        self, session: str, entries: Sequence[Entry], owner: Holder | None
    ) -> bool:
        """Write all of the entries. Return False, and write none, if `owner` has no lease; None needs none."""
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
        """Return the entries whose key begins with one of the prefixes, or None."""
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
        """Return the holder if it lives; `alive` remembers the answers."""
        if holder is None or holder.token == self._known:
            return holder
        if holder.token not in alive:
            alive[holder.token] = self.is_alive(holder.token)
        if alive[holder.token]:
            return holder
        return None

    def list(self) -> list[StoredSession]:
        """Return every session with its entries whose key begins with `info/`."""
        found: dict[str, list[Entry]] = {}
        alive: dict[str, bool] = {}
        with self.transaction(writes=False):
            # An index covers just these keys ("0" follows "/"), so they are written out.
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
        """Drop all entries of a session, and its lease."""
        with self.transaction():
            for table in ("entries", "words", "leases"):
                self.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - names of ours
        self.return_space()

    def size(self, prefix: str) -> tuple[int, int]:
        """Return how many entries have a key that begins with the prefix, and their characters."""
        with self.transaction(writes=False):
            count, size = self.execute(
                "SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE key >= ? AND key < ?",
                (prefix, prefix + _LAST),
            )[0]
        return int(count), int(size)

    # -- retention ----------------------------------------------------------------------------------------------------

    def tidy_sometimes(self) -> None:
        """Call `tidy` if it has not run for a while."""
        if time.monotonic() - self._tidied >= TIDY_SECONDS or self._tidied == 0.0:
            self._tidied = time.monotonic()
            with suppress(SessionStoreError):  # the next look will do
                self.tidy()

    def tidy(self, most: int = MAX_EXPIRING) -> None:
        """Delete expired entries.

        If the remaining entries with an expiry date exceed `most` characters together, delete those that expire first.
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
