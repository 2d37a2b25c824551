"""The question of a one-shot run: the argument, files and what stands on stdin, joined."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line

MAX_BYTES = 10_000_000
WAITING_NOTICE_SECONDS = 3.0

Tell = Callable[[str], None]


def joined_prompt(question: str, files: Sequence[Path], piped: str) -> str:
    """The question with each file and the piped text as fenced blocks; the piped text is the question where none is.

    Raises `InputError` where there is nothing to ask or a file cannot be read.
    """
    piped = piped.removesuffix("\n")
    if not question.strip() and not files:
        if not piped.strip():
            raise InputError('there is no question; write mcpagent -p "..." or pipe one in')
        return piped
    blocks = [(str(path), _file_text(path)) for path in files]
    if piped.strip():
        blocks.append(("", piped))
    return "\n\n".join([question, *(fenced(text, label) for label, text in blocks)]).strip()


def piped_text(tell: Tell, timeout: float | None = None) -> str:
    """What was piped in, as UTF-8; empty on a terminal or where stdin is closed.

    `tell` gets one line when nothing comes: whoever started this may have left a pipe open. Raises `TimeoutError`.
    """
    stream = sys.stdin
    try:
        if stream is None or stream.closed or stream.isatty():
            return ""
        return _read(stream.fileno(), tell, timeout).decode("utf-8", "replace")
    except TimeoutError:  # an OSError to Python
        raise
    except (OSError, ValueError):
        return ""


def _read(descriptor: int, tell: Tell, timeout: float | None) -> bytes:
    started = time.monotonic()
    pieces: list[bytes] = []
    size = 0
    told = False
    while size <= MAX_BYTES:
        passed = time.monotonic() - started
        if timeout is not None and passed > timeout:
            raise TimeoutError(f"stdin did not end within {timeout:g} s (--timeout)")
        if not _has_data(descriptor):
            if not told and not pieces and passed > WAITING_NOTICE_SECONDS:
                tell("waiting for stdin to end (there is nothing on it yet; run with </dev/null if nothing comes)")
                told = True
            continue
        piece = os.read(descriptor, 65_536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    raise InputError(f"stdin holds more than {MAX_BYTES // 1_000_000} MB; pass less")


def _has_data(descriptor: int) -> bool:
    """Whether a read would return at once; waits half a second for that."""
    if sys.platform == "win32":  # select() knows only sockets there
        return True
    import select

    return bool(select.select([descriptor], [], [], 0.5)[0])


def _file_text(path: Path) -> str:
    shown = safe_line(str(path), 80)
    try:
        with path.open("rb") as file:  # it may be a device that never ends
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f'no file "{shown}"; put the whole question in quotes') from None
    except (OSError, ValueError) as error:
        raise InputError(f'"{shown}" cannot be read: {safe_line(str(error), 120)}') from None
    if len(data) > MAX_BYTES:
        raise InputError(f'"{shown}" is larger than {MAX_BYTES // 1_000_000} MB; pass less')
    return data.decode("utf-8", "replace").removesuffix("\n")


def fenced(text: str, label: str) -> str:
    """A code block whose fence is longer than any run of backticks inside, so that the text cannot end it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    heading = f"{label}:\n" if label else ""
    return f"{heading}{fence}\n{text}\n{fence}"
