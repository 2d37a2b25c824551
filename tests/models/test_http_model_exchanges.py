"""Exchanges as providers have them, over HTTP and their own SDKs: what an answer brought goes into the next request.

Each kind of content is an exchange of its own; the official SDKs' types say that it is one. It comes in one piece and
as a stream, and leaves the same history either way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest, ModelResponse, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.model_settings import ModelSettings
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, Text, ToolResult, dump_messages, load_messages, user_message
from tests.servers.loopback import LoopbackServer, request_body
from tests.tables import each_row

CODE = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
WEB = {
    "type": "web_search_result",
    "url": "https://example.org/a",
    "title": "A",
    "encrypted_content": "EqgfCioIARgB==",
    "page_age": None,
}
CITED = {
    "type": "web_search_result_location",
    "cited_text": "It rains.",
    "encrypted_index": "Eo8BCioIAhgB",
    "title": None,
    "url": "https://example.org/a",
}
USE = {"type": "tool_use", "id": "toolu_1", "name": "get_rate", "input": {"pair": "USD/EUR"}}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
FOUND = {"type": "tool_search_tool_search_result", "tool_references": []}
FAILED = {"type": "tool_search_tool_result_error", "error_code": "invalid_tool_input", "error_message": None}
RUN = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "print(1)"}}
RAN = {"type": "code_execution_result", "stdout": "1\n", "stderr": "", "return_code": 0}
OUTPUT = {"type": "code_execution_output", "file_id": "file_1"}
EDIT = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": 9}
RULE = {"type": "tool_reference", "name": "get_rate"}

ANTHROPIC: dict[str, tuple[dict[str, Any], ...]] = {
    "thinking": (
        {"type": "thinking", "thinking": "Two\n\nparts.", "signature": "EqQBCkYIBR=="},
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3p"},
        {"type": "thinking", "thinking": "", "signature": "EqQBCkYICh=="},
        {"type": "text", "text": "Done.", "citations": None},
    ),
    "web search with citations": (
        {**SEARCHED, "caller": {"type": "direct"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [WEB, WEB]},
        {"type": "text", "text": "I looked. ", "citations": None},
        {"type": "text", "text": "It rains.", "citations": [CITED, {**CITED, "cited_text": "It pours."}]},
    ),
    "a web search that failed": (
        SEARCHED,
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
        {"type": "text", "text": "No luck.", "citations": None},
    ),
    "code execution that calls a tool": (
        RUN,
        {**USE, "caller": CODE},
    ),
    "code execution and its files": (
        RUN,
        {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {**RAN, "content": [OUTPUT]}},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "text", "text": "Here.", "citations": None},
    ),
    "a server's tool through Anthropic": (
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "demo", "input": {"text": "x"}},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1",
            "is_error": False,
            "content": [{"type": "text", "text": "x", "citations": None}],
        },
        {"type": "text", "text": "x", "citations": None},
    ),
    "the listing of a server": (
        {
            "type": "mcp_tool_listing",
            "mcp_server_name": "demo",
            "tools": [{"name": "echo", "description": "d", "input_schema": {"type": "object"}}],
        },
        {"type": "text", "text": "I see.", "citations": None},
    ),
    "a tool search and its call": (
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_regex", "input": {"pattern": "rate"}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": FOUND},
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex", "input": {"pattern": "("}},
        {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_2", "content": FAILED},
        {**USE, "caller": {"type": "direct"}},
    ),
    "compaction": (
        {
            "type": "compaction",
            "content": "They asked for a rate.",
            "encrypted_content": None,
            "signature": "Eq==",
            "tool_changes": [{"type": "tool_addition", "tool": RULE}],
        },
        {"type": "text", "text": "Going on.", "citations": None},
    ),
    "parallel calls": (
        {"type": "text", "text": "Both.", "citations": None},
        USE,
        {**USE, "id": "toolu_2", "input": {}},
    ),
    "what nobody knows yet": (
        {"type": "hologram_2027", "id": "h_1", "input": {"a": [1, None]}, "caller": CODE, "depth": 1.50},
        {"type": "text", "text": "Look.", "citations": None, "layer": {"z": 0}},
    ),
}

HEAD = {"status": "completed"}
TEXT = {"type": "output_text", "text": "It rains.", "annotations": [], "logprobs": []}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", **HEAD, "content": [TEXT]}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_rate",
    **HEAD,
    "arguments": '{"a": 1.0}',
}
URL = {"type": "url_citation", "start_index": 0, "end_index": 9, "title": "A", "url": "https://example.org/a"}
FILE = {"type": "file_citation", "file_id": "file_1", "filename": "a.md", "index": 3}
PROBABLE = {"token": "It", "bytes": [73, 116], "logprob": -0.25, "top_logprobs": []}
SERVER = {"execution": "server", "call_id": None, **HEAD}
FUNCTION = {
    "type": "function",
    "name": "get_rate",
    "parameters": {"type": "object"},
    "strict": False,
    "defer_loading": True,
}

OPENAI: dict[str, tuple[dict[str, Any], ...]] = {
    "encrypted reasoning with a summary": (
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "**Rain**"}, {"type": "summary_text", "text": "Check."}],
            "encrypted_content": "gAAAAABpx",
        },
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAAABpy", "status": None},
        {**SAID, "phase": "final_answer"},
    ),
    "phases": ({**SAID, "phase": "commentary"}, CALL, {**SAID, "id": "msg_2", "phase": "final_answer"}),
    "a web search with citations": (
        {
            "type": "web_search_call",
            "id": "ws_1",
            **HEAD,
            "action": {"type": "search", "query": "rain", "queries": ["rain"], "sources": None},
        },
        {**SAID, "content": [{**TEXT, "annotations": [URL, URL], "logprobs": [PROBABLE]}]},
    ),
    "a file search": (
        {
            "type": "file_search_call",
            "id": "fs_1",
            **HEAD,
            "queries": ["rain"],
            "results": [{"file_id": "file_1", "filename": "a.md", "score": 0.5, "text": "It rains.", "attributes": {}}],
        },
        {**SAID, "content": [{**TEXT, "annotations": [FILE]}]},
    ),
    "a computer": (
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "call_9",
            **HEAD,
            "action": {"type": "click", "button": "left", "x": 10, "y": 20},
            "pending_safety_checks": [],
        },
    ),
    "a server's tools through OpenAI": (
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "demo",
            "tools": [{"name": "echo", "input_schema": {"type": "object"}, "description": None, "annotations": None}],
            "error": None,
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "demo",
            "name": "echo",
            "arguments": "{}",
            "output": "x",
            "error": None,
            "approval_request_id": None,
        },
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "demo", "name": "rm", "arguments": "{}"},
        SAID,
    ),
    "a custom tool": (
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_8",
            "name": "grep",
            "input": "a|b",
            "namespace": "fs",
        },
        SAID,
    ),
    "an image": (
        {"type": "image_generation_call", "id": "ig_1", **HEAD, "result": "iVBORw0KGgo="},
        {**SAID, "content": [{**TEXT, "text": ""}]},
    ),
    "a code interpreter": (
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            **HEAD,
            "code": "print(1)",
            "container_id": "cntr_1",
            "outputs": [{"type": "logs", "logs": "1\n"}],
        },
        SAID,
    ),
    "compaction": ({"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABpz"}, SAID),
    "a refusal": ({**SAID, "content": [{"type": "refusal", "refusal": "I will not."}]},),
    "several pieces": (
        {**SAID, "content": [TEXT, {"type": "refusal", "refusal": "No more."}, {**TEXT, "text": "So."}]},
    ),
    "a hosted tool search": (
        {"type": "tool_search_call", "id": "tsc_1", **SERVER, "arguments": {"paths": ["bank"]}},
        {
            "type": "tool_search_output",
            "id": "tso_1",
            **SERVER,
            "tools": [{"type": "namespace", "name": "bank", "description": "d", "tools": [FUNCTION]}],
        },
        {**CALL, "namespace": "bank"},
    ),
    "a program that calls": (
        {"type": "program", "id": "pr_1", "call_id": "call_7", "code": "get_rate()", "fingerprint": "f"},
        {**CALL, "caller": {"type": "program", "caller_id": "call_7"}},
    ),
    "what nobody knows yet": (
        {"type": "hologram", "id": "h_1", "depth": 1.50, "layers": [None]},
        {**SAID, "mood": None},
    ),
}

FUNC = {"name": "get_rate", "arguments": '{"pair": "USD/EUR", "n": 1.0}'}
ASKED = {"id": "call_1", "type": "function", "function": FUNC}
PAINTED = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}

CHAT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # what comes, and what of it goes back
    "a refusal": ({"content": None, "refusal": "I will not."}, {"content": None, "refusal": "I will not."}),
    "sound": (
        {"content": None, "audio": {"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "It rains."}},
        {"content": None, "audio": {"id": "audio_1"}},
    ),
    "annotations": (
        {"content": "It rains.", "annotations": [{"type": "url_citation", "url_citation": URL}]},
        {"content": "It rains.", "annotations": [{"type": "url_citation", "url_citation": URL}]},
    ),
    "reasoning as DeepSeek and vLLM write it": (
        {"content": "It rains.", "reasoning_content": "Look\noutside."},
        {"content": "It rains.", "reasoning_content": "Look\noutside."},
    ),
    "reasoning as OpenRouter writes it": (
        {
            "content": None,
            "reasoning": "Look.",
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "Look.",
                    "format": "anthropic-claude-v1",
                    "index": 0,
                    "signature": "Eq",
                },
                {
                    "type": "reasoning.encrypted",
                    "data": "gAAA",
                    "id": "rs_1",
                    "format": "openai-responses-v1",
                    "index": 1,
                },
            ],
            "tool_calls": [ASKED],
        },
        {
            "content": None,
            "reasoning": "Look.",
            "reasoning_details": [
                {
                    "type": "reasoning.text",
                    "text": "Look.",
                    "format": "anthropic-claude-v1",
                    "index": 0,
                    "signature": "Eq",
                },
                {
                    "type": "reasoning.encrypted",
                    "data": "gAAA",
                    "id": "rs_1",
                    "format": "openai-responses-v1",
                    "index": 1,
                },
            ],
            "tool_calls": [ASKED],
        },
    ),
    "a thought's signature as Gemini writes it": (
        {"content": None, "tool_calls": [{**ASKED, "extra_content": {"google": {"thought_signature": "CiQB=="}}}]},
        {"content": None, "tool_calls": [{**ASKED, "extra_content": {"google": {"thought_signature": "CiQB=="}}}]},
    ),
    "calls in parallel": (
        {"content": "Both.", "tool_calls": [ASKED, {**ASKED, "id": "call_2"}]},
        {"content": "Both.", "tool_calls": [ASKED, {**ASKED, "id": "call_2"}]},
    ),
    "a call as it was before tools": (
        {"content": None, "function_call": FUNC},
        {"content": None, "tool_calls": [{**ASKED, "id": "call_1_0"}]},
    ),
    "content in pieces": (
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Yes."},
            ]
        },
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Yes."},
            ]
        },
    ),
    "an image beside the text": (
        {"content": "Look.", "images": [PAINTED]},
        {"content": "Look.", "images": [PAINTED]},
    ),
}

STOPS = {"a refusal": "stop", "a call as it was before tools": "function_call"}


class Provider(LoopbackServer):
    """Answers requests over HTTP on loopback, one after the other, and keeps what it was sent."""

    def __init__(self, *answers: tuple[str, str]) -> None:
        super().__init__()
        self._answers = list(answers)
        self.bodies: list[dict[str, Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.bodies.append(json.loads(await request_body(reader)))
        kind, content = self._answers[len(self.bodies) - 1]
        data = content.encode()
        fields = f"content-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + data)
        await writer.drain()
        writer.close()


def whole(answer: Mapping[str, Any]) -> tuple[str, str]:
    return "application/json", json.dumps(answer)


def streamed(events: list[dict[str, Any]], *, done: bool = False) -> tuple[str, str]:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True)]
    return "text/event-stream", "".join(lines) + "data: [DONE]\n\n" * done


async def exchange(
    make: Callable[[str], HttpModel], answer: tuple[str, str], last: tuple[str, str]
) -> tuple[ModelResponse, dict[str, Any]]:
    """One answer, and the request after it: the history saved and loaded between, with a result for every call."""
    async with Provider(answer, last) as provider:
        model = make(provider.url)
        first = [user_message("Hello.")]
        response = await model.respond(ModelRequest("", tuple(first)), ignore)
        results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in response.message.tool_calls)
        after = Message("tool", results) if results else user_message("Go on.")
        history = load_messages(json.loads(json.dumps(dump_messages([*first, response.message, after]))))
        await model.respond(ModelRequest("", tuple(history)), ignore)
        await model.aclose()
    return response, provider.bodies[1]


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


# -- Anthropic --------------------------------------------------------------------------------------------------------


def claude(url: str) -> HttpModel:
    servers = [{"type": "url", "name": "demo", "url": "https://demo.example.com/mcp"}]
    settings = ModelSettings(extra={"mcp_servers": servers})  # what one of them sent goes back only where it is named
    return AnthropicModel("claude-opus-4-8", api_key="k", base_url=url, max_retries=0, settings=settings)


def claude_answer(blocks: tuple[dict[str, Any], ...], stop: str = "") -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-8",
        "content": list(blocks),
        "stop_reason": stop or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "output_tokens": 6,
            "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
        },
        "container": {"id": "container_1", "expires_at": "2026-11-22T12:00:00Z"},
        "context_management": {"applied_edits": [EDIT]},
    }


def claude_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    started = {**answer, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    for index, block in enumerate(answer["content"]):
        start, deltas = claude_block(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": answer["stop_reason"], "stop_sequence": None, "container": answer["container"]}
    events.append({"type": "message_delta", "delta": ended, "usage": answer["usage"]})
    return [*events, {"type": "message_stop"}]


def claude_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            texts = [
                {"type": "text_delta", "text": block["text"][:3]},
                {"type": "text_delta", "text": block["text"][3:]},
            ]
            cited = [{"type": "citations_delta", "citation": one} for one in block["citations"] or ()]
            return {**block, "text": "", "citations": [] if cited else None}, [*cited, *texts]
        case "thinking":
            thought = [{"type": "thinking_delta", "thinking": block["thinking"]}] if block["thinking"] else []
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thought, signed]
        case "compaction":
            delta = {"type": "compaction_delta", "content": block["content"], "encrypted_content": None}
            return {**block, "content": None}, [delta]
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            text = json.dumps(block["input"])
            parts = ("", text[:4], text[4:]) if block["input"] else ("",)
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            return block, []


@each_row("kind", list(ANTHROPIC))
async def test_what_anthropic_sends(kind: str) -> None:
    from anthropic.types.beta import BetaMessage

    answer, last = claude_answer(ANTHROPIC[kind]), claude_answer(({"type": "text", "text": "ok", "citations": None},))
    if kind != "what nobody knows yet":
        BetaMessage.model_validate(answer)
    one, body = await exchange(claude, whole(answer), whole(last))
    other, after_stream = await exchange(claude, streamed(claude_events(answer)), streamed(claude_events(last)))
    assert canonical(body["messages"][1]["content"]) == canonical(answer["content"])
    assert (other.message, other.stop) == (one.message, one.stop)
    assert canonical(after_stream) == canonical(body)


async def test_a_paused_turn_is_one_message() -> None:
    before, after = ANTHROPIC["web search with citations"][:2], ANTHROPIC["thinking"]
    paused, rest = claude_answer(before, "pause_turn"), claude_answer(after)
    async with Provider(streamed(claude_events(paused)), streamed(claude_events(rest)), whole(rest)) as provider:
        model = claude(provider.url)
        response = await model.respond(ModelRequest("", (user_message("Hello."),)), ignore)
        history = (user_message("Hello."), response.message, user_message("Go on."))
        await model.respond(ModelRequest("", history), ignore)
        await model.aclose()
    assert canonical(provider.bodies[1]["messages"][1]["content"]) == canonical(before)
    assert canonical(provider.bodies[2]["messages"][1]["content"]) == canonical([*before, *after])


# -- OpenAI Responses -------------------------------------------------------------------------------------------------


def gpt(url: str) -> HttpModel:
    return OpenAIResponsesModel("gpt-5.5", api_key="k", base_url=f"{url}/v1", max_retries=0)


def gpt_answer(items: tuple[dict[str, Any], ...], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.5",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": 5,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 6,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 11,
        },
        **more,
    }


def gpt_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """With the events in between that say again what the finished items say."""
    begun = {**answer, "output": [], "status": "in_progress"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(answer["output"]):
        at = {"output_index": index, "item_id": item.get("id")}
        events.append({"type": "response.output_item.added", **at, "item": {**item, "status": "in_progress"}})
        for place, content in enumerate(item.get("content") or ()):
            here = {**at, "content_index": place}
            events.append({"type": "response.content_part.added", **here, "part": {**content, "text": ""}})
            if content["type"] == "output_text":
                events.append({"type": "response.output_text.delta", **here, "delta": content["text"], "logprobs": []})
                noted = [{"annotation_index": n, "annotation": one} for n, one in enumerate(content["annotations"])]
                events += [{"type": "response.output_text.annotation.added", **here, **one} for one in noted]
                events.append({"type": "response.output_text.done", **here, "text": content["text"], "logprobs": []})
            else:
                events.append({"type": "response.refusal.delta", **here, "delta": content["refusal"]})
            events.append({"type": "response.content_part.done", **here, "part": content})
        if "arguments" in item and isinstance(item["arguments"], str):
            events.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
        events.append({"type": f"response.{item['type']}.searching", **at})
        events.append({"type": "response.output_item.done", **at, "item": item})
    ended = "response.incomplete" if answer["status"] == "incomplete" else "response.completed"
    events.append({"type": ended, "response": answer})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


@each_row("kind", list(OPENAI))
async def test_what_openai_sends(kind: str) -> None:
    from openai.types.responses import Response

    answer, last = gpt_answer(OPENAI[kind]), gpt_answer((SAID,))
    if kind != "what nobody knows yet":
        Response.model_validate(answer)
    one, body = await exchange(gpt, whole(answer), whole(last))
    other, after_stream = await exchange(gpt, streamed(gpt_events(answer)), streamed(gpt_events(last)))
    assert canonical(body["input"][1 : 1 + len(answer["output"])]) == canonical(answer["output"])
    assert (other.message, other.stop) == (one.message, one.stop)
    assert canonical(after_stream) == canonical(body)


async def test_an_incomplete_item_comes_back_as_it_was_and_its_call_is_not_run() -> None:
    cut = {**CALL, "status": "incomplete", "arguments": '{"a": 1'}
    more = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    answer, last = gpt_answer(({**SAID, "status": "incomplete"}, cut), **more), gpt_answer((SAID,))
    one, body = await exchange(gpt, whole(answer), whole(last))
    other, after_stream = await exchange(gpt, streamed(gpt_events(answer)), whole(last))
    assert (one.stop, one.message.tool_calls[0].malformed) == ("length", '{"a": 1')
    assert canonical(body["input"][1:3]) == canonical(answer["output"])
    assert other.message == one.message
    assert canonical(after_stream) == canonical(body)


# -- Chat Completions -------------------------------------------------------------------------------------------------


def server(url: str) -> HttpModel:
    return OpenAIChatModel("m", api_key="k", base_url=f"{url}/v1", provider="vllm", max_retries=0)


def chat_answer(message: dict[str, Any], reason: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def chat_events(answer: dict[str, Any], *, numbered: bool) -> list[dict[str, Any]]:
    """The chunks; some servers give the calls in them no `index`."""
    [choice] = answer["choices"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for key, value in choice["message"].items():
        match key, value:
            case "tool_calls", _:
                for place, call in enumerate(value):
                    index = {"index": place if numbered else None}
                    arguments = call["function"]["arguments"]
                    begun = {**call, **index, "function": {**call["function"], "arguments": arguments[:5]}}
                    deltas += [{"tool_calls": [begun]}]
                    deltas += [{"tool_calls": [{**index, "function": {"arguments": arguments[5:]}}]}]
            case "function_call", _:
                text = value["arguments"]
                deltas += [{key: {"name": value["name"], "arguments": text[:5]}}, {key: {"arguments": text[5:]}}]
            case "audio", _:
                sound = {"id": value["id"], "transcript": value["transcript"][:3], "data": value["data"][:4]}
                rest = {"transcript": value["transcript"][3:], "data": value["data"][4:]}
                deltas += [{key: sound}, {key: rest}, {key: {"expires_at": value["expires_at"]}}]
            case "role", _:
                pass
            case _, str():
                deltas += [{key: value[:3]}, {key: value[3:]}]
            case _, list():
                deltas += [{key: [piece]} for piece in value]
            case _:
                deltas.append({key: value})
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    return [*chunks, {**chunk, "choices": [end]}, {**chunk, "choices": [], "usage": answer["usage"]}]


@each_row("numbered", [True, False])
@each_row("kind", list(CHAT))
async def test_what_servers_of_chat_completions_send(kind: str, numbered: bool) -> None:
    message, expected = CHAT[kind]
    reason = STOPS.get(kind) or ("tool_calls" if "tool_calls" in message else "stop")
    answer, last = chat_answer(message, reason), whole(chat_answer({"content": "ok"}, "stop"))
    one, body = await exchange(server, whole(answer), last)
    events = chat_events(answer, numbered=numbered)
    other, after_stream = await exchange(server, streamed(events, done=True), last)
    assert canonical(body["messages"][1]) == canonical({"role": "assistant", **expected})
    assert (other.message, other.stop) == (one.message, one.stop)
    assert canonical(after_stream) == canonical(body)
