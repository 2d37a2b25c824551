"""Estimate the tokens of a request, corrected by the provider's last count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from mcpagent.history.conversation import Conversation
from mcpagent.models.sendable_history import SERVER_TOOLS
from mcpagent.values.messages import Message, ProviderBlock, Step

PRIOR_TOKENS = 2_000
"""Weight of the estimate against the provider's count, in tokens. It prevents the few hundred tokens that providers add
from distorting the ratio of short requests.
"""

LOOKED_AT = 8
"""Number of latest answers that are searched for the size of a request."""

MOST_OFF = 2.0
"""Maximum ratio between count and estimate that is trusted, in either direction; a larger one is a server's mistake."""

_SERVER_TOOLS = frozenset[str]().union(*SERVER_TOOLS.values())


@dataclass(frozen=True, slots=True)
class Measure:
    """The estimated size of a request, and the provider's count for it; both 0 before the first request."""

    estimated: int = 0
    counted: int = 0

    @property
    def _ratio(self) -> float:
        return (self.counted + PRIOR_TOKENS) / (self.estimated + PRIOR_TOKENS)

    def counted_for(self, estimate: float) -> int:
        """Return the tokens that the provider will count for a request of `estimate` estimated tokens.

        The correction is bounded, so that a server that reports too few tokens, or omits cached ones, does not make a
        long request seem short.
        """
        expected = self.counted + (estimate - self.estimated) * self._ratio
        return max(
            round(
                min(
                    max(expected, estimate / MOST_OFF),
                    estimate * MOST_OFF + PRIOR_TOKENS,
                )
            ),
            0,
        )

    def estimate_for(self, counted: float) -> int:
        """Return the estimated tokens of a request for which the provider will count `counted` tokens."""
        expected = self.estimated + (counted - self.counted) / self._ratio
        return max(
            round(
                min(
                    max(expected, (counted - PRIOR_TOKENS) / MOST_OFF),
                    counted * MOST_OFF,
                )
            ),
            0,
        )


def measured(
    conversation: Conversation, model: str, fixed: Callable[[Sequence[str]], int]
) -> Measure:
    """Return the measure of the last request to this model with a reported count.

    `fixed` estimates the system prompt with tools of these names. Answers with tools of the provider are skipped,
    because it counts the conversation more than once for them.
    """
    for step in islice(reversed(conversation.steps), LOOKED_AT):
        if _tells(step, conversation.messages, model):
            return Measure(
                fixed(step.offered) + conversation.sent_tokens(step.place),
                step.usage.input_tokens,
            )
    return Measure()


def _tells(step: Step, messages: Sequence[Message], model: str) -> bool:
    if (
        step.model != model
        or step.usage.input_tokens <= 0
        or step.usage.requests > 1
        or step.place >= len(messages)
    ):
        return False
    for part in messages[step.place].parts:
        if isinstance(part, ProviderBlock) and part.data.get("type") in _SERVER_TOOLS:
            return False
    return True
