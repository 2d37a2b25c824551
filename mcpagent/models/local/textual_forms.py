"""The forms in which model families write tool calls, from their chat templates and model cards.

Each form is parsed strictly: either every character from the first marker on is part of it, or it does not match.
Values are JSON if the form uses JSON. If it uses plain text, the tool's schema defines the type.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Schemas: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The offered tools: name -> schema of the parameters."""

Call: TypeAlias = tuple[str, dict[str, Any]]
Calls: TypeAlias = list[Call] | None
"""The calls that a whole text consists of; None if any part of it is not a call."""
ReadCalls: TypeAlias = Callable[[str, Schemas], Calls]

_NAME = r"(?P<name>[A-Za-z0-9_.-]{1,128})"
_LONGEST_PYTHON = 20_000

_END_TOKENS = (
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|stop|>",
    "</s>",
    "<end_of_turn>",
)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one model family, which begins with the marker `begins`.

    `read` gets the text from the marker on, and returns all calls, or None if the text does not have this form.
    `inside`: text may precede the marker.
    """

    begins: str
    read: ReadCalls
    inside: bool = True


def strict_json(text: str) -> Any:
    """Return the value of a JSON text; None if it is invalid, or ambiguous because of duplicate keys or NaN."""
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse)


def json_at(text: str, place: int) -> tuple[Any, int] | None:
    """Return the JSON value at this index, and its end, or None."""
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None


def json_values(text: str) -> list[Any]:
    """Return the JSON values that a text consists of, on separate lines or separated by commas; [] for any other
    text.
    """
    values: list[Any] = []
    place = 0
    while place < len(text):
        between = _GAP.match(text, place)
        if between is not None:
            start = between.end()
        else:
            start = place
        if start == len(text):
            break
        found = json_at(text, start)
        if found is None or (values and not set(text[place:start]) & {"\n", ","}):
            return []
        values.append(found[0])
        place = found[1]
    return values


_GAP = re.compile(r"[\s,]+")


def call_of(value: Any, tools: Schemas) -> Call | None:
    """Read `{"name": ..., "arguments": {...}}`, or `parameters` as in Llama's form, without other keys; else None."""
    match value:
        case {"type": "function", "function": dict(inner), **rest} if (
            not rest.keys() - {"id"}
        ):
            value = inner
    if (
        not isinstance(value, Mapping)
        or not isinstance(value.get("name"), str)
        or value["name"] not in tools
    ):
        return None
    others = value.keys() - {"name", "type", "id"}
    arguments = value.get("arguments", value.get("parameters"))
    if (
        len(others) != 1
        or not isinstance(arguments, dict)
        or not others <= {"arguments", "parameters"}
    ):
        return None
    return str(value["name"]), arguments


def calls_of(value: Any, tools: Schemas) -> Calls:
    """Read one call or a list of calls from JSON; None if the data is anything else."""
    return _all(
        [call_of(one, tools) for one in (value if isinstance(value, list) else [value])]
    )


def _all(calls: list[Call | None]) -> Calls:
    whole = [call for call in calls if call is not None]
    if whole and len(whole) == len(calls):
        return whole
    return None


def _every(
    pattern: re.Pattern[str], text: str, read: Callable[[re.Match[str]], Calls]
) -> Calls:
    """Return the calls in a text that consists only of matches of the pattern; `read` returns the calls in one
    match.
    """
    place, calls = 0, list[Call]()
    while place < len(text):
        one = pattern.match(text, place)
        found = None
        if one:
            found = read(one)
        if one is None or not found:
            return None
        calls += found
        place = one.end()
    return calls or None


def _after(text: str, mark: str, end: str = "") -> str:
    """Return the text between the markers; the whole text, which is not valid JSON, if the end marker is missing."""
    inside = text.removeprefix(mark).strip()
    if not end or inside.endswith(end):
        return inside.removesuffix(end).strip()
    return text


def _json_after(mark: str, end: str = "", *, needs_end: bool = True) -> ReadCalls:
    def read(text: str, tools: Schemas) -> Calls:
        inside = text.removeprefix(mark).strip()
        if end and (needs_end or inside.endswith(end)):
            inside = _after(text, mark, end)
        value = strict_json(inside)
        if value is not None:
            return calls_of(value, tools)
        return None

    return read


def _headed(
    head: str, tail: str = "", *, begins: str = "", ends: str = ""
) -> ReadCalls:
    """Return a reader of calls with the tool's name in a `head` and its arguments as JSON, each followed by `tail`."""
    opening, closing = re.compile(head), re.compile(tail)

    def read(text: str, tools: Schemas) -> Calls:
        rest = text.removeprefix(begins).strip()
        if ends and not rest.endswith(ends):
            return None
        if ends:
            rest = rest.removesuffix(ends).strip()
        place, calls = 0, list[Call | None]()
        while place < len(rest):
            named = opening.match(rest, place)
            found = None
            if named:
                found = json_at(rest, named.end())
            closed = None
            if found:
                closed = closing.match(rest, found[1])
            if named is None or found is None or closed is None:
                return None
            is_call = named["name"] in tools and isinstance(found[0], dict)
            calls.append((named["name"], found[0]) if is_call else None)
            place = closed.end()
        return _all(calls)

    return read


