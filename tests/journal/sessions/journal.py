"""Entries as a session writes them, for tests that write into a store themselves."""

from __future__ import annotations

import time
from typing import Any

from mcpagent import Message, Text
from mcpagent.journal.sessions.entries import JournalEntry, MessageAppended, MessageTakenBack, ValueChanged
from mcpagent.journal.sessions.loaded_session import SessionInfo
from mcpagent.journal.sessions.store import is_answer


def journal(
    *messages: Message | str, keep: int = 0, length: int = 0, title: str = "", updated: float | None = None, **data: Any
) -> list[JournalEntry]:
    """Messages behind the first `keep`, where there were `length` before, and values by name; texts are prompts."""
    said = [Message("user", (Text(message),)) if isinstance(message, str) else message for message in messages]
    entries: list[JournalEntry] = [MessageAppended(place, message) for place, message in enumerate(said, keep)]
    entries += map(MessageTakenBack, range(keep + len(said), length))
    entries += [ValueChanged(name, value) for name, value in data.items()]
    now = time.time()
    turns = sum(map(is_answer, said))
    info = SessionInfo("", title, now, now if updated is None else updated, turns=turns, messages=keep + len(said))
    return [*entries, info]
