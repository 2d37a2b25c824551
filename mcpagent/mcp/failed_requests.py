"""Requests that a transport failed, as answers of our own: so the session lives, and only the caller learns of it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from mcp_types import ErrorData, JSONRPCError, RequestId

from mcpagent.mcp.failures import Outcome

REQUEST_FAILED = -32018
"""The code of such an answer (implementation-defined band); its `data` says what became of the request."""

_OURS = secrets.token_hex(8)


def failed_request(request_id: RequestId, text: str, *, outcome: Outcome, **details: Any) -> JSONRPCError:
    """The answer to one request. `details` may be `status` and `retry_after` of HTTP, and `session_lost`."""
    data = {"by": _OURS, "outcome": outcome} | details
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=REQUEST_FAILED, message=text, data=data))


def failure_of(error: ErrorData) -> Mapping[str, Any] | None:
    """What `failed_request` was given; None for an error that the server made, whatever its code."""
    is_ours = error.code == REQUEST_FAILED and isinstance(error.data, Mapping) and error.data.get("by") == _OURS
    return error.data if is_ours else None
