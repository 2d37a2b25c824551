"""Convert the return value of a function to content for a model: text, tables as CSV, images, other values as JSON.

Equal values give equal text in every process: sets are sorted, and addresses of objects never appear.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sys
from collections import deque
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any, TypeAlias

from mcpagent.history.intake.budget import MAX_VALUES
from mcpagent.history.intake.file_descriptions import file_kind
from mcpagent.history.intake.media_types import base64_text, file_type, printable_text
from mcpagent.toolsets.tables import Table, is_missing, table_of
from mcpagent.utilities.python.worker_threads import is_large, json_in_steps
from mcpagent.utilities.text.safe_text import without_halves
from mcpagent.values.messages import (
    FILE_PARTS,
    Audio,
    BinaryBlock,
    Content,
    Document,
    FilePart,
    Image,
    Text,
)
from mcpagent.values.tools import ToolOutput, ToolReturn

MAX_ITEMS = 1_000
"""Maximum number of items of an iterator or array that the model gets; an iterator may be endless."""

_AT_ONCE = 10_000
"""Number of values of a very large result that are converted at once."""

MAX_CHARACTERS = 1_000_000
"""Maximum length of a value's text up to which programs get it as data; they read a longer one from its text."""

MAX_TABLE_CHARACTERS = 20_000
"""Length of a table's text after which no further rows are shown."""


MAX_DIGITS = sys.int_info.default_max_str_digits
"""Maximum number of digits of an integer that are written: Python's own limit, since writing more takes quadratic
time.
"""


_Shown: TypeAlias = FilePart | BinaryBlock


def tool_output(value: object) -> ToolOutput:
    """Convert the value to content.

    Text and parts stay unchanged, None is no content. Bytes become text, a file of a known type, or a block that a line
    with its size describes. A table (see `table_of`) becomes a line with its size and its first rows as CSV. Everything
    else becomes JSON; files in it follow as separate parts. An iterator is read, up to `MAX_ITEMS`. Raises errors that
    reading the value raises, and `ValueError` for a value that contains itself.
    """
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, ToolReturn):
        return replace(
            tool_output(value.value), events=value.events, metadata=value.metadata
        )
    if isinstance(value, Iterator):
        value = _items(value)
    if value is None:
        return ToolOutput(())
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, Content) for item in value)
    ):
        return ToolOutput(tuple(value))
    images: list[_Shown] = []  # also other binary data, which JSON cannot contain
    try:
        table = table_of(value)
        data = None
        if table is not None:
            text = _csv_text(table, images)
        elif isinstance(value, list | dict) and is_large(
            value, MAX_VALUES, sys.maxsize
        ):
            text = _written_in_steps(
                value, images
            )  # without data: so many objects would make each garbage collection slow
        else:
            data = _plain(value, images)
            text = _written(data)
    except RecursionError:
        raise ValueError(
            "the result holds itself, or nests too deeply; return plain data"
        ) from None
    shown = tuple(one for one in images if isinstance(one, FILE_PARTS))
    blocks = tuple(one for one in images if isinstance(one, BinaryBlock))
    if len(images) == 1 and shown and text == _reference(shown[0], 1):
        return ToolOutput(shown)
    is_data = data is not None and not isinstance(data, str) and not images
    if is_data and is_large(data, MAX_VALUES, MAX_CHARACTERS):
        is_data = False  # its text already is the data
    return ToolOutput(
        (Text(text), *shown), structured=data if is_data else None, blocks=blocks
    )


async def first_items(source: AsyncIterable[object]) -> list[object]:
    """Return the items of an async iterator, up to `MAX_ITEMS`, for `tool_output`."""
    items: list[object] = []
    iterator = aiter(source)
    async for item in iterator:
        if len(items) == MAX_ITEMS:
            items.append(_MORE)
            break
        items.append(item)
    if (close := getattr(iterator, "aclose", None)) is not None:
        await close()
    return items


