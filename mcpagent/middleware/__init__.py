"""The middleware that every run passes through. `PIPELINE` is the list, in order."""

from __future__ import annotations

from mcpagent.middleware.journal import Journal
from mcpagent.middleware.limiting import Limiting
from mcpagent.middleware.noting_uses import Learning
from mcpagent.middleware.offloading import Offloading
from mcpagent.middleware.permission_gate import Permissions
from mcpagent.middleware.repetition import Repetition
from mcpagent.middleware.reporting import Reporting
from mcpagent.middleware.shortening import Shortening
from mcpagent.run import Middleware

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
"""Tracing and recording follow, if the agent has them."""
