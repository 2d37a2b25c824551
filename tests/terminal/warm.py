"""The `mcpagent` command as a process of its own that need not load its modules: `run` and `on_a_terminal`.

Most of a start's time is spent on loading modules: a second of CPU, where the command itself takes a tenth of that.
Here a process that has loaded them (`warm_process.py`) forks itself for each start. The new process has its own
streams or terminal, folder, environment, signals and end, as that of `tests/terminal/process.py`, which has the same
two functions. Use those where the start itself is tested: what is loaded, or modules that a foreign folder offers. They
are also called for a command with variables that Python reads at its start, and on systems other than Linux.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tests.terminal import process, warm_command
from tests.terminal.process import ROOT, SECONDS, Screen, environment, set_size

_IS_WANTED = sys.platform == "linux" and not os.environ.get("MCPAGENT_COLD_STARTS")
"""`MCPAGENT_COLD_STARTS=1 pytest ...` starts each command anew, to see whether a test depends on this module."""

_READ_AT_THE_START = re.compile("PYTHON(?!_)|LC_|LANG|LD_")
"""How variables begin that take effect before a Python program begins."""


class Started:
    """A command that runs. `state` is a pipe that names its process id, and later how it ended."""

    def __init__(self, state: int) -> None:
        self._state = state
        self._said = b""
        self.status: int | None = None
        self._hear(SECONDS, lines=1)
        self.pid = int(self._said.split(b"\n")[0])

    def end(self, seconds: float) -> int | None:
        """Wait up to some seconds for the end; return the wait status, None if it has not ended."""
        self._hear(seconds, lines=2)
        return int(self._said.split()[1]) if self._said.count(b"\n") == 2 else None

    def kill(self) -> None:
        """Kill the process if it still runs."""
        if self.end(0) is None:
            os.kill(self.pid, signal.SIGKILL)
            assert self.end(SECONDS) is not None
        os.close(self._state)

    def _hear(self, seconds: float, lines: int) -> None:
        limit = time.monotonic() + seconds
        while self._said.count(b"\n") < lines:
            if not select.select([self._state], [], [], max(0.0, limit - time.monotonic()))[0]:
                return
            said = os.read(self._state, 100)
            assert said, "the process that starts commands has ended"
            self._said += said


class Starter:
    """The process that has loaded the modules, and its socket."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.terminal.warm_process", str(theirs.fileno())],
                cwd=ROOT,
                env=environment(ROOT),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        streams: Sequence[int],
        is_script: bool = False,
    ) -> Started:
        """Start a command, or a script that is its first argument, with these variables and no others.

        `streams` is a terminal, or stdin, stdout and stderr, which stay open here.
        """
        start = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(variables),
            "is_script": is_script,
        }
        ours, theirs = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(start).encode()], [theirs, *streams])
        finally:
            os.close(theirs)
        return Started(ours)

    @property
    def descriptor(self) -> int:
        """The socket's, for `warm_command.py`."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the process; what it has started goes on."""
        self._socket.close()
        self._process.wait(SECONDS)


_starters: list[Starter] = []


def starter() -> Starter:
    """Return this process's starter; the first call makes it."""
    if not _starters:
        _starters.append(Starter())
    return _starters[0]


def close_starter() -> None:
    """End the starter if there is one."""
    while _starters:
        _starters.pop().close()


