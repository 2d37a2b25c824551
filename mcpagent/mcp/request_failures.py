"""The failures of a request to a server: as exceptions, in error answers, and as outputs for a model."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.errors import ServerError
from mcpagent.mcp.outcomes import INTERNAL_ERROR, Outcome, Remedy
from mcpagent.utilities.text.for_model import MAX_ERROR, cut_for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.tools import ToolOutput

if TYPE_CHECKING:
    from mcp_types import ErrorData, JSONRPCError, RequestId


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The timeouts of a request in seconds: for silence, and in total."""

    idle: float
    total: float


class RefusedError(Exception):
    """Raised for a server's own error (JSON-RPC `code`, `message`, `data`); the session remains usable.

    After an internal error, the call may have run.
    """

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.outcome: Outcome = "unknown" if code == INTERNAL_ERROR else "refused"
        self.code = code
        self.message = message
        self.data = data


class CallTimeoutError(Exception):
    """Raised if a request timed out; its one-line message states that the request may have run."""

    outcome: Outcome = "unknown"


class RequestLostError(ServerError):
    """Raised if a request failed because of the connection. `remedy` is necessary before repeating it."""

    outcome: Outcome = "unknown"
    remedy: Remedy = ""
    http_status: int | None = None


class InvalidAnswerError(ServerError):
    """Raised if a server's message is not a valid answer; the session continues."""

    outcome: Outcome = "unknown"


class ProtocolVersionError(ServerError):
    """Raised if the server refuses the protocol version of the first request."""


class TaskError(ServerError):
    """Raised if a call that the server runs as a task has no result; the session continues."""


RequestFailure: TypeAlias = RefusedError | CallTimeoutError | ServerError
REQUEST_FAILURES = (RefusedError, CallTimeoutError, ServerError)
"""The exceptions of `McpConnection.request`, for `except`."""


_MAY_HAVE_RUN = "; the call may have run: check before you repeat it"


def failed_output(error: RequestFailure, *, is_repeatable: bool = False) -> ToolOutput:
    """Return what a model gets for a failed request: the whole error, and whether the call may have run.

    If the call `is_repeatable`, running it twice does no harm, so that note is omitted.
    """
    if isinstance(error, RefusedError):
        hint = ""
        if error.outcome == "unknown" and not is_repeatable:
            hint = _MAY_HAVE_RUN
        return ToolOutput.of_text(f"{_refusal_text(error)}{hint}", error="failed")
    if isinstance(error, CallTimeoutError):
        return ToolOutput.of_text(str(error), error="timeout")
    if isinstance(error, TaskError):
        return ToolOutput.of_text(str(error), error="failed")
    is_answer = isinstance(error, InvalidAnswerError)
    may_have_run = (
        isinstance(error, InvalidAnswerError | RequestLostError)
        and error.outcome == "unknown"
    )
    hint = ""
    if may_have_run:
        hint = _MAY_HAVE_RUN
    return ToolOutput.of_text(
        f"{error}{hint}", error="failed" if is_answer else "server_down"
    )


def _refusal_text(error: RefusedError) -> str:
    """Return the message and the `data` of an error, each cut to a maximum. Both are third-party text."""
    text = cut_for_model(error.message, MAX_ERROR) or f"error {error.code}"
    if error.data is None:
        return text
    if isinstance(error.data, str):
        data = error.data
    else:
        data = _beginning_of_json(error.data)
    if not data or data == error.message:
        return text
    return f"{text}\n{cut_for_model(data, MAX_ERROR)}"


def _beginning_of_json(value: Any) -> str:
    """Return the beginning of a value as JSON; the rest, which may be large, is not written."""
    pieces: list[str] = []
    length = 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_ERROR:
            break
    return "".join(pieces)


def mistake_in(error: Exception) -> str:
    """Return the text about an unexpected exception, as the end of a sentence about its server."""
    what = safe_line(
        f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300
    )
    return f"could not be opened: {what}; this is a mistake of mcpagent or its setup"


# --- Error answers that the client itself creates if a transport fails a request, so that only its caller fails

REQUEST_FAILED = -32018
"""The error code of these answers (implementation-defined range); their `data` has the outcome of the request."""

_OURS = secrets.token_hex(8)
"""A random marker of these answers, which a server cannot know."""


def failed_request(
    request_id: RequestId, text: str, *, outcome: Outcome, **details: Any
) -> JSONRPCError:
    """Return an error answer to a request. `details` may have the HTTP `status` and the `remedy`."""
    from mcp_types import ErrorData, JSONRPCError

    data = {"by": _OURS, "outcome": outcome} | details
    return JSONRPCError(
        jsonrpc="2.0",
        id=request_id,
        error=ErrorData(code=REQUEST_FAILED, message=text, data=data),
    )


def failure_of(error: ErrorData) -> Mapping[str, Any] | None:
    """Return the data of an answer created by `failed_request`; None for a server's own error with any code."""
    is_ours = (
        error.code == REQUEST_FAILED
        and isinstance(error.data, Mapping)
        and error.data.get("by") == _OURS
    )
    return error.data if is_ours else None