_TAGS = re.compile(r"<tool_call>(.*?)</tool_call>\s*+", re.DOTALL)


def _tagged(text: str, tools: Schemas) -> Calls:
    """Read `<tool_call>` around JSON (Hermes, Qwen), around `<function=...>` (Qwen Coder), or around keys and values
    (GLM).

    Granite writes only the opening tag, before a list.
    """
    if "</tool_call>" not in text:
        value = strict_json(text.removeprefix("<tool_call>"))
        if isinstance(value, list):
            return calls_of(value, tools)
        return None
    return _every(_TAGS, text, lambda one: _inside_tag(one[1].strip(), tools))


def _inside_tag(inside: str, tools: Schemas) -> Calls:
    if inside.startswith("{"):
        return _all([call_of(strict_json(inside), tools)])
    if inside.startswith("<function="):
        return _xml(inside, tools)
    return _glm(inside, tools)


_XML = re.compile(
    rf"<function={_NAME}>(?P<inside>.*?)</function>\s*+(?:</tool_call>\s*+)?", re.DOTALL
)
_XML_PARAMETER = re.compile(
    r"<parameter=(?P<key>[^<>\n]{1,200})>(?P<value>.*?)</parameter>\s*+", re.DOTALL
)


def _xml(text: str, tools: Schemas) -> Calls:
    """Read `<function=name><parameter=key>value</parameter></function>`, as written by Qwen Coder and others."""
    return _every(
        _XML,
        text,
        lambda one: _typed_call(
            one["name"], one["inside"].strip(), _XML_PARAMETER, tools
        ),
    )


_GLM_NAME = re.compile(rf"{_NAME}\s*+")
_GLM_PARAMETER = re.compile(
    r"<arg_key>(?P<key>[^<>]{1,200})</arg_key>\s*+<arg_value>(?P<value>.*?)</arg_value>\s*+",
    re.DOTALL,
)


def _glm(text: str, tools: Schemas) -> Calls:
    name = _GLM_NAME.match(text)
    if name:
        return _typed_call(name["name"], text[name.end() :], _GLM_PARAMETER, tools)
    return None


def _typed_call(
    name: str, text: str, parameter: re.Pattern[str], tools: Schemas
) -> Calls:
    """Read a call whose values are plain text, converted by the schema; None if a key is unknown or appears twice."""
    if name not in tools:
        return None
    properties = tools[name].get("properties")
    place, arguments = 0, dict[str, Any]()
    while place < len(text):
        one = parameter.match(text, place)
        schema = None
        if one and isinstance(properties, Mapping):
            schema = properties.get(one["key"].strip())
        if one is None or schema is None or one["key"].strip() in arguments:
            return None
        value = _typed(one["value"], schema)
        if value is _NOTHING:
            return None
        arguments[one["key"].strip()] = value
        place = one.end()
    return [(name, arguments)]


_NOTHING = object()


def _typed(text: str, schema: Any) -> Any:
    """Return the value of a plain text: the text itself for a string, parsed JSON for all other types."""
    kinds = None
    if isinstance(schema, Mapping):
        kinds = schema.get("type")
    text = text.removeprefix("\n").removesuffix("\n")
    if kinds == "string":
        return text
    value = strict_json(text)
    if value is None and text.strip() != "null":
        if kinds is None or (isinstance(kinds, list) and "string" in kinds):
            return text
        return _NOTHING
    return value


_DSML_CALL = re.compile(
    r'\s*+<｜DSML｜invoke name="(?P<name>[A-Za-z0-9_.-]{1,128})">(?P<inside>.*?)</｜DSML｜invoke>\s*+',
    re.DOTALL,
)
_DSML_PARAMETER = re.compile(
    r'<｜DSML｜parameter name="(?P<key>[^"<>]{1,200})"(?: string="(?P<string>true|false)")?>'
    r"(?P<value>.*?)</｜DSML｜parameter>\s*+",
    re.DOTALL,
)


def _dsml(text: str, tools: Schemas) -> Calls:
    """Read the form that DeepSeek uses since version 3.2."""
    begins, ends = "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"
    if not text.rstrip().endswith(ends):
        return None
    inside = text.removeprefix(begins).rstrip().removesuffix(ends)
    return _every(
        _DSML_CALL,
        inside,
        lambda one: _typed_call(
            one["name"], one["inside"].strip(), _DSML_PARAMETER, tools
        ),
    )


