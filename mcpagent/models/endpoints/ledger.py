"""`Ledger`: the learned facts about one model at its address, in memory and in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mcpagent.models.endpoints.learned import (
    MOST_EVIDENCE,
    FactValue,
    Learned,
    LearnedFact,
    LearnedStore,
)
from mcpagent.models.failures_and_retries import Failure


@dataclass(slots=True)
class Ledger:
    """The facts about `model` at `base_url`, in memory; `store` shares them with other processes (None: it does
    not).
    """

    base_url: str
    model: str
    store: LearnedStore | None
    now: Callable[[], float]
    _facts: Learned | None = None
    _untried: set[str] = field(default_factory=set[str])

    def current(self) -> Learned:
        """Return the current facts, some of which may come from an earlier process; they expire after a day."""
        if self._facts is None:
            self._facts = self._stored() or Learned()
        self._facts = self._facts.current(self.now())
        return self._facts

    def learn(self, failure: Failure | None, found: dict[str, FactValue]) -> None:
        """Record facts, with the failure as their evidence.

        Facts from a failure are stored for other processes when a request that follows them succeeds (`confirm`), and
        forgotten if that request fails too (`forget_untried`).
        """
        evidence = ""
        if failure is not None:
            evidence = failure.message[:MOST_EVIDENCE]
        now = self.now()
        facts = [
            LearnedFact(what, value, evidence, now) for what, value in found.items()
        ]
        self._facts = self.current().with_facts(facts)
        if failure is None:
            self._save()
        else:
            self._untried.update(found)

    def confirm(self) -> None:
        """Store the facts from the failures before a successful answer."""
        if self._untried:
            self._untried.clear()
            self._save()

    def forget_untried(self) -> None:
        """Forget the facts from recent failures, because following them did not help: the failures had another
        reason.
        """
        if self._untried:
            self._facts = self.current().without(self._untried)
            self._untried.clear()

    def _stored(self) -> Learned | None:
        if self.store is None:
            return None
        return self.store.load(self.base_url, self.model)

    def _save(self) -> None:
        if self.store is not None:
            known = (self._stored() or Learned()).with_facts(
                self.current().facts.values()
            )
            self.store.save(self.base_url, self.model, known.without(self._untried))
