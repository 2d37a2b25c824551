"""The life of one server: what it goes through, what interrupts it, and how near a call is to the SDK."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

import mcpagent
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Event, ServerConnected, ServerConnecting, ServerFailed
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.servers.everyday import everyday
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"
PACKAGE = str(Path(mcpagent.__file__).parent)
MOST_FRAMES = 4
"""From a tool's `run` to where the SDK is entered, both counted."""


def config(mode: str, log: Path, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 20.0, "timeout_seconds": 20.0, "shutdown_seconds": 1.0}
    command = {"command": sys.executable, "args": (str(SERVER), mode, "--log", str(log))}
    return ServerConfig(**({"name": "s"} | command | limits | settings))


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


def state(link: ServerLink) -> str:
    return link.status.state


def tool_of(link: ServerLink, name: str) -> Tool:
    return next(tool for tool in link.bound_tools() if tool.name == name)


async def logged(log: Path, line: str) -> None:
    async with asyncio.timeout(20):
        while line not in lines(log):  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.01)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@asynccontextmanager
async def cached(mode: str, log: Path, tmp_path: Path, **settings: Any) -> AsyncIterator[ServerLink]:
    """The link of a server whose lists are known, and which does not run."""
    cache = ListCache(tmp_path / "cache")
    async with ServerLink(config(mode, log, **settings), cache=cache):
        pass
    log.unlink()
    async with ServerLink(config(mode, log, **settings), cache=cache) as link:
        yield link


# --- states ---


