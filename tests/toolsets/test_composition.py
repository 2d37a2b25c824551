"""Toolsets made of toolsets: what is listed, under which names, and that a call reaches the function it means."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent import Agent, ConfigError, Tool, ToolDefinition, ToolOutput, ToolSearch, Toolset
from mcpagent.config import McpServer
from mcpagent.demo import demo_server_config
from mcpagent.models.scripted import ScriptedModel
from mcpagent.run.agent_run import AgentRun, RunContext
from mcpagent.toolsets.composition import (
    CombinedSources,
    approval_required,
    combined,
    deferred,
    dynamic,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)
from mcpagent.toolsets.functions import FunctionToolset
from mcpagent.toolsets.listed_tools import listed_place
from tests.run.test_loop_cost import Counted
from tests.scenes import CountedTools, call, offered, results
from tests.tables import each_row


class Lamp:
    """A toolset of one tool that says when it is entered and left."""

    def __init__(self, name: str, log: list[str], *, broken: bool = False) -> None:
        self.label = name
        self.log = log
        self.broken = broken

    async def tools(self) -> list[Tool]:
        async def run(_: dict[str, Any]) -> ToolOutput:
            return ToolOutput.of_text(self.label)

        return [Tool(ToolDefinition(self.label, "", {"type": "object"}), run)]

    async def __aenter__(self) -> Lamp:
        if self.broken:
            raise ConfigError(f"{self.label} is broken")
        self.log.append(f"+{self.label}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append(f"-{self.label}")


class Plain(Toolset):
    """Nothing to enter, so nothing but its tools."""

    async def tools(self) -> list[Tool]:
        return await FunctionToolset([add]).tools()


async def test_a_toolset_with_nothing_to_enter_has_tools_alone() -> None:
    model = ScriptedModel([call("my_add", a=1, b=2), "3"])
    async with Agent(model, tools=[prefixed(Plain(), "my")]) as agent:
        await agent.ask("1 + 2?")
        assert [result.text for result in results(agent.messages)] == ["3"]
    async with Plain() as plain:
        assert [tool.name for tool in await plain.tools()] == ["add"]


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


async def listed(toolset: Any) -> list[str]:
    with AgentRun(RunContext(None)).entered():
        return [tool.name for tool in await toolset.tools()]


async def asked(*replies: Any, **options: Any) -> tuple[ScriptedModel, list[Any]]:
    """One prompt to an agent with a scripted model: the model, and the results of its calls."""
    model = ScriptedModel([*replies, "ok"])
    async with Agent(model, **options) as agent:
        await agent.ask("go")
        return model, results(agent.messages)


# -- names


async def test_prefixed_tools_are_called_under_the_prefix_and_reach_the_function() -> None:
    model, [result] = await asked(call("math_add", a=1, b=2), tools=[prefixed([add], "math")])
    assert offered(model.requests[0]) == ["math_add"]
    assert result.text == "3"


async def test_renamed_swaps_names_and_leaves_the_others() -> None:
    toolset = renamed(CountedTools("a", "b", "c"), {"a": "b", "b": "a"})
    model, [result] = await asked(call("a", path="x"), tools=[toolset])
    assert sorted(offered(model.requests[0])) == ["a", "b", "c"]
    assert result.text == 'files.b {"path": "x"}'


async def test_an_unknown_old_name_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    toolset = renamed([add], {"plus": "ad"})
    with caplog.at_level(logging.WARNING, "mcpagent"):
        assert await listed(toolset) == ["add"]
        await listed(toolset)
    assert [record.getMessage() for record in caplog.records] == [
        'renamed: no tool "ad" (did you mean "add"?); known: add'
    ]


@each_row(
    "make, words",
    [
        (lambda: renamed([add, delete], {"add": "delete"}), 'two tools would be named "add"'),
        (lambda: renamed([add], {"x": "add", "y": "add"}), '"add" is given two new names'),
        (lambda: prefixed([add], "my.x"), 'tool "my.x_add": a name has only letters'),
        (
            lambda: combined([add], FunctionToolset([add], label="sums")),
            'tool "add": defined in FunctionToolset(add) and in sums',
        ),
        (lambda: deferred([add], ["ad"]), 'no tool "ad" (did you mean "add"?); known: add'),
        (lambda: deferred([add], "add"), 'write ["add"]'),
        (lambda: prefixed(3, "x"), "expected toolsets, McpServer values or lists of functions, got int"),  # type: ignore[arg-type]
    ],
)
async def test_what_cannot_be_is_named(make: Callable[[], CombinedSources], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await listed(make())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_two_toolsets_of_an_agent_with_one_name_are_both_named() -> None:
    agent = Agent(ScriptedModel([]), tools=[FunctionToolset([add], label="one"), FunctionToolset([add], label="two")])
    with pytest.raises(ConfigError, match='tool "add": defined in one and in two; rename one, or use prefixed'):
        await agent.__aenter__()


async def test_the_same_toolset_twice_under_two_prefixes() -> None:
    tools = CountedTools("read")
    model, [left, right] = await asked(
        [call("l_read", path="1"), call("r_read", path="2")], tools=[prefixed(tools, "l"), prefixed(tools, "r")]
    )
    assert offered(model.requests[0]) == ["l_read", "r_read"]
    assert (left.text, right.text) == ('files.read {"path": "1"}', 'files.read {"path": "2"}')


async def through(definition: ToolDefinition, arguments: dict[str, Any], run: Any) -> ToolOutput:
    output: ToolOutput = await run(arguments)
    return output


APPLY: dict[str, Callable[[Any, str, list[str]], Any]] = {
    "prefix": lambda source, value, names: prefixed(source, value),
    "swap": lambda source, value, names: renamed(source, {names[0]: names[1], names[1]: names[0]}),
    "rename": lambda source, value, names: renamed(source, {f"{value}_{names[0]}": names[0]}),
    "filter": lambda source, value, names: filtered(source, lambda context, definition: True),
    "prepare": lambda source, value, names: prepared(
        source, lambda context, found: [replace(item, description=value) for item in found]
    ),
    "wrap": lambda source, value, names: wrapped(source, through),
    "defer": lambda source, value, names: deferred(source),
    "approve": lambda source, value, names: approval_required(source, lambda context, definition, arguments: False),
    "combine": lambda source, value, names: combined(source, CountedTools(f"extra{len(names)}")),
    "dynamic": lambda source, value, names: dynamic(lambda context: source),
}
OPERATIONS = st.lists(st.tuples(st.sampled_from(sorted(APPLY)), st.sampled_from(["x", "y_", "A1"])), max_size=6)


@settings(max_examples=60, deadline=None)
@given(OPERATIONS)
async def test_any_stack_reaches_each_leaf_under_its_own_name(operations: list[tuple[str, str]]) -> None:
    leaf = CountedTools("one", "two", "three")
    with AgentRun(RunContext(None, run_id="r")).entered():
        toolset: Any = leaf
        for operation, value in operations:
            toolset = APPLY[operation](toolset, value, [tool.name for tool in await toolset.tools()])
        tools = await toolset.tools()
        assert len({listed_place(tool.definition) for tool in tools}) == len(tools)
        for tool in tools:
            await tool.run({"path": tool.name})
    mine = [
        (tool.definition.original_name, tool.name) for tool in tools if "extra" not in tool.definition.original_name
    ]
    assert sorted(leaf.ran) == sorted((f"files.{original}", {"path": name}) for original, name in mine)
    assert {original for original, _ in mine} == {"one", "two", "three"}


# -- listing and calling


async def test_a_filter_sees_outer_names_and_a_hidden_tool_is_refused_with_the_fix() -> None:
    tools = CountedTools("read", "delete")
    toolset = filtered(prefixed(tools, "fs"), lambda context, definition: definition.name != "fs_delete")
    model, [result] = await asked(call("fs_delete", path="x"), tools=[toolset])
    assert offered(model.requests[0]) == ["fs_read"]
    assert result.error == "unknown_tool"
    assert 'There is no tool "fs_delete"' in result.text
    assert tools.ran == []


async def test_a_prefix_sees_what_the_filter_inside_it_left() -> None:
    toolset = prefixed(filtered(CountedTools("read", "delete"), lambda c, d: d.name == "read"), "fs")
    assert await listed(toolset) == ["fs_read"]


async def test_a_filter_by_deps_changes_what_is_offered_and_found_from_run_to_run() -> None:
    tools = CountedTools("read", "delete")
    toolset = filtered(tools, lambda context, definition: definition.name == "read" or context.deps == "admin")
    model = ScriptedModel(
        [
            "a",
            [call("search_tools", "s", query="delete"), call("delete", "d", path="1")],
            "b",
            [call("delete", "e", path="2")],
            "c",
        ]
    )
    async with Agent(model, tool_search=ToolSearch(on_direct_call="run"), tools=[toolset]) as agent:
        await agent.ask("1")
        assert list(agent.known_tools) == ["read"]
        await agent.ask("2", deps="admin")
        assert sorted(agent.known_tools) == ["delete", "read"]
        await agent.ask("3", deps="guest")
        assert list(agent.known_tools) == ["read"]
        assert [result.error for result in results(agent.messages)] == [None, None, "unknown_tool"]
    assert tools.ran == [("files.delete", {"path": "1"})]


async def test_a_filter_is_asked_again_at_the_call() -> None:
    tools = CountedTools("read")
    allowed = [True]
    gate = filtered(tools, lambda context, definition: allowed[0])
    with AgentRun(RunContext(None)).entered():
        [tool] = await gate.tools()
        allowed[0] = False
        output = await tool.run({"path": "x"})
    assert output.error == "denied"
    assert tools.ran == []


async def test_a_filter_that_raises_hides(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mcpagent"):
        assert await listed(filtered([add], lambda context, definition: context.deps.is_admin)) == []
    assert 'filtered: "add" is hidden: AttributeError' in caplog.text


async def test_an_async_filter() -> None:
    async def short(context: RunContext[Any], definition: ToolDefinition) -> bool:
        return len(definition.name) < 4

    assert await listed(filtered([add, delete], short)) == ["add"]


async def test_prepared_changes_and_drops_but_adds_nothing() -> None:
    def shorter(context: RunContext[Any], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
        return [replace(item, description=f"{item.description} Really.") for item in definitions if item.name == "add"]

    model, [result] = await asked(call("add", a=1, b=1), tools=[prepared([add, delete], shorter)])
    assert [tool.description for tool in model.requests[0].tools] == ["The sum. Really."]
    assert result.text == "2"
    added = prepared([add], lambda context, found: [*found, replace(found[0], name="sub")])
    with pytest.raises(ConfigError, match='prepared: "sub" is none of the given tools'):
        await listed(added)


async def test_a_wrapper_sees_arguments_and_output_and_may_change_both() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def redact(
        definition: ToolDefinition, arguments: dict[str, Any], run: Callable[[dict[str, Any]], Awaitable[ToolOutput]]
    ) -> ToolOutput:
        seen.append((definition.name, arguments))
        output = await run({**arguments, "a": 40})
        return ToolOutput.of_text(f"<{output.content[0].text}>")  # type: ignore[union-attr]

    _, [result] = await asked(call("add", a=1, b=2), tools=[wrapped([add], redact)])
    assert seen == [("add", {"a": 1, "b": 2})]
    assert result.text == "<42>"


async def test_a_dynamic_toolset_is_made_once_per_run_and_left_at_its_end() -> None:
    log: list[str] = []

    async def for_user(context: RunContext[Any]) -> Lamp | None:
        return Lamp(f"lamp_{context.deps}", log) if context.deps else None

    model = ScriptedModel(["a", call("lamp_ann"), "b", "c"])
    async with Agent(model, tools=[dynamic(for_user)]) as agent:
        await agent.ask("1")
        await agent.ask("2", deps="ann")
        assert log == ["+lamp_ann", "-lamp_ann"]
        assert results(agent.messages)[0].text == "lamp_ann"
        await agent.ask("3")
    assert [offered(request) for request in model.requests] == [[], ["lamp_ann"], ["lamp_ann"], []]


async def test_a_dynamic_toolset_per_step_and_a_factory_that_raises() -> None:
    steps: list[int] = []

    def more(context: RunContext[Any]) -> list[Any]:
        steps.append(len(context.messages))
        return [add] if len(context.messages) > 2 else [delete]

    model, _ = await asked(call("delete", path="x"), tools=[dynamic(more, per_step=True)])
    assert [offered(request) for request in model.requests] == [["delete"], ["add"]]
    # What the first listing gives is part of the beginning, so nothing is announced before the prompt.
    assert steps == [1, 3]

    def broken(context: RunContext[Any]) -> None:
        raise KeyError("user")

    with pytest.raises(ConfigError, match=r"dynamic\(broken\): the factory raised KeyError: 'user'"):
        await asked(tools=[dynamic(broken)])

    def unprepared(context: RunContext[Any], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
        raise KeyError("user")

    with pytest.raises(ConfigError, match=r"prepared: the function raised KeyError: 'user'"):
        await asked(tools=[prepared([add], unprepared)])


async def test_new_deferred_tools_are_announced_and_can_be_found() -> None:
    def later(context: RunContext[Any]) -> list[Any]:
        return [add] if len(context.messages) > 1 else []

    model = ScriptedModel(["hello", call("search_tools", query="add"), call("add", a=1, b=2), "ok"])
    async with Agent(model, with_tool_search_mode=True, tools=[CountedTools("read"), dynamic(later)]) as agent:
        await agent.ask("hi")
        await agent.ask("go")
        assert [result.error for result in results(agent.messages)] == [None, None]
        assert any("More tools can be used from now on: add." in message.text for message in agent.messages)


async def test_hidden_tools_that_go_are_told_as_they_were_when_they_came() -> None:
    made: list[int] = []

    def now_and_then(context: RunContext[Any]) -> FunctionToolset | None:
        made.append(len(context.messages))
        return FunctionToolset([add]) if len(made) % 2 == 0 else None

    agent = Agent(ScriptedModel(["ok"] * 4), tools=[CountedTools("read"), deferred(dynamic(now_and_then), ["add"])])
    async with agent:
        for _ in range(4):
            await agent.ask("hi")
        told = [message.text for message in agent.messages if message.role == "user" and message.text != "hi"]
    assert told == [
        "More tools can be used from now on: add.",
        "Your tools have changed; not to be found any more: add.",
        "More tools can be used from now on: add.",
    ]


# -- life


async def test_toolsets_are_entered_in_order_and_left_in_reverse() -> None:
    log: list[str] = []
    async with Agent(ScriptedModel([]), tools=[combined(Lamp("a", log), prefixed(Lamp("b", log), "x"))]):
        assert log == ["+a", "+b"]
    assert log == ["+a", "+b", "-b", "-a"]


async def test_where_one_cannot_be_entered_those_entered_are_left() -> None:
    log: list[str] = []
    toolset = combined(Lamp("a", log), Lamp("b", log, broken=True), Lamp("c", log))
    with pytest.raises(ConfigError, match="b is broken"):
        await toolset.__aenter__()
    assert log == ["+a", "-a"]


async def test_one_composed_toolset_serves_two_agents_and_is_left_with_the_last() -> None:
    log: list[str] = []
    shared = prefixed(Lamp("a", log), "x")
    async with Agent(ScriptedModel([]), tools=[shared]):
        async with Agent(ScriptedModel([]), tools=[shared]):
            assert log == ["+a"]
        assert log == ["+a"]
    assert log == ["+a", "-a"]


async def test_what_is_no_toolset_is_said_when_the_agent_is_made() -> None:
    with pytest.raises(ConfigError, match="tools: expected functions, tools and toolsets, got int"):
        Agent(ScriptedModel([]), tools=[3])  # type: ignore[list-item]


# -- deferred loading


async def test_one_marked_function_turns_search_on_for_it_alone() -> None:
    model = ScriptedModel([call("search_tools", query="delete"), call("delete", path="x"), "ok"])
    agent = Agent(model)

    @agent.tool(defer_loading=True)
    def delete(path: str) -> str:
        """Deletes a file."""
        return f"deleted {path}"

    @agent.tool
    def get_time() -> str:
        """The time."""
        return "12:00"

    async with agent:
        await agent.ask("go")
        assert list(agent.all_deferred_tools) == ["delete"]
    assert offered(model.requests[0]) == ["search_tools", "add_tool", "get_time"]
    assert offered(model.requests[2]) == ["search_tools", "add_tool", "get_time", "delete"]


async def test_a_marked_toolset_and_one_marked_by_name() -> None:
    model, _ = await asked(tools=[FunctionToolset([add, delete], defer_loading=True)])
    assert offered(model.requests[0]) == ["search_tools", "add_tool"]
    model, _ = await asked(tools=[deferred([add, delete], ["delete"])])
    assert offered(model.requests[0]) == ["search_tools", "add_tool", "add"]


async def test_nothing_marked_means_no_search_tool_and_the_same_request() -> None:
    plain, _ = await asked(tools=[add])
    marked, _ = await asked(tools=[add], tool_search=ToolSearch(enabled="marked"))
    off, _ = await asked(tools=[add], tool_search=ToolSearch(enabled=False))
    eager, _ = await asked(tools=[add], tool_search=ToolSearch(scope="mcp"))
    assert plain.requests == marked.requests == off.requests == eager.requests
    assert offered(plain.requests[0]) == ["add"]


async def test_tool_search_that_is_off_offers_what_is_marked() -> None:
    model, _ = await asked(tools=[deferred([add])], tool_search=ToolSearch(enabled=False))
    assert offered(model.requests[0]) == ["add"]


async def test_t3_a_tool_with_a_reserved_name_is_refused() -> None:
    def search_tools() -> None: ...

    with pytest.raises(ConfigError, match='tool "search_tools": the name is reserved'):
        await asked(tools=[search_tools])


def demo(**options: Any) -> McpServer:
    """The demo server; it is required, so that it is waited for however busy the machine is."""
    [server] = demo_server_config()["mcpServers"].values()
    return McpServer("demo", command=server["command"], args=server["args"], required=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("given_as", ["tools", "mcp_config"])
async def test_an_mcp_server_value_with_some_of_its_tools_deferred(given_as: str) -> None:
    async with Agent(ScriptedModel([]), **{given_as: [demo(defer_loading=["calculate"])]}) as agent:  # type: ignore[arg-type]
        assert agent.servers["demo"].state == "ready"
        assert list(agent.all_deferred_tools) == ["calculate"]
        names = {tool.name for tool in agent.offered_tools()}
        assert names == (set(agent.known_tools) - {"calculate"}) | {"search_tools", "add_tool"}


@pytest.mark.slow
async def test_an_mcp_server_value_with_all_of_its_tools_deferred() -> None:
    async with Agent(ScriptedModel([]), tools=[demo(defer_loading=True)]) as agent:
        assert list(agent.all_deferred_tools) == list(agent.known_tools)
        assert [tool.name for tool in agent.offered_tools()] == ["search_tools", "add_tool"]


@pytest.mark.slow
async def test_an_unknown_name_to_defer_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match=r'server "demo": defer_loading: no tool "read_fiel".*; known: .+ and \d+ more'
    ):
        async with Agent(ScriptedModel([]), tools=[demo(defer_loading=["read_fiel"])]):
            pass


@pytest.mark.slow
async def test_an_mcp_server_inside_a_composition() -> None:
    model = ScriptedModel([call("d_calculate", expression="6 * 7"), "ok"])
    async with Agent(model, tools=[prefixed(demo(), "d")]) as agent:
        assert all(name.startswith("d_") for name in agent.known_tools)
        assert {tool.server for tool in agent.known_tools.values()} == {"demo"}
        await agent.ask("go")
        assert "42" in results(agent.messages)[0].text
    with pytest.raises(ConfigError, match='server "demo": defer_loading: no tool "nope"'):
        async with Agent(ScriptedModel([]), tools=[prefixed(demo(defer_loading=["nope"]), "d")]):
            pass


@pytest.mark.slow
async def test_a_server_made_for_one_run_is_started_and_ended_with_it() -> None:
    made: list[CombinedSources] = []

    def for_user(context: RunContext[Any]) -> CombinedSources:
        made.append(prefixed(demo(enabled_tools=("calculate",)), context.deps))
        return made[-1]

    model = ScriptedModel([call("ann_calculate", expression="6 * 7"), "ok"])
    async with Agent(model, tools=[dynamic(for_user)]) as agent:
        await agent.ask("go", deps="ann")
        assert "42" in results(agent.messages)[0].text
        [toolset] = made
        [tool] = await toolset.tools()
        output = await tool.run({"expression": "1"})
        assert output.error == "server_down"
        assert "is closed" in output.content[0].text  # type: ignore[union-attr]


def test_each_tool_more_in_a_list_costs_the_same() -> None:
    async def run(_: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("ok")

    tools = [Tool(ToolDefinition(f"tool_{number}", "", {"type": "object"}), run) for number in range(800)]
    steps: list[int] = []
    for count in (400, 800):
        with Counted() as counted:
            FunctionToolset(tools[:count])
        steps.append(counted.calls)
    assert steps[1] < 2.1 * steps[0]
    with pytest.raises(ConfigError, match='tool "tool_0": defined twice in FunctionToolset'):
        FunctionToolset(tools + tools[:1])
