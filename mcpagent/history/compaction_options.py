"""`Compaction`: the share of a model's window that a conversation may use."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType

from mcpagent.utilities.python.argument_checks import expect


@dataclass(frozen=True, slots=True)
class Compaction:
    """When to compact a conversation, and how far.

    A request that would use more than the share `at` of the model's window is shortened to the share `to`. Because of
    the distance between the two, the provider's cache is rewritten only once, not at every turn. `window_tokens`
    replaces the known size of the window. With None, the size comes from the model's settings, its server or the price
    table.
    """

    at: float = 0.8
    to: float = 0.4
    window_tokens: int | None = None

    def __post_init__(self) -> None:
        expect(
            "at",
            self.at,
            (int, float),
            "a share of the window, above 0 and up to 1",
            holds=lambda at: 0 < at <= 1,
        )
        said = "a share of the window, above 0 and below `at`"
        expect("to", self.to, (int, float), said, holds=lambda to: 0 < to < self.at)
        expect(
            "window_tokens",
            self.window_tokens,
            (int, NoneType),
            "a number of tokens from 1,000, or None",
            holds=lambda tokens: tokens is None or tokens >= 1_000,
        )
