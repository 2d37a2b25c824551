"""A text in the user's own editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line

FALLBACKS = ("editor", "nano", "vi")


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """`$VISUAL`, `$EDITOR`, else what there usually is. Raises `InputError` where there is nothing."""
    for variable in ("VISUAL", "EDITOR"):
        if written := environ.get(variable, "").strip():
            try:
                return shlex.split(written)
            except ValueError as error:
                raise InputError(f"{variable}: {error}; check the quotes in {safe_line(written, 80)}") from None
    for name in FALLBACKS:
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    raise InputError("no editor: set EDITOR, for example export EDITOR=nano")


async def edited(text: str, environ: Mapping[str, str]) -> str:
    """The text as the user saved it. Raises `InputError` where the editor cannot run or says that it failed.

    The terminal is the editor's until it ends.
    """
    command = editor_command(environ)
    handle, name = tempfile.mkstemp(suffix=".md", prefix="mcpagent-")
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            process = await asyncio.create_subprocess_exec(*command, str(path))
        except OSError as error:
            shown = safe_line(" ".join(command), 80)
            raise InputError(f"the editor {shown} cannot be started: {error.strerror}; set EDITOR") from None
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
        if code:
            raise InputError(
                f"the editor {safe_line(' '.join(command), 80)} ended with exit code {code}; nothing is asked"
            )
        return await asyncio.to_thread(path.read_text, "utf-8", "replace")
    finally:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - also when this was cancelled
