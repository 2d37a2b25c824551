"""Text of a model in a pipe: at once, and without secrets however it is cut into pieces."""

from __future__ import annotations

import base64
import json
from itertools import combinations
from urllib.parse import quote, quote_plus

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.screen.streamed_text import StreamedText
from mcpagent.utilities.text.secrets import hide, settled_length, without_secrets

KNOWN = ("correct horse battery staple 9", "plutonium-7a91f3c2", "päss wörd №42 ok")
SHAPED = (
    "ghp_" + "a1B2" * 9,
    "pk_live_" + "x9" * 12,
    "sk-ant-" + "q7" * 20,
    "123456789:AA" + "b" * 33,
    "https://user:geheim42@example.com/path",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIB Og==\n-----END RSA PRIVATE KEY-----",
    json.dumps("plutonium-7a91f3c2"),
)
WORDS = (
    "Hello",
    " ",
    "\n",
    "the",
    "keys",
    "g",
    "sk",
    "12345",
    "-----",
    "…",
    "https:",
    "é",
    "漢字",
    ".",
    "\r\n",
    "plut",
)


def written(pieces: list[str]) -> list[str]:
    parts: list[str] = []
    stream = StreamedText(lambda text: parts.append(without_secrets(text)))
    for piece in pieces:
        stream.feed(piece)
    stream.finish()
    return parts


@given(st.lists(st.sampled_from([*WORDS, *KNOWN, *SHAPED]), max_size=12), st.data())
def test_the_cut_of_the_pieces_changes_nothing(words: list[str], data: st.DataObject) -> None:
    hide(*KNOWN)
    text = " ".join(words)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    out = "".join(written(pieces))
    for secret in (*KNOWN, "geheim42", "a1B2a1B2", "x9x9x9x9", "q7q7q7q7", "bbbbbbbb", "MIIB"):
        assert secret not in out, (pieces, out)
    assert out.removesuffix("\n") == "".join(written([text])).removesuffix("\n")


def test_plain_words_are_written_with_the_piece_that_brings_them() -> None:
    hide("a-rather-long-value-that-never-occurs-in-this-text-92")
    parts: list[str] = []
    stream = StreamedText(parts.append)
    for piece in ("The", " answer", " is", " 42", ".", "\n\nIt", " follows"):
        stream.feed(piece)
        assert "".join(parts).endswith(piece.rstrip("0123456789 ") or parts[-1])
    stream.finish()
    assert "".join(parts) == "The answer is 42.\n\nIt follows\n"


def test_a_word_that_may_begin_a_key_waits_for_more() -> None:
    assert settled_length("my ghp_abc") == 3
    assert settled_length("my gh") == 3
    assert settled_length("a -----BEGIN RSA PRIVATE KEY-----\nabc def") == 2
    assert settled_length("see https://a.b/c and") == len("see https://a.b/c and")
    assert settled_length("a long-winded word") == len("a long-winded word")


def test_what_is_invisible_does_not_hide_a_secret() -> None:
    hide("Zk4q9-Wd7Lm2xTT0uVw")
    for inside in ("\x1b[0m", "\u200b", "\u00ad"):
        for size in (1, 3, 100):
            text = f"it is Zk4q9-{inside}Wd7Lm2xTT0uVw here"
            out = "".join(written([text[at : at + size] for at in range(0, len(text), size)]))
            assert "Wd7Lm2x" not in out, (inside, size, out)


def test_an_escape_sequence_that_is_cut_is_removed_as_a_whole() -> None:
    assert "".join(written(["red \x1b", "[31", "mtext\r", "\nend"])) == "red text\r\nend\n"


ODD = ('p@ss/w\u00f6rd7<x>"\\z', "Zk4/q9+Wd7 Lm2==", "\\" * 12 + "x7\u00e9", "\u5bc6\u78bc//12 34")


def spelled(value: str) -> list[str]:
    """Return the value as addresses, JSON and base64 have it, and in spellings that mix these."""
    percent = quote(value, safe="")
    return [
        value,
        percent,
        percent.lower() if value == value.lower() else percent,
        quote_plus(value),
        quote(value, safe="/@"),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value)[1:-1].replace("/", "\\/").replace("<", "\\u003c"),
        base64.b64encode(value.encode()).decode().rstrip("="),
        quote(base64.b64encode(value.encode()).decode().rstrip("="), safe=""),
    ]


def test_a_secret_in_any_spelling_is_found_at_every_cut() -> None:
    hide(*ODD)
    for value in ODD:
        for spelling in spelled(value):
            text = f"it is {spelling} here, not {spelling[: len(spelling) // 2]} there"
            whole = "".join(written([text]))
            assert whole.startswith("it is [redacted] here, not "), spelling
            assert "".join(written(list(text))) == whole
            for cut in range(5, 8 + len(spelling)):
                assert "".join(written([text[:cut], text[cut:]])) == whole, (spelling, cut)


@given(st.sampled_from([(value, form) for value in ODD for form in spelled(value)]), st.data())
def test_nor_do_several_cuts_in_several_secrets_matter(secret: tuple[str, str], data: st.DataObject) -> None:
    hide(*ODD)
    other = data.draw(st.sampled_from(spelled(ODD[0]) + list(SHAPED)))
    text = f"{secret[1]}{data.draw(st.sampled_from(['', ' ', ',', '&x=']))}{other} and {secret[1][:-1]}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(written(pieces)) == "".join(written([text]))


def test_two_cuts_anywhere_in_a_secret() -> None:
    hide(ODD[1])
    text = f"a {quote(ODD[1], safe='')}!"
    for first, second in combinations(range(len(text)), 2):
        pieces = [text[:first], text[first:second], text[second:]]
        assert "".join(written(pieces)) == "a [redacted]!\n"
