"""The present turn read off the messages: nothing is remembered between requests, so any history can be continued.

Calls carry the number of the need they serve in their id (`offline_<call>_<need>`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcpagent.messages import Message, ToolCall, ToolResult
from mcpagent.models.base import ModelRequest

SEARCH, ADD = "search_tools", "add_tool"
VIRTUAL = frozenset((SEARCH, ADD, "remove_tool", "show_all_tools"))

_ID = re.compile(r"offline_\d+_(\d+)")
_ANNOUNCED = re.compile(
    r"A server has connected, |More tools can be used from now on|Your tools have changed"
    r'|The server ".*" changed its tools'
)
"""How what the runtime says of the tools begins; it stands in a user's message too, and is no question."""

_ASKED = re.compile(r"To use `([\w-]+)` I need `([\w.$-]+)`")


@dataclass(frozen=True, slots=True)
class Step:
    """One finished call."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Question:
    """What the answer before this turn asked the user for, and the prompt that led to it."""

    tool: str
    parameter: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Turn:
    """`steps` by need number. `last_step` is the latest successful call before this turn, `last_prompt` its prompt."""

    prompt: str
    steps: dict[int, list[Step]]
    last_step: Step | None
    last_prompt: str
    question: Question | None
    introduced: bool


def question_text(tool: str, parameter: str, about: str) -> str:
    """How the user is asked for a value; `read_turn` recognises it in the history."""
    return f"To use `{tool}` I need `{parameter}`{about}."


def read_turn(request: ModelRequest, introduction: str) -> Turn:
    """The turn to answer. `introduction` is the start of the line that says once what answers here."""
    messages = request.messages
    start = _prompt_position(messages, forced=request.tool_choice == "none")
    earlier, present = messages[: max(start, 0)], messages[max(start, 0) :]
    steps: dict[int, list[Step]] = {}
    for step in _steps(present):
        found = _ID.fullmatch(step.call.id)
        steps.setdefault(int(found[1]) if found else 0, []).append(step)
    earlier_calls = [step for step in _steps(earlier) if step.call.name not in VIRTUAL and not step.result.error]
    answers = [message.text for message in earlier if message.role == "assistant" and message.text]
    prompts = [message.text for message in earlier if _is_prompt(message)]
    return Turn(
        messages[start].text if start >= 0 else "",
        steps,
        earlier_calls[-1] if earlier_calls else None,
        prompts[-1] if prompts else "",
        _question(answers, prompts),
        any(introduction in answer for answer in answers),
    )


def _prompt_position(messages: Sequence[Message], *, forced: bool) -> int:
    """Where the user's prompt is; a note that demands an answer after tool results is not one."""
    users = [index for index, message in enumerate(messages) if _is_prompt(message)]
    if forced and len(users) > 1 and users[-1] > 0 and messages[users[-1] - 1].role == "tool":
        users.pop()
    return users[-1] if users else -1


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not _ANNOUNCED.match(message.text)


def _steps(messages: Sequence[Message]) -> list[Step]:
    results = {result.call_id: result for message in messages for result in message.tool_results}
    return [Step(call, results[call.id]) for message in messages for call in message.tool_calls if call.id in results]


def _question(answers: Sequence[str], prompts: Sequence[str]) -> Question | None:
    found = _ASKED.search(answers[-1]) if answers else None
    return Question(found[1], found[2], prompts[-1]) if found and prompts else None


def new_ids(request: ModelRequest, needs: Sequence[int]) -> list[str]:
    """An id for each new call, unlike every id in the history."""
    known = {call.id for message in request.messages for call in message.tool_calls}
    number, ids = len(known), []
    for need in needs:
        number += 1
        while f"offline_{number}_{need}" in known:
            number += 1
        ids.append(f"offline_{number}_{need}")
    return ids
