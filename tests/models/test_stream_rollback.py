"""Answers that break off and start again: while only thoughts were shown, and from one model of a chain to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpagent import Agent, Recorder, Replay, RunOptions
from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIChatModel
from mcpagent.values.events import AnswerRestarted, Event, Notice, TextDelta, ThinkingDelta
from mcpagent.values.messages import user_message
from tests.wire.provider import PlayedProvider, Waits, anthropic_stream, chat_stream, sse, text_block

HELLO = ModelRequest("", (user_message("hello"),))
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
THOUGHT: list[Mapping[str, Any]] = [
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "signature_delta", "signature": "s"},
]


def broken(*blocks: list[Mapping[str, Any]]) -> httpx2.Response:
    """A stream that ends with an overload after these blocks."""
    lines = anthropic_stream(*blocks).content.decode().split("\n\n")
    kept = [line for line in lines if line and "message_delta" not in line and "message_stop" not in line]
    ended = f"event: error\ndata: {json.dumps(OVERLOADED)}"
    content = "\n\n".join([*kept, ended, ""]).encode()
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)


def claude(played: PlayedProvider, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client, sleep=Waits(), **options)


def shown(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, TextDelta | ThinkingDelta | AnswerRestarted)]


async def test_an_overload_after_a_thought_is_tried_again() -> None:
    events: list[Event] = []
    played = PlayedProvider(broken(THOUGHT), anthropic_stream(THOUGHT, text_block("Hello.")))
    answer = await claude(played).respond(HELLO, events.append)
    assert (answer.message.text, answer.usage.requests, len(played.requests)) == ("Hello.", 1, 2)
    assert shown(events) == [
        ThinkingDelta("Hm."),
        AnswerRestarted("HTTP 529"),
        ThinkingDelta("Hm."),
        TextDelta("Hel"),
        TextDelta("lo."),
    ]
    assert played.requests[0].content == played.requests[1].content


async def test_a_cut_after_a_thought_is_tried_again() -> None:
    events: list[Event] = []
    content = b"\n\n".join(anthropic_stream(THOUGHT).content.split(b"\n\n")[:4]) + b"\n\n"
    cut = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)
    played = PlayedProvider(cut, anthropic_stream(text_block("Hello.")))
    assert (await claude(played).respond(HELLO, events.append)).message.text == "Hello."
    assert [type(event) for event in shown(events)][:2] == [ThinkingDelta, AnswerRestarted]


async def test_words_that_were_shown_are_not_shown_twice() -> None:
    events: list[Event] = []
    played = PlayedProvider(broken(THOUGHT, text_block("Hello.")), anthropic_stream(text_block("Hello.")))
    with pytest.raises(ModelError, match="Overloaded"):
        await claude(played).respond(HELLO, events.append)
    assert len(played.requests) == 1
    assert not [event for event in events if isinstance(event, AnswerRestarted)]


async def test_it_is_tried_no_more_often_than_any_other() -> None:
    events: list[Event] = []
    played = PlayedProvider(broken(THOUGHT))
    with pytest.raises(ModelError, match="Overloaded"):
        await claude(played, max_retries=2).respond(HELLO, events.append)
    assert len(played.requests) == 3
    assert sum(isinstance(event, AnswerRestarted) for event in events) == 2


async def test_nothing_is_told_where_nothing_was_shown() -> None:
    events: list[Event] = []
    played = PlayedProvider(broken(), anthropic_stream(text_block("Hello.")))
    await claude(played).respond(HELLO, events.append)
    assert not [event for event in events if isinstance(event, AnswerRestarted)]
    told = next(event.text for event in events if isinstance(event, Notice))
    assert told.startswith("anthropic: HTTP 529; trying again")


async def test_the_next_model_of_a_chain_starts_the_answer_again() -> None:
    events: list[Event] = []
    first = claude(PlayedProvider(broken(text_block("Good morn"))), max_retries=0)
    played = PlayedProvider(chat_stream({"content": "Hello."}))
    second = OpenAIChatModel("m", api_key="k", http_client=played.http_client)
    answer = await FallbackModel([first, second]).respond(HELLO, events.append)
    assert answer.message.text == "Hello."
    assert shown(events) == [
        TextDelta("Goo"),
        TextDelta("d morn"),
        AnswerRestarted("openai-chat:m answers instead", "Good morn"),
        TextDelta("Hello."),
    ]


async def test_a_thought_of_chat_completions_too() -> None:
    events: list[Event] = []
    chunk = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}]}
    failed = sse(chunk, {"error": {"message": "busy", "code": 503}}, named=False)
    played = PlayedProvider(failed, chat_stream({"content": "Hello."}))
    model = OpenAIChatModel("m", api_key="k", http_client=played.http_client, sleep=Waits())
    assert (await model.respond(HELLO, events.append)).message.text == "Hello."
    assert [type(event) for event in shown(events)] == [ThinkingDelta, AnswerRestarted, TextDelta]


async def test_a_recording_holds_the_answer_that_counts(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    played = PlayedProvider(broken(THOUGHT), anthropic_stream(THOUGHT, text_block("Hello.")))
    async with Agent(claude(played), options=RunOptions(wrappers=[Recorder(path)])) as agent:
        assert await agent.ask("hello") == "Hello."
    events: list[Event] = []
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)]), on_event=events.append) as agent:
        assert await agent.ask("hello") == "Hello."
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Hm."
