"""Names that operations are given: checked where the tools can be known, told once where they are listed later."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, RunOptions, ServerError, Tool
from mcpagent.config import McpServer
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.composition import (
    ToolSource,
    approval_required,
    combined,
    deferred,
    dynamic,
    external,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)
from mcpagent.toolsets.server_source import ServerSource
from tests.scenes import CountedTools, call, offered, results

FAULTY = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"
LEAKY = FAULTY.with_name("leaky.py")
WAIT_SECONDS = 30


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


def both(context: RunContext[Any]) -> list[Callable[..., Any]]:
    return [add, delete]


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "mcpagent")
    return lambda: [record.getMessage() for record in caplog.records]


async def asked(*toolsets: ToolSource, prompts: int = 1, deps: Any = None) -> ScriptedModel:
    """So many prompts to an agent with these toolsets: its model, and the requests to it."""
    model = ScriptedModel(["ok"] * prompts)
    async with Agent(model, tools=toolsets) as agent:
        for _ in range(prompts):
            await agent.ask("go", deps=deps)
    return model


async def test_tools_of_a_dynamic_toolset_are_deferred_by_name(told: Callable[[], list[str]]) -> None:
    model = ScriptedModel([call("search_tools", query="delete"), call("delete", path="x"), "ok"])
    async with Agent(model, tools=[deferred(dynamic(both), ["delete"])]) as agent:
        await agent.ask("go")
        assert results(agent.messages)[1].text == "deleted x"
    assert [offered(request) for request in model.requests] == [
        ["search_tools", "add_tool", "add"],
        ["search_tools", "add_tool", "add"],
        ["search_tools", "add_tool", "add", "delete"],
    ]
    assert told() == []


async def test_a_name_that_a_dynamic_toolset_lacks_is_told_once_when_it_has_listed(
    told: Callable[[], list[str]],
) -> None:
    model = await asked(deferred(dynamic(both), ["delete", "ad"]), prompts=3)
    assert told() == ['deferred(...) of dynamic(both): no tool "ad" (did you mean "add"?); known: add, delete']
    assert offered(model.requests[2]) == ["search_tools", "add_tool", "add"]


async def test_a_factory_that_gives_nothing_has_not_listed(told: Callable[[], list[str]]) -> None:
    gives: list[list[Callable[..., Any]] | None] = [None, [add]]
    source = deferred(combined(dynamic(lambda context: gives.pop(0)), [delete]), ["ad", "delete"])
    model = ScriptedModel(["ok", "ok"])
    async with Agent(model, tools=[source]) as agent:
        await agent.ask("go")
        assert told() == []
        await agent.ask("go on")
    assert [line.partition(": ")[2] for line in told()] == ['no tool "ad" (did you mean "add"?); known: add, delete']


STACKS: dict[str, Callable[[ToolSource], ToolSource]] = {
    "prefixed": lambda source: prefixed(source, "my"),
    "renamed": lambda source: renamed(source, {"my_add": "add", "my_delete": "delete"}),
    "filtered": lambda source: prefixed(filtered(source, lambda context, definition: True), "my"),
    "prepared": lambda source: prefixed(prepared(source, lambda context, found: found), "my"),
    "approval": lambda source: prefixed(approval_required(source), "my"),
    "wrapped": lambda source: prefixed(wrapped(source, lambda definition, arguments, run: run(arguments)), "my"),
    "combined": lambda source: prefixed(combined(source, CountedTools("read")), "my"),
    "twice": lambda source: prefixed(dynamic(lambda context: source), "my"),
}


@pytest.mark.parametrize("stack", STACKS)
async def test_what_stands_between_a_name_and_a_dynamic_toolset_changes_nothing(
    stack: str, told: Callable[[], list[str]]
) -> None:
    source = STACKS[stack](dynamic(both))
    model = await asked(deferred(source, ["my_delete", "my_typo"]), prompts=2)
    assert "my_add" in offered(model.requests[0])
    assert "my_delete" not in offered(model.requests[0])
    assert len(told()) == 1
    assert 'no tool "my_typo"' in told()[0]


async def test_renaming_tools_of_a_dynamic_toolset_warns_of_nothing_before_it_lists(
    told: Callable[[], list[str]],
) -> None:
    model = await asked(renamed(dynamic(both), {"plus": "add", "minus": "sub"}), prompts=2)
    assert offered(model.requests[1]) == ["delete", "plus"]
    assert told() == ['renamed: no tool "sub"; known: add, delete']


async def test_a_tool_that_a_filter_hides_at_the_start_can_be_named(told: Callable[[], list[str]]) -> None:
    source = deferred(filtered([add, delete], lambda context, definition: context.deps == "admin"), ["delete"])
    model = await asked(source, deps="admin")
    assert offered(model.requests[0]) == ["search_tools", "add_tool", "add"]
    await asked(source, deps="guest")
    assert told() == []


class PerRun:
    """A toolset of somebody's own that lists `delete` in runs only."""

    async def tools(self) -> list[Tool]:
        from mcpagent.run.agent_run import run_context

        return await CountedTools(*(("add", "delete") if run_context().run_id else ("add",))).tools()

    async def __aenter__(self) -> PerRun:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


