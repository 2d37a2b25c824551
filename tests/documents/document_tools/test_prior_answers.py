"""Earlier answers are recalled for similar questions, with and without embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mcpagent.documents import QAHistoryEntry
from mcpagent.documents.document_tools.prior_answers import prior_answers
from tests.tables import each_row

pytestmark = pytest.mark.anyio

HISTORY = [
    QAHistoryEntry(question=question, answer="a")
    for question in ("How fast does the sea rise?", "What do storms cost?", "Who wrote the report?")
]


@each_row(
    "question, recalled",
    [
        ("How fast does the sea rise?", ["How fast does the sea rise?"]),
        ("how fast is the sea rising", ["How fast does the sea rise?"]),
        ("What is the cost of a storm?", ["What do storms cost?"]),
        ("What do whales eat?", []),
        ("", []),
        ("the of a", []),
    ],
)
async def test_without_a_model_words_decide(question: str, recalled: list[str]) -> None:
    assert [one.question for one in await prior_answers(HISTORY, question, None)] == recalled


async def test_an_embedder_decides_from_a_similarity_of_seven_tenths() -> None:
    vectors = {"q": [1.0, 0.0], "near": [0.8, 0.6], "nearest": [0.96, 0.28], "edge": [0.69, 0.7238], "far": [0.0, 1.0]}
    calls: list[list[str]] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        calls.append(list(texts))
        return [vectors[text] for text in texts]

    history = [QAHistoryEntry(question=name, answer="a") for name in ("near", "far", "edge", "nearest")]
    for _ in range(2):
        assert [one.question for one in await prior_answers(history, "q", embed)] == ["nearest", "near"]
    assert calls == [["near", "far", "edge", "nearest"], ["q"], ["q"]]
    assert await prior_answers([], "q", embed) == []
