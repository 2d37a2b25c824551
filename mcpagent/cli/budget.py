"""What one answer may cost, in tokens and in money."""

from __future__ import annotations

from dataclasses import dataclass

from mcpagent.cli.figures import money
from mcpagent.errors import LimitError
from mcpagent.events import Event, RequestSent, ResponseReceived


@dataclass(slots=True)
class Budget:
    """Follows the events of one run, and raises `LimitError` at the first request that may not be made any more.

    Tokens are input and output as the provider counted them. What one request takes is known when it is over, so the
    last one may go beyond a limit. Where a price is not known, a limit of money cannot be kept, and it stops too. What
    costs nothing is within every limit of money.
    """

    max_tokens: int | None = None
    max_dollars: float | None = None
    tokens: int = 0
    dollars: float = 0.0
    unpriced: bool = False

    def follow(self, event: Event) -> None:
        match event:
            case ResponseReceived(usage=usage, dollars=dollars):
                taken = usage.input_tokens + usage.output_tokens
                self.tokens += taken
                self.dollars += dollars or 0.0
                self.unpriced = self.unpriced or (dollars is None and taken > 0)
            case RequestSent():
                self._check()
            case _:
                pass

    def _check(self) -> None:
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            raise LimitError(f"stopped after {self.tokens:,} tokens without an answer (--max-tokens {self.max_tokens})")
        if self.max_dollars is None:
            return
        if self.unpriced:
            raise LimitError("the price of this model is not known, so --max-cost cannot be kept; use --max-tokens")
        if self.dollars and self.dollars >= self.max_dollars:
            spent = money(self.dollars)
            raise LimitError(f"stopped after {spent} without an answer (--max-cost {self.max_dollars:g})")
