"""Adapt the user's handlers to the SDK's client, for requests that a server sends at any time or during a call."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.client import ClientRequestContext
from pydantic import FileUrl

from mcpagent.mcp.handlers import DismissedError, Handlers, Sampled
from mcpagent.utilities.json_schema.parts import properties_of
from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.utilities.text.secrets import data_without_random_secrets

ASKED_PER_MINUTE = 10
MAX_INPUT_ROUNDS = 10
_STATE_ONLY_WAIT_SECONDS = 0.1

USER_REJECTED = -1
"""The specification's code for a sampling request that the user refuses."""


def callbacks(
    server: str,
    handlers: Handlers,
    asking: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> dict[str, Any]:
    """Return the callback arguments of the SDK's client. A capability without a callback is not advertised.

    `asking` is entered while the user is asked.
    """
    made = _Callbacks(server, handlers, asking)
    forwarded = _forwarded(server, handlers, asking)
    wanted = {
        "elicitation_callback": made.elicit if handlers.elicit is not None else None,
        "sampling_callback": made.sample if handlers.sample is not None else None,
        "list_roots_callback": made.roots if handlers.roots else None,
    }
    own = {name: callback for name, callback in wanted.items() if callback is not None}
    return own | forwarded


def _forwarded(
    server: str, handlers: Handlers, asking: Callable[[], AbstractContextManager[None]]
) -> dict[str, Any]:
    """Return callbacks that forward requests to the client behind this one, and that client's sampling capability."""
    behind = handlers.forwarding
    if behind is None:
        return {}

    async def elicit(context: Any, params: types.ElicitRequestParams) -> Any:
        with asking():
            request = types.ElicitRequest(params=params)
            return await behind.send(server, request, str(context.request_id))

    async def sample(context: Any, params: types.CreateMessageRequestParams) -> Any:
        with asking():
            request = types.CreateMessageRequest(params=params)
            return await behind.send(server, request, str(context.request_id))

    async def roots(context: Any) -> Any:
        request = types.ListRootsRequest()
        return await behind.send(server, request, str(context.request_id))

    methods = behind.methods()
    found: dict[str, Any] = {}
    if "elicitation/create" in methods:
        found["elicitation_callback"] = elicit
    if "sampling/createMessage" in methods:
        can = types.SamplingCapability.model_validate(behind.sampling())
        found |= {"sampling_callback": sample, "sampling_capabilities": can}
    if "roots/list" in methods:
        found["list_roots_callback"] = roots
    return found


@dataclass(eq=False)
class _Callbacks:
    """The handlers with the SDK's interface, limited to a number of calls per minute."""

    server: str
    handlers: Handlers
    asking: Callable[[], AbstractContextManager[None]]
    times: deque[float] = field(default_factory=lambda: deque(maxlen=ASKED_PER_MINUTE))

    def _too_often(self) -> types.ErrorData | None:
        now = time.monotonic()
        if len(self.times) == ASKED_PER_MINUTE and now - self.times[0] < 60.0:
            return types.ErrorData(
                code=types.INVALID_REQUEST,
                message=f"more than {ASKED_PER_MINUTE} a minute",
            )
        self.times.append(now)
        return None

    async def elicit(
        self, _: Any, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        assert self.handlers.elicit is not None
        if (refusal := self._too_often()) is not None:
            return refusal
        try:
            with self.asking():
                return await self._elicited(params)
        except DismissedError:
            return types.ElicitResult(action="cancel")

    async def _elicited(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        if isinstance(params, types.ElicitRequestFormParams):
            assert self.handlers.elicit is not None
            schema = dict(params.requested_schema)
            message = safe_text(params.message)
            content = await self.handlers.elicit(self.server, message, schema)
            if content is None:
                return types.ElicitResult(action="decline")
            return types.ElicitResult(
                action="accept", content=_with_defaults(content, schema)
            )
        visit = self.handlers.visit
        message = safe_text(params.message)
        accepted = visit is not None and await visit(self.server, message, params.url)
        return types.ElicitResult(action="accept" if accepted else "decline")

    async def sample(
        self, _: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        assert self.handlers.sample is not None
        if (refusal := self._too_often()) is not None:
            return refusal
        wanted = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            with self.asking():
                given = await self.handlers.sample(
                    self.server, data_without_random_secrets(wanted)
                )
        except DismissedError as dismissed:
            why = str(dismissed) or "the user declined"
            return types.ErrorData(code=USER_REJECTED, message=why)
        if isinstance(given, Sampled):
            answer = given
        else:
            answer = Sampled(given, "mcpagent")
        block = types.TextContent(type="text", text=answer.text)
        return types.CreateMessageResult(
            role="assistant", content=block, model=answer.model, stop_reason="endTurn"
        )

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[types.Root(uri=FileUrl(uri)) for uri in self.handlers.root_uris()]
        )


def _with_defaults(content: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the content with the schema's defaults for missing fields (SEP-1034). A field that is None was left empty
    on purpose.
    """
    defaults = {
        name: rule["default"]
        for name, rule in properties_of(schema).items()
        if isinstance(rule, dict)
        and isinstance(rule.get("default"), str | int | float | list)
    }
    return {
        name: value for name, value in (defaults | content).items() if value is not None
    }


# --- requests for input from a server that has not run a request yet (2026-07-28, multi round-trip requests)


async def with_input(
    session: ClientSession,
    request: types.Request[Any, Any],
    result: dict[str, Any],
    allowed: Collection[str],
    *,
    at_once: bool = False,
) -> types.Request[Any, Any]:
    """Return the next request to send, with the input that `result` asks for. Raises the errors of `answers_to`."""
    wanted = types.InputRequiredResult.model_validate(result, by_name=False)
    responses = await answers_to(session, wanted, allowed, at_once=at_once)
    if not responses:
        await asyncio.sleep(_STATE_ONLY_WAIT_SECONDS)
    params = request.params.model_copy(
        update={
            "input_responses": responses or None,
            "request_state": wanted.request_state,
        }
    )
    return request.model_copy(update={"params": params})


async def answers_to(
    session: ClientSession,
    wanted: types.InputRequiredResult,
    allowed: Collection[str],
    *,
    at_once: bool = False,
) -> types.InputResponses:
    """Return the handlers' answers; the questions are asked one after the other, unless `at_once`.

    Raises `MCPError` for a question whose method is not `allowed`, or that a handler refuses.
    """
    questions = wanted.input_requests or {}
    if not at_once:
        return {
            key: await _answer_to(session, key, question, allowed)
            for key, question in questions.items()
        }
    try:
        async with asyncio.TaskGroup() as group:
            answers = {
                key: group.create_task(_answer_to(session, key, question, allowed))
                for key, question in questions.items()
            }
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return {key: answer.result() for key, answer in answers.items()}


async def _answer_to(
    session: ClientSession,
    key: str,
    question: types.InputRequest,
    allowed: Collection[str],
) -> types.InputResponse:
    if question.method not in allowed:
        text = f"it wants {question.method}, which is not allowed"
        raise MCPError(code=types.METHOD_NOT_FOUND, message=text)
    context = ClientRequestContext(session=session, request_id=key)
    answer = await session.dispatch_input_request(context, question)
    if isinstance(answer, types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer
