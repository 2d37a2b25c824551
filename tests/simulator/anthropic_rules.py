"""Anthropic's Messages API: its refusals, what the model sees, and its answers.

Rules and error texts as the vendor documents them and as recordings show them; placement rules of tool changes too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

from tests.simulator.output_rules import anthropic_output
from tests.simulator.values import (
    CITED,
    PAGE,
    PROVIDER_RUN,
    PROVIDER_SEARCH,
    THEIRS,
    Said,
    Unit,
    View,
    matching,
    rendered,
    require,
)

CHANGE_BETAS = {"mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15"}
BOUND_MODELS = ("claude-fable-5-1", "claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5")
"""Models that refuse a replayed thought whose prefix is another."""

OLD_MODELS = ("claude-3", "claude-opus-4-0", "claude-opus-4-1", "claude-sonnet-4-0", "claude-sonnet-4-2")
"""Models that search no tools."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PARAMETER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def in_blocks(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with each content as blocks: a text alone is short for one block of text."""
    messages = [{**turn, "content": _blocks(turn["content"])} for turn in body["messages"]]
    for turn in messages:
        turn["content"] = [
            {**block, "content": _blocks(block["content"])} if block["type"] == "tool_result" else block
            for block in turn["content"]
        ]
    if "system" in body:
        return {**body, "messages": messages, "system": _blocks(body["system"])}
    return {**body, "messages": messages}


def _blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content


