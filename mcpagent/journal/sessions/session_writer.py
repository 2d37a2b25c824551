"""Write a session before each step: the changes since the last write."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from typing import Any

from mcpagent.errors import InputError, RunCancelledError, SessionStoreError
from mcpagent.history.conversation import Conversation
from mcpagent.journal.sessions.entries import (
    CallNoted,
    JournalEntry,
    MessageAppended,
    MessageTakenBack,
    ValueChanged,
    title_of,
)
from mcpagent.journal.sessions.loaded_session import LoadedSession, SessionInfo
from mcpagent.journal.sessions.saved_state import (
    SavedState,
    programs_to_json,
    progress_from_json,
    progress_to_json,
    steps_to_json,
    to_json,
)
from mcpagent.journal.sessions.store import Sessions, is_answer, written
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import Message, Spent

_NAMES = tuple(item.name for item in fields(SavedState) if item.name != "ended")
_NOTHING = SavedState()

_UNKNOWN = object()
"""Marks a value that may or may not be in the store, because a write failed."""

_READ_FOR_TITLE = 10_000
"""Number of characters of a prompt that are checked for secrets before its first words become the title."""


class _EarlierWriteError(SessionStoreError):
    """Raised by a write if an earlier one has failed."""


@dataclass(frozen=True, slots=True)
class _Since:
    """The differences from the last write: `length` messages are stored, those from `keep` on differ; `names` of
    changed values.

    `programs` are the stored parts of programs' variables.
    """

    keep: int
    length: int
    names: set[str]
    is_all_of_the_calls: bool
    programs: Mapping[str, Any]


class SessionWriter:
    """Writes one session to a store, as entries with the differences from the last write.

    A failed write raises an error for its caller, and the next write repeats it. Raises `SessionBusyError` if another
    `SessionWriter` has the session.
    """

    def __init__(
        self,
        store: Sessions,
        session: str,
        *,
        kept: LoadedSession | None = None,
        standing: SavedState = _NOTHING,
    ) -> None:
        store.keep(session)
        self.store, self.session = store, session
        self.is_released = False
        self.run = standing.durable
        """The ID of the run that new entries belong to."""
        if kept is not None:
            messages = kept.messages
        else:
            messages = ()
        self._length = len(messages)
        self._longest = len(messages)
        """The maximum number of messages that may be in the store."""
        self._answers = [is_answer(message) for message in messages]
        self._calls: set[str] = set(kept.calls) if kept is not None else set()
        """The IDs of calls whose progress may be in the store."""
        if kept is not None:
            self._info = kept.info
        else:
            self._info = SessionInfo(session, "", time.time(), 0.0)
        if self._info.is_named:
            self._info = replace(self._info, title="", is_named=False)
        # A conversation keeps the folder in which it began, even if it is continued in another one.
        self._info = replace(self._info, folder=self._info.folder or _current_folder())
        self._is_new = not messages
        self._standing: dict[str, Any] = {
            name: getattr(standing, name) for name in _NAMES
        }
        self._programs: set[str] = set(standing.programs)
        """The names of parts of programs that may be in the store."""
        self._progress_log: Sequence[str] | None = None
        self._progress_written = 0
        """The number of entries of the progress log that were written."""
        self._failure: SessionStoreError | None = None
        self._attempt = 0
        """The number of complete rewrites after failures."""

    async def write(
        self, conversation: Conversation, standing: SavedState, *, model: str
    ) -> None:
        """Write the changes, if there are any. Raises `SessionStoreError` if nothing was written.

        Raises `RunCancelledError` after the write if the owner has cancelled the current durable run.
        """
        is_cancelled = False
        try:
            is_cancelled = await self._written(conversation, standing, model)
        except _EarlierWriteError:  # no caller awaited the earlier write, so try again
            is_cancelled = await self._written(conversation, standing, model)
        if is_cancelled:
            raise RunCancelledError(standing.durable)

    async def _written(
        self, conversation: Conversation, standing: SavedState, model: str
    ) -> bool:
        future = self.write_soon(conversation, standing, model=model)
        if future is not None:
            return await written(future)
        return False

    def write_soon(
        self, conversation: Conversation, standing: SavedState, *, model: str
    ) -> Future[bool] | None:
        """Write like `write`, without waiting; return None if nothing differs."""
        since = self._since(conversation, standing)
        entries = [
            *self._messages(conversation, since),
            *self._changed_calls(conversation, since),
        ]
        if not (entries or since.names or standing.ended):
            return None
        if self._is_new and not len(conversation) and standing.ended is None:
            return None  # there is no message yet
        if standing.run is not None:
            since.names.add(
                "run"
            )  # values that differ only in seconds compare as equal
        entries += _values(since.names, standing, since.programs)
        if standing.ended is not None:
            entries += [standing.ended]
        self._answers[since.keep :] = map(
            is_answer, conversation.messages[since.keep :]
        )
        if not self._info.title:
            self._info = replace(self._info, title=_title_of(conversation.messages))
        self._info = info = info_of(
            self._info,
            len(conversation),
            standing,
            model=model,
            turns=sum(self._answers),
        )
        self._standing = {name: getattr(standing, name) for name in _NAMES}
        self._programs.update(standing.programs)
        self._progress_log, self._progress_written = (
            conversation.progress_log,
            len(conversation.progress_log),
        )
        self._length, self._is_new = len(conversation), False
        self._longest = max(self._longest, self._length)
        conversation.is_written()
        attempt = self._attempt

        def check() -> None:
            """Refuse this write if an earlier one failed, so that the store has no gap."""
            if self._failure is not None:
                raise _EarlierWriteError(str(self._failure))
            if attempt != self._attempt:
                raise SessionStoreError(
                    f"{self.store.where}: what was to be written before could not be"
                )

        future = self.store.write(
            self.session,
            [*entries, info],
            check,
            run=self.run,
            is_durable=bool(standing.durable),
        )
        future.add_done_callback(self._after)
        return future

    @property
    def version(self) -> float:
        """The time of this process's last write. If the store has the same time, no other process has written since."""
        return self._info.updated

    def _since(self, conversation: Conversation, standing: SavedState) -> _Since:
        """Return the differences from the last write; after a failed write, everything counts as different."""
        if self._failure is not None:
            self._failure, self._attempt = None, self._attempt + 1
            return _Since(
                0,
                self._longest,
                set(_NAMES),
                True,
                dict.fromkeys(self._programs, _UNKNOWN),
            )
        keep = min(conversation.written, self._length)
        names = {
            name for name in _NAMES if getattr(standing, name) != self._standing[name]
        }
        is_other_log = self._progress_log is not conversation.progress_log
        return _Since(
            keep, self._length, names, is_other_log, self._standing["programs"]
        )

    def _messages(
        self, conversation: Conversation, since: _Since
    ) -> list[JournalEntry]:
        """Return entries for new or changed messages, and for those that were removed."""
        messages = conversation.messages[since.keep :]
        if messages:
            steps = steps_to_json(conversation.steps, since.keep)
        else:
            steps = {}
        entries: list[JournalEntry] = []
        for place, message in enumerate(messages, since.keep):
            entries.append(MessageAppended(place, message, steps.get(place)))
        entries += map(
            MessageTakenBack, range(since.keep + len(messages), since.length)
        )
        return entries

    def _changed_calls(
        self, conversation: Conversation, since: _Since
    ) -> list[JournalEntry]:
        """Return entries for the calls whose progress changed since the last write."""
        changed = dict.fromkeys(conversation.progress_log[self._progress_written :])
        if since.is_all_of_the_calls:
            changed = dict.fromkeys([*self._calls, *conversation.progress])
        for call_id in changed:
            if call_id in conversation.progress:
                self._calls.add(call_id)
            else:
                self._calls.discard(call_id)
        return [
            CallNoted(call_id, conversation.progress.get(call_id))
            for call_id in changed
        ]

    def release(self) -> None:
        """Let other processes have the session after everything is written. A second call has no effect."""
        if not self.is_released:
            self.is_released = True
            self.store.keep_no_more(self.session)

    def keep_again(self) -> None:
        """Take the session again after `release`. Raises the errors of the constructor."""
        self.store.keep(self.session)
        self.is_released = False

    def _after(self, future: Future[bool]) -> None:
        error = None
        if not future.cancelled():
            error = future.exception()
        if error is not None and self._failure is None:
            if isinstance(error, SessionStoreError):
                told = error
            else:
                told = SessionStoreError(f"{self.store.where}: {error}")
            self._failure = told


