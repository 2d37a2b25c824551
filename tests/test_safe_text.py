"""Third-party text made fit to print."""

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.safe_text import safe_line, safe_text


@given(st.text())
def test_safe_text_is_printable_and_idempotent(text: str) -> None:
    safe = safe_text(text)
    assert safe_text(safe) == safe
    assert safe.replace("\n", "").replace("\t", "").isprintable() or any(char.isspace() for char in safe)
    assert "\x1b" not in safe


@given(st.text(), st.integers(1, 50))
def test_a_safe_line_is_one_short_line(text: str, limit: int) -> None:
    line = safe_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


def test_what_could_forge_or_hide_is_gone() -> None:
    assert safe_text("a\x1b]0;title\x07b\u202ec\u200bd\U000e0041e\rf") == "a]0;titlebcdef"
    assert safe_text("line\r\nnext\ttab é 日本") == "line\nnext\ttab é 日本"
    assert safe_line("a\n\n b") == "a b"
    assert safe_line("abcdef", 4) == "abc…"
