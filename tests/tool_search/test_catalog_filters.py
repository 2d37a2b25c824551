"""Sessions whose toolsets give each of them others of many tools: what was read for one is not read again for all."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from mcpagent import Agent, ToolDefinition, ToolSearch
from mcpagent.models.scripted import Reply, ScriptedModel
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.composition import combined, dynamic, filtered, prepared
from mcpagent.values.messages import ToolCall
from mcpagent.values.tools import Tool
from tests.many_tools import Many, many_tools
from tests.run.test_loop_cost import Counted, conversation

MANY = 1_220


def told_otherwise(_: RunContext[Any], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
    return [replace(one, description=f"{one.description}!") for one in definitions]


def own_of(context: RunContext[Any]) -> list[Tool]:
    return [replace(one, definition=replace(one.definition, name=f"own_{context.deps}")) for one in many_tools(1)]


def sources() -> dict[str, list[Any]]:
    tools = many_tools(MANY)
    many = Many(tools)
    return {
        "a filter that leaves one out for each": [filtered(many, lambda run, one: one.name != f"tool_{run.deps}")],
        "a filter that shows each a part": [filtered(many, lambda run, one: int(one.name[5:]) % 9 != run.deps)],
        "an own tool for each": [many, dynamic(own_of)],
        "all from a factory": [dynamic(lambda _: tools)],
        "prepared": [prepared(many, lambda _, definitions: definitions)],
        "prepared with other words": [prepared(many, told_otherwise)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(sources()))
async def test_what_is_known_of_a_tool_is_worked_out_once_for_all_sessions(kind: str) -> None:
    searching: list[Reply] = [ToolCall("", "search_tools", {"query": "task number 7"}), "done"]
    agent = Agent(ScriptedModel(searching * 9), tools=sources()[kind], tool_search=ToolSearch(strategy="bm25"))
    async with agent:
        await agent.session().ask("builds the index")
        shared, calls = agent._runtime.catalogs.shared, []
        read, counted = shared.index.indexed, shared.counted
        assert read >= MANY
        for user in range(5):
            with Counted() as counting:
                await agent.session(deps=user).ask("task")
            calls.append(counting.calls)
            gc.collect()
        own = 5 if kind == "an own tool for each" else 0
        assert shared.index.indexed - read <= own
        assert shared.counted - counted <= own
        # To read the tools takes more than three hundred calls for each; to ask a filter twice takes four.
        assert min(calls) < 30 * MANY


async def test_sessions_find_what_they_have_and_nothing_of_others() -> None:
    def own(context: RunContext[Any]) -> list[Tool]:
        secret = many_tools(1)[0]
        definition = replace(secret.definition, name=f"vault_{context.deps}", description=f"Marmalade {context.deps}.")
        return [replace(secret, definition=replace(definition, original_name=definition.name))]

    tools = [filtered(Many(many_tools(30)), lambda run, one: not one.name.endswith(str(run.deps))), dynamic(own)]
    searching: list[Reply] = [ToolCall("", "search_tools", {"query": "marmelade, tool_7"}), "done"]
    agent = Agent(ScriptedModel(searching * 3), tools=tools, tool_search=ToolSearch(load="add_tool", strategy="bm25"))
    async with agent:
        said: dict[int, str] = {}
        for user in (7, 8, 7):
            session = agent.session(deps=user)
            await session.ask("task")
            [text] = [part.tool_results[0].text for part in session.messages if part.role == "tool"]
            assert f"vault_{15 - user}" not in text
            assert f"vault_{user}" in text
            assert ("tool_7" in text) == (user == 8)
            assert said.setdefault(user, text) == text


@pytest.mark.slow
async def test_a_session_that_waits_with_tools_of_its_own_keeps_little() -> None:
    tools = [filtered(Many(many_tools(MANY)), lambda run, one: one.name != f"tool_{run.deps}")]
    async with Agent(ScriptedModel(["done"] * 200), tools=tools, tool_search=ToolSearch()) as agent:
        await agent.ask("builds what all have")
        kept, sessions = [], []
        tracemalloc.start()
        try:
            for users in (range(70), range(70, 90)):  # of 64 more is kept, for a while
                for user in users:
                    sessions.append(agent.session(deps=user))
                    await sessions[-1].ask("task")
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert (kept[1] - kept[0]) / 20 < 100_000


async def test_the_same_list_from_a_factory_is_looked_at_once() -> None:
    tools = many_tools(50)
    async with Agent(ScriptedModel(["done"] * 4), tools=[dynamic(lambda _: list(tools))]) as agent:
        calls = []
        for user in range(4):
            with Counted() as counting:
                await agent.session(deps=user).ask("task")
            calls.append(counting.calls)
    assert calls[3] < calls[0] - 50 * 50


async def test_two_servers_with_one_name_for_a_tool_keep_both_when_they_are_combined() -> None:
    source = combined(Many(served("left", "ping")), Many(served("right", "ping")))
    async with Agent(ScriptedModel([]), tools=[source]) as agent:
        assert list(agent.known_tools) == ["left__ping", "right__ping"]


def served(server: str, name: str) -> list[Tool]:
    [tool] = many_tools(1)
    return [replace(tool, definition=replace(tool.definition, name=name, original_name=name, server=server))]


async def test_a_long_history_is_looked_at_in_few_steps() -> None:
    history = conversation(1_000)
    async with Agent(ScriptedModel([])) as agent:
        agent.session(messages=history)
        with Counted() as counting:
            agent.session(messages=history)
    assert counting.calls < 45 * len(history)
