"""How a request to a server can fail, apart from giving a result that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcpagent.errors import ServerError

Outcome: TypeAlias = Literal["not_sent", "rejected", "unknown"]
"""What became of a request without an answer: only the first two are known not to have run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds one request may stay silent and may take at all."""

    idle: float
    total: float


class RefusedError(Exception):
    """The server answered with an error of its own (JSON-RPC `code`, `message`, `data`); the session is fine."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class CallTimeoutError(Exception):
    """A request's time ran out; its text is one line."""


class LostError(ServerError):
    """The connection failed a request. `session_lost`: the server forgot the session, a new one is needed."""

    outcome: Outcome = "unknown"
    session_lost: bool = False
    http_status: int | None = None


class InvalidAnswerError(ServerError):
    """The server answered something that is no answer; the session goes on."""


class EraError(ServerError):
    """The server refuses the protocol era it was greeted in."""


class TaskError(ServerError):
    """A call that the server had begun as a task gives no result; the session goes on."""
