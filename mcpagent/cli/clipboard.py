"""Text into the clipboard: by the desktop's own command where there is one, else by the terminal (OSC 52)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

COMMAND_SECONDS = 3.0
MAX_OSC_52 = 74_994
"""Bytes of base64 that xterm, and most terminals after it, take."""


async def copy_to_clipboard(text: str, console: Console, environ: Mapping[str, str]) -> str:
    """Copies, and says in one line what was done."""
    size = f"{len(text):,} characters"
    command = _command(environ)
    if command is not None and await _fed(command, text):
        return f"copied {size} with {command[0]}"
    payload = base64.b64encode(text.encode()).decode()
    if not console.is_terminal or environ.get("TERM") in ("dumb", "unknown"):
        return "not copied: there is no clipboard command, and this is no terminal that could do it"
    if len(payload) > MAX_OSC_52:
        return f"not copied: {size} are more than terminals take; /export md writes a file"
    console.file.write(f"\x1b]52;c;{payload}\x07")
    console.file.flush()
    return f"sent {size} to the terminal's clipboard (OSC 52, which some terminals have switched off)"


def _command(environ: Mapping[str, str]) -> list[str] | None:
    """The desktop's command; none over SSH, where it would copy on the wrong machine."""
    if environ.get("SSH_CONNECTION"):
        return None
    candidates: list[tuple[bool, list[str]]] = [
        (sys.platform == "darwin", ["pbcopy"]),
        (sys.platform == "win32", ["clip"]),
        (bool(environ.get("WAYLAND_DISPLAY")), ["wl-copy"]),
        (bool(environ.get("DISPLAY")), ["xclip", "-selection", "clipboard"]),
        (bool(environ.get("DISPLAY")), ["xsel", "--clipboard", "--input"]),
    ]
    usable = (command for fits, command in candidates if fits and shutil.which(command[0], path=environ.get("PATH")))
    return next(usable, None)


async def _fed(command: list[str], text: str) -> bool:
    """Whether the command took the text on its standard input."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            await process.communicate(text.encode())
        return process.returncode == 0
    except (TimeoutError, OSError):
        return False
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
