"""Tool calls for models whose server supports no tools: described in the prompt, answered as JSON with a schema.

A request is converted to one without tools, and its answer back to a call; the stored history has ordinary calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mcpagent.models.base import ModelRequest, ModelResponse, OutputFormat
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.tool_changes_in_history import (
    Change,
    annotated,
    as_text,
    changes_in_words,
    plan_tools,
    redefinition_notes,
)
from mcpagent.models.wire_values import headed, json_text, object_schema, sendable_name
from mcpagent.utilities.text.secrets import SecretMapping
from mcpagent.values.events import Emit, Event, TextDelta
from mcpagent.values.messages import (
    Message,
    Part,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolsChanged,
)

_HOW = """You can call tools. Answer with one JSON object and nothing else, in one of these two forms:
{"tool": "<name>", "arguments": {...}} calls a tool; its result comes in the next message.
{"answer": "<text>"} is your answer to the user, when you need no tool or have what you need.

Tools:"""

_HOW_AS_DATA = """You can call tools. Answer with one JSON object and nothing else, in one of these two forms:
{"tool": "<name>", "arguments": {...}} calls a tool; its result comes in the next message.
{"answer": {...}} is your answer to the user, when you need no tool or have what you need: an object that fits this \
JSON Schema: SCHEMA

Tools:"""

_FORMAT = "call_or_answer"

_NO_TOOLS = (
    "does not support tools",
    "requires --enable-auto-tool-choice",
    "tools param requires --jinja",
    "no endpoints found that support tool use",
)
"""Errors of Ollama, vLLM, llama.cpp and OpenRouter if a model, or a server's configuration, accepts no tools."""


def takes_no_tools(message: str) -> bool:
    """Return whether an error's text reports that the server supports no tools."""
    return any(words in message.lower() for words in _NO_TOOLS)


def prompted_way(
    request: ModelRequest, emit: Emit, *, constrained: bool
) -> RequestVariant:
    """Return the request in the form of `prompted`. Of the JSON answer, only its text is emitted, once complete."""

    def listen(event: Event) -> None:
        if not isinstance(event, TextDelta):
            emit(event)

    def understand(response: ModelResponse) -> ModelResponse:
        read = read_prompted(response, request)
        if read.message.text and not read.message.tool_calls:
            emit(TextDelta(read.message.text))
        return read

    return RequestVariant(
        prompted(request, constrained=constrained), listen, understand
    )


def is_constrained(request: ModelRequest) -> bool:
    """Return whether the request, as written by `prompted`, has a schema for the answer."""
    match request.settings.extra.get("response_format"):
        case {"json_schema": {"name": name}}:
            return bool(name == _FORMAT)
        case _:
            return False


def prompted(request: ModelRequest, *, constrained: bool) -> ModelRequest:
    """Return the same request without tools; with `constrained`, it has a schema of the possible answers.

    Tools found later are described at their position in the history, so that earlier bytes do not change.
    """
    plan = plan_tools(request)
    system = "\n\n".join(
        part
        for part in (request.system, _described(plan.eager, request.output))
        if part.strip()
    )
    settings = request.settings
    if constrained and request.tool_choice == "auto":
        form = answer_format(request.tools, request.output)
        settings = replace(
            settings, extra=SecretMapping({"response_format": form, **settings.extra})
        )
    changes = changes_in_words(plan, request.messages)
    messages = tuple(
        _plain(message, changes.get(place, ()))
        for place, message in enumerate(request.messages)
    )
    bare = replace(request, tools=(), deferred_tools=(), output=None)
    return replace(bare, system=system, messages=messages, settings=settings)


def _described(tools: Sequence[ToolDefinition], output: OutputFormat | None) -> str:
    if output is None:
        how = _HOW
    else:
        how = _HOW_AS_DATA.replace("SCHEMA", json_text(output.schema))
    return "\n".join([how, *(as_text(tool) for tool in tools)])


def answer_format(
    tools: Sequence[ToolDefinition], output: OutputFormat | None = None
) -> dict[str, Any]:
    """Return the `response_format` for a call of one of these tools, or for an answer: text, or `output`'s format."""
    forms = [
        _form({"tool": {"const": tool.name}, "arguments": _arguments(tool)})
        for tool in tools
    ]
    words: dict[str, Any] = {"type": "string"}
    if output is not None:  # inside this format, references would point to another root
        if '"$ref"' in json_text(output.schema):
            words = {"type": "object"}
        else:
            words = output.schema
    schema = {"anyOf": [*forms, _form({"answer": words})]}
    return {"type": "json_schema", "json_schema": {"name": _FORMAT, "schema": schema}}


def _form(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _arguments(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool's schema; an object with any properties if the schema has references, which would point to
    another root.
    """
    schema = object_schema(tool.parameters)
    if '"$ref"' in json_text(schema):
        return {"type": "object"}
    return schema


def _plain(message: Message, changes: Sequence[Change]) -> Message:
    """Return a message as text: calls in the prompted form, results as the user's text."""
    if message.role == "assistant":
        said = (part for part in message.parts if not isinstance(part, ToolsChanged))
        return replace(
            message,
            parts=tuple(
                _as_words(part) if isinstance(part, ToolCall) else part for part in said
            ),
        )
    noted = annotated(
        message,
        changes,
        lambda change: [
            *(f"New tool: {as_text(tool)}" for tool in change.new),
            *redefinition_notes(change),
        ],
        inside=(),
    )
    listed: list[Part] = []
    for part in noted.parts:
        if isinstance(part, ToolResult):
            listed += headed(part, f"Result of {sendable_name(part.name)}:", "\n")
        elif not isinstance(
            part, ToolsChanged
        ):  # tool changes have already been converted to text
            listed.append(part)
    return Message("user", tuple(listed))


def _as_words(call: ToolCall) -> Text:
    return Text(json_text({"tool": call.name, "arguments": call.arguments}))


def read_prompted(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Convert a JSON answer to a call or text. An answer that is neither, or was cut off, stays unchanged."""
    message = response.message
    if response.stop != "end":
        return response
    try:
        said = json.loads(message.text)
    except (ValueError, RecursionError):
        return response
    others = tuple(part for part in message.parts if not isinstance(part, Text))
    match said:
        case {"answer": str(text), **rest} if not rest:
            return replace(
                response, message=replace(message, parts=(*others, Text(text)))
            )
        case {"answer": dict(data), **rest} if not rest and request.output is not None:
            return replace(
                response,
                message=replace(message, parts=(*others, Text(json_text(data)))),
            )
        case {"tool": str(name), "arguments": dict(arguments), **rest} if not rest:
            if request.tool_choice == "none" or not name.strip():
                return response  # calls of tools that are not offered are handled later, like any others
            call = ToolCall(f"call_{len(request.messages)}_0", name, arguments)
            return replace(
                response,
                message=replace(message, parts=(*others, call)),
                stop="tool_calls",
            )
        case _:
            return response
