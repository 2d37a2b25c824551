"""Nothing that a server started outlives the agent: not if it is killed, and not if a start is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.link import ServerLink
from mcpagent.mcp.transports.keeper import MARK, SCRIPT, Mark, ProcessGuard
from mcpagent.mcp.transports.process_tree import children_of, with_mark
from mcpagent.mcp.transports.stdio import StdioTransport
from tests.servers.leftovers import nothing_left, processes

SERVER = Path(__file__).resolve().parents[1] / "servers" / "endings.py"
posix_only = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what is left")

RESULT = '{"jsonrpc":"2.0","id":THIS,"result":{"content":[{"type":"text","text":"fine"}]}}'
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
"""Neither the end of its input nor a polite signal ends it."""

HOST = """
import asyncio, sys
from mcpagent.config import ServerConfig
from mcpagent.mcp.link import ServerLink
from mcpagent.mcp.transports.keeper import MARK, SCRIPT

async def main():
    servers = [ServerLink(ServerConfig(f"s{n}", command=sys.argv[2], args=tuple(sys.argv[3:]))) for n in range(2)]
    if sys.argv[1] == "ready":
        await asyncio.gather(*(server.__aenter__() for server in servers))
        print("ready", flush=True)
        await asyncio.Event().wait()
    starts = [asyncio.create_task(server.__aenter__()) for server in servers]
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.gather(*starts)

asyncio.run(main())
"""

STARTS = {
    "in its group": "subprocess.Popen([sys.executable, '-c', sleeper, marker])",
    "in a group of its own": "subprocess.Popen([sys.executable, '-c', sleeper, marker], process_group=0)",
    "in a session of its own": "subprocess.Popen([sys.executable, '-c', sleeper, marker], start_new_session=True)",
    "without an environment": "subprocess.Popen([sys.executable, '-c', sleeper, marker], env={})",
    "by a shell that ends": "subprocess.run(['/bin/sh', '-c', f'{sys.executable} -c \\'{sleeper}\\' {marker} &'])",
    "as a daemon without one": (
        "os.fork() or (os.setsid(), os.fork() and os._exit(0), os.closerange(0, 100),"
        " os.execve(sys.executable, [*python, '-c', sleeper, marker][1:], {}))"
    ),
    "as a daemon": "os.fork() or (os.setsid(), os.fork() and os._exit(0), os.execl(*python, '-c', sleeper, marker))",
}


def wrapped(start: str, marker: str) -> str:
    """A server that has started something before it does anything else; its output is not its child's."""
    return f"""
import os, runpy, subprocess, sys
marker, sleeper = {marker!r}, {SLEEPER.replace("print('up', flush=True); ", "").replace("'", '"')!r}
python, kept = [sys.executable] * 2, os.dup(1)
os.set_inheritable(1, False)
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 1)
{start}
os.dup2(kept, 1)
sys.argv = ["server", "legacy", os.devnull]
runpy.run_path({str(SERVER)!r}, run_name="__main__")
"""


