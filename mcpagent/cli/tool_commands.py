"""`mcpagent tools`: the catalogue, without a model."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text as Styled

from mcpagent.cli.agents import known_tools, search_history
from mcpagent.cli.arguments import read_arguments
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted, saving
from mcpagent.cli.lines import reason as reason_of
from mcpagent.cli.options import Options, OutputFormat, TokensBy, ToolSearchMode
from mcpagent.cli.output import content_document
from mcpagent.cli.stdout import write_json, write_out
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.cli.tool_views import (
    NAME_WIDTH,
    because,
    catalogue_line,
    cost_line,
    detail_lines,
    filtered,
    learned_lines,
    list_lines,
    search_report,
    tool_document,
)
from mcpagent.errors import InputError
from mcpagent.messages import Text
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.search import SearchResult, call_signature
from mcpagent.tools import Tool, ToolOutput
from mcpagent.validation import argument_problem

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.tool_checks import Outcome

CALL_SECONDS = 300.0


def list_tools(options: Options, words: str) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        async with known_tools(options, terminal) as agent:
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
        async with known_tools(options, terminal) as agent:
            tool = tool_named(agent, name)
            if options.output is OutputFormat.json:
                _write_json(tool_document(tool.definition))
            else:
                put(terminal.out, *detail_lines(tool.definition, terminal.out.width))
            return ExitCode.OK

    return asyncio.run(show())


def search_tools(options: Options, query: str, limit: int, *, explain: bool) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        async with known_tools(options, terminal) as agent:
            result = await agent.search(query, limit)
            known = len(agent.known_tools)
            if options.output is OutputFormat.json:
                _write_json(search_document(result, known))
            else:
                ages = [status.age_seconds for status in agent.servers.values() if status.state == "cached"]
                catalogue = catalogue_line(agent.known_tools, ages) if explain else ""
                width, glyphs = terminal.out.width, terminal.glyphs
                put(
                    terminal.out,
                    *search_report(result, known, width=width, glyphs=glyphs, explain=explain, catalogue=catalogue),
                )
                if tools := [match.tool for match in result.matches]:
                    put(terminal.out, cost_line(tools, agent.catalog.tokens(agent.catalog.known)), style="dim")
                put(terminal.out, *not_connected_lines(agent))
            return ExitCode.OK if result.matches else ExitCode.ERROR

    return asyncio.run(show())


def show_learned(options: Options, *, clear: bool) -> ExitCode:
    """What is kept of earlier searches, the latest first; `clear` forgets it. Raises `InputError` for a broken file."""
    import sqlite3

    history = search_history(options)
    terminal = open_terminal(options.color, os.environ)
    try:
        uses = history.uses()
        if clear:
            history.clear()
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"{history.path}: cannot be read: {safe_line(str(error), 120)}; delete the file") from None
    if options.output is OutputFormat.json:
        _write_json({"file": str(history.path), "cleared": clear, "uses": [asdict(use) for use in uses]})
    elif clear:
        put(terminal.out, f"forgot {counted(len(uses), 'use')}")
    elif uses:
        put(terminal.out, *learned_lines(uses, width=terminal.out.width, now=time.time()))
    else:
        put(terminal.out, "nothing learned yet: --learn, or MCPAGENT_LEARN=1, keeps which tools served which queries")
    return ExitCode.OK


def count_tokens(options: Options, by: TokensBy, top: int) -> ExitCode:
    """What the definitions cost: everything in each request, against what tool search sends."""
    terminal = open_terminal(options.color, os.environ)

    async def show() -> ExitCode:
        searching = replace(options, tool_search=ToolSearchMode.on)
        async with known_tools(searching, terminal) as agent:
            costs = _costs(agent, by)
            everything = agent.catalog.tokens(agent.catalog.known)
            with_search = agent.catalog.tokens(tool.name for tool in agent.offered_tools())
            if options.output is OutputFormat.json:
                _write_json(
                    {"by": by.value, "tokens": costs, "everything": everything, "with_tool_search": with_search}
                )
                return ExitCode.OK
            width = min(max((len(name) for name in costs), default=0), NAME_WIDTH)
            for name, cost in list(costs.items())[:top]:
                put(terminal.out, f"{cost:>9,}  {100 * cost / max(everything, 1):>4.0f}%  {safe_line(name, width)}")
            if len(costs) > top:
                put(
                    terminal.out, f"{sum(list(costs.values())[top:]):>9,}        {len(costs) - top:,} more", style="dim"
                )
            known = counted(len(agent.catalog.known), "tool")
            less = saving(with_search, everything)
            put(
                terminal.out,
                f"{everything:>9,}  tokens in every request that offers all {known} (characters / 4)",
                f"{with_search:>9,}  with tool search{f' ({less})' if less else ''}, and what the model adds",
            )
            return ExitCode.OK

    return asyncio.run(show())


def _costs(agent: Agent, by: TokensBy) -> dict[str, int]:
    """Tokens by name, the dearest first."""
    costs: dict[str, int] = {}
    for name, tool in agent.known_tools.items():
        key = name if by is TokensBy.tool else tool.server or "functions"
        costs[key] = costs.get(key, 0) + agent.catalog.tokens([name])
    return dict(sorted(costs.items(), key=lambda item: (-item[1], item[0])))


def call_tool(options: Options, name: str, words: Sequence[str], whole: str | None) -> ExitCode:
    """Calls one tool and writes what it gave: its text, or with --json all of it. No model is asked."""
    terminal = open_terminal(options.color, os.environ)
    seconds = options.timeout if options.timeout is not None else CALL_SECONDS

    async def call() -> ExitCode:
        async with known_tools(options, terminal) as agent:
            tool = tool_named(agent, name)
            arguments = read_arguments(words, tool.definition.parameters, whole)
            if problem := argument_problem(tool.definition.parameters, arguments):
                signature = call_signature(tool.definition)
                raise InputError(f"the arguments do not fit: {safe_line(problem, 300)}; signature: {signature}")
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    output = await tool.run(arguments)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise TimeoutError(f"{tool.name} gave no answer within {seconds:g} s (--timeout)") from None
        if options.output is OutputFormat.json:
            _write_json({"content": content_document(output.content), "error": output.error})
        else:
            _write_content(output, terminal)
        return ExitCode.OK if output.error is None else ExitCode.ERROR

    return asyncio.run(call())


def _write_content(output: ToolOutput, terminal: Terminal) -> None:
    """The texts as they are into a pipe, made safe on a terminal; an error's go to stderr."""
    texts = [part.text for part in output.content if isinstance(part, Text)]
    text = "\n".join(texts)
    if output.error is not None:
        put(terminal.err, safe_text(text) or output.error, style="error")
    elif text:
        shown = safe_text(text) if terminal.out.is_terminal else text
        write_out(shown if shown.endswith("\n") else shown + "\n")
    if images := len(output.content) - len(texts):
        put(terminal.err, f"{counted(images, 'image')} not shown; --json has them", style="dim")


