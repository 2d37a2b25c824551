"""Rebuild the state of a resumed chat, its prompts and requests, from the history.

The history has the prompts, the searches, and the added and called tools; the stored steps have the usage of each
answer. Missing are the duration of searches, and results that were found but not shown.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.chat.session_rows import quoted_lines, shown_title
from mcpagent.cli.chat.slash.chat_state import ChatQuestion
from mcpagent.cli.chat.trace import SentRequest, Trace, next_request
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.stored_sessions import ago, begun_elsewhere
from mcpagent.cli.screen.terminal import Terminal
from mcpagent.history.conversation import UNKNOWN, Conversation
from mcpagent.journal.sessions import SessionInfo
from mcpagent.prompt.builder import is_own_note
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.events import ToolsSearched
from mcpagent.values.messages import (
    Compacted,
    Content,
    Message,
    Step,
    ToolCall,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)

MAX_QUESTION, MAX_ANSWER = 300, 900
"""Maximum number of displayed characters of the last prompt and of its answer."""


def questions_of(
    messages: Sequence[Message], steps: Sequence[Step] = ()
) -> tuple[list[ChatQuestion], Trace]:
    """Return the prompts, each with the trace before it, and the trace at the end."""
    asked: list[ChatQuestion] = []
    trace, begins = Trace(), 0
    took = {step.place: step for step in steps}
    open_calls: Mapping[str, ToolCall] = {}
    for place, message in enumerate(messages):
        if message.role == "user" and (not place or messages[place - 1].role != "user"):
            begins = place
        if _is_question(messages, place):
            prompt = [part for part in message.parts if isinstance(part, Content)]
            asked.append(ChatQuestion(message.text, prompt, begins, trace))
        if message.role == "assistant":
            if place in took:
                used = took[place].usage.input_tokens
            else:
                used = trace.used
            trace = replace(trace, requests=trace.requests + 1, used=used)
            open_calls = {call.id: call for call in message.tool_calls}
        trace = _after(trace, message, open_calls)
    return asked, trace


_OURS = (ToolsChanged, ToolsShown, Compacted)
"""Parts that mark a message as written by mcpagent, not by the user."""


def question_places(messages: Sequence[Message]) -> set[int]:
    """Return the positions of the user's prompts."""
    return {place for place in range(len(messages)) if _is_question(messages, place)}


def _is_question(messages: Sequence[Message], place: int) -> bool:
    """Return whether the user wrote the message; notes about tools precede a prompt or follow results."""
    message, before = messages[place], messages[place - 1 : place][0] if place else None
    if message.role != "user" or any(isinstance(part, _OURS) for part in message.parts):
        return False
    if is_own_note(message.text):
        return False
    if place + 1 < len(messages) and messages[place + 1].role == "user":
        return False
    first = place
    while first and messages[first - 1].role == "user":
        first -= 1
    if first < place or before is None or before.role != "tool":
        return True
    return any(
        result.error == "cancelled" for result in before.tool_results
    )  # the previous answer was interrupted


def _after(trace: Trace, message: Message, calls: Mapping[str, ToolCall]) -> Trace:
    now = trace.requests
    shown: tuple[str, ...] = ()
    for part in reversed(
        message.parts
    ):  # the tools that a search found follow its result
        match part:
            case ToolsShown(names=names):
                shown = names
            case ToolsChanged(added=added, removed=removed):
                shown = tuple(tool.name for tool in added)
                trace = replace(
                    trace,
                    loaded={**trace.loaded, **dict.fromkeys(shown, now + 1)},
                    removed={**trace.removed, **dict.fromkeys(removed, now + 1)},
                )
            case ToolResult(call_id=call_id, name=name) if call_id in calls:
                trace = replace(
                    trace,
                    called={**trace.called, name: (*trace.called.get(name, ()), now)},
                )
                if name == "search_tools" and part.error is None:
                    event = ToolsSearched(
                        _query(calls[call_id].arguments),
                        _found(part.text),
                        shown,
                        0,
                        0.0,
                    )
                    trace = replace(trace, searches=(*trace.searches, (now, event)))
                shown = ()
    return trace


def _query(arguments: Mapping[str, Any]) -> str:
    more = arguments.get("queries")
    words = [arguments.get("query"), *(more if isinstance(more, list) else ())]
    return ", ".join(str(word) for word in words if word)


def _found(answer: str) -> int:
    try:
        return int(json.loads(answer)["found"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0


def last_request(
    agent: Agent, messages: Sequence[Message], steps: Sequence[Step], number: int
) -> SentRequest | None:
    """Return the last request, with the provider's token count; tools that no longer exist are omitted."""
    if not steps or steps[-1].place > len(messages):
        return None
    step, now = steps[-1], next_request(agent, number)
    known = {tool.name: tool for tool in now.tools}
    known |= {
        name: tool for name, tool in agent.known_tools.items() if name not in known
    }
    offered = tuple(known[name] for name in step.offered if name in known)
    sent = {tool.name for tool in offered}
    tokens = agent._runtime.tools.tokens
    deferred = {
        name: tokens([name]) for name in agent._runtime.tools.known if name not in sent
    }
    sent_then = tuple(Conversation(messages=messages[: step.place]).sent)
    return SentRequest(number, now.system, sent_then, offered, deferred, step.usage)


def resumed_lines(
    info: SessionInfo,
    asked: Sequence[ChatQuestion],
    messages: Sequence[Message],
    terminal: Terminal,
    folder: Path,
) -> list[Text]:
    """Return lines that describe the conversation, with its last prompt and answer, shortened."""
    facts = [
        counted(info.turns, "turn"),
        f"last used {ago(time.time() - info.updated)}",
    ]
    dot, loaded = terminal.glyphs.dot, terminal.glyphs.loaded
    head = Text.assemble((f"{loaded} ", "ok"), (shown_title(info), "user"))
    lines = [head, Text(f"  {f' {dot} '.join(facts)}", "dim")]
    if elsewhere := begun_elsewhere(info, folder):
        lines.append(Text(f"  {elsewhere}", "dim"))
    if not asked:
        return lines
    question = asked[-1]
    lines += [
        Text.assemble(
            ("> ", "user"),
            _cut(question.typed, MAX_QUESTION) or "(files without words)",
        )
    ]
    later = messages[question.length :]
    answers = [
        message.text
        for message in later
        if message.role == "assistant" and message.text.strip()
    ]
    if answers:
        lines += quoted_lines(_cut(answers[-1], MAX_ANSWER), terminal)
    unknown = {
        part.name
        for message in later
        for part in message.tool_results
        if part.text == UNKNOWN
    }
    if unknown and later[-1].role == "tool":
        names = ", ".join(safe_line(name, 60) for name in sorted(unknown))
        lines.append(
            Text(
                f"  {names}: under way when it ended, so it may have run; it is not made again",
                "dim",
            )
        )
    return lines


def _cut(text: str, limit: int) -> str:
    shown = safe_text(text).strip()
    if len(shown) <= limit:
        return shown
    return f"{shown[:limit].rstrip()} ..."


def finished_length(messages: Sequence[Message]) -> int | None:
    """Return the number of messages before an unanswered prompt; None if all prompts have an answer."""
    last = None
    if messages:
        last = messages[-1]
    if last is None or (last.role == "assistant" and not last.tool_calls):
        return None
    asked, _ = questions_of(messages)
    if asked:
        return asked[-1].length
    return 0
