"""Write the preview of an offloaded result: its description, its beginning and end, and how to read the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.parsed_outputs import shape_in_words
from mcpagent.utilities.text.for_model import fenced, for_model, line_for_model
from mcpagent.values.messages import BinaryBlock, Image

HEAD, TAIL = 1_200, 600
"""Number of characters from the beginning and the end of a result in its preview."""

BRIEF_HEAD = 160
"""Number of characters from the beginning of a result in its shortest preview."""


def short_form(output: LargeOutput) -> str:
    """Return a preview of some hundred tokens. Text of the result is in fences that it cannot close."""
    if len(output.text) <= HEAD + TAIL:
        shown = []
        if output.text.strip():
            shown = [fenced(output.text, "Its text")]
    else:
        shown = [
            fenced(head(output.text, HEAD), "It begins"),
            fenced(_tail(output.text, TAIL), "It ends"),
        ]
    return "\n".join((_first_line(output), _how_to_read(output), *shown))


def kept_form(output: LargeOutput) -> str:
    """Return the note that precedes a small result whose binary blocks are stored outside."""
    return f"[Set aside as {output.handle}: {'; '.join(_binaries(output))}]\n{_how_to_read(output)}"


def brief_form(output: LargeOutput) -> str:
    """Return a preview of one or two lines."""
    begins = line_for_model(output.text[: 4 * BRIEF_HEAD], BRIEF_HEAD)
    if not begins:
        return _first_line(output)
    if "`" in begins:
        shown = fenced(begins)
    else:
        shown = begins
    return f"{_first_line(output)} It begins: {shown}"


def _first_line(output: LargeOutput) -> str:
    return f"[Set aside as {output.handle}, about {output.tokens:,} tokens: {_described(output)}]"


def _described(output: LargeOutput) -> str:
    """Return kind, structure and size of an output."""
    parts: list[str] = []
    if output.text:
        shape = shape_in_words(output.glance)
        lines = f"{output.lines:,} line{'s' if output.lines != 1 else ''}"
        parts.append(
            f"{output.glance.kind}{f', {shape}' if shape else ''}; {len(output.text):,} characters in {lines}"
        )
    return "; ".join((*parts, *_binaries(output))) or "nothing"


def _binaries(output: LargeOutput) -> Iterator[str]:
    kinds: tuple[tuple[str, Sequence[Image | BinaryBlock]], ...] = (
        ("image", output.images),
        ("block", output.blocks),
    )
    for what, binaries in kinds:
        for place, binary in enumerate(binaries[:10], 1):
            size = len(binary.data) * 3 // 4 - binary.data[-2:].count("=")
            yield f"{what} {place}: {line_for_model(binary.media_type, 40)}, {size:,} bytes"
        if len(binaries) > 10:
            yield f"{len(binaries)} {what}s in all"


def _how_to_read(output: LargeOutput) -> str:
    ways = ["read_large_output"]
    if output.text:
        ways.append("search_large_output")
    if output.glance.value is not None:
        ways.append("query_large_output")
    return f"Read what you need of it with {' or '.join(', '.join(ways).rsplit(', ', 1))}; nothing of it is lost."


def head(text: str, limit: int) -> str:
    """Return the beginning of the text, up to a line end if one is near."""
    cut = text[:limit]
    end = cut.rfind("\n")
    return for_model(cut[:end] if end > limit // 2 else cut)


def _tail(text: str, limit: int) -> str:
    cut = text[-limit:]
    start = cut.find("\n") + 1
    return for_model(cut[start:] if 0 < start < limit // 2 else cut)