async def killed_host(stage: str, marker: str, *command: str) -> None:
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, stage, *command, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    async with asyncio.timeout(60):
        assert await host.stdout.readline() == b"ready\n"
    assert any(marker in text for text in processes(marker).values())
    host.send_signal(signal.SIGKILL)
    await host.wait()


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("how", STARTS)
async def test_a_killed_agent_leaves_nothing_that_its_servers_started(how: str, tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    async with nothing_left(marker):
        await killed_host("ready", marker, sys.executable, "-c", wrapped(STARTS[how], marker))


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("how", STARTS)
async def test_nor_does_one_that_closes_it_while_other_servers_go_on(how: str, tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    other = ServerConfig("other", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    starting = ServerConfig("s", command=sys.executable, args=("-c", wrapped(STARTS[how], marker)))
    async with nothing_left(marker), ServerLink(other) as goes_on:
        async with ServerLink(starting):
            assert any(marker in text for text in processes(marker).values())
        for _ in range(2_000):
            if not (left := [text for text in processes(marker).values() if marker in text]):
                break
            await asyncio.sleep(0.01)
        assert left == []
        assert (await goes_on.bound_tools()[0].run({"key": "k", "body": RESULT})).error is None


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("shell", ["{} & wait", "trap '' TERM HUP INT; {}; true", "exec {}"])
async def test_nor_a_server_behind_a_shell_that_ignores_the_end_of_its_input(shell: str, tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    line = shell.format(f'"{sys.executable}" -c "{SLEEPER}" {marker} >&2')
    async with nothing_left(marker):
        await killed_host("starting", marker, "/bin/sh", "-c", line)


@posix_only
@pytest.mark.slow
async def test_nor_a_daemon_that_is_there_before_its_start_is_known(tmp_path: Path) -> None:
    marker = str(tmp_path)
    daemon = f'(env -i setsid "{sys.executable}" -c "{SLEEPER}" {marker} > /dev/null 2>&1 < /dev/null &)'
    server = ("/bin/sh", "-c", f'{daemon}; exec "{sys.executable}" "{SERVER}" legacy /dev/null')
    async with nothing_left(marker):
        await killed_host("ready", marker, *server)
    async with nothing_left(marker), ServerLink(ServerConfig("s", command=server[0], args=server[1:])):
        assert any(marker in text for text in processes(marker).values())


@posix_only
@pytest.mark.slow
async def test_nor_what_a_server_left_that_is_an_agent_itself(tmp_path: Path) -> None:
    marker = str(tmp_path)
    start = STARTS["as a daemon without one"].replace("marker]", "marker + '-daemon']")
    inner = (sys.executable, "-c", HOST, "ready", sys.executable, "-c", wrapped(start, marker))
    async with nothing_left(marker):
        host = await asyncio.create_subprocess_exec(sys.executable, "-c", HOST, "ready", *inner)
        for _ in range(3_000):
            if sum(f"{marker}-daemon" in text for text in processes(marker).values()) == 4:
                break
            await asyncio.sleep(0.02)
        host.send_signal(signal.SIGKILL)
        await host.wait()


@posix_only
async def test_what_other_threads_start_meanwhile_is_spared(tmp_path: Path) -> None:
    mark = Mark("m-1", 10**18 + 4_711_000_001)
    command, popen = (sys.executable, "-c", SLEEPER, str(tmp_path)), subprocess.Popen

    async def start() -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        both = popen(command), popen(command)
        await asyncio.sleep(0)
        return both

    async with nothing_left(str(tmp_path)):
        with contextlib.ExitStack() as ending:
            of_the_server, other = await mark.put_on(start())
            after = popen(command)
            for process in (of_the_server, other, after):
                ending.callback(process.wait)
                ending.callback(process.kill)
            assert {process.pid for process in with_mark(mark)} == {of_the_server.pid, other.pid}
            mark.spare({*children_of(os.getpid())} - {of_the_server.pid})
            assert [process.pid for process in with_mark(mark)] == [of_the_server.pid]


@posix_only
async def test_one_keeper_watches_all_servers_and_goes_with_the_last(tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    async with nothing_left():
        async with ServerLink(config), ServerLink(config):
            keepers = [pid for pid, text in processes().items() if "/bin/sh -c" in text and "groups=" in text]
            assert len(keepers) == 1
            assert os.getpgid(keepers[0]) == keepers[0], "what is typed in the terminal must not end it"
        assert not Path(f"/proc/{keepers[0]}").exists()


@posix_only
async def test_one_whose_keeper_was_killed_gets_another(tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    async with nothing_left(), ServerLink(config):
        (keeper,) = (pid for pid, text in processes().items() if "/bin/sh -c" in text and "groups=" in text)
        os.kill(keeper, signal.SIGKILL)
        async with ServerLink(config) as link:
            assert link.status.state == "ready"


@posix_only
async def test_an_end_that_is_cancelled_late_is_an_end_all_the_same(tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    async with nothing_left(), asyncio.timeout(60):
        transport = StdioTransport(config, print, {})
        await transport.__aenter__()
        leaving = asyncio.create_task(transport.__aexit__(None, None, None))
        while Path(f"/proc/{transport.pid}").exists():  # noqa: ASYNC110 - nothing tells of it at once
            await asyncio.sleep(0)
        for _ in range(5):  # until what it may have left is looked for
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait((leaving,))
        assert leaving.cancelled()


@posix_only
async def test_the_keeper_is_waited_for_also_by_who_is_in_a_hurry() -> None:
    guard, others = ProcessGuard(), {*children_of(os.getpid())}
    guard.hold()
    (keeper,) = {*children_of(os.getpid())} - others
    releasing = asyncio.create_task(guard.release())
    await asyncio.sleep(0)
    releasing.cancel()
    await asyncio.wait((releasing,), timeout=60)
    assert keeper not in children_of(os.getpid())


@posix_only
@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_starts_that_are_cancelled_leave_no_file_open(times: int, tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    for turns in range(40):
        async with nothing_left():
            link = ServerLink(config)
            starting = asyncio.create_task(link.__aenter__())
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(times):
                starting.cancel()
                await asyncio.sleep(0)
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            await link.__aexit__()


PS = """#!/bin/sh
for folder in /proc/[0-9]*; do
  echo "${folder#/proc/} $(tr '\\0' ' ' < $folder/environ)"
done 2>/dev/null
"""
"""What `ps -E` of macOS shows: process ids, and behind them the environment."""


@posix_only
async def test_where_there_is_no_proc_it_asks_ps(tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    ps.write_text(PS)
    ps.chmod(0o755)
    script = SCRIPT.replace("/proc/self", str(tmp_path / "nothing"))
    async with nothing_left(str(tmp_path)):
        sleeper = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SLEEPER, str(tmp_path), env={MARK: "m-1"}, stdout=asyncio.subprocess.PIPE
        )
        assert sleeper.stdout is not None
        assert await asyncio.wait_for(sleeper.stdout.readline(), 60) == b"up\n"
        keeper = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", script, stdin=asyncio.subprocess.PIPE, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
        )
        async with asyncio.timeout(60):
            await keeper.communicate(f"={MARK}=m-1\n+999999\n-999999\n".encode())
            assert await sleeper.wait() == -signal.SIGKILL
