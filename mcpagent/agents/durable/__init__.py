"""Durable runs: the engine DBOS (extra `durable`) queues them, and their sessions store them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.agents.durable.runs import DurableRun, DurableRuns
    from mcpagent.journal.sessions.run_ended import DurableResult

__all__ = ["DurableResult", "DurableRun", "DurableRuns"]

__getattr__, __dir__ = late_names(
    __name__, {"runs": ("DurableResult", "DurableRun", "DurableRuns")}
)
