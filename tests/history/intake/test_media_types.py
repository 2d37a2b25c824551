"""Types and dimensions are read from bytes."""

from __future__ import annotations

import io

import pytest
from PIL import Image as Picture

from mcpagent.history.intake.media_types import base64_bytes, base64_text, file_type, image_size, image_type
from tests.made_files import pdf, png, wav
from tests.tables import each_row

MP3 = b"\xff\xfb\x90\x64" + bytes(200)


@each_row(
    "data, media_type",
    [
        (png(1, 1), "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (pdf(), "application/pdf"),
        (wav(), "audio/wav"),
        (MP3, "audio/mpeg"),
        (b"ID3\4", "audio/mpeg"),
        (b"OggS\0\2", "audio/ogg"),
        (b"fLaC\0\0", "audio/flac"),
        (b"ID3 is an algorithm", None),
        (b"GIF89a is a format", None),
        (b"RIFF\0\0\0\0AVI ", None),
        (b"\xff\xf2", None),
        (b"\xff\xff\xff\xff" + bytes(200), None),
        (b"plain words", None),
        (b"", None),
    ],
)
def test_a_type_is_read_from_the_first_bytes(data: bytes, media_type: str | None) -> None:
    assert file_type(data) == media_type
    assert image_type(data) == (media_type if media_type is not None and media_type.startswith("image/") else None)


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_dimensions_are_read_from_the_header(form: str) -> None:
    for options in ({}, {"lossless": True}, {"exif": Picture.Exif()}) if form == "WEBP" else ({},):
        written = io.BytesIO()
        Picture.new("RGB", (301, 17), (1, 2, 3)).save(written, form, **options)
        data = written.getvalue()
        assert image_size(data) == (301, 17)
        for length in range(12, 40):
            assert image_size(data[:length]) in (None, (301, 17))


def test_base64_comes_in_lines_and_as_a_data_url_and_long_data_in_steps() -> None:
    data = bytes(range(256)) * 20_000
    text = base64_text(data)
    lines = "\n".join(text[start : start + 76] for start in range(0, len(text), 76))
    for given in (text, lines, f"data:image/png;base64,{text}"):
        assert base64_bytes(given) == data
    for broken in ("", "@", "QQ", f"{text}=="[:3_000_001]):
        assert base64_bytes(broken) is None
