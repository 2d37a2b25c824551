"""OpenAI's Responses and Chat Completions APIs: their refusals, what the model sees, and their answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.output_rules import openai_output
from tests.simulator.values import (
    CITED,
    PAGE,
    PROVIDER_RUN,
    PROVIDER_SEARCH,
    Said,
    Unit,
    View,
    matching,
    rendered,
    require,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
OLD_MODELS = ("gpt-3", "gpt-4", "o1", "o3", "o4", "gpt-5-", "gpt-5.1", "gpt-5.2", "gpt-5.3")
"""Models that search no tools."""


def _check_function(function: Mapping[str, Any]) -> None:
    name, schema = function["name"], function.get("parameters", {})
    require(_NAME.fullmatch(name), f"Invalid 'tools.name': string does not match pattern: {name}")
    legal = schema.get("type") == "object" and "properties" in schema
    legal = legal and not {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys()
    require(legal, f"Invalid schema for function '{name}': schema must have type 'object' and no top-level combiners")
    strict = schema.get("additionalProperties") is False and {*schema["properties"]} == {*schema.get("required", ())}
    require(strict or not function.get("strict"), f"Invalid schema for function '{name}': not a strict schema")


def _check_called(where: str, call: Mapping[str, Any]) -> None:
    """A call of the history: OpenAI refuses its name as it refuses a tool's."""
    require(_NAME.fullmatch(call["name"]), f"Invalid '{where}.name': string does not match pattern {_NAME.pattern}")


def _check_call(where: str, call: Mapping[str, Any]) -> None:
    """Other servers of Chat Completions also parse its arguments."""
    _check_called(where, call)
    try:
        arguments = json.loads(call["arguments"])
    except ValueError:
        arguments = None
    require(isinstance(arguments, dict), f"Invalid '{where}.arguments': not a JSON object")


def check_responses(body: Mapping[str, Any], _headers: Mapping[str, str]) -> None:
    functions = responses_functions(body)
    for function in functions:
        _check_function(function)
    names = [function["name"] for function in functions]
    require(len(names) == len(set(names)), "Duplicate tool names found")
    spaces_named = [tool["name"] for tool in responses_tools(body) if tool["type"] == "namespace"]
    require(len(spaces_named) == len(set(spaces_named)), "Duplicate namespace names found")
    require(all(tool.get("tools", True) for tool in responses_tools(body)), "namespace.tools: array too short")
    hosted = any("tool_search" in str(tool.get("type")) for tool in body.get("tools", ()))
    hosted = hosted or any(str(item.get("type")).startswith("tool_search") for item in body["input"])
    require(not (hosted and body["model"].startswith(OLD_MODELS)), f"tool_search is not supported by {body['model']}")
    deferred = any(function.get("defer_loading") for function in functions)
    searching = {"type": "tool_search"} in body.get("tools", ())
    require(
        searching or not deferred, "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search."
    )
    spaces = namespaces(body)
    calls: dict[str, str] = {}
    open_calls: set[str] = set()
    for item, following in zip(body["input"], [*body["input"][1:], {"role": "user"}], strict=True):
        kind = item.get("type", "message")
        if kind == "reasoning":
            refused = body["model"].startswith(("gpt-3", "gpt-4"))
            require(not refused, "Reasoning input items can only be provided to a reasoning or computer use model.")
            ended = following.get("role") == "user" or following.get("type") == "function_call_output"
            require(not ended, f"Item '{item['id']}' of type 'reasoning' was provided without its following item.")
        if kind == "function_call":
            space = spaces.get(item["name"], "")
            require(
                not space or item.get("namespace") == space,
                f"Missing namespace for function_call '{item['name']}'. It does not exist in the default namespace.",
            )
            _check_called("input.function_call", item)
            require(item["call_id"] not in calls, f"Duplicate call_id {item['call_id']}")
            calls[item["call_id"]] = item["name"]
            open_calls.add(item["call_id"])
        elif kind == "function_call_output":
            call_id = item["call_id"]
            require(call_id in open_calls, f"No tool call found for function call output with call_id {call_id}.")
            open_calls.discard(call_id)
        elif kind == "message":
            require(item["content"], "message content must not be empty")
    require(not open_calls, f"No tool output found for function call {', '.join(sorted(open_calls))}.")
    _check_hosted(body)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and "tools" not in choice:
        hosted_types = [tool["type"] for tool in body.get("tools", ())]
        require(choice["type"] == "function" or choice["type"] in hosted_types, f"Tool choice {choice} not found")
    elif isinstance(choice, dict):
        require(choice["tools"], "tool_choice.tools: array too short")
        callable_names = [function["name"] for function in functions if not function.get("defer_loading")]
        callable_names += [_called(tool) for tool in body.get("tools", ()) if tool["type"] in HOSTED]
        unknown = [_called(tool) for tool in choice["tools"] if _called(tool) not in callable_names]
        require(not unknown, f"Tool choice {unknown} not found in 'tools' parameter.")


