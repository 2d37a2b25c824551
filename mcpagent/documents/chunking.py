"""Split texts into chunks along their headings: about 800 characters each, with section, page and a stable ID.

Each line is read once, so the time is in proportion to the length of the text.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mcpagent.documents.document_reading.text_parts import (
    DocumentText,
    Markup,
    TextPart,
)
from mcpagent.documents.document_values import Chunk, StoredDocument
from mcpagent.utilities.text.front_matter import bounded_yaml, split_front_matter
from mcpagent.utilities.text.safe_text import without_halves

CHUNK_CHARACTERS = 800

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_RULE = re.compile(r"\|?[ :|-]+\|?$")
_ANCHOR = re.compile(r"\s*\{#[^{}]{0,200}\}$")
_MARKS = str.maketrans("", "", "*`")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text below headings, before it is cut into chunks."""

    section: tuple[str, ...]
    text: str


class _Fence:
    """Tracks fenced code line by line. `mark` is the marker of the open code block, or "" outside of a block."""

    mark = ""

    def holds(self, line: str) -> bool:
        """Return whether the line belongs to fenced code. The opening and closing lines of a code block do."""
        opened = _FENCE.match(line)
        if not self.mark:
            self.mark = opened[1] if opened else ""
            return bool(opened)
        if opened and line.strip() == opened[1] and opened[1].startswith(self.mark):
            self.mark = ""
        return True


def document_id(uri: str) -> str:
    """Return the ID of the document with this address."""
    return hashlib.sha256(without_halves(uri).encode()).hexdigest()[:32]


def document_title(found: DocumentText) -> str:
    """Return the title of the file itself, else of its front matter, else its first heading, else ""."""
    if found.title:
        return found.title
    if found.markup != "markdown" or not found.parts:
        return ""
    text = found.parts[0].text
    matter = split_front_matter(text)
    if matter is not None and (title := _title_in(matter[0])):
        return title
    for passage in markdown_passages(text):
        if passage.section:
            return passage.section[0]
    return ""


def _title_in(matter: str) -> str:
    import yaml

    try:
        fields = bounded_yaml(matter, numbers=False)
    except yaml.YAMLError:
        return ""
    if not isinstance(fields, dict):
        return ""
    return str(fields.get("title") or "").strip()


def chunks_of(document: StoredDocument, found: DocumentText) -> list[Chunk]:
    """Return the chunks of a document. A chunk keeps its ID if its headings and its text stay the same."""
    chunks: list[Chunk] = []
    seen: Counter[str] = Counter()
    for part in found.parts:
        for passage in _passages(part, found.markup):
            for text in _cut(passage.text):
                content = json.dumps([document.id, passage.section, text])
                seen[content] += 1
                name = f"{content}{seen[content]}".encode()
                identifier = hashlib.sha256(name).hexdigest()[:32]
                chunks.append(
                    Chunk(
                        identifier,
                        document,
                        text,
                        passage.section,
                        part.page,
                        len(chunks),
                    )
                )
    return chunks


def _passages(part: TextPart, markup: Markup) -> Iterator[Passage]:
    for passage in _SPLITTERS[markup](part.text):
        yield Passage(part.section + passage.section, passage.text)


# -- sections ---------------------------------------------------------------------------------------------------------


def markdown_passages(text: str) -> Iterator[Passage]:
    """Yield the text below each heading. A heading with no text and no deeper heading below it yields its title as
    text.
    """
    above: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = _Fence()
    matter = split_front_matter(text)
    if matter is not None:
        text = matter[1]
    for line in [*text.splitlines(), "# "]:
        heading = None
        if not fence.holds(line):
            heading = _heading(line, lines)
        if heading is None:
            lines.append(line)
            continue
        section = tuple(title for _, title in above)
        body = "\n".join(lines).strip("\n")
        if body.strip():
            yield Passage(section, body)
        elif above and above[-1][0] >= heading[0]:
            yield Passage(section, above[-1][1])
        lines = []
        above = [one for one in above if one[0] < heading[0]]
        above.append(heading)
    if fence.mark:
        # An unclosed code block extends to the end of the text. The last line is the one that the loop added.
        yield Passage(tuple(title for _, title in above), "\n".join(lines[:-1]))


