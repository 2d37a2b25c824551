"""A history and its tools as Chat Completions takes them.

Format: https://platform.openai.com/docs/api-reference/chat. A server's own additions go back to it as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagent.messages import (
    Image,
    Message,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)
from mcpagent.models.base import ModelRequest
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.discovery import (
    Change,
    ToolPlan,
    annotated,
    as_text,
    changes_in_words,
    plan_tools,
    redefinition_notes,
)
from mcpagent.models.gemini_schema import UNSIGNED, gemini_schema
from mcpagent.models.wire import (
    data_url,
    ids_on_the_wire,
    json_text,
    left_out,
    legal_name,
    marked_error,
    object_schema,
    shown_parts,
    usable_image,
    without,
)

CALL_TOOL = ToolDefinition(
    "call_tool",
    "Call a tool that was loaded in this conversation, by its name and with the arguments its definition asks for.",
    {
        "type": "object",
        "properties": {
            "tool_name": {"type": "string", "description": "The tool's exact name."},
            "arguments": {"type": "object", "description": "Its arguments, as its definition says."},
        },
        "required": ["tool_name", "arguments"],
    },
)

_LONGEST_ID = 40


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a server wants otherwise: how `parameters` are written, and the turns that another provider made."""

    parameters: Callable[[Mapping[str, Any]], dict[str, Any]] = object_schema
    foreign: Callable[[dict[str, Any]], dict[str, Any]] = lambda turn: turn


def _signed(turn: dict[str, Any]) -> dict[str, Any]:
    """Of a turn's calls Gemini signs the first, and wants that one signed."""
    calls = turn.get("tool_calls") or []
    return {**turn, "tool_calls": [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]]} if calls else turn


USUAL = Dialect()
GEMINI = Dialect(gemini_schema, _signed)


def request_body(
    request: ModelRequest,
    model_name: str,
    can: Capabilities = SAFE,
    *,
    provider: str,
    max_tokens_field: str = "max_completion_tokens",
    dialect: Dialect = USUAL,
) -> dict[str, Any]:
    """The body for one request. `tool_choice` "none" keeps the tools, and so the cached prefix."""
    settings = request.settings
    plan = plan_tools(request)
    proxied = can.discovery == "call_tool" and bool(plan.eager)
    tools = (*plan.eager, CALL_TOOL) if proxied else plan.all_tools
    system = [{"role": "system", "content": request.system}] if request.system.strip() else []
    body: dict[str, Any] = {"model": model_name}
    if tools:
        body["tools"] = [write_tool(tool, dialect) for tool in tools]
    written = write_messages(request.messages, plan, provider=provider, proxied=proxied, dialect=dialect)
    body["messages"] = [*system, *written]
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    if settings.max_output_tokens is not None:
        body[max_tokens_field] = settings.max_output_tokens
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    return {**body, "stream": True, "stream_options": {"include_usage": True}, **settings.extra}


def write_tool(tool: ToolDefinition, dialect: Dialect = USUAL) -> dict[str, Any]:
    parameters = dialect.parameters(tool.parameters)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def write_messages(
    messages: Sequence[Message], plan: ToolPlan, *, provider: str, proxied: bool, dialect: Dialect = USUAL
) -> list[dict[str, Any]]:
    """The history. Images of tool results follow in a user message: the format has no place for them in a result.

    With `proxied`, found tools are described in the result that found them and called through `call_tool`.
    """
    written: list[dict[str, Any]] = []
    ids = ids_on_the_wire(messages, provider, longest=_LONGEST_ID)
    notes_of = proxy_notes if proxied else redefinition_notes
    proxied_names = frozenset(plan.found) if proxied else frozenset()
    changes = changes_in_words(plan, messages)
    for position, message in enumerate(messages):
        if message.role == "assistant":
            said = _assistant_message(message, provider, proxied_names, ids)
            written += said if message.provider == provider else [dialect.foreign(turn) for turn in said]
            continue
        message = annotated(message, changes[position], notes_of)
        results = message.tool_results
        written += [_tool_message(result, ids) for result in results]
        pictures = [part for result in results for part in _result_images(result)]
        own = [part for part in message.parts if isinstance(part, Text | Image)]
        content = _content([*pictures, *own])
        if content:
            written.append({"role": "user", "content": _plain(content)})
    return written


