"""`SessionStore`: where sessions are kept, as an agent is given it; a thread of its own does what takes time."""

from __future__ import annotations

import asyncio
import json
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar
from uuid import uuid4

from mcpagent.errors import InputError, RunCancelledError, SessionBusyError, SessionStoreError
from mcpagent.messages import Message, dump_messages, load_message
from mcpagent.python.argument_checks import checked, expect, expect_kind
from mcpagent.sessions.backend import MAX_FOUND, MessageRow, OutputRow, ReadRows, Rows, SessionBackend
from mcpagent.sessions.kept import Found, Holder, KeptSession, SessionChange, SessionInfo
from mcpagent.sessions.places import file_meant, is_address
from mcpagent.sessions.run_ended import RunEnded, RunRecord, ended_from_json, ended_to_json
from mcpagent.sessions.standing import progress_to_json, steps_from_json, written_json
from mcpagent.sessions.worker import Worker
from mcpagent.text.known_secrets import known_values
from mcpagent.text.safe_text import safe_line, without_halves
from mcpagent.text.secret_shapes import (
    Redact,
    may_have_shapes,
    redacted,
    secrets_in,
    value_redactor,
    without_shapes,
    without_shapes_in_steps,
)

WAIT_SECONDS = 60.0
"""So long whoever asks without `await` waits for what is being written before it."""

MAX_TITLE = 80
MAX_ID = 200

_T = TypeVar("_T")


