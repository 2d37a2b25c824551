"""The recall of a user's own questions, and the errors of their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent.documents.document_recall import DocumentQuestion, measure_recall, read_document_questions
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from mcpagent.errors import InputError
from tests.documents.sample_documents import chunks, document
from tests.tables import each_row


async def test_recall_counts_documents_and_sections(tmp_path: Path) -> None:
    async with SqliteDocuments(tmp_path / "documents.db", embedder=None) as store:
        for name, texts in (("a", ["apples grow", "apples are apples"]), ("b", ["pears grow"])):
            one = document(f"file:///{name}.md")
            await store.save(one, chunks(one, texts))
        questions = [
            DocumentQuestion("apples", "file:///a.md", "0"),
            DocumentQuestion("pears", "file:///b.md"),
            DocumentQuestion("plums", "file:///b.md"),
        ]
        found = await measure_recall(store, questions, limit=5)
    assert [(one.document, one.section) for one in found.ranks] == [(1, 2), (1, None), (None, None)]
    assert found.document_recall(1) == pytest.approx(2 / 3)
    assert found.section_rank() == pytest.approx((1 / 2 + 1) / 3)


@each_row(
    "content, problem",
    [
        ("", "is empty"),
        ("[1]", "q.jsonl:1: is no JSON object"),
        ('\n{"question": "a"}', "q.jsonl:2: needs a question and a uri"),
        ('{"question": "a", "uri": 1}', "as texts"),
        ("[" * 100_000, "is no JSON object"),
        ("\xff", "cannot be read"),
    ],
)
def test_a_wrong_line_is_named(content: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=problem):
        read_document_questions(tmp_path / "q.jsonl")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        '{"question": "a", "uri": "x y.md", "section": "B"}\n{"question": "c", "uri": "https://d.test"}'
    )
    uri = (tmp_path / "x y.md").as_uri()
    expected = [DocumentQuestion("a", uri, "B"), DocumentQuestion("c", "https://d.test")]
    assert read_document_questions(tmp_path / "q.jsonl") == expected
