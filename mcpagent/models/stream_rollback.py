"""Record the shown deltas of an answer, so that a restart can report the dropped ones."""

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
"""A part of an answer that is shown while it arrives."""


@dataclass(frozen=True, slots=True)
class CallDelta:
    """The next piece of a call's arguments, as JSON text; only a listener that requested it gets it."""

    name: str
    text: str


class ShownDeltas:
    """Passes events on and records the shown deltas of one answer. `keep` marks the ones that a restart repeats."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._deltas: list[Delta] = []
        self._kept = 0

    def __call__(self, event: Event) -> None:
        """Pass the event on."""
        if isinstance(event, Delta):
            self._deltas.append(event)
        elif isinstance(
            event, AnswerRestarted
        ):  # a model in a chain reported its own answer
            self._deltas, self._kept = [], 0
        self._emit(event)

    def keep(self) -> None:
        """Keep all deltas shown so far as part of the answer, even if its rest is dropped."""
        self._kept = len(self._deltas)

    @property
    def any_since_kept(self) -> bool:
        """True if a restart would drop deltas."""
        return len(self._deltas) > self._kept

    @property
    def any_text(self) -> bool:
        """True if a restart would drop text."""
        return any(isinstance(delta, TextDelta) for delta in self._deltas[self._kept :])

    def restart(self, reason: str) -> None:
        """Emit that the shown deltas are dropped, if there are any, and emit the kept ones again."""
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
