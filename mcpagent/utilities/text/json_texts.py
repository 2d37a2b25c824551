"""Read or change every text in JSON data, including keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

DEEPEST_TEXT = 100


def with_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with `change` applied to every text in it, including keys."""
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {
            with_texts(key, change): with_texts(value, change)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [with_texts(value, change) for value in data]
    return data


def texts_in(data: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text in JSON data, including keys, down to a hundred levels."""
    if isinstance(data, str):
        yield data
    elif depth <= DEEPEST_TEXT and isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from texts_in(value, depth + 1)
    elif depth <= DEEPEST_TEXT and isinstance(data, list):
        for value in data:
            yield from texts_in(value, depth + 1)
