"""Huge content costs itself: not the event loop, the history, the memory, the server's list or the next question."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall
from mcpagent.values.events import Notice
from mcpagent.values.messages import ToolDefinition, ToolResult
from mcpagent.values.tools import Tool, ToolOutput
from tests.loop_holds import MOST_SECONDS, blocking_hold, too_long_hold
from tests.made_files import png
from tests.servers.huge_server import large_definitions

ROOT = Path(__file__).parents[3]
HUGE: dict[str, Any] = {
    "mcpServers": {"huge": {"command": sys.executable, "args": ["-m", "tests.servers.huge_server"], "cwd": str(ROOT)}}
}
MOST_HISTORY = 20_000
"""Characters of a history with one huge result."""


def agent_with(tool: str, **given: Any) -> Agent[Any]:
    model = ScriptedModel([ToolCall("1", tool, {}), "seen", ToolCall("2", "nothing", {}), "fine"])
    return Agent(model, tool_search=False, **given)


def result_in(agent: Agent[Any]) -> ToolResult:
    return next(result for message in agent.messages for result in message.tool_results)


USABLE = ["nothing", "numbers", "picture", "rows", "words"]
PARTS = ["branches", "choices", "default", "definitions", "description", "extras", "output", "properties", "title"]


def listing(size: int, parts: Sequence[str] = ()) -> dict[str, Any]:
    """Return the configuration of a server that also lists tools of about this many values, in these parts or all."""
    names = ",".join(f"large_{part}" for part in parts)
    args = [*HUGE["mcpServers"]["huge"]["args"], f"{size}:{names}"]
    return {"mcpServers": {"huge": HUGE["mcpServers"]["huge"] | {"args": args}}}


@pytest.mark.parametrize("parts", [["output", "title"], pytest.param(PARTS, marks=pytest.mark.slow)])
async def test_each_tool_over_the_budget_costs_itself_alone_and_is_named(parts: list[str]) -> None:
    notices: list[str] = []
    config, heard = (
        listing(20_001, parts),
        lambda event: notices.append(event.text) if isinstance(event, Notice) else None,
    )
    async with agent_with("nothing", mcp_config=config, on_event=heard) as agent:
        assert await agent.ask("go") == "seen"
        assert result_in(agent).text == "fine"
        assert sorted(agent.known_tools) == USABLE
    named = [re.findall(r'tool "(\S+)" dropped: it has more than 1,000,000 bytes', text) for text in notices]
    assert sorted(itertools.chain.from_iterable(named)) == [
        "deep",
        *(f"large_{part}" for part in parts),
        "n" * 59 + "…",
    ]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def own_tools(size: int) -> list[Tool]:
    """Return tools of the program's own with the same large parts, and one that nests 10,000 deep."""

    async def run(_: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("fine")

    tools = [Tool(ToolDefinition("nothing", "", {"type": "object"}), run)]
    tools.append(Tool(ToolDefinition("deep", "", nested(10_000)), run))
    for item in large_definitions(size):
        definition = ToolDefinition(item["name"], item.get("description", ""), item["inputSchema"])
        tools.append(Tool(definition, run, output_schema=item.get("outputSchema")))
    return tools


async def test_a_tool_of_a_program_over_the_budget_costs_itself_alone_and_is_named() -> None:
    notices: list[str] = []
    tools = own_tools(25_000)
    toolset, heard = tools[4:], lambda event: notices.append(event.text) if isinstance(event, Notice) else None
    async with agent_with("nothing", tools=[*tools[:4], toolset], on_event=heard) as agent:
        assert await agent.ask("go") == "seen"
        assert result_in(agent).text == "fine"
        assert sorted(agent.known_tools) == ["large_extras", "large_title", "nothing"]
        assert await agent.ask("again") == "fine"
    named = [re.findall(r'^tool "(\S+)" is left out: it has more than 1,000,000 bytes', text) for text in notices]
    wanted = ["deep", *(f"large_{part}" for part in PARTS if part not in ("extras", "title"))]
    assert sorted(itertools.chain.from_iterable(named)) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["server", "program"])
async def test_huge_definitions_do_not_hold_the_loop(kind: str) -> None:
    tools = own_tools(300_000)

    async def start_and_ask() -> None:
        given: dict[str, Any] = {"mcp_config": listing(100_000)}
        if kind == "program":
            given = {"tools": tools}
        async with agent_with("nothing", **given) as agent:
            assert await agent.ask("go") == "seen"

    await start_and_ask()  # the imports hold the loop
    assert not await too_long_hold(start_and_ask)


