"""Chunks follow headings, keep tables and code whole, and keep their IDs."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.documents.chunking import CHUNK_CHARACTERS, chunks_of, document_id, document_title
from mcpagent.documents.document_reading.text_parts import DocumentText, Markup, TextPart
from mcpagent.documents.document_values import Chunk
from tests.documents.sample_documents import document
from tests.tables import each_row

LINES = ["# a", "## b", "```", "~~~", "---", "===", "", "text", "| a |", "|-|", "x " * 900, "#"]
ONE = document("file:///one.md")

GUIDE = """---
title: From the front matter
---
Before all headings.

# Guide

Intro.

## Install {#install}

```sh
# no heading
pip install x
```

### Empty

## `Use` it ##

Text.

Underlined
----------

More.

| a | b |
|---|---|
| 1 | 2 |
"""


def chunked(text: str, markup: Markup = "markdown", page: int | None = None) -> list[Chunk]:
    return chunks_of(ONE, DocumentText("text", markup, (TextPart(text, page),)))


def test_chunks_have_their_headings() -> None:
    found = [(chunk.section, chunk.text) for chunk in chunked(GUIDE)]
    assert found == [
        ((), "Before all headings."),
        (("Guide",), "Intro."),
        (("Guide", "Install"), "```sh\n# no heading\npip install x\n```"),
        (("Guide", "Install", "Empty"), "Empty"),
        (("Guide", "Use it"), "Text."),
        (("Guide", "Underlined"), "More.\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
    ]


def test_python_code_is_split_at_definitions() -> None:
    code = (
        '"""Doc."""\nX = 1\n\n@wraps\ndef one():\n    return 1\n\n\n'
        "class Two:\n    y = 2\n\n    def three(self):\n        pass\n"
    )
    found = [(chunk.section, chunk.text.splitlines()[0]) for chunk in chunked(code, "python")]
    assert found == [
        ((), '"""Doc."""'),
        (("one",), "@wraps"),
        (("Two",), "class Two:"),
        (("Two", "three"), "    def three(self):"),
    ]
    assert [chunk.text for chunk in chunked("def broken(:\n", "python")] == ["def broken(:"]
    assert chunked("(" * 5_000, "python")[0].text.startswith("((")


def test_long_parts_are_cut_at_their_seams() -> None:
    rows = "\n".join(f"| {number} | {'x' * 40} |" for number in range(60))
    table = [chunk.text for chunk in chunked(f"| n | x |\n|---|---|\n{rows}")]
    assert len(table) > 2
    assert all(text.startswith("| n | x |\n|---|---|\n| ") for text in table)
    lines = "\n".join(f"line {number} of the code" for number in range(100))
    code = [chunk.text for chunk in chunked(f"```py\n{lines}\n```")]
    assert all(text.startswith("```py\n") and text.endswith("\n```") for text in code)
    assert sum(text.count("line") for text in code) == 100
    sentences = " ".join(f"This is sentence {number}." for number in range(100))
    assert all(chunk.text.endswith(".") for chunk in chunked(sentences))
    assert [len(chunk.text) for chunk in chunked("y" * 2_000)] == [800, 800, 400]


def test_an_unchanged_part_of_a_changed_document_keeps_its_id() -> None:
    before = {chunk.text: chunk.id for chunk in chunked(GUIDE)}
    changed = GUIDE.replace("Intro.", "Another intro.").replace("Before all headings.\n", "")
    after = {chunk.text: chunk.id for chunk in chunked(changed)}
    same = before.keys() & after.keys()
    assert len(same) == 4
    assert all(before[text] == after[text] for text in same)
    twice = chunked("# A\n\nsame\n\n# A\n\nsame\n")
    assert len({chunk.id for chunk in twice}) == 2
    assert document_id("file:///a") != document_id("file:///b")


@each_row(
    "text, title",
    [
        (GUIDE, "From the front matter"),
        ("# *Guide*\n\ntext", "Guide"),
        ("---\ntitle: [\n---\n# X\ny", "X"),
        ("plain", ""),
    ],
)
def test_a_title_is_that_of_the_front_matter_or_the_first_heading(text: str, title: str) -> None:
    assert document_title(DocumentText("markdown", "markdown", (TextPart(text),))) == title


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14))
def test_no_word_is_lost_and_no_chunk_is_long(lines: list[str]) -> None:
    text = "\n".join(["start", *lines])
    found = chunked(text)
    kept = "\n".join(part for chunk in found for part in (*chunk.section, chunk.text))
    for word in ("text", "x"):
        assert kept.count(word) >= text.count(word)
    assert all(len(chunk.text) <= CHUNK_CHARACTERS + 100 for chunk in found)
    assert [chunk.position for chunk in found] == list(range(len(found)))
    assert len({chunk.id for chunk in found}) == len(found)


@each_row("piece", ["# ", "#" * 100, "`" * 50, "| ", "- " * 40, "\n\n", "{#", "a. ", "---\n", "> "])
def test_hostile_text_takes_time_in_proportion(piece: str) -> None:
    """Double the text: neither takes more than a few times as long as the other, whatever the machine does."""

    def spent(count: int) -> float:
        text = piece * count
        before = time.process_time()
        chunked(text)
        chunked(text.replace("\n", " "))
        return time.process_time() - before

    count = 8_000 // len(piece)
    assert spent(8 * count) < 30 * spent(count) + 0.5