def lint_tools(options: Options) -> ExitCode:
    """What keeps a model from finding or using a tool. Exit code 1: there is something."""
    from mcpagent.cli.tool_checks import lint

    terminal = open_terminal(options.color, os.environ)

    async def check() -> ExitCode:
        async with known_tools(options, terminal) as agent:
            findings = await lint(agent)
            if options.output is OutputFormat.json:
                _write_json([asdict(finding) for finding in findings])
            else:
                for finding in findings:
                    put(
                        terminal.out,
                        Styled.assemble((finding.tool, "tool"), f"  {finding.kind}: {safe_line(finding.text, 240)}"),
                    )
                tools = len({finding.tool for finding in findings})
                total = counted(len(findings), "finding")
                put(terminal.out, f"{total} on {tools} of {counted(len(agent.known_tools), 'tool')}", style="dim")
            return ExitCode.ERROR if findings else ExitCode.OK

    return asyncio.run(check())


def evaluate_search(options: Options, path: Path, within: int, least: float) -> ExitCode:
    """How many of the wanted tools the search finds. Exit code 1: less than `least` of them, on average."""
    from mcpagent.cli.tool_checks import evaluate, read_questions

    terminal = open_terminal(options.color, os.environ)

    async def run() -> ExitCode:
        async with known_tools(options, terminal) as agent:
            outcomes = await evaluate(agent, read_questions(path, agent), within)
        recalls = {depth: sum(item.recall(depth) for item in outcomes) / len(outcomes) for depth in {1, within}}
        if options.output is OutputFormat.json:
            queries = [
                {"query": item.question.query, "places": item.places, "recall": item.recall(within)}
                for item in outcomes
            ]
            _write_json({"recall": {f"at_{depth}": value for depth, value in recalls.items()}, "queries": queries})
        else:
            _tell_misses(outcomes, terminal)
            figures = "  ".join(f"recall@{depth} {value:.3f}" for depth, value in sorted(recalls.items()))
            put(terminal.out, f"{figures}  over {len(outcomes)} queries")
        return ExitCode.OK if recalls[within] >= least else ExitCode.ERROR

    return asyncio.run(run())


def _tell_misses(outcomes: Sequence[Outcome], terminal: Terminal) -> None:
    for item in outcomes:
        missed = [name for name, place in item.places.items() if place is None]
        if missed:
            instead = f"; found {', '.join(item.instead)}" if item.instead else "; found nothing"
            line = Styled.assemble(
                (f"{terminal.glyphs.failed} ", "error"),
                (safe_line(item.question.query, 80), "user"),
                f"  not found: {', '.join(missed)}",
                (instead, "dim"),
            )
            put(terminal.out, line)


def tool_named(agent: Agent, name: str) -> Tool:
    """The tool that a person means. Raises `InputError` with near names."""
    tool = agent.catalog.find(name) or agent.catalog.find(name.replace(".", "__", 1))
    if tool is None:
        raise InputError(unknown_tool(name, agent.catalog.near(name)))
    return tool


def not_connected_lines(agent: Agent) -> list[Styled]:
    """One line that says which servers could not be searched, if any."""
    down = [f"{safe_line(name, 64)} ({reason_of(name, why)})" for name, why in agent.catalog.unavailable.items()]
    return [Styled(f"not searched: {'; '.join(down)}", "warning")] if down else []


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
        "strength": result.strength if math.isfinite(result.strength) else None,
        "least": result.least,
        "matches": [
            {**tool_document(match.tool), "score": round(match.score, 3), "because": because(match)}
            for match in result.matches
        ],
    }


def _write_json(data: Any) -> None:
    write_json(data)
