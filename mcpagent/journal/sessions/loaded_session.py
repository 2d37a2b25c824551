"""`LoadedSession` and `SessionInfo`: a session as read from a store, and its summary in a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagent.values.messages import Message, Step


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a session's lease: no other process writes to the session. `since` is in seconds since
    1970.
    """

    pid: int
    host: str
    since: float
    token: str = ""
    """A token that is alive as long as the process is, which a store can check."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """The summary of a session in a list. Times are in seconds since 1970; `turns` is the number of answers without a
    call.
    """

    id: str
    title: str
    created: float
    updated: float
    folder: str = ""
    model: str = ""
    turns: int = 0
    messages: int = 0
    tokens: int = 0
    dollars: float = 0.0
    cost_known: bool = True
    is_named: bool = False
    """True if a person set the title; otherwise it is the beginning of the first prompt."""
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class MessageMatch:
    """A message that a search found: `place` is its index, `excerpt` the text around the found words."""

    session: SessionInfo
    place: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class LoadedSession:
    """A session as last written: its messages, and the other values with which a run continues, as plain JSON data.

    `runs` has the ID of the run of each message. `ends` has the ends of runs by ID; only `Sessions.read` reads them.
    """

    info: SessionInfo
    messages: tuple[Message, ...] = ()
    steps: tuple[Step, ...] = ()
    calls: Mapping[str, Any] = field(default_factory=dict[str, Any])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    runs: tuple[str, ...] = ()
    ends: Mapping[str, Any] = field(default_factory=dict[str, Any])
