"""Measure the recall of a user's own questions: how often a search finds the expected document and section."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_values import SearchHit
from mcpagent.errors import InputError
from mcpagent.utilities.filesystem.bounded_files import open_given
from mcpagent.utilities.text.safe_text import safe_line

_MOST_BYTES = 10_000_000
_FORM = '{"question": "...", "uri": "FILE or address", "section": "a heading"}'


@dataclass(frozen=True, slots=True)
class DocumentQuestion:
    """A question with the address of the document that answers it; `section` is one of its headings, or ""."""

    question: str
    uri: str
    section: str = ""


@dataclass(frozen=True, slots=True)
class QuestionRanks:
    """The ranks (from 1) of the expected document and of its section. A rank is None if the search did not find it."""

    asked: DocumentQuestion
    document: int | None
    section: int | None
    first: str
    """The address of the best hit, or "" if there was no hit."""


@dataclass(frozen=True, slots=True)
class DocumentRecall:
    """The ranks of all questions, each among the first `limit` hits."""

    ranks: tuple[QuestionRanks, ...]
    limit: int

    def document_recall(self, within: int) -> float:
        """Return the share of questions whose document is among the first `within` hits."""
        found = [one.document for one in self.ranks]
        return _share([rank is not None and rank <= within for rank in found])

    def section_rank(self) -> float:
        """Return the mean reciprocal rank of the expected sections. For a question without a section, the document's
        rank counts.
        """
        ranks = [_rank(one) for one in self.ranks]
        return sum(1 / rank for rank in ranks if rank) / max(len(ranks), 1)


def _rank(one: QuestionRanks) -> int | None:
    return one.section if one.asked.section else one.document


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / max(len(hits), 1)


async def measure_recall(
    store: DocumentStore, questions: Sequence[DocumentQuestion], *, limit: int = 10
) -> DocumentRecall:
    """Search for each question, and return the ranks of the expected documents and sections."""
    ranks: list[QuestionRanks] = []
    for asked in questions:
        hits = await store.search(asked.question, limit=limit)
        of_document = [hit.chunk.document.uri == asked.uri for hit in hits]
        of_section = [_is_in_section(hit, asked) for hit in hits]
        first = hits[0].chunk.document.uri if hits else ""
        ranks.append(
            QuestionRanks(asked, _first(of_document), _first(of_section), first)
        )
    return DocumentRecall(tuple(ranks), limit)


def _is_in_section(hit: SearchHit, asked: DocumentQuestion) -> bool:
    return hit.chunk.document.uri == asked.uri and asked.section in hit.chunk.section


def _first(found: Sequence[bool]) -> int | None:
    if True not in found:
        return None
    return found.index(True) + 1


def read_document_questions(path: Path) -> list[DocumentQuestion]:
    """Return the questions of a file of JSON lines. Paths in it are relative to its folder.

    Raises `InputError` for an invalid line, with its number.
    """
    shown = safe_line(str(path), 100)
    try:
        with open_given(path) as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            f"cannot be read ({safe_line(str(error), 100)}); name a file of JSON lines"
        )
        raise InputError(f"{shown}: {problem}") from None
    if len(data) > _MOST_BYTES:
        raise InputError(f"{shown}: larger than {_MOST_BYTES:,} bytes; pass less")
    questions = [
        _question(line, f"{shown}:{number}", path.absolute().parent)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not questions:
        raise InputError(f"{shown}: is empty; write lines of {_FORM}")
    return questions


def _question(line: str, where: str, folder: Path) -> DocumentQuestion:
    try:
        entry: Any = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise InputError(f"{where}: is no JSON object; write {_FORM}")
    values = [entry.get(name, "") for name in ("question", "uri", "section")]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not (texts[0].strip() and texts[1].strip()):
        raise InputError(f"{where}: needs a question and a uri as texts; write {_FORM}")
    question, uri, section = texts
    if "://" not in uri:
        uri = (folder / uri).resolve().as_uri()
    return DocumentQuestion(question, uri, section)
