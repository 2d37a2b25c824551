"""Calls that Anthropic runs and their results, which it takes in pairs alone.

A call beside calls of ours has no result yet: it is run when these have theirs, and what came of it stands in the next
answer (https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools, turns that mix tools). If that
answer was another model's, was cut off, or never had it, the call is refused in every request from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mcpagent.events import ProviderCall
from mcpagent.messages import Message, Part, ProviderBlock, Text
from mcpagent.models.provider_run.provider_calls import NONE_WAITING, calls_to_come, in_words


def with_pairs(history: Sequence[Message], written: Sequence[Message]) -> tuple[Message, ...]:
    """The answers as they are `written` to Anthropic, one for each of `history`, without a call that has no result and
    is not waiting for one, and with words for a result that has no call any more."""
    made = list(written)
    answers = [place for place, message in enumerate(made) if message.role == "assistant"]
    known: frozenset[str] = frozenset()
    waiting: Mapping[str, ProviderCall] = NONE_WAITING
    for number, place in enumerate(answers):
        message = made[place]
        calls, strange = _unpaired(message, known)
        known = frozenset(calls) if message.tool_calls else frozenset()
        if number + 1 < len(answers):
            known &= _results_of_others(made[answers[number + 1]])
        lost = strange | {id(block) for call, block in calls.items() if call not in known}
        if lost:
            told = in_words(history[place].parts, waiting)
            words = {id(part): told[at] for at, part in enumerate(history[place].parts) if at in told}
            made[place] = replace(message, parts=tuple(_without(message.parts, lost, words)))
        waiting = calls_to_come(history[place])
    return tuple(made)


def _unpaired(message: Message, known: frozenset[str]) -> tuple[dict[str, ProviderBlock], set[int]]:
    """The calls of an answer that have no result in it, by id; and by identity the blocks that cannot stand anywhere:
    results of calls that are neither before them nor `known`, and what comes twice."""
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
    """Ids of results of calls that the answer itself did not ask for before."""
    seen, found = set[str](), set[str]()
    for block in (part for part in message.parts if isinstance(part, ProviderBlock)):
        if asked := _asks(block):
            seen.add(asked)
        elif (answered := _answers(block)) not in seen:
            found.add(answered)
    return frozenset(found)


def _without(parts: Sequence[Part], lost: set[int], words: Mapping[int, str]) -> Iterator[Part]:
    """The parts without these blocks; what came of a call is told in words."""
    for part in parts:
        if id(part) not in lost:
            yield part
        elif id(part) in words and isinstance(part, ProviderBlock) and _answers(part):
            yield Text(words[id(part)])


def _asks(block: ProviderBlock) -> str:
    is_call = block.data.get("type") in ("server_tool_use", "mcp_tool_use")
    return str(block.data.get("id") or "") if is_call else ""


def _answers(block: ProviderBlock) -> str:
    is_result = str(block.data.get("type")).endswith("_tool_result")
    return str(block.data.get("tool_use_id") or "") if is_result else ""
