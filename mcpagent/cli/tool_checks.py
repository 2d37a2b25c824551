"""`mcpagent tools lint` and `tools eval`: how well the tools of your servers are found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.catalog import definition_tokens
from mcpagent.errors import InputError
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line
from mcpagent.search.signature import first_sentences

if TYPE_CHECKING:
    from mcpagent import Agent

MIN_WORDS = 3
MAX_TOKENS = 1_500
FOUND_WITHIN = 5
MAX_EVAL_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about one tool that keeps a model from finding or using it; `mend` says what to do."""

    tool: str
    kind: str
    text: str


async def lint(agent: Agent) -> list[Finding]:
    """Findings by tool name, in the catalogue's order of names."""
    tools = [agent.known_tools[name] for name in sorted(agent.known_tools)]
    findings = [finding for tool in tools for finding in _about_definition(tool)]
    findings += _twins(tools)
    for tool in tools:
        findings += await _about_search(agent, tool)
    return sorted(findings, key=lambda finding: finding.tool)


def _about_definition(tool: ToolDefinition) -> Iterable[Finding]:
    words = tool.description.split()
    if not words:
        yield Finding(tool.name, "empty", "no description: only its name can be found; say what it does and to what")
    elif len(words) < MIN_WORDS:
        text = f'"{safe_line(tool.description, 60)}" is too short to tell it from others; say what it does and to what'
        yield Finding(tool.name, "vague", text)
    properties = tool.parameters.get("properties")
    silent = [
        str(name)
        for name, schema in (properties.items() if isinstance(properties, Mapping) else ())
        if not (isinstance(schema, Mapping) and (schema.get("description") or schema.get("enum")))
    ]
    if silent:
        yield Finding(tool.name, "parameters", f"no text for {safe_line(', '.join(silent), 120)}")
    if (tokens := definition_tokens(tool)) > MAX_TOKENS:
        yield Finding(tool.name, "large", f"{tokens:,} tokens in every request that offers it; shorten its texts")


def _twins(tools: Sequence[ToolDefinition]) -> Iterable[Finding]:
    """Tools with the very same words: nothing but the name tells them apart."""
    by_words: dict[str, list[str]] = {}
    for tool in tools:
        if words := " ".join(tool.description.lower().split()):
            by_words.setdefault(words, []).append(tool.name)
    for names in by_words.values():
        for name in names if len(names) > 1 else ():
            others = ", ".join(other for other in names if other != name)
            yield Finding(name, "twin", f"has the same description as {safe_line(others, 120)}; say how they differ")


async def _about_search(agent: Agent, tool: ToolDefinition) -> Iterable[Finding]:
    """Whether the tool's own first words find it."""
    query = first_sentences(tool.description, 120)
    if len(query.split()) < MIN_WORDS:
        return ()
    result = await agent.search(query, FOUND_WITHIN)
    if tool.name in result.names:
        return ()
    before = ", ".join(result.names[:3])
    text = f"its own first sentence does not find it among {FOUND_WITHIN}; before it: {before}"
    return (Finding(tool.name, "hidden", text),)


@dataclass(frozen=True, slots=True)
class Question:
    """One line of an evaluation: a query and the tools, by offered name, that it should find."""

    query: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The place of each wanted tool in the ranking, None where it is not among those looked at."""

    question: Question
    places: Mapping[str, int | None]
    instead: tuple[str, ...]

    def recall(self, within: int) -> float:
        found = sum(1 for place in self.places.values() if place is not None and place <= within)
        return found / len(self.places)


def read_questions(path: Path, agent: Agent) -> list[Question]:
    """The questions of a JSON list or of JSON lines: `{"query": "...", "tools": ["server.tool", ...]}`.

    Raises `InputError` that names the entry for anything else, and for tools that no server has.
    """
    shown = safe_line(str(path), 100)
    try:
        if path.stat().st_size > MAX_EVAL_BYTES:
            raise InputError(f"{shown}: larger than {MAX_EVAL_BYTES // 1_000_000} MB; pass less")
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: cannot be read: {safe_line(str(error), 120)}") from None
    entries = _entries(text, shown)
    if not entries:
        raise InputError(f'{shown}: is empty; write lines of {{"query": "...", "tools": ["server.tool"]}}')
    return [_question(entry, where, agent) for where, entry in entries]


def _entries(text: str, shown: str) -> list[tuple[str, Any]]:
    if text.lstrip().startswith("["):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{shown}: no JSON: {safe_line(str(error), 120)}") from None
        return [(f"{shown}: entry {number}", entry) for number, entry in enumerate(data, start=1)]
    entries: list[tuple[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entries.append((f"{shown}:{number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{shown}:{number}: no JSON: {safe_line(str(error), 120)}") from None
    return entries


def _question(entry: Any, where: str, agent: Agent) -> Question:
    query = entry.get("query") if isinstance(entry, dict) else None
    names = entry.get("tools") if isinstance(entry, dict) else None
    fits = isinstance(query, str) and query.strip() and isinstance(names, list) and names
    if not fits or not all(isinstance(name, str) for name in names or ()):
        raise InputError(f'{where}: expected {{"query": "...", "tools": ["server.tool", ...]}}')
    assert isinstance(query, str)
    found: list[str] = []
    for name in names or ():
        tool = agent.catalog.find(name) or agent.catalog.find(name.replace(".", "__", 1))
        if tool is None:
            near = ", ".join(agent.catalog.near(name))
            hint = f"; did you mean {near}?" if near else "; mcpagent tools list names them"
            raise InputError(f'{where}: no tool "{safe_line(name, 64)}"{hint}')
        found.append(tool.name)
    return Question(query, tuple(dict.fromkeys(found)))


async def evaluate(agent: Agent, questions: Iterable[Question], within: int) -> list[Outcome]:
    """Where the model's own search ranks what each question wants."""
    outcomes: list[Outcome] = []
    for question in questions:
        result = await agent.search(question.query, within)
        places: dict[str, int | None] = {
            name: result.names.index(name) + 1 if name in result.names else None for name in question.tools
        }
        outcomes.append(Outcome(question, places, result.names[:3]))
    return outcomes
