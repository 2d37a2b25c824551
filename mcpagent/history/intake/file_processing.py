"""Scale images and extract the text of documents in a separate process with bounded time and memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from mcpagent.history.intake.budget import MAX_IMAGE_BYTES, SCALED_SIDE
from mcpagent.history.intake.media_types import base64_bytes
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Document

_WORKER = "mcpagent.history.intake.file_worker"
_SECONDS = 60
_LATE = f"it takes longer than {_SECONDS} s to read"
_CPU_LIMIT_REACHED = -getattr(signal, "SIGXCPU", 24)
_PASSED_ON = (
    "PATH",
    "HOME",
    "PYTHONPATH",
    "PYTHONHOME",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "LD_LIBRARY_PATH",
)
"""The only environment variables that the process gets, so it has no keys."""


@dataclass(frozen=True, slots=True)
class ProcessOutput:
    """The output of the process; `why` is the reason if there is no output. `is_late`: it reached its time limit."""

    output: bytes = b""
    why: str = ""
    is_late: bool = False


def can_scale() -> bool:
    """Return whether Pillow, the extra `mcpagent[images]`, is installed."""
    return find_spec("PIL") is not None


def can_extract() -> bool:
    """Return whether pypdf, the extra `mcpagent[pdf]`, is installed."""
    return find_spec("pypdf") is not None


def in_worker(task: str, data: bytes, *, program: str = _WORKER) -> ProcessOutput:
    """Run one task of a program on the bytes, by default of `file_worker.py`. It blocks, so call it in a thread."""
    command = [sys.executable, "-P", "-m", program, task]
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            command,
            input=data,
            capture_output=True,
            timeout=_SECONDS,
            env=variables,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProcessOutput(why=_LATE, is_late=True)
    except OSError as error:
        return ProcessOutput(why=safe_line(str(error), 200))
    if done.returncode == _CPU_LIMIT_REACHED:
        return ProcessOutput(why=_LATE, is_late=True)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return ProcessOutput(why=safe_line(said, 200) or "it could not be read")
    return ProcessOutput(done.stdout)


def scaled(data: bytes) -> tuple[str, bytes, str] | str:
    """Return an image scaled to the budget: media type, bytes, and its sizes before and after; on failure, the reason
    as text.
    """
    if not can_scale():
        return "pip install 'mcpagent[images]' to have it scaled down"
    worked = in_worker(f"scale:{SCALED_SIDE}:{MAX_IMAGE_BYTES}", data)
    if worked.why:
        return worked.why
    head, _, picture = worked.output.partition(b"\n")
    media_type, _, sizes = head.decode().partition(" ")
    return media_type, picture, sizes


@lru_cache(maxsize=32)
def text_of(document: Document) -> ProcessOutput:
    """Return the text of a PDF, which is extracted once for each document. It blocks, so call it in a thread."""
    if document.media_type != "application/pdf":
        return ProcessOutput(why="only the text of a PDF can be extracted")
    if not can_extract():
        return ProcessOutput(
            why="pip install 'mcpagent[pdf]' to have its text extracted"
        )
    data = base64_bytes(document.data)
    if data is None:
        return ProcessOutput(why="its data is not valid Base64")
    worked = in_worker("text", data)
    if not worked.why and not worked.output.strip():
        return ProcessOutput(why="there is no text in it: its pages are pictures")
    return worked
