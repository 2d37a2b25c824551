"""What a store keeps of a session, as values: what changed of it, what it was when it is read, what a list shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagent.history.conversation import CallProgress
from mcpagent.sessions.run_ended import RunEnded
from mcpagent.values.messages import Message, Step


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a session: nobody else writes into it meanwhile. `since` is in seconds since 1970."""

    pid: int
    host: str
    since: float
    token: str = ""
    """What is alive as long as the process is; a store can tell."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of a list of sessions. Times are in seconds since 1970; `turns` counts answers without a call."""

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
    """Whether a person gave the title; else it is the beginning of the first question."""
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Words of a search in one message: `place` is its position, `excerpt` what stands around them."""

    session: SessionInfo
    place: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class SessionChange:
    """The differences of a session since its last write: all are written, or none.

    The first `keep` messages stay, and `messages` are all that follow; the store had `length` before. `calls` has the
    progress of calls under way by ID, None for one that is over. `values` are by name, None for one that is gone.
    `run` is the durable run that goes on, `ended` the one that ends with this change.
    """

    keep: int = 0
    messages: tuple[Message, ...] = ()
    length: int = 0
    steps: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """The model, usage and time of the answers among these messages, by place."""
    calls: Mapping[str, CallProgress | None] = field(
        default_factory=dict[str, CallProgress | None]
    )
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    title: str = ""
    created: float = field(default_factory=time.time)
    folder: str = ""
    model: str = ""
    turns: int = 0
    tokens: int = 0
    dollars: float = 0.0
    cost_known: bool = True
    updated: float = field(default_factory=time.time)
    run: str = ""
    ended: RunEnded | None = None


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session as it was written last: its messages, and by name what else a run stands on, as plain JSON data."""

    info: SessionInfo
    messages: tuple[Message, ...] = ()
    steps: tuple[Step, ...] = ()
    calls: Mapping[str, Any] = field(default_factory=dict[str, Any])
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
