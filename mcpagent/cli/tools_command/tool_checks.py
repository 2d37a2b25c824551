"""`mcpagent tools lint` and `tools eval`: check how well the search finds the tools of the user's servers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.error_lines import cannot_be_read
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.tools_command.tool_views import meant_tool, unknown_tool
from mcpagent.errors import InputError
from mcpagent.gateway.gateway_log import FailedSearch
from mcpagent.search.examples import LONGEST_EXAMPLE
from mcpagent.search.signature import first_sentences
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.utilities.filesystem.bounded_files import open_given
from mcpagent.utilities.json_schema.parts import properties_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

MIN_WORDS = 3
MAX_TOKENS = 1_500
FOUND_WITHIN = 5
MAX_EVAL_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class ToolFinding:
    """A property of one tool that keeps a model from finding or using it, and the fix."""

    tool: str
    kind: str
    text: str


async def lint(agent: Agent) -> list[ToolFinding]:
    """Return the findings about all tools, sorted by tool name."""
    tools = [agent.known_tools[name] for name in sorted(agent.known_tools)]
    findings = [finding for tool in tools for finding in _about_definition(tool)]
    findings += _twins(tools)
    for tool in tools:
        query = first_sentences(tool.description, 120)
        if len(query.split()) < MIN_WORDS:
            continue
        found = (await agent.search(query, FOUND_WITHIN)).names
        if tool.name not in found:
            before = ", ".join(found[:3])
            text = f"its own first sentence does not find it among {FOUND_WITHIN}; before it: {before}"
            findings.append(ToolFinding(tool.name, "hidden", text))
    return sorted(findings, key=lambda finding: finding.tool)


async def lint_searches(
    agent: Agent, failed: Iterable[FailedSearch]
) -> list[ToolFinding]:
    """Return the searches at the gateway that would still find nothing, each with the tool that was likely meant.

    That is the tool that was called next, or else the best of the weak matches; "" if there is none.
    """
    findings = []
    for search in failed:
        result = await agent.search(search.query, FOUND_WITHIN)
        if result.found:
            continue
        query = safe_line(search.query, LONGEST_EXAMPLE)
        text = f'{counted(search.times, "time")} nothing was found at the gateway for "{query}"'
        called = meant_tool(agent, search.called) if search.called else None
        if called is not None:
            name, why = called.definition.name, "it was called next"
        elif result.names:
            name, why = result.names[0], "it is the nearest"
        else:
            findings.append(ToolFinding("", "unfound", f"{text}; no tool is near"))
            continue
        command = f"mcpagent tools examples add {shlex.join([name, query])}"
        text = f"{text}; {why}. If it is meant: {command}"
        findings.append(ToolFinding(name, "unfound", text))
    return findings


def _about_definition(tool: ToolDefinition) -> Iterable[ToolFinding]:
    words = tool.description.split()
    if not words:
        text = (
            "no description: only its name can be found; say what it does and to what"
        )
        yield ToolFinding(tool.name, "empty", text)
    elif len(words) < MIN_WORDS:
        text = f'"{safe_line(tool.description, 60)}" is too short to tell it from others; say what it does and to what'
        yield ToolFinding(tool.name, "vague", text)
    silent = [
        str(name)
        for name, schema in properties_of(tool.parameters).items()
        if not (
            isinstance(schema, Mapping)
            and (schema.get("description") or schema.get("enum"))
        )
    ]
    if silent:
        yield ToolFinding(
            tool.name, "parameters", f"no text for {safe_line(', '.join(silent), 120)}"
        )
    if (tokens := definition_tokens(tool)) > MAX_TOKENS:
        yield ToolFinding(
            tool.name,
            "large",
            f"{tokens:,} tokens in every request that offers it; shorten its texts",
        )


def _twins(tools: Sequence[ToolDefinition]) -> Iterable[ToolFinding]:
    """Yield findings about tools with identical descriptions: only their names distinguish them."""
    by_words: dict[str, list[str]] = {}
    for tool in tools:
        if words := " ".join(tool.description.lower().split()):
            by_words.setdefault(words, []).append(tool.name)
    for names in by_words.values():
        for name in names if len(names) > 1 else ():
            others = ", ".join(other for other in names if other != name)
            text = f"has the same description as {safe_line(others, 120)}; say how they differ"
            yield ToolFinding(name, "twin", text)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of one query: the rank of each wanted tool (None: not found). `instead` are the first tools that were
    found.
    """

    query: str
    places: Mapping[str, int | None]
    instead: tuple[str, ...]

    def recall(self, within: int) -> float:
        """Return the share of the wanted tools that are among the first `within` results."""
        found = sum(
            1 for place in self.places.values() if place is not None and place <= within
        )
        return found / len(self.places)


def read_questions(path: Path, agent: Agent) -> list[tuple[str, list[str]]]:
    """Return the queries of a JSON list or JSON lines, each with the offered names of the tools that it should find.

    An entry is `{"query": "...", "tools": ["server.tool", ...]}`. Raises `InputError` that names an invalid entry, or
    an unknown tool.
    """
    shown = safe_line(str(path), 100)
    try:
        with open_given(path) as file:
            data = file.read(MAX_EVAL_BYTES + 1)
        if len(data) > MAX_EVAL_BYTES:
            raise InputError(
                f"{shown}: larger than {MAX_EVAL_BYTES // 1_000_000} MB; pass less"
            )
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: {cannot_be_read(error)}") from None
    if text.lstrip().startswith("["):
        entries = [
            (f"{shown}: entry {number}", entry)
            for number, entry in enumerate(read_json(text, shown), start=1)
        ]
    else:
        lines = [
            (f"{shown}:{number}", line)
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip()
        ]
        entries = [(where, read_json(line, where)) for where, line in lines]
    if not entries:
        raise InputError(
            f'{shown}: is empty; write lines of {{"query": "...", "tools": ["server.tool"]}}'
        )
    return [_wanted(entry, where, agent) for where, entry in entries]


def _wanted(entry: Any, where: str, agent: Agent) -> tuple[str, list[str]]:
    query = None
    if isinstance(entry, dict):
        query = entry.get("query")
    names = None
    if isinstance(entry, dict):
        names = entry.get("tools")
    fits = (
        isinstance(query, str) and query.strip() and isinstance(names, list) and names
    )
    if not fits or not all(isinstance(name, str) for name in names or ()):
        raise InputError(
            f'{where}: expected {{"query": "...", "tools": ["server.tool", ...]}}'
        )
    found: list[str] = []
    for name in names or ():
        tool = meant_tool(agent, name)
        if tool is None:
            raise InputError(f"{where}: {unknown_tool(agent, name)}")
        found.append(tool.name)
    return str(query), list(dict.fromkeys(found))


async def evaluate(
    agent: Agent, wanted: Iterable[tuple[str, list[str]]], within: int
) -> list[Evaluated]:
    """Return the rank of each query's wanted tools in the model's own search, among the first `within` results."""
    evaluated: list[Evaluated] = []
    for query, tools in wanted:
        names = (await agent.search(query, within)).names
        places = {
            name: names.index(name) + 1 if name in names else None for name in tools
        }
        evaluated.append(Evaluated(query, places, names[:3]))
    return evaluated


def read_json(text: str, where: str) -> Any:
    """Parse JSON. Raises `InputError`, which names `where`, for other texts."""
    if not text.strip():
        raise InputError(f"{where}: is empty; write JSON, {{}} for no arguments")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            what = error.msg.lower()
        else:
            what = str(error)
        raise InputError(
            f"{where}: no JSON: {safe_line(f'{what} in: {text}', 120)}"
        ) from None
