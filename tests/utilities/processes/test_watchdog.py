"""Nothing that a server started outlives the agent: not if it is killed, and not if a start is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.transports.stdio import StdioTransport
from mcpagent.utilities.processes.process_tree import children_of, end_marked, with_mark
from mcpagent.utilities.processes.watchdog import MARK, SCRIPT, ProcessGuard, ProcessMark
from tests.servers.leftovers import nothing_left, processes
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[2] / "servers" / "endings.py"
posix_only = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what is left")

RESULT = '{"jsonrpc":"2.0","id":THIS,"result":{"content":[{"type":"text","text":"fine"}]}}'
SLEEPER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
"""Neither the end of its input nor a polite signal ends it."""

HOST = """
import asyncio, sys
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_link import ServerLink
from mcpagent.utilities.processes.watchdog import MARK, SCRIPT

async def main():
    stage, _, keeps = sys.argv[1].partition(", ")
    servers = [
        ServerLink(ServerConfig(f"s{n}", command=sys.argv[2], args=tuple(sys.argv[3:]), keeps_running=bool(keeps)))
        for n in range(2)
    ]
    if stage == "ready":
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
async def test_t17_a_killed_agent_leaves_nothing_that_its_servers_started(how: str, tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    async with nothing_left(marker):
        await killed_host("ready", marker, sys.executable, "-c", wrapped(STARTS[how], marker))


@posix_only
@pytest.mark.slow
async def test_nor_what_may_stay_after_a_clean_end(tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    async with nothing_left(marker):
        command = (sys.executable, "-c", wrapped(STARTS["as a daemon without one"], marker))
        await killed_host("ready, may leave processes", marker, *command)


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
@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, False])
async def test_nor_a_process_that_is_another_one_all_the_time(*, is_killed: bool, tmp_path: Path) -> None:
    """Each of them has the pipe open, so its end shows that there is none. A busy machine does not find one that is
    another fifty times a second."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hopper = (
        f"import os, time\nos.setsid()\nout = open({str(pipe)!r}, 'w')\nout.write('up')\nout.flush()\n"
        "end = time.time() + 60\nwhile time.time() < end:\n    if os.fork():\n        os._exit(0)\n"
        "    time.sleep(0.1)"
    )
    command = ("-c", wrapped(f"subprocess.Popen([sys.executable, '-c', {hopper!r}], env={{}})", str(tmp_path)))
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    got = b""

    async def heard(end: bytes) -> None:
        nonlocal got
        for _ in range(3_000):
            with contextlib.suppress(BlockingIOError):
                if (piece := os.read(reading, 10)) or got:
                    got += piece or b" and gone"
            if got.endswith(end):
                break
            await asyncio.sleep(0.01)

    try:
        if is_killed:
            await killed_host("ready", str(tmp_path), sys.executable, *command)
        else:
            async with ServerLink(ServerConfig("s", command=sys.executable, args=command)):
                await heard(b"up")
        await heard(b"gone")
        assert got.endswith(b"up and gone")
    finally:
        os.close(reading)


@posix_only
@pytest.mark.slow
async def test_nor_does_one_whose_forks_live_on(tmp_path: Path) -> None:
    marker = str(tmp_path)
    its_end = "    await asyncio.gather(*starts)"
    assert its_end in HOST
    forking = "os.fork() or (os.write(1, b'%d\\n' % os.getpid()), os.dup2(2, 1), time.sleep(600))"
    host = HOST.replace(its_end, f"    import os, time\n    {forking}\n{its_end}")
    server = SLEEPER.replace("import signal", f"{marker!r}; import signal")
    async with nothing_left(marker):
        ours = processes(marker).keys()
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-c", host, "starting", sys.executable, "-c", server),
            stdout=asyncio.subprocess.PIPE,
        )
        assert agent.stdout is not None
        async with asyncio.timeout(60):
            assert await agent.stdout.readline() == b"ready\n"
            worker = await agent.stdout.readline()
        agent.send_signal(signal.SIGKILL)
        await agent.wait()
        for _ in range(2_000):
            if not (left := processes(marker).keys() - ours - {int(worker)}):
                break
            await asyncio.sleep(0.01)
        os.kill(int(worker), signal.SIGKILL)
        assert not left


FAILING = """
import asyncio, os, sys
from mcpagent.config import ServerConfig
from mcpagent.utilities.processes.watchdog import KEEPER
from mcpagent.mcp.transports.stdio import StdioTransport

async def use():
    config = ServerConfig("s", command=sys.argv[1], args=tuple(sys.argv[2:]))
    async with StdioTransport(config, print, os.environ):
        await asyncio.Event().wait()

