"""Find the processes that a server started (Linux only), also those that left its process group."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from mcpagent.utilities.processes.watchdog import KEEPER_LIMIT, MARK, ProcessMark

_MOST_PROCESSES = 1_000
_MOST_TURNS, _EMPTY_TURNS, _TURN_SECONDS = 40, 4, 0.005


@dataclass(frozen=True, slots=True)
class Process:
    """A process and its start time (clock ticks since boot), so that a reused PID is not mistaken for it."""

    pid: int
    started: int


def descendants(pid: int) -> tuple[Process, ...]:
    """Return all living descendants of a process; () without `/proc`."""
    found: dict[int, Process] = {}
    open_pids = [pid]
    while open_pids and len(found) < _MOST_PROCESSES:
        for child in children_of(open_pids.pop()):
            if (
                child not in found
                and not _is_keeper(child)
                and (started := _started(child)) is not None
            ):
                found[child] = Process(child, started)
                open_pids.append(child)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Allocated:
    """The PID that Linux allocated last, and the number of processes and threads created since boot in all
    namespaces.
    """

    last: int
    count: int


def allocated() -> Allocated | None:
    """Return the current PID allocation; None if `/proc` does not show it."""
    load, stat = _contents("/proc/loadavg"), _contents("/proc/stat")
    last = (load or b"").rpartition(b" ")[2].strip()
    count = (stat or b"").partition(b"\nprocesses ")[2].partition(b"\n")[0]
    if last.isdigit() and count.isdigit():
        return Allocated(int(last), int(count))
    return None


def with_mark(
    mark: ProcessMark, before: Allocated | None = None, missed: set[int] | None = None
) -> Iterator[Process]:
    """Yield all living processes with this mark that this user may see; call it in a thread.

    `before`: the PID allocation before the server started; older PIDs are skipped. `missed` collects listed PIDs that
    ended before they could be read: they may have had the mark and started children that are not listed yet.
    """
    if not _is_ours():
        return
    listed = [int(name) for name in _listed("/proc") if name.isdigit()]
    pids = later(listed, before, allocated(), _highest_pid())
    for pid in sorted(
        pids, reverse=True
    ):  # newest first, as a new process may end soon
        is_marked = _is_marked(pid, mark)
        if is_marked is False:
            continue
        started = _started(pid)
        if is_marked and started is not None:
            yield Process(pid, started)
        elif started is None and missed is not None:
            missed.add(pid)


def later(
    pids: Iterable[int], before: Allocated | None, now: Allocated | None, highest: int
) -> list[int]:
    """Return the PIDs that may have been allocated between two states; all PIDs if that is unknown.

    Linux allocates PIDs upwards and, after `highest`, starts again. If fewer than half of all PIDs were allocated, none
    was allocated twice.
    """
    if before is None or now is None or now.count - before.count > highest // 2:
        return list(pids)
    if before.last <= now.last:
        return [pid for pid in pids if before.last < pid <= now.last]
    return [pid for pid in pids if pid > before.last or pid <= now.last]


@cache
def _highest_pid() -> int:
    highest = (_contents("/proc/sys/kernel/pid_max") or b"").strip()
    if highest.isdigit():
        return int(highest)
    return 0


def _is_marked(pid: int, mark: ProcessMark) -> bool | None:
    """Return whether the process has the mark; None if it ended before it could be read.

    A zombie has no environment any more, but still its limits.
    """
    environment = _contents(f"/proc/{pid}/environ")
    if environment and f"{MARK}={mark.variable}".encode() in environment:
        return True
    if not mark.limit:
        if environment:
            return False
        return None
    limits = _contents(f"/proc/{pid}/limits")
    if limits is None:
        return None
    return f" {mark.limit} ".encode() in limits


def _is_ours() -> bool:
    """Return whether `/proc` belongs to this PID namespace; processes of another one must not be killed."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self") == str(os.getpid())
    return False


def _listed(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []


def _contents(path: str) -> bytes | None:
    """Return the content of a file in `/proc`: b"" if it is not readable, None if the process has ended."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return b""


def end_marked(mark: ProcessMark, before: Allocated | None) -> None:
    """Kill all processes with this mark, and those that they start meanwhile; call it in a thread.

    `before` is as in `with_mark`. One scan that finds nothing is enough if all listed processes lived until they were
    read. Otherwise several empty scans in a row are necessary, because a process that forks and exits all the time can
    escape a scan.
    """
    empty_wanted, empty = 1, 0
    for _ in range(_MOST_TURNS):
        missed: set[int] = set()
        empty += 1
        for process in with_mark(mark, before, missed):
            _kill_with_group(process)
            empty_wanted, empty = _EMPTY_TURNS, 0
        if missed:
            empty_wanted = _EMPTY_TURNS
        if empty >= empty_wanted:
            return
        time.sleep(_TURN_SECONDS)


def _kill_with_group(process: Process) -> None:
    """Kill the process's group, then the process. The group comes first because the process may have forked and exited
    meanwhile.

    Groups do not extend beyond sessions, and the server runs in a session started for it.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getsid(process.pid) != os.getsid(0):
            os.killpg(os.getpgid(process.pid), signal.SIGKILL)
    kill_all((process,))


def kill_all(processes: tuple[Process, ...]) -> None:
    """Kill those of the processes that are still alive; a reused PID is not touched."""
    for process in processes:
        if _started(process.pid) == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process that it has not waited for yet; [] without `/proc`."""
    if not _is_ours():
        return []
    threads = f"/proc/{pid}/task"
    files = [_contents(f"{threads}/{thread}/children") for thread in _listed(threads)]
    return [int(child) for file in files for child in (file or b"").split()]


def session_id_of(pid: int) -> int | None:
    """Return the session ID of a process, which is the PID of the session's first process; None if it has ended."""
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def command_of(pid: int) -> str:
    """Return the command line of a process, joined by spaces; "" if it has ended."""
    words = (_contents(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    return " ".join(os.fsdecode(word) for word in words if word)


def _is_keeper(pid: int) -> bool:
    limits = _contents(f"/proc/{pid}/limits")
    return limits is not None and f" {KEEPER_LIMIT} ".encode() in limits


def _started(pid: int) -> int | None:
    """Return the start time of a process; None if it has ended."""
    # proc(5): fields 3 and 22. Count after the last ")": the command in parentheses may contain anything.
    stat = _contents(f"/proc/{pid}/stat") or b""
    state, *others = stat.rpartition(b")")[2].split() or [b"Z"]
    if state == b"Z":
        return None
    return int(others[18])