def check(body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Raises `Refusal` where the real API answers 400."""
    tools = {_name(tool): tool for tool in body.get("tools", ())}
    require(body.get("max_tokens"), "max_tokens: Field required")
    _check_tools(body, tools)
    _check_breakpoints(body)
    _check_server_tools(body, tools, headers)
    messages = body["messages"]
    require(messages and messages[0]["role"] == "user", 'messages: first message must use the "user" role')
    betas = set(headers.get("anthropic-beta", "").split(","))
    waiting: set[str] = set()
    _check_open_calls(messages)
    for place, turn in enumerate(messages):
        require(turn["content"], f"messages.{place}: all messages must have non-empty content")
        after = messages[place + 1] if place + 1 < len(messages) else None
        match turn["role"]:
            case "system":
                _check_change(place, turn, messages, tools, betas)
            case "assistant":
                _check_assistant(place, turn, after, tools, waiting)
                waiting = _open_calls(turn)
            case _:
                before = messages[place - 1] if place else {"role": "", "content": []}
                _check_user(place, turn, before, tools)
    called = [block["id"] for turn in messages for block in turn["content"] if block["type"] == "tool_use"]
    require(len(set(called)) == len(called), "messages: `tool_use` ids must be unique")
    _check_binding(body)
    anthropic_output(body)
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
    require(not (forced and thinks), "Thinking may not be enabled when tool_choice forces tool use.")


def _check_tools(body: Mapping[str, Any], tools: Mapping[str, Any]) -> None:
    model = body["model"]
    able = not model.startswith(OLD_MODELS)
    require(len(tools) == len(body.get("tools", ())), "tools: Tool names must be unique.")
    for name, tool in tools.items():
        require(_NAME.fullmatch(name.removeprefix("mcp:")), f"tools.{name}: String should match pattern")
        if tool.get("type", "custom") != "custom":
            continue
        schema = tool.get("input_schema", {})
        require(schema.get("type") == "object", f"tools.{name}.input_schema.type: Field required")
        top = {"oneOf", "allOf", "anyOf"} & schema.keys()
        require(not top, "input_schema does not support oneOf, allOf, or anyOf at the top level")
        names = schema.get("properties", {})
        legal = all(_PARAMETER.fullmatch(parameter) for parameter in names)
        require(legal, f"tools.{name}.input_schema.properties: Property keys should match pattern")
        deferred = tool.get("defer_loading")
        require(not (deferred and "cache_control" in tool), "Tools with defer_loading cannot use prompt caching")
    searching = any(tool.get("type", "").startswith("tool_search") for tool in tools.values())
    require(not searching or able, f"'{model}' does not support tool search")
    deferred_count = sum(bool(tool.get("defer_loading")) for tool in tools.values())
    require(
        not tools or deferred_count < len(tools),
        "At least one tool must have defer_loading=false. All tools cannot be deferred.",
    )
    require(deferred_count <= 10_000, "Too many deferred tools", "available_tools_limit_exceeded")


def _name(tool: Mapping[str, Any]) -> str:
    return str(tool.get("name") or f"mcp:{tool['mcp_server_name']}")


FILTERED_FROM = ("-4-6", "-4-7", "-4-8", "-5")
"""Versions of models that take the tools whose results are filtered by code."""


def _check_server_tools(body: Mapping[str, Any], tools: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    model = body["model"]
    for tool in tools.values():
        kind = str(tool.get("type", ""))
        newest = kind.startswith(("web_search_2026", "web_fetch_2026"))
        able = any(version in model for version in FILTERED_FROM) and "haiku-4" not in model
        require(able or not newest, f"'{model}' does not support tool types: {kind}")
        require(not (tool.get("allowed_domains") and tool.get("blocked_domains")), "only one of the domains")
    servers = {server["name"] for server in body.get("mcp_servers", ())}
    wanted = {tool["mcp_server_name"] for tool in tools.values() if tool.get("type") == "mcp_toolset"}
    require(servers == wanted, "Every MCP server must be referenced by exactly one MCP toolset")
    betas = headers.get("anthropic-beta", "")
    require(not servers or "mcp-client-" in betas, "mcp_servers: Extra inputs are not permitted")
    choice = body.get("tool_choice", {})
    require(choice.get("type") != "tool" or choice["name"] in tools, f"Tool '{choice.get('name')}' not found")
    container = body.get("container")
    require(container is None or container.startswith("container_"), "container: not found")


def _check_breakpoints(body: Mapping[str, Any]) -> None:
    blocks = [*body.get("tools", ()), *body.get("system", ()), *(b for m in body["messages"] for b in m["content"])]
    marked = sum("cache_control" in block for block in blocks) + ("cache_control" in body)
    require(marked <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")


def _check_change(
    place: int, turn: Mapping[str, Any], messages: Sequence[Any], tools: Mapping[str, Any], betas: set[str]
) -> None:
    require(betas & CHANGE_BETAS, f"messages.{place}.role: Input should be 'user' or 'assistant'")
    require(messages[place - 1]["role"] == "user", f"messages.{place}: tool changes must follow a user turn")
    following = messages[place + 1]["role"] if place + 1 < len(messages) else "assistant"
    require(following == "assistant", f"messages.{place}: tool changes must precede an assistant message or be last")
    for block in turn["content"]:
        tool = block["tool"]
        if tool["type"] == "tool_definition":
            require("inline-tools-2026-09-15" in betas, "tool_definition needs inline-tools-2026-09-15")
        else:
            known = tool["name"] in tools
            require(known, f"Tool reference '{tool['name']}' not found", "tool_reference_unresolved")


def _open_calls(turn: Mapping[str, Any]) -> set[str]:
    """Calls that Anthropic has to run yet, which it does when calls beside them are answered."""
    blocks = turn["content"]
    asked = {block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")}
    return asked - {block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")}


def _check_open_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    answers = [turn for turn in messages if turn["role"] == "assistant"]
    for turn, following in zip(answers, [*answers[1:], None], strict=False):
        lost = _open_calls(turn)
        if following is None and any(block["type"] == "tool_use" for block in turn["content"]):
            lost = set()
        for block in following["content"] if following is not None else ():
            lost.discard(block.get("tool_use_id", ""))
        require(not lost, f"messages: tool use with id {sorted(lost)} was found without a corresponding result block")


def _check_assistant(
    place: int,
    turn: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    tools: Mapping[str, Any],
    waiting: Collection[str],
) -> None:
    calls = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    last = turn["content"][-1]["type"]
    ended = last not in ("thinking", "redacted_thinking")
    require(ended, f"messages.{place}: The final block in an assistant message cannot be `thinking`.")
    require(last != "server_tool_use", f"messages.{place}: `server_tool_use` ids were found without a result block")
    ran: set[str] = set(waiting)
    for block in turn["content"]:
        _check_text(place, block)
        if block["type"] in ("server_tool_use", "mcp_tool_use"):
            ran.add(block["id"])
        elif block["type"].endswith("_tool_result"):
            require(block["tool_use_id"] in ran, f"messages.{place}: a result without its `server_tool_use`")
        if block["type"] == "tool_search_tool_result":
            searching = any(tool.get("type", "").startswith("tool_search") for tool in tools.values())
            require(searching, "tool_search_tool_result: needs a tool search tool")
            lost = [name for name in _named(block) if name not in tools]
            require(not lost, f"Tool reference '{''.join(lost[:1])}' not found in available tools")
    require(all(_CALL_ID.fullmatch(call) for call in calls), f"messages.{place}: tool_use.id: invalid")
    for block in turn["content"]:
        if block["type"] == "tool_use":
            require(_NAME.fullmatch(block["name"]), f"messages.{place}: tool_use.name: should match {_NAME.pattern}")
            require(isinstance(block["input"], dict), f"messages.{place}: tool_use.input: should be a dictionary")
    require(len(set(calls)) == len(calls), "messages: `tool_use` ids must be unique")
    answered = [block.get("tool_use_id") for block in after["content"]] if after else []
    missing = [call for call in calls if call not in answered]
    require(
        not missing,
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}",
    )


def _check_user(place: int, turn: Mapping[str, Any], before: Mapping[str, Any], tools: Mapping[str, Any]) -> None:
    asked = {block["id"] for block in before["content"] if block["type"] == "tool_use"}
    kinds = [block["type"] == "tool_result" for block in turn["content"]]
    require(kinds == sorted(kinds, reverse=True), f"messages.{place}: tool_result blocks must come first")
    for block in turn["content"]:
        _check_text(place, block)
        if block["type"] != "tool_result":
            continue
        call_id = block["tool_use_id"]
        require(not call_id.startswith("srvtoolu_"), "tool_result for a server tool")
        require(call_id in asked, f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}")
        require(block["content"], f"messages.{place}: tool_result content must not be empty")
        for piece in block["content"]:
            _check_text(place, piece)
            if piece["type"] == "tool_reference":
                name = piece["tool_name"]
                require(name in tools, f"Tool reference '{name}' not found in available tools")


def _check_text(place: int, block: Mapping[str, Any]) -> None:
    if block["type"] == "text":
        require(block["text"].strip(), f"messages.{place}: text content blocks must contain non-whitespace text")


def units(body: Mapping[str, Any]) -> list[Unit]:
    """The prompt as the model reads it: eager tools, system, history with definitions where they are referred to."""
    tools = {_name(tool): tool for tool in body.get("tools", ())}
    eager = (tool for tool in tools.values() if not tool.get("defer_loading"))
    made = [_unit(tool) for tool in eager] + [_unit(block) for block in body.get("system", ())]
    for turn in body["messages"]:
        for block in turn["content"]:
            made.append(_unit({"role": turn["role"], **block}))
            made += [Unit(rendered(without_marks(tools[name]))) for name in _named(block)]
    if "cache_control" in body:
        made[-1] = Unit(made[-1].text, breakpoint=True)
    return made


def definition_tokens(body: Mapping[str, Any]) -> int:
    """Tokens of tool definitions the model reads, wherever they stand."""
    tools = {_name(tool): tool for tool in body.get("tools", ())}
    blocks = [block for turn in body["messages"] for block in turn["content"]]
    read = [tool for tool in tools.values() if not tool.get("defer_loading")]
    read += [tools[name] for block in blocks for name in _named(block)]
    return sum(Unit(rendered(without_marks(tool))).tokens for tool in read)


def _unit(block: Mapping[str, Any]) -> Unit:
    return Unit(rendered(without_marks(block)), "cache_control" in block)


def without_marks(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in ("cache_control", "defer_loading")}


def _named(block: Mapping[str, Any]) -> list[str]:
    """Tools whose definition is read at this block."""
    if block["type"] == "tool_result":
        return [piece["tool_name"] for piece in block["content"] if piece["type"] == "tool_reference"]
    if block["type"] == "tool_addition" and block["tool"]["type"] == "tool_reference":
        return [block["tool"]["name"]]
    if block["type"] == "tool_search_tool_result":
        return [reference["tool_name"] for reference in block["content"].get("tool_references", ())]
    return []


def view(body: Mapping[str, Any]) -> View:
    """What the model sees: eager tools, those referred to or defined since, without those withdrawn."""
    tools = {_name(tool): tool for tool in body.get("tools", ())}
    eager = {name: tool for name, tool in tools.items() if not tool.get("defer_loading")}
    shown = {name: tool.get("input_schema", {}) for name, tool in eager.items()}
    texts: list[str] = []
    for turn in body["messages"]:
        for block in turn["content"]:
            shown |= {name: tools[name]["input_schema"] for name in _named(block)}
            if block["type"] == "tool_removal":
                shown.pop(block["tool"]["name"], None)
            elif block["type"] == "tool_addition" and block["tool"]["type"] == "tool_definition":
                definition = block["tool"]["definition"]
                shown[definition["name"]] = definition["input_schema"]
            inner = block["content"] if block["type"] == "tool_result" else [block]
            texts += [piece["text"] for piece in inner if piece["type"] == "text"] if turn["role"] == "user" else []
    answered = sum(turn["role"] == "assistant" for turn in body["messages"])
    choice = body.get("tool_choice", {})
    must_call = {"any": "any", "tool": choice.get("name", "")}.get(choice.get("type"), "")
    return View(shown, texts, answered, choice.get("type") == "none", anthropic_output(body), must_call)


def _signature(body: Mapping[str, Any], place: int) -> str:
    """A thinking block's signature: it is bound to all that stands before its message."""
    before = {**body, "messages": body["messages"][:place]}
    before.pop("cache_control", None)
    return sha256("\n".join(unit.text for unit in units(before)).encode("utf-8", "replace")).hexdigest()


def _check_binding(body: Mapping[str, Any]) -> None:
    if not body["model"].startswith(BOUND_MODELS):
        return
    for place, turn in enumerate(body["messages"]):
        for number, block in enumerate(turn["content"]):
            if block["type"] == "thinking":
                require(
                    block["signature"] == _signature(body, place),
                    f"messages.{place}.content.{number}: Invalid `signature` in `thinking` block. "
                    "The block is bound to a different conversation.",
                )


def answer(body: Mapping[str, Any], said: Sequence[Said], number: int, usage: Mapping[str, int]) -> dict[str, Any]:
    """The brain's words as an answer; it begins with a thought that is bound to the prefix."""
    signature = _signature(body, len(body["messages"]))
    content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Hm.", "signature": signature}]
    for place, piece in enumerate(said):
        if isinstance(piece, str):
            content.append({"type": "text", "text": piece})
        elif piece[0] == PROVIDER_RUN:
            content += _ran(piece[1], f"srvtoolu_{number}_{place}")
        elif piece[0] == CITED:
            cited = {"type": "web_search_result_location", **PAGE, "cited_text": "It rains.", "encrypted_index": "e"}
            content.append({"type": "text", "text": piece[1]["text"], "citations": [cited]})
        elif piece[0] == PROVIDER_SEARCH:
            content += _search(body, piece[1], f"srvtoolu_{number}_{place}")
        else:
            call_id = f"toolu_{number}_{place}"
            caller = {"type": "direct"}
            content.append(
                {"type": "tool_use", "id": call_id, "name": piece[0], "input": dict(piece[1]), "caller": caller}
            )
    called = any(not isinstance(piece, str) and piece[0] not in THEIRS for piece in said)
    searches = sum(block.get("name") == "web_search" for block in content)
    counted = {**usage, "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0}}
    coded = any(block["type"] == "bash_code_execution_tool_result" for block in content)
    container = {"id": body.get("container") or f"container_{number}", "expires_at": "2099-01-01T00:00:00Z"}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if called else "end_turn",
        "stop_sequence": None,
        "usage": counted,
        **({"container": container} if coded else {}),
    }


def _ran(asked: Mapping[str, Any], call_id: str) -> list[dict[str, Any]]:
    """A call of a tool that Anthropic runs, and its result; an input with "#broken" fails inside the good answer."""
    tool, given = asked["tool"], asked["input"]
    call: dict[str, Any] = {"type": "server_tool_use", "id": call_id, "name": tool, "input": given}
    answered: dict[str, Any] = {"tool_use_id": call_id}
    if tool.startswith("mcp:"):
        call |= {"type": "mcp_tool_use", "name": "list", "server_name": tool[4:]}
        content: Any = [{"type": "text", "text": "two issues"}]
        return [call, {**answered, "type": "mcp_tool_result", "is_error": False, "content": content}]
    kind = {"code_execution": "bash_code_execution"}.get(tool, tool)
    call["name"] = kind
    match tool:
        case _ if "#broken" in str(given):
            content = {"type": f"{kind}_tool_result_error", "error_code": "too_many_requests"}
        case "web_search":
            content = [{"type": "web_search_result", **PAGE, "encrypted_content": "e", "page_age": None}]
        case "web_fetch":
            source = {"type": "text", "media_type": "text/plain", "data": "It rains."}
            page = {"type": "document", "source": source, "title": PAGE["title"]}
            content = {"type": "web_fetch_result", "url": PAGE["url"], "content": page, "retrieved_at": None}
        case _:
            done = {"stdout": "42\n", "stderr": "", "return_code": 0, "content": []}
            content = {"type": "bash_code_execution_result", **done}
    return [call, {**answered, "type": f"{kind}_tool_result", "content": content}]


def _search(body: Mapping[str, Any], arguments: Mapping[str, Any], search_id: str) -> list[dict[str, Any]]:
    """A search on the provider's side and its result; "#broken" fails inside the good answer."""
    [tool] = [tool for tool in body["tools"] if tool.get("type", "").startswith("tool_search_tool")]
    deferred = {tool["name"]: tool for tool in body["tools"] if tool.get("defer_loading")}
    names = matching(deferred, arguments["query"])
    found: dict[str, Any] = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": name} for name in names],
    }
    if arguments["query"] == "#broken":
        found = {"type": "tool_search_tool_result_error", "error_code": "unavailable", "error_message": "try later"}
    call = {"type": "server_tool_use", "id": search_id, "name": tool["name"], "input": dict(arguments)}
    return [call, {"type": "tool_search_tool_result", "tool_use_id": search_id, "content": found}]


def events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The answer as the API streams it."""
    made: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
    for index, block in enumerate(message["content"]):
        start, deltas = _streamed(block)
        made.append({"type": "content_block_start", "index": index, "content_block": start})
        made += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        made.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None, "container": message.get("container")}
    return [*made, {"type": "message_delta", "delta": delta, "usage": message["usage"]}, {"type": "message_stop"}]


def _streamed(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            start = {"type": "text", "text": "", **({"citations": []} if cited else {})}
            return start, [*cited, {"type": "text_delta", "text": block["text"]}]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            return {**block, "thinking": "", "signature": ""}, [
                thought,
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case kind if kind.endswith("_tool_result"):
            return dict(block), []
        case _:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
