"""Work that grows with what a server sends: beside the event loop where it is much, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_MANY = 2_000
_LONG = 200_000
_STEP = 100


def is_large(value: Any) -> bool:
    """Whether a JSON value has more than 2,000 parts or 200,000 characters; stops counting there."""
    parts = length = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        parts += 1
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, dict):
            parts += len(item)
            waiting += item.values() if parts <= _MANY else ()
        elif isinstance(item, list):
            parts += len(item)
            waiting += item if parts <= _MANY else ()
        if parts > _MANY or length > _LONG:
            return True
    return False


def json_text(value: Any) -> str:
    """`json.dumps(value, ensure_ascii=False)`, of a large value in steps that let other threads run."""
    if isinstance(value, dict) and is_large(value):
        return "{" + ", ".join(f"{json_text(key)}: {json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list) and is_large(value):
        return "[" + ", ".join(map(_items_text, _steps(value))) + "]"
    return json.dumps(value, ensure_ascii=False)


def _steps(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + _STEP] for start in range(0, len(items), _STEP))


def _items_text(items: list[Any]) -> str:
    if is_large(items):
        return ", ".join(map(json_text, items))
    return json.dumps(items, ensure_ascii=False)[1:-1]


async def beside_loop(work: Callable[[], T], *, is_much: bool) -> T:
    """Does `work`, in a thread where it is much."""
    return await asyncio.to_thread(work) if is_much else work()
