"""What was said, for traces that may have it: off unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so.

Shapes: gen-ai-input-messages.json and its neighbours in semantic-conventions-genai, as JSON in a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolDefinition, ToolResult

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
MOST_OF_A_TEXT = 10_000
MOST_OF_ALL = 200_000
"""Characters kept, so that no receiver refuses a span for its size; of messages the newest stay."""

_ON = frozenset({"true", "1", "span_only", "span_and_event"})


def is_captured(environ: Mapping[str, str]) -> bool:
    """Whether spans may have content: `true`, `span_only` or `span_and_event`, in any case."""
    return environ.get(VARIABLE, "").strip().lower() in _ON


def messages_text(messages: Sequence[Message], finish_reason: str = "") -> str:
    """The messages, the newest of them if they are much; with a reason to stop they are what the model said."""
    written: list[str] = []
    length = 0
    for message in reversed(messages):
        document: dict[str, Any] = {"role": message.role, "parts": [*filter(None, map(_part, message.parts))]}
        if finish_reason:
            document["finish_reason"] = finish_reason
        if not document["parts"] and not finish_reason:
            continue
        text = json.dumps(document, ensure_ascii=False, default=str)
        length += len(text)
        if written and length > MOST_OF_ALL:
            break
        written.append(text)
    return f"[{', '.join(reversed(written))}]"


def system_text(system: str) -> str:
    """The system prompt."""
    return json.dumps([{"type": "text", "content": _short(system)}], ensure_ascii=False)


def tools_text(tools: Sequence[ToolDefinition]) -> str:
    """Names and descriptions of what is offered."""
    shown = [{"type": "function", "name": tool.name, "description": _short(tool.description)} for tool in tools]
    return json.dumps(shown, ensure_ascii=False)[:MOST_OF_ALL]


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """What a tool is called with."""
    return _short(json.dumps(arguments, ensure_ascii=False, default=str))


def result_text(result: ToolResult) -> str:
    """What a tool gave."""
    return json.dumps({"content": _short(result.text)}, ensure_ascii=False)


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "content": _short(text)}
        case Thinking(text=text):
            return {"type": "reasoning", "content": _short(text)} if text else None
        case ToolCall(id=call_id, name=name, arguments=arguments):
            shown = arguments if len(arguments_text(arguments)) < MOST_OF_A_TEXT else arguments_text(arguments)
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": shown}
        case ToolResult(call_id=call_id, text=text):
            return {"type": "tool_call_response", "id": call_id, "response": _short(text)}
        case Image(media_type=media_type, data=data):
            return {"type": "image", "mime_type": media_type, "base64_length": len(data)}
        case _:
            return None


def _short(text: str) -> str:
    more = len(text) - MOST_OF_A_TEXT
    return text if more <= 0 else f"{text[:MOST_OF_A_TEXT]}… ({more:,} characters more)"


def answer_text(answer: str) -> str:
    """What a run came to."""
    message = {"role": "assistant", "parts": [{"type": "text", "content": _short(answer)}], "finish_reason": "stop"}
    return json.dumps([message], ensure_ascii=False)
