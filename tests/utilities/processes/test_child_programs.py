"""A program leaves no process behind, also if its children ignore signals, and also if mcpagent is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mcpagent.utilities.processes.child_programs import run_program
from mcpagent.utilities.processes.watchdog import ProcessGuard
from tests.servers.leftovers import nothing_left, processes
from tests.tables import each_row

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what is left")

SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('{up}', 'w'); time.sleep(600)"
STARTING = """
import os, subprocess, sys, time
null = open(os.devnull, "r+")
subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=null, stdout=null, stderr=null, {how}
)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
{after}
"""
IN_GROUP, DAEMON = "env=None", "env={}, start_new_session=True"


def words(tmp_path: Path, how: str, after: str = "print('done')") -> list[str]:
    """A program that starts another one, which ignores requests to end, and goes on once that runs."""
    up = tmp_path / "up"
    program = STARTING.replace("{how}", how).replace("{after}", after)
    return [sys.executable, "-c", program, SLEEPER.replace("{up}", str(up)), f"{tmp_path}-child", str(up)]


def children(tmp_path: Path) -> list[int]:
    return [pid for pid, text in processes(f"{tmp_path}-child").items() if SLEEPER[:30] in text and "subp" not in text]


@each_row("how, may_leave, stays", [(IN_GROUP, False, 0), (DAEMON, False, 0), (IN_GROUP, True, 0), (DAEMON, True, 1)])
async def test_only_a_daemon_that_may_stay_outlives_its_program(
    how: str, stays: int, tmp_path: Path, *, may_leave: bool
) -> None:
    async with nothing_left():
        command = words(tmp_path, how)
        done = await run_program(command, tmp_path, os.environ, print, seconds=60, may_leave_processes=may_leave)
        assert (done.output, done.ending) == ("done", "exit code 0")
        for _ in range(500):  # a killed child of nobody is reaped a moment later
            if len(left := children(tmp_path)) <= stays:
                break
            await asyncio.sleep(0.01)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert len(left) == stays


async def test_a_cancelled_program_takes_its_daemons_along(tmp_path: Path) -> None:
    async with nothing_left(str(tmp_path)):
        command = words(tmp_path, DAEMON, "time.sleep(600)")
        running = asyncio.create_task(run_program(command, tmp_path, os.environ, print, seconds=60))
        for _ in range(6_000):
            if (tmp_path / "up").exists():
                break
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


HOST = """
import asyncio, os, sys
from pathlib import Path
from mcpagent.utilities.processes.child_programs import run_program

may_leave, *words = sys.argv[1:]
asyncio.run(run_program(words, Path.cwd(), os.environ, print, seconds=600, may_leave_processes=bool(may_leave)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [IN_GROUP, DAEMON])
@pytest.mark.parametrize("may_leave", ["", "yes"])
async def test_nothing_of_it_outlives_a_killed_mcpagent(how: str, may_leave: str, tmp_path: Path) -> None:
    async with nothing_left(str(tmp_path)):
        command = words(tmp_path, how, "time.sleep(600)")
        host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, may_leave, *command)
        for _ in range(6_000):
            if (tmp_path / "up").exists():
                break
            await asyncio.sleep(0.01)
        assert len(children(tmp_path)) == 1
        host.send_signal(signal.SIGKILL)
        await host.wait()


async def test_a_program_that_cannot_start_leaves_no_watchdog_in_use(tmp_path: Path) -> None:
    async with nothing_left():
        for may_leave in (True, False):
            with pytest.raises(FileNotFoundError):
                await run_program(["/nowhere/x"], tmp_path, {}, print, seconds=60, may_leave_processes=may_leave)


def test_a_group_is_watched_until_its_program_ends(tmp_path: Path) -> None:
    told = list[str]()

    class Guard(ProcessGuard):
        def tell(self, line: str) -> None:
            told.append(line)

    with pytest.raises(LookupError), Guard().watching(7):
        raise LookupError
    assert told == ["+7", "-7"]