_MORE = f"(and more: only the first {MAX_ITEMS:,} are shown)"
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _items(source: Iterable[object]) -> list[object]:
    iterator = iter(source)
    items = list(islice(iterator, MAX_ITEMS + 1))
    if len(items) > MAX_ITEMS:
        items[MAX_ITEMS:] = [_MORE]
        if (close := getattr(iterator, "close", None)) is not None:
            close()
    return items


def _reference(part: FilePart, number: int) -> str:
    return f"({file_kind(part)} {number})"


def _written(data: Any) -> str:
    """Return plain data as text: a text without quotes, anything else as JSON."""
    from pydantic_core import to_json

    if isinstance(data, str):
        return data
    if is_large(data):
        return json_in_steps(data, ",", ":")
    return to_json(data, inf_nan_mode="strings").decode()


def _written_in_steps(value: Any, images: list[_Shown]) -> str:
    """Return the JSON of a very large value; only a part of it exists as plain data at a time."""
    if isinstance(value, dict) and is_large(value):
        members = [
            f"{json.dumps(_key(key), ensure_ascii=False)}:{_written_in_steps(item, images)}"
            for key, item in value.items()
        ]
        return f"{{{','.join(members)}}}"
    if not (isinstance(value, list) and is_large(value)):
        return json_in_steps(_plain(value, images), ",", ":")
    pieces: list[str] = []
    for start in range(0, len(value), MAX_ITEMS):
        items = value[start : start + MAX_ITEMS]
        if is_large(items, _AT_ONCE):
            pieces += [_written_in_steps(item, images) for item in items]
        else:
            pieces.append(json_in_steps(_plain(items, images), ",", ":")[1:-1])
    return f"[{','.join(pieces)}]"


def _plain(value: Any, images: list[_Shown]) -> Any:
    """Return the value as JSON data; images are appended to `images`, and replaced by their number."""
    if isinstance(value, Enum):
        return _plain(value.value, images)
    if isinstance(value, str | bool | int | float):
        return _plain_scalar(value)
    if is_missing(value):
        return None
    if isinstance(value, Text | FilePart | bytes | bytearray | memoryview):
        return _plain_part(value, images)
    if (table := table_of(value)) is not None:
        return _plain_table(table, images)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _plain_array(value, images)
    return _plain_holder(value, images)


def _plain_scalar(value: Any) -> Any:
    if isinstance(
        value, str
    ):  # file names may have lone surrogates, which JSON cannot contain
        return without_halves(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return json.dumps(float(value))
    digits = int(value.bit_length() * math.log10(2)) + 1
    if digits > MAX_DIGITS:
        return f"(an integer of about {digits:,} digits)"
    return value


def _plain_part(
    value: Content | bytes | bytearray | memoryview, images: list[_Shown]
) -> str:
    if isinstance(value, Text):
        return str(_plain_scalar(value.text))
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        media_type = file_type(data)
        if media_type is None and (text := printable_text(data)) is not None:
            return text
        if media_type is None:
            images.append(BinaryBlock("application/octet-stream", base64_text(data)))
            return f"({_count(len(data), 'byte')}, not text)"
        value = _OF_TYPE.get(media_type.partition("/")[0], Document)(
            media_type, base64_text(data)
        )
    images.append(value)
    return _reference(value, sum(isinstance(one, FILE_PARTS) for one in images))


_OF_TYPE: Mapping[str, type[Image | Audio]] = {"image": Image, "audio": Audio}


def _plain_holder(value: Any, images: list[_Shown]) -> Any:
    """Convert a container of values; pydantic converts other values, such as dates, decimals and its models."""
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, images) for key, item in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)):
        return {
            name: _plain(item, images) for name, item in zip(names, value, strict=True)
        }
    if isinstance(value, list | tuple | deque):
        return [_plain(item, images) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, images) for item in value), key=_written)
    if isinstance(value, Iterator):
        return [_plain(item, images) for item in _items(value)]
    if (
        is_dataclass(value)
        and not isinstance(value, type)
        and not hasattr(value, "__pydantic_serializer__")
    ):
        return {
            field.name: _plain(getattr(value, field.name), images)
            for field in fields(value)
        }
    from pydantic_core import to_jsonable_python

    def unknown(other: Any) -> Any:
        if isinstance(other, Iterable) and not isinstance(other, type):
            return [_plain(item, images) for item in _items(other)]
        return _ADDRESS.sub("", str(other))

    data = to_jsonable_python(value, fallback=unknown)
    serializer = getattr(value, "__pydantic_serializer__", None)
    if serializer is not None and not isinstance(value, type):
        data = _with_sorted_sets(data, serializer.to_python(value))
    return _plain(data, images)


