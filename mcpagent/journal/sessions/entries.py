"""The journal of a session: its entries as values and as rows of a store, and the session that they make up.

s/message/000007 `MessageAppended`: a message, with the model, usage and time of its request if it is an answer
s/call/ID `CallNoted`: a call that was sent, or has its result before the message with all results s/value/NAME
`ValueChanged`: another value that a run continues with (`saved_state.py`), as variables of programs run/ID/ended
`RunEnded`: the end of a run, with its result run/ID/cancelled a mark by the run's owner, who needs no lease for it
output/HANDLE a large result, until it expires info/summary `SessionInfo`: the session in a list; info/title is a title
by a person, who needs no lease for it
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mcpagent.errors import InputError, SessionStoreError
from mcpagent.history.conversation import CallProgress
from mcpagent.journal.sessions.loaded_session import LoadedSession, SessionInfo
from mcpagent.journal.sessions.protocol import Entry, StoredSession
from mcpagent.journal.sessions.run_ended import RunEnded, ended_to_json
from mcpagent.journal.sessions.saved_state import (
    progress_to_json,
    steps_from_json,
    written_json,
)
from mcpagent.utilities.python.plain_data import dump_value
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line, without_halves
from mcpagent.utilities.text.secrets import may_hold_secrets, without_secrets
from mcpagent.values.messages import Message, dump_messages, load_message

SESSION = "s/"
MESSAGE = "s/message/"
RUN = "run/"
CALL = "s/call/"
VALUE = "s/value/"
INFO = "info/"
SUMMARY = "info/summary"
TITLE = "info/title"
OUTPUT = "output/"
DURABLE = f"{VALUE}durable"
"""The key of the entry that names a durable run in progress."""

MAX_TITLE = 80

_KINDS: Mapping[str, str] = {
    "run": "run_started",
    "durable": "run_started",
    "spent": "usage",
    "pending": "approval_requested",
    "state": "state_patched",
    "told": "tools_changed",
    "beginning": "session_started",
}
"""The kind of an entry for a value, by the value's name; others are "value_changed"."""


@dataclass(frozen=True, slots=True)
class MessageAppended:
    """A message at this index. `step` is the JSON data about its request, if it is an answer (`steps_to_json`)."""

    place: int
    message: Message
    step: Any = None


@dataclass(frozen=True, slots=True)
class MessageTakenBack:
    """The message at this index was removed, for instance by a rewind."""

    place: int


@dataclass(frozen=True, slots=True)
class CallNoted:
    """The progress of a call. None: the call has ended, and a message has its result."""

    call: str
    progress: CallProgress | None


@dataclass(frozen=True, slots=True)
class ValueChanged:
    """A value of `SavedState` by its name, as JSON data. None: the value of a new session."""

    name: str
    data: Any


JournalEntry: TypeAlias = (
    MessageAppended
    | MessageTakenBack
    | CallNoted
    | ValueChanged
    | RunEnded
    | SessionInfo
)


# -- Entries as rows ---------------------------------------------------------------------------------------------------


def message_key(place: int) -> str:
    """Return the key of the message at this index; keys sort like indices."""
    return f"{MESSAGE}{place:06d}"


def message_place(key: str) -> int:
    """Return the index of the message with this key."""
    return int(key.removeprefix(MESSAGE))


def cancelled_key(run: str) -> str:
    """Return the key of the entry that marks a durable run as cancelled."""
    return f"run/{run}/cancelled"


def ended_key(run: str) -> str:
    """Return the key of the entry that marks a durable run as ended."""
    return f"run/{run}/ended"


def row_of(entry: JournalEntry, time: float, run: str) -> Entry:
    """Return an entry as a row for a store, with secrets replaced. `run` is the ID of its run, or ""."""
    match entry:
        case MessageAppended(place, message, step):
            text, words = message_as_json(message)
            told = "null"
            if step is not None:
                told = clean_json(step)
            return Entry(
                message_key(place),
                "message",
                f'{{"message":{text},"step":{told}}}',
                time,
                run,
                words=words,
            )
        case MessageTakenBack(place):
            return Entry(message_key(place), "message", None, time, run)
        case CallNoted(call_id, progress):
            call = clean_name(call_id)
            kind = "call_sent"
            if progress is None or progress.parts:
                kind = "call_ended"
            data = None
            if progress is not None:
                data = clean_json(progress_to_json(progress))
            return Entry(f"{CALL}{call}", kind, data, time, run, call)
        case ValueChanged(name, value):
            if name.startswith("programs/"):
                kind = "variables_kept"
            else:
                kind = _KINDS.get(name, "value_changed")
            data = None
            if value is not None:
                data = clean_json(value)
            return Entry(f"{VALUE}{name}", kind, data, time, run)
        case RunEnded(ended):
            return Entry(
                ended_key(ended),
                "run_ended",
                clean_json(ended_to_json(entry)),
                time,
                ended,
            )
        case SessionInfo():
            return Entry(SUMMARY, "summary", _summary(entry), time, run)


