"""The search learns which tools a prompt needed, if the agent has a history of searches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.tool_search.usage_records import note_uses


class Learning(Middleware):
    """Note which tools were added and called in a run, also if it fails."""

    @contextmanager
    def around_run(self, run: AgentRun) -> Iterator[None]:
        """Note the calls in the messages that precede the run."""
        earlier = len(run.conversation)
        try:
            yield
        finally:
            note_uses(run.conversation, earlier, run.tools.options, run.emit)
