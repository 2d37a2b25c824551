"""The last step before a Messages body is sent: write it in a form that passes Anthropic's validation.

The rules come from Anthropic's errors: names `^[a-zA-Z0-9_-]{1,128}$`; no blank text block; the first turn is the
user's; results come first in the turn after their calls, one for each call; call IDs are unique; at most four cache
markers. A valid body is returned with the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.models.wire_values import (
    NO_INPUT,
    NO_OUTPUT,
    NO_RESULT,
    Written,
    sendable_name,
    without,
)
from mcpagent.utilities.text.for_model import set_apart

LONGEST_NAME = 128
_UNSAID = "none"
"""Replaces a blank text in a block, because Anthropic refuses it."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
MOST_MARKERS = 4


def wellformed_messages(body: Mapping[str, Any]) -> Written:
    """Return the body with legal names and texts, turns in order, and a result for each call."""
    made = dict(body)
    tools = body.get("tools")
    if isinstance(tools, list):
        made["tools"] = _distinct(tools)
    if not made.get("tools"):
        made = without(made, ("tools", "tool_choice"))
    messages = body.get("messages")
    if isinstance(messages, list) and not _keeps_rules(messages):
        made["messages"] = _turns(messages)
    return with_few_markers(made)


def _distinct(tools: Sequence[Any]) -> list[Any]:
    """Return the tools without later ones of the same name, and without cache markers on deferred ones."""
    seen: set[str] = set()
    kept: list[Any] = []
    for tool in tools:
        name = ""
        if isinstance(tool, Mapping):
            name = str(tool.get("name") or "")
        if name and name in seen:
            continue
        seen.add(name)
        if (
            isinstance(tool, Mapping)
            and tool.get("defer_loading")
            and "cache_control" in tool
        ):
            tool = without(tool, ("cache_control",))
        kept.append(tool)
    return kept


def _keeps_rules(turns: Sequence[Any]) -> bool:  # noqa: C901 - a call for each message costs more than it explains
    """Return whether the turns are valid as they are. A single loop without function calls, since histories are
    long.
    """
    before = ""
    waiting: set[Any] = set()
    seen: set[Any] = set()
    for turn in turns:
        role, content = turn.get("role"), turn.get("content")
        if (
            content.__class__ is not list
            or not content
            or role == before
            or (not before and role != "user")
        ):
            return False
        if waiting and role != "user":
            return False
        before, come_first = role, True
        for block in content:
            if block.__class__ is not dict:
                return False
            kind = block.get("type")
            if kind.__class__ is not str:
                return False
            if kind == "tool_result":
                inner, call_id = block.get("content"), block.get("tool_use_id")
                if (
                    role != "user"
                    or not come_first
                    or call_id not in waiting
                    or inner.__class__ is not list
                ):
                    return False
                waiting.discard(call_id)
                if not inner:
                    return False
                for piece in inner:
                    if (
                        piece.get("type") == "text"
                        and not str(piece.get("text", _UNSAID)).strip()
                    ):
                        return False
                continue
            come_first = False
            if kind == "text" and not str(block.get("text", _UNSAID)).strip():
                return False
            if kind == "tool_use":
                call_id, name = block.get("id"), block.get("name")
                if (
                    not call_id
                    or call_id in seen
                    or block.get("input").__class__ is not dict
                ):
                    return False
                if name.__class__ is not str or not _NAME.fullmatch(name):
                    return False
                seen.add(call_id)
                waiting.add(call_id)
        if waiting and role == "user":
            return False
    return True


def _turns(messages: Sequence[Any]) -> list[Any]:
    """Return turns that alternate, each with content, and with calls followed by their results."""
    made: list[Any] = []
    for message in messages:
        turn = _turn(message)
        if not turn["content"]:
            continue
        if not made and turn["role"] != "user":
            made.append(
                {"role": "user", "content": [{"type": "text", "text": NO_INPUT}]}
            )
        if made and made[-1]["role"] == turn["role"]:
            made[-1] = {**made[-1], "content": [*made[-1]["content"], *turn["content"]]}
        else:
            made.append(turn)
    return _paired(made)


