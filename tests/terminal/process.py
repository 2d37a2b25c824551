"""The `mcpagent` command as a process: in pipes, or on a pseudo-terminal that is read like a screen."""

from __future__ import annotations

import functools
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.speed import within

ROOT = Path(__file__).resolve().parents[2]
SMALL_SERVER = Path(__file__).with_name("small_server.py")
SECONDS = 40
_KEYS = re.compile(r"_API_KEY$|^MCPAGENT_|_AUTH_TOKEN$|_BASE_URL$|^OLLAMA_HOST$|^NO_COLOR$|^FORCE_COLOR$|^COLUMNS$")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")


def server_option(mode: str, name: str | None = None) -> list[str]:
    """`--server` with the small server in this mode."""
    return ["--server", f"{name or mode}='{sys.executable}' '{SMALL_SERVER}' {mode}"]


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's variables without keys and settings; the user's folders are in `home`."""
    kept = {name: value for name, value in os.environ.items() if not _KEYS.search(name)}
    python_path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**kept, "MCPAGENT_HOME": str(home), "PYTHONPATH": python_path, "TERM": "xterm", **(extra or {})}


def heed_ctrl_c() -> None:
    """For a child before it becomes the command: Ctrl-C ends it, also where whoever runs the tests ignores that.

    A process inherits what is ignored (POSIX), and Python then leaves it so, as it should.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(
    arguments: Sequence[str], folder: Path, *, stdin: str | int | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the command in pipes; `stdin` is a text or a descriptor. Without it there is nothing to read."""
    given: dict[str, object] = {"input": stdin} if isinstance(stdin, str) else {"stdin": stdin or subprocess.DEVNULL}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "mcpagent", *arguments],
        cwd=folder,
        env=environment(folder / "home", env),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
        **given,
    )


class Screen:
    """A command on a pseudo-terminal. `raw` holds all that it wrote; `text` the same without escape sequences.

    Args:
        descriptor: The terminal's, this side of it.
        pid: The process id of the command.
        end: Waits up to some seconds for the command's end; returns its wait status, None if it has not ended.
    """

    def __init__(self, descriptor: int, pid: int, end: Callable[[float], int | None]) -> None:
        self._descriptor = descriptor
        self.pid = pid
        self._end = end
        self.raw = ""
        self._seen = 0

    @property
    def text(self) -> str:
        return _ESCAPES.sub("", self.raw).replace("\r", "")

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, pattern: str, seconds: float = SECONDS) -> str:
        """Reads until the pattern is in what came after the last match; gives what came until then."""
        started = time.monotonic()
        while (match := re.search(pattern, self.text[self._seen :])) is None:
            if not _is_early(started, seconds) or not self.read(0.2):
                raise AssertionError(f"{pattern!r} did not appear; the screen holds:\n{self.text[-3000:]}")
        found = self.text[self._seen : self._seen + match.end()]
        self._seen += match.end()
        return found

    def wait_until(self, done: Callable[[], object], seconds: float = SECONDS) -> None:
        """Reads on until something has happened that is not the next thing on the screen."""
        started = time.monotonic()
        while not done():
            assert _is_early(started, seconds), f"it did not happen; the screen holds:\n{self.text[-3000:]}"
            self.read(0.1)

    def cpu_seconds(self) -> float:
        """What the program has used so far, of user and system time; Linux only, 0 elsewhere."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settings(self) -> list[object]:
        """The terminal's, as `termios.tcgetattr` has them."""
        import termios

        return list(termios.tcgetattr(self._descriptor))

    def hang_up(self) -> None:
        """As if somebody closed the window."""
        os.close(self._descriptor)
        self._descriptor = -1

    def ended(self, seconds: float = SECONDS) -> int:
        """Waits for the end without reading and gives the exit code."""
        started = time.monotonic()
        while (status := self._end(0.2)) is None:
            assert _is_early(started, seconds), "it did not end"
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self._descriptor >= 0:
            self.hang_up()

    def resize(self, columns: int, rows: int = 40) -> None:
        """As if somebody pulled at the window."""
        set_size(self._descriptor, columns, rows)

    def read(self, seconds: float) -> bool:
        """Reads what there is, waiting a little; False when the program has ended."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._descriptor, 65_536)
        except OSError:  # Linux: the other side is closed
            return False
        self.raw += data.decode("utf-8", "replace")
        if b"\x1b[6n" in data:  # where is the cursor?
            self.type("\x1b[1;1R")
        return bool(data)

    def exit_code(self, seconds: float = SECONDS) -> int:
        """Reads to the end and gives the exit code."""
        started = time.monotonic()
        while self.read(0.2):
            assert _is_early(started, seconds), f"it did not end; the screen holds:\n{self.text[-3000:]}"
        return self.ended(seconds)


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
    import pty

    variables = environment(folder / "home", env)
    pid, descriptor = pty.fork()
    if pid == 0:
        heed_ctrl_c()
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "mcpagent", *arguments], variables)
    set_size(descriptor, columns, rows)
    screen = Screen(descriptor, pid, functools.partial(_wait_for_child, pid))
    try:
        yield screen
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        screen.close()


def _wait_for_child(pid: int, seconds: float) -> int | None:
    """Return the wait status of a child of this process, None if it runs for longer than that."""
    started = time.monotonic()
    while not (status := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() - started > seconds:
            return None
        time.sleep(0.02)
    return status[1]


def _is_early(started: float, seconds: float) -> bool:
    return within(time.monotonic() - started, seconds, time.monotonic)


def set_size(descriptor: int, columns: int, rows: int) -> None:
    """Set the size that a terminal reports."""
    import fcntl
    import struct
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
