"""Read the type of a file, and the dimensions of an image, from its bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from mcpagent.utilities.text.safe_text import steps_of

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that both Anthropic and OpenAI document."""

_STARTS: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
}

_RIFF: Mapping[bytes, str] = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

_ENDINGS: Mapping[str, str] = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
    "text/plain": "txt",
    "text/csv": "csv",
    "application/json": "json",
}

_LAYOUT = str.maketrans("", "", "\n\r\t")

_STEP = 1 << 20
"""Number of Base64 characters decoded in one step, a multiple of four; other threads run between steps."""


def file_type(data: bytes) -> str | None:
    """Return the media type of an image, PDF or recording by its first bytes; None for any other type."""
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    for start, media_type in _STARTS.items():
        if data.startswith(start):
            # Text may begin like a file: "ID3 is an algorithm". A PDF may be printable as a whole.
            is_words = (
                media_type != "application/pdf"
                and printable_text(data[:64]) is not None
            )
            if is_words:
                return None
            return media_type
    if _is_mpeg_frame(data):
        return "audio/mpeg"
    return None


def _is_mpeg_frame(data: bytes) -> bool:
    """Return whether the bytes begin with the header of an MPEG layer III frame (ISO 11172-3, 2.4.2.3)."""
    if len(data) < 100 or data[0] != 0xFF or data[1] & 0xE6 != 0xE2:
        return False
    return data[2] & 0xF0 not in (0, 0xF0) and data[2] & 0x0C != 0x0C


def image_type(data: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WebP image by its first bytes; None for any other type."""
    found = file_type(data)
    if found in IMAGE_TYPES:
        return found
    return None


def ending_of(media_type: str) -> str:
    """Return the usual file name ending of a media type, "bin" if it is not known."""
    return _ENDINGS.get(media_type, "bin")


def printable_text(data: bytes) -> str | None:
    """Return the bytes as UTF-8 text of printable characters, line breaks and tabs; None for other bytes."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if all(piece.translate(_LAYOUT).isprintable() for piece in steps_of(text)):
        return text
    return None


def base64_bytes(data: str) -> bytes | None:
    """Return the bytes of Base64 data, also with line breaks or as a data URL; None if it is invalid.

    Long data is decoded in steps, so that a worker thread lets other threads run.
    """
    if data.startswith("data:"):
        data = data.partition(",")[2]
    if any(space in data for space in " \n\r\t"):
        data = "".join(data.split())
    if not data:
        return None
    pieces: list[bytes] = []
    try:
        for start in range(0, len(data), _STEP):
            pieces.append(base64.b64decode(data[start : start + _STEP], validate=True))
    except (binascii.Error, ValueError):
        return None
    if len(pieces) == 1:
        return pieces[0]
    return b"".join(pieces)


def base64_text(data: bytes) -> str:
    """Return the bytes as Base64; long ones are encoded in steps, as in `base64_bytes`."""
    step = _STEP // 4 * 3
    pieces: list[str] = []
    for start in range(0, len(data), step):
        pieces.append(base64.b64encode(data[start : start + step]).decode())
    return "".join(pieces)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Return width and height in pixels, from the header of a PNG, GIF, WebP or JPEG; None if they are not in it."""
    match image_type(data):
        case "image/png" if data[12:16] == b"IHDR" and len(data) >= 24:
            return int.from_bytes(data[16:20], "big"), int.from_bytes(
                data[20:24], "big"
            )
        case "image/gif" if len(data) >= 10:
            return int.from_bytes(data[6:8], "little"), int.from_bytes(
                data[8:10], "little"
            )
        case "image/webp":
            return _webp_size(data)
        case "image/jpeg":
            return _jpeg_size(data)
        case _:
            return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the three forms of a WebP header (RFC 9649)."""
    kind, body = data[12:16], data[20:34]
    if len(body) < 10:
        return None
    if kind == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(
            body[7:10], "little"
        ) + 1
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(
            body[8:10], "little"
        ) & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Read the first frame header (ITU T.81, B.2.2) after at most 1,000 segments."""
    place = 2
    for _ in range(1_000):
        if len(data) < place + 9 or data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[place + 7 : place + 9], "big"), int.from_bytes(
                data[place + 5 : place + 7], "big"
            )
        if marker == 0xFF:
            place += 1
        else:
            place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    return None