def _with_sorted_sets(data: Any, original: Any) -> Any:
    """Sort the lists that pydantic made of sets, whose order differs between processes. `original` has the sets."""
    if isinstance(original, set | frozenset) and isinstance(data, list):
        return sorted(data, key=_written)
    is_list = isinstance(data, list) and isinstance(original, list | tuple)
    if is_list and len(data) == len(original):
        return [*map(_with_sorted_sets, data, original)]
    is_object = isinstance(data, dict) and isinstance(original, dict)
    if is_object and len(data) == len(original):
        items = map(_with_sorted_sets, data.values(), original.values())
        return dict(zip(data, items, strict=True))
    return data


def _key(key: object) -> str:
    return _written(_plain(key, []))


def _plain_array(array: Any, images: list[_Shown]) -> Any:
    """Convert an array of NumPy or a similar library to nested lists, to its shape and first rows, or to one number."""
    if array.shape == ():
        return _plain_number(array, images)
    size = math.prod(array.shape)
    if max(size, len(array)) <= MAX_ITEMS:
        return [_plain(item, images) for item in array]
    rows = MAX_ITEMS // max(1, size // len(array))
    first = [_plain(item, images) for item in array[:rows]]
    return {
        "shape": [int(length) for length in array.shape],
        "dtype": str(array.dtype),
        "first": first,
    }


def _plain_number(number: Any, images: list[_Shown]) -> Any:
    kind, text = getattr(number.dtype, "kind", ""), str(number)
    if text in ("NaT", "--"):  # a missing time, or a masked element
        return None
    if (
        kind == "f"
    ):  # via its text, the shortest one with the same meaning: a 32-bit 0.1 should not become 0.10000000149011612
        return _plain(float(text), images)
    if kind in ("M", "m", "c"):
        return text
    return _plain(number.item(), images)


def _plain_table(table: Table, images: list[_Shown]) -> dict[str, Any]:
    rows = [
        [None if is_missing(cell) else _plain(cell, images) for cell in row]
        for row in table.rows
    ]
    data: dict[str, Any] = {"columns": _plain(table.columns, images), "rows": rows}
    return data | (
        {"more_rows": table.row_count - len(rows)}
        if table.row_count > len(rows)
        else {}
    )


def _csv_text(table: Table, images: list[_Shown]) -> str:
    """Return the size of a table, its column names and first rows as CSV, and the number of further rows.

    CSV needs the fewest tokens.
    """
    text = io.StringIO()
    text.write(
        f"{_count(table.row_count, 'row')}, {_count(len(table.columns), 'column')}\n"
    )
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    shown = 0
    for row in table.rows:
        if text.tell() > MAX_TABLE_CHARACTERS:
            break
        writer.writerow([_cell(value, images) for value in row])
        shown += 1
    more = table.row_count - shown
    if more:
        return text.getvalue() + f"and {_count(more, 'more row')}"
    return text.getvalue().rstrip("\n")


def _cell(value: object, images: list[_Shown]) -> str:
    if is_missing(value):
        return ""
    text = _written(_plain(value, images))
    # These packages have no dates without a time, so midnight means a date.
    if isinstance(value, datetime):
        return text.removesuffix("T00:00:00")
    return text


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"
