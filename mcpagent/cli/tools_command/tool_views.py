"""Format tools as lines: for `tools list|show|search` and for the chat's `/tools`, `/tool` and `/find`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.number_formats import age, counted
from mcpagent.cli.screen.lines import Cell, behind_bar, column, reason, table
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.config import ServerConfig
from mcpagent.search import Match, SearchResult
from mcpagent.search.learning import UsageCounts
from mcpagent.search.signature import type_words
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.utilities.json_schema.parts import properties_of, required_of
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool

NAME_WIDTH = 40
MIN_WORDS_WIDTH = 12


def tools_with_words(
    tools: Mapping[str, ToolDefinition], words: str
) -> list[ToolDefinition]:
    """Return the tools that contain every word in name, server or description, sorted by server and name."""
    wanted = words.lower().split()

    def has_all(tool: ToolDefinition) -> bool:
        text = f"{tool.name} {tool.server or ''} {tool.description}".lower()
        return all(word in text for word in wanted)

    return sorted(
        (tool for tool in tools.values() if has_all(tool)),
        key=lambda tool: (tool.server or "", tool.name),
    )


def list_lines(
    tools: Sequence[ToolDefinition],
    *,
    width: int,
    loaded: Iterable[str] = (),
    limit: int | None = None,
) -> list[Text]:
    """Return one line per tool under its server: name, tokens, start of the description; offered tools are marked."""
    offered = set(loaded)
    name_width = min(max((len(tool.name) for tool in tools), default=0), NAME_WIDTH)
    lines: list[Text] = []
    server: str | None = ""
    for tool in tools[:limit]:
        if tool.server != server:
            server = tool.server
            count = sum(1 for other in tools if other.server == server)
            title = safe_line(server or "functions", 64)
            lines.append(
                Text.assemble((title, "user"), (f"  {counted(count, 'tool')}", "dim"))
            )
        mark = " "
        if tool.name in offered:
            mark = "+"
        name = column(safe_line(tool.name, name_width), name_width)
        cost = f" {definition_tokens(tool):>6,}  "
        about = _fitting(tool.description, width - name_width - 11)
        lines.append(
            Text.assemble((f"{mark} ", "ok"), (name, "tool"), (cost, "dim"), about)
        )
    return lines


def detail_lines(tool: ToolDefinition, width: int, glyphs: Glyphs) -> list[Text]:
    """Return all lines about one tool."""
    origin = "local function"
    if tool.server:
        origin = f"server {safe_line(tool.server, 64)}"
    if tool.server and tool.original_name not in ("", tool.name):
        origin += f" (there: {safe_line(tool.original_name, 64)})"
    facts = [origin, counted(definition_tokens(tool), "token")]
    if tool.read_only is not None:
        facts.append(
            "the server says it only reads"
            if tool.read_only
            else "the server says it can change things"
        )
    lines = [
        Text.assemble(
            (safe_line(tool.name, 64), "tool"), ("   " + ", ".join(facts), "dim")
        ),
        *behind_bar(safe_text(tool.description).strip(), glyphs, width),
    ]
    properties, needed = properties_of(tool.parameters), required_of(tool.parameters)
    if not properties:
        return [*lines, Text("no parameters", "dim")]
    rows: list[list[Cell]] = []
    for name, schema in properties.items():
        kind = type_words(schema, tool.parameters)
        if name not in needed:
            kind += ", optional"
        rows.append(_parameter_row(str(name), schema, kind, width))
    return [*lines, Text(""), *table(rows)]


_HOW: dict[str, str] = {
    "fuzzy": "similar spelling only",
    "exact": "by name",
    "regex": "by pattern",
    "closest": "no tool matches the pattern; closest by words",
}


def skill_names(agent: Agent) -> frozenset[str]:
    """Return the names of the agent's skills."""
    known = agent._runtime.tools.known
    return frozenset(name for name, tool in known.items() if tool.instructs)


def search_report(
    result: SearchResult,
    known: int,
    *,
    width: int,
    glyphs: Glyphs,
    explain: bool,
    catalogue: str = "",
    skills: Collection[str] = (),
) -> list[Text]:
    """Return a search's results as a table; with `explain`, also the matched words and fields.

    `catalogue` describes the searched tools; `skills` are the names of tools that are skills.
    """
    head = []
    if catalogue:
        head = [catalogue]
    head.append(_matching(result, known))
    if result.how not in ("ranked", "none"):
        head.append(_HOW[result.how])
    if result.matches and result.confidence == "low" and result.how != "closest":
        head.append(
            f"weak matches (odds {result.strength:.2f}, sure from {result.least:g})"
        )
    if result.unmatched_words:
        head.append(
            "not in any tool: " + safe_line(" ".join(result.unmatched_words), 80)
        )
    lines = [Text(f"  {glyphs.dot}  ".join(head), "dim")]
    lines += [
        Text(f"{glyphs.warning} {safe_line(text, 200)}", "warning")
        for text in (result.error, *result.notes)
        if text
    ]
    if not result.matches:
        return [*lines, Text(_no_match(result), "warning")]
    name_width = min(max(len(match.tool.name) for match in result.matches), NAME_WIDTH)
    title = f"  #  score  {column('tool', name_width)}  tokens  {'because' if explain else 'description'}"
    lines.append(Text(title, "dim"))
    for place, match in enumerate(result.matches, start=1):
        name = column(safe_line(match.tool.name, name_width), name_width)
        if explain:
            about = because(match)
        else:
            about = match.tool.description
        if match.tool.name in skills:
            about = f"skill: {about}"
        lines.append(
            Text.assemble(
                f"{place:>3}  {_score(match.score)}  ",
                (name, "tool"),
                (f"  {definition_tokens(match.tool):>6,}  ", "dim"),
                _fitting(about, width - name_width - 22),
            )
        )
    return lines


