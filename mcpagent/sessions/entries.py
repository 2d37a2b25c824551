"""The journal of a session as entries: what each key holds, and the session that entries add up to.

s/message/000007    a message, with the model, usage and time of its request if it is an answer
s/call/ID           the progress of a call that has no result in a message yet
s/value/NAME        another value that a run continues with (`standing.py`); the variables of programs are some
run/ID/ended        the end of a durable run, with its result
run/ID/cancelled    a mark of the run's owner, which needs no lease
output/HANDLE       a large result, until it expires
info/summary        the session in a list; info/title is a title that a person gave, which needs no lease
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.errors import InputError, SessionStoreError
from mcpagent.sessions.kept import KeptSession, SessionInfo
from mcpagent.sessions.protocol import Entry, StoredSession
from mcpagent.sessions.standing import steps_from_json
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Message, load_message

SESSION = "s/"
MESSAGE = "s/message/"
CALL = "s/call/"
VALUE = "s/value/"
INFO = "info/"
SUMMARY = "info/summary"
TITLE = "info/title"
OUTPUT = "output/"


def message_key(place: int) -> str:
    """Return the key of the message at this position; keys sort as positions do."""
    return f"{MESSAGE}{place:06d}"


def message_place(key: str) -> int:
    """Return the position of the message with this key."""
    return int(key.removeprefix(MESSAGE))


def cancelled_key(run: str) -> str:
    """Return the key of the mark that a durable run is cancelled."""
    return f"run/{run}/cancelled"


def ended_key(run: str) -> str:
    """Return the key of the end of a durable run."""
    return f"run/{run}/ended"


def _is_message(key: str) -> bool:
    return key.startswith(MESSAGE)


def by_key(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the last entry of each key that has not ended."""
    last = {entry.key: entry for entry in entries}
    return {key: entry for key, entry in last.items() if entry.data is not None}


def loaded(entry: Entry) -> Any:
    """Return the data of an entry."""
    return json.loads(entry.data or "null")


def session_info(stored: StoredSession) -> SessionInfo | None:
    """Return the line of a session in a list; None if nothing was said in it yet."""
    entries = by_key(stored.entries)
    if SUMMARY not in entries:
        return None
    fields: dict[str, Any] = loaded(entries[SUMMARY])
    fields["cost_known"] = bool(fields["cost_known"])
    fields["is_named"] = TITLE in entries
    if TITLE in entries:
        fields["title"] = loaded(entries[TITLE])
    return SessionInfo(stored.id, **fields, holder=stored.holder)


def kept_session(stored: StoredSession, where: str) -> KeptSession | None:
    """Return the session that the entries add up to; None without a summary. Raise `SessionStoreError` for bad data."""
    try:
        info = session_info(stored)
        if info is not None:
            return _kept(info, by_key(stored.entries))
        return None
    except (KeyError, TypeError, ValueError, InputError, RecursionError) as error:
        problem = f'session "{safe_line(stored.id, 60)}" cannot be read: {safe_line(str(error), 160)}'
        raise SessionStoreError(f"{where}: {problem}; the others can") from None


def _kept(info: SessionInfo, entries: Mapping[str, Entry]) -> KeptSession:
    messages: list[Message] = []
    steps: dict[int, Any] = {}
    calls: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for key in sorted(filter(_is_message, entries), key=message_place):
        data = loaded(entries[key])
        if message_place(key) != len(messages):
            raise ValueError(f"message {len(messages)} is missing")
        messages.append(load_message(data["message"], len(messages)))
        if data["step"] is not None:
            steps[message_place(key)] = data["step"]
    for key, entry in entries.items():
        if key.startswith(CALL):
            calls[key.removeprefix(CALL)] = loaded(entry)
        elif key.startswith(VALUE):
            values[key.removeprefix(VALUE)] = loaded(entry)
    return KeptSession(info, tuple(messages), steps_from_json(steps), calls, values)