def _tool_message(result: ToolResult, ids: Mapping[str, str]) -> dict[str, Any]:
    parts = shown_parts(result)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    images = sum(isinstance(part, Image) for part in parts)
    if images:
        text = f"{text}\n[{images} image(s) in the next message]".lstrip()
    call_id = ids[result.call_id]
    return {"role": "tool", "tool_call_id": call_id, "content": marked_error(result, text)}


def _result_images(result: ToolResult) -> list[Text | Image]:
    images = [part for part in shown_parts(result) if isinstance(part, Image)]
    return [Text(f"From the result of {result.name}:"), *images] if images else []


def _content(parts: Sequence[Text | Image]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text.strip():
                content.append({"type": "text", "text": part.text})
        elif usable_image(part):
            content.append({"type": "image_url", "image_url": {"url": data_url(part)}})
        else:
            content.append({"type": "text", "text": left_out(part)})
    return content


def _plain(content: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """One text is sent as a string, the form every server knows."""
    only_text = len(content) == 1 and content[0]["type"] == "text"
    return str(content[0]["text"]) if only_text else content


def proxy_notes(change: Change) -> list[str]:
    """What `call_tool` can call from here on."""
    new = [f"Call it as call_tool(tool_name, arguments): {as_text(tool)}" for tool in change.new]
    return [*new, *redefinition_notes(change)]


def _assistant_message(
    message: Message, provider: str, proxied: frozenset[str], ids: Mapping[str, str]
) -> list[dict[str, Any]]:
    ours = message.provider == provider
    texts = [part for part in message.parts if isinstance(part, Text)]
    refused = "".join(part.text for part in texts if _is_refusal(part, ours))
    sound = next((part.provider_data["audio"] for part in texts if ours and "audio" in part.provider_data), None)
    said = [part for part in texts if not _is_refusal(part, ours) and not (ours and "audio" in part.provider_data)]
    text = "".join(part.text for part in said)
    calls = [_write_call(call, ours, ids[call.id], proxied=call.name in proxied) for call in message.tool_calls]
    extra: dict[str, Any] = {}
    for part in message.parts:
        if isinstance(part, Thinking) and part.provider == provider:
            extra |= part.provider_data
        elif isinstance(part, ProviderBlock) and part.provider == provider:
            extra |= part.data
    pieces = next((part.provider_data["pieces"] for part in said if ours and "pieces" in part.provider_data), None)
    if not (text.strip() or calls or refused or pieces or sound):
        return []
    content = pieces or (text if text.strip() or (ours and text) else None)
    written: dict[str, Any] = {"role": "assistant", "content": content, **extra}
    if refused:
        written["refusal"] = refused
    if sound:
        written["audio"] = sound
    if calls:
        written["tool_calls"] = calls
    return [written]


def _is_refusal(part: Text, ours: bool) -> bool:
    return ours and part.provider_data.get("refusal") is True


def _write_call(call: ToolCall, ours: bool, call_id: str, *, proxied: bool) -> dict[str, Any]:
    """A malformed call goes back without arguments: servers parse them, and its result says what was wrong."""
    function = {"name": legal_name(call.name), "arguments": json_text(call.arguments)}
    if proxied:
        inner = {"tool_name": call.name, "arguments": call.arguments}
        function = {"name": CALL_TOOL.name, "arguments": json_text(inner)}
    written = {"id": call_id, "type": "function", "function": function}
    if not ours or call.malformed:
        return written
    sent = call.provider_data
    return {**written, **without(sent, ("function",)), "function": {**function, **sent.get("function", {})}}