def _python_fence(text: str, tools: Schemas) -> Calls:
    """Read Gemma's fenced `tool_code`: Python calls with literal keyword arguments, one on each line."""
    inside = _after(text, "```tool_code", "```")
    if inside is not text:
        return pythonic(inside, tools)
    return None


def pythonic(text: str, tools: Schemas) -> Calls:
    """Read `get_weather(place="Rome")`, or a list of such calls (Llama 3.2 and 4). The text is parsed, never
    evaluated.
    """
    if len(text) > _LONGEST_PYTHON:
        return None
    try:
        body = ast.parse(text.strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines = [line.value for line in body if isinstance(line, ast.Expr)]
    if len(lines) != len(body):
        return None
    if len(lines) == 1 and isinstance(lines[0], ast.List):
        lines = lines[0].elts
    return _all([_python_call(line, tools) for line in lines])


def _python_call(line: ast.expr, tools: Schemas) -> Call | None:
    match line:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords) if (
            name in tools
        ):
            try:
                arguments = {
                    keyword.arg: ast.literal_eval(keyword.value) for keyword in keywords
                }
                whole = json.loads(json.dumps(arguments, allow_nan=False))
            except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
                return None
            if None not in arguments:
                return name, whole
            return None
        case _:
            return None


_BETWEEN = re.compile(r"\s*+(?:;\s*+(?=\S)|$)")


def _llama(text: str, tools: Schemas) -> Calls:
    """Read one or several JSON calls separated by semicolons."""
    rest = text.removeprefix("<|python_tag|>").strip()
    place, calls = 0, list[Call | None]()
    while place < len(rest):
        found = json_at(rest, place)
        if found is None:
            return None
        calls += calls_of(found[0], tools) or [None]
        between = _BETWEEN.match(rest, found[1])
        if between is None:
            return None
        place = between.end()
    return _all(calls)


_HARMONY = (
    rf"\s*+(?:<\|start\|>assistant)?\s*+<\|channel\|>\s*+(?:commentary|analysis)\s+to=functions\.{_NAME}"
    r"\s*+(?:<\|constrain\|>)?\s*+(?:json)?\s*+<\|message\|>\s*+"
)
_DEEPSEEK = rf"\s*+<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?{_NAME}(?:<｜tool▁sep｜>|\s*+```json)\s*+"
_KIMI = rf"\s*+<\|tool_call_begin\|>\s*+(?:functions\.)?{_NAME}:\d{{1,6}}\s*+<\|tool_call_argument_begin\|>\s*+"
_MISTRAL = (
    rf"\s*+(?:\[TOOL_CALLS\])?\s*+{_NAME}\s*+(?:\[CALL_ID\]\w{{1,64}})?\[ARGS\]\s*+"
)

FORMS: tuple[Form, ...] = (
    Form("<tool_call>", _tagged),
    Form("[TOOL_CALLS]", _json_after("[TOOL_CALLS]")),
    Form("[TOOL_CALLS]", _headed(_MISTRAL)),
    Form("<|python_tag|>", _llama),
    Form("<|tool_call|>", _json_after("<|tool_call|>", "<|/tool_call|>", needs_end=False)),  # Granite and Phi
    Form("<function=", _headed(rf"\s*+<function={_NAME}>\s*+", r"\s*+</function>")),  # Functionary and Llama
    Form("<function=", _xml),
    Form("<|recipient|>", _headed(rf"\s*+<\|recipient\|>\s*+{_NAME}\s*+<\|content\|>\s*+", r"\s*+(?:<\|stop\|>)?")),
    Form("<｜tool▁calls▁begin｜>", _headed(
        _DEEPSEEK, r"\s*+(?:```)?\s*+<｜tool▁call▁end｜>", begins="<｜tool▁calls▁begin｜>", ends="<｜tool▁calls▁end｜>"
    )),
    Form("<｜DSML｜function_calls>", _dsml),
    Form("<|tool_calls_section_begin|>", _headed(
        _KIMI, r"\s*+<\|tool_call_end\|>", begins="<|tool_calls_section_begin|>", ends="<|tool_calls_section_end|>"
    )),
    Form("<|channel|>commentary to=functions.", _headed(_HARMONY, r"\s*+(?:<\|call\|>)?")),  # gpt-oss
    Form("```tool_code", _python_fence),  # Gemma
    Form("functools[", _json_after("functools"), inside=False),  # Phi
    Form(">>>", _headed(rf"\s*+>>>{_NAME}\n\s*+"), inside=False),  # Functionary
)  # fmt: skip
"""The forms by priority: if several have the same marker, the first that can parse the text counts."""


def without_end_tokens(text: str) -> str:
    """Return the text without tokens that end a turn, which some servers fail to remove."""
    text = text.strip()
    while ended := next((token for token in _END_TOKENS if text.endswith(token)), ""):
        text = text.removesuffix(ended).rstrip()
    return text