def run(
    arguments: Sequence[str], folder: Path, *, stdin: str | int | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in pipes; `stdin` is a text or a descriptor. Without it there is nothing to read.

    A lone surrogate in the text is sent as the byte that it stands for.
    """
    if not _is_possible(env):
        return process.run(arguments, folder, stdin=stdin, env=env)
    return _run(arguments, folder, environment(folder / "home", env), stdin)


def run_script(script: Path, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a Python file with these variables and no others; it has nothing to read."""
    if not _IS_WANTED:
        return subprocess.run(
            [sys.executable, str(script)],
            cwd=folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    return _run([str(script)], folder, variables, None, is_script=True)


def run_in_shell(command: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line of bash with these variables and no others; it has nothing to read.

    Its `mcpagent` is `warm_command.py`, which needs a start of Python without a module, in a folder before the others.
    """
    passed: list[int] = []
    if _IS_WANTED:
        programs = folder.parent / "programs"
        programs.mkdir(exist_ok=True)
        shim = programs / "mcpagent"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {Path(warm_command.__file__)} "$@"\n', "utf-8")
        shim.chmod(0o755)
        passed = [starter().descriptor]
        variables = {**variables, "PATH": f"{programs}:{variables['PATH']}", warm_command.VARIABLE: str(passed[0])}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        pass_fds=passed,
    )


def _run(
    arguments: Sequence[str],
    folder: Path,
    variables: Mapping[str, str],
    stdin: str | int | None,
    is_script: bool = False,
) -> subprocess.CompletedProcess[str]:
    with ExitStack() as open_here:
        (read_in, write_in), (read_out, write_out), (read_err, write_err) = (_pipe(open_here) for _ in range(3))
        if stdin is None:
            source = open_here.enter_context(open(os.devnull, "rb")).fileno()
        else:
            source = read_in.fileno() if isinstance(stdin, str) else stdin
        streams = [source, write_out.fileno(), write_err.fileno()]
        command = starter().start(arguments, folder, variables, streams, is_script)
        open_here.callback(command.kill)
        for end in (read_in, write_out, write_err):
            end.close()
        given = stdin.encode(errors="surrogateescape") if isinstance(stdin, str) else b""
        out, err = _exchange(write_in, given, (read_out, read_err))
        status = command.end(SECONDS)
    assert status is not None, "it closed its output and did not end"
    return subprocess.CompletedProcess(list(arguments), os.waitstatus_to_exitcode(status), out, err)


@contextmanager
def on_a_terminal(
    arguments: Sequence[str],
    folder: Path,
    *,
    columns: int = 100,
    rows: int = 40,
    env: Mapping[str, str] | None = None,
) -> Iterator[Screen]:
    """The command on a terminal of this width; ended at the latest when the block is left."""
    if not _is_possible(env):
        with process.on_a_terminal(arguments, folder, columns=columns, rows=rows, env=env) as cold:
            yield cold
        return
    import pty

    ours, theirs = pty.openpty()
    set_size(ours, columns, rows)
    try:
        command = starter().start(arguments, folder, environment(folder / "home", env), [theirs])
    finally:
        os.close(theirs)
    screen = Screen(ours, command.pid, command.end)
    try:
        yield screen
    finally:
        command.kill()
        screen.close()


def _is_possible(env: Mapping[str, str] | None) -> bool:
    """Return whether a fork does: with a variable that Python reads at its start it does not."""
    return _IS_WANTED and not any(map(_READ_AT_THE_START.match, env or ()))


def _pipe(open_here: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return (
        open_here.enter_context(open(reading, "rb", buffering=0)),
        open_here.enter_context(open(writing, "wb", buffering=0)),
    )


def _exchange(to: IO[bytes], given: bytes, sources: Sequence[IO[bytes]]) -> list[str]:
    """Write all that is given while reading the sources to their ends, as text with plain line breaks."""
    said = dict.fromkeys(sources, b"")
    limit = time.monotonic() + SECONDS
    left = list(sources)
    if not to.closed:
        os.set_blocking(to.fileno(), False)
    while left:
        readable, writable, _ = select.select(left, [] if to.closed else [to], [], max(0.0, limit - time.monotonic()))
        assert readable or writable, f"it did not end within {SECONDS} s: {said}"
        for source in readable:
            part = os.read(source.fileno(), 65_536)
            said[source] += part
            if not part:
                left.remove(source)
        if writable:
            try:
                given = given[os.write(to.fileno(), given) :] if given else b""
            except BrokenPipeError:  # it reads no further
                given = b""
            if not given:
                to.close()
    return [text.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n") for text in said.values()]
