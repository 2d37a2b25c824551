"""`mcpagent tools examples`: list, add and remove example requests of tools, or let a model suggest them.

The user's own examples and suggested ones are in one file, under "server.tool" or a hash of the tool's texts. Learned
examples are in the search history.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted, money
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import (
    example_file,
    known_tools,
    model_of,
    search_history,
)
from mcpagent.cli.screen.terminal import (
    Terminal,
    is_a_terminal,
    open_terminal,
    put,
    typed_line,
)
from mcpagent.cli.tools_command.describing import (
    TOKENS_PER_TOOL,
    TOOLS_AT_ONCE,
    describing_request,
    requests_in,
)
from mcpagent.errors import InputError
from mcpagent.models.base import Model
from mcpagent.models.prices import dollars_for
from mcpagent.models.resolve import resolve_model
from mcpagent.search.examples import (
    LONGEST_EXAMPLE,
    MOST_EXAMPLES,
    content_key,
    read_examples,
    shipped_examples,
    write_examples,
)
from mcpagent.search.fields import local_name
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN
from mcpagent.utilities.text.safe_text import listed, safe_line
from mcpagent.values.events import ignore
from mcpagent.values.messages import ToolDefinition, Usage


def suggest_examples(
    options: Options, servers: Sequence[str], *, yes: bool, again: bool
) -> ExitCode:
    """Report the cost, ask, and let the model write examples; exit code 1 if the user declines, or tools remain without
    examples.
    """
    return asyncio.run(_describe(options, servers, yes=yes, again=again))


async def _describe(
    options: Options, servers: Sequence[str], *, yes: bool, again: bool
) -> ExitCode:
    terminal = open_terminal(options.color)
    path = example_file(options)
    written = read_examples(path)
    async with known_tools(options, terminal) as agent:
        tools = _tools_of(agent, servers)
    left = [
        tool
        for tool in tools
        if again or not (shipped_examples(tool) or content_key(tool) in written)
    ]
    if not left:
        terminal.report(
            options,
            _document(tools, 0, 0.0),
            f"all {counted(len(tools), 'tool')} have requests already",
        )
        return ExitCode.OK
    model = resolve_model(model_of(options))
    try:
        if model.name.startswith("offline"):
            raise InputError(
                "tools examples: the offline stand-in cannot write; name a model, -m provider:model"
            )
        batches = [
            left[start : start + TOOLS_AT_ONCE]
            for start in range(0, len(left), TOOLS_AT_ONCE)
        ]
        put(terminal.err, _cost_line(model, batches))
        if not (yes or _agreed(terminal)):
            put(
                terminal.err,
                "nothing was asked; --yes does it without a question",
                style="dim",
            )
            return ExitCode.ERROR
        done, spent = set[str](), 0.0
        for batch in batches:
            response = await model.respond(describing_request(batch), ignore)
            found = zip(
                map(content_key, batch),
                requests_in(response.message.text, batch),
                strict=True,
            )
            fresh = {key: texts for key, texts in found if texts}
            written |= fresh
            write_examples(
                path, written
            )  # store the paid examples, even if a later request fails
            done, spent = done | fresh.keys(), spent + (response.dollars or 0.0)
    finally:
        await model.aclose()
    missing = [tool.name for tool in left if content_key(tool) not in done]
    count = counted(len(left) - len(missing), "tool")
    cost = ""
    if spent:
        cost = f", {money(spent)}"
    line = f"requests for {count} in {safe_line(str(path), 200)}{cost}"
    terminal.report(options, _document(left, len(left) - len(missing), spent), line)
    if missing:
        terminal.warn(f"none were written for {listed(missing)}; run it again")
    if missing:
        return ExitCode.ERROR
    return ExitCode.OK


def list_examples(options: Options, names: Sequence[str]) -> ExitCode:
    """List the example requests of the named tools; without names, of all tools that have any. Exit code 1: there are
    no examples.
    """
    terminal = open_terminal(options.color)
    tools = asyncio.run(_tools_named(options, terminal, names))
    written = read_examples(example_file(options))
    rows = [
        (tool, source, text)
        for tool in tools
        for source, text in _examples_of(tool, written)
    ]
    try:
        learned = [
            (use.tool.label, "learned", use.query)
            for use in search_history(options).uses()
        ]
    except (sqlite3.Error, OSError) as error:
        learned = []
        terminal.warn(
            f"the history of searches cannot be read: {safe_line(str(error), 120)}"
        )
    wanted = {tool.key.label for tool in tools}
    found = [(_label(tool), source, text) for tool, source, text in rows]
    found += [row for row in learned if row[0] in wanted]
    lines = [
        f"{safe_line(name, 80)}  {source}  {safe_line(text, 200)}"
        for name, source, text in found
    ]
    document = {
        "examples": [
            {"tool": name, "source": source, "request": text}
            for name, source, text in found
        ]
    }
    terminal.report(
        options,
        document,
        *(lines or ["no tool has requests; mcpagent tools examples add or suggest"]),
    )
    if found:
        return ExitCode.OK
    return ExitCode.ERROR


def add_example(options: Options, name: str, request: str) -> ExitCode:
    """Add an example request to a tool. Raises `InputError` for an unknown tool, a blank request, or one too many."""
    terminal = open_terminal(options.color)
    (tool,) = asyncio.run(_tools_named(options, terminal, [name]))
    text = " ".join(request.split())
    if not text or len(text) > LONGEST_EXAMPLE:
        raise InputError(
            f"tools examples add: a request has 1 to {LONGEST_EXAMPLE} characters, not {len(text)}"
        )
    path, key = example_file(options), _label(tool)
    written = read_examples(path)
    held = written.get(key, ())
    if len(held) >= MOST_EXAMPLES and text not in held:
        raise InputError(
            f"{key}: has {MOST_EXAMPLES} requests already; remove one, mcpagent tools examples remove"
        )
    write_examples(path, written | {key: tuple(dict.fromkeys([*held, text]))})
    terminal.report(
        options,
        {"tool": key, "request": text},
        f"{safe_line(key, 80)}: {safe_line(text, 200)}",
    )
    return ExitCode.OK


def remove_examples(options: Options, name: str, request: str | None) -> ExitCode:
    """Remove one example request of a tool, or all except shipped ones; exit code 1 if nothing was removed."""
    terminal = open_terminal(options.color)
    (tool,) = asyncio.run(_tools_named(options, terminal, [name]))
    path = example_file(options)
    written = read_examples(path)
    kept = dict(written)
    removed: list[str] = []
    for key in (_label(tool), content_key(tool)):
        held = written.get(key, ())
        gone = [text for text in held if request is None or text == request]
        removed += gone
        kept[key] = tuple(text for text in held if text not in gone)
    if removed:
        write_examples(path, {key: texts for key, texts in kept.items() if texts})
    history = search_history(options)
    learned = [
        use.query
        for use in history.uses()
        if use.tool == tool.key and request in (None, use.query)
    ]
    if learned:
        history.forget(tool.key, learned)
    removed += learned
    document = {"tool": _label(tool), "removed": removed}
    terminal.report(
        options,
        document,
        f"removed {counted(len(removed), 'request')} of {safe_line(_label(tool), 80)}",
    )
    if removed:
        return ExitCode.OK
    return ExitCode.ERROR


async def _tools_named(
    options: Options, terminal: Terminal, names: Sequence[str]
) -> list[ToolDefinition]:
    """Return the tools of these names; without names, all tools. Raises `InputError` for an unknown name."""
    async with known_tools(options, terminal) as agent:
        tools = list(agent.known_tools.values())
    found: list[ToolDefinition] = []
    for name in names:
        fitting = [
            tool
            for tool in tools
            if name in (_label(tool), tool.name, local_name(tool))
        ]
        if len(fitting) != 1:
            problem = "no tool is"
            if fitting:
                problem = "several tools are"
            raise InputError(
                f'tools examples: {problem} called "{safe_line(name, 80)}"; mcpagent tools list shows all'
            )
        found += fitting
    return found or tools


def _examples_of(
    tool: ToolDefinition, written: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str]]:
    """Yield (source, text) for the example requests of a tool."""
    for source, texts in (
        ("yours", written.get(_label(tool), ())),
        ("suggested", written.get(content_key(tool), ())),
        ("shipped", shipped_examples(tool)),
    ):
        for text in texts:
            yield source, text


def _label(tool: ToolDefinition) -> str:
    """Return `server.tool`, under which the user's own requests are stored."""
    if tool.server:
        return f"{tool.server}.{local_name(tool)}"
    return tool.name


