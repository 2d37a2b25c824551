"""Earlier answers of a session to similar questions: by embeddings if a model is installed, else by words."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, TypeAlias

from mcpagent.documents.document_tools.session_state import QAHistoryEntry
from mcpagent.search.words import terms, written_words

RECALL_FROM = 0.7
"""Minimum similarity of two questions, from 0 to 1."""

Embed: TypeAlias = Callable[[Sequence[str]], Any]


async def prior_answers(
    history: Sequence[QAHistoryEntry],
    question: str,
    embed: Embed | Literal["installed"] | None = "installed",
) -> list[QAHistoryEntry]:
    """Return the entries with a similar question, the most similar first.

    `embed` returns unit vectors, by default those of the installed model; None compares words. The function stores the
    vectors in the entries.
    """
    if not history:
        return []
    return await asyncio.to_thread(_recalled, history, question, embed)


def _recalled(
    history: Sequence[QAHistoryEntry],
    question: str,
    embed: Embed | Literal["installed"] | None,
) -> list[QAHistoryEntry]:
    if embed == "installed":
        embed = _installed_embedder()
    if embed is None:
        words = _terms(question)
        likeness = [_word_likeness(words, _terms(one.question)) for one in history]
    else:
        _embed_questions(history, embed)
        [vector] = embed([question])
        likeness = [_cosine(vector, one.question_embedding or ()) for one in history]
    scored = zip(likeness, history, strict=True)
    near = [pair for pair in scored if pair[0] >= RECALL_FROM]
    near.sort(key=lambda pair: pair[0], reverse=True)
    return [entry for _, entry in near]


def _embed_questions(history: Sequence[QAHistoryEntry], embed: Embed) -> None:
    new = [entry for entry in history if entry.question_embedding is None]
    if not new:
        return
    vectors = embed([entry.question for entry in new])
    for entry, vector in zip(new, vectors, strict=True):
        entry.question_embedding = list(map(float, vector))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        return 0.0
    return float(sum(a * b for a, b in zip(one, other, strict=True)))


def _terms(text: str) -> frozenset[str]:
    return frozenset(term for word in written_words(text) for term in terms(word))


def _word_likeness(one: frozenset[str], other: frozenset[str]) -> float:
    if not one or not other:
        return 0.0
    return len(one & other) / math.sqrt(len(one) * len(other))


@cache
def _installed_embedder() -> Embed | None:
    from mcpagent.search.semantic.embedding import (
        MultilingualEmbedder,
        StaticEmbedder,
        has_multilingual_model,
        static_model_folder,
    )

    if static_model_folder() is not None:
        return StaticEmbedder().plain
    if has_multilingual_model():
        return MultilingualEmbedder()
    return None
