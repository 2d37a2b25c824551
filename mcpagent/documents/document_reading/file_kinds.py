"""Determine the kind of a file: by its bytes, and by its name only between kinds of plain text; decode plain text."""

from __future__ import annotations

import codecs
import re
from importlib.util import find_spec
from pathlib import PurePosixPath

from mcpagent.documents.document_reading.text_parts import Kind

OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of Office files of before 2007."""

_LOOKED_AT = 8_192
_SAMPLE = 65_536

_BY_NAME: dict[str, Kind] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".py": "python",
    ".pyi": "python",
    ".eml": "email",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
}

_HTML = re.compile(
    rb"(?:<\?xml[^>]{0,200}\?>|<!--.{0,1000}?-->|\s)*+<(?:!doctype html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]{0,60}:[ \t]")
_SENDER = re.compile(rb"^(?:From|Sender):", re.IGNORECASE | re.MULTILINE)
_SENT = re.compile(rb"^(?:Date|Message-ID|MIME-Version):", re.IGNORECASE | re.MULTILINE)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks with their encodings. UTF-32 comes first, because its mark begins with the mark of UTF-16."""


def document_kind(data: bytes, name: str) -> Kind | None:
    """Return the kind of a file, or None if mcpagent cannot read text from it."""
    start = data[:_LOOKED_AT]
    if start.lstrip(b"\xef\xbb\xbf \t\r\n")[:5] == b"%PDF-":
        return "pdf"
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return "zip"
    has_mark = any(start.startswith(mark) for mark, _ in _MARKS)
    if start.startswith(OLD_OFFICE) or (b"\0" in start and not has_mark):
        return None
    if _HTML.match(start.removeprefix(codecs.BOM_UTF8)):
        return "html"
    if _is_email(start):
        return "email"
    return _BY_NAME.get(PurePosixPath(name).suffix.lower(), "text")


def _is_email(start: bytes) -> bool:
    """Return whether the bytes begin with the header of a message (RFC 5322) that names its sender and its time."""
    header = re.split(rb"\r?\n\r?\n", start, maxsplit=1)[0]
    lines = [line for line in header.splitlines() if line[:1] not in (b" ", b"\t")]
    if len(lines) < 2 or not all(_HEADER.match(line) for line in lines):
        return False
    return bool(_SENDER.search(header) and _SENT.search(header))


def decoded_text(data: bytes) -> str:
    """Decode plain text by its byte order mark, else as UTF-8, else with the encoding that fits its beginning best."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(_guessed_encoding(data), "replace")


def _guessed_encoding(data: bytes) -> str:
    if find_spec("charset_normalizer") is not None:
        from charset_normalizer import from_bytes

        best = from_bytes(data[:_SAMPLE]).best()
        if best is not None:
            return best.encoding
    return "cp1252"
