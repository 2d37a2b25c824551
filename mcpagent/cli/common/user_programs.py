"""Run the user's own programs: the editor, and programs that receive a text on standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mcpagent.errors import InputError
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.text.safe_text import safe_line

FALLBACKS = ("editor", "nano", "vi")


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """Return `$VISUAL`, `$EDITOR`, else a common editor. Raises `InputError` if none is found."""
    for variable in ("VISUAL", "EDITOR"):
        if written := environ.get(variable, "").strip():
            try:
                return shlex.split(written)
            except ValueError as error:
                raise InputError(
                    f"{variable}: {error}; check the quotes in {safe_line(written, 80)}"
                ) from None
    for name in FALLBACKS:
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    raise InputError("no editor: set EDITOR, for example export EDITOR=nano")


async def open_in_editor(path: Path, environ: Mapping[str, str]) -> None:
    """Let the editor use the terminal until it ends. Raises `InputError` if it cannot run or fails."""
    command = editor_command(environ)
    shown = safe_line(" ".join(command), 80)
    try:
        process = await asyncio.create_subprocess_exec(*command, str(path))
    except OSError as error:
        raise InputError(
            f"the editor {shown} cannot be started: {error.strerror}; set EDITOR"
        ) from None
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if code:
        raise InputError(
            f"the editor {shown} ended with exit code {code}; try again, or set EDITOR to another one"
        )


async def edited(text: str, environ: Mapping[str, str]) -> str:
    """Return the text as the user saved it in the editor. Raises `InputError` if the editor cannot run or fails."""
    handle, name = tempfile.mkstemp(suffix=".md", prefix="mcpagent-")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        await open_in_editor(path, environ)
        return (await asyncio.to_thread(read_own, path)).decode("utf-8", "replace")
    finally:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - also when this was cancelled


async def output_of(
    command: Sequence[str],
    text: str,
    seconds: float,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Return the exit code and stdout of a program that receives the text on stdin; its stderr is discarded.

    Raises `OSError`, or `TimeoutError` after `seconds`; the program has ended then.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env=environ,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate(text.encode())
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode or 0, output
