"""The last step before a Chat Completions body is sent: write it in a form that the strictest server accepts.

OpenAI refuses function names outside `^[a-zA-Z0-9_-]{1,64}$` also in the history (github.com/NousResearch/hermes-agent,
issue 51944), calls without results, and results without calls. vLLM, llama.cpp, Groq and Mistral parse the arguments of
earlier calls, so "" or a list fails there. A valid body is returned with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

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

_HEAD = ("system", "developer")
"""Roles of the messages before a conversation."""


def wellformed_chat(
    body: Mapping[str, Any],
    *,
    turns: Callable[[list[Written]], list[Written]],
    call_id: Callable[[str], str],
) -> Written:
    """Return the body with legal names, arguments and contents, and with pairs of calls and results.

    Args:
        body: A whole request, after all merges.
        turns: Reorders the messages as the server's dialect requires.
        call_id: Rewrites a call ID as the dialect requires.
    """
    made = dict(body)
    messages = body.get("messages")
    if isinstance(messages, list):
        written = messages
        if not _keeps_rules(messages):
            written = [
                message for message in map(_message, messages) if message is not None
            ]
            written = paired(written, call_id)
        first = 0
        while first < len(written) and _role(written[first]) in _HEAD:
            first += 1
        made["messages"] = [*written[:first], *turns(written[first:])]
    tools = body.get("tools")
    if isinstance(tools, list):
        made["tools"] = distinct_tools(map(_tool, tools), _tool_name)
    if not made.get("tools"):
        made = without(made, ("tools", "tool_choice", "parallel_tool_calls"))
    elif isinstance(made.get("tool_choice"), Mapping):
        made["tool_choice"] = _with_legal_name(made["tool_choice"])
    return made


def _keeps_rules(messages: Sequence[Any]) -> bool:  # noqa: C901 - a call for each message costs more than it explains
    """Return whether the messages are valid as they are. A single loop without function calls, since histories are
    long.
    """
    waiting: list[Any] = []
    for message in messages:
        if message.__class__ is not dict:
            return False
        content, calls = message.get("content"), message.get("tool_calls")
        if message.get("role") == "tool":
            if (
                message.get("tool_call_id") not in waiting
                or content.__class__ is not str
                or not content.strip()
            ):
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if waiting or (calls is None and "tool_calls" in message):
            return False
        if calls is None:
            is_words = content.__class__ is str and content.strip()
            if not is_words and (content.__class__ is not list or not content):
                return False
            if content.__class__ is list and message.get("role") != "assistant":
                for piece in content:
                    if (
                        piece.get("type") == "text"
                        and not str(piece.get("text", "none")).strip()
                    ):
                        return False
            continue
        for call in calls:
            function = call.get("function")
            if function.__class__ is not dict or call.get("id") in waiting:
                return False
            name, arguments = function.get("name"), function.get("arguments")
            if name.__class__ is not str or not LEGAL_NAME.fullmatch(name):
                return False
            if (
                arguments.__class__ is not str
                or not arguments.strip()
                or parse_object(arguments) is None
            ):
                return False
            waiting.append(call.get("id"))
        if not waiting:
            return False
    return True


def _with_legal_name(written: Any) -> Any:
    """Return a call, a tool or a tool choice with a legal `function.name`."""
    function = None
    if isinstance(written, Mapping):
        function = written.get("function")
    if not isinstance(function, Mapping):
        return written
    name = function.get("name")
    legal = sendable_name(name if isinstance(name, str) else "")
    if legal == name:
        return written
    return {**written, "function": {**function, "name": legal}}


def _tool(tool: Any) -> Any:
    if isinstance(tool, Mapping) and tool.get("type") == "function":
        return _with_legal_name(tool)
    return tool


def _tool_name(tool: Any) -> str:
    function = None
    if isinstance(tool, Mapping):
        function = tool.get("function")
    if isinstance(function, Mapping):
        return str(function.get("name"))
    return ""


def distinct_tools(tools: Iterable[Any], name_of: Callable[[Any], str]) -> list[Any]:
    """Return the tools without later ones of the same name; tools without a name all stay."""
    seen: set[str] = set()
    kept: list[Any] = []
    for tool in tools:
        name = name_of(tool)
        if name and name in seen:
            continue
        seen.add(name)
        kept.append(tool)
    return kept


def _message(message: Any) -> Any:
    """Return the message with valid tool calls and without empty text parts; None if nothing remains to send."""
    if not isinstance(message, Mapping):
        return message
    content = message.get("content")
    if (
        isinstance(content, list) and message.get("role") != "assistant"
    ):  # data of the server stays unchanged
        pieces = [piece for piece in content if not _is_blank(piece)]
        if len(pieces) < len(content):
            message = {**message, "content": pieces or None}
    if message.get("tool_calls"):
        return _with_calls(message)
    if "tool_calls" in message:
        message = without(message, ("tool_calls",))
    if has_words(message.get("content")):
        return message
    if message.get("role") == "tool":
        return {**message, "content": NO_OUTPUT}
    if message.get("role") == "assistant" and (
        message.get("refusal") or message.get("audio")
    ):
        return message
    return None


def _is_blank(piece: Any) -> bool:
    text = None
    if isinstance(piece, Mapping) and piece.get("type") == "text":
        text = piece.get("text")
    return isinstance(text, str) and not text.strip()


def has_words(content: Any) -> bool:
    """Return whether the content has more than white space."""
    if isinstance(content, str):
        return bool(content.strip())
    return bool(content)


def _with_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    calls = [_call(call) for call in message["tool_calls"]]
    same = all(
        new is old for new, old in zip(calls, message["tool_calls"], strict=True)
    )
    if same:
        return message
    return {**message, "tool_calls": calls}


def _call(call: Any) -> Any:
    call = _with_legal_name(call)
    function = None
    if isinstance(call, Mapping):
        function = call.get("function")
    if not isinstance(function, Mapping):
        return call
    arguments = arguments_text(function.get("arguments"))
    if arguments == function.get("arguments"):
        return call
    return {**call, "function": {**function, "arguments": arguments}}


def paired(messages: Sequence[Any], call_id: Callable[[str], str]) -> list[Any]:
    """Return the messages with one result for each call, directly after the call.

    A call without a result gets one that states it, unless it is in the last message, whose calls have yet to run. A
    result without a call becomes text of the user.
    """
    made: list[Any] = []
    place = 0
    while place < len(messages):
        end = place + 1
        while end < len(messages) and _role(messages[end]) != "assistant":
            end += 1
        may_wait = end == len(messages) == place + 1
        made += _stretch(messages[place:end], call_id, may_wait=may_wait)
        place = end
    return made


def _role(message: Any) -> str:
    if isinstance(message, Mapping):
        return str(message.get("role"))
    return ""


def _stretch(
    messages: Sequence[Any], call_id: Callable[[str], str], *, may_wait: bool
) -> Sequence[Any]:
    """Return the first message and all that follow it up to the next answer, with calls and results paired."""
    first, rest = messages[0], messages[1:]
    calls = first.get("tool_calls") or [] if _role(first) == "assistant" else []
    ids = [str(call.get("id")) for call in calls]
    following = [
        str(one.get("tool_call_id"))
        for one in rest[: len(calls)]
        if _role(one) == "tool"
    ]
    has_others = any(
        _role(one) == "tool" for one in ([*rest[len(calls) :]] if calls else messages)
    )
    is_matched = sorted(following) == sorted(ids) or may_wait
    if len(set(ids)) == len(ids) and is_matched and not has_others:
        return messages
    return _matched(
        first, calls, rest if calls else messages, call_id, may_wait=may_wait
    )


def _matched(
    answer: Mapping[str, Any],
    calls: Sequence[Any],
    rest: Sequence[Any],
    call_id: Callable[[str], str],
    *,
    may_wait: bool,
) -> list[Any]:
    waiting: dict[str, list[Any]] = {}
    for message in rest:
        if _role(message) == "tool":
            waiting.setdefault(str(message.get("tool_call_id")), []).append(message)
    results: list[Any] = []
    named: list[Any] = []
    taken: set[str] = set()
    for number, call in enumerate(calls):
        asked = str(call.get("id"))
        if asked not in taken:
            own = asked
        else:
            own = call_id(f"{asked}_{number}")
        taken.add(own)
        named.append(call if own == asked else {**call, "id": own})
        found = waiting.get(asked)
        if found or not may_wait:
            if found:
                result = found.pop(0)
            else:
                result = {"role": "tool", "content": NO_RESULT}
            results.append({**result, "tool_call_id": own})
    left = {id(message) for messages in waiting.values() for message in messages}
    others: list[Any] = []
    for message in rest:
        if _role(message) != "tool":
            others.append(message)
        elif id(message) in left:
            others.append(
                {
                    "role": "user",
                    "content": f"A result without its call:\n{set_apart(_text(message))}",
                }
            )
    if calls:
        return [{**answer, "tool_calls": named}, *results, *others]
    return others


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else ()
    return "\n".join(
        str(piece.get("text") or "") for piece in pieces if isinstance(piece, Mapping)
    )
