"""Markdown in blocks while it arrives, and what a block writes to a terminal."""

from __future__ import annotations

import io
import itertools
import re
import time

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

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
