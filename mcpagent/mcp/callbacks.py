"""The user's handlers as the SDK's client wants them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import mcp_types as types
from pydantic import FileUrl

from mcpagent.mcp.handlers import DismissedError, Handlers, Sampled
from mcpagent.mcp.redaction import Redactor
from mcpagent.safe_text import safe_text

ASKED_PER_MINUTE = 10

USER_REJECTED = -1
"""The specification's code for a sampling request that the user refuses."""


def callbacks(
    server: str, handlers: Handlers, redact: Redactor, asking: Callable[[], AbstractContextManager[None]] = nullcontext
) -> dict[str, Any]:
    """The SDK client's callback arguments; a missing one keeps the capability from being advertised.

    `redact` takes the server's secrets out of what it asks; `asking` is entered while somebody here is asked.
    """
    made = _Callbacks(server, handlers, redact, asking)
    wanted = {
        "elicitation_callback": made.elicit if handlers.elicit is not None else None,
        "sampling_callback": made.sample if handlers.sample is not None else None,
        "list_roots_callback": made.roots if handlers.roots else None,
    }
    return {name: callback for name, callback in wanted.items() if callback is not None}


class _Callbacks:
    """The handlers in the SDK's terms, so many times a minute and no more."""

    def __init__(
        self, server: str, handlers: Handlers, redact: Redactor, asking: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._server = server
        self._redact = redact
        self._asking = asking
        self._handlers = handlers
        self._times: deque[float] = deque(maxlen=ASKED_PER_MINUTE)

    def _too_often(self) -> types.ErrorData | None:
        now = time.monotonic()
        if len(self._times) == ASKED_PER_MINUTE and now - self._times[0] < 60.0:
            return types.ErrorData(code=types.INVALID_REQUEST, message=f"more than {ASKED_PER_MINUTE} a minute")
        self._times.append(now)
        return None

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        assert self._handlers.elicit is not None
        if (refusal := self._too_often()) is not None:
            return refusal
        try:
            with self._asking():
                return await self._elicited(params)
        except DismissedError:
            return types.ElicitResult(action="cancel")

    async def _elicited(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestFormParams):
            assert self._handlers.elicit is not None
            schema = dict(params.requested_schema)
            message = safe_text(self._redact.result(params.message))
            content = await self._handlers.elicit(self._server, message, self._redact.json(schema))
            if content is None:
                return types.ElicitResult(action="decline")
            return types.ElicitResult(action="accept", content=_with_defaults(content, schema))
        visit = self._handlers.visit
        message = safe_text(self._redact.result(params.message))
        accepted = visit is not None and await visit(self._server, message, params.url)
        return types.ElicitResult(action="accept" if accepted else "decline")

    async def sample(
        self, _: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        assert self._handlers.sample is not None
        if (refusal := self._too_often()) is not None:
            return refusal
        wanted = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            with self._asking():
                given = await self._handlers.sample(self._server, self._redact.json(wanted))
        except DismissedError:
            return types.ErrorData(code=USER_REJECTED, message="the user declined")
        answer = given if isinstance(given, Sampled) else Sampled(given, "mcpagent")
        block = types.TextContent(type="text", text=answer.text)
        return types.CreateMessageResult(role="assistant", content=block, model=answer.model, stop_reason="endTurn")

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(uri)) for uri in self._handlers.root_uris()])


def _with_defaults(content: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """What was given, and the schema's defaults for what was not."""
    properties = schema.get("properties") or {}
    defaults = {
        name: rule["default"] for name, rule in properties.items() if isinstance(rule, dict) and "default" in rule
    }
    return defaults | content
