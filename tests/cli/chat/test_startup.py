"""Starting the chat with servers that are known already, that are slow, and that are new."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from mcpagent import Agent, RunOptions, ToolSearch
from mcpagent.cli.chat.startup import search_line
from mcpagent.config import ServerConfig, load_servers
from mcpagent.mcp.lists.list_cache import CachedServer, ListCache
from mcpagent.mcp.lists.server_lists import ServerLists
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.values.events import Event
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.speed import within
from tests.terminal import small_server
from tests.terminal.process import SMALL_SERVER
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"
SERVERS = 50
TOOLS = SERVERS + 3
KNOWS_WEATHER = "s01"
PAINT = "Paint a wall. " + "In red or in blue. " * 100
HOW = {"type": "object", "properties": {"how": {"type": "string", "description": PAINT}}}


def configured(folder: Path, count: int, mode: str = "good", **extra: object) -> list[str]:
    """`--config` with so many servers; each writes its name into the folder when it is started."""
    starter = folder / "starter.py"
    starter.write_text(
        "import runpy, sys\nfrom pathlib import Path\n"
        f"Path({str(folder)!r}, 'started-' + sys.argv.pop(1)).touch()\n"
        f"sys.argv[0] = {str(SMALL_SERVER)!r}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    servers = {
        f"s{number:02}": {"command": sys.executable, "args": [str(starter), f"s{number:02}", mode], **extra}
        for number in range(count)
    }
    path = folder / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return ["--config", str(path), "--trust-project", "-m", "offline", "--allow", "*"]


def known(folder: Path, *, saved: float | None = None) -> None:
    """Puts the lists of all configured servers into the cache, as an earlier chat would have."""
    cache = ListCache(folder / "home" / "cache" / "catalog", now=lambda: saved or time.time())
    for server in load_servers(folder / "servers.json").servers:
        name = f"paint_{server.name}"
        tools = [ToolDefinition(name, PAINT, HOW, server.name, name)]
        if server.name == KNOWS_WEATHER:
            tools = [_listed(small_server.tool(name), server.name) for name in small_server.TOOLS]
        cache.save(server, CachedServer(ServerLists(tuple(tools)), False))


def _listed(tool: dict[str, Any], server: str) -> ToolDefinition:
    return ToolDefinition(
        tool["name"], safe_text(tool["description"]), tool["inputSchema"], server, tool["name"], read_only=True
    )


def started(folder: Path) -> list[str]:
    return sorted(path.name.removeprefix("started-") for path in folder.glob("started-*"))


async def test_a_chat_says_why_all_tools_are_offered_unless_they_are_few() -> None:
    async def unused(_arguments: dict[str, Any]) -> ToolOutput:
        raise AssertionError

    def tools(count: int) -> list[Tool]:
        return [Tool(ToolDefinition(f"t{number}", PAINT, HOW), unused) for number in range(count)]

    for search, count, expected in (
        (
            ToolSearch(enabled="auto"),
            4,
            r"tool search off: all 4 tools offered, 4\.\dk tokens per request; it begins at",
        ),
        (ToolSearch(enabled="auto", auto_tokens=5_000), 4, r"it begins at about 5\.0k tokens$"),
        (ToolSearch(enabled="auto"), 0, "^$"),
        (ToolSearch(enabled=True, scope="all"), 4, r"tool search on: 4 tools would cost 4\.\dk tokens per request"),
    ):
        async with Agent(ScriptedModel(["x"]), tools=tools(count), tool_search=search) as agent:
            line = search_line(agent)
            assert re.search(expected, line), line
            assert len(line) <= 98


@pytest.mark.slow
def test_fifty_known_servers_are_searchable_at_once_and_start_with_their_first_call(tmp_path: Path) -> None:
    arguments = configured(tmp_path, SERVERS)
    known(tmp_path)
    with on_a_terminal(arguments, tmp_path) as screen:
        start = screen.wait_for(PROMPT)
        assert f"tool search on: {TOOLS} tools would cost" in start
        screen.wait_for(rf"tools 2/{TOOLS} .* mcp {SERVERS} ok")
        assert within(screen.cpu_seconds(), 3.0)
        screen.type("/find weather\r")
        screen.wait_for(rf"\d of {TOOLS} tools match")
        screen.wait_for("get_weather")
        assert started(tmp_path) == []
        screen.type("what is the weather in Tokyo?\r")
        turn = screen.wait_for(r"\d requests")
        assert "connecting" not in turn
        assert "Tokyo: 18 degrees" in turn
        assert started(tmp_path) == [KNOWS_WEATHER]
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_known_servers_marked_eager_start_in_the_background(tmp_path: Path) -> None:
    arguments = configured(tmp_path, 1, eager=True)
    known(tmp_path)
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.wait_until(lambda: started(tmp_path) == ["s00"])
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_a_known_server_that_has_become_slow_delays_neither_prompt_nor_question(tmp_path: Path) -> None:
    arguments = configured(tmp_path, 2, "sleeps")
    known(tmp_path)
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for("mcp 2 ok")
        screen.type("hello\r")
        answer = screen.wait_for(r"1 request\b", 20)
        assert "connecting" not in answer
        assert started(tmp_path) == []
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_new_servers_connect_while_the_prompt_is_there_with_progress(tmp_path: Path) -> None:
    arguments = configured(tmp_path, 2)
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.wait_for(r"connecting .*\d s, s0[01] \d s")
        screen.wait_for(r"✓ 2 servers connected in [\d.]+ m?s, 8 tools; slowest s0")
        screen.type("/mcp\r")
        screen.wait_for(r"✓ s01  4 tools, connected in")
        screen.type("\x04")
        assert screen.exit_code() == 0
    # And now they are known.
    for path in tmp_path.glob("started-*"):
        path.unlink()
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for(r"tools 8/8 .* mcp 2 ok")
        assert "connected in" not in screen.text
        assert started(tmp_path) == []
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_a_server_is_turned_off_and_on_and_its_log_is_shown(tmp_path: Path) -> None:
    arguments = configured(tmp_path, 2)
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for("2 servers connected")
        screen.type("/mcp off s00\r")
        screen.wait_for("✓ s00 is off; /mcp on s00 starts it again")
        screen.wait_for(r"tools 4/4 .* mcp 1 ok")
        screen.type("/mcp\r")
        screen.wait_for(r"- s00  off")
        screen.type("/mcp on s00\r")
        screen.wait_for(r"✓ s00 is on, 4 tools, connected in")
        screen.wait_for(r"tools 8/8 .* mcp 2 ok")
        screen.type("/mcp restart s01\r")
        screen.wait_for(r"✓ s01 is on, 4 tools")
        screen.type("/mcp logs s01\r")
        screen.wait_for(r"log\s+/")  # a long path wraps
        screen.type("/mcp off s0x\r")
        screen.wait_for('no server "s0x"; did you mean s01 or s00')
        screen.type("\x04")
        assert screen.exit_code() == 0


async def test_an_old_list_is_used_and_read_again_in_the_background(tmp_path: Path) -> None:
    server = ServerConfig("small", command=sys.executable, args=[str(SMALL_SERVER), "good"])
    old = ToolDefinition("gone", "Gone since.", {"type": "object"}, "small", "gone")
    folder = tmp_path / "catalog"
    ListCache(folder, now=lambda: time.time() - 100).save(server, CachedServer(ServerLists((old,)), False))
    cache = ListCache(folder, max_age_seconds=10, stale_seconds=1_000)
    refreshed = asyncio.Event()
    events: list[Event] = []

    def follow(event: Event) -> None:
        events.append(event)
        if "changed its tools" in str(event):
            refreshed.set()

    async with Agent(
        ScriptedModel([]),
        mcp_config=[server],
        on_event=follow,
        options=RunOptions(servers=ServerOptions(cache=cache, startup_seconds=0)),
    ) as agent:
        assert list(agent.known_tools) == ["gone"]
        await asyncio.wait_for(refreshed.wait(), 40)
        assert "get_weather" in agent.known_tools
        assert "gone" not in agent.known_tools
    assert ListCache(folder, max_age_seconds=10).load(server) is not None
    assert ListCache(folder, max_age_seconds=0).load(server) is None
