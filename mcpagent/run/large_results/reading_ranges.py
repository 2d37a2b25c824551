"""`read_large_output`: return a range of lines or characters, up to the size of one answer."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from mcpagent.errors import InputError
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.values.messages import Image

MAX_ANSWER = 16_000
"""Maximum number of characters of an output in one answer, about 4,000 tokens."""

USUAL_LINES = 100

MAX_BYTES, _ROW = 3_000, 16
"""Maximum number of bytes of a binary block in one answer, and the number of bytes on a line."""


def whole_number(arguments: Mapping[str, Any], name: str) -> int | None:
    """Return an argument of the model as an integer, also from text; None if it is missing. Raises `InputError` if it
    is invalid.
    """
    given = arguments.get(name)
    if given is None or given == "":
        return None
    try:
        if len(str(given)) < 20 and not isinstance(given, bool):
            return int(float(given))
        return 1 // 0
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise InputError(f"{name}: expected a whole number") from None


def read_range(output: LargeOutput, arguments: Mapping[str, Any]) -> str | Image:
    """Return the requested range, by default the first lines. Raises `InputError` for an invalid range."""
    if (number := whole_number(arguments, "image")) is not None:
        return _image(output, number)
    if (number := whole_number(arguments, "block")) is not None:
        return _block(output, number, arguments)
    if not output.text and output.images:
        raise InputError(
            f"It has no text, only {len(output.images)} images: ask for one with image=1"
        )
    if not output.text:
        raise InputError(
            f"It has no text, only {len(output.blocks)} binary blocks: ask for one with block=1"
        )
    if any(
        whole_number(arguments, name) is not None for name in ("start_char", "end_char")
    ):
        return _characters(output, arguments)
    return _lines(output, arguments)


def _image(output: LargeOutput, number: int) -> Image:
    if not 1 <= number <= len(output.images):
        raise InputError(f"image: it has {len(output.images)} images, got {number}")
    return output.images[number - 1]


def _block(output: LargeOutput, number: int, arguments: Mapping[str, Any]) -> str:
    """Return bytes of a block as hexadecimal digits, with printable ones also as letters; `start_char` counts bytes."""
    if not 1 <= number <= len(output.blocks):
        raise InputError(
            f"block: it has {len(output.blocks)} binary blocks, got {number}"
        )
    data = base64.b64decode(output.blocks[number - 1].data)
    if not data:
        return "It has 0 bytes."
    start, end = _range(arguments, "char", len(data), MAX_BYTES)
    end = min(end, start + MAX_BYTES - 1)
    rows: list[str] = []
    for place in range(start - 1, end, _ROW):
        row = data[place : min(place + _ROW, end)]
        letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        rows.append(f"{place + 1:>8} {row.hex(' '):<{3 * _ROW - 1}} {letters}")
    more = ""
    if end < len(data):
        more = f". Go on with start_char={end + 1}"
    return _answer(
        f"Bytes {start:,} to {end:,} of {len(data):,}{more}", "\n".join(rows)
    )


def _range(
    arguments: Mapping[str, Any], what: str, most: int, usual: int
) -> tuple[int, int]:
    """Return the first and last line or character, counted from 1, within the output; -3 means the third from the
    end.
    """
    first, last = (whole_number(arguments, f"{end}_{what}") for end in ("start", "end"))
    first, last = (
        most + given + 1 if given is not None and given < 0 else given
        for given in (first, last)
    )
    if first is None:
        if last is None:
            first = 1
        else:
            first = last - usual + 1
    start = max(first, 1)
    end = min(last if last is not None else start + usual - 1, most)
    if start > most:
        raise InputError(
            f"start_{what}: it has {most:,} {'lines' if what == 'line' else 'characters'}, got {start:,}"
        )
    if start > end:
        raise InputError(
            f"start_{what} is {start:,} and end_{what} {end:,}: the start comes first"
        )
    return start, end


def _lines(output: LargeOutput, arguments: Mapping[str, Any]) -> str:
    start, end = _range(arguments, "line", output.lines, USUAL_LINES)
    begin, stop = output.line_start(start), output.line_start(end + 1)
    if stop - begin <= MAX_ANSWER:
        shown, last = output.text[begin:stop], end
    else:
        cut = output.text.rfind("\n", begin, begin + MAX_ANSWER) + 1
        if not cut:  # a single line is longer than the limit
            first = begin + 1
            told = f"Line {start:,} is long; its first {MAX_ANSWER:,} characters"
            text = output.text[begin : begin + MAX_ANSWER]
            return _answer(f"{told}. Go on with start_char={first + MAX_ANSWER}", text)
        shown = output.text[begin:cut]
        last = start + shown.count("\n") - 1
    more = ""
    if last < output.lines:
        more = f". Go on with start_line={last + 1}"
    return _answer(f"Lines {start:,} to {last:,} of {output.lines:,}{more}", shown)


def _characters(output: LargeOutput, arguments: Mapping[str, Any]) -> str:
    size = len(output.text)
    start, end = _range(arguments, "char", size, MAX_ANSWER)
    end = min(end, start + MAX_ANSWER - 1)
    more = ""
    if end < size:
        more = f". Go on with start_char={end + 1}"
    line = output.line_at(start - 1)
    return _answer(
        f"Characters {start:,} to {end:,} of {size:,}, from line {line:,}{more}",
        output.text[start - 1 : end],
    )


def _answer(told: str, text: str) -> str:
    """Return a heading and the output's text, which is fenced so that it cannot imitate the heading."""
    return fenced(for_model(text.removesuffix("\n")), told)
