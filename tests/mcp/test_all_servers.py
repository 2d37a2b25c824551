"""A server that does not start is tried again in the background, each try told, while the others are used."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.all_servers import MOST_STARTS, McpServers
from mcpagent.mcp.crashes import CrashLog
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Event, Notice, ServerConnected, ServerConnecting, ServerFailed
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"


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

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


def servers(told: Told, *configs: ServerConfig, options: ServerOptions | None = None) -> McpServers:
    return McpServers(
        ServersConfig(configs),
        configs,
        options or ServerOptions(),
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
        assert len(told.notices) == 1
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
        assert mcp.statuses["flaky"].reason == ""
        assert [toolset.config.name for toolset in mcp.toolsets] == ["flaky"]
        assert any(isinstance(event, ServerConnected) for event in told.events)
        await mcp.close()
    assert lives(log) == 2


async def test_why_it_is_tried_again_is_known_meanwhile(tmp_path: Path) -> None:
    reasons: list[str] = []

    class Watching(Told):
        def __call__(self, event: Event) -> None:
            if isinstance(event, ServerConnecting):
                reasons.append(mcp.unavailable["flaky"])
            super().__call__(event)

    told = Watching()
    mcp = servers(told, config("flaky", "flaky-start", tmp_path / "log"))
    await mcp.open(None)
    await told.until(lambda: told.late == ["flaky"])
    await mcp.close()
    first, second = reasons
    assert first == "it is still connecting"
    assert second.startswith('it is still connecting again, since server "flaky" exited with code ')


@pytest.mark.slow
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


@pytest.mark.parametrize("mode", ["init-error", pytest.param("hang-init", marks=pytest.mark.slow)])
async def test_what_another_start_does_not_mend_is_tried_once(mode: str, tmp_path: Path) -> None:
    told, log = Told(), tmp_path / "log"
    async with nothing_left():
        mcp = servers(told, config("bad", mode, log, connect_timeout_seconds=3.0))
        await mcp.open(None)
        assert [line for line in told.notices if "neither answered nor written" not in line] == []
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


# --- what nobody thought of ---


def _faulty_sign_in(config: ServerConfig) -> None:
    raise LookupError(f"no drawer for {config.name}\x1b[31m")


@each_row("startup_seconds", [None, 0.0])
async def test_an_exception_of_ours_is_the_failure_of_one_server_and_is_told(
    startup_seconds: float | None, tmp_path: Path
) -> None:
    told = Told()
    bad = ServerConfig("bad", url="http://127.0.0.1:9/mcp")
    async with nothing_left():
        mcp = servers(told, config("good", "ok", tmp_path / "log"), bad, options=ServerOptions(auth=_faulty_sign_in))
        await mcp.open(startup_seconds)
        await told.until(lambda: len(told.of(ServerFailed)) + len(told.of(ServerConnected)) == 2)
        (failed,) = told.of(ServerFailed)
        reason = 'server "bad" could not be opened: LookupError: no drawer for bad[31m; this is a mistake of mcpagent'
        assert failed.server == "bad"
        assert failed.reason.startswith(reason)
        assert mcp.statuses["bad"].state == "failed"
        assert mcp.unavailable == {"bad": failed.reason}
        with pytest.raises(ServerError, match="no drawer"):
            await mcp.restart("bad")
        assert mcp.statuses["bad"].state == "failed"
        assert [tool.name for tool in mcp.all_tools()]
        await mcp.close()


@pytest.mark.slow
async def test_a_server_that_does_not_come_back_is_failed_until_it_does(tmp_path: Path) -> None:
    told, gone, log = Told(), tmp_path / "gone", tmp_path / "log"
    code = (
        f"import os, runpy, sys\nif os.path.exists({str(gone)!r}): sys.exit('moved away')\n"
        f"sys.argv[1:] = ['kill-on-call', '--log', {str(log)!r}]\nrunpy.run_path({str(SERVER)!r}, run_name='__main__')"
    )
    server = ServerConfig("s", command=sys.executable, args=("-c", code), era="legacy")
    async with nothing_left():
        mcp = servers(told, server)
        await mcp.open(None)
        (trouble,) = [tool for tool in mcp.all_tools() if tool.name == "trouble"]
        assert (await trouble.run({"text": "x"})).error == "server_down"
        gone.touch()
        (echo,) = [tool for tool in mcp.all_tools() if tool.name == "echo"]
        output = await echo.run({"text": "x"})
        assert output.error == "server_down"
        assert "moved away" in mcp.unavailable["s"]
        assert [event.reason for event in told.of(ServerFailed)] == [mcp.unavailable["s"]]
        gone.unlink()
        assert (await echo.run({"text": "x"})).error is None
        assert mcp.unavailable == {}
        assert mcp.statuses["s"].state == "ready"
        assert len(told.of(ServerConnected)) == 2
        await mcp.close()
