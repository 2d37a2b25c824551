"""The rows of sessions in a database, in SQL that SQLite and PostgreSQL both read; each of them adds what is its own.

A backend is used by one thread at a time. Each method is one transaction: it has happened as a whole, or not at all.
"""

from __future__ import annotations

import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from mcpagent.errors import SessionBusyError, SessionStoreError
from mcpagent.sessions.kept import Found, Holder, SessionInfo
from mcpagent.text.safe_text import safe_line

MAX_FOUND = 100
_ALL = 1_000_000_000

OUTPUTS_KEPT_SECONDS = 7 * 24 * 3600.0
"""So long what was set aside is kept after it was set aside last."""

_T = TypeVar("_T")

Migrations: TypeAlias = Sequence[Sequence[str]]
"""The statements that make each version of the tables of the one before it; the first one makes them."""


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message as it is kept: JSON, the words in it that are searched, and whether it is an answer without calls."""

    message: str
    words: str
    is_answer: bool


@dataclass(frozen=True, slots=True)
class Rows:
    """A `SessionChange` as it is written: JSON texts, and the columns of the session itself."""

    keep: int
    messages: tuple[MessageRow, ...]
    steps: Mapping[int, str]
    calls: Mapping[str, str | None]
    only_calls: bool
    values: Mapping[str, str | None]
    columns: Mapping[str, Any]
    title: str
    ended: Mapping[str, str] = field(default_factory=dict[str, str])
    """The durable run that ends with this change, by its ID."""


@dataclass(frozen=True, slots=True)
class OutputRow:
    """A result that was set aside, as it is kept: its text, and its images and other blocks as JSON."""

    handle: str
    tool: str
    output: str
    images: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A durable run as its session has it: the run under way in the session, as JSON; the end of this one, as JSON.

    `updated` is the time of the last write of the session.
    """

    under_way: str = ""
    is_cancelled: bool = False
    ended: str | None = None
    updated: float = 0.0


@dataclass(frozen=True, slots=True)
class ReadRows:
    """A session as it was read."""

    info: SessionInfo
    messages: tuple[str, ...]
    steps: Mapping[int, str]
    calls: Mapping[str, str]
    values: Mapping[str, str]


_INFO = """
    SELECT s.id, s.title, s.created, s.updated, s.folder, s.model,
        (SELECT count(*) FROM messages m WHERE m.session = s.number AND m.is_answer = 1),
        (SELECT count(*) FROM messages m WHERE m.session = s.number),
        s.tokens, s.dollars, s.cost_known, s.is_named, h.token, h.pid, h.host, h.since
    FROM sessions s LEFT JOIN holders h ON h.token = s.holder
"""


_HOLDING = """
    SELECT s.number, h.token, h.pid, h.host, h.since FROM sessions s LEFT JOIN holders h ON h.token = s.holder
    WHERE s.id = ?
"""

_COLUMNS = tuple(item.name for item in fields(SessionInfo) if item.name != "holder")


