"""A watchdog process that ends servers and scripts, with all their processes, when mcpagent ends or is killed.

It is one shell for the whole mcpagent process, in a separate session: a millisecond and a megabyte, when Python would
cost twenty of each. It reads from a pipe whose other end only mcpagent holds, so it notices every end of mcpagent. Then
it kills every process with mcpagent's mark, which children inherit, and the registered process groups. On Windows the
system does this: a job object whose handle closes with mcpagent.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = "MCP_CLIENT_MARK"
"""The environment variable that marks a server's processes. Its value is a prefix for all servers of this mcpagent
process and a unique suffix.
"""

KEEPER_LIMIT = 10**18 - 1
"""The limit that marks the watchdog. If an agent is itself a server, ending it must not kill its watchdog, which first
ends the agent's servers.
"""

_LEAST_LIMIT = KEEPER_LIMIT + 1
_SERVERS = 10**6
_PRLIMIT = "/usr/bin/prlimit"
_LONGEST_LINE = 255
"""Number of bytes of a script's first line that Linux reads (BINPRM_BUF_SIZE)."""

_END_SECONDS = 2.0

# The script reads lines: "=MARK", "#LIMIT" (the prefixes of both marks), "+GROUP", "-GROUP", and "." after the last
# server. mcpagent alone writes them. The mark is not an argument of any program here: that program would then look
# marked.
SCRIPT = r"""
exec 2> /dev/null
trap '' HUP INT TERM QUIT PIPE
facts() { set --; read -r line < /proc/$pid/stat && set -- ${line##*) }; state=$1 group=$3 session=$4; }
pid=$PPID; facts; home=$session
read -r me _ < /proc/self/stat
groups=' '
while read -r line; do
  group=${line#?}
  case $line in
    .) mark= groups=' ' ;;
    =*) mark=$group ;;
    '#'*) limit=$group ;;
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
  esac
done
case $mark in *=?*) ;; *) exit 0 ;; esac  # we have ended before we told it, and it would find all that there is
lines=--line-buffered
grep $lines -q x /dev/null || [ $? -eq 1 ] || lines=
found() {
  if [ "$me" = $$ ]; then  # or they are those of another namespace
    cd /proc || return
    grep $lines -l -s -F -e "$mark" ${limit:+-e " $limit"} [0-9]*/environ [0-9]*/limits
  elif [ ! -d /proc/self ]; then
    ps -axww -E -o pid=,command= | while read -r pid rest; do
      case $rest in *"$mark"*) echo "$pid/" ;; esac
    done
  fi
}
# One that forks and ends all the time is missed now and then: it is gone when nothing was found fifteen times.
turns=100 empty=0
while [ $empty -lt 15 ] && [ $turns -gt 0 ]; do
  turns=$((turns - 1)) empty=$((empty + 1))
  for group in $groups; do kill -s KILL -- "-$group"; done
  left=$(found | while IFS=/ read -r pid _; do
    facts  # its group first: by now it may be another process
    [ "$state" = Z ] && continue
    [ "$session" = "$home" ] || kill -s KILL -- "-${group:-none}"
    kill -s KILL $pid
    echo $pid
  done)
  [ -z "$left" ] || empty=0
done
"""
"""The shell script of the watchdog.

A process that keeps forking and ending can escape a single look at the process list. So the script ends only after
fifteen looks in a row that found no marked process.
"""


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """The mark of one server's processes: an environment variable, and on Linux a resource limit as well.

    A daemon may leave its parents, its group, its session and its environment, but it keeps its limits. The limit is
    RLIMIT_RTTIME, microseconds of real-time scheduling. Its value is over thirty thousand years, so it has no effect.
    """

    variable: str
    limit: int
    """The value of the resource limit; 0 if the system does not allow one."""

    def command(
        self, words: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the command with `prlimit` before it, so that the process has the limit from its start; unchanged
        without `prlimit`.

        mcpagent does not set its own limit: processes that other threads start meanwhile would inherit it.
        """
        is_plain = not any(name.startswith("LD_") for name in environment)
        if (
            self.limit
            and is_plain
            and os.access(_PRLIMIT, os.X_OK)
            and _is_surely_run(words[0])
        ):
            return (_PRLIMIT, f"--rttime={self.limit}:", *words)
        return tuple(words)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the environment with the variable of the mark. It comes first, because busybox's grep reads only the
        beginning.
        """
        marked = {MARK: self.variable}
        return marked | dict(environ) | marked

    def put_on(self, pids: Iterable[int]) -> None:
        """Set the limit on running processes; processes that they start from now on inherit it."""
        for pid in pids if self.limit else ():
            _limit(pid, self.limit)


def _is_surely_run(program: str) -> bool:
    """Return whether the system executes the file directly, because `prlimit` uses `execvp`, which lets a shell read
    other files.

    That holds for complete machine programs for this machine (elf(5)), and for scripts whose first line names such a
    program.
    """
    with contextlib.suppress(OSError):
        if Path(program).is_file():
            with open(program, "rb") as file:
                line, end, _ = file.read(_LONGEST_LINE).partition(b"\n")
            if line.startswith(b"#!"):
                words = line[2:].split()
                return bool(end and words) and _is_machine_program(
                    os.fsdecode(words[0])
                )
            return _is_machine_program(program)
    return False


def _is_machine_program(program: str) -> bool:
    with contextlib.suppress(OSError):
        if Path(program).is_file():
            with open(program, "rb") as file, open(_PRLIMIT, "rb") as ours:
                head, like, size = (
                    file.read(64),
                    ours.read(64),
                    os.fstat(file.fileno()).st_size,
                )
            if (
                len(head) == 64
                and head[:6] == like[:6] == b"\x7fELF\2\1"
                and head[18:20] == like[18:20]
            ):
                kind, start, (length, count) = (
                    head[16],
                    int.from_bytes(head[32:40], "little"),
                    head[54:58:2],
                )
                return kind in (2, 3) and count > 0 and start + length * count <= size
    return False


def _limit(pid: int, microseconds: int) -> bool:
    """Set the resource limit of a process; return whether that succeeded."""
    if sys.platform == "linux":
        import resource

        # The process has ended, belongs to another user, has a lower limit or is in a sandbox, or this Python lacks
        # `prlimit`.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            _, most = resource.prlimit(pid, resource.RLIMIT_RTTIME)
            resource.prlimit(pid, resource.RLIMIT_RTTIME, (microseconds, most))
            return True
    return False


class ProcessGuard:
    """The watchdog of this process: it starts with the first server. Thread-safe.

    If it `stays`, it waits for more servers after the last one has ended, because starting it costs a tenth of a
    connect. It then ends with this process. Otherwise it ends with the last server.
    """

    def __init__(self, *, stays: bool = False) -> None:
        self._stays = stays
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._users = 0
        self._mark = ""
        self._limit = 0
        self._numbers = itertools.count(1)
        _GUARDS.add(self)

    def hold(self) -> ProcessMark:
        """Watch one more server until `release`; return that server's mark.

        Without a suitable shell (Windows), there is no watchdog.
        """
        with self._lock:
            self._require_process()
            if self._users == 0:
                self._watch()
            self._users += 1
            number = next(self._numbers)
            return ProcessMark(
                f"{self._mark}-{number}.",
                self._limit and self._limit + number % _SERVERS,
            )

    def start(self) -> None:
        """Start the watchdog now, before the first server needs it."""
        with self._lock:
            self._require_process()

    def _require_process(self) -> None:
        """Start the watchdog process if it is not running, for instance because another process killed it."""
        if self._process is not None and self._process.poll() is not None:
            _close_input(self._process)
            self._process = None
        if self._process is None:
            self._start()

    def _start(self) -> None:
        self._mark = self._mark or secrets.token_hex(16)
        least = self._limit or _LEAST_LIMIT + secrets.randbelow(10**12) * _SERVERS
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603  its script is ours
                ("/bin/sh", "-c", SCRIPT),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={
                    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin",
                    "LC_ALL": "C",
                },
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
            if _limit(self._process.pid, KEEPER_LIMIT):
                self._limit = least
            else:
                self._limit = 0
            if self._users:
                self._watch()  # the previous one was killed

    def _watch(self) -> None:
        """Send the prefixes of the marks to the watchdog."""
        self._write(f"={MARK}={self._mark}")
        if self._limit:
            self._write(f"#{self._limit // _SERVERS}")

    def tell(self, line: str) -> None:
        """Send the watchdog `+GROUP` to end a process group with this process, or `-GROUP` if the group has ended."""
        with self._lock:
            self._write(line)

    @contextlib.contextmanager
    def watching(self, pid: int) -> Iterator[None]:
        """While the block runs, have the watchdog end the process and its group if this process ends."""
        if sys.platform == "win32":
            end_job = job_of(pid)
            try:
                yield
            finally:
                end_job()
        else:
            self.tell(f"+{pid}")
            try:
                yield
            finally:
                self.tell(f"-{pid}")

    def _write(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(f"{line}\n".encode())

    def has_forked(self) -> None:
        """Reset the guard in a forked process, which has its own servers and must not hold the pipe of its parent's
        watchdog.
        """
        if self._process is not None:
            _close_input(self._process)
            self._process.returncode = (
                0  # it belongs to the parent and keeps running; this avoids a warning
            )
        self._lock, self._process, self._users = threading.Lock(), None, 0
        self._mark, self._limit = "", 0

    async def release(self) -> None:
        """Stop watching one server. Unless it `stays`, the watchdog ends after the last server."""
        with self._lock:
            self._users -= 1
            process = self._process
            if self._users > 0 or process is None:
                return
            self._write(".")
            if self._stays:
                return
            self._process = None
            _close_input(process)
        await _ended(process)

    def end(self) -> None:
        """End the watchdog at the end of this process, unless servers still run: then it outlives this process to end
        them.
        """
        with self._lock:
            process = self._process
            if process is None or self._users:
                return
            self._process = None
        _close_input(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Wait until the watchdog ends, which takes a moment. Polling is cheaper than a thread."""
    try:
        for step in range(100):
            if process.poll() is not None:
                return
            await asyncio.sleep(min(_END_SECONDS / 50, 0.001 * 2**step))
    finally:  # Kill it even if this is cancelled: it has no work left, and no other code would wait for it.
        process.kill()
        process.wait()


_GUARDS: weakref.WeakSet[ProcessGuard] = weakref.WeakSet()
KEEPER = ProcessGuard(stays=True)
"""The watchdog of all servers. Programs that may leave processes use a separate one, since a watchdog kills every
process with its mark.
"""


def _has_forked() -> None:
    for guard in _GUARDS:
        guard.has_forked()


atexit.register(KEEPER.end)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_has_forked)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _JobLimits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION, of which only the flags are set."""

        _fields_ = (
            ("times", wintypes.LARGE_INTEGER * 2),
            ("flags", wintypes.DWORD),
            ("sizes", ctypes.c_size_t * 2),
            ("processes", wintypes.DWORD),
            ("affinity", ctypes.c_size_t),
            ("priority", wintypes.DWORD),
            ("scheduling", wintypes.DWORD),
            ("counters", ctypes.c_ulonglong * 6),
            ("memory", ctypes.c_size_t * 4),
        )

    def job_of(pid: int) -> Callable[[], None]:
        """End a process and its children when this process ends, or when the returned function is called."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.SetInformationJobObject.argtypes = (
            wintypes.HANDLE,
            ctypes.c_int,
            ctypes.c_void_p,
            wintypes.DWORD,
        )
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        job = kernel.CreateJobObjectW(None, None)
        limits = _JobLimits(flags=0x2000)  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        kernel.SetInformationJobObject(
            job, 9, ctypes.byref(limits), ctypes.sizeof(limits)
        )
        process = kernel.OpenProcess(
            0x0101, False, pid
        )  # PROCESS_SET_QUOTA | PROCESS_TERMINATE
        if process:
            kernel.AssignProcessToJobObject(job, process)
            kernel.CloseHandle(process)

        def end() -> None:
            kernel.TerminateJobObject(job, 1)
            kernel.CloseHandle(job)

        return end
