"""How long a question waits for servers: one limit for all of it, and once for each attempt to connect."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, McpServer, RunOptions
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.toolsets.composition import prefixed
from mcpagent.toolsets.server_source import ServerSource
from mcpagent.values.events import (
    Event,
    Notice,
    ServerConnecting,
    ServerLogged,
    ServersAwaited,
    SubagentEvent,
    ToolsSearched,
)
from tests.scenes import call, results
from tests.servers.gates import SERVERS, Gate, catalogue

WAIT_SECONDS = 60
AWAITED = ServersAwaited(("slow",))
WARNING = Notice('server "slow" is still connecting; this question is answered without its tools', "warning")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as gate:
        yield gate


@pytest.fixture
def weather(tmp_path: Path) -> tuple[str, str]:
    return catalogue(tmp_path, get_weather="Get the weather of a place")


@pytest.fixture
def clock(tmp_path: Path) -> dict[str, Any]:
    script = catalogue(tmp_path, get_time="Get the time of day in a city")
    return {"command": sys.executable, "args": list(script)}


def waiting(question_seconds: float | None) -> ServerOptions:
    return ServerOptions(startup_seconds=0, question_seconds=question_seconds)


class Restarts:
    """A function for a model that takes the server away and starts it again, behind a gate; and what is told."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.events: list[Event] = []
        self.opens_when_awaited = False
        self.agent: Agent | None = None
        self._begins = asyncio.Event()
        self._restart: asyncio.Task[None] | None = None

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ServerConnecting):
            self._begins.set()
        if isinstance(event, ServersAwaited) and self.opens_when_awaited:
            self.gate.open()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def restart_slow(self) -> str:
        """Restarts the server."""
        assert self.agent is not None
        await self.end()
        self.gate.shut()
        await self.agent.mcp.turn_off("slow")
        self._begins.clear()
        self._restart = asyncio.create_task(self.agent.mcp.restart("slow"))
        await self._begins.wait()
        return "it restarts"

    async def end(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            await asyncio.gather(self._restart, return_exceptions=True)


def restarting(
    gate: Gate, model: ScriptedModel, servers: dict[str, Any], seconds: float, *, mode: bool = True
) -> tuple[Agent, Restarts]:
    restarts = Restarts(gate)
    agent = Agent(
        model,
        mcp_config={"mcpServers": servers},
        tools=[restarts.restart_slow],
        with_tool_search_mode=mode,
        on_event=restarts.hear,
        options=RunOptions(servers=waiting(seconds)),
        pre_discovered_tools=["restart_slow"],
    )
    restarts.agent = agent
    return agent, restarts


def answers(model: ScriptedModel) -> list[str]:
    return [result.text for result in results(model.requests[-1].messages)]


async def test_a_question_and_its_searches_wait_once(gate: Gate, weather: tuple[str, str]) -> None:
    """And the next questions do not wait for that attempt; each says all the same what is still connecting."""
    events: list[Event] = []
    search = call("search_tools", query="weather of a place")
    model = ScriptedModel([search, replace(search, id="again"), "not yet", search, "nor now"])
    config = {"mcpServers": {"slow": gate.server(*weather)}}
    agent = Agent(
        model,
        mcp_config=config,
        with_tool_search_mode=True,
        on_event=events.append,
        options=RunOptions(servers=waiting(0.2)),
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert await agent.ask("How is the weather?") == "not yet"
        assert await agent.ask("And now?") == "nor now"
        assert agent.servers["slow"].state == "connecting"
    assert [event for event in events if isinstance(event, ServersAwaited)] == [AWAITED]
    assert [event for event in events if event == WARNING] == [WARNING] * 2
    assert [event.connecting for event in events if isinstance(event, ToolsSearched)] == [("slow",)] * 3
    for text in answers(model):
        assert "Not searched yet: slow (it is still connecting)." in json.loads(text)["message"]


async def test_another_attempt_is_waited_for_anew(gate: Gate, weather: tuple[str, str]) -> None:
    model = ScriptedModel(["not yet", call("search_tools", query="weather of a place"), "there it is"])
    agent, restarts = restarting(gate, model, {"slow": gate.server(*weather)}, 0.2)
    async with asyncio.timeout(WAIT_SECONDS), agent:
        await agent.ask("How is the weather?")
        gate.open()
        await restarts.restart_slow()
        restarts.opens_when_awaited = True
        agent._runtime.definition.sources.options = waiting(WAIT_SECONDS)  # type: ignore[attr-defined]
        await agent.ask("And now?")
    assert restarts.of(ServersAwaited) == [AWAITED] * 2
    assert '"get_weather"' in answers(model)[-1]


async def test_a_question_that_is_stopped_has_not_waited_in_vain(gate: Gate, weather: tuple[str, str]) -> None:
    awaited, events = asyncio.Event(), list[Event]()

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, ServersAwaited):
            awaited.set()

    config = {"mcpServers": {"slow": gate.server(*weather)}}
    agent = Agent(
        ScriptedModel(["sunny"]), mcp_config=config, on_event=hear, options=RunOptions(servers=waiting(WAIT_SECONDS))
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        asking = asyncio.create_task(agent.ask("How is the weather?"))
        await awaited.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        awaited.clear()
        asking = asyncio.create_task(agent.ask("How is the weather?"))
        await awaited.wait()
        gate.open()
        assert await asking == "sunny"
    assert [event for event in events if isinstance(event, ServersAwaited)] == [AWAITED] * 2


@pytest.mark.parametrize("mode", [True, False])
async def test_a_server_that_restarts_within_a_question_is_waited_for(
    mode: bool, gate: Gate, weather: tuple[str, str]
) -> None:
    gate.open()
    search = [call("search_tools", query="weather of a place")] if mode else []
    model = ScriptedModel([call("restart_slow"), *search, "done", "again"])
    agent, restarts = restarting(gate, model, {"slow": gate.server(*weather)}, WAIT_SECONDS, mode=mode)
    restarts.opens_when_awaited = True
    async with asyncio.timeout(WAIT_SECONDS), agent:
        await agent.ask("Which servers are there?")
        await agent.ask("And now?")
        assert agent.servers["slow"].state == "ready"
    told = "\n".join(message.text for message in model.requests[-1].messages)
    assert "A server is still connecting: slow; you are told when its tools can be used." in told
    assert "A server has connected, its tools can be used from now on: slow" in told
    if mode:
        assert '"get_weather"' in answers(model)[-1]
        assert restarts.of(ToolsSearched)[-1].connecting == ()


async def test_a_sure_match_does_not_wait(gate: Gate, weather: tuple[str, str], clock: dict[str, Any]) -> None:
    """The gate is never opened: whoever waited would wait for longer than the test may take."""
    gate.open()
    model = ScriptedModel([call("restart_slow"), call("search_tools", query="time of day in a city"), "noon"])
    agent, restarts = restarting(gate, model, {"slow": gate.server(*weather), "clock": clock}, 10 * WAIT_SECONDS)
    async with asyncio.timeout(WAIT_SECONDS), agent:
        async for event in agent.stream("What time is it?"):
            if isinstance(event, ToolsSearched):
                assert agent.servers["slow"].state == "connecting"
        await restarts.end()
    searched, awaited = (restarts.events.index(restarts.of(kind)[-1]) for kind in (ToolsSearched, ServersAwaited))
    begun = restarts.events.index(ServerConnecting("slow"), awaited)
    assert awaited < begun < searched
    found = json.loads(answers(model)[-1])
    assert found["tools"][0]["name"] == "get_time"
    assert "confidence" not in found
    assert found["message"].endswith("Not searched yet: slow (it is still connecting).")


async def test_a_call_of_a_tool_that_is_not_there_yet_says_so(gate: Gate, weather: tuple[str, str]) -> None:
    model = ScriptedModel([call("get_weather"), "not yet"])
    config = {"mcpServers": {"slow": gate.server(*weather)}}
    async with (
        asyncio.timeout(WAIT_SECONDS),
        Agent(model, mcp_config=config, options=RunOptions(servers=waiting(0.1))) as agent,
    ):
        await agent.ask("How is the weather?")
    (refused,) = answers(model)
    assert refused.startswith('There is no tool "get_weather" so far.')
    assert 'Server "slow" is still connecting and may have it' in refused


async def test_a_list_that_changes_within_a_question_is_waited_for(gate: Gate, tmp_path: Path) -> None:
    _, file = catalogue(tmp_path, paint="Paint a wall", get_weather="Get the weather of a place")
    server = {
        "command": sys.executable,
        "args": ["-m", "tests.servers.growing_server", str(gate.port), file],
        "cwd": str(SERVERS.parents[1]),
    }

    async def grow() -> str:
        """Has the server list more."""
        gate.open()
        await grown.wait()
        return "it reads"

    grown = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ServerLogged):  # said after the list changed
            grown.set()

    model = ScriptedModel([call("grow"), call("search_tools", query="weather of a place"), "sunny"])
    agent = Agent(
        model,
        mcp_config={"mcpServers": {"slow": server}},
        tools=[grow],
        with_tool_search_mode=True,
        pre_discovered_tools=["grow"],
        on_event=hear,
        options=RunOptions(servers=waiting(WAIT_SECONDS)),
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert await agent.ask("How is the weather?") == "sunny"
    assert json.loads(answers(model)[-1])["tools"][0]["name"] == "get_weather"


@pytest.mark.parametrize("question_seconds", [0.2, WAIT_SECONDS])
async def test_a_server_inside_an_operation_is_waited_for_too(
    gate: Gate, weather: tuple[str, str], question_seconds: float
) -> None:
    """And once: what it is asked for again has waited within the same limit."""
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, ServersAwaited) and question_seconds == WAIT_SECONDS:
            gate.open()

    entry = gate.server(*weather)
    server = McpServer("slow", command=entry["command"], args=entry["args"])
    source = ServerSource(server, waiting(question_seconds))
    model = ScriptedModel([call("my_get_weather"), "told"])
    agent = Agent(
        model, tools=[prefixed(source, "my")], on_event=hear, options=RunOptions(servers=waiting(question_seconds))
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert await agent.ask("How is the weather?") == "told"
    assert [event for event in events if isinstance(event, ServersAwaited)] == [AWAITED]
    [answer] = answers(model)
    assert ("get_weather" in answer) == (question_seconds == WAIT_SECONDS) or "no tool" in answer.lower()
    offered = [tool.name for tool in model.requests[0].tools]
    assert offered == (["my_get_weather"] if question_seconds == WAIT_SECONDS else [])


async def test_an_agent_called_as_a_tool_waits_within_its_callers_limit(gate: Gate, weather: tuple[str, str]) -> None:
    """The caller has waited for all of its limit: the other agent, whose limit is longer, does not wait again."""
    events: list[Event] = []
    config = {"mcpServers": {"slow": gate.server(*weather)}}
    inner = Agent(
        ScriptedModel(["it cannot be known yet"]),
        mcp_config=config,
        options=RunOptions(servers=waiting(0.2)),
    )
    outer = Agent(
        ScriptedModel([call("forecaster", prompt="How is the weather?"), "not yet"]),
        mcp_config=config,
        tools=[inner.as_tool("forecaster", "Forecasts the weather")],
        on_event=events.append,
        options=RunOptions(servers=waiting(0.2)),
    )
    async with asyncio.timeout(WAIT_SECONDS), inner, outer:
        assert await outer.ask("How is the weather?") == "not yet"
    inside = [event.event for event in events if isinstance(event, SubagentEvent)]
    assert [event for event in events if isinstance(event, ServersAwaited)] == [AWAITED]
    assert [event for event in inside if isinstance(event, ServersAwaited)] == []
    assert WARNING in inside


async def test_the_first_answer_of_a_script_is_true(gate: Gate, weather: tuple[str, str]) -> None:
    """The start has given up on the server when the question comes; the question has a limit of its own."""
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, ServersAwaited):
            gate.open()

    add = call("add_tool", tool_names=["get_weather"])
    model = ScriptedModel([call("search_tools", query="weather of a place"), add, call("get_weather"), "sunny"])
    options = ServerOptions(startup_seconds=0.1, question_seconds=WAIT_SECONDS)
    config = {"mcpServers": {"slow": gate.server(*weather)}}
    agent = Agent(
        model, mcp_config=config, with_tool_search_mode=True, on_event=hear, options=RunOptions(servers=options)
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert agent.servers["slow"].state == "connecting"
        assert await agent.ask("How is the weather?") == "sunny"
    assert [event for event in events if isinstance(event, ServersAwaited)] == [AWAITED]
    assert json.loads(answers(model)[-1])["tool"] == "get_weather"
