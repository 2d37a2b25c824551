"""Keep long work from blocking the event loop: in worker threads, or with pauses between short steps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from mcpagent.utilities.python.garbage_collection import uncollected
from mcpagent.utilities.text.safe_text import steps_of

T = TypeVar("T")

_MANY = 2_000
_LONG = 200_000
_STEP = 100
_imported: set[str] = set()


async def with_pauses(items: Iterable[T], at_once: int = 250) -> AsyncIterator[T]:
    """Yield the items; after every `at_once` items, let the event loop run other tasks."""
    for number, item in enumerate(items, 1):
        yield item
        if number % at_once == 0:
            await asyncio.sleep(0)


def is_large(value: Any, most_parts: int = _MANY, most_characters: int = _LONG) -> bool:
    """Return whether a JSON value has more than `most_parts` parts or `most_characters` characters; counting stops at
    the limits.
    """
    if not value or not isinstance(value, str | dict | list):
        return False
    return parts_in(value, most_parts, most_characters) is None


def parts_in(value: Any, most_parts: int, most_characters: int) -> int | None:
    """Return the number of parts of a JSON value; None if it exceeds one of the limits."""
    parts = length = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        parts += 1
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, dict):
            parts += len(item)
            if parts <= most_parts:
                length += sum(len(key) for key in item if isinstance(key, str))
                waiting += item.values()
        elif isinstance(item, list):
            parts += len(item)
            if parts <= most_parts:
                waiting += item
        if parts > most_parts or length > most_characters:
            return None
    return parts


def json_in_steps(value: Any, comma: str = ", ", colon: str = ": ") -> str:
    """Return `json.dumps(value, ensure_ascii=False)`. A large value is written in steps, so that other threads can
    run.
    """
    return "".join(_pieces(value, comma, colon))


def json_beginning(value: Any, length: int) -> str:
    """Return the first `length` characters of `json.dumps(value, ensure_ascii=False)`; the rest is not serialised."""
    written = 0
    pieces: list[str] = []
    for piece in _pieces(value, ", ", ": "):
        pieces.append(piece)
        written += len(piece)
        if written >= length:
            break
    return "".join(pieces)[:length]


def _pieces(value: Any, comma: str, colon: str) -> Iterator[str]:
    """Yield the JSON in pieces, for one join at the end: each copy of a long text blocks all threads."""
    if isinstance(value, str) and len(value) > _LONG:
        yield '"'
        yield from (
            json.dumps(piece, ensure_ascii=False)[1:-1] for piece in steps_of(value)
        )
        yield '"'
    elif isinstance(value, dict) and is_large(value):
        before = "{"
        for key, item in value.items():
            yield before
            yield from _pieces(key, comma, colon)
            yield colon
            yield from _pieces(item, comma, colon)
            before = comma
        yield "}"
    elif isinstance(value, list) and is_large(value):
        before = "["
        for start in range(0, len(value), _STEP):
            items = value[start : start + _STEP]
            yield before
            yield from _pieces_of_items(items, comma, colon)
            before = comma
        yield "]"
    else:
        yield json.dumps(value, ensure_ascii=False, separators=(comma, colon))


def _pieces_of_items(items: list[Any], comma: str, colon: str) -> Iterator[str]:
    if not is_large(items):
        yield json.dumps(items, ensure_ascii=False, separators=(comma, colon))[1:-1]
        return
    before = ""
    for item in items:
        yield before
        yield from _pieces(item, comma, colon)
        before = comma


async def beside_loop(work: Callable[[], T], *, is_much: bool) -> T:
    """Run `work` and return its result; in a worker thread if `is_much`."""
    if is_much:
        return await asyncio.to_thread(work)
    return work()


async def created_beside_loop(work: Callable[[], T], *, is_much: bool) -> T:
    """Run `work` like `beside_loop`, with the garbage collector paused if `is_much`.

    Use it for work that creates many objects: a collection over these would block all threads.
    """

    def create() -> T:
        with uncollected():
            return work()

    return await beside_loop(create if is_much else work, is_much=is_much)


async def imported(module: str) -> None:
    """Import a module in a thread, once: the MCP SDK and its dependencies take most of a second."""
    if module not in _imported:
        with uncollected():
            await asyncio.to_thread(import_module, module)
        _imported.add(module)
