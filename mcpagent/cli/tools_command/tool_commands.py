"""`mcpagent tools`: commands about the tools of the servers, without a model."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from rich.text import Text as Styled

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode, within
from mcpagent.cli.common.number_formats import counted, saving
from mcpagent.cli.common.options import Options, TokensBy
from mcpagent.cli.oneshot.agent_options import known_tools, search_history
from mcpagent.cli.oneshot.json_report import content_document
from mcpagent.cli.screen.rendering import Activity
from mcpagent.cli.screen.terminal import (
    Terminal,
    open_terminal,
    put,
    write_json,
    write_out,
)
from mcpagent.cli.tools_command.tool_checks import (
    evaluate,
    lint,
    lint_searches,
    read_json,
    read_questions,
)
from mcpagent.cli.tools_command.tool_views import (
    NAME_WIDTH,
    because,
    catalogue_line,
    cost_line,
    detail_lines,
    learned_lines,
    list_lines,
    meant_tool,
    not_connected_lines,
    search_report,
    skill_names,
    tool_document,
    tools_with_words,
    unknown_tool,
)
from mcpagent.errors import InputError
from mcpagent.gateway.gateway_log import failed_searches, log_folder, read_events
from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.run.validation import fitted, held_to_promise
from mcpagent.search import SearchResult, call_signature
from mcpagent.utilities.json_schema.parts import properties_of
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput

CALL_SECONDS = 300.0
Given = ParamSpec("Given")


def _with_tools(
    work: Callable[Concatenate[Agent, Terminal, Options, Given], Awaitable[ExitCode]],
) -> Callable[Concatenate[Options, Given], ExitCode]:
    """Decorate a command, so that it runs with a started agent; besides the command's output, only failures are
    reported.
    """

    @wraps(work)
    def command(
        options: Options, /, *given: Given.args, **named: Given.kwargs
    ) -> ExitCode:
        async def run() -> ExitCode:
            terminal = open_terminal(options.color)
            async with known_tools(options, terminal) as agent:
                return await work(agent, terminal, options, *given, **named)

        return asyncio.run(run())

    return command


@_with_tools
async def list_tools(
    agent: Agent, terminal: Terminal, options: Options, words: str
) -> ExitCode:
    """Run `mcpagent tools list`. Exit code 1: no tool has these words."""
    tools = tools_with_words(agent.known_tools, words)
    total = agent._runtime.tools.tokens(tool.name for tool in tools)
    summary = (
        f"{counted(len(tools), 'tool')}, {counted(total, 'token')} when all are offered"
    )
    lines = [*list_lines(tools, width=terminal.out.width), Styled(summary, "dim")]
    terminal.report(options, [tool_document(tool) for tool in tools], *lines)
    if tools or options.output == "json":
        return ExitCode.OK
    return ExitCode.ERROR


@_with_tools
async def show_tool(
    agent: Agent, terminal: Terminal, options: Options, name: str
) -> ExitCode:
    """Run `mcpagent tools show`. Raises `InputError` for an unknown tool."""
    tool = tool_named(agent, name).definition
    terminal.report(
        options,
        tool_document(tool),
        *detail_lines(tool, terminal.out.width, terminal.glyphs),
    )
    return ExitCode.OK


@_with_tools
async def search_tools(
    agent: Agent,
    terminal: Terminal,
    options: Options,
    query: str,
    limit: int | None,
    *,
    explain: bool,
) -> ExitCode:
    """Run `mcpagent tools search`. Exit code 1: nothing found."""
    result = await agent.search(query, limit)
    known = len(agent.known_tools)
    ages = [
        status.age_seconds
        for status in agent.servers.values()
        if status.state == "cached"
    ]
    catalogue = ""
    if explain:
        catalogue = catalogue_line(agent.known_tools, ages)
    width, glyphs = terminal.out.width, terminal.glyphs
    skills = skill_names(agent)
    lines = search_report(
        result,
        known,
        width=width,
        glyphs=glyphs,
        explain=explain,
        catalogue=catalogue,
        skills=skills,
    )
    if tools := [match.tool for match in result.matches]:
        lines.append(
            Styled(
                cost_line(
                    tools, agent._runtime.tools.tokens(agent._runtime.tools.known)
                ),
                "dim",
            )
        )
    terminal.report(
        options,
        _search_document(result, known, skills),
        *lines,
        *not_connected_lines(agent),
    )
    if result.matches:
        return ExitCode.OK
    return ExitCode.ERROR


def show_learned(options: Options, *, clear: bool) -> ExitCode:
    """Show the recorded searches, the latest first; `clear` deletes them. Raises `InputError` for a broken file."""
    history = search_history(options)
    terminal = open_terminal(options.color)
    try:
        uses = history.uses()
        if clear:
            history.clear()
    except (sqlite3.Error, OSError) as error:
        raise InputError(
            f"{history.path}: cannot be read: {safe_line(str(error), 120)}; delete the file"
        ) from None
    lines: Sequence[Styled | str] = learned_lines(
        uses, width=terminal.out.width, now=time.time()
    )
    if clear:
        lines = [f"forgot {counted(len(uses), 'use')}"]
    elif not uses:
        lines = [
            "nothing learned yet: --set learn=true, or MCPAGENT_LEARN=1, keeps which tools served which queries"
        ]
    document = {
        "file": str(history.path),
        "cleared": clear,
        "uses": [asdict(use) | {"tool": use.tool.label} for use in uses],
    }
    terminal.report(options, document, *lines)
    return ExitCode.OK


@_with_tools
async def count_tokens(
    agent: Agent, terminal: Terminal, options: Options, by: TokensBy, top: int
) -> ExitCode:
    """Print the tokens of the tool definitions in each request, with all tools offered and with tool search."""
    totals: Counter[str] = Counter()
    for name, tool in agent.known_tools.items():
        totals[name if by == "tool" else tool.server or "functions"] += (
            agent._runtime.tools.tokens([name])
        )
    costs = dict(
        sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    )  # the most expensive first
    everything = agent._runtime.tools.tokens(agent._runtime.tools.known)
    with_search = agent._runtime.tools.tokens(
        tool.name for tool in agent.offered_tools()
    )
    width = min(max(map(len, costs), default=0), NAME_WIDTH)
    lines: list[Styled | str] = [
        f"{cost:>9,}  {100 * cost / max(everything, 1):>4.0f}%  {safe_line(name, width)}"
        for name, cost in list(costs.items())[:top]
    ]
    if len(costs) > top:
        rest = sum(list(costs.values())[top:])
        lines.append(Styled(f"{rest:>9,}        {len(costs) - top:,} more", "dim"))
    known, less = (
        counted(len(agent._runtime.tools.known), "tool"),
        saving(with_search, everything),
    )
    lines += [
        f"{everything:>9,}  tokens in every request that offers all {known} (characters / 4)",
        f"{with_search:>9,}  with tool search{f' ({less})' if less else ''}, and what the model adds",
    ]
    document = {
        "by": by,
        "tokens": costs,
        "everything": everything,
        "with_tool_search": with_search,
    }
    terminal.report(options, document, *lines)
    return ExitCode.OK


_WRITTEN_CALL = re.compile(r"([\w.-]+)\((.*)\)", re.DOTALL)


@_with_tools
async def call_tool(
    agent: Agent,
    terminal: Terminal,
    options: Options,
    name: str,
    words: Sequence[str],
    whole: str | None,
) -> ExitCode:
    """Call one tool and write its output: the text, or with --json everything. No model is called.

    `whole` is a JSON object of arguments from stdin, or None.
    """
    if options.timeout is not None:
        seconds = options.timeout
    else:
        seconds = CALL_SECONDS
    if (called := _WRITTEN_CALL.fullmatch(name)) is not None:
        given = " ".join(re.split(r"\s*,\s*", called[2].strip()))
        line = safe_line(f"mcpagent tools call {called[1]} {given}", 300)
        raise InputError(f"arguments are words of their own: {line}")
    tool = tool_named(agent, name)
    arguments = read_arguments(words, tool.definition.parameters, whole)
    signature = call_signature(tool.definition)
    if misspelt := misspelt_names(arguments, tool.definition.parameters):
        raise InputError(f"{misspelt} signature: {signature}")
    arguments, judged = await fitted(tool.definition.parameters, arguments)
    if judged.problem:
        raise InputError(
            f"the arguments do not fit: {safe_line(judged.problem, 300)}; signature: {signature}"
        )
    if judged.unchecked:
        terminal.warn(
            f"the arguments are not checked; the schema of {tool.name}: {judged.unchecked}"
        )
    activity = Activity(terminal.err, terminal.glyphs)
    try:
        with activity.showing(f"calling {safe_line(tool.name, 60)}"):
            async with within(seconds, f"{tool.name} gave no answer"):
                output = await held_to_promise(tool, await tool.run(arguments))
    except (asyncio.CancelledError, TimeoutError):
        terminal.warn(f"{tool.name} was under way when it was stopped: it may have run")
        raise
    if options.output == "json":
        write_json({"content": content_document(output.content), "error": output.error})
    else:
        _write_content(output, terminal)
    if output.error is None:
        return ExitCode.OK
    return ExitCode.ERROR


def _write_content(output: ToolOutput, terminal: Terminal) -> None:
    """Write the texts: printable on a terminal; into a pipe as a model receives them, without control characters."""
    texts = [part.text for part in output.content if isinstance(part, Text)]
    text = "\n".join(texts)
    if output.error is not None:
        put(terminal.err, safe_text(text) or output.error, style="error")
    elif text:
        if terminal.out.is_terminal:
            shown = safe_text(text)
        else:
            shown = for_model(text)
        write_out(shown if shown.endswith("\n") else shown + "\n")
    for part in output.content:
        if not isinstance(part, Text):
            details = safe_line(details_of(part), 200)
            line = f"{file_kind(part)} not shown: {details}; --json has it"
            put(terminal.err, line, style="dim")


@_with_tools
async def lint_tools(agent: Agent, terminal: Terminal, options: Options) -> ExitCode:
    """Report properties that keep a model from finding or using a tool. Exit code 1: there are some."""
    findings = await lint(agent)
    failed = failed_searches(read_events(log_folder(options.environ)))
    findings += await lint_searches(agent, failed)
    lines = [
        Styled.assemble(
            (finding.tool, "tool"), f"  {finding.kind}: {safe_line(finding.text, 600)}"
        )
        for finding in findings
    ]
    known = len(agent.known_tools)
    tools = len({finding.tool for finding in findings} - {""})
    total = f"no findings in {counted(known, 'tool')}"
    if findings:
        found = counted(len(findings), "finding")
        total = f"{found} on {tools} of {counted(known, 'tool')}"
    lines.append(Styled(total, "dim"))
    terminal.report(options, [asdict(finding) for finding in findings], *lines)
    if findings:
        return ExitCode.ERROR
    return ExitCode.OK


@_with_tools
async def evaluate_search(
    agent: Agent,
    terminal: Terminal,
    options: Options,
    path: Path,
    within: int,
    least: float,
) -> ExitCode:
    """Measure how many wanted tools the search finds. Exit code 1: the average recall is below `least`."""
    found = await evaluate(agent, read_questions(path, agent), within)
    recalls = {
        depth: sum(item.recall(depth) for item in found) / len(found)
        for depth in {1, within}
    }
    queries = [
        {"query": item.query, "places": item.places, "recall": item.recall(within)}
        for item in found
    ]
    figures = "  ".join(
        f"recall@{depth} {value:.3f}" for depth, value in sorted(recalls.items())
    )
    lines: list[Styled | str] = []
    for item in found:
        if missed := [name for name, place in item.places.items() if place is None]:
            failed, query = (
                (f"{terminal.glyphs.failed} ", "error"),
                (safe_line(item.query, 80), "user"),
            )
            instead = (f"; found {', '.join(item.instead) or 'nothing'}", "dim")
            lines.append(
                Styled.assemble(
                    failed, query, f"  not found: {', '.join(missed)}", instead
                )
            )
    lines.append(f"{figures}  over {len(found)} queries")
    document = {
        "recall": {f"at_{depth}": value for depth, value in recalls.items()},
        "queries": queries,
    }
    terminal.report(options, document, *lines)
    if recalls[within] >= least:
        return ExitCode.OK
    return ExitCode.ERROR


def tool_named(agent: Agent, name: str) -> Tool:
    """Return the tool that the user means. Raises `InputError` with similar names."""
    tool = meant_tool(agent, name)
    if tool is None:
        raise InputError(unknown_tool(agent, name))
    return tool


def _search_document(
    result: SearchResult, known: int, skills: Collection[str]
) -> dict[str, Any]:
    return {
        "query": result.query,
        "known": known,
        "found": result.found,
        "how": result.how,
        "error": result.error or None,
        "notes": list(result.notes),
        "nearest": list(result.nearest),
        "unmatched_words": list(result.unmatched_words),
        "confidence": result.confidence if result.matches else None,
        "strength": result.strength if math.isfinite(result.strength) else None,
        "least": result.least,
        "matches": [
            {
                **tool_document(match.tool),
                "kind": "skill" if match.tool.name in skills else "tool",
                "odds": match.odds,
                "score": round(match.score, 3),
                "because": because(match),
            }
            for match in result.matches
        ],
    }


# -- Arguments of a tool -----------------------------------------------------------------------------------------------


def read_arguments(
    words: Sequence[str], parameters: Mapping[str, Any], whole: str | None = None
) -> dict[str, Any]:
    """Return the arguments; `whole` is a JSON object (or None) to which the words are added.

    `name=value` is text, or a number or boolean if the tool's schema allows nothing else for that name; `name:=value`
    is JSON. Raises `InputError`.
    """
    arguments = {}
    if whole is not None:
        arguments = read_json(whole, "the arguments")
    if not isinstance(arguments, dict):
        raise InputError('the arguments: expected a JSON object, {"name": value}')
    known = properties_of(parameters)
    for word in words:
        name, equals, value = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise InputError(
                f'argument "{safe_line(word, 60)}": write name=text or name:=JSON'
            )
        if is_json:
            arguments[name] = read_json(value, safe_line(name, 60))
        else:
            arguments[name] = _typed(value, known.get(name))
    return arguments


def misspelt_names(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """Return a sentence about an unknown argument that resembles a missing parameter, or "".

    Most schemas allow additional names, so the tool would run without the intended argument.
    """
    known = properties_of(parameters)
    free = [name for name in known if name not in arguments]
    for name in arguments:
        if name in known:
            continue
        near = get_close_matches(name[:80], free, n=1)
        if near:
            return f'no parameter "{safe_line(name, 60)}"; {did_you_mean(near)}'
    return ""


def _typed(text: str, schema: Any) -> Any:
    kind = None
    if isinstance(schema, Mapping):
        kind = schema.get("type")
    if kind not in ("integer", "number", "boolean"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    wanted: tuple[type, ...] = {
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
    }[kind]
    fits = isinstance(value, wanted) and (kind == "boolean") == isinstance(value, bool)
    if fits:
        return value
    return text
