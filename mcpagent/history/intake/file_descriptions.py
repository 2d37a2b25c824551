"""Describe files in words, for models and people."""

from __future__ import annotations

from mcpagent.utilities.text.for_model import line_for_model
from mcpagent.values.messages import (
    Audio,
    BinaryBlock,
    Document,
    FileId,
    FilePart,
    Image,
    ImageUrl,
)

_ROUND = str.maketrans("[]<>", "()()")

KINDS = {
    Image: "image",
    Document: "document",
    Audio: "audio",
    ImageUrl: "image",
    FileId: "file",
}
"""The word for each kind of file."""


def file_kind(part: FilePart) -> str:
    """Return the word for the kind of a file."""
    return KINDS[type(part)]


def input_of(part: FilePart) -> str:
    """Return the input that an endpoint must accept for the file: "image", "pdf", "audio", or its media type."""
    match part:
        case Image() | ImageUrl():
            return "image"
        case Audio():
            return "audio"
        case Document(media_type="application/pdf"):
            return "pdf"
        case FileId(media_type=media_type):
            if media_type.startswith("image/"):
                return "image"
            return "pdf"
        case _:
            return part.media_type


def byte_count(data: str) -> int:
    """Return the number of bytes in Base64 data, without decoding it."""
    return max(len(data) * 3 // 4 - data[-2:].count("="), 0)


def details_of(part: FilePart | BinaryBlock) -> str:
    """Return name, type and size of a file, as "report.pdf, application/pdf, 1,234 bytes"."""
    match part:
        case ImageUrl(url=url):
            return bracketed(url, 300)
        case FileId(id=file_id, name=name, media_type=media_type):
            told = (name, media_type, f"ID {bracketed(file_id, 100)}")
        case BinaryBlock(address=name):
            told = (name, part.media_type, f"{byte_count(part.data):,} bytes")
        case Image(media_type=media_type):
            told = ("", media_type, f"{byte_count(part.data):,} bytes")
        case _:
            told = (part.name, part.media_type, f"{byte_count(part.data):,} bytes")
    return ", ".join(bracketed(one, 200) for one in told if one)


def file_line(part: FilePart, why: str) -> str:
    """Return the text that replaces a file: its kind, its details, and the reason."""
    return f"[{file_kind(part)}: {details_of(part)}; {why}]"


def bracketed(text: str, limit: int) -> str:
    """Return third-party text for use inside square brackets: one line that cannot close them."""
    return line_for_model(text, limit).translate(_ROUND)
