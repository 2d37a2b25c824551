"""Whatever the tools come from, no request offers more of them than the model takes, and what is left out is told."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunContext, RunOptions, Tool, ToolSearch, Toolset, dump_messages, dynamic
from mcpagent.errors import ConfigError
from mcpagent.models import OpenAIChatModel
from mcpagent.models.base import ToolLimits
from mcpagent.models.scripted import Reply, ScriptedModel
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import ToolsChanged
from tests.reference_work import reference_seconds
from tests.scenes import CountedTools, call, offered, results
from tests.servers.gates import SERVERS
from tests.tables import each_row

LIMITS = [8, 128]
NAMES = [f"tool_{number:03}" for number in range(200)]
VIRTUAL = ["search_tools", "add_tool"]


class Narrow(ScriptedModel):
    """A scripted model that takes so many tools, or so many tokens."""

    def __init__(self, replies: Sequence[Reply], most: int | None, window: int | None = None) -> None:
        super().__init__(replies)
        self.limits = ToolLimits(most, window)

    def tool_limits(self) -> ToolLimits:
        return self.limits


class Growing(CountedTools):
    """So many of its tools are listed."""

    listed = 0

    async def tools(self) -> Any:
        return (await super().tools())[: self.listed]


def notices(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


_HISTORIES: dict[tuple[str, ...], list[dict[str, Any]]] = {}


async def history(names: Sequence[str]) -> list[dict[str, Any]]:
    """A conversation with a model that takes any number, in which these were added in this order."""
    if (key := tuple(names)) not in _HISTORIES:
        _HISTORIES[key] = await made_history(names)
    return _HISTORIES[key]


async def made_history(names: Sequence[str]) -> list[dict[str, Any]]:
    calls = [call("add_tool", f"a{at}", tool_names=names[at : at + 50]) for at in range(0, len(names), 50)]
    async with Agent(ScriptedModel([*calls, "ok"]), tools=[CountedTools(*NAMES)], tool_search=ToolSearch()) as agent:
        await agent.ask("add them")
        return dump_messages(agent.messages)


@each_row(
    "most, options",
    [(8, {}), (8, {"with_tool_search_mode": True}), (128, {"with_tool_search_mode": "auto"}), (128, {})],
)
async def test_pinned_tools_that_do_not_fit_are_searched(most: int, options: dict[str, Any]) -> None:
    events: list[Event] = []
    pins = NAMES[::-1][:most]
    model = Narrow([call("search_tools", query=NAMES[0]), call("add_tool", tool_names=[NAMES[0]]), "ok"], most)
    agent = Agent(model, tools=[CountedTools(*NAMES)], pre_discovered_tools=pins, on_event=events.append, **options)
    async with agent:
        await agent.ask("hi")
        assert results(agent.messages)[-1].error is None
    first = most - len(VIRTUAL) - ToolSearch().max_results
    assert offered(model.requests[0]) == [*VIRTUAL, *sorted(pins[:first])]
    assert offered(model.requests[-1]) == [*VIRTUAL, *sorted(pins[:first]), NAMES[0]]
    [told] = [text for text in notices(events) if "offered from the start" in text]
    assert told == (
        f"{most} tools are to be offered from the start, more than the model takes ({most} tools): "
        f"{first} are, the others are found by search"
    )


@each_row("most", LIMITS)
async def test_as_many_pinned_tools_as_fit_are_all_offered(most: int) -> None:
    events: list[Event] = []
    pins, model = NAMES[: most - len(VIRTUAL)], Narrow(["ok"], most)
    agent = Agent(
        model,
        tools=[CountedTools(*NAMES)],
        pre_discovered_tools=pins,
        tool_search=ToolSearch(),
        on_event=events.append,
    )
    async with agent:
        await agent.ask("hi")
    assert (offered(model.requests[0]), notices(events)) == ([*VIRTUAL, *pins], [])


@each_row("most", LIMITS)
async def test_tools_that_are_never_hidden_are_searched_when_they_do_not_fit(most: int) -> None:
    model = Narrow([call("search_tools", query=NAMES[-1]), call("add_tool", tool_names=[NAMES[-1]]), "ok"], most)
    search = ToolSearch(eager_tools={"files": ["*"]})
    async with Agent(model, tools=[CountedTools(*NAMES)], tool_search=search) as agent:
        await agent.ask("hi")
    assert all(len(request.tools) <= most for request in model.requests)
    assert offered(model.requests[-1])[-1] == NAMES[-1]


@each_row("most, mode", [(8, True), (8, False), (128, "auto"), (128, False)])
async def test_of_a_history_that_found_more_the_latest_are_offered_and_it_says_so(most: int, mode: Any) -> None:
    found = NAMES[:150]
    asked: list[list[str]] = []
    saved = await history(found)
    for _ in range(2):  # the same bytes for the same history
        model = Narrow(["fine", "fine"], most)
        async with Agent(model, tools=[CountedTools(*NAMES)], with_tool_search_mode=mode) as agent:
            session = agent.session(messages=saved)
            await session.ask("go on")
            again = agent.session(messages=dump_messages(session.messages))
            await again.ask("and on")
        kept = found[len(VIRTUAL) - most :]
        assert [offered(request) for request in model.requests] == [[*VIRTUAL, *kept]] * 2
        told = [message.text for message in again.messages if "at most" in message.text]
        assert len(told) == 1
        assert f"You take {most} tools at most, so these are not loaded any more: {NAMES[0]}, " in told[0]
        asked.append([repr(message) for message in model.requests[-1].messages])
    assert asked[0] == asked[1]


async def test_a_history_that_fits_is_told_nothing() -> None:
    saved = await history(NAMES[:6])
    model = Narrow(["fine"], 8)
    async with Agent(model, tools=[CountedTools(*NAMES)], tool_search=ToolSearch()) as agent:
        session = agent.session(messages=saved)
        await session.ask("go on")
    assert offered(model.requests[0]) == [*VIRTUAL, *NAMES[:6]]
    assert len(session.messages) == len(saved) + 2


@each_row("most", LIMITS)
async def test_a_smaller_model_goes_on_with_what_fits_it(most: int) -> None:
    wide = ScriptedModel([call("add_tool", f"a{at}", tool_names=NAMES[at : at + 50]) for at in (0, 50, 100)] + ["ok"])
    narrow = Narrow([call(NAMES[0], path="a"), "fine"], most)
    events: list[Event] = []
    tools = CountedTools(*NAMES)
    pins = NAMES[-5:]
    agent = Agent(wide, tools=[tools], tool_search=ToolSearch(), pre_discovered_tools=pins, on_event=events.append)
    async with agent:
        await agent.ask("add them")
        await agent.use_model(narrow)
        await agent.ask("go on")
    kept = NAMES[:150][len(VIRTUAL) + len(pins) - most :]
    assert [offered(request) for request in narrow.requests] == [[*VIRTUAL, *pins, *kept]] * 2
    assert [name for name, _ in tools.ran] == [f"files.{NAMES[0]}"]  # still runs, and pushes nothing out


async def test_a_smaller_model_is_refused_if_all_tools_must_be_offered() -> None:
    wide, narrow = ScriptedModel(["ok", "ok"]), Narrow([], 8)
    off = ToolSearch(enabled=False)
    async with Agent(wide, tools=[CountedTools(*NAMES)], tool_search=off, instructions="Be brief.") as agent:
        await agent.ask("hi")
        with pytest.raises(ConfigError, match="more than the model takes"):
            await agent.use_model(narrow)
        await agent.ask("and on")
    assert (len(wide.requests[-1].tools), narrow.requests) == (len(NAMES), [])
    assert wide.requests[-1].system == wide.requests[0].system != ""


async def test_a_session_that_a_smaller_model_cannot_serve_says_so_and_loses_nothing() -> None:
    def own(context: RunContext[Any]) -> CountedTools:
        return CountedTools(*NAMES[: context.deps or 1])

    off, wide, narrow = ToolSearch(enabled=False), ScriptedModel(["ok"] * 3), Narrow(["ok"] * 3, 8)
    async with Agent(wide, tools=[dynamic(own)], tool_search=off) as agent:
        few, many = agent.session(deps=5), agent.session(deps=20)
        for session in (few, many):
            await session.ask("hi")
        await agent.use_model(narrow)
        await few.ask("go on")
        for _ in range(2):
            with pytest.raises(ConfigError, match="20 tools are more than the model takes"):
                await many.ask("go on")
        assert (len(few.messages), len(many.messages)) == (4, 2)
        await agent.use_model(wide)
        await many.ask("and on")
    assert [len(request.tools) for request in (*wide.requests, *narrow.requests)] == [5, 20, 20, 5]


async def test_another_model_costs_the_same_however_many_sessions_there_are() -> None:
    tools = CountedTools(*NAMES)
    async with Agent(ScriptedModel(["ok"] * 151), tools=[tools], tool_search=ToolSearch()) as agent:
        sessions = [agent.session() for _ in range(150)]
        for session in sessions:
            await session.ask("hi")
        model = ScriptedModel(["fine"])
        taken: list[float] = []
        for given in (model, ScriptedModel([]), model):
            began = time.process_time()
            await agent.use_model(given)
            taken.append(time.process_time() - began)
        assert min(taken) < reference_seconds()
        assert await sessions[-1].ask("and now") == "fine"


@each_row("most", LIMITS)
async def test_tools_that_join_are_offered_as_far_as_they_fit(most: int) -> None:
    events: list[Event] = []
    toolset = Growing(*NAMES)
    toolset.listed = most - 1

    def joins(_request: Any) -> Any:
        toolset.listed = most + 5
        return call(NAMES[0], path="a")

    late = NAMES[most + 4]
    model = Narrow([joins, call(late, path="b"), "ok"], most)
    async with Agent(model, tools=[toolset], on_event=events.append) as agent:
        await agent.ask("hi")
    assert [len(request.tools) for request in model.requests] == [most - 1, most, most]
    assert any("5 are not offered before the next conversation" in text for text in notices(events))
    assert offered(model.requests[1]) == offered(model.requests[2]) == NAMES[:most]


def written(model: ScriptedModel) -> list[list[str]]:
    """The tools in the body of each request, those too that went and may not be called any more."""
    wire = OpenAIChatModel("m")
    return [[tool["function"]["name"] for tool in wire.request_body(request)["tools"]] for request in model.requests]


class Listed(Toolset):
    """These of its tools are listed now."""

    now: Sequence[str] = ()

    def __init__(self) -> None:
        self._all = CountedTools(*NAMES)

    async def tools(self) -> list[Tool]:
        return [tool for tool in await self._all.tools() if tool.name in self.now]


async def test_a_conversation_that_grows_beyond_the_model_offers_what_its_history_says() -> None:
    toolset, model = Listed(), Narrow(["ok"] * 4, 8)
    began, joined = NAMES[10:14], [*NAMES[4:10], *NAMES[14:18]]
    async with Agent(model, tools=[toolset]) as agent:
        session = agent.session()
        for toolset.now in (began, [*began, *joined], [*began[2:], *joined], [*began, *joined]):
            await session.ask("go on")
        added = [*joined[:4]]
        assert [offered(request) for request in model.requests] == [
            began,
            [*began, *added],
            [*began[2:], *added],  # what went still takes its place in the requests, so nothing else comes in
            [*began, *added],
        ]
        assert written(model) == [began, *[[*began, *added]] * 3]
        records = [part for message in session.messages for part in message.parts if isinstance(part, ToolsChanged)]
        assert [[tool.name for tool in part.added] for part in records] == [added, [], began[:2]]
        assert [list(part.removed) for part in records] == [[], began[:2], []]
        assert [message.text for message in session.messages if message.text.startswith(("More", "Your"))] == [
            f"More tools can be used from now on: {', '.join(added)}.",
            f"Your tools have changed; gone: {', '.join(began[:2])}.",
            f"More tools can be used from now on: {', '.join(began[:2])}.",
        ]
        assert list(session.discovered_tools) == [*began, *added]


async def test_a_server_of_which_a_part_fits_is_told_so_and_one_that_is_back_has_all(tmp_path: Path) -> None:
    def listing(server: str, count: int) -> dict[str, Any]:
        names = [f"{server[0]}{number}" for number in range(1, count + 1)]
        tools = [{"name": name, "description": "Does it.", "inputSchema": {"type": "object"}} for name in names]
        file = tmp_path / f"{server}.json"
        file.write_text(json.dumps({"server": server, "tools": tools}), encoding="utf-8")
        return {"command": sys.executable, "args": [str(SERVERS / "catalog_server.py"), str(file)]}

    events: list[Event] = []
    model = Narrow(["ok"] * 4, 3)
    config = {"mcpServers": {server: listing(server, count) for server, count in (("aa", 2), ("bb", 0))}}
    async with Agent(model, mcp_config=config, on_event=events.append) as agent:
        await agent.mcp.turn_off("bb")
        session = agent.session()
        await session.ask("first")
        listing("bb", 2)
        await agent.mcp.restart("bb")
        await session.ask("second")
        await agent.mcp.turn_off("aa")
        await session.ask("third")
        await agent.mcp.restart("aa")
        await session.ask("fourth")
        texts = [message.text for message in session.messages if message.role == "user"]
    assert texts == [
        "first",
        "A server has connected, 1 of its 2 tools can be used from now on: bb: b1.",
        "second",
        'The server "aa" changed its tools; gone: a1, a2.',
        "third",
        "A server has connected, its tools can be used from now on: aa, 2 tools.",
        "fourth",
    ]
    assert [offered(request) for request in model.requests] == [
        ["a1", "a2"],
        ["a1", "a2", "b1"],
        ["b1"],
        ["a1", "a2", "b1"],
    ]
    assert written(model) == [["a1", "a2"], *[["a1", "a2", "b1"]] * 3]
    told = [text for text in notices(events) if "more than the model takes" in text]
    assert told[0] == (
        "4 tools are more than the model takes (3 tools): 1 are not offered before the next conversation"
    )
    assert not any("tool search is on" in text for text in told)  # the agent's own session was never used


@each_row("policy", ["load", "run", "refuse"])
async def test_a_direct_call_loads_no_more_than_fit(policy: Any) -> None:
    toolset = CountedTools(*NAMES)
    model = Narrow([call(NAMES[50], path="a"), call(NAMES[50], "again", path="a"), "ok"], 8)
    search = ToolSearch(on_direct_call=policy)
    async with Agent(model, tools=[toolset], tool_search=search) as agent:
        session = agent.session(messages=await history(NAMES[:6]))
        await session.ask("hi")
    assert {len(request.tools) for request in model.requests} == {8}
    assert len(toolset.ran) == {"load": 1, "run": 2, "refuse": 0}[policy]


async def test_what_was_withdrawn_takes_its_place_in_the_requests() -> None:
    search = ToolSearch(extra_tools=("remove_tool",))
    script: list[Reply] = [
        call("add_tool", "1", tool_names=NAMES[:5]),
        call("remove_tool", "2", tool_names=NAMES[:3]),
        call("add_tool", "3", tool_names=NAMES[5:7]),
        call("add_tool", "4", tool_names=NAMES[:3]),
        "ok",
    ]
    model = Narrow(script, 8)
    async with Agent(model, tools=[CountedTools(*NAMES)], tool_search=search) as agent:
        await agent.ask("hi")
        third, fourth = results(agent.messages)[2:]
    assert (third.error, fourth.error) == ("invalid_arguments", None)


# -- the window -------------------------------------------------------------------------------------------------------

WINDOWS = [1_500, 6_000]


def tokens(model: ScriptedModel) -> list[int]:
    """What the definitions of each request take."""
    return [sum(map(definition_tokens, request.tools)) for request in model.requests]


@each_row("window, mode", [(1_500, True), (1_500, False), (6_000, "auto"), (6_000, False)])
async def test_pinned_tools_take_at_most_half_of_the_window(window: int, mode: Any) -> None:
    events: list[Event] = []
    model = Narrow([call("search_tools", query=NAMES[0]), call("add_tool", tool_names=[NAMES[0]]), "ok"], None, window)
    agent = Agent(
        model,
        tools=[CountedTools(*NAMES)],
        pre_discovered_tools=NAMES[1:],
        with_tool_search_mode=mode,
        on_event=events.append,
    )
    async with agent:
        await agent.ask("hi")
        assert results(agent.messages)[-1].error is None
    assert max(tokens(model)) <= window / 2
    assert len(offered(model.requests[0])) > len(VIRTUAL)
    assert offered(model.requests[-1])[-1] == NAMES[0]
    most = f"more than the model takes ({window // 2:,} tokens of tool definitions)"
    assert any(f"199 tools are to be offered from the start, {most}" in text for text in notices(events))


@each_row("window, mode", [(1_500, True), (1_500, False), (6_000, "auto"), (6_000, False)])
async def test_of_a_history_the_latest_tools_are_offered_that_fit_the_window(window: int, mode: Any) -> None:
    model = Narrow(["fine"], None, window)
    whole = RunOptions(compaction=None)
    async with Agent(model, tools=[CountedTools(*NAMES)], with_tool_search_mode=mode, options=whole) as agent:
        session = agent.session(messages=await history(NAMES))
        await session.ask("go on")
    names = offered(model.requests[0])[len(VIRTUAL) :]
    assert names == NAMES[len(NAMES) - len(names) :]
    one = max(definition_tokens(tool) for tool in model.requests[0].tools[len(VIRTUAL) :])
    assert window / 2 - 2 * one < tokens(model)[0] <= window / 2
    [told] = [message.text for message in session.messages if "at most" in message.text]
    assert told.startswith(f"You take {window // 2:,} tokens of tool definitions at most, so these are not loaded")


async def test_tools_that_join_take_at_most_half_of_the_window() -> None:
    toolset = Growing(*NAMES)
    toolset.listed = 3

    def joins(_request: Any) -> Any:
        toolset.listed = len(NAMES)
        return call(NAMES[0], path="a")

    model = Narrow([joins, call(NAMES[-1], path="b"), "ok"], None, WINDOWS[0])
    async with Agent(model, tools=[toolset], with_tool_search_mode=False) as agent:
        await agent.ask("hi")
    assert 3 < len(model.requests[1].tools) < len(NAMES)
    assert max(tokens(model)) <= WINDOWS[0] / 2


@each_row("how", ["add_tool", "search_tools", "direct"])
async def test_what_is_found_takes_at_most_half_of_the_window(how: str) -> None:
    script: dict[str, list[Reply]] = {
        "add_tool": [call("add_tool", f"c{at}", tool_names=NAMES[at : at + 5]) for at in range(0, 100, 5)],
        "search_tools": [call("search_tools", f"c{at}", query=f"tool_{at:02}") for at in range(20)],
        "direct": [call(name, name, path="a") for name in NAMES[:60]],
    }
    search = ToolSearch(load="search" if how == "search_tools" else "add_tool")
    model = Narrow([*script[how], "ok"], None, WINDOWS[0])
    whole = RunOptions(compaction=None)
    async with Agent(model, tools=[CountedTools(*NAMES)], tool_search=search, options=whole) as agent:
        await agent.ask("hi")
        told = results(agent.messages)
    assert max(tokens(model)) <= WINDOWS[0] / 2
    one = max(definition_tokens(tool) for tool in model.requests[-1].tools[len(VIRTUAL) :])
    assert tokens(model)[-1] > WINDOWS[0] / 2 - 6 * one
    if how == "add_tool":
        tried = [result for result in told if result.error != "cancelled"]  # what fails again and again is not run
        assert (tried[0].error, tried[-1].error) == (None, "invalid_arguments")
        assert "tokens of tool definitions more and no more" in tried[-1].text
    else:
        assert {result.error for result in told} == {"not_loaded" if how == "direct" else None}


async def test_one_definition_that_is_larger_than_fits_is_not_loaded() -> None:
    def huge(text: str) -> str:
        return text

    huge.__doc__ = "A long story. " * 2_000
    twice = [call("huge", "first", text="ran"), call("huge", "second", text="ran")]
    model = Narrow([call("add_tool", tool_names=["huge"]), *twice, "ok"], None, 8_000)
    async with Agent(model, tools=[huge], tool_search=ToolSearch()) as agent:
        await agent.ask("hi")
        added, shown, direct = results(agent.messages)
    assert added.error == "invalid_arguments"
    assert (shown.error, direct.error, direct.text) == ("not_loaded", None, "ran")
    assert max(tokens(model)) <= 4_000
