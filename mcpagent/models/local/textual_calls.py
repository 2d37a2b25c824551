"""Read tool calls that a local model writes as text because its server does not parse them.

The known forms are those that model families are trained on (`textual_forms.py`). They are parsed strictly: the answer
must consist only of calls with complete arguments (text may precede them if the form has its own markers). Calls of
tools that are not offered are included. Anything else stays text: no call is guessed, completed, or run if it was cut
off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.local.textual_forms import (
    FORMS,
    Call,
    Schemas,
    calls_of,
    json_at,
    json_values,
    pythonic,
    strict_json,
    without_end_tokens,
)
from mcpagent.values.events import Emit, Event, TextDelta
from mcpagent.values.messages import Part, Text, ToolCall

_FENCE = "```"
_MARKS = tuple(dict.fromkeys(form.begins for form in FORMS if form.inside))
_AT_THE_START = tuple(dict.fromkeys(form.begins for form in FORMS))
_KEYS = ('"name"', '"type"', '"id"', '"arguments"', '"parameters"', '"function"')
_LONGEST_ANSWER = 200_000
_LONGEST_START = 300
_LONGEST_MARK = max(map(len, _MARKS))


def read_textual_calls(
    response: ModelResponse, request: ModelRequest, *, of_any_tool: bool = True
) -> ModelResponse:
    """Return the response with calls in place of its text, if the text consists of calls.

    `of_any_tool`: include calls of tools that are not offered. It is False for servers that parse calls themselves,
    where a text that looks like a call is more likely requested JSON.
    """
    message = response.message
    if message.tool_calls or response.stop != "end" or request.tool_choice == "none":
        return response
    words, calls = calls_in(
        message.text, {tool.name: tool.parameters for tool in request.tools}
    )
    if not calls and request.tools and of_any_tool:
        words, calls = _calls_elsewhere(message.text, request)
    if not calls:
        return response
    turn = len(request.messages)
    made: list[Part] = [part for part in message.parts if not isinstance(part, Text)]
    if words:
        made += [Text(words)]
    made += [
        ToolCall(f"call_{turn}_{place}", name, arguments)
        for place, (name, arguments) in enumerate(calls)
    ]
    return replace(
        response, message=replace(message, parts=tuple(made)), stop="tool_calls"
    )


_NAMED = re.compile(r'"name"\s*:\s*"([^"\n]{1,128})"|<function=([\w.-]{1,128})')


def unreadable_call(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """Return the response with its unreadable call as a malformed call, so that the model receives an error result."""
    text = response.message.text
    found = _NAMED.search(text[:_LONGEST_ANSWER])
    named = ""
    if found:
        named = found[1] or found[2]
    call = ToolCall(f"call_{len(request.messages)}_0", named, {}, malformed=text)
    others = tuple(
        part for part in response.message.parts if not isinstance(part, Text)
    )
    return replace(
        response,
        message=replace(response.message, parts=(*others, call)),
        stop="tool_calls",
    )


def _calls_elsewhere(text: str, request: ModelRequest) -> tuple[str, list[Call]]:
    """Return the text and the calls in it if they have an exact form and one of them is for a tool that is not
    offered.
    """
    words, calls = calls_in(
        text, _AnyTool({tool.name: tool.parameters for tool in request.tools})
    )
    are_schemas = any(
        "properties" in arguments and arguments.get("type") == "object"
        for _, arguments in calls
    )
    # a tool definition in the text looks like a call
    if are_schemas:
        return text, []
    return words, calls


class _AnyProperty(Mapping[str, Any]):
    """A mapping that has an unconstrained schema for any property."""

    def __getitem__(self, key: str) -> Any:
        return {}

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_ARGUMENTS: Mapping[str, Any] = {"properties": _AnyProperty()}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)


class _AnyTool(Mapping[str, Mapping[str, Any]]):
    """A mapping of tool names to parameter schemas that has an entry for every valid name.

    The schema for a tool that is not offered allows any arguments.
    """

    def __init__(self, offered: Schemas) -> None:
        self._offered = offered

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name not in self._offered and not _NAME.fullmatch(name):
            raise KeyError(name)
        return self._offered.get(name, _ANY_ARGUMENTS)

    def __iter__(self) -> Iterator[str]:
        return iter(self._offered)

    def __len__(self) -> int:
        return len(self._offered)


def textual_way(request: ModelRequest, emit: Emit) -> RequestVariant:
    """Return the request unchanged; text that may be a call is emitted only when it is certain that it is none."""
    held = HeldBackText(emit, [tool.name for tool in request.tools])

    def understand(response: ModelResponse) -> ModelResponse:
        if not response.message.tool_calls:
            held.show()
        return response

    return RequestVariant(request, held, understand)


def calls_in(text: str, tools: Schemas) -> tuple[str, list[Call]]:
    """Return the text before the calls, and the calls: name and arguments. There are no calls unless the text has an
    exact form.
    """
    text = without_end_tokens(text)
    if len(text) > _LONGEST_ANSWER:
        return text, []
    for form in FORMS:
        place = text.find(form.begins)
        if place < 0 or (place > 0 and not form.inside):
            continue
        if calls := form.read(text[place:], tools):
            return _words(text[:place]), calls
    return "", _whole(text, tools) or []


def _words(before: str) -> str:
    """Return the text before the calls; "" if it is reasoning that gpt-oss's server failed to remove."""
    if "<|channel|>analysis" in before:
        return ""
    return before.strip()


