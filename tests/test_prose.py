"""Docstrings, comments and pages use the words of the field: a limit for each phrase that a reader stumbles over.

The docstrings of constants and fields count too. A limit is twice the highest rate that the phrase has in httpx,
pydantic-ai, openai-agents, fastmcp and llm. A failure lists the sentences to rewrite, those with most of the phrases
first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tables import each_row

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "mcpagent").rglob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)

OPENERS = {"What", "As", "Those", "One", "How", "That", "Whether", "Who", "Where", "Of"}
MOST_OPENERS = 0.05
"""The share of docstrings that may open with one of these words: a noun or a verb reports more."""


class Phrase(NamedTuple):
    pattern: str
    instead: str
    most: float
    """Occurrences per 10,000 words."""


PHRASES = [
    Phrase(
        r"(?:^|[.;:,] )What [a-z]+ "
        r"|\b(?:of|to|by|for|in|with|from|that) what (?:is|was|a|the|it|they|has|had|there)\b",
        "a noun: 'the result of', 'items that'",
        4,
    ),
    Phrase(r"\b(?:nobody|somebody|whoever|whatever|whichever)\b", "'the caller', 'the user', 'no one', 'any'", 6),
    Phrase(
        r"\b(?:is|are) (?:held|put|taken|given|kept|left|made|said|asked|meant|bound|done|told)\b",
        "an active verb: 'stores', 'accepts', 'reports'",
        10,
    ),
    Phrase(r"\b(?:stands?|stood|standing)\b", "'is', 'appears', 'is stored'", 2),
    Phrase(r"\b(?:tells?|told|telling)\b", "'report', 'notify', 'pass', 'return'", 4),
    Phrase(r"\b(?:is|are|was|were) said\b|\bsays? (?:so|of|how|what|who|which)\b", "'states', 'reports'", 2),
    Phrase(r"\bas (?:it|they) (?:was|were|is|are|came|comes)\b", "'unchanged', 'verbatim'", 2),
    Phrase(r"\bwhere (?:there|it|they|nobody|no|one|nothing|that)\b", "'if', 'when'", 6),
    Phrase(r"\b(?:is|are|has|have|knows?|names?) none\b", "'is missing', 'if there is no ...'", 2),
    Phrase(r"\b(?:anew|beside|of its own|of their own|goes on|go on|gone on)\b", "'again', 'next to', 'continues'", 4),
    Phrase(r"\bwhich of\b|\bof which\b|\bof them\b", "the noun again, or two sentences", 4),
    Phrase(r"\bset(?:s|ting)? aside\b", "'offload', 'spill'", 2),
]


class Passage(NamedTuple):
    place: str
    text: str


def docstrings_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, also of those after a constant, an alias or a field."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, DOCUMENTED):
            continue
        if docstring := ast.get_docstring(node):
            yield node.body[0].lineno, docstring
        for named, after in pairwise(node.body):
            if not isinstance(named, ast.Assign | ast.AnnAssign) or not isinstance(after, ast.Expr):
                continue
            if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                yield after.lineno, after.value.value


def passages_of_module(path: Path) -> Iterator[Passage]:
    """Yield each docstring and each comment."""
    source = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    for number, docstring in docstrings_of(source):
        yield Passage(f"{name}:{number}", " ".join(docstring.split()))
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|\s)#\s(.+)$", line):
            yield Passage(f"{name}:{number}", comment[1])


def passages_of_page(path: Path) -> Iterator[Passage]:
    """Yield each paragraph outside of code blocks."""
    without_code = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", without_code):
        if paragraph.strip():
            yield Passage(path.relative_to(ROOT).as_posix(), " ".join(paragraph.split()))


@pytest.fixture(scope="module")
def passages() -> list[Passage]:
    found: list[Passage] = []
    for path in MODULES:
        found.extend(passages_of_module(path))
    for path in PAGES:
        found.extend(passages_of_page(path))
    return found


@each_row("phrase", PHRASES)
def test_no_phrase_is_more_frequent_than_twice_in_the_field(phrase: Phrase, passages: list[Passage]) -> None:
    words = sum(len(passage.text.split()) for passage in passages)
    counted = [(len(re.findall(phrase.pattern, passage.text)), passage) for passage in passages]
    rate = sum(count for count, _ in counted) / words * 10_000
    if rate > phrase.most:
        worst = sorted(((count, passage) for count, passage in counted if count), key=lambda item: -item[0])
        lines = [f"{passage.place}: {passage.text[:160]}" for _, passage in worst[:40]]
        pytest.fail(f"{rate:.1f} in 10,000 words, at most {phrase.most}; write {phrase.instead}\n" + "\n".join(lines))


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    total = 0
    found: list[str] = []
    for path in MODULES:
        for line, docstring in docstrings_of(path.read_text("utf-8")):
            total += 1
            if docstring.split()[0].strip(",.;:") in OPENERS:
                found.append(f"{path.relative_to(ROOT).as_posix()}:{line}: {docstring[:100]}")
    assert len(found) <= MOST_OPENERS * total, "\n".join(found)