def _values(
    names: Iterable[str], standing: SavedState, programs_before: Mapping[str, Any]
) -> list[JournalEntry]:
    """Return entries for the values with these names, and for the changed parts of programs' variables."""
    entries: list[JournalEntry] = []
    for name in sorted(names):
        value = getattr(standing, name)
        if name != "programs":
            is_none = value is None or value == getattr(_NOTHING, name)
            entries.append(
                ValueChanged(name, None if is_none else to_json(name, value))
            )
    changed = programs_to_json(standing.programs, programs_before)
    return [*entries, *(ValueChanged(name, data) for name, data in changed.items())]


def info_of(
    before: SessionInfo, length: int, standing: SavedState, *, model: str, turns: int
) -> SessionInfo:
    """Return the current summary of a session with `length` messages, based on the earlier summary `before`."""
    spent = standing.spent + (
        standing.run.spent if standing.run is not None else Spent()
    )
    return replace(
        before,
        updated=time.time(),
        model=model,
        turns=turns,
        messages=length,
        tokens=spent.tokens,
        dollars=spent.dollars,
        cost_known=spent.cost_known,
    )


def _title_of(messages: Sequence[Message]) -> str:
    """Return the title for a session: the first words of its first prompt, without secrets."""
    first = next((message.text for message in messages if message.role == "user"), "")
    return title_of(without_secrets(first[:_READ_FOR_TITLE]))


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # the current folder was deleted
        return ""


