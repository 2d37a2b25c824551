"""What a turn costs does not grow with what was said before: counted in calls of Python functions, which are the same
however busy the machine is. `benchmarks/loop.py` measures it in CPU time."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from mcpagent import Agent
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.scripted import Reply, ScriptedModel
from mcpagent.models.transport.sdk_connection import encoded
from mcpagent.values.messages import Message, Origin, Text, ToolCall, ToolDefinition, ToolResult, user_message
from tests.tables import each_row


class Counted:
    """Counts the Python functions that are called inside of it."""

    calls = 0

    def __enter__(self) -> Counted:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _frame: FrameType, event: str, _value: Any) -> None:
        self.calls += event == "call"


def conversation(length: int, origin: Origin | None = None) -> list[Message]:
    """Questions, calls, results and answers, four messages after each other."""
    messages: list[Message] = []
    for number in range(length // 4):
        call = ToolCall(f"call_{number}", "look_up", {"query": f"question {number}"})
        result = ToolResult(call.id, "look_up", (Text(f"result {number}"),))
        messages += [user_message(f"question {number}"), Message("assistant", (call,), origin)]
        messages += [Message("tool", (result,)), Message("assistant", (Text(f"answer {number}"),), origin)]
    return messages


async def calls_in_turn(length: int) -> int:
    script: list[Reply] = [ToolCall("", "look_up", {"query": "x"}), "answer"]

    async def look_up(query: str) -> str:
        return query

    async with Agent(ScriptedModel([*script, *script]), tools=[look_up]) as agent:
        session = agent.session(messages=conversation(length))
        await session.ask("What is there?")  # what is loaded or worked out once is there now
        with Counted() as counted:
            assert await session.ask("And then?") == "answer"
    return counted.calls


async def test_a_turn_costs_the_same_after_a_thousand_messages_as_after_eight() -> None:
    few, many = await calls_in_turn(8), await calls_in_turn(1_000)
    assert many < 1.1 * few


async def calls_in(work: str, length: int) -> int:
    model = ScriptedModel(["answer"] * 4)
    async with Agent(model, tools=[]) as agent:
        session = agent.session(messages=conversation(length))
        await session.ask("What is there?")
        for counted in (Counted(), Counted()):
            with counted:
                if work == "rewind":
                    session.rewind(len(session.messages) - 2)
                else:
                    await agent.use_model(ScriptedModel(["answer"] * 4))
                    assert session._runtime.tools
    return counted.calls


@each_row("work", ["rewind", "use_model"])
async def test_going_on_elsewhere_costs_the_same_after_a_thousand_messages_as_after_eight(work: str) -> None:
    few, many = await calls_in(work, 8), await calls_in(work, 1_000)
    assert many < 1.1 * few


@each_row("model", [AnthropicModel("claude-opus-5"), OpenAIResponsesModel("gpt-5.4"), OpenAIChatModel("m")])
def test_a_body_is_written_in_few_steps_for_each_message(model: HttpModel) -> None:
    tool = ToolDefinition("look_up", "Looks up.", {"type": "object", "properties": {"query": {"type": "string"}}})
    steps: list[int] = []
    for length in (400, 800):
        request = ModelRequest("You help.", tuple(conversation(length, model.origin)), (tool,))
        with Counted() as counted:
            encoded(model.request_body(request))
        steps.append(counted.calls)
    assert steps[1] - steps[0] < 10 * 400
