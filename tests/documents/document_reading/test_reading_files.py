"""Files of each kind become text with pages, sections and tables; hostile ones end with a named error."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from mcpagent.documents.document_reading.document_worker import answer_to
from mcpagent.documents.document_reading.file_kinds import decoded_text, document_kind
from mcpagent.documents.document_reading.reading_files import MOST_BYTES, read_document_file, text_of_file
from mcpagent.documents.document_reading.text_parts import DocumentText
from mcpagent.errors import DocumentReadError
from tests.documents.document_reading import sample_files as samples
from tests.made_files import pdf
from tests.tables import each_row

pytest.importorskip("bs4", reason="the extra `documents` is not installed")
pytest.importorskip("openpyxl", reason="the extra `documents` is not installed")

RUSSIAN = "Привет, мир! Это текст на русском языке."
JAPANESE = "日本語の文章を読みます。これはテストです。"
TABLE = "| Fruit | Price |\n| --- | --- |\n| apple | 3 |"


Expected: TypeAlias = list[tuple[int | None, tuple[str, ...], list[str]]]
"""Page, section and some texts of each part."""

FRUITS: Expected = [(None, (), ["# Fruits", "Prices of fruits.", TABLE, "b_c = 2"])]
WORD: Expected = [(None, (), ["# Fruits", "Prices of fruits.", "Fruit | Price", "apple | 3"])]
SLIDES: Expected = [(1, ("Welcome",), ["To the fruits"]), (2, ("Prices",), [TABLE, "Say it slowly."])]
SHEETS: Expected = [
    (None, ("Fruits",), ["| apple \\| green | 3 |", "| pear | 2.5 |"]),
    (None, ("Other",), ["| only |"]),
]
MAIL: Expected = [
    (None, (), ["From: Ann", "Meet at the caf\u00e9."]),
    (None, ("notes.md",), ["# Notes\n\nBring fruits."]),
]


FILES = [
    (lambda: samples.HTML, "x", "html", "Fruits & more", FRUITS),
    (samples.docx, "x.bin", "docx", "", WORD),
    (samples.pptx, "x", "pptx", "", SLIDES),
    (samples.xlsx, "x", "xlsx", "", SHEETS),
    (samples.epub, "x", "epub", "A Book", [(None, (), ["# One"]), (None, (), ["Text of Two."])]),
    (lambda: samples.EMAIL, "x", "email", "Caf\u00e9", MAIL),
    (lambda: pdf("Hello there"), "x.txt", "pdf", "", [(1, (), ["Hello there"])]),
    (lambda: b"# Hi\n", "x.md", "markdown", "", [(None, (), ["# Hi"])]),
]


def check(found: DocumentText, kind: str, title: str, parts: Expected) -> None:
    """Check a file's text, its pages and its sections."""
    assert (found.kind, found.title) == (kind, title)
    assert [(part.page, part.section) for part in found.parts] == [(page, section) for page, section, _ in parts]
    for part, (_, _, texts) in zip(found.parts, parts, strict=True):
        for text in texts:
            assert text in part.text
    everything = "".join(part.text for part in found.parts)
    assert not {"alert", "Impressum", "Home"} & set(everything.replace("(", " ").split())


@pytest.mark.slow
@each_row("made, name, kind, title, parts", FILES)
def test_a_file_becomes_text_with_pages_and_sections(
    made: Callable[[], bytes], name: str, kind: str, title: str, parts: Expected
) -> None:
    check(text_of_file(made(), name), kind, title, parts)


@each_row("made, name, kind, title, parts", FILES[:-1])
def test_the_worker_reads_each_kind(
    made: Callable[[], bytes], name: str, kind: str, title: str, parts: Expected
) -> None:
    """The program of the worker in this process, with the kind that the content tells."""
    data = made()
    found = answer_to(data, str(document_kind(data, name)))
    check(DocumentText.from_json(json.loads(json.dumps(found))), kind, title, parts)


