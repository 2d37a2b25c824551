"""What sessions of one agent share: what is worked out of many tools once, and kept once."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ToolDefinition,
    ToolSearch,
)
from mcpagent.models.scripted import Reply, ScriptedModel
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.composition import dynamic, filtered
from mcpagent.values.messages import ToolCall
from tests.many_tools import Many, many_tools
from tests.reference_work import reference_seconds
from tests.run.test_loop_cost import Counted


@pytest.mark.slow
async def test_a_session_a_rewind_another_model_and_a_call_of_an_agent_cost_little_over_1220_tools() -> None:
    searching: list[Reply] = [ToolCall("", "search_tools", {"query": "task number 7"}), "done"]
    async with Agent(ScriptedModel(searching * 40), tools=[Many(many_tools())], tool_search=ToolSearch()) as agent:
        await agent.ask("builds the index")

        async def least(work: Any, times: int = 7) -> float:
            taken: list[float] = []
            for _ in range(times):
                began = time.process_time()
                outcome = work()
                if asyncio.iscoroutine(outcome):
                    await outcome
                taken.append(time.process_time() - began)
            return min(taken)

        limit = 1.0 * reference_seconds()
        assert await least(agent.session) < limit
        assert await least(lambda: agent._runtime.own_session.rewind(3)) < limit
        model = ScriptedModel(searching * 40)
        assert await least(lambda: agent.use_model(model)) < limit

        async def first_search() -> None:
            await agent.session().ask("task")

        # All the tools match these words, so the search itself takes as long as a session may.
        assert await least(first_search) < 2 * limit


def own_of_each(_: RunContext[Any]) -> list[Any]:
    def notes() -> str:
        """The notes of this user."""
        return "n"

    return [notes]


def seen_by_users(context: RunContext[Any], definition: ToolDefinition) -> bool:
    return context.deps is None or int(definition.name.rpartition("_")[2]) % 4 > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["an own function", "some of them", "another one than at the start"])
async def test_what_toolsets_give_each_session_is_worked_out_once(kind: str) -> None:
    many = Many(many_tools())
    sources: dict[str, list[Any]] = {"an own function": [many, dynamic(own_of_each)], "some of them": []}
    tools = sources.get(kind, [many]) or [filtered(many, seen_by_users)]
    searching: list[Reply] = [ToolCall("", "search_tools", {"query": "task number 7"}), "done"]
    async with Agent(ScriptedModel(searching * 30), tools=tools, tool_search=ToolSearch()) as agent:
        await agent.session(deps="user").ask("builds the index")
        if kind == "another one than at the start":
            many._tools = many_tools()[1:]
        await agent.session(deps="user").ask("builds another one")
        taken: list[float] = []
        for _ in range(5):
            began = time.process_time()
            await agent.session(deps="user").ask("task")
            taken.append(time.process_time() - began)
        # An index over these tools takes thirty times as long as the reference.
        assert sorted(taken)[2] < 8 * reference_seconds()
        gc.collect()
        tracemalloc.start()
        try:
            sessions = [agent.session(deps="user") for _ in range(4)]
            for session in sessions:
                await session.ask("task")
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept / len(sessions) < 200_000


@pytest.mark.slow
async def test_a_session_with_what_another_live_one_has_builds_nothing_however_many_kinds_there_are() -> None:
    def seen(context: RunContext[Any], definition: ToolDefinition) -> bool:
        return context.deps is None or int(definition.name.rpartition("_")[2]) % 12 != context.deps

    searching: list[Reply] = [ToolCall("", "search_tools", {"query": "task number 7"}), "done"]
    tools = [filtered(Many(many_tools()), seen)]
    async with Agent(ScriptedModel(searching * 30), tools=tools, tool_search=ToolSearch()) as agent:
        sessions, taken = [agent.session(deps=number % 12) for number in range(24)], []
        for session in sessions:
            began = time.process_time()
            await session.ask("task")
            taken.append(time.process_time() - began)
        # An index over these tools takes thirty times as long as the reference.
        assert sorted(taken[12:])[6] < 8 * reference_seconds()
        assert sorted(sessions[1]._runtime.tools.known) == sorted(sessions[13]._runtime.tools.known)
        assert sessions[1]._runtime.tools.known.keys() != sessions[2]._runtime.tools.known.keys()


async def test_an_ask_with_a_function_of_each_user_goes_through_the_other_tools_few_times() -> None:
    tools = [Many(many_tools()), dynamic(own_of_each)]
    async with Agent(ScriptedModel(["done"] * 3), tools=tools, tool_search=ToolSearch()) as agent:
        session = agent.session(deps="user")
        await session.ask("task")
        with Counted() as counted:
            await session.ask("task")
        assert counted.calls < 8 * 1_220


@pytest.mark.slow
async def test_a_thousand_idle_sessions_take_less_than_100_mb() -> None:
    async with Agent(ScriptedModel(["done"]), tools=[Many(many_tools())], tool_search=ToolSearch()) as agent:
        await agent.ask("x")
        gc.collect()
        tracemalloc.start()  # which makes everything slow, so a part of them is measured
        try:
            measured = [agent.session() for _ in range(20)]
            gc.collect()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken * 1000 / len(measured) < 100_000_000
        sessions = [*measured, *(agent.session() for _ in range(980))]
        assert "1001 sessions" in repr(agent)
        del sessions, measured
        gc.collect()
        assert "1 sessions" in repr(agent)