def _whole(text: str, tools: Schemas) -> list[Call] | None:
    """Read an answer that is only a JSON call, or a list of calls in JSON or Python, perhaps fenced. None for any other
    text.
    """
    if (
        text.startswith(_FENCE)
        and text.endswith(_FENCE)
        and len(text) > 2 * len(_FENCE)
    ):
        text = (
            text.removeprefix(_FENCE).removesuffix(_FENCE).removeprefix("json").strip()
        )
    if text.startswith("{{") and text.endswith("}}") and strict_json(text) is None:
        text = text[1:-1].strip()  # braces from a chat template around the JSON
    if not text.startswith(("{", "[")):
        return _applied(text, tools)
    value = strict_json(text)
    if value is not None:
        return calls_of(value, tools)
    return (
        _listed(text, tools)
        or _in_lines(text, tools)
        or calls_of(json_values(text), tools)
    )


_APPLIED = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.-]{0,127})\(\s*")
_CLOSED = re.compile(r"\s*\)\s*;?,?")


def _applied(text: str, tools: Schemas) -> list[Call] | None:
    """Read calls of offered tools such as `f({"a": 1})`, whose only argument is an object with all arguments; else
    None.
    """
    calls: list[Call] = []
    place = 0
    while place < len(text):
        named = _APPLIED.match(text, place)
        found = None
        if named is not None and named[1] in set(tools):
            found = json_at(text, named.end())
        closed = None
        if found is not None:
            closed = _CLOSED.match(text, found[1])
        if (
            named is None
            or found is None
            or closed is None
            or not isinstance(found[0], dict)
        ):
            return None
        calls.append((named[1], found[0]))
        place = closed.end()
        while place < len(text) and text[place].isspace():
            place += 1
    return calls or None


def _listed(text: str, tools: Schemas) -> list[Call] | None:
    """Return a list of calls in Python. Since it has no markers, only calls of offered tools count."""
    known = {name: tools[name] for name in tools}
    if text.startswith("["):
        return pythonic(text, known)
    return None


def _in_lines(text: str, tools: Schemas) -> list[Call] | None:
    """Read calls in JSON, one on each line; None for any other text."""
    lines = [line for line in text.splitlines() if line.strip()]
    return calls_of([strict_json(line) for line in lines], tools)


def may_be_all_call(start: str, names: Iterable[str] = ()) -> bool:
    """Return whether an answer that starts like this may still consist of calls alone; `names` are the offered
    tools.
    """
    start = start[:_LONGEST_START].lstrip()
    openings = [f"{name}(" for name in names]
    if start and any(
        opening.startswith(start) or start.startswith(opening) for opening in openings
    ):
        return True
    if any(mark.startswith(start) or start.startswith(mark) for mark in _AT_THE_START):
        return True
    if _FENCE.startswith(start) or f"{_FENCE}json".startswith(start.strip()):
        return True
    json_start = start.removeprefix(_FENCE).removeprefix("json").lstrip()
    in_list = json_start.removeprefix("[").lstrip()
    if not in_list:
        return True
    if in_list != json_start and (
        in_list[0].isalpha() or in_list[0] == "_"
    ):  # may become a list of calls in Python
        return in_list.partition("(")[0].isidentifier()
    key = in_list.removeprefix("{").lstrip().removeprefix("{").lstrip()
    return in_list.startswith("{") and any(
        known.startswith(key) or key.startswith(known) for known in _KEYS
    )


def mark_in(text: str) -> int:
    """Return the index at which the marker of a call begins, perhaps incomplete at the end; the text's length if no
    marker begins.
    """
    whole = [place for mark in _MARKS if (place := text.find(mark)) >= 0]
    if whole:
        return min(whole)
    ends = range(max(len(text) - _LONGEST_MARK, 0), len(text))
    return next(
        (
            place
            for place in ends
            if any(mark.startswith(text[place:]) for mark in _MARKS)
        ),
        len(text),
    )


class HeldBackText:
    """Buffers the text of an answer that may become a call, so that raw JSON and markers are not emitted."""

    def __init__(self, emit: Emit, names: Sequence[str] = ()) -> None:
        self._emit = emit
        self._names = names
        self._held = ""
        self._began = False

    def __call__(self, event: Event) -> None:
        if not isinstance(event, TextDelta):
            self._emit(event)
            return
        self._held += event.text
        if not self._began and may_be_all_call(self._held, self._names):
            return
        self._began = True
        # The buffer begins with a marker, or is too short to contain one, so this check is cheap.
        if not self._held.startswith(_MARKS):
            self._show(mark_in(self._held))

    def _show(self, end: int) -> None:
        shown, self._held = self._held[:end], self._held[end:]
        if shown:
            self._emit(TextDelta(shown))

    def show(self) -> None:
        """Emit the buffered text."""
        self._show(len(self._held))