async def test_the_states_of_a_life(log: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def hear(event: Event) -> None:
        if isinstance(event, ServerConnecting | ServerConnected | ServerFailed):
            seen.append((type(event).__name__, link.status.state))

    cache = ListCache(tmp_path / "cache")
    link = ServerLink(config("ok", log), cache=cache, emit=hear)
    assert (state(link), link.is_known) == ("closed", False)
    async with link:
        assert (state(link), link.is_known) == ("ready", True)
    assert (state(link), link.is_known) == ("closed", False)
    async with link:
        assert state(link) == "cached"
        assert text_of(await tool_of(link, "echo").run({"text": "hello"})) == "hello"
        assert state(link) == "ready"
        await link.restart()
        assert state(link) == "ready"
    assert seen == [("ServerConnecting", "connecting"), ("ServerConnected", "ready")] * 3
    broken = ServerLink(config("exit-at-start", log), emit=lambda event: seen.append((type(event).__name__, "")))
    with pytest.raises(ServerError):
        await broken.__aenter__()
    assert (state(broken), broken.is_known) == ("failed", False)
    assert seen[-1] == ("ServerFailed", "")


async def test_a_link_is_closed_until_it_is_entered(log: Path) -> None:
    link = ServerLink(config("ok", log))
    async with link:
        echo = tool_of(link, "echo")
    for output in [await echo.run({"text": "x"}), await echo.run({"text": "x"})]:
        assert (output.error, text_of(output)) == ("server_down", 'server "s" is closed')
    assert lines(log).count("life") == 1


async def test_the_same_list_again_leaves_the_same_tools(log: Path) -> None:
    async with ServerLink(config("ok", log)) as link:
        before = link.bound_tools()
        await link.restart()
        assert all(one is other for one, other in zip(before, link.bound_tools(), strict=True))


# --- what interrupts it ---


async def test_closing_while_a_call_connects_ends_both_and_leaves_nothing(log: Path, tmp_path: Path) -> None:
    async with nothing_left(str(log)), cached("slow-start", log, tmp_path) as link:
        call = asyncio.ensure_future(tool_of(link, "echo").run({"text": "x"}))
        await logged(log, "life")
        await link.__aexit__(None, None, None)
        async with asyncio.timeout(10):
            output = await call
        assert output.error == "server_down"
        assert state(link) == "closed"
    assert "call echo" not in lines(log)


async def test_closing_while_the_lists_are_read_does_not_bring_the_server_back(log: Path) -> None:
    link = ServerLink(config("hang-list", log))
    async with nothing_left(str(log)):
        entering = asyncio.create_task(link.__aenter__())
        await logged(log, "list")
        await link.__aexit__(None, None, None)
        with pytest.raises(ServerError):
            await entering
        assert state(link) == "closed"


@pytest.mark.slow
async def test_others_connect_when_who_began_to_is_cancelled(log: Path, tmp_path: Path) -> None:
    async with nothing_left(str(log)), cached("slow-start", log, tmp_path) as link:
        echo = tool_of(link, "echo")
        first, second = (asyncio.ensure_future(echo.run({"text": name})) for name in ("first", "second"))
        await logged(log, "life")
        first.cancel()
        async with asyncio.timeout(20):
            assert text_of(await second) == "second"
        assert first.cancelled()


async def test_a_call_is_cancelled_at_once_though_the_server_reads_nothing(log: Path) -> None:
    """Its pipe is full, so neither the call nor the word that it is cancelled can be written."""
    async with nothing_left(str(log)), ServerLink(config("freeze-on-call", log)) as link:
        frozen = asyncio.ensure_future(tool_of(link, "trouble").run({"text": "x"}))
        await logged(log, "call trouble")
        call = asyncio.ensure_future(tool_of(link, "echo").run({"text": "x" * 1_000_000}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in (call, frozen):
            task.cancel()
            await asyncio.wait({task}, timeout=3)  # the SDK alone tries to write for five seconds
            assert task.cancelled()


async def test_a_task_that_was_cancelled_once_and_went_on_gets_answers(log: Path) -> None:
    """Whoever catches a cancellation and goes on still counts as being cancelled, for asyncio."""
    async with ServerLink(config("tool-error", log)) as link:

        async def stubborn() -> ToolOutput:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return await tool_of(link, "trouble").run({})
            raise AssertionError

        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        task.cancel()
        assert (await task).error == "failed"


async def test_a_server_turned_off_and_on_again_has_the_same_tools(log: Path) -> None:
    heard: list[str] = []
    servers = McpServers(
        ServersConfig(),
        [config("ok", log)],
        ServerOptions(),
        emit=lambda _: None,
        on_late=lambda link: heard.append(f"late {link.config.name}"),
        on_lost=lambda name, reason: heard.append(f"lost {name}: {reason}"),
        on_changed=lambda _, change: heard.append(str(change)),
    )
    async with nothing_left(str(log)):
        await servers.open(None)
        (link,) = servers.toolsets
        echo = tool_of(link, "echo")
        await servers.turn_off("s")
        assert servers.toolsets == []
        assert servers.unavailable == {"s": "it is turned off"}
        assert text_of(await echo.run({"text": "x"})) == 'server "s" is closed'
        await servers.restart("s")
        assert [tool.name for tool in link.bound_tools()] == ["echo", "trouble"]
        assert text_of(await echo.run({"text": "back"})) == "back"
        assert servers.unavailable == {}
        await servers.close()
    assert heard == [
        "lost s: it is turned off",
        'server "s" changed its tools: 2 removed (echo, trouble)',
        "late s",
    ]


# --- the way of a call ---


@each_row("way", ["stdio", "http"])
async def test_a_call_reaches_the_sdk_in_few_frames(way: str, tmp_path: Path) -> None:
    found: list[list[str]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        is_entry = event == "call" and frame.f_code is ClientSession.send_request.__code__
        if is_entry and isinstance(frame.f_locals.get("request"), types.CallToolRequest):
            above, names = frame.f_back, []
            while above is not None:
                if above.f_code.co_filename.startswith(PACKAGE):
                    names.append(above.f_code.co_name)
                above = above.f_back
            found.append(names[::-1])

    async with everyday("http") as url:
        server = config("ok", tmp_path / "log") if way == "stdio" else ServerConfig("s", url=url)
        async with ServerLink(server) as link:
            tool = link.bound_tools()[0]
            sys.setprofile(note)
            try:
                await tool.run({"a": 1, "text": "x"})
            finally:
                sys.setprofile(None)
    assert found[0] == ["call", "ask", "request"]  # `run` is `call`, bound to the tool
    assert len(found[0]) <= MOST_FRAMES
