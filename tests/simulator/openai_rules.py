"""OpenAI's Responses and Chat Completions APIs: their refusals, what the model sees, and their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.values import Said, Unit, View, rendered, require

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_function(function: Mapping[str, Any]) -> None:
    name, schema = function["name"], function.get("parameters", {})
    require(_NAME.fullmatch(name), f"Invalid 'tools.name': string does not match pattern: {name}")
    legal = schema.get("type") == "object" and "properties" in schema
    legal = legal and not {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    require(legal, f"Invalid schema for function '{name}': schema must have type 'object' and no top-level combiners")
    require(function.get("strict") is not True, f"Invalid schema for function '{name}': not a strict schema")


def check_responses(body: Mapping[str, Any], _headers: Mapping[str, str]) -> None:
    functions = responses_functions(body)
    for function in functions:
        _check_function(function)
    names = [function["name"] for function in functions]
    require(len(names) == len(set(names)), "Duplicate tool names found")
    calls: dict[str, str] = {}
    open_calls: set[str] = set()
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            calls[item["call_id"]] = item["name"]
            open_calls.add(item["call_id"])
        elif kind == "function_call_output":
            call_id = item["call_id"]
            require(call_id in open_calls, f"No tool call found for function call output with call_id {call_id}.")
            open_calls.discard(call_id)
        elif kind == "message":
            require(item["content"], "message content must not be empty")
    require(not open_calls, f"No tool output found for function call {', '.join(sorted(open_calls))}.")
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        unknown = [tool["name"] for tool in choice["tools"] if tool["name"] not in names]
        require(not unknown, f"Tool choice {unknown} not found in 'tools' parameter.")


def responses_functions(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All functions of a request, those that came inside the history too."""
    inline = [item["tools"] for item in body["input"] if item.get("type") == "additional_tools"]
    return [*body.get("tools", ()), *(tool for tools in inline for tool in tools)]


def responses_units(body: Mapping[str, Any]) -> list[Unit]:
    head = [*body.get("tools", ()), body.get("instructions", "")]
    return [Unit(rendered(piece)) for piece in (*head, *body["input"])]


def responses_definition_tokens(body: Mapping[str, Any]) -> int:
    return sum(Unit(rendered(function)).tokens for function in responses_functions(body))


def responses_view(body: Mapping[str, Any]) -> View:
    shown = {function["name"]: function["parameters"] for function in responses_functions(body)}
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        allowed = {tool["name"] for tool in choice["tools"]}
        shown = {name: schema for name, schema in shown.items() if name in allowed}
    texts: list[str] = []
    for item in body["input"]:
        content = item.get("output") if item.get("type") == "function_call_output" else item.get("content")
        if item.get("role") == "user" or "output" in item:
            texts += [content] if isinstance(content, str) else [p["text"] for p in content or () if "text" in p]
    kinds = [item.get("type") == "function_call" or item.get("role") == "assistant" for item in body["input"]]
    answered = sum(own and not before for before, own in zip([False, *kinds], kinds, strict=False))
    return View(shown, texts, answered, choice == "none")


def responses_answer(
    body: Mapping[str, Any], said: Sequence[Said], number: int, usage: Mapping[str, int]
) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"gAAA{number}"}
    ]
    for place, piece in enumerate(said):
        if isinstance(piece, str):
            text = {"type": "output_text", "text": piece, "annotations": [], "logprobs": []}
            ident = {"type": "message", "id": f"msg_{number}_{place}", "role": "assistant", "status": "completed"}
            output.append({**ident, "content": [text]})
        else:
            arguments = json.dumps(piece[1])
            ident = {"type": "function_call", "id": f"fc_{number}_{place}", "call_id": f"call_{number}_{place}"}
            output.append({**ident, "name": piece[0], "arguments": arguments, "status": "completed"})
    counted = {
        "input_tokens": usage["total"],
        "input_tokens_details": {"cached_tokens": usage["read"]},
        "output_tokens": usage["output"],
    }
    head = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": body["model"]}
    return {**head, "error": None, "incomplete_details": None, "output": output, "usage": counted}


def responses_events(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "response.created", "response": {**answer, "output": []}}]
    for index, item in enumerate(answer["output"]):
        made.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            made.append({"type": "response.output_text.delta", "output_index": index, "delta": text})
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return [*made, {"type": "response.completed", "response": answer}]


def check_chat(body: Mapping[str, Any], _headers: Mapping[str, str]) -> None:
    names = [tool["function"]["name"] for tool in body.get("tools", ())]
    for tool in body.get("tools", ()):
        _check_function(tool["function"])
    require(len(names) == len(set(names)), "Duplicate tool names found")
    open_calls: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            known = message["tool_call_id"] in open_calls
            require(known, f"messages.{place}: 'tool' must be a response to a preceding message with 'tool_calls'.")
            require(isinstance(message["content"], str), "images are not allowed in tool messages")
            open_calls.remove(message["tool_call_id"])
            continue
        require(not open_calls, f"tool_call_ids did not have response messages: {', '.join(open_calls)}")
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        require(message.get("content") or open_calls, f"messages.{place}.content: must not be empty")
        for call in message.get("tool_calls", ()):
            require(len(call["id"]) <= 40, "string too long. Expected a string with maximum length 40")
            json.loads(call["function"]["arguments"])
    require(not open_calls, f"tool_call_ids did not have response messages: {', '.join(open_calls)}")


def chat_units(body: Mapping[str, Any]) -> list[Unit]:
    return [Unit(rendered(piece)) for piece in (*body.get("tools", ()), *body["messages"])]


def chat_definition_tokens(body: Mapping[str, Any]) -> int:
    return sum(Unit(rendered(tool)).tokens for tool in body.get("tools", ()))


def chat_view(body: Mapping[str, Any]) -> View:
    shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())}
    texts = [str(m["content"]) for m in body["messages"] if m["role"] in ("user", "tool")]
    answered = sum(message["role"] == "assistant" for message in body["messages"])
    return View(shown, texts, answered, body.get("tool_choice") == "none")


def chat_answer(body: Mapping[str, Any], said: Sequence[Said], number: int, usage: Mapping[str, int]) -> dict[str, Any]:
    text = "".join(piece for piece in said if isinstance(piece, str))
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": piece[0], "arguments": json.dumps(piece[1])},
        }
        for place, piece in enumerate(said)
        if not isinstance(piece, str)
    ]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    counted = {
        "prompt_tokens": usage["total"],
        "completion_tokens": usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["read"]},
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": f"chatcmpl-{number}", "model": body["model"], "choices": [choice], "usage": counted}


def chat_events(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    choice = answer["choices"][0]
    message = choice["message"]
    chunk = {"id": answer["id"], "object": "chat.completion.chunk", "model": answer["model"]}
    calls = [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(message.get("tool_calls", ()))]
    deltas = [{"role": "assistant", "content": ""}, {"content": message["content"] or ""}, *calls]
    made = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    made.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*made, {**chunk, "choices": [], "usage": answer["usage"]}]
