"""Render a paragraph, a heading or a quote of Markdown like `rich.markdown`, but in a third of the time.

Most blocks of an answer are one paragraph. `rich.markdown` renders any document to screen segments, which then have to
be joined into lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from mcpagent.utilities.text.safe_text import safe_text

_BREAKS = {"hardbreak": "\n"}
_STYLES = frozenset({"em", "strong", "s"})
_KEY_TAGS = frozenset({"<kbd>", "</kbd>"})


def paragraph_lines(console: Console, tokens: Sequence[Any]) -> list[Text] | None:
    """Return the lines of a document that is a single paragraph, heading or quoted paragraph.

    Returns None for other documents, and for one with an image.
    """
    is_quote = len(tokens) == 5 and tokens[0].type == "blockquote_open"
    if is_quote:
        return _quoted_lines(console, tokens[1:-1])
    is_one = len(tokens) == 3 and tokens[0].type in ("paragraph_open", "heading_open")
    if not is_one:
        return None
    base = console.get_style(_name_of(tokens[0]), default="none")
    text = _text_of(console, tokens[1].children or (), base)
    if text is None:
        return None
    return lines_within(console, text)


def _quoted_lines(console: Console, tokens: Sequence[Any]) -> list[Text] | None:
    if tokens[0].type != "paragraph_open":
        return None
    style = console.get_style("markdown.block_quote", default="none")
    base = style + console.get_style(_name_of(tokens[0]), default="none")
    text = _text_of(console, tokens[1].children or (), base)
    if text is None:
        return None
    lines = lines_within(console, text, console.width - 4)
    return [Text().append("▌ ", style).append_text(line) for line in lines]


def lines_within(console: Console, text: Text, width: int = 0) -> list[Text]:
    """Return the text as lines that fit within `width`; 0: the console's width."""
    width, plain = width or console.width, text.plain
    if (
        len(plain) <= width
        and not {"\n", "\t"} & set(plain)
        and cell_len(plain) <= width
    ):
        return [text]
    return list(text.wrap(console, width))


def _name_of(opening: Any) -> str:
    if opening.type == "heading_open":
        return f"markdown.{opening.tag}"
    return "markdown.paragraph"


def _text_of(console: Console, tokens: Sequence[Any], base: Style) -> Text | None:
    """Return the text with its styles; None if a token is not text."""
    text = Text(style=base)
    styles = [base]
    link: str | None = None
    label = ""

    def add(words: str, *names: str) -> None:
        style = styles[-1]
        for name in names:
            style += console.get_style(name, default="none")
        text.append(safe_text(words), style)

    for token in tokens:
        words = _BREAKS.get(token.type, token.content)
        if token.type == "html_inline" and token.content not in _KEY_TAGS:
            continue
        if token.type == "link_open":
            link, label = str(token.attrs.get("href", "")), ""
        elif token.type == "link_close":
            add(label, "markdown.link")
            add(" (")
            add(link or "", "markdown.link_url")
            add(")")
            link = None
        elif token.tag in _STYLES:
            if token.nesting == 1:
                styles.append(
                    styles[-1]
                    + console.get_style(f"markdown.{token.tag}", default="none")
                )
            else:
                styles.pop()
        elif token.type not in ("text", "code_inline", *_BREAKS):
            return None
        elif link is not None:
            label += words
        elif token.type == "code_inline":
            add(words, "markdown.code")
        else:
            add(words)
    return text
