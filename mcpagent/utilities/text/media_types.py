"""Detect whether bytes are printable text or an image of a type that every provider accepts."""

from __future__ import annotations

from collections.abc import Mapping

MAX_IMAGE_BYTES = 5_000_000
"""No model takes a larger one: the request would fail, and each one after it."""

_STARTS: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def image_type(data: bytes) -> str | None:
    """Return the media type of PNG, JPEG, GIF and WebP, by their first bytes; None for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (media_type for start, media_type in _STARTS.items() if data.startswith(start)),
        None,
    )


def printable_text(data: bytes) -> str | None:
    """Return the bytes as UTF-8 text of printable characters, line breaks and tabs; None for other bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if all(char.isprintable() or char in "\n\r\t" for char in text):
        return text
    return None
