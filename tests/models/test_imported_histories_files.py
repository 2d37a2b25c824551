"""Histories of OpenAI and Anthropic keep their files."""

from __future__ import annotations

from typing import Any

from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.imported_histories import read_history
from mcpagent.values.messages import Audio, Document, FileId, ImageUrl, Part, Text
from tests.made_files import pdf, wav
from tests.tables import each_row

PDF, WAV = base64_text(pdf()), base64_text(wav())
PDF_URL = f"data:application/pdf;base64,{PDF}"


def document(**source: str) -> dict[str, Any]:
    return {"type": "document", "title": "a.pdf", "source": source}


@each_row(
    "block, part",
    [
        ({"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}, ImageUrl("https://e.org/a.png")),
        ({"type": "image", "source": {"type": "url", "url": "https://e.org/a.png"}}, ImageUrl("https://e.org/a.png")),
        ({"type": "input_image", "file_id": "file_1"}, FileId("file_1", "openai", "image/*")),
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, FileId("file_1", "anthropic", "image/*")),
        (document(type="base64", media_type="application/pdf", data=PDF), Document("application/pdf", PDF, "a.pdf")),
        (document(type="file", file_id="file_1"), FileId("file_1", "anthropic", "", "a.pdf")),
        (document(type="text", media_type="text/plain", data="words"), Text("a.pdf:\n```\nwords\n```")),
        (document(type="url", url="https://e.org/a.pdf"), Text("[document: https://e.org/a.pdf; not fetched]")),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
            Document("application/pdf", PDF, "a.pdf"),
        ),
        ({"type": "file", "file": {"file_id": "file_1"}}, FileId("file_1", "openai")),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": PDF_URL},
            Document("application/pdf", PDF, "a.pdf"),
        ),
        ({"type": "input_file", "file_url": "https://e.org/a"}, Text("[document: https://e.org/a; not fetched]")),
        ({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}, Audio("audio/wav", WAV)),
        ({"type": "input_audio", "input_audio": {"data": WAV, "format": "mp3"}}, Audio("audio/mpeg", WAV)),
    ],
)
def test_a_file_of_a_question_becomes_a_part(block: dict[str, Any], part: Part) -> None:
    history = read_history([{"role": "user", "content": [{"type": "text", "text": "see"}, block]}])
    assert history.messages[0].parts == (Text("see"), part)