def _heading(line: str, before: list[str]) -> tuple[int, str] | None:
    """Return the level and the title of a heading, or None. If the line underlines a title, that title is removed from
    `before`.
    """
    if found := _HEADING.match(line):
        title = line[found.end() :].strip().rstrip("#").strip()
        return len(found[1]), _plain(title)
    underlined = _UNDERLINE.match(line)
    if underlined is None or not before or not before[-1].strip():
        return None
    is_single = len(before) == 1 or not before[-2].strip()
    if not is_single or before[-1].lstrip()[:1] in ("|", "-", "*", ">", "+"):
        return None
    title = before.pop().strip()
    return (1 if underlined[1][0] == "=" else 2), _plain(title)


def _plain(title: str) -> str:
    return _ANCHOR.sub("", title).translate(_MARKS).strip()


def python_passages(text: str) -> Iterator[Passage]:
    """Yield each function and class of Python code, and the methods of classes. Yield code with a syntax error as one
    text.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        yield from text_passages(text)
        return
    yield from _definitions(text.splitlines(), 0, None, body, ())


def _definitions(
    lines: list[str],
    start: int,
    stop: int | None,
    body: list[ast.stmt],
    section: tuple[str, ...],
) -> Iterator[Passage]:
    """Yield the definitions in `body`, and the lines between them, from line `start` (from 0) to before `stop`."""
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1
        yield from _of_lines(lines[start:first], section)
        start = node.end_lineno or node.lineno
        inner = (*section, node.name)
        if isinstance(node, ast.ClassDef):
            yield from _definitions(lines, first, start, node.body, inner)
        else:
            yield from _of_lines(lines[first:start], inner)
    yield from _of_lines(lines[start:stop], section)


def _of_lines(lines: list[str], section: tuple[str, ...]) -> Iterator[Passage]:
    text = "\n".join(lines).strip("\n")
    if text.strip():
        yield Passage(section, text)


def text_passages(text: str) -> Iterator[Passage]:
    """Yield the whole text, which has no headings."""
    yield from _of_lines(text.splitlines(), ())


_SPLITTERS: dict[Markup, Callable[[str], Iterator[Passage]]] = {
    "markdown": markdown_passages,
    "python": python_passages,
    "text": text_passages,
}


# -- cutting ----------------------------------------------------------------------------------------------------------


def _cut(text: str) -> Iterator[str]:
    """Yield pieces of at most about 800 characters, of whole paragraphs if they fit."""
    pieces = (piece for block in _blocks(text) for piece in _cut_block(block))
    yield from _packed(pieces, "\n\n")


def _packed(pieces: Iterable[str], between: str) -> Iterator[str]:
    """Join adjacent pieces as long as they fit into a chunk, and yield the joined texts."""
    waiting: list[str] = []
    length = 0
    for piece in pieces:
        if waiting and length + len(piece) > CHUNK_CHARACTERS:
            yield between.join(waiting)
            waiting, length = [], 0
        waiting.append(piece)
        length += len(piece) + len(between)
    if waiting:
        yield between.join(waiting)


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each paragraph, list, table and fenced block."""
    lines: list[str] = []
    fence = _Fence()
    for line in text.splitlines():
        if fence.holds(line) or line.strip():
            lines.append(line)
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


def _cut_block(lines: list[str]) -> Iterator[str]:
    text = "\n".join(lines)
    if len(text) <= CHUNK_CHARACTERS:
        yield text
        return
    before, after, rest = "", "", lines
    if len(lines) > 2 and "|" in lines[0] and _RULE.match(lines[1]):
        # Each part of a table repeats its head.
        before, rest = f"{lines[0]}\n{lines[1]}\n", lines[2:]
    elif opened := _FENCE.match(lines[0]):
        before, rest = f"{lines[0]}\n", lines[1:]
        after = f"\n{opened[1]}"
        if rest and rest[-1].strip() == opened[1]:
            rest = rest[:-1]
    if len(before) > CHUNK_CHARACTERS:
        before, rest = "", lines
    short = (piece for line in rest for piece in _cut_line(line))
    for part in _packed(short, "\n"):
        yield f"{before}{part}{after}"


def _cut_line(line: str) -> Iterator[str]:
    """Yield pieces of a long line that end after a sentence, else between words, else anywhere."""
    start = 0
    while len(line) - start > CHUNK_CHARACTERS:
        end = start + CHUNK_CHARACTERS
        middle = start + CHUNK_CHARACTERS // 2
        at = max(line.rfind(mark, middle, end) + 1 for mark in (". ", "! ", "? "))
        if at == 0:
            at = line.rfind(" ", middle, end)
        if at <= 0:
            at = end
        yield line[start:at].strip()
        start = at
    yield line[start:].strip() if start else line
