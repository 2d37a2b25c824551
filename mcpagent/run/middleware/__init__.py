"""The middleware that every run passes through. `PIPELINE` is the ordered list."""

from __future__ import annotations

from mcpagent.run.agent_run import Middleware
from mcpagent.run.middleware.compacting_requests import Shortening
from mcpagent.run.middleware.journaling import Journal
from mcpagent.run.middleware.learning_from_runs import Learning
from mcpagent.run.middleware.limiting import Limiting
from mcpagent.run.middleware.offloading import Offloading
from mcpagent.run.middleware.permission_gate import Permissions
from mcpagent.run.middleware.repetition import Repetition
from mcpagent.run.middleware.reporting import Reporting

PIPELINE: tuple[Middleware, ...] = (
    Reporting(),
    Learning(),
    Shortening(),
    Limiting(),
    Journal(),
    Repetition(),
    Offloading(),
    Permissions(),
)
"""The middleware of every run. If the agent has tracing and recording, they come after these."""
