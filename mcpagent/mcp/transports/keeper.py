"""Nothing that a server started outlives us, even if we are killed: a small process watches, and ends what is left.

It is a shell (a millisecond and a megabyte, where a Python would cost twenty of each), one for all servers of this
process, in a session of its own. It reads from a pipe whose other end is ours alone, so it sees our end however that
comes, and then kills every process that has our mark in its environment, which children inherit, and those of the
groups that it was told of. On Windows the system does it: a job object whose handle closes with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable

MARK = "MCP_CLIENT_MARK"
"""The variable that each server gets: its value begins as those of all servers of this process do, and is its own."""

_END_SECONDS = 2.0

# Lines are "=MARK", "+GROUP", "-GROUP", and "." for an end that left nothing. They are words of ours alone. The mark is
# no argument of any program here: it would look like a process that has it.
SCRIPT = r"""
trap '' HUP INT TERM QUIT PIPE
groups=' '
while read -r line; do
  group=${line#?}
  case $line in
    .) exit 0 ;;
    =*) mark=$group ;;
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
  esac
done
found() {
  if [ -d /proc/self ]; then
    grep -l -s -F -e "$mark" /proc/[0-9]*/environ | tr -dc '0-9\n'
  else
    ps -axww -E -o pid=,command= | while read -r pid rest; do
      case $rest in *"$mark"*) echo "$pid" ;; esac
    done
  fi
}
for turn in 1 2 3 4 5 6 7 8 9 10; do
  left=$(found)
  for group in $groups; do kill -s KILL -- "-$group"; done
  [ -z "$left" ] && break
  kill -s KILL $left
done 2>/dev/null
"""


class ProcessGuard:
    """The watching process of this one: there is one while servers run. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._users = 0
        self._mark = ""
        self._numbers = itertools.count(1)

    def hold(self) -> str:
        """Sees to it that it watches one more server, until `release`; gives the mark of that one.

        Where there is no such shell (Windows) nobody watches.
        """
        with self._lock:
            if self._owner != os.getpid():  # a fork has another life than its parent
                self._owner, self._users, self._process = os.getpid(), 0, None
                self._mark = secrets.token_hex(16)
            self._users += 1
            if self._process is not None and self._process.poll() is not None:  # somebody killed it
                _close_input(self._process)
                self._process = None
            if self._process is None:
                with contextlib.suppress(OSError):
                    self._process = subprocess.Popen(  # noqa: S603  its script is ours
                        ("/bin/sh", "-c", SCRIPT),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
                        cwd="/",
                        start_new_session=True,
                        bufsize=0,
                    )
                    self._write(f"={MARK}={self._mark}")
            return f"{self._mark}-{next(self._numbers)}."

    def tell(self, line: str) -> None:
        """`+GROUP` for a process group to end with us, `-GROUP` for one that is gone."""
        with self._lock:
            self._write(line)

    def _write(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(f"{line}\n".encode())

    async def release(self) -> None:
        """One server less; with the last one it ends."""
        with self._lock:
            self._users -= 1
            process = self._process
            if self._users > 0 or process is None:
                return
            self._write(".")
            self._process = None
            _close_input(process)
        await _ended(process)


def _close_input(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Waits for an end that is about to come, in steps: a thread for it would cost more than the process."""
    for step in range(100):
        if process.poll() is not None:
            return
        await asyncio.sleep(min(_END_SECONDS / 50, 0.001 * 2**step))
    process.kill()
    process.wait()


KEEPER = ProcessGuard()


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _JobLimits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION; of its fields only the flags are set."""

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
        """Has a process and all that it starts end when this process does, or when the result is called."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = kernel.OpenProcess.restype = wintypes.HANDLE
        kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
        kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
        job = kernel.CreateJobObjectW(None, None)
        limits = _JobLimits(flags=0x2000)  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
        kernel.SetInformationJobObject(job, 9, ctypes.byref(limits), ctypes.sizeof(limits))
        process = kernel.OpenProcess(0x0101, False, pid)  # PROCESS_SET_QUOTA | PROCESS_TERMINATE
        if process:
            kernel.AssignProcessToJobObject(job, process)
            kernel.CloseHandle(process)

        def end() -> None:
            kernel.TerminateJobObject(job, 1)
            kernel.CloseHandle(job)

        return end
