"""Decide from the end of a request whether it ran, for every transport; no other module decides that.

| outcome | when |
|---|---|
| answered | the server returned a result |
| refused | the server returned an error, or an HTTP status that rejects the request |
| not_sent | the client sent no byte of it |
| unread | the server certainly did not start it: it ended before, does not know the session, or limits the rate |
| unknown | everything else: the call may have run |

Only requests that are not sent or unread may be repeated. An error text proves "unread" only if it contains that
statement and nothing else, because a server that has run a call may return any other text. An answer belongs to the
request with its ID. An error without an ID, or with an ID that no request has, belongs to the request that received it.
The code -32603, an internal error, means that the server failed in the middle of its work, so the call may have run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mcpagent.utilities.text.retry_after import retry_after_seconds

if TYPE_CHECKING:
    from mcp_types import JSONRPCError, JSONRPCResponse, RequestId

Outcome: TypeAlias = Literal["answered", "refused", "not_sent", "unread", "unknown"]
MAY_BE_SENT_AGAIN: frozenset[Outcome] = frozenset({"not_sent", "unread"})

Remedy: TypeAlias = Literal["", "session", "lists", "time"]
"""What is necessary before sending a request again: "session" for a new session, "lists" for new lists (because of
headers), "time" for a delay, "" for nothing.
"""

TransportName: TypeAlias = Literal["stdio", "http", "sse"]

_TURNED_AWAY = frozenset(
    {401, 403, 405, 406, 407, 411, 413, 414, 415, 417, 421, 426, 428, 429, 431, 505}
)
"""HTTP statuses (RFC 9110, 15.5 and RFC 6585) about the message, the sender or the request rate, not about the
requested call.
"""

_HEADER_MISMATCH = -32020
"""Error code of a server that did not read the call, because the header for a parameter is not the one that it now
requires (2026-07-28, only with HTTP 400).
"""

_SESSION_WORDS = re.compile(
    r"(?:a|already|and|bad|been|closed|could|does|ended|exist|expired|find|found|gone|has|header|id|identifier|initialize"
    r"|invalid|is|known|mcp|mcp-session-id|missing|new|no|not|or|please|provided|reinitialize|request|required|server"
    r"|session|session-id|sessionid|start|terminated|the|unknown|valid|was|with)"
)
_SESSION_NAMES = re.compile(
    r"mcp-session-id|session[- ]?id|session identifier", re.IGNORECASE
)
_BUSY_WORDS = re.compile(
    r"(?:a|after|again|allowed|api|are|been|busy|client|exceeded|few|for|from|has|have|hour|hours|http|in|is|later|limit"
    r"|limited|limiting|limits|many|maximum|minute|minutes|moment|ms|of|per|please|quota|rate|rate-limit|rate_limit"
    r"|rate_limited|rate_limit_exceeded|ratelimit|reached|request|requests|retry|retry-after|s|second|seconds|server|slow"
    r"|down|slowdown|the|code|status|error|message|detail|title|jsonrpc|null|throttled|throttling|too|too_many_requests|try|wait|was|were|you|your|\d+)"
)
_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]{0,20}[^<>]{0,100}>|nginx|openresty|cloudflare", re.IGNORECASE
)
"""Matches HTML tags, and the names of web servers, which appear on their error pages."""

_FRAME = frozenset(
    {"404", "400", "code", "detail", "error", "message", "page", "status", "title"}
)
"""Words around an error text that do not matter, such as the keys of a JSON object."""

INTERNAL_ERROR = -32603
"""JSON-RPC 2.0, 5.1: "Internal JSON-RPC error", which servers return if a tool fails in the middle."""

_WORD = re.compile(r"[\w-]+|[^\x00-\x7f]")
"""Matches a word; a symbol, such as a check mark, counts as one."""

_WRITTEN_ID = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Matches an integer as JSON writes it."""

_LONGEST_SAID = 300
"""Maximum size of a body that can be about the session or the rate alone."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a request, as its transport reports it: how much of it was sent, and the response.

    `status`, `headers` (names in lower case, or HTTP's own mapping) and `body` are those of an HTTP response; None and
    empty without one. `answer` is the answer to this request in the received bytes, valid or not. `session` is the ID
    of the session in which it was sent, or "". `is_modern`: it was sent with the protocol of 2026-07-28.
    """

    transport: TransportName
    is_sent: bool = True
    was_read: bool = True
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    answer: JSONRPCResponse | JSONRPCError | None = None
    request_id: RequestId | None = None
    session: str = ""
    is_modern: bool = False


