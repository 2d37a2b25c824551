"""A scripted model with a window: it counts what it is sent, and refuses what is too long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcpagent.errors import ContextOverflowError
from mcpagent.models import ModelRequest, ModelResponse
from mcpagent.models.base import ToolLimits
from mcpagent.models.scripted import Answer, ScriptedModel
from mcpagent.values.events import Emit
from mcpagent.values.messages import Message, Part, Text, ToolCall, ToolResult, Usage

SUMMARISE = "Write a summary to replace it"


def is_for_summary(request: ModelRequest) -> bool:
    """Whether the model is asked for a summary."""
    return SUMMARISE in request.messages[-1].text


def size_of(request: ModelRequest, per_token: float = 4.0) -> int:
    """Tokens, as this provider counts them: of all that is said, called and given, the definitions and the prompt."""
    said = sum(len(text) + 12 for message in request.messages for part in message.parts for text in _texts(part))
    tools = sum(len(tool.description) + len(str(tool.parameters)) // 2 for tool in request.tools)
    return int((said + tools + len(request.system)) / per_token)


def _texts(part: Part) -> list[str]:
    match part:
        case Text(text=text) | ToolResult(text=text):
            return [text]
        case ToolCall(name=name, arguments=arguments):
            return [name, str(arguments)]
        case _:
            return []


class WindowedModel(ScriptedModel):
    """Asks `brain` for each answer but summaries, which are words of its own. `known`: it tells its window."""

    def __init__(
        self,
        brain: Callable[[ModelRequest], Answer],
        window: int,
        *,
        known: bool = True,
        summary: Callable[[ModelRequest], Answer] = lambda _request: "They talked. " * 20,
        per_token: float = 4.0,
    ) -> None:
        super().__init__([])
        self.window, self._known, self._per_token = window, known, per_token
        self._brain, self._summary = brain, summary
        self.refused = 0
        self.sizes: list[int] = []

    def tool_limits(self) -> ToolLimits:
        """Its window, if it tells it."""
        return ToolLimits(window_tokens=self.window if self._known else None)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Raises `ContextOverflowError` for what is too long."""
        self.requests.append(request)
        size = size_of(request, self._per_token)
        if size > self.window:
            self.refused += 1
            raise ContextOverflowError("test: too long", provider="test", status=400)
        self.sizes.append(size)
        answer = self._summary(request) if is_for_summary(request) else self._brain(request)
        if isinstance(answer, Exception):
            raise answer
        usage = Usage(input_tokens=size, output_tokens=50, requests=1)
        if isinstance(answer, ModelResponse):
            return replace(answer, usage=usage)
        if isinstance(answer, ToolCall):
            answer = [answer]
        if isinstance(answer, str):
            message = Message("assistant", (Text(answer),))
        elif isinstance(answer, list):
            number = len(self.requests)
            calls = (replace(call, id=f"call_{number}_{place}") for place, call in enumerate(answer))
            message = Message("assistant", tuple(calls))
        else:
            message = answer
        return ModelResponse(message, usage, "tool_calls" if message.tool_calls else "end")


def asks_then_tells(request: ModelRequest) -> Answer:
    """A call for each question, and an answer when there is its result."""
    if request.messages[-1].role == "tool" or request.tool_choice == "none":
        return "It is done."
    return ToolCall("", "read_all", {"name": request.messages[-1].text[:40]})


def is_paired(messages: list[Message] | tuple[Message, ...]) -> bool:
    """Whether each call has its result in the very next message, and each result its call in the one before."""
    for place, message in enumerate(messages):
        after = messages[place + 1] if place + 1 < len(messages) else None
        before = messages[place - 1] if place else None
        if message.tool_calls:
            given = [result.call_id for result in after.tool_results] if after is not None else []
            if given != [call.id for call in message.tool_calls]:
                return False
        if message.role == "tool" and (before is None or not before.tool_calls):
            return False
    return True