HOSTED = ("web_search", "code_interpreter", "file_search", "mcp")


def _called(tool: Mapping[str, Any]) -> str:
    return str(tool.get("name") or tool.get("server_label") or tool["type"])


def _check_hosted(body: Mapping[str, Any]) -> None:
    """Tools that OpenAI runs, and the items of theirs in the history."""
    labels = [tool["server_label"] for tool in body.get("tools", ()) if tool["type"] == "mcp"]
    require(len(labels) == len(set(labels)), "Duplicate server_label")
    for tool in body.get("tools", ()):
        require("container" in tool or tool["type"] != "code_interpreter", "tools.container: missing")
        unsearched = tool["type"] == "web_search" and body["model"].startswith("gpt-4.1-nano")
        require(not unsearched, f"Hosted tool 'web_search' is not supported with {body['model']}.")
    for place, item in enumerate(body["input"]):
        known = item.get("type") != "code_interpreter_call" or not item["container_id"].endswith("_gone")
        require(known, f"input[{place}]: Container is expired.")


def responses_functions(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All functions of a request, those that came inside the history too."""
    nested = [inner for tool in responses_tools(body) for inner in tool.get("tools", (tool,))]
    return [function for function in nested if function["type"] == "function"]


def responses_tools(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All tools of a request, namespaces as they are, those that came inside the history too."""
    inline = [tool for item in body["input"] if item.get("type") == "additional_tools" for tool in item["tools"]]
    return [*body.get("tools", ()), *inline]


def namespaces(body: Mapping[str, Any]) -> dict[str, str]:
    """The namespace of each function that has one; a deferred function by itself is its own."""
    spaces: dict[str, str] = {}
    for tool in responses_tools(body):
        if tool["type"] == "namespace":
            spaces |= {function["name"]: tool["name"] for function in tool["tools"]}
        elif tool.get("defer_loading"):
            spaces[tool["name"]] = tool["name"]
    return spaces


def _loaded(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Functions whose definition the model reads: those not deferred, and those a search has loaded."""
    searched = [item["tools"] for item in body["input"] if item.get("type") == "tool_search_output"]
    found = {name for tools in searched for tool in tools for name in _names(tool)}
    functions = responses_functions(body)
    return [function for function in functions if not function.get("defer_loading") or function["name"] in found]


def _names(tool: Mapping[str, Any]) -> list[str]:
    return [inner["name"] for inner in tool.get("tools", (tool,))]


def responses_units(body: Mapping[str, Any]) -> list[Unit]:
    read = (_as_read(tool) for tool in body.get("tools", ()))
    head = [*(tool for tool in read if tool is not None), body.get("instructions", "")]
    return [Unit(rendered(piece)) for piece in (*head, *map(_item_as_read, body["input"]))]


def _item_as_read(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**item, "tools": [*map(_as_read, item["tools"])]} if item.get("type") == "additional_tools" else item


def _as_read(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A tool as it stands in the prompt: namespaces with their description only, deferred ones without schema."""
    if tool["type"] == "namespace":
        return {"name": tool["name"], "description": tool["description"]}
    if tool.get("defer_loading"):
        return {"name": tool["name"], "description": tool["description"]}
    return tool


def responses_definition_tokens(body: Mapping[str, Any]) -> int:
    return sum(Unit(rendered(function)).tokens for function in _loaded(body))


def responses_view(body: Mapping[str, Any]) -> View:
    shown = {function["name"]: function["parameters"] for function in _loaded(body)}
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        allowed = {_called(tool) for tool in choice.get("tools", ())}
        shown = {name: schema for name, schema in shown.items() if name in allowed}
    texts: list[str] = []
    for item in body["input"]:
        content = item.get("output") if item.get("type") == "function_call_output" else item.get("content")
        if item.get("role") == "user" or "output" in item:
            texts += [content] if isinstance(content, str) else [p["text"] for p in content or () if "text" in p]
    kinds = [item.get("type") == "function_call" or item.get("role") == "assistant" for item in body["input"]]
    answered = sum(own and not before for before, own in zip([False, *kinds], kinds, strict=False))
    return View(shown, texts, answered, choice == "none", openai_output(body), _demanded(choice))


def _demanded(choice: Any) -> str:
    if isinstance(choice, dict):
        named = choice.get("name") or choice.get("function", {}).get("name") or ""
        return "any" if choice.get("mode") == "required" else str(named)
    return "any" if choice == "required" else ""


def responses_answer(
    body: Mapping[str, Any], said: Sequence[Said], number: int, usage: Mapping[str, int]
) -> dict[str, Any]:
    thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"gAAA{number}"}
    output: list[dict[str, Any]] = [] if body["model"].startswith(("gpt-3", "gpt-4")) else [thought]
    for place, piece in enumerate(said):
        if isinstance(piece, str):
            text = {"type": "output_text", "text": piece, "annotations": [], "logprobs": []}
            ident = {"type": "message", "id": f"msg_{number}_{place}", "role": "assistant", "status": "completed"}
            output.append({**ident, "content": [text]})
        elif piece[0] == PROVIDER_RUN:
            output.append(_ran(body, piece[1], f"{number}_{place}"))
        elif piece[0] == CITED:
            cited = {"type": "url_citation", **PAGE, "start_index": 0, "end_index": 2}
            said_with = {"type": "output_text", "text": piece[1]["text"], "annotations": [cited], "logprobs": []}
            ident = {"type": "message", "id": f"msg_{number}_{place}", "role": "assistant", "status": "completed"}
            output.append({**ident, "content": [said_with]})
        elif piece[0] == PROVIDER_SEARCH:
            output += _search(body, piece[1], f"{number}_{place}")
        else:
            arguments = json.dumps(piece[1])
            ident = {"type": "function_call", "id": f"fc_{number}_{place}", "call_id": f"call_{number}_{place}"}
            space = namespaces(body).get(piece[0])
            spaced = {"namespace": space} if space else {}
            output.append({**ident, "name": piece[0], "arguments": arguments, "status": "completed", **spaced})
    counted = {
        "input_tokens": usage["total"],
        "input_tokens_details": {"cached_tokens": usage["read"]},
        "output_tokens": usage["output"],
    }
    head = {"id": f"resp_{number}", "object": "response", "status": "completed", "model": body["model"]}
    return {**head, "error": None, "incomplete_details": None, "output": output, "usage": counted}


def _ran(body: Mapping[str, Any], asked: Mapping[str, Any], ident: str) -> dict[str, Any]:
    """A call of a tool that OpenAI runs, with its result; an input with "#broken" fails inside the good answer."""
    tool, given = asked["tool"], asked["input"]
    status = "failed" if "#broken" in str(given) else "completed"
    match tool:
        case "web_search":
            action = {"type": "search", **given, "sources": [{"type": "url", "url": PAGE["url"]}]}
            return {"type": "web_search_call", "id": f"ws_{ident}", "status": status, "action": action}
        case "file_search":
            found = [{"file_id": "f1", "filename": "rain.txt", "text": "It rains.", "score": 0.5}]
            return {"type": "file_search_call", "id": f"fs_{ident}", "status": status, "results": found, **given}
        case "code_execution":
            used = [item["container_id"] for item in body["input"] if item.get("type") == "code_interpreter_call"]
            outputs = [{"type": "logs", "logs": "42\n"}]
            about = {"id": f"ci_{ident}", "status": status, "container_id": (used or [f"cntr_{ident}"])[-1]}
            return {"type": "code_interpreter_call", **about, "code": given.get("code", ""), "outputs": outputs}
        case _:
            label = {"server_label": tool.removeprefix("mcp:"), "name": "list", "arguments": json.dumps(given)}
            return {"type": "mcp_call", "id": f"mcp_{ident}", **label, "status": status, "output": "two issues"}


def _search(body: Mapping[str, Any], arguments: Mapping[str, Any], ident: str) -> list[dict[str, Any]]:
    """A search on the provider's side and what it loads."""
    deferred = {function["name"]: function for function in responses_functions(body) if function.get("defer_loading")}
    names = matching(deferred, arguments["query"])
    head = {"call_id": None, "execution": "server", "status": "completed"}
    loaded = [dict(deferred[name]) for name in names]
    return [
        {"type": "tool_search_call", "id": f"tsc_{ident}", **head, "arguments": {"paths": names}},
        {"type": "tool_search_output", "id": f"tso_{ident}", **head, "tools": loaded},
    ]


def responses_events(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"type": "response.created", "response": {**answer, "output": []}}]
    for index, item in enumerate(answer["output"]):
        made.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            made.append({"type": "response.output_text.delta", "output_index": index, "delta": text})
        elif item["type"] == "function_call":
            piece = {"item_id": item["id"], "output_index": index, "delta": item["arguments"]}
            made.append({"type": "response.function_call_arguments.delta", **piece})
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
        said = message.get("content") or message.get("refusal")
        require(said or open_calls, f"messages.{place}.content: must not be empty")
        for call in message.get("tool_calls", ()):
            require(len(call["id"]) <= 40, "string too long. Expected a string with maximum length 40")
            _check_call(f"messages.{place}.tool_calls", call["function"])
        require(len(set(open_calls)) == len(open_calls), f"messages.{place}.tool_calls: duplicate ids")
    choice = body.get("tool_choice")
    require("tools" in body or choice is None, "'tool_choice' is only allowed when 'tools' are specified.")
    require(not open_calls, f"tool_call_ids did not have response messages: {', '.join(open_calls)}")


