"""Run long work in worker threads, off the event loop: processing of large server messages, and imports."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

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


def json_in_steps(value: Any) -> str:
    """Return `json.dumps(value, ensure_ascii=False)`, of a large value in steps that let other threads run."""
    if isinstance(value, dict) and is_large(value):
        return (
            "{"
            + ", ".join(
                f"{json_in_steps(key)}: {json_in_steps(item)}"
                for key, item in value.items()
            )
            + "}"
        )
    if isinstance(value, list) and is_large(value):
        return "[" + ", ".join(map(_items_text, _steps(value))) + "]"
    return json.dumps(value, ensure_ascii=False)


def _steps(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + _STEP] for start in range(0, len(items), _STEP))


def _items_text(items: list[Any]) -> str:
    if is_large(items):
        return ", ".join(map(json_in_steps, items))
    return json.dumps(items, ensure_ascii=False)[1:-1]


async def beside_loop(work: Callable[[], T], *, is_much: bool) -> T:
    """Run `work`, in a worker thread if `is_much`."""
    if is_much:
        return await asyncio.to_thread(work)
    return work()


async def imported(module: str) -> None:
    """Import a module in a thread, the first time: the MCP SDK and its dependencies take most of a second."""
    if module not in _imported:
        with _uncollected():
            await asyncio.to_thread(import_module, module)
        _imported.add(module)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from pausing all threads for objects that live as long as the process.

    No garbage is lost: the next full collection finds it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        gc.enable()
