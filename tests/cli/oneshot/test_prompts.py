"""A question together with files and piped text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.oneshot.prompts import joined_prompt
from mcpagent.errors import InputError
from mcpagent.history.intake.media_types import base64_text
from mcpagent.values.messages import Audio, Document, Image
from tests.made_files import pdf, png, wav


def test_what_is_piped_in_is_fenced_beside_the_question_or_is_the_question() -> None:
    assert joined_prompt("what is this?", (), "a\nb\n") == ("what is this?\n\n```\na\nb\n```", [])
    assert joined_prompt("", (), "a question\n") == ("a question", [])
    assert joined_prompt("q", (), "") == ("q", [])
    assert joined_prompt("q", (), "has ``` inside") == ("q\n\n````\nhas ``` inside\n````", [])


@given(st.text(min_size=1, max_size=100).filter(str.strip))
def test_piped_text_can_never_end_its_fence(text: str) -> None:
    fence = joined_prompt("q", (), text)[0].splitlines()[2]
    assert fence not in text


def test_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello\n", "utf-8")
    assert joined_prompt("q", [file], "") == (f"q\n\n{file}:\n```\nhello\n```", [])
    with pytest.raises(InputError, match="check its path; a question goes in quotes"):
        joined_prompt("what", [Path("time")], "")
    with pytest.raises(InputError, match="there is no question"):
        joined_prompt(" ", (), "\n")


def test_files_that_are_no_text_go_along_as_parts(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.pdf", "a.png", "a.txt", "a.wav")]
    for path, data in zip(paths, (pdf(), png(2, 2), b"words\n", wav()), strict=True):
        path.write_bytes(data)
    question, files = joined_prompt("q", paths, "")
    assert question == f"q\n\n{paths[2]}:\n```\nwords\n```"
    (tmp_path / "b.zip").write_bytes(b"PK\3\4\0\0")
    with pytest.raises(InputError, match="is a binary file; only text, images"):
        joined_prompt("q", [tmp_path / "b.zip"], "")
    assert files == [
        Document("application/pdf", base64_text(pdf()), "a.pdf"),
        Image("image/png", base64_text(png(2, 2))),
        Audio("audio/wav", base64_text(wav()), "a.wav"),
    ]
