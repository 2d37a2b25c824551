"""What was said: left out unless it is asked for, never with a secret, never too much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ScriptedModel
from mcpagent.journal.tracing import Tracing, content
from mcpagent.utilities.text.secrets import hide
from mcpagent.values.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from tests.journal.tracing.conventions import OPT_IN, misfits
from tests.journal.tracing.traced import Traced, attribute
from tests.scenes import call
from tests.tables import each_row

pytestmark = pytest.mark.anyio

PLAIN = content.SpanContent()
KEY = "sk-ant-REDACTME0123456789abcdef"
VALUE = "correct-horse-battery"


def look_up(person: str) -> str:
    """Looks up a person."""
    return f"{person}: born in Ulm, key {KEY}, pass {VALUE}"


async def run(tracing: Tracing) -> None:
    first = Message("assistant", (Thinking("Who is it?"), call("search_tools", "c0", query=f"people {VALUE}")))
    model = ScriptedModel([first, call("look_up", "c1", person=f"Einstein {VALUE}"), f"Ulm {KEY}"])
    async with Agent(
        model, tools=[look_up], with_tool_search_mode=True, options=RunOptions(wrappers=[tracing])
    ) as agent:
        await agent.ask(f"Where was Einstein born? {KEY}")


async def everything(monkeypatch: pytest.MonkeyPatch, capture: str | None) -> tuple[Traced, str]:
    monkeypatch.setenv("SERVICE_PASSWORD", VALUE)
    if capture is not None:
        monkeypatch.setenv(content.VARIABLE, capture)
    traced = Traced()
    await run(traced.tracing())
    events = [(event.name, event.attributes) for span in traced.spans for event in span.events]
    spans = [(span.name, span.attributes, span.status.description) for span in traced.spans]
    return traced, str((spans, events))


@each_row("value", ["true", "TRUE", " 1 ", "span_only", "SPAN_ONLY", "span_and_event"])
def test_a_value_that_turns_it_on(value: str) -> None:
    assert content.is_captured({content.VARIABLE: value})


@each_row("value", ["", "false", "0", "no_content", "EVENT_ONLY", "nonsense"])
def test_a_value_that_does_not(value: str) -> None:
    assert not content.is_captured({content.VARIABLE: value})


@pytest.mark.slow
@each_row("capture", [None, "EVENT_ONLY"])
async def test_nothing_that_was_said_is_in_a_trace_by_default(
    capture: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced, seen = await everything(monkeypatch, capture)
    assert not any(word in seen for word in ("Einstein", "Ulm", "people", "Who is it", KEY, VALUE))
    assert not OPT_IN & {name for span in traced.spans for name in span.attributes or {}}


@each_row("capture", ["true", "span_and_event"])
async def test_with_content_all_of_it_is_there_but_no_secret(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traced, seen = await everything(monkeypatch, capture)
    assert KEY not in seen
    assert VALUE not in seen
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert {name for span in traced.spans for name in span.attributes or {}} >= OPT_IN
    said: list[dict[str, Any]] = json.loads(attribute(traced.named("chat test")[-1], "gen_ai.input.messages"))
    assert said[0]["role"] == "user"
    kinds = [part["type"] for message in said for part in message["parts"]]
    assert kinds == ["text", "reasoning", "tool_call", "tool_call_response", "tool_call", "tool_call_response"]
    (answer,) = json.loads(attribute(traced.named("chat test")[-1], "gen_ai.output.messages"))
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "Ulm [redacted]"}],
        "finish_reason": "stop",
    }
    assert attribute(traced.one("retrieval tools"), "gen_ai.retrieval.query.text") == "people [redacted]"


def test_a_secret_is_found_before_its_text_is_written_as_json_or_shortened() -> None:
    hidden = 'line one"\nline two'
    hide(hidden)
    shown = content.SpanContent()
    text = "x" * (content.MOST_OF_A_TEXT - 5) + hidden
    for written in (
        shown.messages([Message("user", (Text(text),))]),
        shown.arguments({"a": [text, {text: 1}]}),
        shown.result(ToolResult("1", "f", (Text(text),))),
        shown.system(text),
    ):
        assert "line" not in written


def test_long_conversations_keep_their_newest_messages_within_a_bound() -> None:
    messages = [Message("user", (Text(f"{number} " + "x" * 9_000),)) for number in range(200)]
    text = PLAIN.messages(messages)
    assert len(text) <= content.MOST_OF_ALL + 2 * content.MOST_OF_A_TEXT
    assert json.loads(text)[-1]["parts"][0]["content"].startswith("199 ")
    (one,) = json.loads(PLAIN.messages([Message("user", (Text("y" * 50_000),))]))
    assert one["parts"][0]["content"].endswith("… (40,000 characters more)")


def test_every_kind_of_part_is_json_and_pictures_are_not_copied() -> None:
    parts = (
        Text("a"),
        Image("image/png", "QUJD"),
        ToolCall("1", "f", {"x": {"deep": [1]}}),
        ToolResult("1", "f", (Text("r"), Image("image/png", "QUJD"))),
    )
    (message,) = json.loads(PLAIN.messages([Message("user", parts)]))
    assert [part["type"] for part in message["parts"]] == ["text", "image", "tool_call", "tool_call_response"]
    assert "QUJD" not in json.dumps(message)
