"""A server that is still connecting: what a question waits for, what the model and the person are told of it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ToolSearch
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.toolsets.sources import ToolSources
from mcpagent.values.events import Event, Notice, ServersAwaited, ToolCallFinished, ToolsSearched
from tests.scenes import call, offered, results

SERVERS = Path(__file__).resolve().parents[1] / "servers"
WAIT_SECONDS = 60
WARNING = 'server "slow" is still connecting; this question is answered without its tools'
LINE = "- slow, still connecting: you are told when its tools can be used"


@pytest.fixture
def gate() -> Iterator[socket.socket]:
    """Closing it lets the gated server go."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def gated(gate: socket.socket, *script: str) -> dict[str, Any]:
    port = str(gate.getsockname()[1])
    server = {"command": sys.executable, "args": [str(SERVERS / "gated.py"), port, *script]}
    return {"mcpServers": {"slow": server}}


@pytest.fixture
def slow(gate: socket.socket, tmp_path: Path) -> dict[str, Any]:
    tool = {"name": "get_weather", "description": "Get the weather of a place", "inputSchema": {"type": "object"}}
    file = tmp_path / "weather.json"
    file.write_text(json.dumps({"server": "slow", "tools": [tool]}), encoding="utf-8")
    return gated(gate, str(SERVERS / "catalog_server.py"), str(file))


def waiting(question_seconds: float | None) -> ServerOptions:
    return ServerOptions(startup_seconds=0, question_seconds=question_seconds)