def outcome_of(end: End) -> tuple[Outcome, Remedy]:
    """Return the outcome of a request, and what is necessary before sending it again."""
    if not end.is_sent:
        return "not_sent", ""
    if not end.was_read:
        return "unread", ""
    remedy: Remedy = "session" if end.status == 404 and end.session else ""
    if (
        end.answer is not None
        and _error_in(end) is None
        and end.status is not None
        and end.status >= 400
    ):
        return (
            "unknown",
            remedy,
        )  # the body has a result, although the status is an error
    if end.answer is None:
        whose = None
    else:
        whose = whose_answer(end.answer.id, end.request_id)
    if end.answer is not None and _is_header_mismatch(end):
        return "unread", "lists"
    if end.answer is not None and whose == "own":
        return _of_answer(end.answer), "session" if _says_session_is_gone(end) else ""
    if whose != "another's" and _says_session_is_gone(end):
        return "unread", "session"
    is_busy = (
        end.status == 429
        and end.transport == "http"
        and whose != "another's"
        and _says_too_many(end)
    )
    if is_busy and retry_after_seconds(end.headers) is not None:
        return "unread", "time"
    if end.answer is not None and whose == "nobody's":
        return _of_answer(end.answer), ""
    # In the older transport, the response to a POST is not the answer to the request, so it does not decide.
    is_turned_away = (
        end.transport == "http" and end.status in _TURNED_AWAY and whose != "another's"
    )
    if end.status == 429:
        is_turned_away = is_busy
    return ("refused" if is_turned_away else "unknown"), remedy


def request_key(request_id: RequestId) -> RequestId:
    """Return an ID for comparison: 7 and "7" are the same, but "07", " 7" and other digits are IDs of no request."""
    is_number = isinstance(request_id, str) and _WRITTEN_ID.fullmatch(request_id)
    if is_number:
        return int(request_id)
    return request_id


def whose_answer(
    answer_id: RequestId | None, request_id: RequestId | None
) -> Literal["own", "another's", "nobody's"]:
    """Return to which request an answer belongs, by its ID; the request that received it has `request_id`.

    7 and "7" are the same. The client's requests have integers as IDs, so null or "server-error" belongs to no request.
    """
    if answer_id is None:
        return "nobody's"
    coerced = request_key(answer_id)
    if request_id is not None and coerced == request_key(request_id):
        return "own"
    if isinstance(coerced, int):
        return "another's"
    return "nobody's"


def _says_too_many(end: End) -> bool:
    """Return whether the body is empty, or only states that there were too many requests."""
    words = _WORD.findall(_MARKUP.sub(" ", _said(end)).lower())
    return len(end.body) <= _LONGEST_SAID and all(map(_BUSY_WORDS.fullmatch, words))


def _of_answer(answer: JSONRPCResponse | JSONRPCError) -> Outcome:
    from mcp_types import JSONRPCResponse

    from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER

    if isinstance(answer, JSONRPCResponse):
        return "answered"
    if answer.error.code in (INVALID_ANSWER, INTERNAL_ERROR):
        return "unknown"
    return "refused"


def _is_header_mismatch(end: End) -> bool:
    is_refused_unseen = end.transport == "http" and end.is_modern and end.status == 400
    return bool(is_refused_unseen and _error_in(end).code == _HEADER_MISMATCH)


def _error_in(end: End) -> Any:
    """Return the error in the server's answer, or None."""
    return getattr(end.answer, "error", None)


def _says_session_is_gone(end: End) -> bool:
    """Return whether the server does not know the session, by its status and its whole response.

    The specification requires status 404, but some servers use 400. With 400, a text about a session may come from the
    tool itself, so it counts only if the server did not even read the request's ID.
    """
    if end.status not in (400, 404) or not (end.session or end.transport == "sse"):
        return False
    if len(end.body) > _LONGEST_SAID:
        return False
    error, said = _error_in(end), _said(end)
    if end.session:
        said = said.replace(end.session, "")
    words = [word for word in _WORD.findall(said.lower()) if word not in _FRAME]
    is_about_ours = (
        error is not None and end.answer is not None and end.answer.id != end.request_id
    )
    is_plain = (
        end.transport == "http"
        and (error is None or is_about_ours)
        and words in ([], ["not", "found"])
    )
    if end.status == 404 and is_plain:
        return True
    if not any("session" in word for word in words) or not all(
        map(_SESSION_WORDS.fullmatch, words)
    ):
        return False
    return end.status == 404 or is_about_ours or _SESSION_NAMES.search(said) is not None


def _said(end: End) -> str:
    """Return the text of a body: message and data if it is a single error, else everything."""
    error, body = _error_in(end), end.body.decode("utf-8", "replace")
    try:
        whole = json.loads(body)
    except ValueError:
        return body
    is_one_error = (
        error is not None
        and isinstance(whole, dict)
        and isinstance(whole.get("error"), dict)
    )
    if (
        not is_one_error
        or whole.keys() - {"jsonrpc", "id", "error"}
        or whole["error"].keys() - {"code", "message", "data"}
    ):
        return body
    if error.data is None:
        return str(error.message)
    return f"{error.message} {json.dumps(error.data)}"
