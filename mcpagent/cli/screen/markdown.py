"""Print Markdown that arrives in pieces, block by block: a finished block is printed once and never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache, lru_cache
from itertools import accumulate, dropwhile
from typing import Any, ClassVar

from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mcpagent.cli.screen.markdown_paragraphs import lines_within, paragraph_lines
from mcpagent.utilities.text.safe_text import safe_text
from mcpagent.utilities.text.secrets import hide_in_markdown, without_secrets

_PLAIN = re.compile(r"[A-Za-z\"'(][^\n*_`#\[\]<>|~&\\\t\u0080-\U0010ffff]{0,2000}")
"""A paragraph of one line without Markdown syntax."""

_TABLE = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*\Z")
"""The second line of a table."""

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


class BlockSplitter:
    """Divides a growing text into Markdown blocks.

    A block ends at an empty line followed by an unindented line, outside a fenced code block. So later text cannot
    change a printed block.
    """

    def __init__(self) -> None:
        self._partial = ""
        self._lines: list[str] = []
        self._fence = ""
        self._after_empty = False

    def feed(self, text: str) -> list[str]:
        """Return the blocks that this piece of text finishes."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines if (block := self._take(line))]

    def finish(self) -> list[str]:
        """Return the remaining blocks at the end of the text."""
        last = ""
        if self._partial:
            last = self._take(self._partial)
        self._partial = ""
        rest = self._close()
        return [block for block in (last, rest) if block]

    @property
    def open_block(self) -> str:
        """The text so far of the unfinished block."""
        return "\n".join([*self._lines, self._partial]).rstrip("\n")

    def cut(self) -> str:
        """Return the finished lines of the open block as a separate block; the rest becomes the next block.

        So a block that is taller than the screen appears in parts; code continues as code. For a table, or a paragraph
        of a single line, returns "", because these cannot be cut.
        """
        if len(self._lines) < 2 or _TABLE.match(self._lines[1]) is not None:
            return ""
        if not self._fence:
            return self._close()
        opening, *code = self._lines
        if not code:
            return ""
        self._lines = [opening]
        return "\n".join([opening, *code, self._fence])

    def _take(self, line: str) -> str:
        finished = ""
        if not self._fence:
            if not line.strip():
                self._after_empty = bool(self._lines)
            elif self._after_empty and not line[0].isspace():
                finished = self._close()
        if line.strip():
            self._after_empty = False
        if (match := _FENCE.match(line)) is not None:
            if not self._fence:
                self._fence = match[1]
            elif match[1].startswith(self._fence) and not line[match.end() :].strip():
                self._fence = ""
        if self._lines or line.strip():
            self._lines.append(line)
        return finished

    def _close(self) -> str:
        block = "\n".join(self._lines).rstrip()
        self._lines = []
        self._fence = ""
        self._after_empty = False
        return block


def print_block(console: Console, block: str, *, continues: bool = False) -> None:
    """Print one block, and an empty line unless its next part `continues` it.

    A code line that is too long is printed as one line, which the terminal wraps, so that it can be copied unchanged.
    """
    lines = block_lines(console, block, folds=False)
    if not continues:
        lines = [*lines, Text()]
    console.print(_Lines(lines), soft_wrap=True, end="")


