"""Runs that outlive their process, on the engine DBOS (extra `durable`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.python import late_names

if TYPE_CHECKING:
    from mcpagent.durable.runs import DurableResult, DurableRun, DurableRuns

__all__ = ["DurableResult", "DurableRun", "DurableRuns"]

__getattr__, __dir__ = late_names(__name__, {"runs": ("DurableResult", "DurableRun", "DurableRuns")})
