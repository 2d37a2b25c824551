"""Compute the tool budget of a model: the definitions and tokens that it accepts in one request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mcpagent.models.base import ToolLimits

MOST_OF_WINDOW = 0.5
"""Maximum share of a model's window for definitions; the conversation needs the rest."""


@dataclass(frozen=True, slots=True)
class ToolBudget:
    """The number of further tools, and of their estimated tokens, that a model accepts. None: unlimited."""

    tools: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, limits: ToolLimits, known_tokens: int) -> ToolBudget:
        """Return the whole budget. Tokens are limited only if all known tools together could exceed it."""
        window = limits.window_tokens
        tokens = None
        if window is not None:
            tokens = int(window * MOST_OF_WINDOW)
        return cls(
            limits.max_tools,
            None if tokens is not None and known_tokens <= tokens else tokens,
        )

    @property
    def is_endless(self) -> bool:
        """Return whether neither tools nor tokens are limited."""
        return self.tools is None and self.tokens is None

    def beside(self, tokens: Iterable[int]) -> ToolBudget:
        """Return the remaining budget after tools with these numbers of tokens."""
        if self.is_endless:
            return self
        taken = list(tokens)
        return replace(
            self,
            tools=None if self.tools is None else max(self.tools - len(taken), 0),
            tokens=None if self.tokens is None else max(self.tokens - sum(taken), 0),
        )

    def fitting(self, tokens: Iterable[int]) -> int:
        """Return how many of the tools fit, counted from the first one; `tokens` has the size of each."""
        fitting, left = 0, self.tokens
        for size in tokens:
            if fitting == self.tools or (left is not None and size > left):
                break
            fitting += 1
            if left is None:
                left = None
            else:
                left = left - size
        return fitting

    def words(self) -> str:
        """Return the budget as a phrase; "" if it is unlimited."""
        parts: list[str] = []
        if self.tools is not None:
            parts += [f"{self.tools} tools"]
        if self.tokens is not None:
            parts += [f"{self.tokens:,} tokens of tool definitions"]
        return " and ".join(parts)
