"""No terminal wraps a row that a person must judge, whatever characters it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.screen.drawn_width import cut_into_rows, drawn_width

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)
WIDE = {
    "skin tones": ("\U0001f3fb", 2),
    "spacing marks": ("\u0903", 1),
    "enclosing marks": ("\u20dd", 1),
    "CJK": ("\u4e2d", 2),
}


@given(TEXTS)
def test_rows_are_the_text_and_fit(text: str) -> None:
    rows = cut_into_rows(text, 10)
    assert "".join(rows) == text
    assert all(drawn_width(row) <= 10 for row in rows)


def test_characters_that_some_terminals_draw_count() -> None:
    for name, (char, cells) in WIDE.items():
        assert drawn_width(char * 31) == 31 * cells, name
        rows = cut_into_rows(char * 31 + " ; rm -rf ~", 20)
        assert len(rows) == -(-(31 * cells + 11) // 20), name
