"""Recorded answers of real providers: they survive our history and come back as they were sent.

The recordings of a developer's machine are used where they lie beside the repository; the small answers below, made
for these tests after the same formats, are always used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, ToolResult, dump_messages, load_messages, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, call_item, chat_stream, message_item, responses_stream

RECORDINGS = Path(__file__).resolve().parents[3] / "shared" / "data" / "cassettes"
HELLO = ModelRequest("", (user_message("hello"),))

OWN: dict[str, dict[str, Any]] = {
    "messages": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I need a rate.", "signature": "EqQBCkYIBR=="},
            {"type": "text", "text": "Let me search."},
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "tool_search_tool_regex",
                "input": {"pattern": "rate", "limit": 3},
                "caller": {"type": "direct"},
            },
            {
                "type": "tool_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {"type": "tool_search_tool_result_error", "error_code": "unavailable"},
            },
            {"type": "tool_use", "id": "toolu_1", "name": "get_rate", "input": {"pair": "USD/EUR", "n": 1.5}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 6},
    },
    "responses": {
        "id": "resp_1",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB"},
            {**message_item("Let me search."), "phase": "commentary"},
            {
                "type": "tool_search_call",
                "id": "tsc_1",
                "call_id": None,
                "execution": "server",
                "status": "completed",
                "arguments": {"paths": ["crm"]},
            },
            {
                "type": "tool_search_output",
                "id": "tso_1",
                "call_id": None,
                "execution": "server",
                "status": "completed",
                "tools": [{"type": "function", "name": "get_rate", "parameters": {}, "defer_loading": True}],
            },
            call_item("call_1", "get_rate", '{"pair": "USD/EUR", "n": 1.50}', namespace="get_rate"),
        ],
        "usage": {"input_tokens": 5, "output_tokens": 6},
    },
    "chat": {
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Let me look.",
                    "reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1"}],
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "get_rate", "arguments": '{"pair": "USD/EUR", "n": 1.50}'},
                            "extra_content": {"google": {"thought_signature": "sig=="}},
                        }
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 6},
    },
}


def recorded() -> Sequence[tuple[str, str, list[dict[str, Any]]]]:
    """Return for each recording its name, the protocol it is in, and its exchanges, which nobody may change."""
    pytest.importorskip("yaml", reason="PyYAML reads the recordings; pip install pyyaml")
    return _read_recordings()


@cache
def _read_recordings() -> Sequence[tuple[str, str, list[dict[str, Any]]]]:
    return list(_recordings())


def _recordings() -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times as fast
    for path in sorted(RECORDINGS.glob("*.yaml")):
        exchanges = yaml.load(path.read_text(encoding="utf-8"), loader)["interactions"]
        for protocol, part in (("messages", "/messages"), ("responses", "/responses"), ("chat", "/chat/completions")):
            own = [exchange for exchange in exchanges if part in exchange["request"]["uri"]]
            if own:
                yield path.stem, protocol, own


def adapter(protocol: str, *answers: httpx2.Response) -> HttpModel:
    kinds: dict[str, Any] = {"messages": AnthropicModel, "responses": OpenAIResponsesModel, "chat": OpenAIChatModel}
    model: HttpModel = kinds[protocol]("m", api_key="k", http_client=PlayedProvider(*answers).http_client)
    return model


def response_of(exchange: dict[str, Any]) -> httpx2.Response:
    answer = exchange["response"]
    if "parsed_body" in answer:
        return httpx2.Response(answer["status"]["code"], json=answer["parsed_body"])
    content = answer["body"]["string"].encode()
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)


def items_of(protocol: str, answer: dict[str, Any]) -> list[Any]:
    """What of an answer has to come back."""
    if protocol == "messages":
        return list(answer["content"])
    if protocol == "responses":
        return list(answer["output"])
    message = answer["choices"][0]["message"]
    return [{k: v for k, v in message.items() if k == "content" or v not in (None, [], {})}]


def replayed(model: HttpModel, protocol: str, message: Message) -> list[Any]:
    loaded = load_messages(json.loads(json.dumps(dump_messages([user_message("hello"), message]))))
    body = model.request_body(ModelRequest("", tuple(loaded)))
    if protocol == "messages":
        return [block for turn in body["messages"][1:] for block in turn["content"]]
    return list(body["input"][1:] if protocol == "responses" else body["messages"][1:])


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@each_row("protocol", list(OWN))
async def test_an_answer_comes_back_as_it_was_sent(protocol: str) -> None:
    answer = OWN[protocol]
    model = adapter(protocol, httpx2.Response(200, json=answer))
    response = await model.respond(HELLO, ignore)
    assert canonical(replayed(model, protocol, response.message)) == canonical(items_of(protocol, answer))


@each_row("protocol", list(OWN))
async def test_streaming_gives_the_same_history(protocol: str) -> None:
    answer = OWN[protocol]
    whole = await adapter(protocol, httpx2.Response(200, json=answer)).respond(HELLO, ignore)
    streamed = await adapter(protocol, as_stream(protocol, answer)).respond(HELLO, ignore)
    assert streamed == whole


def as_stream(protocol: str, answer: dict[str, Any]) -> httpx2.Response:
    """The same answer as its provider would stream it."""
    if protocol == "messages":
        blocks = [_streamed_block(block) for block in answer["content"]]
        return anthropic_stream(*blocks, stop=answer["stop_reason"], usage=answer["usage"])
    if protocol == "responses":
        return responses_stream(*answer["output"], usage=answer.get("usage"))
    message = answer["choices"][0]["message"]
    calls = [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(message.get("tool_calls") or ())]
    others = [{key: value} for key, value in message.items() if key != "tool_calls" and value is not None]
    return chat_stream(*others, *calls, finish=answer["choices"][0]["finish_reason"], usage=answer.get("usage"))


def _streamed_block(block: dict[str, Any]) -> list[dict[str, Any]]:
    if "input" in block:
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:4], text[4:])]
        return [{**block, "input": {}}, *deltas]
    for name in ("text", "thinking"):
        if block["type"] == name:
            signed = [{"type": "signature_delta", "signature": block["signature"]}] if "signature" in block else []
            emptied = {key: "" if key in (name, "signature") else value for key, value in block.items()}
            return [emptied, {"type": f"{name}_delta", name: block[name]}, *signed]
    return [block]


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository (../shared/data/cassettes)")
async def test_every_recording_comes_back_as_it_was_sent_and_streams_to_the_same_history() -> None:
    compared = 0
    for name, protocol, exchanges in recorded():
        for exchange in exchanges:
            model = adapter(protocol, response_of(exchange))
            response = await model.respond(HELLO, ignore)
            answer = exchange["response"].get("parsed_body")
            if answer is None:
                continue
            compared += 1
            sent = items_of(protocol, answer)
            assert canonical(replayed(model, protocol, response.message)) == canonical(sent), name
            streamed = await adapter(protocol, as_stream(protocol, answer)).respond(HELLO, ignore)
            assert streamed.message == response.message, name
            assert streamed.stop == response.stop, name
    assert compared > 40


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository (../shared/data/cassettes)")
async def test_the_recorded_next_request_has_the_items_that_ours_has() -> None:
    """Answer k, a result for each of its calls: the provider's items in recorded request k+1 are in ours, in order."""
    compared = 0
    for name, protocol, exchanges in recorded():
        for exchange, following in pairwise(exchanges):
            model = adapter(protocol, response_of(exchange))
            message = (await model.respond(HELLO, ignore)).message
            results = tuple(ToolResult(call.id, call.name, ()) for call in message.tool_calls)
            body = model.request_body(ModelRequest("", (user_message("x"), message, Message("tool", results))))
            ours, theirs = identities(protocol, body), identities(protocol, following["request"]["parsed_body"])
            if not set(ours) & set(theirs):
                continue  # the recording goes on with another conversation
            compared += 1
            assert [item for item in ours if item in theirs] == [item for item in theirs if item in ours], name
            missing = [item for item in theirs if item not in ours and item[1] in {other[1] for other in ours}]
            assert not missing, name
    assert compared > 10


def identities(protocol: str, body: dict[str, Any]) -> list[tuple[str, str]]:
    """Type and id of every item of a request that has an id, calls and results included."""
    if protocol == "responses":
        items = body["input"]
    elif protocol == "messages":
        items = [block for turn in body["messages"] for block in turn["content"]]
    else:
        items = [call for message in body["messages"] for call in (message, *(message.get("tool_calls") or ()))]
    named = ((item.get("type") or "tool", item.get("id") or item.get("tool_use_id")) for item in items)
    return [(kind, item_id) for kind, item_id in named if item_id]
