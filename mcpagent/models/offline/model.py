"""The offline model: rules that answer where no provider's key is set. It sees a request and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

from mcpagent.events import Emit, TextDelta
from mcpagent.messages import Message, Usage
from mcpagent.models.base import ModelRequest, ModelResponse


def _local_now() -> datetime:
    return datetime.now().astimezone()


class OfflineModel:
    """A rule-based stand-in that needs no key and no network, and says so once in a conversation.

    It really searches, adds and calls: keywords from the prompt, arguments filled from each tool's schema, answers
    that report what the tools returned. The same request gives the same answer; `now` is read only for words such as
    "tomorrow". `Usage` counts characters / 4, as nothing is billed.
    """

    name = "offline:rules"

    def __init__(self, now: Callable[[], datetime] = _local_now) -> None:
        self._now = now

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        # A chat is at its prompt before the rules are loaded.
        from mcpagent.models.offline.rules import answer

        message = answer(request, self._now())
        if message.text:
            for line in message.text.splitlines(keepends=True):
                emit(TextDelta(line))
        usage = Usage(_tokens(request), _size(message) // 4 + 1, requests=1)
        return ModelResponse(message, usage, "tool_calls" if message.tool_calls else "end", dollars=0.0)

    async def aclose(self) -> None:
        """Nothing to give back."""


def _size(message: Message) -> int:
    arguments = sum(len(json.dumps(call.arguments, default=str)) + len(call.name) for call in message.tool_calls)
    return len(message.text) + arguments + sum(len(result.text) for result in message.tool_results)


def _tokens(request: ModelRequest) -> int:
    tools = sum(
        len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters, default=str)) for tool in request.tools
    )
    return (len(request.system) + tools + sum(_size(message) for message in request.messages)) // 4 + 1