@each_row("kind", ["docx", "pptx", "xlsx", "epub", "pdf"])
def test_a_damaged_file_is_an_error_of_the_worker(kind: str) -> None:
    reason, problem = answer_to(b"PK\x03\x04 and nothing more", kind)["error"]
    assert reason == "damaged"
    assert "cannot be read" in problem


@each_row(
    "data, name, kind",
    [
        (b"%PDF-1.7 ...", "a.txt", "pdf"),
        (b"\n <!-- a -->\n<!DOCTYPE html><p>", "a.txt", "html"),
        (b"\xef\xbb\xbf<html>", "a.md", "html"),
        (b"About <html> in general", "a.md", "markdown"),
        (b"From: a@b\nDate: today\n\ntext", "a.txt", "email"),
        (b"From: the beginning\n\nto the end", "a.txt", "text"),
        (b"Note: x\nDate: y\n\ntext", "a", "text"),
        (b"import os\n", "https://x.test/a.py", "python"),
        (b"\xff\xfea\0b\0", "a.txt", "text"),
        (b"\x7fELF\0\0", "a.md", None),
        (b"", "a.md", "markdown"),
    ],
)
def test_the_content_decides_on_the_kind(data: bytes, name: str, kind: str | None) -> None:
    assert document_kind(data, name) == kind


@each_row(
    "text, encoding",
    [
        ("na\u00efve caf\u00e9", "utf-8"),
        ("na\u00efve caf\u00e9", "utf-8-sig"),
        ("na\u00efve caf\u00e9", "utf-16"),
        ("na\u00efve caf\u00e9", "utf-32"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "shift_jis"),
    ],
)
def test_encodings_are_detected(text: str, encoding: str) -> None:
    pytest.importorskip("charset_normalizer")
    assert decoded_text(text.encode(encoding)) == text


@each_row(
    "data, name, reason, problem",
    [
        (b"", "a.md", "no-text", "has no text"),
        (b" \n", "a.md", "no-text", "has no text"),
        (b"\0\1", "a.md", "unknown-kind", "without text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "a.doc", "unknown-kind", "save it as .docx"),
    ],
)
def test_a_file_without_text_is_a_named_error(data: bytes, name: str, reason: str, problem: str) -> None:
    with pytest.raises(DocumentReadError, match=problem) as caught:
        text_of_file(data, name)
    assert caught.value.reason == reason
    assert str(caught.value).startswith(f"{name}: ")


def test_a_stream_without_an_end_and_a_large_file_are_not_read(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large.txt"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    for path, reason in (
        (pipe, "unreachable"),
        (large, "too-large"),
        (Path("/dev/zero"), "unreachable"),
        (tmp_path, "unreachable"),
    ):
        with pytest.raises(DocumentReadError) as caught:
            read_document_file(path)
        assert caught.value.reason == reason


@pytest.mark.slow
@pytest.mark.attack
@each_row(
    "made, reasons",
    [
        (samples.zip_bomb, {"unpacks-too-large"}),
        (samples.lying_zip_bomb, {"damaged"}),
        (samples.deep_html, {"too-deep"}),
        (samples.pdf_bomb, {"damaged", "no-text"}),
        (samples.laughing_epub, {"damaged", "no-text"}),
        (lambda: b"%PDF-1.4\n" + os.urandom(10_000), {"damaged"}),
        (lambda: samples.docx()[:-100], {"damaged"}),
        (lambda: samples.packed({"word/document.xml": "<x"}), {"damaged"}),
        (lambda: samples.packed({"a.txt": "x"}), {"unknown-kind"}),
        (lambda: samples.packed({f"{number}": b"" for number in range(20_000)}), {"unpacks-too-large"}),
    ],
)
def test_a_hostile_file_is_a_named_error(made: Callable[[], bytes], reasons: set[str]) -> None:
    with pytest.raises(DocumentReadError) as caught:
        text_of_file(made(), "hostile")
    assert caught.value.reason in reasons, caught.value
    assert str(caught.value).startswith("hostile: ")
    assert len(str(caught.value).splitlines()) == 1
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert of_children < 2 << 20, "kilobytes"
