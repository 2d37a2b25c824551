"""A provider played by an injected HTTP transport: keeps what it is sent, answers from a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import httpx2

Answer: TypeAlias = httpx2.Response | Exception


class PlayedProvider:
    """Gives its answers in order, the last one again and again; `bodies` holds every request's JSON."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self._answers = answers
        self.requests: list[httpx2.Request] = []
        self.http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
        answer = answer() if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


def sse(*events: Mapping[str, Any], named: bool = True, done: bool = False) -> httpx2.Response:
    """An event stream as providers write it; `named` adds the `event:` line, `done` ends it as Chat Completions do."""
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    content = "".join([*lines, "data: [DONE]\n\n" if done else ""])
    return httpx2.Response(200, headers={"content-type": "text/event-stream; charset=utf-8"}, content=content.encode())


def failed(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    return httpx2.Response(status, json=body if body is not None else {}, headers=dict(headers or {}))


class Waits:
    """Stands for `sleep`: remembers how long was asked for and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def anthropic_stream(
    *blocks: Sequence[Mapping[str, Any]], stop: str = "end_turn", usage: Mapping[str, Any] | None = None
) -> httpx2.Response:
    """Each block is its `content_block` and then its deltas."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    counted = dict(usage or {"input_tokens": 7, "output_tokens": 3})
    events: list[Mapping[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "usage": {**counted, "output_tokens": 1}}},
        {"type": "ping"},
    ]
    for index, (block, *deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": counted})
    events.append({"type": "message_stop"})
    return sse(*events)


def text_block(text: str) -> list[Mapping[str, Any]]:
    return [{"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in (text[:3], text[3:]))]


def tool_block(call_id: str, name: str, arguments: str) -> list[Mapping[str, Any]]:
    pieces = ("", arguments[:5], arguments[5:])
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}, "caller": {"type": "direct"}}
    return [start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces)]


def chat_stream(
    *deltas: Mapping[str, Any], finish: str | None = "stop", usage: Mapping[str, Any] | None = None
) -> httpx2.Response:
    chunk: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    events = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events.append({**chunk, "choices": [], "usage": usage or {"prompt_tokens": 7, "completion_tokens": 3}})
    return sse(*events, named=False, done=True)


def responses_stream(
    *items: Mapping[str, Any], status: str = "completed", reason: str | None = None, **extra: Any
) -> httpx2.Response:
    answer = {
        "id": "resp_1",
        "object": "response",
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": list(items),
        "usage": {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}},
        **extra,
    }
    events: list[Mapping[str, Any]] = [{"type": "response.created", "response": {**answer, "output": []}}]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        texts = [content["text"] for content in item["content"]] if item["type"] == "message" else []
        events += [{"type": "response.output_text.delta", "output_index": index, "delta": text} for text in texts]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{status}", "response": answer})
    return sse(*events)


def message_item(text: str) -> dict[str, Any]:
    content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}


def call_item(call_id: str, name: str, arguments: str, **extra: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}
    return {**item, "status": "completed", **extra}
