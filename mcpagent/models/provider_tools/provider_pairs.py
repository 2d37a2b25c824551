"""Pair calls that Anthropic runs with their results, because Anthropic accepts only pairs.

A call next to client calls has no result at first: Anthropic runs it when these have theirs, and its result is in the
next answer (https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools, turns that mix tools). If that
answer came from another model, was cut off, or lacks the result, Anthropic would refuse the call in every later
request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mcpagent.models.provider_tools.provider_calls import (
    NONE_WAITING,
    calls_to_come,
    in_words,
)
from mcpagent.values.events import ProviderCall
from mcpagent.values.messages import Message, Part, ProviderBlock, Text


def with_pairs(
    history: Sequence[Message], written: Sequence[Message]
) -> tuple[Message, ...]:
    """Return the messages in `written` without calls that have no result and do not wait for one.

    `history` and `written` have the same number of messages. A result without its call becomes text.
    """
    made = list(written)
    answers = [
        place for place, message in enumerate(made) if message.role == "assistant"
    ]
    known: frozenset[str] = frozenset()
    waiting: Mapping[str, ProviderCall] = NONE_WAITING
    for number, place in enumerate(answers):
        message = made[place]
        calls, strange = _unpaired(message, known)
        if message.tool_calls:
            known = frozenset(calls)
        else:
            known = frozenset()
        if number + 1 < len(answers):
            known &= _results_of_others(made[answers[number + 1]])
        lost = strange | {
            id(block) for call, block in calls.items() if call not in known
        }
        if lost:
            told = in_words(history[place].parts, waiting)
            words = {
                id(part): told[at]
                for at, part in enumerate(history[place].parts)
                if at in told
            }
            made[place] = replace(
                message, parts=tuple(_without(message.parts, lost, words))
            )
        waiting = calls_to_come(history[place])
    return tuple(made)


def _unpaired(
    message: Message, known: frozenset[str]
) -> tuple[dict[str, ProviderBlock], set[int]]:
    """Return the calls in the answer that have no result in it, by ID, and the identities of invalid blocks.

    Invalid blocks are duplicates, and results of calls that neither precede them nor are `known`.
    """
    calls: dict[str, ProviderBlock] = {}
    seen, left, strange = set[str](), set(known), set[int]()
    for block in (part for part in message.parts if isinstance(part, ProviderBlock)):
        if asked := _asks(block):
            if asked in seen or asked in known:
                strange.add(id(block))
            else:
                seen.add(asked)
                calls[asked] = block
        elif (answered := _answers(block)) and calls.pop(answered, None) is None:
            if answered not in left:
                strange.add(id(block))
            left.discard(answered)
    return calls, strange


def _results_of_others(message: Message) -> frozenset[str]:
    """Return the IDs of results of provider tools whose calls do not precede them in this message."""
    seen, found = set[str](), set[str]()
    for block in (part for part in message.parts if isinstance(part, ProviderBlock)):
        if asked := _asks(block):
            seen.add(asked)
        elif (answered := _answers(block)) not in seen:
            found.add(answered)
    return frozenset(found)


def _without(
    parts: Sequence[Part], lost: set[int], words: Mapping[int, str]
) -> Iterator[Part]:
    """Yield the parts without the `lost` blocks; a result among these becomes the text in `words`."""
    for part in parts:
        if id(part) not in lost:
            yield part
        elif id(part) in words and isinstance(part, ProviderBlock) and _answers(part):
            yield Text(words[id(part)])


def _asks(block: ProviderBlock) -> str:
    is_call = block.data.get("type") in ("server_tool_use", "mcp_tool_use")
    if is_call:
        return str(block.data.get("id") or "")
    return ""


def _answers(block: ProviderBlock) -> str:
    is_result = str(block.data.get("type")).endswith("_tool_result")
    if is_result:
        return str(block.data.get("tool_use_id") or "")
    return ""
