"""`mcpagent tools list|show|search`: the catalogue, without a model."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from mcpagent.cli.agents import connected_without_model, require_a_server
from mcpagent.cli.configuration import load_configuration
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted
from mcpagent.cli.headless import write_out
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.cli.tool_views import because, detail_lines, filtered, list_lines, search_report, tool_document
from mcpagent.errors import InputError
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line
from mcpagent.search import SearchResult


def list_tools(options: Options, words: str) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        async with connected_without_model(options, load_configuration(options), terminal) as agent:
            require_a_server(agent)
            tools = filtered(agent.known_tools, words)
            if options.output is OutputFormat.json:
                _write_json([tool_document(tool) for tool in tools])
                return ExitCode.OK
            put(terminal.out, *list_lines(tools, width=terminal.out.width))
            total = agent.catalog.tokens(tool.name for tool in tools)
            terminal.out.print(
                f"{counted(len(tools), 'tool')}, {counted(total, 'token')} when all are offered", style="dim"
            )
            return ExitCode.OK if tools else ExitCode.ERROR

    return asyncio.run(show())


def show_tool(options: Options, name: str) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        async with connected_without_model(options, load_configuration(options), terminal) as agent:
            require_a_server(agent)
            tool = agent.catalog.find(name) or agent.catalog.find(name.replace(".", "__", 1))
            if tool is None:
                raise InputError(unknown_tool(name, agent.catalog.near(name)))
            if options.output is OutputFormat.json:
                _write_json(tool_document(tool.definition))
            else:
                put(terminal.out, *detail_lines(tool.definition, terminal.out.width))
            return ExitCode.OK

    return asyncio.run(show())


def search_tools(options: Options, query: str, limit: int, *, explain: bool) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        async with connected_without_model(options, load_configuration(options), terminal) as agent:
            require_a_server(agent)
            result = await agent.search(query, limit)
            known = len(agent.known_tools)
            if options.output is OutputFormat.json:
                _write_json(search_document(result, known))
            else:
                lines = search_report(result, known, width=terminal.out.width, glyphs=terminal.glyphs, explain=explain)
                put(terminal.out, *lines)
                _say_cost(terminal, [match.tool for match in result.matches], agent.catalog)
            return ExitCode.OK if result.matches else ExitCode.ERROR

    return asyncio.run(show())


def unknown_tool(name: str, near: tuple[str, ...]) -> str:
    hint = f"did you mean {', '.join(near)}?" if near else "see mcpagent tools list"
    return f'no tool "{safe_line(name, 64)}"; {hint}'


def search_document(result: SearchResult, known: int) -> dict[str, Any]:
    """A search for --json."""
    return {
        "query": result.query,
        "known": known,
        "found": result.found,
        "how": result.how,
        "error": result.error or None,
        "notes": list(result.notes),
        "nearest": list(result.nearest),
        "unmatched_words": list(result.unmatched_words),
        "matches": [
            {**tool_document(match.tool), "score": round(match.score, 3), "because": because(match)}
            for match in result.matches
        ],
    }


def _say_cost(terminal: Terminal, tools: list[ToolDefinition], catalog: Any) -> None:
    if not tools:
        return
    some = catalog.tokens(tool.name for tool in tools)
    everything = catalog.tokens(catalog.known)
    put(terminal.out, f"adding these costs {some:,} tokens; offering every tool {everything:,}", style="dim")


def _write_json(data: Any) -> None:
    write_out(json.dumps(data, indent=2, default=str) + "\n")