def _summary(info: SessionInfo) -> str:
    texts = {"title": title_of(info.title), "folder": info.folder, "model": info.model}
    data = dump_value(replace(info, holder=None)) | {
        name: clean_name(text) for name, text in texts.items()
    }
    for name in ("id", "is_named", "holder"):
        del data[name]
    return written_json(data)


def clean_json(data: Any) -> str:
    r"""Return data as JSON with secrets replaced. Each text is checked by itself, since `\n` before a secret would hide
    its start.
    """
    text = written_json(data)
    if may_hold_secrets(text):
        return written_json(with_texts(data, without_secrets))
    return text


def message_as_json(message: Message) -> tuple[str, str]:
    """Return a message as JSON, and the words by which search finds it, both without secrets.

    Opaque data of a provider stays unchanged, because it must return to the provider unchanged.
    """
    (data,) = dump_messages([message])
    text, words = written_json(data), searched_words(message)
    if not may_hold_secrets(text):  # then the searched words have none either
        return text, words
    return _redacted_message(data), without_secrets(words)


def _redacted_message(data: dict[str, Any]) -> str:
    parts = data["parts"]
    for place, part in enumerate(parts):
        own = {key: part[key] for key in ("provider_data", "data") if key in part}
        parts[place] = {
            **with_texts({**part, **dict.fromkeys(own, "")}, without_secrets),
            **own,
        }
        if part["type"] == "thinking" and own != with_texts(own, without_secrets):
            parts[place][
                "provider_data"
            ] = {}  # data of this kind is signed for its exact text, so it would be useless with another one
    return written_json(data)


def searched_words(message: Message) -> str:
    """Return the words by which search finds a message; only those of people and models."""
    if message.role != "tool":
        return _sendable(message.text)
    return ""


def title_of(prompt: str) -> str:
    """Return a title for a session from its first prompt: its first words, in one line."""
    line = safe_line(" ".join(prompt[:2_000].split()), MAX_TITLE)
    return line.strip()


def clean_name(text: str) -> str:
    """Return a short text without secrets and without characters that databases reject."""
    return _sendable(without_secrets(text))


def _sendable(text: str) -> str:
    """Return the text without characters that no database accepts: NUL and lone surrogates."""
    return without_halves(text.replace("\0", " "))


# -- Entries as a session ----------------------------------------------------------------------------------------------


def by_key(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the last entry of each key, without keys that were removed."""
    last = {entry.key: entry for entry in entries}
    return {key: entry for key, entry in last.items() if entry.data is not None}


def loaded(entry: Entry) -> Any:
    """Return the JSON data of an entry."""
    return json.loads(entry.data or "null")


def session_info(stored: StoredSession) -> SessionInfo | None:
    """Return the summary of a stored session for a list; None if it has no message yet."""
    entries = by_key(stored.entries)
    if SUMMARY not in entries:
        return None
    fields: dict[str, Any] = loaded(entries[SUMMARY])
    fields["cost_known"] = bool(fields["cost_known"])
    fields["is_named"] = TITLE in entries
    if TITLE in entries:
        fields["title"] = loaded(entries[TITLE])
    return SessionInfo(stored.id, **fields, holder=stored.holder)


def kept_session(stored: StoredSession, where: str) -> LoadedSession | None:
    """Return the session that the entries make up; None without a summary. Raises `SessionStoreError` for invalid
    data.
    """
    try:
        info = session_info(stored)
        if info is not None:
            return _kept(info, by_key(stored.entries))
        return None
    except (KeyError, TypeError, ValueError, InputError, RecursionError) as error:
        problem = f'session "{safe_line(stored.id, 60)}" cannot be read: {safe_line(str(error), 160)}'
        raise SessionStoreError(f"{where}: {problem}; the others can") from None


def _kept(info: SessionInfo, entries: Mapping[str, Entry]) -> LoadedSession:
    messages: list[Message] = []
    steps: dict[int, Any] = {}
    calls: dict[str, Any] = {}
    values: dict[str, Any] = {}
    runs: list[str] = []
    ends: dict[str, Any] = {}
    places = sorted(message_place(key) for key in entries if key.startswith(MESSAGE))
    for place in places:
        data = loaded(entries[message_key(place)])
        if place != len(messages):
            raise ValueError(f"message {len(messages)} is missing")
        messages.append(load_message(data["message"], place))
        runs.append(entries[message_key(place)].run)
        if data["step"] is not None:
            steps[place] = data["step"]
    for key, entry in entries.items():
        if key.startswith(CALL):
            calls[key.removeprefix(CALL)] = loaded(entry)
        elif key.startswith(VALUE):
            values[key.removeprefix(VALUE)] = loaded(entry)
        elif key == ended_key(entry.run):
            ends[entry.run] = loaded(entry)
    return LoadedSession(
        info,
        tuple(messages),
        steps_from_json(steps),
        calls,
        values,
        runs=tuple(runs),
        ends=ends,
    )
