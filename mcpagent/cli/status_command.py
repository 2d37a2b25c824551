"""A status line of the user's own: a command that gets JSON on its standard input and prints one line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

SECONDS = 1.0
PAUSE_SECONDS = 0.3
MAX_OUTPUT = 4_096


class StatusCommand:
    """Keeps what the command said last, and runs it again when what it is told has changed.

    Without a shell; at most one run at a time, each within `SECONDS`. It comes from the user's own settings, never from
    a project's. `changed` is called when there is a new line. Raises `ConfigError` where the command is no command.
    """

    def __init__(self, command: str, environ: Mapping[str, str], folder: Path, changed: Callable[[], None]) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"statusLine: {error}; check the quotes in {safe_line(command, 80)}") from None
        if not self._words:
            raise ConfigError("statusLine: the command is empty; take it out or name one")
        self._environ = dict(environ)
        self._folder = folder
        self._changed = changed
        self._told = ""
        self._running: asyncio.Task[None] | None = None
        self.said: str | None = None
        """The line it gave last, None where it gave none or failed."""
        self.problem = ""
        """Why its last run gave nothing."""

    def tell(self, document: Mapping[str, Any]) -> None:
        """Has the line made anew, where something has changed; returns at once."""
        told = json.dumps(document)
        if told == self._told or (self._running is not None and not self._running.done()):
            return
        self._told = told
        self._running = asyncio.create_task(self._run(told), name="status-line")

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def _run(self, told: str) -> None:
        before = self.said
        self.said, self.problem = await self._output(told)
        if self.said != before:
            self._changed()
        await asyncio.sleep(PAUSE_SECONDS)
        self._changed()  # what changed meanwhile is told now

    async def _output(self, told: str) -> tuple[str | None, str]:
        name = safe_line(self._words[0], 60)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=self._folder,
                env=self._environ,
            )
        except OSError as error:
            return None, f"statusLine: {name} cannot be started: {error.strerror}"
        try:
            async with asyncio.timeout(SECONDS):
                output, _ = await process.communicate(told.encode())
        except TimeoutError:
            return None, f"statusLine: {name} took longer than {SECONDS:g} s"
        except OSError as error:
            return None, f"statusLine: {name}: {error.strerror}"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            return None, f"statusLine: {name} ended with exit code {process.returncode}"
        lines = output[:MAX_OUTPUT].decode("utf-8", "replace").splitlines()
        return (safe_line(lines[0], 300) if lines else ""), ""
