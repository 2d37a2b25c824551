"""Deltas and blocks that are not known: they are kept beside known ones and never cost an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest
from mcpagent.models.anthropic.messages_model import MessageStream
from mcpagent.values.events import ignore
from mcpagent.values.messages import ProviderBlock, Text, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, sse

HELLO = ModelRequest("", (user_message("hello"),))
START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "m", "content": [], "stop_reason": None, "usage": {}},
}
TEXT: dict[str, Any] = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
END: list[dict[str, Any]] = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]


def said(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


UNKNOWN: Mapping[str, dict[str, Any]] = {
    "a type of delta": {"type": "content_block_delta", "index": 0, "delta": {"type": "mood_delta", "mood": "calm"}},
    "a delta without a type": {"type": "content_block_delta", "index": 0, "delta": {"text": "x"}},
    "a delta that is none": {"type": "content_block_delta", "index": 0, "delta": None},
    "a delta without its field": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
    "a delta of no block": {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
    "a delta without a place": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
    "a block that is none": {"type": "content_block_start", "index": 5, "content_block": None},
    "an event": {"type": "weather_report", "index": 0},
}


@each_row("case", list(UNKNOWN))
async def test_what_is_not_known_costs_no_answer(case: str) -> None:
    played = PlayedProvider(sse(START, TEXT, said("Hel"), UNKNOWN[case], said("lo."), *END))
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client, max_retries=0)
    answer = await model.respond(HELLO, ignore)
    assert answer.message.parts == (Text("Hello."),)
    body = model.request_body(ModelRequest("", (*HELLO.messages, answer.message, user_message("And?"))))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hello."}]


def test_unknown_deltas_of_known_blocks_are_kept_beside_the_content() -> None:
    stream = MessageStream()
    for event in (START, TEXT, said("Hello."), UNKNOWN["a type of delta"], *END):
        stream.add(event)
    answer = stream.answer()
    assert answer["content"] == [{"type": "text", "text": "Hello."}]
    assert answer["unknown_deltas"] == [UNKNOWN["a type of delta"]]


async def test_a_block_of_an_unknown_type_has_what_its_deltas_add() -> None:
    block = [
        {"type": "drawing", "strokes": ""},
        {"type": "drawing_delta", "strokes": "M0 0"},
        {"type": "drawing_delta", "strokes": " L1 1"},
    ]
    played = PlayedProvider(anthropic_stream(block))
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client)
    answer = await model.respond(HELLO, ignore)
    assert answer.message.parts == (ProviderBlock({"type": "drawing", "strokes": "M0 0 L1 1"}),)


@each_row("last", ["A summary of all.", None])
async def test_a_compaction_delta_replaces_the_one_before(last: str | None) -> None:
    block: list[dict[str, Any]] = [
        {"type": "compaction", "content": None},
        {"type": "compaction_delta", "content": "A summary"},
        {"type": "compaction_delta", "content": last},
    ]
    played = PlayedProvider(anthropic_stream(block, [{"type": "text", "text": "Done."}]))
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client)
    answer = await model.respond(HELLO, ignore)
    assert answer.message.parts[0] == ProviderBlock({"type": "compaction", "content": last})
