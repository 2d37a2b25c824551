"""`mcpagent docs`: adding, searching, listing, showing and removing documents, as text and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each_row
from tests.terminal import warm


def docs(folder: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """Return what `mcpagent docs` wrote on stdout and stderr."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "MCPAGENT_HOME": str(folder / "home")}
    done = warm.run(["docs", *arguments], folder, env=environ)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def found(folder: Path, *arguments: str) -> Any:
    return json.loads(docs(folder, *arguments, "--json")[0])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "fruits.md").write_text("# Fruits\n\nAll about them.\n\n## Apples\n\nApples are red.\n")
    (tmp_path / "texts" / "pears.txt").write_text("Pears are green\x1b[31m.\n")
    return tmp_path


def test_documents_are_added_searched_listed_shown_and_removed(folder: Path) -> None:
    assert docs(folder, "add", "texts") == ("\u2713 2 added; 3 chunks written\n", "")
    assert docs(folder, "add", "texts")[0] == "\u2713 2 unchanged; 0 chunks written\n"
    assert (folder / "home" / "data" / "documents.db").is_file()

    hits = docs(folder, "search", "red", "apples", "-k", "1", "--verbose")[0].splitlines()
    assert hits[0] == "1  Fruits > Apples"
    assert hits[1].endswith("/texts/fruits.md")
    assert hits[2].strip() == "Apples are red."
    assert hits[3].startswith("   score 0.0")
    assert "keywords 1" in hits[3]
    [hit] = found(folder, "search", "red apples", "-k", "1")
    assert (hit["title"], hit["section"], hit["page"]) == ("Fruits", ["Fruits", "Apples"], None)

    assert [one["title"] for one in found(folder, "list")] == ["Fruits", "pears.txt"]
    assert [one["title"] for one in found(folder, "list", "PEAR")] == ["pears.txt"]
    listed, more = docs(folder, "list", "-k", "1")
    assert listed.split()[:2] == ["Fruits", "markdown"]
    assert more == "1 more; -k 2 shows all\n"
    shown = docs(folder, "show", "texts/pears.txt")[0]
    assert "Pears are green[31m." in shown
    assert found(folder, "show", "fruits")["chunks"][1]["text"] == "Apples are red."
    statistics = found(folder, "stats")
    assert (statistics["documents"], statistics["chunks"]) == (2, 3)

    (folder / "texts" / "pears.txt").unlink()
    assert "removed 1 document" in docs(folder, "remove", "texts/pears.txt", "--yes")[0]
    assert "removed 1 document" in docs(folder, "remove", "texts", "--yes")[0]
    assert docs(folder, "search", "apples", code=1)[0] == "no document has these words\n"


def test_the_recall_of_questions_is_measured(folder: Path) -> None:
    docs(folder, "add", "texts")
    (folder / "q.jsonl").write_text(
        '{"question": "red apples", "uri": "texts/fruits.md", "section": "Apples"}\n'
        '{"question": "green pears", "uri": "texts/plums.md"}\n'
    )
    text = docs(folder, "eval", "q.jsonl")[0]
    assert "green pears  not found: file:///" in text
    assert "recall@1 0.500  recall@5 0.500  section MRR 0.500  over 2 questions" in text
    measured = found(folder, "eval", "q.jsonl", "-k", "3")
    assert measured["recall"] == {"at_1": 0.5, "at_3": 0.5}
    docs(folder, "eval", "q.jsonl", "0.9", code=1)


def test_a_file_that_cannot_be_read_is_one_line_and_an_exit_code(folder: Path) -> None:
    (folder / "texts" / "empty.md").write_text("")
    written, problems = docs(folder, "add", "texts", code=1)
    assert written == "\u2713 2 added, 1 failed; 3 chunks written\n"
    assert len(problems.splitlines()) == 1
    assert "empty.md: has no text" in problems


@each_row(
    "arguments, code, problem",
    [
        (["list"], 2, "there are no documents; add some: mcpagent docs add PATH"),
        (["add", "missing"], 2, "missing: not found"),
        (["show", "x"], 2, "there are no documents"),
        (["add", ".", "--set", "docs_db=other.txt"], 1, "other.txt: is no store of documents; use another file"),
        (["add"], 2, "PATH|URL"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], code: int, problem: str, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("some text, not a database" * 100)
    problems = docs(tmp_path, *arguments, code=code)[1]
    assert problem in problems
    assert len(problems.splitlines()) <= 3
    assert not (tmp_path / "home" / "data" / "documents.db").exists()
