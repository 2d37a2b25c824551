"""The model for tests."""

from __future__ import annotations

import pytest

from mcpagent.errors import ModelError
from mcpagent.models import Model, ModelRequest, ScriptedModel
from mcpagent.models.scripted import ScriptExhaustedError
from mcpagent.values.events import Event, TextDelta, ThinkingDelta, ignore
from mcpagent.values.messages import Message, Text, Thinking, ToolCall, user_message

HELLO = ModelRequest("sys", (user_message("hello"),))


async def test_replies_of_every_kind_in_order() -> None:
    whole = Message("assistant", (Thinking("hm"), Text("done")))
    scripted = ScriptedModel(
        [
            "text",
            ToolCall("a", "f", {}),
            [ToolCall("", "f", {}), ToolCall("", "g", {})],
            lambda request: f"you said {request.messages[-1].text}",
            ModelError("down", provider="x"),
            whole,
        ]
    )
    assert isinstance(scripted, Model)
    events: list[Event] = []
    first = await scripted.respond(HELLO, events.append)
    assert (first.message.text, first.stop, first.usage.requests) == ("text", "end", 1)
    second = await scripted.respond(HELLO, events.append)
    assert (second.message.tool_calls, second.stop) == ((ToolCall("a", "f", {}),), "tool_calls")
    third = await scripted.respond(HELLO, events.append)
    assert [call.id for call in third.message.tool_calls] == ["call_3_0", "call_3_1"]
    fourth = await scripted.respond(HELLO, events.append)
    assert fourth.message.text == "you said hello"
    with pytest.raises(ModelError, match="down"):
        await scripted.respond(HELLO, events.append)
    assert scripted.remaining == 1
    assert (await scripted.respond(HELLO, events.append)).message is whole
    assert events == [TextDelta("text"), TextDelta("you said hello"), ThinkingDelta("hm"), TextDelta("done")]
    assert scripted.requests == [HELLO] * 6


async def test_one_request_too_many_is_told_clearly() -> None:
    scripted = ScriptedModel(["only"])
    await scripted.respond(HELLO, ignore)
    with pytest.raises(ScriptExhaustedError, match=r"has 1 replies, and this is request 2, after: .*hello"):
        await scripted.respond(HELLO, ignore)
