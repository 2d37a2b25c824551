"""Markdown in blocks while it arrives, and what a block writes to a terminal."""

from __future__ import annotations

import io
import itertools
import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.markdown import Markdown
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mcpagent.cli.screen.markdown import BlockSplitter, block_lines, print_block
from mcpagent.utilities.text.secrets import hide
from tests.speed import within
from tests.tables import each_row

TEXT = """# Title

Some words
on two lines.

1. one

   still one
2. two

```python
def f():

    return 1
```
after the code

````
```
inner

```
````

| a | b |
|---|---|
| 1 | 2 |
"""

BLOCKS = [
    "# Title",
    "Some words\non two lines.",
    "1. one\n\n   still one\n2. two",
    "```python\ndef f():\n\n    return 1\n```\nafter the code",
    "````\n```\ninner\n\n```\n````",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


def split(pieces: list[str]) -> list[str]:
    splitter = BlockSplitter()
    return [*(block for piece in pieces for block in splitter.feed(piece)), *splitter.finish()]


def test_blocks_end_where_nothing_later_can_change_them() -> None:
    assert split([TEXT]) == BLOCKS


@given(st.lists(st.integers(0, len(TEXT)), max_size=30))
def test_blocks_do_not_depend_on_how_the_text_arrives(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    assert split([TEXT[start:end] for start, end in itertools.pairwise(places)]) == BLOCKS


@given(st.text(alphabet="a`~# \n-1.|>", max_size=200))
def test_no_line_is_lost(text: str) -> None:
    lines = [line for block in split([text]) for line in block.splitlines() if line.strip()]
    assert lines == [line for line in text.split("\n") if line.strip()] or [line.rstrip() for line in lines] == [
        line.rstrip() for line in text.split("\n") if line.strip()
    ]


PIECES = (
    *(
        "[",
        "](",
        ")",
        "!",
        "<http://e.example/x>",
        "http://e.example",
        "\n",
        "|",
        "-",
        "# ",
        " ",
        "a",
        "`",
        "```",
        "**",
    ),
    *("\x1b]8;;http://e\x07", "\x1b\\", "\x9d8;;x\x9c", "[link=http://x]", "[/link]", "1. ", "![a](http://e)"),
    *("&#27;]8;;http://e&#7;", "&#x9d;", "&#8238;", "&#x200b;", "&ZeroWidthSpace;"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_no_answer_brings_a_link_or_a_control_to_the_terminal(answer: str) -> None:
    written = io.StringIO()
    print_block(Console(file=written, force_terminal=True, width=60, color_system="truecolor"), answer)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    assert not set("\x1b\x07\x9b\x9c\x9d\u200b\u202e") & set(shown)


def test_no_markup_hides_a_secret_and_other_markup_stays() -> None:
    hide("Rk4q9Wd7Lm2xTT0uVw")

    def shown(text: str) -> str:
        written = io.StringIO()
        print_block(Console(file=written, width=24, force_terminal=True, color_system="standard"), text)
        return written.getvalue()

    for text in (
        "bold **Rk4q9**Wd7Lm2xTT0uVw",
        "entity Rk4q9Wd7&#76;m2xTT0uVw",
        "soft Rk4q9Wd7&shy;Lm2xTT0uVw",
        "- list `Rk4q9`*Wd7Lm2*xTT0uVw",
        "# title Rk4q9~~Wd7~~Lm2xTT0uVw",
        "[Rk4q9](https://e/)Wd7Lm2xTT0uVw",
        "words before it **Rk4q9**Wd7Lm2xTT0uVw and after",
    ):
        plain = "".join(re.sub(r"\x1b\[[0-9;]*m", "", shown(text)).split())
        assert "[redacted]" in plain, text
        assert "Lm2" not in plain, text
    assert "\x1b[1mRk4q9" in shown("**Rk4q9**other")


@pytest.mark.slow
def test_two_hundred_kilobytes_of_short_paragraphs_take_less_than_two_seconds() -> None:
    written = io.StringIO()
    console = Console(file=written, width=80, force_terminal=True)
    text = "\n\n".join(f"paragraph {number}" for number in range(12_000))
    started = time.process_time()
    splitter = BlockSplitter()
    for block in [*splitter.feed(text), *splitter.finish()]:
        print_block(console, block)
    assert within(time.process_time() - started, 2.0, time.process_time)
    assert written.getvalue().splitlines()[::2] == text.splitlines()[::2]


def test_a_block_of_code_looks_the_same_alone_and_within_another() -> None:
    """Alone it is not laid out by rich, which takes three times as long."""
    for language, folds in itertools.product(("", "py", "python title=x", "no-such-language", "&#65;"), (True, False)):
        code = "\n\nx = 1  # é 日本\n\n  if x: print('a' * 60, \"b\")  \n\ttab" + "y" * 100 + "\n\n"
        console = Console(file=io.StringIO(), width=40, force_terminal=True, color_system="truecolor")
        alone = block_lines(console, f"```{language}\n{code}\n```", folds=folds)
        within = block_lines(console, f"```{language}\n{code}\n```\n<br>", folds=folds)
        assert [styled(line) for line in alone] == [styled(line) for line in within], (language, folds)


def styled(line: Text) -> list[tuple[str, str]]:
    """Return each character with its style."""
    plain = line.plain
    return [(char, str(line.get_style_at_offset(CONSOLE, at))) for at, char in enumerate(plain)]


CONSOLE = Console()


def rows(number: int) -> str:
    return f"| row **{number}** | `x{number}` |"


INLINE = "Step **{0}**: run `cmd --opt {0}`, see [the docs](https://example.com/{0}) &amp; *more*, ~~not~~ <b>x</b>."
LARGE = {
    "paragraphs": ("\n\n".join(INLINE.format(number) for number in range(1_800)), 2.0),
    "short paragraphs": ("\n\n".join(f"Word **{number}** is bold." for number in range(9_000)), 2.0),
    "other scripts": ("\n\n".join(f"Größe {number} – „ähm“ 日本語 😀" for number in range(6_000)), 2.0),
    "headings": ("\n\n".join(f"## Heading {number} **b**" for number in range(9_000)), 3.0),
    "one paragraph": ("\n".join(INLINE.format(number) for number in range(1_800)), 2.0),
    "one long line": ("word **bold** `code` [a](http://b) " * 5_700, 2.0),
    "a list": ("\n".join(f"- item **{number}** with `code` and words" for number in range(5_400)), 2.0),
    "code": ("```python\n" + "x = 1  # words of a comment\n" * 7_500 + "```", 2.0),
    "one long line of code": ("```\n" + "x = 1; " * 28_000 + "\n```", 2.0),
    "open brackets": ("[" * 200_000, 4.0),
    "open emphasis": ("*a _b **" * 25_000, 3.0),
    "many items": ("\n\n".join(f"- item **{number}** with `code`" for number in range(6_500)), 4.0),
    "a table": ("| a | b |\n|---|---|\n" + "\n".join(map(rows, range(9_000))), 4.0),
    "many tables": ("\n\n".join(f"| a | b |\n|---|---|\n{rows(number)}" for number in range(4_500)), 8.0),
    "quotes": ("\n\n".join(f"> quote **{number}** of words" for number in range(8_000)), 3.0),
    "small blocks of code": ("\n\n".join(f"```py\nx = {number}\n```" for number in range(11_000)), 3.0),
    "small plain blocks": ("\n\n".join(f"```\nx = {number}\n```" for number in range(12_000)), 2.0),
}
"""Texts of 200 kB by their kind, with the seconds of CPU that they may take on an idle machine.

The parser takes half of that for open brackets; rich lays out lists of single items and tables.
"""


@pytest.mark.slow
@pytest.mark.parametrize(("share", "patience"), [pytest.param(1, 1.0, marks=pytest.mark.heavy), (8, 2.5)])
def test_two_hundred_kilobytes_of_markup_take_seconds(share: int, patience: float) -> None:
    """An eighth of it takes little more than an eighth of the time."""
    slow: list[str] = []
    for kind, (whole, most_seconds) in LARGE.items():
        text, seconds = whole[: len(whole) // share], most_seconds / share * patience
        console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
        assert 180_000 < len(whole.encode()) < 280_000, kind
        started = time.process_time()
        for block in split([text]):
            print_block(console, block)
        took = time.process_time() - started
        if not within(took, seconds, time.process_time):
            slow.append(f"{kind}: {took:.1f} s")
    assert not slow


WORDS = (
    "a word",
    "Größe",
    "日本語",
    " ",
    "\n",
    "  \n",
    "**",
    "*",
    "_",
    "~~",
    "`",
    "``",
    "&amp;",
    "&#8212;",
    "<b>",
    "\\*",
)
LINKS = (
    "[a *b*](http://e.example/x)",
    "[c `d`](e)",
    "<http://e.example>",
    "![pic](http://e)",
    "<kbd>",
    "# ",
    "long" * 20,
)


def cells(lines: list[list[Segment]]) -> list[list[tuple[str, str]]]:
    """Return each line as its characters with their styles, without white space at its end."""
    shown = list[list[tuple[str, str]]]()
    for line in lines:
        text = [(char, str(segment.style or Style.null())) for segment in line for char in segment.text]
        while text and text[-1][0].isspace():
            text.pop()
        shown.append(text)
    while shown and not shown[-1]:
        shown.pop()
    return shown


@given(st.lists(st.sampled_from(WORDS + LINKS), min_size=1, max_size=14).map("".join), st.booleans())
def test_a_paragraph_has_the_words_and_styles_that_rich_gives_it(text: str, is_quote: bool) -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True, color_system="truecolor")
    block = text.strip()
    assume(block and "</kbd>" not in block)
    if is_quote:
        block = "\n".join(f"> {line}" for line in block.split("\n"))
    assume(re.search(r"^(> *)?(~~~|```)|^> *#|\n#", block, re.MULTILINE) is None)  # code and headings look otherwise
    ours = [list(line.render(console)) for line in block_lines(console, block)]
    document = Markdown(block, hyperlinks=False)
    for token in document.parsed:
        for inner in token.children or ():
            inner.type = inner.type.replace("softbreak", "hardbreak")
    rich = console.render_lines(document, pad=False)
    shown = cells(rich)
    while shown and not shown[0]:
        del shown[0]
    if not block.startswith("# "):
        assert cells(ours) == shown


def test_each_line_break_of_a_model_is_one_on_the_screen() -> None:
    console = Console(file=io.StringIO(), width=40)
    for block, expected in (
        ("a *b*\nc", ["a b", "c"]),
        ("- a *b*\n  c\n- d", [" • a b", "   c", " • d"]),
        ("> a\n> b", ["▌ a", "▌ b"]),
        ("plain\nlines", ["plain", "lines"]),
    ):
        assert [line.plain for line in block_lines(console, block)] == expected


@each_row("text", ["plain words, of (one) line: " * 9, "a word", "Dr. Who's 2 + 2 = 4 - 1."])
def test_a_plain_paragraph_looks_as_markdown_shows_it(text: str) -> None:
    shown = [io.StringIO(), io.StringIO()]
    print_block(Console(file=shown[0], width=60), text.strip())
    print_block(Console(file=shown[1], width=60), text.strip() + " &amp;")
    plain, marked = (one.getvalue().split() for one in shown)
    assert [*plain, "&"] == marked


def test_a_line_of_code_that_is_too_wide_is_written_whole_and_folded_while_it_grows() -> None:
    command = "curl -s https://example.com/" + "path/" * 30 + " | tee 漢字漢字漢字漢字漢字漢字.txt"
    block = f"1. Run this\n\n   ```sh\n   {command}\n   ls\n   ```\n\nA paragraph " + "word " * 30
    written = io.StringIO()
    console = Console(file=written, width=40, force_terminal=True, color_system=None)
    print_block(console, block)
    lines = written.getvalue().splitlines()
    assert [line.strip() for line in lines if line.strip().startswith(("curl", "ls"))] == [command, "ls"]
    assert all(len(line) <= 40 for line in lines if "word" in line)
    folded = [line.plain for line in block_lines(console, block)]
    assert all(cell_len(line) <= 40 for line in folded)
    first = next(at for at, line in enumerate(folded) if "curl" in line)
    code = "".join("".join(folded[first:]).split())
    assert code.startswith("".join(command.split()) + "ls")