def _tools_of(agent: Agent, servers: Sequence[str]) -> list[ToolDefinition]:
    """Return the tools of these servers; without names, of all. Raises `InputError` for an unknown server."""
    known = {tool.server for tool in agent.known_tools.values()}
    if missing := [name for name in servers if name not in known]:
        there = listed(sorted(name for name in known if name))
        raise InputError(
            f"tools examples: no tools of {listed(missing)}; the servers are {there}"
        )
    return [
        tool
        for tool in agent.known_tools.values()
        if not servers or tool.server in servers
    ]


def _cost_line(model: Model, batches: Sequence[Sequence[ToolDefinition]]) -> str:
    requests = list(map(describing_request, batches))
    tools = sum(map(len, batches))
    read = (
        sum(len(request.system) + len(request.messages[0].text) for request in requests)
        // CHARACTERS_PER_TOKEN
    )
    writes = tools * TOKENS_PER_TOOL
    provider, _, name = model.name.partition(":")
    dollars = dollars_for(Usage(read, writes), provider, name, "")
    price = "price not known"
    if dollars is not None:
        price = f"about {money(dollars)}"
    asked = f"{counted(len(requests), 'request')} to {safe_line(model.name, 60)}"
    return f"{counted(tools, 'tool')}: {asked}, about {read:,} tokens in and {writes:,} out, {price}"


def _agreed(terminal: Terminal) -> bool:
    if not (is_a_terminal(sys.stdin) and is_a_terminal(sys.stderr)):
        return False
    terminal.err.file.write("ask it? [y] yes  [N] no ")
    terminal.err.file.flush()
    return typed_line().strip().lower() in ("y", "yes")


def _document(
    tools: Sequence[ToolDefinition], written: int, dollars: float
) -> dict[str, object]:
    return {"tools": len(tools), "written": written, "cost_usd": dollars}