def _matching(result: SearchResult, known: int) -> str:
    """Return the number of matching tools, consistent with the rows below; similar tools that do not match are counted
    separately.
    """
    listed, tools = len(result.matches), counted(known, "tool")
    if result.found < listed:
        return f"{result.found} of {tools} match, the {listed} nearest"
    return f"{result.found} of {tools} match"


def catalogue_line(tools: Mapping[str, ToolDefinition], ages: Sequence[float]) -> str:
    """Return `527 tools, 69 servers, cached 3 h ago`.

    `ages` are the ages of cached lists in seconds.
    """
    servers = len({tool.server for tool in tools.values() if tool.server})
    parts = [counted(len(tools), "tool"), counted(servers, "server")]
    return ", ".join([*parts, f"cached {age(max(ages))} ago"] if ages else parts)


def cost_line(tools: Sequence[ToolDefinition], everything: int) -> str:
    """Return the cost of adding the first tools of a search; `everything` is the cost of all known tools."""
    some = sum(map(definition_tokens, tools))
    if len(tools) == 1:
        which = "1"
    else:
        which = f"1-{len(tools)}"
    return (
        f"adding {which} takes {some:,} tokens; all known tools: {everything:,} tokens"
    )


def learned_lines(uses: Sequence[UsageCounts], *, width: int, now: float) -> list[Text]:
    """Return one line for each tool and query: time, counts of calls and additions, and the query's words."""
    name_width = min(max((len(use.tool.label) for use in uses), default=0), NAME_WIDTH)
    lines = [
        Text(f"{'last':>8}  called  added  {column('tool', name_width)}  query", "dim")
    ]
    for use in uses:
        when = f"{age(now - use.last_seconds):>8}"
        name = column(safe_line(use.tool.label, name_width), name_width)
        query = _fitting(use.query, width - name_width - 27)
        lines.append(
            Text.assemble(
                f"{when}  {use.called:>6}  {use.added:>5}  ",
                (name, "tool"),
                f"  {query}",
            )
        )
    return lines


def _no_match(result: SearchResult) -> str:
    near = ", ".join(safe_line(name, 64) for name in result.nearest)
    near_names = ""
    if near:
        near_names = f"; nearest: {near}"
    if result.strength < result.least:
        return f"no confident match (best {result.strength:.2f}, needed {result.least:g}){near_names}"
    return f"no match{near_names}"


def _score(score: float) -> str:
    """Return the score as text: fused scores are at most about 2, BM25 scores reach 30 and more, exact names 1,000."""
    if score < 10:
        return f"{score:>5.2f}"
    if score < 1000:
        return f"{score:>5.1f}"
    return f"{score:>5.0f}"


def because(match: Match) -> str:
    """Return `train(name,param) ticket(param)`, the word with the highest weight first."""
    fields: dict[str, list[str]] = {}
    for found in match.reasons:
        fields.setdefault(found.word, []).append(found.field)
    return " ".join(
        f"{word}({','.join(dict.fromkeys(where))})" for word, where in fields.items()
    )


def tool_document(tool: ToolDefinition) -> dict[str, Any]:
    """Return one tool's document for --json."""
    return {
        "name": tool.name,
        "server": tool.server,
        "original_name": tool.original_name or tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "read_only": tool.read_only,
        "tokens": definition_tokens(tool),
    }


def hiding_lists(
    servers: Iterable[ServerConfig], name: str
) -> Iterator[tuple[ServerConfig, str]]:
    """Yield the servers whose entry hides a tool of this name, each with the key of the list that hides it."""
    for server in servers:
        own = name.removeprefix(f"{server.name}.").removeprefix(f"{server.name}__")
        if any(fits(own, glob) for glob in server.disabled_tools):
            yield server, "disabledTools"
        elif own == name or not server.enabled_tools:
            continue
        elif not any(fits(own, glob) for glob in server.enabled_tools):
            yield server, "enabledTools"


def meant_tool(agent: Agent, name: str) -> Tool | None:
    """Return the tool of this name, also in the form `server.tool` that users type; or None."""
    return agent._runtime.tools.find(name) or agent._runtime.tools.find(
        name.replace(".", "__", 1)
    )


def unknown_tool(
    agent: Agent, name: str, otherwise: str = "see mcpagent tools list"
) -> str:
    """Return one line about an unknown tool, with similar names; `otherwise` names the source of all names."""
    return f'no tool "{safe_line(name, 64)}"; {did_you_mean(agent._runtime.tools.near(name), otherwise)}'


def not_connected_lines(agent: Agent) -> list[Text]:
    """Return one line that names the servers that were not searched; [] if all were searched."""
    down = [
        f"{safe_line(name, 64)} ({reason(name, why)})"
        for name, why in agent._runtime.tools.unavailable.items()
    ]
    if down:
        return [Text(f"not searched: {'; '.join(down)}", "warning")]
    return []


def _fitting(text: str, room: int) -> str:
    """Return the text cut to the `room` left in the line; "" if too little would fit."""
    if room >= MIN_WORDS_WIDTH:
        return safe_line(text, room)
    return ""


def _parameter_row(name: str, schema: Any, kind: str, width: int) -> list[Cell]:
    """Return name, type and description of a parameter as cells."""
    if not isinstance(schema, Mapping):
        schema = {}
    if "default" in schema:
        kind += f", default {safe_line(json.dumps(schema['default'], default=str, ensure_ascii=False), 30)}"
    about = safe_line(str(schema.get("description") or ""), max(width - 30, 40))
    return [(f"  {safe_line(name, 40)}", "user"), (kind, "dim"), about]
