"""One state for each server, one word at every door: prompt, search, question, events, screen, /mcp, /why, doctor."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mcpagent import Agent, RunOptions
from mcpagent.cli.approvals.approver import Approver
from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.chat.slash.slash_table import run_command
from mcpagent.cli.chat.status_line import Status, servers_field, status_document
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Glyphs, Terminal
from mcpagent.cli.servers.probing import probe
from mcpagent.config import load_servers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.decision import Rules
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.values.events import Event, Notice, ServerConnected, ServerFailed, ServersAwaited, ToolsSearched
from tests.scenes import call, results
from tests.servers.gates import SERVERS, Gate, catalogue

WAIT_SECONDS = 60
WARNING = Notice('server "slow" is still connecting; this question is answered without its tools', "warning")
FAILURE = "exited with code 1 during initialize: KeyError: GITHUB_TOKEN is required"
SEARCH = call("search_tools", query="weather of a place")
BROKEN = 'import sys\nsys.exit("KeyError: GITHUB_TOKEN is required")\n'


def runs(*script: str) -> str:
    """A program that becomes this script with its arguments."""
    return f"import runpy, sys\nsys.argv = {list(script)!r}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as gate:
        yield gate


class Doors:
    """An agent with the one server "slow", and what is said of it at each door."""

    def __init__(self, agent: Agent, model: ScriptedModel, desk: ChatState, screen: io.StringIO, folder: Path) -> None:
        self.agent, self.model, self._desk, self._screen, self._folder = agent, model, desk, screen, folder
        self.events: list[Event] = []
        self.news = asyncio.Event()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, kind: type[Any], count: int = 1) -> None:
        while len(self.of(kind)) < count:
            self.news.clear()
            await self.news.wait()

    def state(self) -> str:
        return self.agent.servers["slow"].state

    async def command(self, line: str) -> str:
        self._screen.seek(0)
        self._screen.truncate()
        await run_command(self._desk, line)
        return self._screen.getvalue()

    def searched(self) -> str:
        """What the model was told by its last search."""
        last = [result.text for result in results(self.model.requests[-1].messages)][-1]
        return str(json.loads(last)["message"])

    def screen(self) -> tuple[str, dict[str, int]]:
        status = Status.of(self.agent, "ask", 0, is_started=True)
        return servers_field(status), status_document(status, "")["mcp"]

    async def doctor(self, seconds: float = WAIT_SECONDS) -> tuple[str, str]:
        """State and reason, of a server that has so long."""
        (config,) = self._desk.configuration.enabled
        found = (await probe(config, os.environ, self._folder / "logs", seconds=seconds)).document()
        return found["state"], found["reason"] or ""


@asynccontextmanager
async def doors(tmp_path: Path, server: dict[str, Any], *replies: object, seconds: float) -> AsyncIterator[Doors]:
    model = ScriptedModel(list(replies))  # type: ignore[arg-type]
    screen = io.StringIO()
    console = Console(file=screen, width=200, markup=False, highlight=False, emoji=False)
    servers = load_servers({"mcpServers": {"slow": server}})

    def hear(event: Event) -> None:
        desk.trace = desk.trace.after(event, agent)
        made.events.append(event)
        made.news.set()

    agent = Agent(
        model,
        mcp_config=servers,
        tool_search=ToolSearch(enabled=True),
        on_event=hear,
        options=RunOptions(servers=ServerOptions(startup_seconds=0, question_seconds=seconds)),
    )

    async def nothing(*_: object) -> Any:
        return None

    desk = ChatState(
        agent=agent,
        configuration=Configuration(servers),
        terminal=Terminal(console, console, Glyphs()),
        approver=Approver(Rules("ask"), StoredApprovals(None, {}), None),
        environ={"MCPAGENT_HOME": str(tmp_path / "home"), "TERM": "dumb"},
        folder=tmp_path,
        ready=nothing,
        ask=nothing,
        edit=nothing,
        options=Options(folder=tmp_path),
        store=None,
        pick=nothing,
        go_on_with=nothing,
        finish=nothing,
    )
    made = Doors(agent, model, desk, screen, tmp_path)
    async with asyncio.timeout(WAIT_SECONDS), agent:
        yield made


async def test_hanging(tmp_path: Path, gate: Gate) -> None:
    server = gate.server(*catalogue(tmp_path, get_weather="Get the weather of a place"))
    async with doors(tmp_path, server, SEARCH, "not yet", SEARCH, "there", seconds=0.2) as at:
        await at.agent.ask("How is the weather?")
        assert at.state() == "connecting"
        assert "- slow, still connecting: you are told when its tools can be used" in at.model.requests[0].system
        assert "Not searched yet: slow (it is still connecting)." in at.searched()
        assert at.of(ServersAwaited) == [ServersAwaited(("slow",))]
        assert [event.connecting for event in at.of(ToolsSearched)] == [("slow",)]
        assert [event for event in at.events if event == WARNING] == [WARNING]
        assert not at.of(ServerConnected) + at.of(ServerFailed)
        assert at.screen() == ("mcp 1..", {"ready": 0, "connecting": 1, "failed": 0, "declined": 0})
        assert ".. slow  connecting" in await at.command("/mcp")
        assert "not searched: slow (it is still connecting)" in await at.command("/why get_weather")
        assert await at.doctor(0.2) == ("connecting", "it is still connecting")
        gate.open()  # it was slow
        await at.until(ServerConnected)
        await at.agent.ask("And now?")
        assert "connecting" not in at.searched()
        assert "A server has connected" in "".join(message.text for message in at.model.requests[-1].messages)
        assert at.screen() == ("mcp 1 ok", {"ready": 1, "connecting": 0, "failed": 0, "declined": 0})
        assert "slow  1 tool, connected in" in await at.command("/mcp")
        why = await at.command("/why get_weather")
        assert 'search 1 (request 1) "weather of a place": its server was still connecting' in why
        assert 'search 2 (request 3) "weather of a place": place 1 of 1' in why
        assert [event.connecting for event in at.of(ToolsSearched)] == [("slow",), ()]
        assert await at.doctor() == ("ready", "")


async def test_slow_within_the_limit(tmp_path: Path, gate: Gate) -> None:
    server = gate.server(*catalogue(tmp_path, get_weather="Get the weather of a place"))
    async with doors(tmp_path, server, SEARCH, "there", seconds=WAIT_SECONDS) as at:
        assert at.screen()[0] == "mcp 1.."
        asking = asyncio.create_task(at.agent.ask("How is the weather?"))
        await at.until(ServersAwaited)
        gate.open()
        assert await asking == "there"
        assert "connecting" not in at.model.requests[0].system
        assert "- slow" in at.model.requests[0].system
        assert "Found matching tools" in at.searched()
        assert [event.connecting for event in at.of(ToolsSearched)] == [()]
        assert [event for event in at.events if event == WARNING] == []
        assert at.screen() == ("mcp 1 ok", {"ready": 1, "connecting": 0, "failed": 0, "declined": 0})
        assert "place 1 of 1" in await at.command("/why get_weather")


@pytest.mark.slow
async def test_failing_and_coming_back(tmp_path: Path, gate: Gate) -> None:
    """It fails three times; when somebody starts it again it is connecting again, since it failed, and then there."""
    script = tmp_path / "broken.py"
    script.write_text(BROKEN, encoding="utf-8")
    gate.open()
    server = gate.server(str(script)) | {"era": "legacy"}
    async with doors(tmp_path, server, SEARCH, "failed", SEARCH, "not yet", "back", seconds=0.2) as at:
        while not any(isinstance(event, Notice) and "stays down" in event.text for event in at.events):
            at.news.clear()
            await at.news.wait()
        await at.agent.ask("How is the weather?")
        assert at.state() == "failed"
        assert "connecting" not in at.model.requests[0].system
        assert f'Not connected: slow (server "slow" {FAILURE})' in at.searched()
        assert [event.reason for event in at.of(ServerFailed)] == [f'server "slow" {FAILURE}']
        assert at.of(ToolsSearched) == []
        assert at.screen() == ("mcp 0 ok 1!", {"ready": 0, "connecting": 0, "failed": 1, "declined": 0})
        assert f"slow  {FAILURE}" in await at.command("/mcp")
        assert f"not searched: slow ({FAILURE})" in await at.command("/why get_weather")
        assert await at.doctor() == ("failed", FAILURE)
        gate.shut()
        restart = asyncio.create_task(at.agent.mcp.restart("slow"))
        while at.state() != "connecting":
            at.news.clear()
            await at.news.wait()
        await at.agent.ask("And now?")
        again = f'connecting again, since server "slow" {FAILURE}'
        assert "A server is still connecting: slow" in "".join(item.text for item in at.model.requests[-1].messages)
        assert "Not searched yet: slow (it is still connecting)." in at.searched()
        assert at.screen()[0] == "mcp 1.."
        assert ".. slow  connecting again, since exited with code 1" in await at.command("/mcp")
        assert f"not searched: slow (it is still {again})" in await at.command("/why get_weather")
        script.write_text(runs(*catalogue(tmp_path, get_weather="Get the weather of a place")), encoding="utf-8")
        gate.open()
        await restart
        await at.agent.ask("And now?")
        assert "A server has connected" in "".join(item.text for item in at.model.requests[-1].messages)
        assert at.screen()[0] == "mcp 1 ok"
        assert "slow  1 tool, connected in" in await at.command("/mcp")


async def test_lost(tmp_path: Path) -> None:
    """It ends in a call and cannot be started again: from then on every door says that it failed, and why."""
    script, faulty = tmp_path / "loses.py", str(SERVERS / "faulty_server.py")
    arguments = [faulty, "exit-on-call", "--log", str(tmp_path / "log")]
    script.write_text(runs(*arguments), encoding="utf-8")
    server = {"command": sys.executable, "args": [str(script)], "era": "legacy"}
    replies = [call("add_tool", tool_names=["trouble", "echo"]), call("trouble"), "lost"]
    more = [call("echo", text="x"), call("search_tools", query="frobnicate the blorp"), "failed"]
    async with doors(tmp_path, server, *replies, *more, seconds=WAIT_SECONDS) as at:
        await at.agent.ask("What is there?")
        assert "exited with code 9" in results(at.model.requests[-1].messages)[-1].text
        assert at.state() == "ready"  # the next call starts another
        assert at.screen()[0] == "mcp 1 ok"
        script.write_text(BROKEN, encoding="utf-8")
        await at.agent.ask("And now?")
        assert at.state() == "failed"
        assert FAILURE in results(at.model.requests[-1].messages)[-2].text
        assert f'Not connected: slow (server "slow" {FAILURE})' in at.searched()
        assert [event.reason for event in at.of(ServerFailed)] == [f'server "slow" {FAILURE}']
        assert at.screen() == ("mcp 0 ok 1!", {"ready": 0, "connecting": 0, "failed": 1, "declined": 0})
        assert f"slow  {FAILURE}" in await at.command("/mcp")
        assert f"not searched: slow ({FAILURE})" in await at.command("/why frobnicate")
        assert await at.doctor() == ("failed", FAILURE)
