"""Estimate the tokens of a request, corrected by the last count of the provider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from mcpagent.history.conversation import Conversation
from mcpagent.models.sendable_history import SERVER_TOOLS
from mcpagent.values.messages import Message, ProviderBlock, Step

PRIOR_TOKENS = 2_000
"""The weight of the estimate in tokens, against the provider's count: the few hundred tokens that providers add do not
distort the ratio of short requests."""

LOOKED_AT = 8
"""The number of latest answers in which the size of a request is looked up."""

MOST_OFF = 2.0
"""The largest trusted ratio between count and estimate, in either direction; a larger one is a server's error. Above 1,
it includes the tokens that providers add."""

_SERVER_TOOLS = frozenset[str]().union(*SERVER_TOOLS.values())


@dataclass(frozen=True, slots=True)
class Measure:
    """The estimated size of a request and its provider's count; both 0 before the first request."""

    estimated: int = 0
    counted: int = 0

    @property
    def _ratio(self) -> float:
        return (self.counted + PRIOR_TOKENS) / (self.estimated + PRIOR_TOKENS)

    def counted_for(self, estimate: float) -> int:
        """Return the tokens that the provider will count for a request of so many estimated tokens.

        A server that reports too little, or omits tokens read from a cache, cannot make a long request short.
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
        """Return the estimated tokens that the provider will count as so many."""
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
    """Measure by the last answer of this model that reports a count.

    `fixed` estimates the system prompt with tools of these names.

    A provider that ran its own tools counted the conversation more than once.
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