async def main(steps):
    task = asyncio.create_task(use())
    for _ in range(steps):
        await asyncio.sleep(0)
    raise LookupError

for steps in range(25):
    try:
        asyncio.run(main(steps))
    except LookupError:
        print(KEEPER._users)
"""


@posix_only
@pytest.mark.slow
async def test_nor_does_a_program_that_fails_while_it_starts_servers(tmp_path: Path) -> None:
    """`asyncio.run` then cancels all that there is, also what asyncio itself does to start a process."""
    marker = str(tmp_path)
    daemon = f'(env -i setsid "{sys.executable}" -c "{SLEEPER}" {marker} > /dev/null 2>&1 < /dev/null &)'
    async with nothing_left(marker):
        host = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", FAILING, "/bin/sh", "-c", f"{daemon}; cat > /dev/null"),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(host.communicate(), 100)
        assert (host.returncode, output) == (0, b"0\n" * 25)


@posix_only
@pytest.mark.slow
async def test_what_the_host_starts_itself_is_left_alone(tmp_path: Path) -> None:
    """In other threads, while servers start and stop: also what those start, and daemons."""
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    its_own, over = list[subprocess.Popen[bytes]](), threading.Event()

    def start() -> None:
        while not over.wait(0.005) and len(its_own) < 300:
            command = ["/bin/sh", "-c", "sleep 600 & echo started; wait"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0)
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            its_own.append(process)

    thread = threading.Thread(target=start)
    thread.start()
    try:
        for _ in range(3):
            async with ServerLink(config), ServerLink(config), ServerLink(config):
                pass
    finally:
        over.set()
        thread.join()
        children = [children_of(process.pid) for process in its_own]
        codes = [process.poll() for process in its_own]
        for process in its_own:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert len(its_own) > 20
    assert (set(codes), {len(found) for found in children}) == ({None}, {1})


@posix_only
async def test_a_process_is_found_by_its_limit_alone(tmp_path: Path) -> None:
    mark = ProcessMark("m-1", 10**18 + 4_711_000_001)
    words = (sys.executable, "-c", SLEEPER, str(tmp_path))
    assert mark.command(words, {})[-4:] == words
    async with nothing_left(str(tmp_path)):
        first, second, other = [
            await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            for command in (mark.command(words, {}), words, words)
        ]
        mark.put_on((second.pid,))
        for process in (first, second, other):
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 60) == b"up\n"
        assert {process.pid for process in with_mark(mark)} == {first.pid, second.pid}
        await asyncio.to_thread(end_marked, mark, None)
        other.kill()
        async with asyncio.timeout(60):
            assert [await process.wait() for process in (first, second, other)] == [-signal.SIGKILL] * 3


HANDING_OVER = (
    "import os; print('up', flush=True); input(); os.fork() or (os.close(1), os.execlp('sleep', 'sleep', '600'))"
)
"""Starts another process when it is told to, and ends."""


@posix_only
async def test_a_look_tells_which_ended_before_their_turn(tmp_path: Path) -> None:
    """What they started meanwhile is not in the list that is being read."""
    mark = ProcessMark(f"m-{os.getpid()}", 10**18 + os.getpid() * 1_000)
    async with nothing_left(str(tmp_path)):
        words = (sys.executable, "-c", HANDING_OVER, str(tmp_path))
        starting = [
            await asyncio.create_subprocess_exec(
                *mark.command(words, {}), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            for _ in range(2)
        ]
        for process in starting:
            assert process.stdout is not None
            assert await asyncio.wait_for(process.stdout.readline(), 60) == b"up\n"
        earlier, later = sorted(starting, key=lambda process: process.pid)
        missed = set[int]()
        look = with_mark(mark, None, missed)
        assert next(look).pid == later.pid
        assert earlier.stdin is not None
        earlier.stdin.write(b"\n")
        assert await asyncio.wait_for(earlier.wait(), 60) == 0
        assert [*look] == []
        assert earlier.pid in missed
        assert len([*with_mark(mark)]) == 2, "the other one, and what the one that ended has started"
        await asyncio.to_thread(end_marked, mark, None)
        assert [*with_mark(mark)] == []
        await asyncio.wait_for(later.wait(), 60)


@posix_only
async def test_a_keeper_that_was_told_nothing_ends_nothing() -> None:
    """If we are killed between its start and its first line. Without a mark it would find all that there is."""
    script = SCRIPT.replace("kill -s", "echo >&9")
    assert script != SCRIPT
    keeper = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", f"exec 9>&1\n{script}"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert (await asyncio.wait_for(keeper.communicate(b""), 60))[0] == b""


@posix_only
@each_row(
    "name, data, is_limited",
    [
        ("script", b"#!/bin/sh\n", True),
        ("words", b"#! /usr/bin/env  python3\n", True),
        ("empty", b"#!\n", False),
        ("long", b"#!/bin/sh" + b" " * 300 + b"\n", False),
        ("open", b"#!/bin/sh", False),
        ("of a script", b"#!/usr/bin/ldd\n", False),
        ("text", b"echo\n", False),
        ("elf", b"\x7fELF nonsense", False),
        ("cut", Path(sys.executable).read_bytes()[:100], False),
    ],
)
def test_what_a_shell_would_read_is_not_given_to_one(
    name: str, data: bytes, *, is_limited: bool, tmp_path: Path
) -> None:
    """`prlimit` calls `execvp`, which has a shell read what the system does not take for a program."""
    program = tmp_path / name
    program.write_bytes(data)
    command = ProcessMark("m-1", 10**18 + 7).command((str(program), "-x"), {})
    assert command[-2:] == (str(program), "-x")
    assert (len(command) > 2) == (is_limited and Path("/usr/bin/prlimit").exists())


@posix_only
async def test_a_program_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    async with nothing_left():
        with pytest.raises(ServerError, match=r"program.*No such file or directory"):
            await ServerLink(ServerConfig("s", command=str(program))).__aenter__()


@posix_only
async def test_one_keeper_watches_all_servers_and_stays_for_the_next(tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))

    def keepers() -> list[int]:
        return [pid for pid, text in processes().items() if "/bin/sh -c" in text and "groups=" in text]

    async with nothing_left():
        async with ServerLink(config), ServerLink(config):
            (keeper,) = keepers()
            assert os.getpgid(keeper) == keeper, "what is typed in the terminal must not end it"
        assert keepers() == [keeper]
        async with ServerLink(config):
            assert keepers() == [keeper]


@pytest.mark.slow
@posix_only
def test_the_keeper_ends_with_a_program_that_closed_its_servers(tmp_path: Path) -> None:
    """It is waited for, and nothing is reported about it."""
    program = (
        "import asyncio, sys\nfrom mcpagent.config import ServerConfig\n"
        "from mcpagent.mcp.server_link import ServerLink\n"
        "from mcpagent.utilities.processes.process_tree import children_of\n"
        "async def main():\n"
        "    config = ServerConfig('s', command=sys.executable, args=tuple(sys.argv[1:]))\n"
        "    async with ServerLink(config):\n        pass\n"
        "asyncio.run(main())\nimport os\nprint(*children_of(os.getpid()))"
    )
    command = (sys.executable, "-W", "always", "-c", program, str(SERVER), "legacy", str(tmp_path / "log"))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    assert not Path(f"/proc/{int(ended.stdout)}").exists()


@posix_only
async def test_one_whose_keeper_was_killed_gets_another(tmp_path: Path) -> None:
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    async with ServerLink(config):
        (keeper,) = (pid for pid, text in processes().items() if "/bin/sh -c" in text and "groups=" in text)
        os.kill(keeper, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
        async with ServerLink(config) as link:
            assert link.status.state == "ready"
            (another,) = (pid for pid, text in processes().items() if "/bin/sh -c" in text and "groups=" in text)
            assert another != keeper


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
for folder in /proc/1 /proc/$PPID PROCESSES; do
  echo "${folder#/proc/} $(tr '\\0' ' ' < $folder/environ)"
done 2>/dev/null
"""
"""What `ps -E` of macOS shows: process ids, and behind them the environment."""


@posix_only
async def test_where_there_is_no_proc_it_asks_ps(tmp_path: Path) -> None:
    ps = tmp_path / "ps"
    script = SCRIPT.replace("/proc/self", str(tmp_path / "nothing"))
    async with nothing_left(str(tmp_path)):
        sleeper = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SLEEPER, str(tmp_path), env={MARK: "m-1"}, stdout=asyncio.subprocess.PIPE
        )
        assert sleeper.stdout is not None
        assert await asyncio.wait_for(sleeper.stdout.readline(), 60) == b"up\n"
        ps.write_text(PS.replace("PROCESSES", f"/proc/{sleeper.pid} /proc/{os.getpid()}"))
        ps.chmod(0o755)
        keeper = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", script, stdin=asyncio.subprocess.PIPE, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
        )
        async with asyncio.timeout(60):
            await keeper.communicate(f"={MARK}=m-1\n+999999\n-999999\n".encode())
            assert await sleeper.wait() == -signal.SIGKILL
