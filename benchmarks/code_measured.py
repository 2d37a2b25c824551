"""Measure the tasks of `benchmarks/code.py`: requests, tokens and seconds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """Of all tasks together: requests, tokens sent and written, seconds beside the model, and how many were right."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    right: int = 0

    def plus(self, other: Measured) -> Measured:
        """Both together."""
        return Measured(
            *(getattr(self, name) + getattr(other, name) for name in asdict(self))
        )


def tokens(value: Any) -> int:
    """Estimated tokens of JSON data or a text."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    return -(-len(text) // 4)
