"""Read a file or page: plain text in this process, all else in a worker process with bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcpagent.documents.document_reading.file_kinds import (
    OLD_OFFICE,
    decoded_text,
    document_kind,
)
from mcpagent.documents.document_reading.parsers import MOST_CHARACTERS
from mcpagent.documents.document_reading.text_parts import (
    DocumentText,
    Markup,
    TextPart,
)
from mcpagent.errors import DocumentReadError
from mcpagent.history.intake.file_processing import in_worker
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.text.safe_text import safe_line

MOST_BYTES = 64 << 20

_WORKER = "mcpagent.documents.document_reading.document_worker"
_MARKUP: dict[str, Markup] = {
    "markdown": "markdown",
    "text": "text",
    "python": "python",
}


def read_document_file(path: Path) -> bytes:
    """Return the content of a regular file. Raises `DocumentReadError`."""
    shown = safe_line(str(path), 200)
    try:
        return read_bounded(path, MOST_BYTES)
    except FileTooLargeError:
        problem = f"is larger than {MOST_BYTES:,} bytes; split it"
        raise DocumentReadError(shown, problem, reason="too-large") from None
    except OSError as error:
        problem = f"{error.strerror or error}; make it readable, or leave it out"
        raise DocumentReadError(shown, problem, reason="unreachable") from None


def text_of_file(data: bytes, name: str) -> DocumentText:
    """Return the text of a file with this path or address. It blocks. Raises `DocumentReadError`."""
    shown = safe_line(name, 200)
    kind = document_kind(data, name)
    if kind is None:
        raise DocumentReadError(shown, _unknown(data), reason="unknown-kind")
    if kind in _MARKUP:
        text = decoded_text(data)
        if len(text) > MOST_CHARACTERS:
            problem = f"is longer than {MOST_CHARACTERS:,} characters; split it"
            raise DocumentReadError(shown, problem, reason="too-large")
        found = DocumentText(kind, _MARKUP[kind], (TextPart(text),))
    else:
        found = _by_worker(data, kind, shown)
    if not any(part.text.strip() for part in found.parts):
        problem = "has no text; if its pages are pictures, recognise their text first"
        raise DocumentReadError(shown, problem, reason="no-text")
    return found


def _by_worker(data: bytes, kind: str, shown: str) -> DocumentText:
    worked = in_worker(kind, data, program=_WORKER)
    if worked.why:
        reason = "too-slow" if worked.is_late else "damaged"
        raise DocumentReadError(shown, f"{worked.why}; split it", reason=reason)
    answer: dict[str, Any] = json.loads(worked.output)
    if "error" in answer:
        reason, problem = answer["error"]
        raise DocumentReadError(shown, safe_line(problem, 400), reason=reason)
    return DocumentText.from_json(answer)


def _unknown(data: bytes) -> str:
    if data.startswith(OLD_OFFICE):
        return "is an Office file of before 2007; save it as .docx, .pptx or .xlsx"
    return "is of a kind without text"
