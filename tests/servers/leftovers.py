"""What a test may leave behind: no process, zombie, file descriptor or task."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.speed import within

from mcpagent.utilities.processes.watchdog import KEEPER


def processes(marker: str = "") -> dict[int, str]:
    """Our descendants and whoever has `marker` in its command line: pid -> "state command"."""
    if not Path("/proc").is_dir():
        return {}
    parents: dict[int, int] = {}
    states: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                state, parent = _read(f"/proc/{name}/stat").rpartition(b")")[2].split(None, 2)[:2]
                if (above := int(parent)) != _KERNEL_THREADS:
                    parents[int(name)], states[int(name)] = above, state.decode()
    found: dict[int, str] = {}
    for pid, state_of in states.items():
        is_ours = _descends(pid, parents)
        if is_ours or (marker and pid != os.getpid()):
            with contextlib.suppress(OSError):
                command = _read(f"/proc/{pid}/cmdline").replace(bytes(1), b" ").decode(errors="replace")
                if is_ours or marker in f"{state_of} {command}":
                    found[pid] = f"{state_of} {command}"
    return found


_KERNEL_THREADS = 2
"""The parent of those threads of Linux, which have no command."""


def _read(path: str) -> bytes:
    """A file of /proc. The tests read thousands of them: `Path.read_bytes` takes four times as long."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1_000_000)
    finally:
        os.close(descriptor)


def _descends(pid: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while (pid := parents.get(pid, 0)) and pid not in seen:
        if pid == os.getpid():
            return True
        seen.add(pid)
    return False


def open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@dataclass
class Lag:
    """The longest the event loop was held: by work of its own, in CPU seconds of its thread, which neither other
    programs nor other threads add to; by work of this whole process, which a parser in another thread that keeps the
    interpreter to itself adds to; and by the clock."""

    cpu_seconds: float = 0.0
    process_seconds: float = 0.0
    wall_seconds: float = 0.0


@contextlib.asynccontextmanager
async def nothing_left(
    marker: str = "",
    *,
    most_lag_seconds: float = 0.1,
    most_process_seconds: float = 1.0,
    most_wall_seconds: float = 20.0,
    task_names: str = "",
) -> AsyncIterator[Lag]:
    """Fails where the body leaves processes, files or tasks behind, or held the event loop too long.

    The clock's limit is for waits that block, and generous; those of CPU time are the promise. Only tasks whose name
    starts with `task_names` count, where a server in this process has tasks of its own.
    """
    KEEPER.start()  # one for the whole process, which stays
    # Collecting what was made before is no lag of ours.
    gc.collect()
    gc.freeze()
    children, files, tasks = set(processes(marker)), open_files(), asyncio.all_tasks()
    lag = Lag()
    watch = asyncio.create_task(_watch(lag))
    try:
        yield lag
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)

    def children_since() -> dict[int, str]:
        return {pid: text for pid, text in processes(marker).items() if pid not in children}

    new_children: dict[int, str] = {}
    for _ in _patience(2.0):
        new_tasks = {task for task in asyncio.all_tasks() - tasks if task.get_name().startswith(task_names)}
        if not new_tasks and open_files() <= files and not (new_children := children_since()):
            break
        await asyncio.sleep(0.01)
    else:
        new_children = children_since()
    assert not new_children, f"processes are left: {new_children}"
    assert not new_tasks, f"tasks are left: {new_tasks}"
    assert open_files() <= files, f"{open_files() - files} files are left open"
    assert within(lag.cpu_seconds, most_lag_seconds), f"the loop was held for {lag.cpu_seconds:.3f} s of CPU time"
    assert within(lag.process_seconds, most_process_seconds), f"it waited {lag.process_seconds:.3f} s for threads"
    assert within(lag.wall_seconds, most_wall_seconds, time.monotonic), f"it was held for {lag.wall_seconds:.1f} s"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def _watch(lag: Lag) -> None:
    while True:
        cpu, process, wall = time.thread_time(), time.process_time(), time.monotonic()
        await asyncio.sleep(0.01)
        lag.cpu_seconds = max(lag.cpu_seconds, time.thread_time() - cpu)
        lag.process_seconds = max(lag.process_seconds, time.process_time() - process)
        lag.wall_seconds = max(lag.wall_seconds, time.monotonic() - wall - 0.01)


def _patience(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while True:
        yield
        if time.monotonic() > end:
            return


def python(script: Path, *arguments: str) -> tuple[str, tuple[str, ...]]:
    """Command and arguments that run a script of tests/servers."""
    return sys.executable, (str(script), *arguments)
