"""Read files into content parts, also the files of a prompt."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mcpagent.errors import InputError
from mcpagent.history.intake.admission_of_content import admitted
from mcpagent.history.intake.budget import MAX_DOCUMENT_BYTES
from mcpagent.history.intake.media_types import base64_text, file_type
from mcpagent.utilities.filesystem.bounded_files import open_given
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Audio, Content, Document, File, Image, Text

MAX_TEXT_BYTES = 1_000_000
"""Maximum size of a file that is attached as text."""

MOST_READ = 4 * MAX_DOCUMENT_BYTES
"""Maximum number of bytes read from a file; a larger file is an error, even an image that could be scaled down."""


async def prompt_parts(said: tuple[Content | File, ...]) -> tuple[Content, ...]:
    """Return the content of a prompt, with its files read and within the budget.

    Raises `InputError` for a file that cannot be read or is over the budget.
    """
    parts: list[Content] = []
    for part in said:
        if isinstance(part, File):
            path = Path(part.path)
            found = await asyncio.to_thread(read_file, path)
            parts.append(_in_block(found, path) if isinstance(found, str) else found)
        else:
            parts.append(part)
    judged = await admitted(tuple(parts))
    if judged.refused:
        raise InputError(f"prompt: {judged.refused[0]}")
    return judged.content


def _in_block(text: str, path: Path) -> Text:
    return Text(fenced(for_model(text), safe_line(str(path), 200)))


def read_file(path: Path, *, shown: str = "") -> str | Image | Audio | Document:
    """Return a file's text, or an image, document or recording, depending on its bytes.

    `shown` is the file's name in errors. Raises `InputError` if the file has another type, or is too large.
    """
    shown = safe_line(shown or str(path), 100)
    try:
        with open_given(path.expanduser()) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
            if file_type(data) is not None and len(data) > MAX_TEXT_BYTES:
                data += file.read(MOST_READ)
    except (OSError, RuntimeError, ValueError) as error:
        why = None
        if isinstance(error, OSError):
            why = error.strerror
        raise InputError(
            f"{shown} cannot be read: {safe_line(why or str(error), 120)}"
        ) from None
    return content_of_bytes(data, path.name, shown)


def content_of_bytes(
    data: bytes, name: str, shown: str
) -> str | Image | Audio | Document:
    """Return the bytes of a file as text, an image, a PDF or a recording. Raises `InputError` as `read_file` does."""
    if (part := file_part(data, name, shown)) is not None:
        return part
    if len(data) > MAX_TEXT_BYTES:
        raise InputError(
            f"{shown} is larger than {MAX_TEXT_BYTES // 1_000_000} MB; give a part of it"
        )
    if b"\0" in data[:8192]:
        kinds = (
            "text, images (png, jpeg, gif, webp), PDF and audio (wav, mp3, ogg, flac)"
        )
        raise InputError(f"{shown} is a binary file; only {kinds} can be added")
    return data.decode("utf-8", "replace").removesuffix("\n")


def file_part(
    data: bytes, name: str, shown: str = ""
) -> Image | Audio | Document | None:
    """Return the bytes of a file as an image, recording or PDF; None for any other type. Raises `InputError`."""
    found = file_type(data)
    if found is None:
        return None
    if len(data) > MOST_READ:
        raise InputError(
            f"{shown or safe_line(name, 100)} is larger than {MOST_READ // 1_000_000} MB; shrink it"
        )
    if found.startswith("image/"):
        return Image(found, base64_text(data))
    encoded, shown = base64_text(data), safe_line(name, 100)
    if found.startswith("audio/"):
        return Audio(found, encoded, shown)
    return Document(found, encoded, shown)


def saved(folder: Path, name: str, data: bytes) -> Path:
    """Write bytes into a new file of the folder, under this name or a numbered one, and return its path.

    The name is third-party text: only its last component is used, without hidden characters. Raises `OSError`.
    """
    base = (
        safe_line(name.replace("\\", "/").rpartition("/")[2], 100).strip(" .") or "file"
    )
    stem, dot, ending = base.rpartition(".")
    if dot and stem:
        stem, ending = stem, f".{ending}"
    else:
        stem, ending = base, ""
    for number in range(1, 1_000):
        path = folder / (base if number == 1 else f"{stem}-{number}{ending}")
        try:
            handle = os.open(
                path,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0),
                0o666,
            )
        except FileExistsError:
            continue
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return path
    raise FileExistsError(f"{base} and its numbered names exist")
