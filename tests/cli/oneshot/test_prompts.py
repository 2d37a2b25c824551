"""A question together with files and piped text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.oneshot.prompts import joined_prompt
from mcpagent.errors import InputError


def test_what_is_piped_in_is_fenced_beside_the_question_or_is_the_question() -> None:
    assert joined_prompt("what is this?", (), "a\nb\n") == "what is this?\n\n```\na\nb\n```"
    assert joined_prompt("", (), "a question\n") == "a question"
    assert joined_prompt("q", (), "") == "q"
    assert joined_prompt("q", (), "has ``` inside") == "q\n\n````\nhas ``` inside\n````"


@given(st.text(min_size=1, max_size=100).filter(str.strip))
def test_piped_text_can_never_end_its_fence(text: str) -> None:
    fence = joined_prompt("q", (), text).splitlines()[2]
    assert fence not in text


def test_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello\n", "utf-8")
    assert joined_prompt("q", [file], "") == f"q\n\n{file}:\n```\nhello\n```"
    with pytest.raises(InputError, match="put the whole question in quotes"):
        joined_prompt("what", [Path("time")], "")
    with pytest.raises(InputError, match="there is no question"):
        joined_prompt(" ", (), "\n")
