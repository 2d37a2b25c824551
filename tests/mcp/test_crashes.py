"""A server that keeps dying is left alone for a while, and says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.crashes import MOST_CRASHES, OPEN_SECONDS, WINDOW_SECONDS, CrashLog
from mcpagent.mcp.server_link import ServerLink
from tests.servers.leftovers import nothing_left

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"


def dying(log: Path) -> ServerConfig:
    return ServerConfig("faulty", command=sys.executable, args=(str(SERVER), "kill-on-call", "--log", str(log)))


async def test_a_server_that_keeps_dying_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with nothing_left(str(log)), ServerLink(dying(log)) as toolset:
        (trouble,) = [tool for tool in await toolset.tools() if tool.name == "trouble"]
        seen = [str((await trouble.run({})).content) for _ in range(2)]
        assert all("SIGKILL" in text for text in seen)
    assert log.read_text().splitlines().count("life") == 2
    assert log.read_text().splitlines().count("call trouble") == 2


def test_the_way_closes_after_five_crashes_and_opens_for_one_try() -> None:
    crashes = CrashLog()
    assert [crashes.delay_seconds(0.0)] == [0.0]
    delays = []
    for number in range(MOST_CRASHES):
        assert crashes.blocked_seconds(float(number)) == 0.0
        crashes.add(float(number), "exited with code 1")
        delays.append(crashes.delay_seconds(float(number)))
    assert delays == [0.0, 0.5, 1.0, 2.0, 4.0]
    last = float(MOST_CRASHES - 1)
    assert crashes.blocked_seconds(last) == OPEN_SECONDS
    assert crashes.blocked_seconds(last + OPEN_SECONDS) == 0.0
    crashes.add(last + OPEN_SECONDS, "again")
    assert crashes.blocked_seconds(last + OPEN_SECONDS) == OPEN_SECONDS
    assert crashes.blocked_seconds(last + OPEN_SECONDS + WINDOW_SECONDS) == 0.0
    assert crashes.delay_seconds(last + OPEN_SECONDS + WINDOW_SECONDS) == 0.0


@pytest.mark.slow
async def test_the_fifth_crash_in_a_minute_says_when_it_is_tried_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with nothing_left(str(log)), ServerLink(dying(log)) as toolset:
        (trouble,) = [tool for tool in await toolset.tools() if tool.name == "trouble"]
        outputs = [str((await trouble.run({})).content) for _ in range(MOST_CRASHES + 1)]
    assert "died 5 times within a minute (was ended by signal 9 (SIGKILL)); tried again in" in outputs[-1]
    assert log.read_text().splitlines().count("call trouble") == MOST_CRASHES