class _Lines:
    """Lines to print unchanged; if they were one text, rich would look for places to wrap it."""

    def __init__(self, lines: list[Text]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, _: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            yield from line.render(console, end="\n")


def block_lines(console: Console, block: str, *, folds: bool = True) -> list[Text]:
    """Return the lines of a block on this console. Addresses stay visible; code has no frame and no padding.

    Code lines that are too wide are folded, unless `folds` is False.
    """
    block = safe_text(without_secrets(block))
    if _PLAIN.fullmatch(block):
        # Most of a long answer is plain text, for which rich takes ten times as long.
        return lines_within(console, Text(block))
    empty, parser = _markdown()
    tokens = parser.parse(block)
    hide_in_markdown(tokens)
    _keep_line_breaks(tokens)
    lines = paragraph_lines(console, tokens)
    if lines is None and len(tokens) == 1 and tokens[0].type == "fence":
        lines = _code_lines(empty, tokens[0], console.width if folds else 0)
    if lines is None:
        markdown = copy(
            empty
        )  # the constructor creates a parser each time, which takes longer than parsing
        markdown.markup, markdown.parsed = block, tokens
        lines = _rendered_lines(console, markdown, folds=folds)
    for line in lines:
        line.rstrip()
    while lines and not lines[0].plain.strip():
        del lines[0]
    while lines and not lines[-1].plain.strip():
        del lines[-1]
    return lines


def _code_lines(document: Any, token: Any, width: int) -> list[Text]:
    """Return the lines of a block of code, folded at `width` (0: not at all), as rich would render them."""
    name = (token.info or "").partition(" ")[0]
    code = _highlighted(document.code_theme, token.content.rstrip("\n"), name)
    lines = list(code.split("\n", allow_blank=True))
    if width:
        lines = [piece for line in lines for piece in _folded(line, width)]
    return lines


def _highlighted(theme: str, code: str, language: str) -> Text:
    from rich.syntax import Syntax

    lexer = _lexer_of(language or "text") or _lexer_of("text")
    text = Syntax("", lexer, theme=theme).highlight(code)
    text.rstrip()
    return text


@lru_cache(maxsize=100)
def _lexer_of(language: str) -> Any:
    """Return pygments' lexer of a language, or None. The result is cached, because the search for a lexer takes
    long.
    """
    from rich.syntax import Syntax

    return Syntax("", language).lexer


def _keep_line_breaks(tokens: Sequence[Any]) -> None:
    """Make each line break a hard one: a model breaks lines on purpose, and other chats show these breaks, too."""
    for token in tokens:
        for inner in token.children or ():
            if inner.type == "softbreak":
                inner.type = "hardbreak"


def _rendered_lines(console: Console, markdown: Any, *, folds: bool) -> list[Text]:
    """Return the lines that rich renders for a document."""
    lines: list[Text] = []
    is_open = False
    for segments in console.render_lines(markdown, pad=False):
        if is_open:
            segments = list(
                dropwhile(lambda segment: not _has(segment, "starts"), segments)
            )
        # Rebuild each line. Its characters must be made safe again, because rich has decoded HTML entities such as
        # &#8238; only now. Its styles must lose their links, because a link hides its address from the reader.
        line = Text.assemble(
            *(
                (safe_text(segment.text), _without_link(segment.style))
                for segment in segments
            )
        )
        if is_open:
            lines[-1].append_text(line)
        else:
            lines.append(line)
        is_open = not folds and any(_has(segment, "ends") for segment in segments)
    return lines


def _folded(line: Text, width: int) -> Iterator[Text]:
    """Yield the pieces of a code line; their ends are marked, so that they can be joined again."""
    pieces = chop_cells(line.plain, width)
    offsets = list(accumulate(map(len, pieces)))[:-1]
    for at, piece in enumerate(line.divide(offsets)):
        if at:
            piece.stylize(_mark("starts"), 0, 1)
        if at < len(offsets):
            piece.stylize(_mark("ends"), len(piece) - 1)
        yield piece


def _mark(name: str) -> Style:
    return Style.from_meta({name: True})


def _has(segment: Segment, name: str) -> bool:
    return segment.style is not None and name in segment.style.meta


@cache
def _markdown() -> tuple[Any, Any]:
    """Return an empty document and the parser that rich uses."""
    from markdown_it import MarkdownIt

    empty = _markdown_class()("", hyperlinks=False, code_theme="ansi_dark")
    return empty, MarkdownIt().enable("strikethrough").enable("table")


def _without_link(style: Style | None) -> Style | str:
    if style is None:
        return ""
    if style.link:
        return style.update_link(None)
    return style


@cache
def _markdown_class() -> type:
    from rich import markdown

    class Heading(markdown.Heading):
        LEVEL_ALIGN = dict.fromkeys(markdown.Heading.LEVEL_ALIGN, "left")

    class CodeBlock(markdown.CodeBlock):
        def __rich_console__(
            self, console: Console, options: ConsoleOptions
        ) -> RenderResult:
            code = _highlighted(
                self.theme, str(self.text).rstrip("\n"), self.lexer_name
            )
            for line in code.split("\n", allow_blank=True):
                yield from _folded(line, options.max_width)

    class LeftMarkdown(markdown.Markdown):
        elements: ClassVar[dict[str, type[markdown.MarkdownElement]]] = {
            **markdown.Markdown.elements,
            "heading_open": Heading,
            "fence": CodeBlock,
            "code_block": CodeBlock,
        }

    return LeftMarkdown
