"""Runs as spans and metrics of OpenTelemetry, and as trees of steps (`mcpagent trace show`)."""

from mcpagent.journal.tracing.traced_agents import Tracing as Tracing

__all__ = ["Tracing"]