class SessionStore:
    """`Agent(sessions=SessionStore("chats.db"))`: its sessions go on where they were, in any process.

    `where` is a file, made if it is not there (None: `sessions.db` in the user's data folder), or the address of a
    PostgreSQL database (`postgresql://user@host/name`; extra `mcpagent[postgres]`). `durability="full"` also survives a
    loss of power; "normal" survives whatever ends the process. Secrets that mcpagent knows, `secrets`, and what looks
    like a key are replaced before anything is written. Nothing is opened before it is needed. Raises
    `SessionStoreError` from whatever cannot be read or written, in one line.
    """

    @checked()
    def __init__(
        self,
        where: str | Path | None = None,
        *,
        durability: Literal["normal", "full"] = "normal",
        secrets: Iterable[str] = (),
    ) -> None:
        self._backend = _backend(where, durability)
        self._values = {*secrets_in(os.environ), *secrets}
        self._redactor: tuple[frozenset[str], Redact] | None = None
        self._worker: Worker | None = None
        self._signing_key: Future[bytes | None] | None = None
        self._kept: set[str] = set()
        self._users: Counter[str] = Counter()
        """How many have each session in this process; the worker counts, so that all is in the order it was asked."""
        _stores.add(self)

    def __repr__(self) -> str:
        return f"<SessionStore {self.where}>"

    @property
    def where(self) -> str:
        """The file, or the database without its password."""
        return self._backend.where

    def hide(self, values: Iterable[str]) -> None:
        """Replaces these too in what is written from now on."""
        self._values.update(values)
        self._redactor = None

    def read_signing_key(self) -> Future[bytes | None]:
        """Read the key that all workers of this store share, once; it gives None if each machine has its own."""
        if self._signing_key is None:
            self._signing_key = self._do(self._backend.signing_key)
        return self._signing_key

    def signing_key(self) -> bytes | None:
        """Return the key that `read_signing_key` reads; None also if the store cannot be read."""
        try:
            return self._result(self.read_signing_key())
        except SessionStoreError:
            self._signing_key = None  # the next one asks again
            return None

    # -- one session, as an agent uses it -----------------------------------------------------------------------------

    def open(self, session: str) -> KeptSession | None:
        """Takes the session for this process, and reads it; None if there is none.

        Raises `SessionBusyError` if another process has it.
        """
        return self._result(self.begin(session))

    def begin(self, session: str) -> Future[KeptSession | None]:
        """As `open`, beside whoever asks."""

        def work() -> KeptSession | None:
            self._backend.hold(session)
            self._users[session] += 1
            try:
                return self._read(session)
            except BaseException:
                self._let_go(session)
                raise

        return self._do(work)

    def take(self, session: str) -> Future[float]:
        """As `begin`, without reading: gives the time of the last write, 0 if there is no such session."""

        def work() -> float:
            updated = self._backend.hold(session)
            self._users[session] += 1
            return updated

        return self._do(work)

    def reading(self, session: str) -> Future[KeptSession | None]:
        """As `read`, in the background; None if there is no such session."""
        return self._do(lambda: self._read(session))

    def _read(self, session: str) -> KeptSession | None:
        rows = self._backend.read(session)
        return _kept(rows, self.where) if rows is not None else None

    def keep(self, session: str) -> None:
        """Whoever calls this writes the session down from now on. Raises `SessionBusyError` if somebody here does."""
        if session in self._kept:
            raise SessionBusyError(session, self._backend.me)
        self._kept.add(session)
        self._running().soon(lambda: self._users.update((session,)))

    def keep_no_more(self, session: str) -> None:
        """Somebody else may; other processes too, once all is written and nobody here has it."""
        self._kept.discard(session)
        self.release(session)

    def write(self, session: str, change: SessionChange, check: Callable[[], None]) -> Future[bool]:
        """Writes what changed, if `check` raises nothing then; what is asked for later is written later.

        Gives whether its owner has cancelled the durable run that goes on.
        """

        def work() -> bool:
            check()
            self._backend.write(session, self._rows(change))
            return change.run != "" and self._backend.run_row(session, change.run).is_cancelled

        return self._do(work)

    # -- durable runs, as their workers and owners use them -----------------------------------------------------------

    def run_record(self, session: str, run: str) -> Future[RunRecord]:
        """The state of a run in its session."""

        def work() -> RunRecord:
            row = self._backend.run_row(session, run)
            ended = ended_from_json(run, json.loads(row.ended)) if row.ended is not None else None
            return RunRecord(row.under_way == self.as_json(run), row.is_cancelled, ended, row.updated)

        return self._do(work)

    def cancel_run(self, session: str, run: str) -> Future[None]:
        """Ends a run before its next step, whichever process works on it, also if it has not begun."""
        ended = self.as_json(ended_to_json(RunEnded(run, error=RunCancelledError(run))))
        return self._do(lambda: self._backend.cancel_run(session, run, self.as_json(run), ended))

    def forget_run(self, session: str, run: str) -> Future[None]:
        """Deletes the end of a run; its messages stay in the session."""
        return self._do(lambda: self._backend.forget_run(session, run))

    def put_output(self, session: str, row: OutputRow) -> Future[None]:
        """Keeps what was set aside of a session that this process has; its text is without secrets already."""
        return self._do(lambda: self._backend.put_output(session, row))

    def output(self, session: str, handle: str) -> Future[OutputRow | None]:
        """What is kept under this handle in this session; None if nothing is, or not any more."""
        return self._do(lambda: self._backend.output(session, handle))

    def release(self, session: str) -> None:
        """What `open` took is not needed any more. Waits for nothing."""
        if (worker := self._worker) is not None:
            worker.soon(lambda: self._let_go(session))

    def release_opened(self, session: str, opened: Future[KeptSession | None]) -> None:
        """As `release`, of what `begin` gave when that has ended, also if nobody waited for it."""
        if not opened.cancelled() and opened.exception() is None:
            self.release(session)

    def _let_go(self, session: str) -> None:
        self._users[session] -= 1
        if self._users[session] <= 0:
            del self._users[session]
            self._backend.attempt(lambda: self._backend.release(session))

    def join(self) -> Future[str]:
        """Makes it known that this process is there; gives its token, alive until the process ends or closes this."""
        return self._do(self._backend.join)

    def is_alive(self, token: str) -> Future[bool]:
        """Whether the process with this token is still there."""
        return self._do(lambda: self._backend.has(token))

    def flush(self) -> Future[None]:
        """Is over when all is written that was to be written by now."""
        return self._do(lambda: None)

    # -- looking ------------------------------------------------------------------------------------------------------

    @checked(InputError)
    def sessions(self, limit: int | None = None, *, folder: str | Path | None = None) -> list[SessionInfo]:
        """The sessions, the one used last first; those begun in `folder`, if one is named.

        One in which everything was taken back is not among them; its id still goes on with it.
        """
        named = str(folder) if folder is not None else None
        return self._result(self._do(lambda: self._backend.infos(limit, named, with_empty=False)))

    @checked(InputError)
    def read(self, session: str) -> KeptSession:
        """All that is kept of a session, whoever has it. Raises `InputError` if there is none of this id."""
        kept = self._result(self.reading(session))
        if kept is None:
            raise self._none(session)
        return kept

    @checked(InputError)
    def search(self, words: str, limit: int = 20) -> list[Found]:
        """Messages of people and models that have all the words, in any order; the best first."""
        wanted = words.split()
        if not wanted:
            raise InputError("search: say which words to look for")
        return self._result(self._do(lambda: self._backend.search(wanted[:20], min(limit, MAX_FOUND))))

    def match(self, wanted: str) -> list[SessionInfo]:
        """Sessions meant by an id, by its beginning, or by words of a title or a message; the one used last first."""
        infos = self.sessions()
        if exact := [info for info in infos if info.id == wanted]:
            return exact
        if begins := [info for info in infos if len(wanted) >= 4 and info.id.startswith(wanted)]:
            return begins
        words = wanted.casefold().split()
        titled = [info for info in infos if all(word in info.title.casefold() for word in words)]
        if titled or not words:
            return titled
        found = dict.fromkeys(item.session.id for item in self.search(wanted, MAX_FOUND))
        return [info for info in infos if info.id in found]

    # -- managing -----------------------------------------------------------------------------------------------------

    @checked(InputError)
    def rename(self, session: str, title: str) -> None:
        """Gives a session a title of at most 80 characters. Raises `InputError` if there is none of this id."""
        words = safe_line(title, MAX_TITLE)
        if not words.strip():
            raise InputError("rename: the title is empty")
        if not self._result(self._do(lambda: self._backend.rename(session, self.redact(words)))):
            raise self._none(session)

    @checked(InputError)
    def fork(self, session: str, new: str | None = None, *, length: int | None = None) -> str:
        """Copies a session, or its first `length` messages, and gives the copy's id; the other stays as it is.

        What was spent stays with the other. A length between calls and their results takes neither. Raises
        `InputError` if there is no such session, or one of the new id already.
        """
        copy = new if new is not None else uuid4().hex
        usable_id(copy)
        kept = self.read(session)
        if length is not None:
            while 0 < length < len(kept.messages) and kept.messages[length].role == "tool":
                length -= 1
        if self._result(self._do(lambda: self._backend.info(copy))) is not None:
            raise InputError(f'fork: there is a session "{safe_line(copy, 60)}" already')
        others: dict[str, str | None] = {"spent": None, "durable": None}
        if length is not None and length < len(kept.messages):
            others |= {"run": None, "pending": None, "announced": None}
        self._result(self._do(lambda: self._backend.fork(session, copy, length, others)))
        return copy

    @checked(InputError)
    def delete(self, session: str) -> None:
        """Forgets a session. Raises `InputError` if there is none, and `SessionBusyError` while an agent has it."""
        if session in self._kept:
            raise SessionBusyError(session, self._backend.me)
        if not self._result(self._do(lambda: self._backend.delete(session))):
            raise self._none(session)

    @checked(InputError)
    def prune(self, before: float) -> list[SessionInfo]:
        """Forgets the sessions last used before this time (seconds since 1970) that nobody has; gives them."""
        infos = self._result(self._do(self._backend.infos))
        old = [info for info in infos if info.updated < before and info.holder is None]
        for info in old:
            self._result(self._do(lambda info=info: self._backend.delete(info.id)))  # type: ignore[misc]
        self._result(self._do(self._backend.prune_outputs))
        return old

    def outputs(self) -> tuple[int, int]:
        """How many results are kept that were set aside, and their characters."""
        return self._result(self._do(self._backend.outputs))

    def check(self) -> list[str]:
        """What is wrong with the store, a line each; empty if nothing is. What dead processes held is free then."""

        def work() -> list[str]:
            wrong = self._backend.check()
            dead = self._backend.dead_holders()
            return [*wrong, *(f"{holder} ended without a word; what it held is free" for holder in dead)]

        return self._result(self._do(work))

    def close(self) -> None:
        """Gives back what is held, when all is written; the next use opens it again. A second call does nothing."""
        worker, self._worker = self._worker, None
        if worker is not None:
            self._end.detach()
            worker.end()
            worker.join()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _do(self, work: Callable[[], _T]) -> Future[_T]:
        return self._running().do(lambda: self._backend.attempt(work))

    def _running(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._backend.close)
            self._end = weakref.finalize(self, self._worker.end)
            self._end.atexit = False  # the worker sees to that itself
        return self._worker

    def _forked(self) -> None:
        """This process was forked from the one that made it: what that one has open is not ours."""
        if self._worker is not None:
            self._worker = None
            self._end.detach()
        self._kept, self._users, self._signing_key = set(), Counter(), None
        self._backend.forked()

    def _result(self, future: Future[_T]) -> _T:
        try:
            return future.result(WAIT_SECONDS)
        except TimeoutError:
            raise SessionStoreError(f"{self.where}: gave no answer within {WAIT_SECONDS:g} seconds") from None

    def _none(self, session: str) -> InputError:
        return InputError(f'{self.where}: there is no session "{safe_line(session, 60)}"; see `mcpagent sessions list`')

    def redact(self, text: str) -> str:
        """The text without secrets, as it is written."""
        return without_shapes_in_steps(self._without_values(text))

    def _without_values(self, text: str) -> str:
        known = known_values()
        if self._redactor is None or self._redactor[0] is not known:
            self._redactor = (known, value_redactor({*self._values, *known}))
        return self._redactor[1](text)

    def _name(self, text: str) -> str:
        return _sendable(self.redact(text))

    def as_json(self, data: Any) -> str:
        """As JSON; keys are found in each text by itself, since `\\n` before one would hide its beginning."""
        text = written_json(data)
        return self._without_values(written_json(redacted(data, without_shapes)) if may_have_shapes(text) else text)

    def message_as_json(self, message: Message) -> str:
        """As JSON. What a provider sent for itself alone looks like anything, and must come back as it was."""
        return self._message_row(message).message

    def _message_row(self, message: Message) -> MessageRow:
        (data,) = dump_messages([message])
        text = written_json(data)
        is_answer = _is_answer(data)
        if not may_have_shapes(text) and self._without_values(text) == text:  # nor has what was said
            return MessageRow(text, _words(message), is_answer)
        return MessageRow(self._redacted_message(data), self.redact(_words(message)), is_answer)

    def _redacted_message(self, data: dict[str, Any]) -> str:
        parts = data["parts"]
        for place, part in enumerate(parts):
            own = {key: part[key] for key in ("provider_data", "data") if key in part}
            parts[place] = {**redacted({**part, **dict.fromkeys(own, "")}, without_shapes), **own}
            if part["type"] == "thinking" and own != json.loads(self._without_values(written_json(own))):
                parts[place]["provider_data"] = {}  # signed, so worth nothing with another text
        return self._without_values(written_json(data))

    def _rows(self, change: SessionChange) -> Rows:
        calls = {
            self._name(call): None if known is None else self.as_json(progress_to_json(known))
            for call, known in change.calls.items()
        }
        ended = change.ended
        return Rows(
            keep=change.keep,
            messages=tuple(map(self._message_row, change.messages)),
            steps={place: self.as_json(step) for place, step in change.steps.items()},
            calls=calls,
            only_calls=change.only_calls,
            values={name: None if data is None else self.as_json(data) for name, data in change.values.items()},
            columns={
                "folder": self._name(change.folder),
                "model": self._name(change.model),
                "tokens": change.tokens,
                "dollars": change.dollars,
                "cost_known": int(change.cost_known),
                "updated": change.updated,
            },
            title=self._name(title_of(change.title)),
            ended={} if ended is None else {ended.run: self.as_json(ended_to_json(ended))},
        )


