"""The words the offline model answers with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mcpagent.models.base import ModelRequest
from mcpagent.models.offline.history import SEARCH, VIRTUAL, Step, question_text
from mcpagent.models.offline.planning import Answered, Calls, Decision, Failed, Lacking, NothingFits, Task
from mcpagent.models.offline.ranking import need_concepts
from mcpagent.models.offline.report import error_line, rendered
from mcpagent.safe_text import safe_line

INTRODUCTION = "(Offline stand-in:"
INTRODUCTION_REST = " rules that search and call tools, no language model.)"

_CATEGORY = re.compile(r"^- [^\n]{1,200}, \d+ tools?$", re.MULTILINE)
_REAL_MODEL = "A real model needs a key, for example ANTHROPIC_API_KEY or OPENAI_API_KEY."


def small_talk_answer(kind: str, request: ModelRequest) -> str:
    """A plain answer without tools."""
    match kind:
        case "greeting":
            return "Hello. Ask for something that a tool can do; “what can you do?” lists what there is."
        case "thanks":
            return "You are welcome."
        case "cancel":
            return "All right, nothing was done."
        case "ability":
            return _abilities(request)
        case _:
            return f"I am mcpagent's offline stand-in: simple rules that find a tool, call it and report. {_REAL_MODEL}"


def _abilities(request: ModelRequest) -> str:
    categories = _CATEGORY.findall(request.system)
    if any(tool.name == SEARCH for tool in request.tools) and categories:
        return "\n".join(("I search these tools for what you ask, and call what fits:", *categories))
    names = [tool.name for tool in request.tools if tool.name not in VIRTUAL]
    if names:
        more = f" and {len(names) - 40} more" if len(names) > 40 else ""
        return f"I can call these tools: {', '.join(names[:40])}{more}."
    return "No tools are connected, so there is nothing I can do. Configure an MCP server and ask again."


def final_answer(tasks: Sequence[Task], decisions: Sequence[Decision]) -> str:
    """One answer for all needs; each under its own words where there are several."""
    if len(tasks) == 1:
        return _one(tasks[0], decisions[0])
    parts = []
    for task, decision in zip(tasks, decisions, strict=True):
        text = _one(task, decision)
        head = safe_line(task.need.text, 80).rstrip("?.:; ")
        parts.append(f"- {head}: {text}" if "\n" not in text else f"- {head}:\n{text}")
    return "\n".join(parts)


def _one(task: Task, decision: Decision) -> str:
    match decision:
        case Answered(results=results):
            return _reported(task, results)
        case Failed(step=step):
            return f"`{step.call.name}` failed: {error_line(step.result)}"
        case Lacking(tool=tool, parameter=parameter, description=description):
            about = f" ({safe_line(description, 160).rstrip('.')})" if description else ""
            return f"{question_text(tool, parameter, about)} What should it be?"
        case NothingFits(searched=searched):
            return _nothing(searched)
        case Calls():
            return _unfinished(task)


def _reported(task: Task, results: Sequence[Step]) -> str:
    asked = need_concepts(task.need)
    texts = [rendered(step.result, asked) for step in results]
    if len(texts) == 1:
        return texts[0]
    labels = [", ".join(safe_line(str(value), 60) for value in step.call.arguments.values()) for step in results]
    lines = [text if label and label in text else f"{label}: {text}" for label, text in zip(labels, texts, strict=True)]
    return "\n".join(lines)


def _nothing(searched: Sequence[str]) -> str:
    looked = (
        f"I searched for {' and '.join(f'“{safe_line(query, 60)}”' for query in searched)}, and" if searched else ""
    )
    text = f"{looked} no tool here fits that." if looked else "No tool here fits that."
    return f"{text} I can only do what a tool does; a real model could answer more."


def _unfinished(task: Task) -> str:
    done = [step for step in task.steps if step.call.name not in VIRTUAL and not step.result.error]
    if done:
        return _reported(task, done[-1:])
    return "I had to stop before a tool gave an answer."