async def test_a_toolset_of_ones_own_may_list_other_tools_in_a_run(told: Callable[[], list[str]]) -> None:
    model = await asked(deferred(PerRun(), ["delete", "remove"]))
    assert offered(model.requests[0]) == ["search_tools", "add_tool", "add"]
    assert told() == ['deferred(...) of PerRun: no tool "remove"; known: add, delete']


@pytest.mark.parametrize(
    "source",
    [
        lambda: [add],
        lambda: prefixed([add], "my"),
        lambda: combined([add], external([])),
        lambda: combined(),
    ],
)
async def test_what_lists_the_same_in_every_run_ends_the_start(source: Callable[[], ToolSource]) -> None:
    toolset = combined(source(), [delete])
    with pytest.raises(ConfigError, match=r'no tool "typo"; known: .*delete'):
        async with Agent(ScriptedModel([]), tools=[deferred(toolset, ["typo"])]):
            pass


async def test_names_that_are_one_text_are_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match=r'deferred\(...\) of FunctionToolset\(add\): .* write \["add"\]'):
        deferred([add], "add")
    with pytest.raises(ConfigError, match=r'server "s": defer_loading: expected True or a list of names'):
        prefixed(McpServer("s", command="x", defer_loading="add"), "my")


# -- servers inside operations


def faulty(mode: str, **options: Any) -> McpServer:
    return McpServer("faulty", command=sys.executable, args=[str(FAULTY), mode], **options)


async def test_a_server_that_is_down_costs_only_itself(told: Callable[[], list[str]]) -> None:
    source = deferred(ServerSource(faulty("exit-at-start"), ServerOptions(startup_seconds=None)), ["echo"])
    model = await asked(source, [add], prompts=2)
    assert offered(model.requests[1]) == ["search_tools", "add_tool", "add"]
    [line, *more] = told()
    assert line.startswith('server "faulty"')
    assert "KeyError: GITHUB_TOKEN is required" in line
    assert not [other for other in more if "no tool" in other]


async def test_a_server_that_is_required_ends_the_start() -> None:
    with pytest.raises(ServerError, match="GITHUB_TOKEN is required"):
        await asked(prefixed(faulty("exit-at-start", required=True), "my"))


async def test_a_slow_server_joins_and_its_names_are_checked_then(told: Callable[[], list[str]]) -> None:
    server = ServerSource(faulty("slow-start"), ServerOptions(startup_seconds=0, question_seconds=0))
    model = ScriptedModel(["early", call("my_echo", text="hi"), "late"])
    async with Agent(model, tools=[deferred(prefixed(server, "my"), ["my_trouble", "my_typo"])]) as agent:
        await agent.ask("go")
        assert told() == []
        async with asyncio.timeout(WAIT_SECONDS):
            while not await server.tools():  # noqa: ASYNC110 - a source says nothing by itself; it is asked
                await asyncio.sleep(0.01)
        await agent.ask("go on")
        assert results(agent.messages)[0].text == "hi"
    assert offered(model.requests[0]) == ["search_tools", "add_tool"]
    assert offered(model.requests[2]) == ["search_tools", "add_tool", "my_echo"]
    assert [line.partition(": ")[2] for line in told()] == ['no tool "my_typo"; known: my_echo, my_trouble']


async def test_a_server_is_started_anew_with_each_agent() -> None:
    source = prefixed(faulty("any", required=True), "my")
    for _ in range(2):
        model = ScriptedModel([call("my_echo", text="hi"), "ok"])
        async with Agent(model, tools=[source]) as agent:
            await agent.ask("go")
            assert results(agent.messages)[0].text == "hi"


async def test_a_name_in_the_entry_of_a_server_that_it_does_not_offer_is_warned_of_once(
    told: Callable[[], list[str]],
) -> None:
    env = {"LEAKS": "SAID", "SAID": "x"}
    server = McpServer("it", sys.executable, [str(LEAKY)], env, defer_loading=["tel"])
    model = ScriptedModel(["one", "two"])
    options = RunOptions(servers=ServerOptions(startup_seconds=0))
    async with Agent(model, mcp_config=[server], tools=[add], tool_search=False, options=options) as agent:
        await agent.ask("go")
        await agent.ask("again")
    assert [offered(request) for request in model.requests] == [["add"], ["add"]]
    [line] = told()
    assert line.startswith('server "it": defer_loading: ')
    assert "did you mean" in line


def test_tools_that_are_defined_twice_or_have_a_reserved_name_are_one_line() -> None:
    def search_tools() -> str:
        """Searches."""
        return ""

    for tools, words in (
        ([add, add], 'tool "add": defined twice in the agent\'s own functions; rename one'),
        ([search_tools], 'tool "search_tools": the name is reserved for tool search; rename the function'),
    ):
        with pytest.raises(ConfigError) as caught:
            Agent(ScriptedModel(["x"]), tools=tools, with_tool_search_mode=True).__enter__()
        assert str(caught.value).startswith(words)