def _turn(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if isinstance(content, str):
        text = []
        if content.strip():
            text = [{"type": "text", "text": content}]
        return {**message, "content": text}
    blocks = []
    if isinstance(content, list):
        blocks = content
    written = [_block(block) for block in blocks if not _is_blank(block)]
    same = len(written) == len(blocks) and all(
        new is old for new, old in zip(written, blocks, strict=True)
    )
    if same and blocks is content:
        return message
    return {**message, "content": written}


def _is_blank(block: Any) -> bool:
    """Return whether the block is empty or has no type; Anthropic refuses both."""
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
        return True
    text = block.get("text")
    return block["type"] == "text" and isinstance(text, str) and not text.strip()


def _block(block: Any) -> Any:
    kind = None
    if isinstance(block, Mapping):
        kind = block.get("type")
    if kind == "tool_use":
        name, given = block.get("name"), block.get("input")
        legal = sendable_name(name if isinstance(name, str) else "", LONGEST_NAME)
        if legal == name and isinstance(given, dict):
            return block
        return {
            **block,
            "name": legal,
            "input": given if isinstance(given, dict) else {},
        }
    if kind == "tool_result":
        return _result(block)
    return block


def _result(block: Mapping[str, Any]) -> Mapping[str, Any]:
    content = block.get("content")
    if isinstance(content, str):
        if content.strip():
            return block
        return {**block, "content": NO_OUTPUT}
    pieces = []
    if isinstance(content, list):
        pieces = content
    kept = [_block(piece) for piece in pieces if not _is_blank(piece)]
    if (
        kept
        and len(kept) == len(pieces)
        and all(new is old for new, old in zip(kept, pieces, strict=True))
    ):
        return block
    return {**block, "content": kept or [{"type": "text", "text": NO_OUTPUT}]}


def _paired(turns: Sequence[Any]) -> list[Any]:
    """Return the turns with one result for each call at the beginning of the next turn.

    Calls of the last turn have yet to run.
    """
    made: list[Any] = []
    seen: set[str] = set()
    for place, turn in enumerate(turns):
        before = None
        if made:
            before = made[-1]
        if turn["role"] == "assistant":
            made.append(turn)
            following = None
            if place + 1 < len(turns):
                following = turns[place + 1]
            needs_turn = following is not None and following["role"] != "user"
            if needs_turn and _calls(turn):
                made.append({"role": "user", "content": []})
                _match(made, seen)
        elif turn["role"] == "user":
            made.append(turn)
            if _calls(before) or _results(turn):
                _match(made, seen)
        else:
            made.append(turn)
    return [turn for turn in made if turn["content"]]


def _calls(turn: Mapping[str, Any] | None) -> list[Any]:
    if turn is None or turn["role"] != "assistant":
        return []
    return [block for block in turn["content"] if block.get("type") == "tool_use"]


def _results(turn: Mapping[str, Any]) -> list[Any]:
    return [block for block in turn["content"] if block.get("type") == "tool_result"]


def _match(made: list[Any], seen: set[str]) -> None:
    """Rewrite the last two turns, an answer and its successor, so that calls and results are paired."""
    turn = made[-1]
    answer = None
    if len(made) > 1:
        answer = made[-2]
    calls, results = _calls(answer), _results(turn)
    ids = [str(call.get("id")) for call in calls]
    told = [str(result.get("tool_use_id")) for result in results]
    is_legal = all(one and one not in seen for one in ids) and len(set(ids)) == len(ids)
    come_first = all(
        block.get("type") == "tool_result" for block in turn["content"][: len(results)]
    )
    seen.update(ids)
    if is_legal and come_first and sorted(ids) == sorted(told):
        return
    waiting: dict[str, list[Any]] = {}
    for result in results:
        waiting.setdefault(str(result.get("tool_use_id")), []).append(result)
    renamed: dict[int, Any] = {}
    first: list[Any] = []
    for number, call in enumerate(calls):
        asked = str(call.get("id"))
        if not is_legal:
            own = _new_id(asked, number, seen)
        else:
            own = asked
        seen.add(own)
        if own == asked:
            renamed[id(call)] = call
        else:
            renamed[id(call)] = {**call, "id": own}
        found = waiting.get(asked)
        missing = {
            "type": "tool_result",
            "content": [{"type": "text", "text": NO_RESULT}],
            "is_error": True,
        }
        first.append({**(found.pop(0) if found else missing), "tool_use_id": own})
    left = [_as_text(result) for results in waiting.values() for result in results]
    others = [block for block in turn["content"] if block.get("type") != "tool_result"]
    made[-1] = {**turn, "content": [*first, *left, *others]}
    if answer is not None:
        made[-2] = {
            **answer,
            "content": [renamed.get(id(block), block) for block in answer["content"]],
        }


def _new_id(asked: str, number: int, seen: set[str]) -> str:
    """Return an ID that no earlier call has; the same history always gives the same ID."""
    base = sendable_name(asked, 48)
    return f"{base}_{len(seen)}_{number}"


def _as_text(result: Mapping[str, Any]) -> Written:
    content = result.get("content")
    if isinstance(content, list):
        pieces = content
    else:
        pieces = [{"text": content}]
    text = "\n".join(
        str(piece["text"])
        for piece in pieces
        if isinstance(piece, Mapping) and piece.get("text")
    )
    return {
        "type": "text",
        "text": f"A result without its call:\n{set_apart(text or NO_OUTPUT)}",
    }


def with_few_markers(body: Written) -> Written:
    """Return the body with at most four cache markers, by removing the earliest ones in the turns."""
    blocks = [*_listed(body.get("tools")), *_listed(body.get("system"))]
    marked = sum("cache_control" in block for block in blocks) + (
        "cache_control" in body
    )
    messages = body.get("messages")
    turns = []
    if isinstance(messages, list):
        turns = [turn for turn in messages if turn.get("content").__class__ is list]
    places: list[tuple[int, int]] = []
    for place, turn in enumerate(turns):
        for number, block in enumerate(turn["content"]):
            if block.__class__ is dict and "cache_control" in block:
                places.append((place, number))
    over = marked + len(places) - MOST_MARKERS
    if over <= 0:
        return body
    messages = list(body["messages"])
    for place, number in places[:over]:
        position = next(
            at for at, message in enumerate(messages) if message is turns[place]
        )
        content = list(messages[position]["content"])
        content[number] = without(content[number], ("cache_control",))
        messages[position] = turns[place] = {**messages[position], "content": content}
    return {**body, "messages": messages}


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [one for one in value if isinstance(one, Mapping)]
    return []