@pytest.mark.slow
async def test_thousands_of_ordinary_tools_do_not_hold_the_loop() -> None:
    async def run(_: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("fine")

    properties = {"text": {"type": "string", "description": "words"}, "number": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["text"]}
    tools = [
        Tool(ToolDefinition(f"tool_{number}", f"Does the thing of number {number}.", schema), run)
        for number in range(3_000)
    ]

    async def start_and_ask() -> None:
        async with agent_with("tool_1", tools=tools) as agent:
            assert await agent.ask("go") == "seen"

    await start_and_ask()  # the imports hold the loop
    assert not await too_long_hold(start_and_ask)


@pytest.mark.slow
async def test_a_large_picture_of_a_function_is_small_in_the_history() -> None:
    def picture() -> bytes:
        """Return a picture of 6 MB."""
        return png(1_500, 1_400, noise=True)

    def nothing() -> str:
        """Return nothing much."""
        return "fine"

    async with agent_with("picture", tools=[picture, nothing]) as agent:
        assert await agent.ask("go") == "seen"
        note, shown = result_in(agent).content
        assert "scaled from 1500x1400" in getattr(note, "text", "")
        assert len(getattr(shown, "data", "")) <= 5_000_000
        assert await agent.ask("again") == "fine"


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["picture", "words", "rows"])
async def test_a_huge_result_of_a_server_is_offloaded_and_the_next_question_is_answered(tool: str) -> None:
    async with agent_with(tool, mcp_config=HUGE) as agent:
        assert await agent.ask("go") == "seen"
        result = result_in(agent)
        assert result.set_aside is not None
        assert len(str(result.content)) < MOST_HISTORY
        if tool == "rows":
            assert '{"rows": array of {"id": integer, "name": string,' in result.text
        assert await agent.ask("again") == "fine"


@cache
def many_rows() -> list[dict[str, Any]]:
    return [{"id": number, "name": "a", "values": [1, 2]} for number in range(100_000)]


@cache
def long_json() -> str:
    return json.dumps([{"id": number, "name": f"row {number}", "tags": ["a"]} for number in range(600_000)])


async def rows_of_a_coroutine() -> Any:
    """Return 100,000 dicts."""
    return many_rows()


def rows_of_a_function() -> Any:
    """Return 100,000 dicts."""
    return many_rows()


def text_of_json() -> str:
    """Return 30 MB of JSON as text."""
    return long_json()


NUMBERS = [1] * 3_000_000
NESTED = [[[1]] * 1_000] * 1_000
WORDS = "some wörds here\n" * 3_000_000
LETTERS = b"some words here\n" * 3_000_000
MEMBER = {"text": "some words here " * 3_000_000}


def numbers() -> Any:
    """Return 3,000,000 small values."""
    return NUMBERS


def containers() -> Any:
    """Return a million lists."""
    return NESTED


def words() -> str:
    """Return a text of 48 MB."""
    return WORDS


def letters() -> bytes:
    """Return 48 MB of text as bytes."""
    return LETTERS


def member() -> Any:
    """Return a text of 48 MB in a dict."""
    return MEMBER


def noise() -> bytes:
    """Return a picture of 30 MB."""
    return b"\x89PNG\r\n\x1a\n" + os.urandom(30_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["picture", "words", "rows", "numbers"])
async def test_huge_results_of_servers_do_not_hold_the_loop(tool: str) -> None:
    async def ask_once() -> None:
        async with agent_with(tool, mcp_config=HUGE) as agent:
            assert await agent.ask("go") == "seen"

    assert not await too_long_hold(ask_once)


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["json", "events"])
async def test_huge_answers_over_http_do_not_hold_the_loop(kind: str) -> None:
    async with huge_server_over_http(kind) as config:
        for tool in ("nothing", "words", "numbers"):

            async def ask_once(tool: str = tool) -> None:
                async with agent_with(tool, mcp_config=config) as agent:
                    assert await agent.ask("go") == "seen"

            await ask_once()  # the imports hold the loop
            assert not await too_long_hold(ask_once), tool


@asynccontextmanager
async def huge_server_over_http(kind: str) -> AsyncIterator[dict[str, Any]]:
    """The configuration of a server that answers with a body, or with an event stream."""
    command = [sys.executable, "-m", "tests.servers.huge_server", "http", kind, "100000"]
    server = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        yield {"mcpServers": {"huge": {"url": f"http://127.0.0.1:{int(await server.stdout.readline())}/mcp"}}}
    finally:
        server.kill()
        await server.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        rows_of_a_coroutine,
        rows_of_a_function,
        text_of_json,
        noise,
        numbers,
        containers,
        words,
        *(pytest.param(one, marks=pytest.mark.heavy) for one in (letters, member)),
    ],
)
async def test_huge_results_of_functions_do_not_hold_the_loop(function: Callable[[], Any]) -> None:
    many_rows(), long_json()

    async def ask_once() -> None:
        async with agent_with(function.__name__, tools=[function]) as agent:
            await asyncio.sleep(0)
            assert await agent.ask("go") == "seen"
            assert len(str(result_in(agent).content)) < MOST_HISTORY

    assert not await too_long_hold(ask_once)


@pytest.mark.slow
async def test_a_parser_in_a_thread_would_hold_the_loop() -> None:
    assert await blocking_hold(20) > MOST_SECONDS


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the memory in use")
def test_a_structured_result_of_59_megabytes_takes_a_third_of_what_it_took() -> None:
    program = """
import asyncio, sys
from tests.history.intake.test_admission_of_content_huge import HUGE, agent_with
from tests.memory import peak_megabytes

async def main():
    async with agent_with("rows", mcp_config=HUGE) as agent:
        await agent.ask("go")
    print(peak_megabytes())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=110, check=True
    )
    assert float(done.stdout) < 600
