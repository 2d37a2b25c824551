"""Reciprocal rank fusion: merge several rankings into one.

Source: G. Cormack, C. Clarke, S. Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning
Methods", SIGIR 2009; the constant is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")

CANDIDATES = 50
"""Minimum number of chunks that each ranking of a store contributes."""

_CONSTANT = 60


@dataclass(slots=True)
class Fused(Generic[Key]):
    """An item with its score, and its rank (from 1) in each ranking that has it."""

    key: Key
    score: float = 0.0
    ranks: dict[str, int] = field(default_factory=dict[str, int])


def fused(rankings: Mapping[str, Sequence[Key]]) -> list[Fused[Key]]:
    """Return the items of all rankings, the best first; items with equal scores keep the order of the rankings."""
    found: dict[Key, Fused[Key]] = {}
    for name, ranking in rankings.items():
        for rank, key in enumerate(ranking, 1):
            item = found.setdefault(key, Fused(key))
            item.ranks[name] = rank
            item.score += 1 / (_CONSTANT + rank)
    return sorted(found.values(), key=lambda item: -item.score)