def restored(kept: LoadedSession) -> tuple[Conversation, SavedState]:
    """Return the conversation and the state of a stored session. Raises `SessionStoreError` for invalid data."""
    try:
        standing = SavedState.from_json(kept.values)
        progress = {call: progress_from_json(data) for call, data in kept.calls.items()}
        conversation = Conversation(standing.beginning.system, kept.messages)
        conversation.is_written()
        conversation.windows = {**standing.windows}
        announced = standing.announced
        conversation.restore(
            progress,
            announced.parts,
            kept.steps,
            unanswered_prompt=announced.unanswered_prompt,
            offered={tool.name: tool.key for tool in standing.beginning.offered},
        )
    except (KeyError, TypeError, ValueError, InputError) as error:
        what = f'session "{safe_line(kept.info.id, 60)}" cannot be read: {type(error).__name__}'
        raise SessionStoreError(
            f"{what} {safe_line(str(error), 120)}; the others can"
        ) from None
    return conversation, standing


def kept_as(
    info: SessionInfo, conversation: Conversation, standing: SavedState, *, model: str
) -> LoadedSession:
    """Return the session as a store would return it now; `restored` accepts it. `info` is its summary so far."""
    messages = tuple(conversation.messages)
    before = replace(
        info,
        title=info.title or _title_of(messages),
        folder=info.folder or _current_folder(),
    )
    now = info_of(
        before,
        len(messages),
        standing,
        model=model,
        turns=sum(map(is_answer, messages)),
    )
    calls = {
        call: progress_to_json(known) for call, known in conversation.progress.items()
    }
    values = [
        entry
        for entry in _values(_NAMES, standing, {})
        if isinstance(entry, ValueChanged)
    ]
    known = {entry.name: entry.data for entry in values if entry.data is not None}
    return LoadedSession(now, messages, tuple(conversation.steps), calls, known)
