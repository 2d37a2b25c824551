"""Text of a model in a pipe: at once, and without secrets however it is cut into pieces."""

from __future__ import annotations

import json

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