def check_marked_chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Check a body for Claude behind a gateway: texts may be marked, as many as Anthropic takes.

    Rules: https://openrouter.ai/docs/features/prompt-caching, https://docs.litellm.ai/docs/completion/prompt_caching.
    """
    marked = 0
    plain: list[Mapping[str, Any]] = []
    for place, message in enumerate(body["messages"]):
        content = message.get("content")
        pieces = content if isinstance(content, list) else []
        marks = [piece for piece in pieces if "cache_control" in piece]
        legal = all(piece["type"] == "text" and piece["text"].strip() for piece in marks)
        require(legal, f"messages.{place}: cache_control cannot be set for empty text blocks")
        marked += len(marks)
        if message["role"] == "tool" and pieces:
            require(all(piece["type"] == "text" for piece in pieces), "images are not allowed in tool messages")
            message = {**message, "content": "".join(piece["text"] for piece in pieces)}
        plain.append(message)
    require(marked <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")
    check_chat({**body, "messages": plain}, headers)


def marked_chat_units(body: Mapping[str, Any]) -> list[Unit]:
    """Return the prompt as a gateway hands it to Anthropic: system texts, tools, then a block for each piece."""
    units = [Unit(rendered(tool)) for tool in body.get("tools", ())]
    for message in body["messages"]:
        content = message.get("content")
        pieces = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for piece in pieces:
            bare = {key: value for key, value in piece.items() if key != "cache_control"}
            units.append(Unit(rendered([message["role"], bare]), "cache_control" in piece))
        units += [Unit(rendered(call)) for call in message.get("tool_calls", ())]
    return units


def chat_units(body: Mapping[str, Any]) -> list[Unit]:
    return [Unit(rendered(piece)) for piece in (*body.get("tools", ()), *body["messages"])]


def chat_definition_tokens(body: Mapping[str, Any]) -> int:
    return sum(Unit(rendered(tool)).tokens for tool in body.get("tools", ()))


def chat_view(body: Mapping[str, Any]) -> View:
    shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())}
    said = (m["content"] for m in body["messages"] if m["role"] in ("user", "tool"))
    texts = [
        block["text"]
        for content in said
        for block in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        if block["type"] == "text"
    ]
    answered = sum(message["role"] == "assistant" for message in body["messages"])
    choice = body.get("tool_choice")
    return View(shown, texts, answered, choice == "none", openai_output(body), _demanded(choice))


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
        "total_tokens": usage["total"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["read"]},
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"]}
    return {**head, "choices": [choice], "usage": counted}


def chat_events(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    choice = answer["choices"][0]
    message = choice["message"]
    chunk = {"id": answer["id"], "object": "chat.completion.chunk", "model": answer["model"]}
    calls = [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(message.get("tool_calls", ()))]
    deltas = [{"role": "assistant", "content": ""}, {"content": message["content"] or ""}, *calls]
    made = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    made.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*made, {**chunk, "choices": [], "usage": answer["usage"]}]
