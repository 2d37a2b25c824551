"""The last step before a Responses body is sent: write its items in a form that passes OpenAI's validation.

The rules come from OpenAI's errors: names `^[a-zA-Z0-9_-]{1,64}$`; arguments that are JSON; one output for each
`function_call`; no message without content. A valid body is returned with the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.models.wellformed.wellformed_chat import distinct_tools, has_words
from mcpagent.models.wire_values import (
    LEGAL_NAME,
    NO_OUTPUT,
    NO_RESULT,
    Written,
    arguments_text,
    parse_object,
    sendable_name,
    without,
)
from mcpagent.utilities.text.for_model import set_apart


def wellformed_responses(body: Mapping[str, Any], *, parses_arguments: bool) -> Written:
    """Return the body with legal names, arguments and contents, and one output for each call.

    `parses_arguments`: the server parses the arguments of earlier calls. OpenAI accepts any text, so they are sent back
    as the model wrote them.
    """
    made = dict(body)
    items = body.get("input")
    if isinstance(items, list) and not _keeps_rules(items, parses_arguments):
        written = [
            item
            for item in (_item(one, parses_arguments) for one in items)
            if item is not None
        ]
        made["input"] = _paired(_without_last_thoughts(written))
    tools = body.get("tools")
    if isinstance(tools, list):
        made["tools"] = distinct_tools(
            [_with_legal_name(tool) for tool in tools], _tool_name
        )
    if made.get("tools") == []:
        return without(made, ("tools",))
    return made


def _keeps_rules(items: Sequence[Any], parses_arguments: bool) -> bool:  # noqa: C901 - one loop, since histories are long
    """Return whether the input is valid as it is. A single loop without function calls, since histories are long."""
    waiting: set[Any] = set()
    seen: set[Any] = set()
    is_answered = False
    for item in items:
        if item.__class__ is not dict:
            return False
        kind = item.get("type", "message")
        if kind.__class__ is not str or _is_empty(item):
            return False
        if kind == "function_call":
            name, arguments, call_id = (
                item.get("name"),
                item.get("arguments"),
                item.get("call_id"),
            )
            if (
                name.__class__ is not str
                or not LEGAL_NAME.fullmatch(name)
                or call_id in seen
            ):
                return False
            if arguments.__class__ is not str:
                return False
            if parses_arguments and (
                not arguments.strip() or parse_object(arguments) is None
            ):
                return False
            is_answered = is_answered and bool(waiting)
            seen.add(call_id)
            waiting.add(call_id)
        elif kind == "function_call_output":
            output = item.get("output")
            if (
                item.get("call_id") not in waiting
                or output.__class__ is not str
                or not output.strip()
            ):
                return False
            waiting.discard(item["call_id"])
            is_answered = True
        elif (
            kind == "message"
            and "role" in item
            and ("type" not in item or item["role"] == "user")
        ):
            content = item.get("content")
            if content.__class__ is not str or not content.strip():
                return False
            if waiting and item.get("role") != "assistant":
                return False
    return not (waiting and is_answered)


def _tool_name(tool: Any) -> str:
    is_ours = isinstance(tool, Mapping) and tool.get("type") in (
        "function",
        "namespace",
    )
    if is_ours:
        return str(tool.get("name"))
    return ""


def _with_legal_name(written: Any) -> Any:
    if not isinstance(written, Mapping) or written.get("type") not in (
        "function",
        "function_call",
    ):
        return written
    name = written.get("name")
    legal = sendable_name(name if isinstance(name, str) else "")
    if legal == name:
        return written
    return {**written, "name": legal}


def _without_last_thoughts(items: Sequence[Any]) -> list[Any]:
    """Return the items without reasoning at the end of an answer, which OpenAI refuses."""
    made: list[Any] = []
    is_answer = False
    for item in reversed(items):
        if _kind(item) == "reasoning" and not is_answer:
            continue
        made.append(item)
        is_user = isinstance(item, Mapping) and item.get("role") == "user"
        is_answer = not is_user and _kind(item) != "function_call_output"
    return made[::-1]


def _is_empty(item: Mapping[str, Any]) -> bool:
    """Return whether the item has no type, is reasoning without its ID, or a message without content."""
    kind = item.get("type")
    if kind is None:
        return "role" not in item
    if kind == "reasoning":
        return not isinstance(item.get("id"), str)
    return not isinstance(kind, str) or (kind == "message" and not item.get("content"))


def _item(item: Any, parses_arguments: bool) -> Any:
    """Return the item in a valid form; None for an empty message."""
    if not isinstance(item, Mapping):
        return item
    if _is_empty(item):
        return None
    match item.get("type", "message"):
        case "function_call":
            named, given = _with_legal_name(item), item.get("arguments")
            is_kept = not parses_arguments and isinstance(given, str)
            if is_kept:
                arguments = given
            else:
                arguments = arguments_text(given)
            if arguments == named.get("arguments"):
                return named
            return {**named, "arguments": arguments}
        case "function_call_output":
            output = _without_blanks(item.get("output"))
            if output is item.get("output") and has_words(output):
                return item
            return {**item, "output": output if has_words(output) else NO_OUTPUT}
        case "message":
            if "role" not in item or ("type" in item and item["role"] != "user"):
                return item  # data of the provider stays unchanged
            content = _without_blanks(item.get("content"))
            if not has_words(content):
                return None
            if content is item.get("content"):
                return item
            return {**item, "content": content}
        case _:
            return item


def _without_blanks(content: Any) -> Any:
    """Return the content without blank texts; the provider's own items stay."""
    if not isinstance(content, list):
        return content
    kept = [piece for piece in content if not _is_blank(piece)]
    if len(kept) == len(content):
        return content
    return kept