class SessionBackend(ABC):
    """What a store needs of a database. `where` names it in errors, without a password.

    A session is held by a process, whose row in `holders` names a token that is alive as long as the process is. The
    tables have the version that `migrations` comes to.
    """

    for_update = ""
    """What a database needs behind a SELECT, so that no other process changes the session meanwhile."""

    def __init__(self, where: str, migrations: Migrations) -> None:
        self.where, self.migrations = where, migrations
        self.me = _myself()
        self._is_known = False

    @property
    def version(self) -> int:
        """That of the tables that this code knows."""
        return len(self.migrations)

    # -- what each database has of its own ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether anything was asked of it; what is not open holds nothing."""

    @abstractmethod
    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Runs one statement, `?` for each value, and gives its rows."""

    @abstractmethod
    def transaction(self, *, writes: bool = True) -> AbstractContextManager[None]:
        """Inside, all or nothing. Raises `SessionStoreError` in one line for whatever the database says."""

    def together(self) -> AbstractContextManager[object]:
        """What is executed inside gives no rows, and need not be done one by one."""
        return nullcontext()

    @abstractmethod
    def be_alive(self) -> None:
        """From now on `is_alive` of this process's token is true everywhere, until it ends, in whatever way."""

    @abstractmethod
    def is_alive(self, holder: Holder) -> bool:
        """Whether that process still has its sessions; asked of others only."""

    @abstractmethod
    def find(self, words: Sequence[str], limit: int) -> list[tuple[int, int, str]]:
        """Number of the session, place and excerpt of messages that have all the words, the best first."""

    @abstractmethod
    def check(self) -> list[str]:
        """What is wrong with the database itself, a line each; empty if nothing is."""

    @abstractmethod
    def close(self) -> None:
        """Gives everything back; the next use opens it again."""

    @abstractmethod
    def disown(self) -> None:
        """Lets go of what a fork has copied, and gives nothing back: it is the other process's."""

    def signing_key(self) -> bytes | None:
        """Return the key that all workers of this database share; None if each machine has its own."""
        return None

    def attempt(self, work: Callable[[], _T]) -> _T:
        """Does the work, which can be done twice: again, where what it needs was lost on the way."""
        return work()

    def forked(self) -> None:
        """This process is another one than that which made the backend."""
        self.disown()
        self.me, self._is_known = _myself(), False

    # -- holding ------------------------------------------------------------------------------------------------------

    def hold(self, session: str) -> float:
        """Takes the session for this process, from a dead one too; gives the time of its last write.

        That is 0 if there is no such session. Raises `SessionBusyError` if another process has it.
        """
        with self.transaction():
            found = self._holding(session)
            if found is None:
                return 0.0
            number, holder = found
            is_mine = holder is not None and holder.token == self.me.token
            if holder is not None and not is_mine and self.is_alive(holder):
                raise SessionBusyError(session, holder)
            self._be_known()
            self.execute("UPDATE sessions SET holder = ? WHERE number = ?", (self.me.token, number))
            if holder is not None and not is_mine:
                self.execute(
                    "DELETE FROM holders WHERE token = ? AND NOT EXISTS (SELECT 1 FROM sessions WHERE holder = ?)",
                    (holder.token, holder.token),
                )
            return float(self.execute("SELECT updated FROM sessions WHERE number = ?", (number,))[0][0])

    def _holding(self, session: str) -> tuple[int, Holder | None] | None:
        """Number and holder of a session, which nobody else can take until this transaction ends."""
        found = self.execute(
            f"{_HOLDING}{self.for_update}",
            (session,),
        )
        return (int(found[0][0]), _holder(found[0][1:])) if found else None

    def release(self, session: str) -> None:
        """Lets other processes have it."""
        if not self.is_open:
            return
        with self.transaction():
            self.execute("UPDATE sessions SET holder = NULL WHERE id = ? AND holder = ?", (session, self.me.token))

    def join(self) -> str:
        """Makes this process known, also before it holds anything; gives its token."""
        with self.transaction():
            self._be_known()
        return self.me.token

    def has(self, token: str) -> bool:
        """Whether the process with this token is alive."""
        if token == self.me.token:
            return True
        with self.transaction(writes=False):
            return self.is_alive(Holder(0, "", 0.0, token))

    def _be_known(self) -> None:
        if self._is_known:
            return
        self._forget_outputs()
        self.be_alive()
        me = self.me
        self.execute("DELETE FROM holders WHERE token = ?", (me.token,))
        self.execute(
            "INSERT INTO holders(token, pid, host, since) VALUES(?, ?, ?, ?)", (me.token, me.pid, me.host, me.since)
        )
        self._is_known = True

    def _bury(self, holder: Holder) -> None:
        self.execute("UPDATE sessions SET holder = NULL WHERE holder = ?", (holder.token,))
        self.execute("DELETE FROM holders WHERE token = ?", (holder.token,))

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, session: str, rows: Rows) -> None:
        """Writes a change; the first one makes the session. Raises `SessionStoreError` if it is another process's."""
        with self.transaction():
            number = self._mine(session, is_begun=rows.keep > 0)
            with self.together():
                self._write(number, rows)
                for run, ended in rows.ended.items():
                    self._note_run(session, run, "ended", ended)

    def _write(self, number: int, rows: Rows) -> None:
        self._forget_messages(number, rows.keep)
        for place, row in enumerate(rows.messages, rows.keep):
            self.add_message(number, place, row)
        for place, step in rows.steps.items():
            self.execute("INSERT INTO steps(session, place, step) VALUES(?, ?, ?)", (number, place, step))
        if rows.only_calls:
            self.execute("DELETE FROM calls WHERE session = ?", (number,))
        for call, progress in rows.calls.items():
            if not rows.only_calls:
                self.execute("DELETE FROM calls WHERE session = ? AND id = ?", (number, call))
            if progress is not None:
                self.execute("INSERT INTO calls(session, id, progress) VALUES(?, ?, ?)", (number, call, progress))
        for name, value in rows.values.items():
            self.execute("DELETE FROM kept_values WHERE session = ? AND name = ?", (number, name))
            if value is not None:
                self.execute("INSERT INTO kept_values(session, name, value) VALUES(?, ?, ?)", (number, name, value))
        if rows.title:
            self.execute("UPDATE sessions SET title = ? WHERE number = ? AND title = ''", (rows.title, number))
        names = ", ".join(f"{name} = ?" for name in rows.columns)
        self.execute(
            f"UPDATE sessions SET {names} WHERE number = ?",  # noqa: S608 - names of ours
            (*rows.columns.values(), number),
        )

    def add_message(self, number: int, place: int, row: MessageRow) -> None:
        """Adds one message of a session, so that its words are found."""
        self.execute(
            "INSERT INTO messages(session, place, is_answer, words, message) VALUES(?, ?, ?, ?, ?)",
            (number, place, int(row.is_answer), row.words, row.message),
        )

    def _forget_messages(self, number: int, first: int) -> None:
        for table in ("messages", "steps"):
            self.execute(f"DELETE FROM {table} WHERE session = ? AND place >= ?", (number, first))  # noqa: S608 - ours

    def _mine(self, session: str, *, is_begun: bool) -> int:
        """The number of a session that this process holds; one that has not begun is made, and held."""
        found = self._holding(session)
        if found is None and not is_begun:
            self._be_known()
            now = time.time()
            self.execute(
                "INSERT INTO sessions(id, created, updated, holder) VALUES(?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (session, now, now, self.me.token),
            )
            found = self._holding(session)  # another process may have been faster
        number, holder = found if found is not None else (0, None)
        if holder is None or holder.token != self.me.token:
            taken = f"was taken over by {holder}" if holder is not None else "was released, or deleted and made anew"
            raise SessionStoreError(
                f'{self.where}: session "{safe_line(session, 60)}" {taken}; what is said here is not kept any more'
            )
        return number

    # -- durable runs -------------------------------------------------------------------------------------------------

    def run_row(self, session: str, run: str) -> RunRow:
        """The state of a run in its session; all of it unset if the session does not know the run."""
        with self.transaction(writes=False):
            found = self.execute("SELECT is_cancelled, ended FROM runs WHERE session = ? AND id = ?", (session, run))
            sessions = self.execute(
                "SELECT v.value, s.updated FROM sessions s"
                " LEFT JOIN kept_values v ON v.session = s.number AND v.name = 'durable' WHERE s.id = ?",
                (session,),
            )
        is_cancelled, ended = found[0] if found else (0, None)
        under_way, updated = sessions[0] if sessions else (None, 0.0)
        return RunRow(str(under_way or ""), bool(is_cancelled), ended, float(updated))

    def cancel_run(self, session: str, run: str, under_way: str, ended: str) -> None:
        """Marks a run, which may not have begun, so that it ends before its next step.

        If no living process has the session, nothing takes that step: then the run ends here, with `ended`. `under_way`
        is the run as the session names it while it is unfinished.
        """
        with self.transaction():
            self._note_run(session, run, "is_cancelled", 1)
            number, holder = self._holding(session) or (0, None)
            if holder is not None and (holder.token == self.me.token or self.is_alive(holder)):
                return
            mine = "session = ? AND name = 'durable' AND value = ?"
            if self.execute(f"SELECT 1 FROM kept_values WHERE {mine}", (number, under_way)):  # noqa: S608 - ours
                self.execute(f"DELETE FROM kept_values WHERE {mine}", (number, under_way))  # noqa: S608 - ours
                self._note_run(session, run, "ended", ended)

    def forget_run(self, session: str, run: str) -> None:
        """Deletes the end of a run."""
        with self.transaction():
            self.execute("DELETE FROM runs WHERE session = ? AND id = ?", (session, run))

    def _note_run(self, session: str, run: str, column: str, value: object) -> None:
        self.execute(
            f"INSERT INTO runs(session, id, {column}) VALUES(?, ?, ?)"
            f" ON CONFLICT(session, id) DO UPDATE SET {column} = excluded.{column}",
            (session, run, value),
        )

    # -- what was set aside -------------------------------------------------------------------------------------------

    def put_output(self, session: str, row: OutputRow) -> None:
        """Keeps an output of a session that this process holds; one that is there is kept as long as a new one.

        Raises `SessionStoreError` if the session is another process's.
        """
        with self.transaction():
            number = self._mine(session, is_begun=False)
            self.execute(
                "INSERT INTO outputs(session, handle, kept, tool, output, images) VALUES(?, ?, ?, ?, ?, ?)"
                " ON CONFLICT(session, handle) DO UPDATE SET kept = excluded.kept",
                (number, row.handle, time.time(), row.tool, row.output, row.images),
            )

    def output(self, session: str, handle: str) -> OutputRow | None:
        """What is kept under this handle in this session; None if nothing is, or not any more."""
        with self.transaction(writes=False):
            found = self.execute(
                "SELECT o.handle, o.tool, o.output, o.images FROM outputs o JOIN sessions s ON s.number = o.session"
                " WHERE s.id = ? AND o.handle = ? AND o.kept >= ?",
                (session, handle, time.time() - OUTPUTS_KEPT_SECONDS),
            )
        return OutputRow(*map(str, found[0])) if found else None

    def outputs(self) -> tuple[int, int]:
        """How many outputs are kept, and their characters."""
        with self.transaction(writes=False):
            count, size = self.execute(
                "SELECT count(*), coalesce(sum(length(output) + length(images)), 0) FROM outputs"
            )[0]
        return int(count), int(size)

    def prune_outputs(self) -> None:
        """Forgets those that were kept long enough."""
        with self.transaction():
            self._forget_outputs()

    def _forget_outputs(self) -> None:
        self.execute("DELETE FROM outputs WHERE kept < ?", (time.time() - OUTPUTS_KEPT_SECONDS,))

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, session: str) -> ReadRows | None:
        """All that is kept of a session; None if there is none of this id."""
        with self.transaction(writes=False):
            if (info := self._info(session)) is None:
                return None
            number = self.execute("SELECT number FROM sessions WHERE id = ?", (session,))[0][0]
            messages = self.execute("SELECT message FROM messages WHERE session = ? ORDER BY place", (number,))
            steps = self.execute("SELECT place, step FROM steps WHERE session = ? ORDER BY place", (number,))
            calls = self.execute("SELECT id, progress FROM calls WHERE session = ?", (number,))
            values = self.execute("SELECT name, value FROM kept_values WHERE session = ?", (number,))
        return ReadRows(info, tuple(row[0] for row in messages), dict(steps), _pairs(calls), _pairs(values))

    def info(self, session: str) -> SessionInfo | None:
        """Its line in a list."""
        with self.transaction(writes=False):
            return self._info(session)

    def _info(self, session: str) -> SessionInfo | None:
        found = self.execute(f"{_INFO} WHERE s.id = ?", (session,))
        return self._listed(found[0]) if found else None

    def infos(
        self, limit: int | None = None, folder: str | None = None, *, with_empty: bool = True
    ) -> list[SessionInfo]:
        """The sessions, the one used last first; of a folder if one is named. Of an empty one all was taken back."""
        conditions = [] if with_empty else ["EXISTS (SELECT 1 FROM messages m WHERE m.session = s.number)"]
        conditions += ["s.folder = ?"] if folder is not None else []
        where, values = (
            f"WHERE {' AND '.join(conditions)}" if conditions else "",
            [folder] if folder is not None else [],
        )
        with self.transaction(writes=False):
            rows = self.execute(
                f"{_INFO} {where} ORDER BY s.updated DESC, s.number DESC LIMIT ?",
                (*values, limit if limit is not None else _ALL),
            )
            alive: dict[str, bool] = {}
            return [self._listed(row, alive) for row in rows]

    def _listed(self, row: tuple[Any, ...], alive: dict[str, bool] | None = None) -> SessionInfo:
        """Whoever is dead holds nothing; `alive` is what was found out of others, by token."""
        holder, alive = _holder(row[12:]), alive if alive is not None else {}
        info = SessionInfo(**dict(zip(_COLUMNS, row, strict=False)), holder=holder)
        info = replace(info, cost_known=bool(info.cost_known), is_named=bool(info.is_named))
        if holder is None or holder.token == self.me.token:
            return info
        if holder.token not in alive:
            alive[holder.token] = self.is_alive(holder)
        return info if alive[holder.token] else replace(info, holder=None)

    def search(self, words: Sequence[str], limit: int) -> list[Found]:
        """Messages that have all the words."""
        with self.transaction(writes=False):
            found = self.find(words, limit)
            infos = {number: self._by_number(number) for number, _, _ in found}
        return [Found(info, place, excerpt) for number, place, excerpt in found if (info := infos[number]) is not None]

    def _by_number(self, number: int) -> SessionInfo | None:
        rows = self.execute(f"{_INFO} WHERE s.number = ?", (number,))
        return self._listed(rows[0]) if rows else None

    # -- managing -----------------------------------------------------------------------------------------------------

    def rename(self, session: str, title: str) -> bool:
        """Gives it a title; whether there is such a session."""
        with self.transaction():
            is_there = self._info(session) is not None
            self.execute("UPDATE sessions SET title = ?, is_named = 1 WHERE id = ?", (title, session))
        return is_there

    def fork(self, session: str, new: str, length: int | None, values: Mapping[str, str | None]) -> bool:
        """Copies a session, or its first messages, as `new`, with these values in place of its own.

        Gives whether there was one.
        """
        with self.transaction():
            found = self.execute("SELECT number, folder, model, title, is_named FROM sessions WHERE id = ?", (session,))
            if not found:
                return False
            number, *columns = found[0]
            now = time.time()
            self.execute(
                "INSERT INTO sessions(id, created, updated, folder, model, title, is_named)"
                " VALUES(?, ?, ?, ?, ?, ?, ?)",
                (new, now, now, *columns),
            )
            copy = int(self.execute("SELECT number FROM sessions WHERE id = ?", (new,))[0][0])
            rows = self.execute(
                "SELECT place, is_answer, words, message FROM messages WHERE session = ? AND place < ? ORDER BY place",
                (number, length if length is not None else _ALL),
            )
            for place, is_answer, words, message in rows:
                self.add_message(copy, place, MessageRow(message, words, bool(is_answer)))
            self.execute(
                "INSERT INTO steps(session, place, step) SELECT ?, place, step FROM steps"
                " WHERE session = ? AND place < ?",
                (copy, number, length if length is not None else _ALL),
            )
            kept = _pairs(self.execute("SELECT name, value FROM kept_values WHERE session = ?", (number,)))
            for name, value in {**kept, **values}.items():
                if value is not None:
                    self.execute("INSERT INTO kept_values(session, name, value) VALUES(?, ?, ?)", (copy, name, value))
            self.execute(
                "INSERT INTO outputs(session, handle, kept, tool, output, images)"
                " SELECT ?, handle, kept, tool, output, images FROM outputs WHERE session = ?",
                (copy, number),
            )
            if length is None:
                calls = self.execute("SELECT id, progress FROM calls WHERE session = ?", (number,))
                for call, progress in calls:
                    self.execute("INSERT INTO calls(session, id, progress) VALUES(?, ?, ?)", (copy, call, progress))
        return True

    def delete(self, session: str) -> bool:
        """Forgets it; whether there was one. Raises `SessionBusyError` if another process has it."""
        with self.transaction():
            found = self._holding(session)
            if found is None:
                return False
            number, holder = found
            if holder is not None and holder.token != self.me.token and self.is_alive(holder):
                raise SessionBusyError(session, holder)
            self._forget_messages(number, 0)
            for table in ("calls", "kept_values", "outputs"):
                self.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 - names of ours
            self.execute("DELETE FROM runs WHERE session = ?", (session,))
            self.execute("DELETE FROM sessions WHERE number = ?", (number,))
        return True

    def dead_holders(self) -> list[Holder]:
        """Processes that ended without releasing what they held; they are forgotten by this."""
        with self.transaction():
            held = [_holder(row) for row in self.execute("SELECT token, pid, host, since FROM holders ORDER BY token")]
            others = [holder for holder in held if holder is not None and holder.token != self.me.token]
            dead = [holder for holder in others if not self.is_alive(holder)]
            for holder in dead:
                self._bury(holder)
        return dead


def _holder(row: Sequence[Any]) -> Holder | None:
    token, pid, host, since = row
    return Holder(pid, host, since, token) if token is not None else None


def _pairs(rows: Sequence[tuple[Any, ...]]) -> dict[str, str]:
    return {str(name): str(value) for name, value in rows}


def _myself() -> Holder:
    return Holder(os.getpid(), socket.gethostname(), time.time(), uuid4().hex)
