"""A model with scripted replies, for tests: no key, no network, and every request is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.utilities.python.argument_checks import checked, expect_kind
from mcpagent.values.events import Emit, TextDelta, ThinkingDelta
from mcpagent.values.messages import Message, Text, Thinking, ToolCall, Usage

Answer: TypeAlias = (
    Message | ModelResponse | str | ToolCall | list[ToolCall] | Exception
)
Reply: TypeAlias = Answer | Callable[[ModelRequest], Answer]


class ScriptExhaustedError(AssertionError):
    """Raised if the code under test sends more requests than the script has replies."""


class ScriptedModel:
    """Returns the replies in order, one for each request, and stores the requests in `requests`.

    A reply is a text, a call or a list of calls, a whole `Message` or `ModelResponse`, an exception to raise, or a
    function of the request that returns one of these. Calls with an empty ID get `call_<request>_<position>`.
    """

    @checked()
    def __init__(
        self, replies: Sequence[Reply], *, name: str = "scripted:test"
    ) -> None:
        self._replies = list(replies)
        self._name = name
        self.requests: list[ModelRequest] = []
        self.closed = False

    @property
    def name(self) -> str:
        """The configured name, `scripted:test` by default."""
        return self._name

    @property
    def remaining(self) -> int:
        """Number of unused replies."""
        return len(self._replies) - len(self.requests)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return the next reply. Raises `ScriptExhaustedError` after the last one."""
        self.requests.append(request)
        turn = len(self.requests)
        if turn > len(self._replies):
            last = request.messages[-1].parts[-1:] if request.messages else ()
            raise ScriptExhaustedError(
                f"the script has {len(self._replies)} replies, and this is request {turn}, after: {last!r}"
            )
        reply = self._replies[turn - 1]
        answer = _response(reply(request) if callable(reply) else reply, turn)
        for part in answer.message.parts:
            if isinstance(part, Text):
                emit(TextDelta(part.text))
            elif isinstance(part, Thinking):
                emit(ThinkingDelta(part.text))
        return answer

    def price_of(self, usage: Usage) -> float:  # noqa: ARG002
        """Return 0.0: nothing is billed."""
        return 0.0

    async def aclose(self) -> None:
        """Set `closed`."""
        self.closed = True


def _response(answer: Answer, turn: int) -> ModelResponse:
    expect_kind(f"ScriptedModel: reply {turn}", answer, Answer)
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, ModelResponse):
        return answer
    message = _message(answer, turn)
    return ModelResponse(
        message, Usage(requests=1), "tool_calls" if message.tool_calls else "end", 0.0
    )


def _message(answer: Message | str | ToolCall | list[ToolCall], turn: int) -> Message:
    if isinstance(answer, Message):
        return answer
    if isinstance(answer, str):
        return Message("assistant", (Text(answer),))
    if isinstance(answer, ToolCall):
        calls = [answer]
    else:
        calls = answer
    named = (
        replace(call, id=call.id or f"call_{turn}_{place}")
        for place, call in enumerate(calls)
    )
    return Message("assistant", tuple(named))
