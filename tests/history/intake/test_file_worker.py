"""The process that reads files: bounded, and without the environment."""

from __future__ import annotations

from mcpagent.history.intake.file_processing import in_worker, scaled, text_of
from mcpagent.history.intake.media_types import base64_text
from mcpagent.values.messages import Document
from tests.made_files import pdf, png, png_bomb
from tests.tables import each_row


@each_row(
    "task, data, why",
    [
        ("scale:100:1000", png_bomb(), "it has 1,000,000 x 1,000,000 pixels"),
        ("scale:100:1000", b"no picture", "it cannot be read"),
        ("scale:100:1000", png(50, 50)[:60], ""),
        ("text", b"no PDF", ""),
        ("text", pdf()[:100], ""),
    ],
)
def test_a_file_that_cannot_be_read_is_a_reason_in_one_line(task: str, data: bytes, why: str) -> None:
    worked = in_worker(task, data)
    assert worked.output == b""
    assert worked.why
    assert "\n" not in worked.why
    assert "Traceback" not in worked.why
    assert why in worked.why


def test_a_picture_is_scaled_until_its_bytes_fit() -> None:
    worked = in_worker("scale:400:20000", png(500, 500, noise=True))
    head, _, picture = worked.output.partition(b"\n")
    assert head.startswith(b"image/jpeg 500x500 to ")
    assert len(picture) <= 20_000
    whole = scaled(png(10, 10))
    assert not isinstance(whole, str)
    assert (whole[0], whole[2]) == ("image/png", "10x10 to 10x10")


def test_the_text_of_a_pdf_is_by_page() -> None:
    worked = text_of(Document("application/pdf", base64_text(pdf("Grand total: 42"))))
    assert worked.output.decode() == "--- page 1 ---\nGrand total: 42"
    assert "only the text of a PDF" in text_of(Document("application/zip", "QUJD")).why
    assert "Base64" in text_of(Document("application/pdf", "@")).why
