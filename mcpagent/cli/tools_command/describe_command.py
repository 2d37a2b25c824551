"""`mcpagent tools describe`: let the model write example requests for each tool once; later searches use them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from mcpagent import Agent
from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.frame.figures import counted, money
from mcpagent.cli.frame.options import Options
from mcpagent.cli.oneshot.agent_options import example_file, known_tools, model_of
from mcpagent.cli.screen.terminal import Terminal, is_a_terminal, open_terminal, put
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
    content_key,
    read_examples,
    shipped_examples,
    write_examples,
)
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN
from mcpagent.utilities.text.safe_text import listed, safe_line
from mcpagent.values.events import ignore
from mcpagent.values.messages import ToolDefinition, Usage


def describe_tools(
    options: Options, servers: Sequence[str], *, yes: bool, again: bool
) -> ExitCode:
    """Report the cost, and ask; exit code 1 if the user declines, or tools remain without requests."""
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
                "tools describe: the offline stand-in cannot write; name a model, -m provider:model"
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
            )  # what was paid for is kept, whatever comes next
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


def _tools_of(agent: Agent, servers: Sequence[str]) -> list[ToolDefinition]:
    """Return the tools of these servers, of all without a name. Raises `InputError` for a server that is not there."""
    known = {tool.server for tool in agent.known_tools.values()}
    if missing := [name for name in servers if name not in known]:
        there = listed(sorted(name for name in known if name))
        raise InputError(
            f"tools describe: no tools of {listed(missing)}; the servers are {there}"
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
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _document(
    tools: Sequence[ToolDefinition], written: int, dollars: float
) -> dict[str, object]:
    return {"tools": len(tools), "written": written, "cost_usd": dollars}
