"""The offline model: rules that answer without a provider, from the request alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime

from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.values.events import Emit, TextDelta
from mcpagent.values.messages import Message, Usage


class OfflineModel:
    """A rule-based model that needs no key and no network, and states this once in a conversation.

    It really searches, adds and calls tools. Without an explicit request, it calls only tools marked as read-only
    (`read_only` True); for others, it describes the call that it would make. The same request gives the same answer;
    `now` is used only for words such as "tomorrow". `Usage` counts characters / 4, because nothing is billed.
    """

    name = "offline:rules"

    def __init__(
        self,
        now: Callable[[], datetime] = datetime.now,
        *,
        command: str = "",
        missing: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Create the model. `command`: the command with which the user calls a tool, if it is not `mcpagent tools
        call`.

        `missing` returns a line for each server whose tools are not available, with the reason and the fix.
        """
        self._now, self._command, self._missing = now, command, missing

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return the next answer or calls, by rules alone. Never raises an error."""
        # Import the rules here, so that a chat shows its prompt before they are loaded.
        from mcpagent.offline.turn import CALL_COMMAND, answer

        command = self._command or CALL_COMMAND
        message = answer(request, self._now(), command, self._missing())
        for line in message.text.splitlines(keepends=True):
            emit(TextDelta(line))
        tools = sum(
            len(f"{tool.name}{tool.description}{json.dumps(tool.parameters)}")
            for tool in request.tools
        )
        sent = tools + len(request.system) + sum(map(_size, request.messages))
        usage = Usage(sent // 4 + 1, _size(message) // 4 + 1, requests=1)
        return ModelResponse(
            message, usage, "tool_calls" if message.tool_calls else "end", dollars=0.0
        )

    def price_of(self, usage: Usage) -> float:  # noqa: ARG002
        """Return 0.0: nothing is billed."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing; the model holds no resources."""


def _size(message: Message) -> int:
    calls = sum(
        len(f"{call.name}{json.dumps(call.arguments)}") for call in message.tool_calls
    )
    return (
        len(message.text)
        + calls
        + sum(len(result.text) for result in message.tool_results)
    )
