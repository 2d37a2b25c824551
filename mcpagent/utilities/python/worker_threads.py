"""Run long work in worker threads, off the event loop: processing of large server messages, and imports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

from mcpagent.utilities.python.collecting import uncollected

T = TypeVar("T")

_MANY = 2_000
_LONG = 200_000
_STEP = 100
_imported: set[str] = set()


def is_large(value: Any, most_parts: int = _MANY, most_characters: int = _LONG) -> bool:
    """Return whether a JSON value has more parts or characters than the limits; stops counting there."""
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
                length += sum(map(len, item))
                waiting += item.values()
        elif isinstance(item, list):
            parts += len(item)
            if parts <= most_parts:
                waiting += item
        if parts > most_parts or length > most_characters:
            return True
    return False


def json_in_steps(value: Any, comma: str = ", ", colon: str = ": ") -> str:
    """Return `json.dumps(value, ensure_ascii=False)`, of a large value in steps that let other threads run."""
    if isinstance(value, dict) and is_large(value):
        pieces: list[str] = []
        for key, item in value.items():
            pieces.append(
                f"{json_in_steps(key)}{colon}{json_in_steps(item, comma, colon)}"
            )
        return "{" + comma.join(pieces) + "}"
    if isinstance(value, list) and is_large(value):
        return (
            "["
            + comma.join([_items_text(items, comma, colon) for items in _steps(value)])
            + "]"
        )
    return json.dumps(value, ensure_ascii=False, separators=(comma, colon))


def _steps(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + _STEP] for start in range(0, len(items), _STEP))


def _items_text(items: list[Any], comma: str, colon: str) -> str:
    if is_large(items):
        return comma.join([json_in_steps(item, comma, colon) for item in items])
    return json.dumps(items, ensure_ascii=False, separators=(comma, colon))[1:-1]


async def beside_loop(work: Callable[[], T], *, is_much: bool) -> T:
    """Run `work`, in a worker thread if `is_much`."""
    if is_much:
        return await asyncio.to_thread(work)
    return work()


async def imported(module: str) -> None:
    """Import a module in a thread, the first time: the MCP SDK and its dependencies take most of a second."""
    if module not in _imported:
        with uncollected():
            await asyncio.to_thread(import_module, module)
        _imported.add(module)
