"""Traces and metrics of what agents do, for OpenTelemetry or in a file; `traced_agents.py` says where they go."""

from mcpagent.tracing.spans import SpanEvent as SpanEvent
from mcpagent.tracing.spans import TraceSpan as TraceSpan
from mcpagent.tracing.traced_agents import Tracing as Tracing

__all__ = ["SpanEvent", "TraceSpan", "Tracing"]
