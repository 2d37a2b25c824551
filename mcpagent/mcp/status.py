"""What is known about one server's connection, as a value to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ServerState: TypeAlias = Literal["cached", "connecting", "ready", "failed", "closed"]
""""cached": its lists are known from an earlier time, it is started when one of its tools is called."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """`reason` says why it failed; `seconds` is what connecting took; `warnings` are printable lines; `age_seconds` is
    how old the lists of a "cached" one are.

    `title` and `instructions` are the server's own words, so third-party text.
    """

    name: str
    state: ServerState
    reason: str = ""
    seconds: float = 0.0
    tool_count: int = 0
    protocol_version: str = ""
    title: str = ""
    instructions: str = ""
    warnings: tuple[str, ...] = ()
    age_seconds: float = 0.0
