"""A server that does not start is tried again in the background, each try told, while the others are used."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import ServerError
from mcpagent.events import Event, Notice, ServerConnected, ServerFailed
from mcpagent.mcp.crashes import CrashLog
from mcpagent.mcp.servers import MOST_STARTS, McpServers, ServerOptions
from tests.servers.leftovers import nothing_left

SERVER = Path(__file__).parent / "servers" / "faulty_server.py"


def config(name: str, mode: str, log: Path, **settings: Any) -> ServerConfig:
    # Without the era probe, which a process that dies at once seems to die of: it would be started twice each time.
    command: dict[str, Any] = {"command": sys.executable, "era": "legacy"}
    command["args"] = (str(SERVER), mode, "--log", str(log))
    return ServerConfig(name, **command, **settings)


class Told:
    """Everything that is told, and a way to wait for some of it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.late: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def arrived(self, toolset: Any) -> None:
        self.late.append(toolset.config.name)
        self._changed.set()

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def servers(told: Told, *configs: ServerConfig) -> McpServers:
    return McpServers(
        ServersConfig(configs),
        configs,
        ServerOptions(),
        emit=told,
        on_late=told.arrived,
        on_lost=lambda _name, _reason: None,
        on_changed=lambda _toolset, _difference: None,
    )


def lives(log: Path) -> int:
    return log.read_text().splitlines().count("life")


async def test_a_server_that_exits_at_start_is_tried_three_times_and_the_others_work(tmp_path: Path) -> None:
    told = Told()
    good, bad = tmp_path / "good", tmp_path / "bad"
    async with nothing_left():
        mcp = servers(told, config("good", "ok", good), config("bad", "exit-at-start", bad))
        await mcp.open(None)
        # After the first try already: the failure is told, and the other server is used.
        (failed,) = [event for event in told.events if isinstance(event, ServerFailed)]
        assert failed.reason == 'server "bad" exited with code 3 during initialize: KeyError: GITHUB_TOKEN is required'
        assert failed.stderr_tail == ("KeyError: GITHUB_TOKEN is required",)
        assert lives(bad) < MOST_STARTS
        assert [toolset.config.name for toolset in mcp.toolsets] == ["good"]
        echo = next(tool for tool in mcp.all_tools() if tool.name == "echo")
        assert (await echo.run({"text": "hello"})).error is None
        await told.until(
            lambda: 'server "bad" did not start 3 times; it stays down until it is restarted' in told.notices
        )
        assert told.notices[:2] == [
            'server "bad" did not start; start 2 of 3 follows',
            'server "bad" did not start; start 3 of 3 follows',
        ]
        assert lives(bad) == MOST_STARTS
        assert mcp.statuses["bad"].state == "failed"
        assert sum(isinstance(event, ServerFailed) for event in told.events) == 1
        await mcp.close()


async def test_a_server_that_starts_the_second_time_joins(tmp_path: Path) -> None:
    told, log = Told(), tmp_path / "log"
    async with nothing_left():
        mcp = servers(told, config("flaky", "flaky-start", log))
        await mcp.open(None)
        assert mcp.toolsets == []
        await told.until(lambda: told.late == ["flaky"])
        assert [toolset.config.name for toolset in mcp.toolsets] == ["flaky"]
        assert any(isinstance(event, ServerConnected) for event in told.events)
        await mcp.close()
    assert lives(log) == 2


async def test_a_required_server_is_tried_three_times_before_it_is_fatal(tmp_path: Path) -> None:
    told, log = Told(), tmp_path / "log"
    async with nothing_left():
        mcp = servers(told, config("bad", "exit-at-start", log, required=True))
        with pytest.raises(ServerError, match="exited with code 3"):
            await mcp.open(None)
        assert lives(log) == MOST_STARTS
        await mcp.close()
        mcp = servers(told, config("flaky", "flaky-start", tmp_path / "other", required=True))
        await mcp.open(None)
        assert [toolset.config.name for toolset in mcp.toolsets] == ["flaky"]
        await mcp.close()


@pytest.mark.parametrize("mode", ["init-error", "hang-init"])
async def test_what_another_start_does_not_mend_is_tried_once(mode: str, tmp_path: Path) -> None:
    told, log = Told(), tmp_path / "log"
    async with nothing_left():
        mcp = servers(told, config("bad", mode, log, connect_timeout_seconds=3.0))
        await mcp.open(None)
        assert told.notices == []
        assert lives(log) == 1
        await mcp.close()


async def test_closing_ends_the_tries(tmp_path: Path) -> None:
    told, log = Told(), tmp_path / "log"
    async with nothing_left():
        mcp = servers(told, config("bad", "exit-at-start", log))
        await mcp.open(None)
        await mcp.close()
        count = lives(log)
    assert lives(log) == count < MOST_STARTS


def test_a_start_that_fails_waits_half_a_second_then_one_then_two() -> None:
    crashes = CrashLog()
    delays = []
    for _ in range(MOST_STARTS):
        crashes.add_failed_start(0.0, "exited with code 3")
        delays.append(crashes.delay_seconds(0.0))
    assert delays == [0.5, 1.0, 2.0]
    crashes.has_started()
    assert crashes.delay_seconds(100.0) == 0.0