def _is_blank(piece: Any) -> bool:
    text = None
    if isinstance(piece, Mapping) and piece.get("type") == "input_text":
        text = piece.get("text")
    return isinstance(text, str) and not text.strip()


def _paired(items: Sequence[Any]) -> list[Any]:
    """Return the items with one output for each call, after it; calls at the end have yet to run."""
    calls = [_call_id(item) for item in items if _kind(item) == "function_call"]
    outputs = [
        _call_id(item) for item in items if _kind(item) == "function_call_output"
    ]
    last = _calls_at_the_end(items)
    answered = [call for call in calls if call not in last]
    if (
        len(set(calls)) == len(calls)
        and sorted(answered) == sorted(outputs)
        and _in_order(items)
    ):
        return list(items)
    waiting: dict[str, list[Any]] = {}
    for item in items:
        if _kind(item) == "function_call_output":
            waiting.setdefault(_call_id(item), []).append(item)
    made: list[Any] = []
    taken: set[str] = set()
    pending: list[Any] = []
    for number, item in enumerate(items):
        if _kind(item) == "function_call":
            asked = _call_id(item)
            if asked not in taken:
                own = asked
            else:
                own = f"{asked[:50]}_{number}"
            taken.add(own)
            found = waiting.get(asked)
            if found or asked not in last:
                if found:
                    output = found.pop(0)
                else:
                    output = {"type": "function_call_output", "output": NO_RESULT}
                pending.append({**output, "call_id": own})
            made.append(item if own == asked else {**item, "call_id": own})
            continue
        if _kind(item) == "function_call_output":
            made, pending = [*made, *pending], []
            if (
                any(item is one for one in waiting.get(_call_id(item), ()))
                and _call_id(item) not in calls
            ):
                made.append(
                    {
                        "role": "user",
                        "content": f"A result without its call:\n{set_apart(_text(item))}",
                    }
                )
            continue
        if _ends_calls(item):
            made, pending = [*made, *pending], []
        made.append(item)
    return [*made, *pending]


def _calls_at_the_end(items: Sequence[Any]) -> set[str]:
    """Return the IDs of the last answer's calls, if no item of the next turn follows them."""
    ids: set[str] = set()
    for item in reversed(items):
        if _kind(item) == "function_call_output" or (
            isinstance(item, Mapping) and item.get("role") == "user"
        ):
            break
        if _kind(item) == "function_call":
            ids.add(_call_id(item))
    return ids


def _ends_calls(item: Any) -> bool:
    """Return whether the item belongs to the next turn, so that outputs of earlier calls must precede it."""
    return _kind(item) in ("message", "reasoning", "additional_tools")


def _in_order(items: Sequence[Any]) -> bool:
    known: set[str] = set()
    for item in items:
        if _kind(item) == "function_call":
            known.add(_call_id(item))
        elif _kind(item) == "function_call_output" and _call_id(item) not in known:
            return False
    return True


def _kind(item: Any) -> str:
    if isinstance(item, Mapping):
        return str(item.get("type", "message"))
    return ""


def _call_id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id"))


def _text(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    if isinstance(output, str):
        return output
    pieces = output if isinstance(output, list) else ()
    return "\n".join(
        str(piece.get("text") or "") for piece in pieces if isinstance(piece, Mapping)
    )
