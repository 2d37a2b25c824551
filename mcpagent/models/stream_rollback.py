"""Record the emitted deltas of an answer, so that a restart can report which of them are invalid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from mcpagent.values.events import (
    AnswerRestarted,
    Emit,
    Event,
    ProviderCallFinished,
    ProviderCallStarted,
    TextDelta,
    ThinkingDelta,
)

Delta: TypeAlias = (
    TextDelta | ThinkingDelta | ProviderCallStarted | ProviderCallFinished
)
"""A part of an answer that is emitted as it arrives."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The next piece of a call's arguments, as JSON text; only listeners that request it receive it."""

    name: str
    text: str


class ShownDeltas:
    """Passes events on, and records the emitted deltas of one answer. `keep` marks deltas that stay valid in a
    restart.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._deltas: list[Delta] = []
        self._kept = 0

    def __call__(self, event: Event) -> None:
        """Record the event and pass it on."""
        if isinstance(event, Delta):
            self._deltas.append(event)
        elif isinstance(
            event, AnswerRestarted
        ):  # a model in a chain reported the restart itself
            self._deltas, self._kept = [], 0
        self._emit(event)

    def keep(self) -> None:
        """Mark all deltas so far as part of the answer, even if the rest becomes invalid."""
        self._kept = len(self._deltas)

    @property
    def any_since_kept(self) -> bool:
        """Return whether a restart would invalidate deltas."""
        return len(self._deltas) > self._kept

    @property
    def any_text(self) -> bool:
        """Return whether a restart would invalidate text."""
        return any(isinstance(delta, TextDelta) for delta in self._deltas[self._kept :])

    def restart(self, reason: str) -> None:
        """Report that the deltas so far are invalid, if there are any, and emit the kept ones again."""
        if not self.any_since_kept:
            return
        kept, dropped = self._deltas[: self._kept], self._deltas
        self._deltas = kept
        self._emit(
            AnswerRestarted(
                reason,
                "".join(one.text for one in dropped if isinstance(one, TextDelta)),
            )
        )
        for delta in kept:
            self._emit(delta)
