"""Writing one session down as it goes on: what became different since it was written last, before the next step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from typing import Any

from mcpagent.errors import InputError, RunCancelledError, SessionStoreError
from mcpagent.history.conversation import CallProgress, Conversation
from mcpagent.sessions.kept import KeptSession, SessionChange, SessionInfo
from mcpagent.sessions.standing import (
    Standing,
    programs_to_json,
    progress_from_json,
    progress_to_json,
    steps_to_json,
    to_json,
)
from mcpagent.sessions.store import Sessions, is_answer, title_of, written
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import Message, Spent

_NAMES = tuple(item.name for item in fields(Standing) if item.name != "ended")
_NOTHING = Standing()

_UNKNOWN = object()
"""A value that may be in the store or not, since a write failed."""

_READ_FOR_TITLE = 10_000
"""Characters of a prompt that are looked through for secrets before its first words become the title."""


class _EarlierWriteError(SessionStoreError):
    """What was asked for before could not be written."""


@dataclass(frozen=True, slots=True)
class _Since:
    """The differences to the last write: messages from `keep` on, of `length` that the store has, and values by name.

    `programs` are the parts of programs' variables that the store has.
    """

    keep: int
    length: int
    is_less: bool
    names: set[str]
    is_all_of_the_calls: bool
    programs: Mapping[str, Any]


class Keeper:
    """Has one session of a store, and knows what of it is written.

    What cannot be written is an error of whoever waits for it, and is tried again with the next change. Raises
    `SessionBusyError` if the session is kept by another one already.
    """

    def __init__(
        self,
        store: Sessions,
        session: str,
        *,
        kept: KeptSession | None = None,
        standing: Standing = _NOTHING,
    ) -> None:
        store.keep(session)
        self.store, self.session = store, session
        self.is_released = False
        if kept is not None:
            messages = kept.messages
        else:
            messages = ()
        self._length = len(messages)
        self._longest = len(messages)
        """More messages than this were never in the store."""
        self._answers = [is_answer(message) for message in messages]
        self._calls: set[str] = set(kept.calls) if kept is not None else set()
        """The IDs of the calls whose progress may be in the store."""
        if kept is not None and not kept.info.is_named:
            self._title = kept.info.title
        else:
            self._title = ""
        if kept is not None:
            self._created = kept.info.created
        else:
            self._created = time.time()
        self._is_new = not messages
        self._standing: dict[str, Any] = {
            name: getattr(standing, name) for name in _NAMES
        }
        self._programs: set[str] = set(standing.programs)
        """The names of parts of programs that may be in the store."""
        self._progress_log: Sequence[str] | None = None
        self._progress_written = 0
        """How many entries of that log are in the store."""
        self._folder = _current_folder()
        self._failure: SessionStoreError | None = None
        self._attempt = 0
        """How often all was written anew."""
        if kept is not None:
            self.version = kept.info.updated
        else:
            self.version = 0.0
        """The time of the last write that was asked for: if the store has the same, nobody else wrote since."""

    async def write(
        self, conversation: Conversation, standing: Standing, *, model: str
    ) -> None:
        """Writes what is different, if anything is. Raises `SessionStoreError`; nothing is written then.

        Raises `RunCancelledError` after the write if its owner cancelled the durable run that goes on.
        """
        future = self.write_soon(conversation, standing, model=model)
        is_cancelled = False
        try:
            if future is not None:
                is_cancelled = await written(future)
        except (
            _EarlierWriteError
        ):  # nobody waited for that one, and by now it may be possible
            future = self.write_soon(conversation, standing, model=model)
            if future is not None:
                is_cancelled = await written(future)
        if is_cancelled:
            raise RunCancelledError(standing.durable)

    def write_soon(
        self, conversation: Conversation, standing: Standing, *, model: str
    ) -> Future[bool] | None:
        """As `write`, beside whoever asks; None if nothing is different."""
        since = self._since(conversation, standing)
        messages = tuple(conversation.messages[since.keep :])
        calls = self._changed_calls(conversation, all_of_them=since.is_all_of_the_calls)
        if not (messages or since.names or calls or since.is_less or standing.ended):
            return None
        if self._is_new and not len(conversation) and standing.ended is None:
            return None  # nobody has said anything yet
        if standing.run is not None:
            since.names.add("run")  # values that differ in seconds alone are equal
        spent = _spent(standing)
        self._answers[since.keep :] = map(is_answer, messages)
        if not self._title:
            self._title = title_of(
                without_secrets(_first_prompt(messages)[:_READ_FOR_TITLE])
            )
        change = SessionChange(
            keep=since.keep,
            messages=messages,
            length=since.length,
            steps=steps_to_json(conversation.steps, since.keep) if messages else {},
            calls=calls,
            values=_values(since.names, standing, since.programs),
            title=self._title,
            created=self._created,
            folder=self._folder,
            model=model,
            turns=sum(self._answers),
            tokens=spent.tokens,
            dollars=spent.dollars,
            cost_known=spent.cost_known,
            run=standing.durable,
            ended=standing.ended,
        )
        self.version = change.updated
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
            """What was asked for after a failed write must not leave a gap."""
            if self._failure is not None:
                raise _EarlierWriteError(str(self._failure))
            if attempt != self._attempt:
                raise SessionStoreError(
                    f"{self.store.where}: what was to be written before could not be"
                )

        future = self.store.write(self.session, change, check)
        future.add_done_callback(self._after)
        return future

    def _since(self, conversation: Conversation, standing: Standing) -> _Since:
        """Return the differences to the last write; after one that failed all is written again."""
        if self._failure is not None:
            self._failure, self._attempt = None, self._attempt + 1
            return _Since(
                0,
                self._longest,
                True,
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
            keep,
            self._length,
            keep < self._length,
            names,
            is_other_log,
            self._standing["programs"],
        )

    def _changed_calls(
        self, conversation: Conversation, *, all_of_them: bool
    ) -> dict[str, CallProgress | None]:
        """Return the progress of calls that changed since the last write, None for a call that is over."""
        calls: dict[str, CallProgress | None] = {}
        if all_of_them:
            calls |= dict.fromkeys(self._calls)
            calls |= conversation.progress
            self._calls = set(conversation.progress)
            return calls
        for call_id in conversation.progress_log[self._progress_written :]:
            known = conversation.progress.get(call_id)
            calls[call_id] = known
            if known is None:
                self._calls.discard(call_id)
            else:
                self._calls.add(call_id)
        return calls

    def release(self) -> None:
        """Lets others have it, once all is written; a second call does nothing."""
        if not self.is_released:
            self.is_released = True
            self.store.keep_no_more(self.session)

    def keep_again(self) -> None:
        """Has the session again, in which nobody wrote since `release`. Raises as making a `Keeper` does."""
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
    names: Iterable[str], standing: Standing, programs_before: Mapping[str, Any]
) -> dict[str, Any]:
    values = {
        name: _value(name, standing) for name in sorted(names) if name != "programs"
    }
    return {**values, **programs_to_json(standing.programs, programs_before)}


def _value(name: str, standing: Standing) -> Any:
    value = getattr(standing, name)
    if value is None or value == getattr(_NOTHING, name):
        return None
    return to_json(name, value)


def _spent(standing: Standing) -> Spent:
    return standing.spent + (
        standing.run.spent if standing.run is not None else Spent()
    )


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


def _first_prompt(messages: tuple[Message, ...]) -> str:
    return next((message.text for message in messages if message.role == "user"), "")


def restored(kept: KeptSession) -> tuple[Conversation, Standing]:
    """The conversation and what it stands on, as they were written. Raises `SessionStoreError` for what is neither."""
    try:
        standing = Standing.from_json(kept.values)
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
        )
    except (KeyError, TypeError, ValueError, InputError) as error:
        what = f'session "{safe_line(kept.info.id, 60)}" cannot be read: {type(error).__name__}'
        raise SessionStoreError(
            f"{what} {safe_line(str(error), 120)}; the others can"
        ) from None
    return conversation, standing


def kept_as(
    info: SessionInfo, conversation: Conversation, standing: Standing, *, model: str
) -> KeptSession:
    """What a store would have of it now; `restored` is the way back. `info` is what is known of it from before."""
    messages, spent = tuple(conversation.messages), _spent(standing)
    now = replace(
        info,
        title=info.title or title_of(_first_prompt(messages)),
        updated=time.time(),
        folder=info.folder or _current_folder(),
        model=model,
        turns=sum(
            message.role == "assistant" and not message.tool_calls
            for message in messages
        ),
        messages=len(messages),
        tokens=spent.tokens,
        dollars=spent.dollars,
        cost_known=spent.cost_known,
    )
    calls = {
        call: progress_to_json(known) for call, known in conversation.progress.items()
    }
    values = {
        name: value
        for name, value in _values(_NAMES, standing, {}).items()
        if value is not None
    }
    return KeptSession(now, messages, tuple(conversation.steps), calls, values)
