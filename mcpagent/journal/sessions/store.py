"""`Sessions`: the session store that you pass to an agent; a separate thread does the slow work."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar
from uuid import uuid4

from mcpagent.errors import (
    InputError,
    McpAgentError,
    RunCancelledError,
    SessionBusyError,
    SessionStoreError,
)
from mcpagent.journal.sessions.entries import (
    CALL,
    DURABLE,
    INFO,
    MAX_TITLE,
    MESSAGE,
    OUTPUT,
    RUN,
    SESSION,
    SUMMARY,
    TITLE,
    VALUE,
    JournalEntry,
    by_key,
    cancelled_key,
    clean_json,
    ended_key,
    kept_session,
    loaded,
    message_place,
    row_of,
    searched_words,
    session_info,
)
from mcpagent.journal.sessions.loaded_session import (
    Holder,
    LoadedSession,
    MessageMatch,
    SessionInfo,
)
from mcpagent.journal.sessions.locations import file_meant, is_address
from mcpagent.journal.sessions.protocol import Entry, SessionStore
from mcpagent.journal.sessions.run_ended import (
    RunEnded,
    RunRecord,
    ended_from_json,
    ended_to_json,
)
from mcpagent.journal.sessions.saved_state import written_json
from mcpagent.journal.sessions.sql_store import BUSY_SECONDS, TIDY_SECONDS, SqlStore
from mcpagent.journal.sessions.worker import Worker
from mcpagent.utilities.python.argument_checks import checked, expect, expect_kind
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide, hide_environment, without_secrets
from mcpagent.values.messages import Message

WAIT_SECONDS = 40.0
"""Maximum wait for a store that does not respond at all; a locked one fails earlier (`BUSY_SECONDS`)."""

RELEASE_SECONDS = 2.0
"""How long releasing leases waits for other processes; the end of this process also releases them."""

OUTPUTS_KEPT_SECONDS = 7 * 24 * 3600.0
"""How long a large result is stored."""

MARKS_KEPT_SECONDS = 30 * 24 * 3600.0
"""How long the mark of a cancelled run is stored; its session may never exist."""

MAX_FOUND = 100
MAX_ID = 200

_T = TypeVar("_T")


def _nothing() -> None:
    """Do nothing: the default check of `write`."""


class Sessions:
    """A session store for `Agent(sessions=Sessions("chats.db"))`: the agent's sessions can continue in any process.

    `where` is a file, created if it is missing (None: `sessions.db` in the user's data folder), or the address of a
    PostgreSQL database (`postgresql://user@host/name`; extra `mcpagent[postgres]`). `durability="full"` also survives a
    power failure; "normal" survives any end of the process. Secrets that mcpagent knows, `secrets`, and texts that look
    like a key are replaced before any write. The store opens at its first use. Raises `SessionStoreError`, with one
    line, if it cannot be read or written.
    """

    @checked()
    def __init__(
        self,
        where: str | Path | SessionStore | None = None,
        *,
        durability: Literal["normal", "full"] = "normal",
        secrets: Iterable[str] = (),
    ) -> None:
        self._store = _store_at(where, durability)
        self._me = _myself()
        hide_environment(os.environ)
        hide(*secrets)
        self._worker: Worker | None = None
        self._signing_key: Future[bytes | None] | None = None
        self._kept: set[str] = set()
        self._leased: set[str] = set()
        """The sessions that this process has leased, as far as it knows; used only by the worker thread."""
        self._seen: dict[str, float] = {}
        """The time of the last write of each session that this process has seen; used only by the worker thread."""
        self._users: Counter[str] = Counter()
        """The number of users of each session in this process. The worker thread counts, so the order is that of the
        requests.
        """
        _stores.add(self)

    def __repr__(self) -> str:
        return f"<Sessions {self.where}>"

    @property
    def where(self) -> str:
        """The file, or the address of the database without its password."""
        return self._store.where

    def read_signing_key(self) -> Future[bytes | None]:
        """Read, once, the signing key that all workers of this store share; the result is None if each machine has its
        own.
        """
        if self._signing_key is None:
            store = self._store
            self._signing_key = self._do(
                store.signing_key if isinstance(store, SqlStore) else lambda: None
            )
        return self._signing_key

    def signing_key(self) -> bytes | None:
        """Return the key that `read_signing_key` reads; None also if the store cannot be read."""
        try:
            return self._result(self.read_signing_key())
        except SessionStoreError:
            self._signing_key = None  # the next call tries again
            return None

    # -- One session, as an agent uses it ------------------------------------------------------------------------------

    def open(self, session: str) -> LoadedSession | None:
        """Take the session for this process, and return its data; None if it does not exist.

        Raises `SessionBusyError` if another process has it.
        """
        return self._result(self.begin(session))

    def begin(self, session: str) -> Future[LoadedSession | None]:
        """Do `open` in the background."""

        def work() -> LoadedSession | None:
            self._hold(session)
            try:
                kept = self._read(session)
                self._seen.setdefault(
                    session, kept.info.updated if kept is not None else 0.0
                )
                return kept
            except BaseException:
                self._let_go(session)
                raise

        return self._do(work)

    def take(self, session: str) -> Future[float]:
        """Take the session like `begin` without reading it: the result is the time of its last write, 0 if it does not
        exist.
        """

        def work() -> float:
            self._hold(session)
            self._seen[session] = self._updated(session)
            return self._seen[session]

        return self._do(work)

    def _updated(self, session: str) -> float:
        info = self._info(session)
        if info is not None:
            return info.updated
        return 0.0

    def reading(self, session: str) -> Future[LoadedSession | None]:
        """Do `read` in the background; the result is None if the session does not exist."""
        return self._do(lambda: self._read(session, RUN))

    def _read(self, session: str, *others: str) -> LoadedSession | None:
        stored = self._store.read(session, SESSION, INFO, *others)
        if stored is not None:
            return kept_session(stored, self.where)
        return None

    def _info(self, session: str) -> SessionInfo | None:
        stored = self._store.read(session, INFO)
        if stored is not None:
            return session_info(stored)
        return None

    def _entry(self, session: str, key: str) -> Any:
        """Return the data of the entry with this key; None if it is missing."""
        stored = self._store.read(session, key)
        entry = None
        if stored is not None:
            entry = by_key(stored.entries).get(key)
        if entry is not None:
            return loaded(entry)
        return None

    def _hold(self, session: str) -> None:
        """Count one more user of the session in this process.

        A session that does not exist is leased at its first write. Raises `SessionBusyError`.
        """
        if session not in self._leased and self._store.read(session, INFO) is not None:
            self._lease(session)
        self._users[session] += 1

    def _lease(self, session: str) -> None:
        """Take the lease. Raises `SessionBusyError`, or `SessionStoreError` if another process has written
        meanwhile.
        """
        other = self._store.lease(session, self._me)
        if other is not None:
            raise SessionBusyError(session, other)
        seen = self._seen.get(session)
        if seen is not None and self._updated(session) != seen:
            self._store.release(session, self._me)
            raise self._lost(session, "was written or deleted by another process")
        self._leased.add(session)

    def _lost(self, session: str, why: str) -> SessionStoreError:
        shown = f'session "{safe_line(session, 60)}"'
        return SessionStoreError(
            f"{self.where}: {shown} {why}; what is said here is not kept any more"
        )

    def keep(self, session: str) -> None:
        """Reserve the session for a writer in this process. Raises `SessionBusyError` if it is already reserved."""
        if session in self._kept:
            raise SessionBusyError(session, self._me)
        self._kept.add(session)

        def count() -> None:
            self._users[session] += 1
            self._seen.setdefault(session, 0.0)

        self._running().soon(count)

    def keep_no_more(self, session: str) -> None:
        """End `keep`. After all writes, if nothing in this process uses the session, another process may take it."""
        self._kept.discard(session)
        self.release(session)

    def write(
        self,
        session: str,
        entries: Sequence[JournalEntry],
        check: Callable[[], None] = _nothing,
        *,
        run: str = "",
        is_durable: bool = False,
    ) -> Future[bool]:
        """Write entries of this run, all or none, unless `check` raises an error at that time; writes happen in order.

        The result is True if the run `is_durable` and its owner has cancelled it.
        """

        def work() -> bool:
            check()
            now = next(
                (entry.updated for entry in entries if isinstance(entry, SessionInfo)),
                time.time(),
            )
            self._append(session, [row_of(entry, now, run) for entry in entries])
            return is_durable and self._entry(session, cancelled_key(run)) is not None

        return self._do(work)

    def _append(self, session: str, entries: Sequence[Entry]) -> None:
        """Write entries under the lease, which is taken if this process does not have it.

        Raises `SessionStoreError` if another process has the session, or has written to it since this process last did.
        """
        if session not in self._leased:
            try:
                self._lease(session)
            except SessionBusyError as error:
                raise self._lost(session, f"was taken over by {error.holder}") from None
        if not self._store.append(session, entries, self._me):
            self._leased.discard(session)
            stored = self._store.read(session, INFO)
            if stored is not None:
                holder = stored.holder
            else:
                holder = None
            by = "was released, or deleted and made anew"
            if holder is not None:
                by = f"was taken over by {holder}"
            raise self._lost(session, by)
        for entry in entries:
            if entry.key == SUMMARY:
                self._seen[session] = entry.time

    # -- Durable runs, as workers and owners use them ------------------------------------------------------------------

    def run_record(self, session: str, run: str) -> Future[RunRecord]:
        """Return the state of a run in its session."""

        def work() -> RunRecord:
            stored = self._store.read(
                session, DURABLE, INFO, ended_key(run), cancelled_key(run)
            )
            if stored is None:
                return RunRecord()
            entries = by_key(stored.entries)
            info = session_info(stored)
            ended = entries.get(ended_key(run))
            under_way = entries.get(DURABLE)
            return RunRecord(
                under_way is not None and under_way.data == clean_json(run),
                cancelled_key(run) in entries,
                ended_from_json(run, loaded(ended)) if ended is not None else None,
                info.updated if info is not None else 0.0,
            )

        return self._do(work)

    def cancel_run(self, session: str, run: str) -> Future[None]:
        """End a run before its next step, in any process, even if it has not begun.

        If no living process has the session, no process would take that step: then the run ends now.
        """
        ended = ended_to_json(RunEnded(run, error=RunCancelledError(run)))

        def work() -> None:
            now = time.time()
            mark = Entry(
                cancelled_key(run),
                "run_cancelled",
                "true",
                now,
                run=run,
                expires=now + MARKS_KEPT_SECONDS,
            )
            self._store.append(session, [mark], None)
            is_mine = session in self._leased
            if (
                is_mine
                or self._entry(session, DURABLE) != run
                or self._store.lease(session, self._me) is not None
            ):
                return
            try:
                if self._entry(session, DURABLE) == run:
                    over = Entry(DURABLE, "value", None, now, run=run)
                    end = Entry(
                        ended_key(run), "run_ended", clean_json(ended), now, run=run
                    )
                    self._store.append(session, [over, end], self._me)
            finally:
                self._store.release(session, self._me)

        return self._do(work)

    def forget_run(self, session: str, run: str) -> Future[None]:
        """Delete the end of a run; its messages stay in the session."""
        now = time.time()
        gone = [
            Entry(key, "run_ended", None, now, run=run)
            for key in (ended_key(run), cancelled_key(run))
        ]

        def work() -> None:
            self._store.append(session, gone, None)

        return self._do(work)

    def put_output(
        self, session: str, handle: str, data: Mapping[str, str]
    ) -> Future[None]:
        """Store a large result of a session that this process has. Its text must already be without secrets."""
        now = time.time()
        entry = Entry(
            f"{OUTPUT}{handle}",
            "output",
            written_json(dict(data)),
            now,
            expires=now + OUTPUTS_KEPT_SECONDS,
        )
        return self._do(lambda: self._append(session, [entry]))

    def output(self, session: str, handle: str) -> Future[dict[str, str] | None]:
        """Return this session's output with this ID; None if it is missing or has expired."""
        return self._do(lambda: self._entry(session, f"{OUTPUT}{handle}"))

    def release(self, session: str) -> None:
        """Release a session that `open` has taken, without waiting."""
        if (worker := self._worker) is not None:
            worker.soon(lambda: self._let_go(session))

    def release_opened(
        self, session: str, opened: Future[LoadedSession | None]
    ) -> None:
        """Release the session that `begin` has taken, after that has ended; also if no code waited for it."""
        if not opened.cancelled() and opened.exception() is None:
            self.release(session)

    def _let_go(self, session: str) -> None:
        self._users[session] -= 1
        if self._users[session] <= 0:
            del self._users[session]
            self._seen.pop(session, None)
            if session in self._leased:
                self._leased.discard(session)
                self._attempt(
                    lambda: self._store.release(session, self._me),
                    time.monotonic() + RELEASE_SECONDS,
                )

    def join(self) -> Future[str]:
        """Make this process known to others; the result is its token, which is alive until the process ends or closes
        the store.

        Raises `SessionStoreError` for a store other than SQLite or PostgreSQL.
        """

        def work() -> str:
            self._sql("durable runs").join(self._me)
            return self._me.token

        return self._do(work)

    def is_alive(self, token: str) -> Future[bool]:
        """Return whether the process with this token is alive."""
        return self._do(
            lambda: token == self._me.token or self._sql("durable runs").has(token)
        )

    def flush(self) -> Future[None]:
        """Return a future that completes after all writes requested so far."""
        return self._do(lambda: None)

    def _sql(self, what: str) -> SqlStore:
        if not isinstance(self._store, SqlStore):
            raise SessionStoreError(
                f"{self.where}: {what} need sessions in SQLite or PostgreSQL"
            )
        return self._store

    # -- Listing and searching -----------------------------------------------------------------------------------------

    @checked(InputError)
    def sessions(
        self, limit: int | None = None, *, folder: str | Path | None = None
    ) -> list[SessionInfo]:
        """Return the sessions, the last used first; with `folder`, only those that began there.

        A session whose messages were all removed is not included, but its ID still opens it.
        """
        found = [info for info in self._infos() if info.messages > 0]
        if folder is not None:
            found = [info for info in found if info.folder == str(folder)]
        return found[:limit]

    def _infos(self) -> list[SessionInfo]:
        infos: list[SessionInfo] = []
        for stored in self._result(self._do(self._store.list)):
            try:
                info = session_info(stored)
                if info is not None:
                    info.id.encode()  # fails for bytes, which SQLite may have in a text column
                    infos.append(info)
            except MALFORMED as error:
                raise self._unreadable(error) from error
        return sorted(infos, key=lambda info: info.updated, reverse=True)

    @checked(InputError)
    def read(self, session: str) -> LoadedSession:
        """Return all stored data of a session, even if another process has it.

        Raises `InputError` for an unknown ID.
        """
        kept = self._result(self.reading(session))
        if kept is None:
            raise self._none(session)
        return kept

    @checked(InputError)
    def search(self, words: str, limit: int = 20) -> list[MessageMatch]:
        """Return messages of people and models that have all the words, in any order; the best first."""
        wanted = words.split()
        if not wanted:
            raise InputError("search: say which words to look for")

        def work() -> list[MessageMatch]:
            hits = self._store.search(wanted[:20], min(limit, MAX_FOUND))
            infos = {
                session: self._info(session)
                for session in dict.fromkeys(hit.session for hit in hits)
            }
            found: list[MessageMatch] = []
            for hit in hits:
                info = infos[hit.session]
                if info is not None:
                    found.append(
                        MessageMatch(info, message_place(hit.key), hit.excerpt)
                    )
            return found

        return self._result(self._do(work))

    def match(self, wanted: str) -> list[SessionInfo]:
        """Return the sessions that match an ID, the beginning of an ID, or words of a title or message, the last used
        first.
        """
        infos = self.sessions()
        if exact := [info for info in infos if info.id == wanted]:
            return exact
        if begins := [
            info for info in infos if len(wanted) >= 4 and info.id.startswith(wanted)
        ]:
            return begins
        words = wanted.casefold().split()
        titled = [
            info
            for info in infos
            if all(word in info.title.casefold() for word in words)
        ]
        if titled or not words:
            return titled
        found = dict.fromkeys(
            item.session.id for item in self.search(wanted, MAX_FOUND)
        )
        return [info for info in infos if info.id in found]

    # -- Management ----------------------------------------------------------------------------------------------------

    @checked(InputError)
    def rename(self, session: str, title: str) -> None:
        """Set a session's title, at most 80 characters. Raises `InputError` for an unknown ID."""
        words = safe_line(without_secrets(title), MAX_TITLE)
        if not words.strip():
            raise InputError("rename: the title is empty")
        named = Entry(TITLE, "title", clean_json(words), time.time())

        def work() -> bool:
            return self._info(session) is not None and self._store.append(
                session, [named], None
            )

        if not self._result(self._do(work)):
            raise self._none(session)

    @checked(InputError)
    def fork(
        self, session: str, new: str | None = None, *, length: int | None = None
    ) -> str:
        """Copy a session, or its first `length` messages, and return the copy's ID; the original stays.

        The copy has no usage. If `length` would separate calls from their results, both are omitted. Raises
        `InputError` if the session does not exist, or if the new ID already does.
        """
        if new is not None:
            copy = new
        else:
            copy = uuid4().hex
        usable_id(copy)
        if not self._result(self._do(lambda: self._fork(session, copy, length))):
            raise self._none(session)
        return copy

    def _fork(self, session: str, copy: str, length: int | None) -> bool:
        stored = self._store.read(session, SESSION, INFO, OUTPUT)
        kept = kept_session(stored, self.where) if stored is not None else None
        if stored is None or kept is None:
            return False
        if self._store.read(copy, INFO, SESSION) is not None:
            raise InputError(
                f'fork: there is a session "{safe_line(copy, 60)}" already'
            )
        size = len(kept.messages) if length is None else min(length, len(kept.messages))
        while 0 < size < len(kept.messages) and kept.messages[size].role == "tool":
            size -= 1
        left_out = {f"{VALUE}spent", DURABLE}
        if size < len(kept.messages):
            left_out |= {
                f"{VALUE}{name}" for name in ("run", "pending", "announced", "output")
            }
        entries: list[Entry] = []
        for key, entry in by_key(stored.entries).items():
            is_cut = key.startswith(MESSAGE) and message_place(key) >= size
            is_lost = size < len(kept.messages) and key.startswith(CALL)
            if key in left_out or key == SUMMARY or is_cut or is_lost:
                continue
            if key.startswith(MESSAGE):
                entry = replace(
                    entry,
                    words=without_secrets(
                        searched_words(kept.messages[message_place(key)])
                    ),
                )
            entries.append(entry)
        now, turns = time.time(), sum(map(is_answer, kept.messages[:size]))
        title = kept.info.title if not kept.info.is_named else ""
        info = replace(
            kept.info,
            id=copy,
            title=title,
            created=now,
            updated=now,
            tokens=0,
            dollars=0.0,
            cost_known=True,
        )
        info = replace(info, turns=turns, messages=size)
        entries.append(row_of(info, now, ""))
        self._lease(copy)
        try:
            if self._store.read(copy, INFO, SESSION) is not None:
                raise InputError(
                    f'fork: there is a session "{safe_line(copy, 60)}" already'
                )
            if not self._store.append(copy, entries, self._me):
                raise SessionStoreError(
                    f'{self.where}: session "{safe_line(copy, 60)}" was taken by another process'
                )
        finally:
            self._leased.discard(copy)
            self._store.release(copy, self._me)
        return True

    @checked(InputError)
    def delete(self, session: str) -> None:
        """Delete a session with its outputs and runs.

        Raises `InputError` if it is missing, and `SessionBusyError` while an agent has it.
        """
        if session in self._kept:
            raise SessionBusyError(session, self._me)
        if not self._result(self._do(lambda: self._delete(session))):
            raise self._none(session)

    def _delete(self, session: str, before: float | None = None) -> bool:
        """Delete a session; with `before`, only if its last write was earlier. Return whether it was deleted."""
        if self._store.read(session, INFO, SESSION) is None:
            return False
        run = self._entry(session, DURABLE)
        if (
            run is not None
        ):  # otherwise a worker would begin it again, and send its calls twice
            raise SessionBusyError(session, run=str(run))
        is_mine = session in self._leased
        if not is_mine:
            self._lease(session)
        if before is not None and self._updated(session) >= before:
            if not is_mine:
                self._leased.discard(session)
                self._store.release(session, self._me)
            return False
        self._leased.discard(session)
        self._store.delete(session)
        return True

    @checked(InputError)
    def prune(self, before: float) -> list[SessionInfo]:
        """Delete the sessions last used before this time (seconds since 1970), except those that a process has; return
        them.
        """
        gone: list[SessionInfo] = []
        for info in self._infos():
            if (
                info.updated >= before
                or info.holder is not None
                or info.id in self._kept
            ):
                continue
            with suppress(SessionBusyError):  # another process has opened it meanwhile
                if self._result(self._do(partial(self._delete, info.id, before))):
                    gone.append(info)
        if isinstance(self._store, SqlStore):
            self._result(self._do(self._store.tidy))
        return gone

    def outputs(self) -> tuple[int, int]:
        """Return the number of stored large results, and their total characters."""
        return self._result(self._do(lambda: self._sql("figures").size(OUTPUT)))

    def check(self) -> list[str]:
        """Return the problems of the store, one line each.

        It also releases the sessions of dead processes.
        """

        def work() -> list[str]:
            store = self._sql("checks")
            wrong, dead = store.check(), store.dead_holders(self._me)
            return [
                *wrong,
                *(
                    f"{holder} ended without a word; what it held is free"
                    for holder in dead
                ),
            ]

        return self._result(self._do(work))

    def close(self) -> None:
        """Finish all writes and release all leases; the next use opens the store again. A second call has no effect."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._end.detach()
            worker.end()
            worker.join()
            self._leased.clear()

    # -- Internal methods ----------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[], _T]) -> Future[_T]:
        until = time.monotonic() + BUSY_SECONDS  # the time in the queue counts, too
        return self._running().do(lambda: self._attempt(work, until))

    def _attempt(self, work: Callable[[], _T], until: float) -> _T:
        if isinstance(self._store, SqlStore):
            return self._store.attempt(work, until)
        try:
            return work()
        except McpAgentError:
            raise
        except Exception as error:
            raise SessionStoreError(
                f"{self.where}: {type(error).__name__}: {safe_line(str(error), 200)}"
            ) from error

    def _running(self) -> Worker:
        if self._worker is None:
            # No reference to `self`, so that the worker ends when the store is garbage collected.
            renew = partial(_renew, self._store, self._leased, self._me, self._seen)
            self._worker = Worker(
                self._store.close, renew, self._store.renew_seconds or TIDY_SECONDS
            )
            self._end = weakref.finalize(self, self._worker.end)
            self._end.atexit = False  # the worker ends without this
        return self._worker

    def _forked(self) -> None:
        """Discard state inherited by a fork: open connections belong to the parent process."""
        if self._worker is not None:
            self._worker = None
            self._end.detach()
        self._kept, self._users, self._leased, self._signing_key = (
            set(),
            Counter(),
            set(),
            None,
        )
        self._seen = {}
        self._me = _myself()
        if isinstance(self._store, SqlStore):
            self._store.disown()

    def _result(self, future: Future[_T]) -> _T:
        try:
            return future.result(WAIT_SECONDS)
        except TimeoutError:
            raise SessionStoreError(
                f"{self.where}: gave no answer within {WAIT_SECONDS:g} seconds"
            ) from None
        except MALFORMED as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> SessionStoreError:
        """Return the error for a column or document that does not have the type that mcpagent writes."""
        why = safe_line(f"{type(error).__name__}: {error}", 120)
        fix = "restore it from a copy, or name another file: --set session_db=FILE"
        return SessionStoreError(
            f"{self.where}: holds what no version of mcpagent wrote ({why}); {fix}"
        )

    def _none(self, session: str) -> InputError:
        return InputError(
            f'{self.where}: there is no session "{safe_line(session, 60)}"; see `mcpagent sessions list`'
        )


_stores: weakref.WeakSet[Sessions] = weakref.WeakSet()


def _after_fork() -> None:
    for store in tuple(_stores):
        store._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def usable_id(session: object) -> str:
    """Return the session ID if it is valid: text of 1 to 200 printable characters. Raises `InputError` otherwise."""
    expect("session id", session, str, "a text", error=InputError)
    assert isinstance(session, str)
    if not session or len(session) > MAX_ID or not session.isprintable():
        raise InputError(
            f"session id: expected 1 to {MAX_ID} printable characters, got {safe_line(repr(session), 60)}"
        )
    return session


def is_answer(message: Message) -> bool:
    """Return whether the message is an answer without calls."""
    return message.role == "assistant" and not message.tool_calls


def _renew(
    store: SessionStore, leased: set[str], owner: Holder, seen: dict[str, float]
) -> None:
    """Renew the leases of this process; a database instead deletes its expired entries."""
    if store.renew_seconds is not None:
        for session in tuple(leased):
            if store.lease(session, owner) is not None:
                leased.discard(session)
                continue
            stored = store.read(session, SUMMARY)
            info = None
            if stored is not None:
                info = session_info(stored)
            if (info.updated if info is not None else 0.0) != seen.get(
                session, 0.0
            ):  # another process had the lease meanwhile
                leased.discard(session)
                store.release(session, owner)
    elif isinstance(store, SqlStore) and store.is_open:
        store.attempt(store.tidy_sometimes, time.monotonic() + RELEASE_SECONDS)


def _myself() -> Holder:
    return Holder(os.getpid(), socket.gethostname(), time.time(), uuid4().hex)


def _store_at(
    where: str | Path | SessionStore | None, durability: Literal["normal", "full"]
) -> SessionStore:
    expect_kind("Sessions: durability", durability, Literal["normal", "full"])
    if isinstance(where, SessionStore):
        return where
    expect(
        "Sessions: where",
        where,
        (str, Path, NoneType),
        "a file, postgresql://..., or a SessionStore",
    )
    if is_address(where):
        from mcpagent.journal.sessions.postgres import PostgresStore

        return PostgresStore(where, durability)
    from mcpagent.journal.sessions.sqlite import SqliteStore

    return SqliteStore(file_meant(where, "sessions.db", os.environ), durability)


async def written(future: Future[_T]) -> _T:
    """Await the result of the store; the write completes even if the caller is cancelled.

    Raises `SessionStoreError` if the store does not respond.
    """
    answer = asyncio.wrap_future(future)
    done, _ = await asyncio.wait([answer], timeout=WAIT_SECONDS)
    if not done:
        raise SessionStoreError(
            f"the store of sessions gave no answer within {WAIT_SECONDS:g} seconds"
        )
    return answer.result()


__all__ = ["Holder", "Sessions", "usable_id", "written"]
