"""The content of spans, which is omitted unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT requests it.

Formats: gen-ai-input-messages.json and related schemas in semantic-conventions-genai, as JSON in a string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import (
    Audio,
    Document,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    nests_deeper,
)

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
MOST_OF_A_TEXT = 10_000
MOST_OF_ALL = 200_000
"""Maximum characters of content in a span, so that no receiver refuses it for its size; the newest messages are
included.
"""

DEEPEST = 50

_ON = frozenset({"true", "1", "span_only", "span_and_event"})


def is_captured(environ: Mapping[str, str]) -> bool:
    """Return whether the variable enables content in spans: `true`, `span_only` or `span_and_event`, in any case."""
    return environ.get(VARIABLE, "").strip().lower() in _ON


@dataclass(frozen=True, slots=True)
class SpanContent:
    """Writes content as attribute values; each text is redacted and then cut."""

    def messages(self, messages: Sequence[Message], finish_reason: str = "") -> str:
        """Return the newest messages that fit, as JSON. With a finish reason, they are the answer of the model."""
        written: list[str] = []
        length = 0
        for message in reversed(messages):
            document: dict[str, Any] = {
                "role": message.role,
                "parts": [*filter(None, map(self._part, message.parts))],
            }
            if finish_reason:
                document["finish_reason"] = finish_reason
            if not document["parts"] and not finish_reason:
                continue
            text = _json(document)
            length += len(text)
            if written and length > MOST_OF_ALL:
                break
            written.append(text)
        return f"[{', '.join(reversed(written))}]"

    def answer(self, answer: str) -> str:
        """Return the answer of a run as JSON."""
        return self.messages((Message("assistant", (Text(answer),)),), "stop")

    def system(self, system: str) -> str:
        """Return the system prompt as JSON."""
        return _json([{"type": "text", "content": self.text(system)}])

    def tools(self, tools: Sequence[ToolDefinition]) -> str:
        """Return the names and descriptions of the first offered tools that fit, as JSON."""
        shown: list[dict[str, str]] = []
        length = 0
        for tool in tools:
            shown.append(
                {
                    "type": "function",
                    "name": tool.name,
                    "description": self.text(tool.description),
                }
            )
            length += len(tool.name) + len(shown[-1]["description"])
            if length > MOST_OF_ALL:
                break
        return _json(shown)

    def arguments(self, arguments: Mapping[str, Any]) -> str:
        """Return the arguments of a call as JSON."""
        return _short(_json(self._data(arguments)))

    def result(self, result: ToolResult) -> str:
        """Return the result of a call as JSON."""
        return _json({"content": self.text(result.text)})

    def text(self, text: str) -> str:
        """Return the text with secrets replaced, and cut."""
        return _short(without_secrets(text))

    def _data(self, data: Any) -> Any:
        if nests_deeper(data, DEEPEST):
            return "(nests too deeply)"
        return with_texts(data, without_secrets)

    def _part(self, part: Part) -> dict[str, Any] | None:
        match part:
            case Text(text=text):
                return {"type": "text", "content": self.text(text)}
            case Thinking(text=text):
                if text:
                    return {"type": "reasoning", "content": self.text(text)}
                return None
            case ToolCall(id=call_id, name=name, arguments=arguments):
                written = self.arguments(arguments)
                if len(written) > MOST_OF_A_TEXT:
                    shown = written
                else:
                    shown = self._data(arguments)
                return {
                    "type": "tool_call",
                    "id": call_id,
                    "name": name,
                    "arguments": shown,
                }
            case ToolResult(call_id=call_id, text=text):
                return {
                    "type": "tool_call_response",
                    "id": call_id,
                    "response": self.text(text),
                }
            case (
                Image(media_type=media_type, data=data)
                | Document(media_type=media_type, data=data)
            ):
                return {
                    "type": part.type,
                    "mime_type": media_type,
                    "base64_length": len(data),
                }
            case Audio(media_type=media_type, data=data):
                return {
                    "type": part.type,
                    "mime_type": media_type,
                    "base64_length": len(data),
                }
            case _:
                return None


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    more = len(text) - MOST_OF_A_TEXT
    if more <= 0:
        return text
    return f"{text[:MOST_OF_A_TEXT]}… ({more:,} characters more)"
