"""Run a program with bounded output, and end it with all its children."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.utilities.processes.process_tree import allocated, descendants, end_marked
from mcpagent.utilities.processes.watchdog import KEEPER, ProcessGuard
from mcpagent.utilities.text.safe_text import safe_text

MAX_KEPT = 50_000
"""Maximum number of characters of the output: half from its beginning, half from its end."""

MAX_SHOWN = 200_000
_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The combined output of a program's stdout and stderr, cut in the middle, and how it ended, such as `exit code
    0`.
    """

    output: str
    ending: str


async def run_program(
    words: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    show: Callable[[str], None],
    *,
    seconds: float,
    may_leave_processes: bool = False,
) -> ProgramOutput:
    """Run the program without input, and pass its output to `show` line by line, in printable form.

    The program and its children are ended after `seconds`, on cancellation, and if mcpagent is killed. Its daemons end
    as well, unless it `may_leave_processes`. Raises `OSError` if it cannot start.
    """
    guard = KEEPER
    if may_leave_processes:
        guard = ProcessGuard()
    mark, before = guard.hold(), allocated()
    try:
        process = await _begun(
            asyncio.create_subprocess_exec(
                *mark.command(words, environ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env=mark.environment(environ),
                start_new_session=sys.platform != "win32",
            )
        )
        with guard.watching(process.pid):
            mark.put_on((process.pid, *[one.pid for one in descendants(process.pid)]))
            return await _output_of(process, show, seconds)
    finally:
        try:
            if not may_leave_processes:
                await asyncio.to_thread(end_marked, mark, before)
        finally:
            await guard.release()


async def _output_of(
    process: asyncio.subprocess.Process, show: Callable[[str], None], seconds: float
) -> ProgramOutput:
    """Wait for a started program to end; return its output and how it ended."""
    kept = _Kept(show)
    assert process.stdout is not None
    ending = ""
    try:
        async with asyncio.timeout(seconds):
            while data := await process.stdout.read(65_536):
                kept.add(data)
            await process.wait()
    except TimeoutError:
        ending = f"stopped after {seconds:g} s"
    finally:
        await _end(process)
    code = process.returncode or 0
    return ProgramOutput(
        kept.finish(),
        ending or (f"ended by signal {-code}" if code < 0 else f"exit code {code}"),
    )


async def _begun(
    starting: Coroutine[Any, Any, asyncio.subprocess.Process],
) -> asyncio.subprocess.Process:
    """Return the started process. On cancellation during the start, end it and its children."""
    task = asyncio.create_task(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            await _end(await task)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the whole process group: TERM first, then KILL."""
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if sys.platform == "win32":
            if process.returncode is None:
                process.terminate()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()


class _Kept:
    """Shows complete lines as they arrive, and stores the beginning and the end of the output."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._shown = 0
        self._start = ""
        self._end = ""
        self._left_out = 0

    def add(self, data: bytes) -> None:
        self._take(self._decoder.decode(data))

    def finish(self) -> str:
        self._take(self._decoder.decode(b"", final=True) + ("\n" if self._line else ""))
        if not self._left_out:
            return (self._start + self._end).removesuffix("\n")
        return f"{self._start}\n[{self._left_out:,} characters left out]\n{self._end}".removesuffix(
            "\n"
        )

    def _take(self, text: str) -> None:
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > MAX_KEPT:  # a line that never ends
            lines.append(self._line)
            self._line = ""
        for line in lines:
            # If carriage returns overwrite a line, show only its last state.
            self._keep(safe_text(line.rstrip("\r").rpartition("\r")[2]))

    def _keep(self, line: str) -> None:
        if self._shown < MAX_SHOWN:
            self._shown += len(line) + 1
            self._show(line if self._shown < MAX_SHOWN else "[more is not shown]")
        half = MAX_KEPT // 2
        text = line + "\n"
        room = 0
        if not self._end:
            room = max(half - len(self._start), 0)
        self._start += text[:room]
        self._end += text[room:]
        if len(self._end) > half:
            self._left_out += len(self._end) - half
            self._end = self._end[-half:]