@pytest.mark.parametrize("mode", [False, True])
async def test_a_question_waits_for_a_server_that_is_connecting(
    mode: bool, slow: dict[str, Any], gate: socket.socket
) -> None:
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, ServersAwaited):
            gate.close()

    model = ScriptedModel([call("get_weather"), "sunny"])
    agent = Agent(
        model,
        mcp_config=slow,
        with_tool_search_mode=mode,
        on_event=hear,
        options=RunOptions(servers=waiting(WAIT_SECONDS)),
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        states = [agent.servers["slow"].state]
        assert await agent.ask("How is the weather?") == "sunny"
        states.append(agent.servers["slow"].state)
    assert states == ["connecting", "ready"]
    assert [event for event in events if isinstance(event, ServersAwaited)] == [ServersAwaited(("slow",))]
    assert not [event for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert "still connecting" not in model.requests[0].system
    assert ("get_weather" in offered(model.requests[0])) is not mode


async def test_after_its_limit_a_question_is_answered_without_and_the_model_hears_so(
    slow: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Without a listener the warning is logged, which Python writes to stderr."""
    model = ScriptedModel(["it is still connecting", "so it is"])
    with caplog.at_level(logging.WARNING, "mcpagent"):
        async with (
            asyncio.timeout(WAIT_SECONDS),
            Agent(model, mcp_config=slow, options=RunOptions(servers=waiting(0.1))) as agent,
        ):
            await agent.ask("How is the weather?")
            assert caplog.messages == [WARNING]
            await agent.ask("And now?")
            assert caplog.messages == [WARNING] * 2
            assert agent.servers["slow"].state == "connecting"
    assert LINE in model.requests[0].system
    assert "say that they are still connecting" in model.requests[0].system


async def test_a_search_says_what_is_connecting_and_the_next_one_waits_for_it(
    slow: dict[str, Any], gate: socket.socket
) -> None:
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, ToolsSearched) and event.connecting:
            sources = agent._runtime.definition.sources
            assert isinstance(sources, ToolSources)
            sources.options = waiting(WAIT_SECONDS)  # the limit has been met; the next search has time
            gate.close()

    search = call("search_tools", query="weather of a place")
    model = ScriptedModel([search, replace(search, id="again"), call("get_weather"), "sunny"])
    agent = Agent(
        model, mcp_config=slow, with_tool_search_mode=True, on_event=hear, options=RunOptions(servers=waiting(0.1))
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert await agent.ask("How is the weather?") == "sunny"
    assert LINE in model.requests[0].system
    assert "none" not in model.requests[0].system.partition("categories:")[2].partition("**Workflow")[0]
    first, second = (json.loads(result.text) for result in results(model.requests[2].messages))
    assert first["found"] == 0
    assert "Not searched yet: slow (it is still connecting)." in first["message"]
    assert "call search_tools again then" in first["message"]
    assert "Do not search again" not in first["message"]
    assert first["message"].endswith(f"Available categories:\n{LINE}")
    assert [tool["name"] for tool in second["tools"]] == ["get_weather"]
    assert "connecting" not in second["message"]
    assert [event.connecting for event in events if isinstance(event, ToolsSearched)] == [("slow",), ()]
    for before, after in zip(model.requests, model.requests[1:], strict=False):  # nothing sent is rewritten
        assert after.system == before.system
        assert after.messages[: len(before.messages)] == before.messages


@pytest.mark.parametrize("asked", ["get_weather", "slow.get_*"])  # a closed gate opens no more
async def test_adding_a_tool_that_is_not_there_yet_says_so_and_the_next_try_waits_for_it(
    asked: str, slow: dict[str, Any], gate: socket.socket
) -> None:
    tried: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, ToolCallFinished) and event.call.name == "add_tool":
            tried.append(event.call.id)
            sources = agent._runtime.definition.sources
            assert isinstance(sources, ToolSources)
            sources.options = waiting(WAIT_SECONDS)  # the limit has been met; the next one has time
            if len(tried) == 1:
                gate.close()

    add = call("add_tool", tool_names=[asked])
    model = ScriptedModel([add, replace(add, id="again"), call("get_weather"), "sunny"])
    agent = Agent(
        model, mcp_config=slow, with_tool_search_mode=True, on_event=hear, options=RunOptions(servers=waiting(0.1))
    )
    async with asyncio.timeout(WAIT_SECONDS), agent:
        assert await agent.ask("How is the weather?") == "sunny"
    first, second = (result.text for result in results(model.requests[2].messages))
    assert first.startswith(f"Not found: {asked} Not searched yet: slow (it is still connecting).")
    assert second == "Added tools: get_weather"


async def test_the_list_of_all_tools_says_what_is_connecting(slow: dict[str, Any], tmp_path: Path) -> None:
    slow["mcpServers"]["gone"] = {"command": str(tmp_path / "nothing")}
    model = ScriptedModel([call("show_all_tools"), "ok"])
    search = ToolSearch(extra_tools=("show_all_tools",))
    agent = Agent(model, mcp_config=slow, tool_search=search, options=RunOptions(servers=waiting(0.1)))
    async with asyncio.timeout(WAIT_SECONDS), agent:
        await agent.ask("What is there?")
    (listed,) = results(model.requests[1].messages)
    head, told = listed.text.splitlines()
    assert head == "0 tools"
    assert "Not connected: gone (" in told
    assert "Not searched yet: slow (it is still connecting)." in told


async def test_a_search_of_a_server_that_failed_says_why(slow: dict[str, Any], gate: socket.socket) -> None:
    gate.close()
    slow["mcpServers"]["gone"] = {"command": "/nowhere/nothing"}
    model = ScriptedModel([call("search_tools", query="time", server="gone"), "ok"])
    async with asyncio.timeout(WAIT_SECONDS), Agent(model, mcp_config=slow, with_tool_search_mode=True) as agent:
        await agent.ask("What time is it?")
    (found,) = results(model.requests[1].messages)
    assert found.error is None
    assert 'Not connected: gone (server "gone" could not start: ' in json.loads(found.text)["message"]


async def test_the_same_state_gives_the_same_request(slow: dict[str, Any]) -> None:
    requests = []
    for seconds in (0, 0.3):
        model = ScriptedModel([call("search_tools", query="weather"), "ok"])
        agent = Agent(model, mcp_config=slow, with_tool_search_mode=True, options=RunOptions(servers=waiting(seconds)))
        async with asyncio.timeout(WAIT_SECONDS), agent:
            await agent.ask("How is the weather?")
        requests.append([(request.system, request.tools, _told(request.messages)) for request in model.requests])
    assert requests[0] == requests[1]


def _told(messages: Any) -> list[tuple[str, list[str]]]:
    return [(message.text, [result.text for result in message.tool_results]) for message in messages]


async def test_that_it_failed_after_all_is_said_in_the_conversation(gate: socket.socket) -> None:
    stays_down = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, Notice) and "stays down" in event.text:
            stays_down.set()

    model = ScriptedModel(["not yet", "it failed"])
    config = gated(gate, str(SERVERS / "faulty_server.py"), "exit-at-start")
    agent = Agent(model, mcp_config=config, on_event=hear, options=RunOptions(servers=waiting(0.1)))
    async with asyncio.timeout(WAIT_SECONDS), agent:
        await agent.ask("How is the weather?")
        gate.close()
        await stays_down.wait()
        await agent.ask("And now?")
    first, second = model.requests
    assert second.system == first.system
    assert second.messages[: len(first.messages)] == first.messages
    assert any(
        "A server cannot be used: slow (" in message.text and "code 3" in message.text for message in second.messages
    )


async def test_who_is_awaited_is_told_again_when_one_of_them_is_there(
    slow: dict[str, Any], gate: socket.socket
) -> None:
    """So that no screen names a server that is ready, or has failed, already."""
    awaited: list[tuple[str, ...]] = []
    gates = {"slow": gate}
    with socket.create_server(("127.0.0.1", 0)) as gates["slower"]:
        entry = slow["mcpServers"]["slow"]
        _, *script = entry["args"][1:]
        slower = gated(gates["slower"], *script)["mcpServers"]["slow"]

        def hear(event: Event) -> None:
            if isinstance(event, ServersAwaited):
                awaited.append(event.servers)
                gates[event.servers[-1]].close()

        servers = {"mcpServers": {"slower": slower, "slow": entry}}
        agent = Agent(
            ScriptedModel(["done"]),
            mcp_config=servers,
            on_event=hear,
            options=RunOptions(servers=waiting(WAIT_SECONDS)),
        )
        async with asyncio.timeout(WAIT_SECONDS), agent:
            assert await agent.ask("How is the weather?") == "done"
            assert {status.state for status in agent.servers.values()} == {"ready"}
    assert awaited == [("slow", "slower"), ("slow",)]
