"""Tool calls that a local model writes as text, because its server does not read them out of its answer.

Recognised are the forms that model families are trained on. They are parsed strictly: the answer must be nothing but
calls (after words, where the form has marks of its own), of offered tools, with whole arguments. Anything else is
text and stays text; nothing is guessed, completed or run when it was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from mcpagent.events import Emit, Event, TextDelta
from mcpagent.messages import Part, Text, ToolCall
from mcpagent.models.base import ModelRequest, ModelResponse

_TAG, _END_TAG = "<tool_call>", "</tool_call>"
"""Hermes, Qwen and what is tuned after them: https://github.com/NousResearch/Hermes-Function-Calling."""

_MISTRAL = "[TOOL_CALLS]"
_LLAMA = "<|python_tag|>"
_FENCE = "```"
_MARKS = (_TAG, _MISTRAL, _LLAMA)
_KEYS = ('"name"', '"type"', '"id"', '"arguments"', '"parameters"')
_LONGEST_ANSWER = 200_000


def read_textual_calls(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """The response with calls in the place of the text that held them, where the text is exactly that."""
    message = response.message
    if message.tool_calls or response.stop != "end" or request.tool_choice == "none":
        return response
    names = {tool.name for tool in request.tools}
    words, calls = calls_in(message.text, names)
    if not calls:
        return response
    turn = len(request.messages)
    made: list[Part] = [part for part in message.parts if not isinstance(part, Text)]
    made += [Text(words)] if words else []
    made += [ToolCall(f"call_{turn}_{place}", name, arguments) for place, (name, arguments) in enumerate(calls)]
    return replace(response, message=replace(message, parts=tuple(made)), stop="tool_calls")


def calls_in(text: str, names: Collection[str]) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """The words before the calls, and the calls: name and arguments. No calls where anything is not exact."""
    text = text.strip()
    if len(text) > _LONGEST_ANSWER:
        return text, []
    if _TAG in text:
        words, *tagged = (piece.strip() for piece in text.split(_TAG))
        if not all(piece.endswith(_END_TAG) for piece in tagged):
            return text, []  # a call that was not closed, or words between or after the calls
        return words, _checked([_parsed(piece.removesuffix(_END_TAG)) for piece in tagged], names)
    for mark in _MARKS[1:]:
        if text.startswith(mark):
            return "", _checked(_flat(_parsed(text.removeprefix(mark).strip())), names)
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) > 2 * len(_FENCE):
        text = text.removeprefix(_FENCE).removesuffix(_FENCE).removeprefix("json").strip()
    return "", _checked(_flat(_parsed(text)), names) if text.startswith(("{", "[")) else []


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _checked(values: list[Any], names: Collection[str]) -> list[tuple[str, dict[str, Any]]]:
    """All of them as calls, or none."""
    calls = [_call(value, names) for value in values]
    return [call for call in calls if call is not None] if all(calls) else []


def _call(value: Any, names: Collection[str]) -> tuple[str, dict[str, Any]] | None:
    """`{"name": ..., "arguments": {...}}`, or `parameters` as Llama writes it, with nothing else beside."""
    if not isinstance(value, Mapping) or value.get("name") not in names:
        return None
    others = value.keys() - {"name", "type", "id"}
    arguments = value.get("arguments", value.get("parameters"))
    if len(others) != 1 or not isinstance(arguments, dict) or not others <= {"arguments", "parameters"}:
        return None
    return str(value["name"]), arguments


def may_become_call(start: str) -> bool:
    """Whether an answer that begins so may still turn out to be calls and nothing else."""
    start = start.lstrip()
    if any(mark.startswith(start) or start.startswith(mark) for mark in _MARKS):
        return True
    if _FENCE.startswith(start) or f"{_FENCE}json".startswith(start.strip()):
        return True
    json_start = start.removeprefix(_FENCE).removeprefix("json").lstrip().removeprefix("[").lstrip()
    if not json_start:
        return True
    key = json_start.removeprefix("{").lstrip()
    return json_start.startswith("{") and any(known.startswith(key) or key.startswith(known) for known in _KEYS)


class HeldText:
    """Keeps back the text of an answer that may turn out to be a call, so that nobody is shown raw JSON."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._held = ""
        self._open = True

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TextDelta) or not self._open:
            self._emit(event)
            return
        self._held += event.text
        if not may_become_call(self._held):
            self.show()

    def show(self) -> None:
        """Shows what was kept; from here on everything goes through."""
        held, self._held, self._open = self._held, "", False
        if held:
            self._emit(TextDelta(held))
