"""What a server started, on Linux: what left its process group is otherwise out of reach."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from mcpagent.mcp.transports.keeper import MARK, Mark

_MOST_PROCESSES = 1_000
_MOST_TURNS, _TURN_SECONDS = 10, 0.01


@dataclass(frozen=True, slots=True)
class Process:
    """A process and when it started (clock ticks since boot), so that a reused pid is not taken for it."""

    pid: int
    started: int


def descendants(pid: int) -> tuple[Process, ...]:
    """All living descendants of a process; none if there is no `/proc`."""
    found: dict[int, Process] = {}
    open_pids = [pid]
    while open_pids and len(found) < _MOST_PROCESSES:
        for child in children_of(open_pids.pop()):
            if child not in found and (started := _started(child)) is not None:
                found[child] = Process(child, started)
                open_pids.append(child)
    return tuple(found.values())


def with_mark(mark: Mark) -> tuple[Process, ...]:
    """All living processes that have this mark, as far as we may see it; to be asked in a thread."""
    signs = {"environ": f"{MARK}={mark.variable}".encode(), "limits": f" {mark.limit} ".encode()}
    found: list[Process] = []
    for folder in Path("/proc").glob("[0-9]*"):
        for file, sign in signs.items():
            with contextlib.suppress(OSError):
                if sign in (folder / file).read_bytes() and (started := _started(int(folder.name))) is not None:
                    found.append(Process(int(folder.name), started))
                    break
    return tuple(found)


def end_marked(mark: Mark) -> None:
    """Kills all processes with this mark, and what they start meanwhile; to be done in a thread."""
    for _ in range(_MOST_TURNS):
        if not (found := with_mark(mark)):
            return
        kill_all(found)
        time.sleep(_TURN_SECONDS)


def kill_all(processes: tuple[Process, ...]) -> None:
    """Kills those that still live."""
    for process in processes:
        if _started(process.pid) == process.started:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that a process started and has not waited for yet; none if there is no `/proc`."""
    children: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text().split())
    return children


def _started(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        # proc(5): field 22, counted after the command in parentheses, which may hold anything.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None
