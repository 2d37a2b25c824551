"""Record for learning which tools a prompt needed, if the agent has a search history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.tool_search.usage_records import note_uses


class Learning(Middleware):
    """Records which tools were added and called in a run, even if the run fails."""

    @contextmanager
    def around_run(self, run: AgentRun) -> Iterator[None]:
        """Record the uses in the messages that this run adds."""
        earlier = len(run.conversation)
        try:
            yield
        finally:
            note_uses(run.conversation, earlier, run.tools.options, run.emit)
