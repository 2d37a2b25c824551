"""Warn a model that repeats its calls, or whose calls keep failing; if it continues, require an answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.middleware.progress import missing_of, progress_of
from mcpagent.run.run_parts import CallBatch, Stop
from mcpagent.values.limits.repeats import Repeats

_NOT_RUN = "This call was not run: an answer without further calls was asked for."


class Repetition(Middleware):
    """Counts repeated calls of a run, and stops a run that continues after a warning."""

    @contextmanager
    def around_run(self, run: AgentRun) -> Iterator[None]:
        """Begin with the calls that another process made for the same prompt."""
        run.tally.repeats = Repeats(run.hints.repeats_allowed)
        if len(run.conversation) > run.begins_at + 1:
            run.tally.repeats.count_all(run.conversation.messages[run.begins_at :])
        yield

    @contextmanager
    def around_calls(self, run: AgentRun, batch: CallBatch) -> Iterator[None]:
        """Refuse calls that the model was warned not to repeat, and count all others."""
        repeats = run.tally.repeats
        if not batch.is_resumed and repeats.goes_on_with(batch.calls):
            run.conversation.close_open_calls(_NOT_RUN)
            raise Stop("repeated_calls", final_note=repeats.reason)
        yield
        if not batch.is_resumed and len(batch.results) == len(batch.calls):
            words = repeats.count(batch.calls, batch.results)
            if run.hints.restates_progress:
                words = self._restated(run, batch, words)
            if words:
                run.conversation.announce(words)

    def _restated(self, run: AgentRun, batch: CallBatch, words: str) -> str:
        """Return the warning `words` with the progress. Without a warning, return the progress if the missing parts
        have changed, else "".
        """
        newest = list(zip(batch.calls, batch.results, strict=True))
        missing = missing_of(run, newest)
        if not words and (not missing or missing == run.tally.missing):
            return ""
        run.tally.missing = missing
        return " ".join(part for part in (words, progress_of(run, newest)) if part)
