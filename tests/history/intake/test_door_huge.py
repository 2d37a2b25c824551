"""Huge content costs itself: not the event loop, the history, the memory, the server's list or the next question."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall
from mcpagent.values.messages import ToolResult
from tests.loop_holds import MOST_SECONDS, blocking_hold, control_hold, longest_hold
from tests.made_files import png

ROOT = Path(__file__).parents[3]
HUGE = {
    "mcpServers": {"huge": {"command": sys.executable, "args": ["-m", "tests.servers.huge_server"], "cwd": str(ROOT)}}
}
MOST_HISTORY = 20_000
"""Characters of a history with one huge result."""


def agent_with(tool: str, **given: Any) -> Agent[Any]:
    model = ScriptedModel([ToolCall("1", tool, {}), "seen", ToolCall("2", "nothing", {}), "fine"])
    return Agent(model, tool_search=False, **given)


def result_in(agent: Agent[Any]) -> ToolResult:
    return next(result for message in agent.messages for result in message.tool_results)


async def test_one_tool_that_nests_ten_thousand_deep_costs_itself_alone() -> None:
    async with agent_with("nothing", mcp_config=HUGE) as agent:
        assert await agent.ask("go") == "seen"
        assert result_in(agent).text == "fine"
        assert sorted(agent.known_tools) == ["nothing", "picture", "rows", "words"]


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


ROWS = [{"id": number, "name": "a", "values": [1, 2]} for number in range(100_000)]
TEXT = json.dumps([{"id": number, "name": f"row {number}", "tags": ["a"]} for number in range(600_000)])


async def rows_of_a_coroutine() -> Any:
    """Return 100,000 dicts."""
    return ROWS


def rows_of_a_function() -> Any:
    """Return 100,000 dicts."""
    return ROWS


def text_of_json() -> str:
    """Return 30 MB of JSON as text."""
    return TEXT


def noise() -> bytes:
    """Return a picture of 30 MB."""
    return b"\x89PNG\r\n\x1a\n" + os.urandom(30_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["picture", "words", "rows"])
async def test_huge_results_of_servers_do_not_hold_the_loop(tool: str) -> None:
    held: list[float] = []
    for _ in range(3):  # others use this machine too
        async with agent_with(tool, mcp_config=HUGE) as agent:
            longest, answer = await longest_hold(partial(agent.ask, "go"))
            assert answer == "seen"
        held.append(longest)
    control = max([await control_hold() for _ in range(3)])
    assert min(held) < control + MOST_SECONDS, (held, control)


@pytest.mark.slow
@pytest.mark.parametrize("function", [rows_of_a_coroutine, rows_of_a_function, text_of_json, noise])
async def test_huge_results_of_functions_do_not_hold_the_loop(function: Callable[[], Any]) -> None:
    held: list[float] = []
    for _ in range(3):  # others use this machine too
        async with agent_with(function.__name__, tools=[function]) as agent:
            await asyncio.sleep(0)
            longest, answer = await longest_hold(partial(agent.ask, "go"))
            assert answer == "seen"
            assert len(str(result_in(agent).content)) < MOST_HISTORY
        held.append(longest)
    control = max([await control_hold() for _ in range(3)])
    assert min(held) < control + MOST_SECONDS, (held, control)
    assert await blocking_hold(20) > min(held)  # what it was before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read the memory in use")
def test_a_structured_result_of_59_megabytes_takes_a_third_of_what_it_took() -> None:
    program = """
import asyncio, sys
from tests.history.intake.test_door_huge import HUGE, agent_with
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