_stores: weakref.WeakSet[SessionStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in tuple(_stores):
        store._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def usable_id(session: object) -> str:
    """A session's id. Raises `InputError` for what is none: text of 1 to 200 printable characters."""
    expect("session id", session, str, "a text", error=InputError)
    assert isinstance(session, str)
    if not session or len(session) > MAX_ID or not session.isprintable():
        raise InputError(f"session id: expected 1 to {MAX_ID} printable characters, got {safe_line(repr(session), 60)}")
    return session


def title_of(prompt: str) -> str:
    """A title for what was asked first: its first words, in one line."""
    line = safe_line(" ".join(prompt[:2_000].split()), MAX_TITLE)
    return line.strip()


def _words(message: Message) -> str:
    return _sendable(message.text) if message.role != "tool" else ""


def _sendable(text: str) -> str:
    """Without what no database takes: NUL, and halves of characters."""
    return without_halves(text.replace("\0", " "))


def _is_answer(data: Mapping[str, Any]) -> bool:
    return data["role"] == "assistant" and all(part["type"] != "tool_call" for part in data["parts"])


def _kept(rows: ReadRows, where: str) -> KeptSession:
    try:
        messages = tuple(load_message(json.loads(text), place) for place, text in enumerate(rows.messages))
        steps = steps_from_json({place: json.loads(text) for place, text in rows.steps.items()})
        return KeptSession(rows.info, messages, steps, _loaded(rows.calls), _loaded(rows.values))
    except (KeyError, TypeError, ValueError, InputError, RecursionError) as error:
        what = f'session "{safe_line(rows.info.id, 60)}" cannot be read: {safe_line(str(error), 160)}'
        raise SessionStoreError(f"{where}: {what}; the others can") from None


def _loaded(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: json.loads(text) for name, text in texts.items()}


def _backend(where: str | Path | None, durability: Literal["normal", "full"]) -> SessionBackend:
    expect_kind("SessionStore: durability", durability, Literal["normal", "full"])
    expect("SessionStore: where", where, (str, Path, NoneType), "a file, or postgresql://...")
    if is_address(where):
        from mcpagent.sessions.postgres import PostgresBackend

        return PostgresBackend(where, durability)
    from mcpagent.sessions.sqlite import SqliteBackend

    return SqliteBackend(file_meant(where, "sessions.db", os.environ), durability)


async def written(future: Future[_T]) -> _T:
    """What the store gives; whoever waits may be cancelled, and it is written all the same."""
    return await asyncio.shield(asyncio.wrap_future(future))


__all__ = ["Holder", "SessionChange", "SessionStore", "title_of", "usable_id", "written"]
