"""Work that grows with what a server sends: beside the event loop where it is much, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_MANY = 2_000
_LONG = 200_000


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


async def beside_loop(work: Callable[[], T], *, value: Any) -> T:
    """Does `work` on a JSON value, in a thread where the value is large."""
    return await asyncio.to_thread(work) if is_large(value) else work()
