"""Third-party text made fit to print."""

import json

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.utilities.text.safe_text import hides_something, safe_line, safe_text, visible


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


@given(st.text(), st.sampled_from("\u200b\u2060\u2063\ufeff\u202e\u2066\U000e0041\U000e007f"), st.text())
def test_what_hides_is_noticed_and_taken_out(before: str, hidden: str, after: str) -> None:
    assert hides_something(before + hidden + after)
    assert not hides_something(safe_text(before + hidden + after))


def test_emoji_and_scripts_that_join_their_letters_hide_nothing() -> None:
    assert not hides_something("plain \t text")
    assert not hides_something(
        "\U0001f469\u200d\U0001f4bb \u2764\ufe0f \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    )


@given(st.text())
def test_what_is_shown_for_a_yes_leaves_nothing_out_and_hides_nothing(text: str) -> None:
    shown = visible(text, kept="")
    assert all(char.isprintable() or char == "\u3000" for char in shown)
    assert safe_text(shown) == shown
    if "\\" not in text and '"' not in text:
        assert json.loads(f'"{shown}"') == text


@given(
    st.lists(
        st.sampled_from(["\\", "u3164", "\u3164", "n", "\n", "\t", "d", "ud83d", "udd00", "\U0001f500\u200b"])
    ).map("".join)
)
def test_a_text_is_read_from_what_is_shown_of_it(text: str) -> None:
    for kept in ("", "\n\t"):
        shown = visible(text, kept)
        if shown != text:
            codes = [json.dumps(char)[1:-1] for char in kept]
            assert (
                json.loads(f'"{"".join(codes[kept.index(char)] if char in kept else char for char in shown)}"') == text
            )
        else:
            assert "\u3164" not in text


def test_no_letters_look_like_the_code_of_a_character() -> None:
    shown = {visible(text, kept="") for text in ("\\u3164", "\u3164", "\\\u3164", "\\\\u3164", "\\\\\u3164")}
    assert shown == {r"\\u3164", r"\u3164", r"\\\u3164", r"\\\\u3164", r"\\\\\u3164"}
    assert visible(r"C:\data", kept="") == r"C:\data"
    assert visible(r"C:\new", kept="") == r"C:\\new"
    assert visible("C:\\new\n") == "C:\\new\n"


def test_plain_words_stay_as_they_are_and_tricks_are_seen() -> None:
    assert visible("plain é 漢\u3000字\n\tx") == "plain é 漢\u3000字\n\tx"
    assert visible("a\u202eb\x1b[2K\u200b") == "a\\u202eb\\u001b[2K\\u200b"
    assert visible("a\nb", kept="") == "a\\nb"
