"""How many tools fit a model: which number of definitions it takes in one request, and how much of its window."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mcpagent.models.base import ToolLimits

MOST_OF_WINDOW = 0.5
"""The share of a model's window that definitions may take: the conversation needs the rest."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a model takes beside what it has: so many tools, so many estimated tokens of definitions. None: any."""

    tools: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, limits: ToolLimits, known_tokens: int) -> Room:
        """All of it; tokens are counted only if those of all known tools could be too many."""
        window = limits.window_tokens
        tokens = int(window * MOST_OF_WINDOW) if window is not None else None
        return cls(limits.max_tools, None if tokens is not None and known_tokens <= tokens else tokens)

    @property
    def is_endless(self) -> bool:
        """Whether nothing is known to be too much."""
        return self.tools is None and self.tokens is None

    def beside(self, tokens: Iterable[int]) -> Room:
        """What is left of it beside tools of so many tokens each."""
        if self.is_endless:
            return self
        taken = list(tokens)
        return replace(
            self,
            tools=None if self.tools is None else max(self.tools - len(taken), 0),
            tokens=None if self.tokens is None else max(self.tokens - sum(taken), 0),
        )

    def fitting(self, tokens: Iterable[int]) -> int:
        """How many of these tools, from the first one on, fit into it."""
        fitting, left = 0, self.tokens
        for size in tokens:
            if fitting == self.tools or (left is not None and size > left):
                break
            fitting += 1
            left = None if left is None else left - size
        return fitting

    def words(self) -> str:
        """How much it is, for a sentence; "" if it is endless."""
        parts = [] if self.tools is None else [f"{self.tools} tools"]
        parts += [] if self.tokens is None else [f"{self.tokens:,} tokens of tool definitions"]
        return " and ".join(parts)
