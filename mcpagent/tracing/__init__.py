"""Traces and metrics of what agents do, for OpenTelemetry or in a file; `tracing.py` says where they go."""

from mcpagent.tracing.spans import Span as Span
from mcpagent.tracing.spans import SpanEvent as SpanEvent
from mcpagent.tracing.tracing import Tracing as Tracing

__all__ = ["Span", "SpanEvent", "Tracing"]
