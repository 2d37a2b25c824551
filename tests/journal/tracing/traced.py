"""Runs traced into memory: the spans by name, who stands below whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcpagent.journal.tracing import Tracing


class Traced:
    """Providers of a program, with what they were given."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    def tracing(self, **options: Any) -> Tracing:
        """The wrapper that traces into it."""
        return Tracing(tracer_provider=self.provider, meter_provider=self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    @property
    def lines(self) -> list[str]:
        """The tree, each name behind two spaces for each step below the first; what began at once by name."""
        spans = self.spans
        below: dict[int | None, list[ReadableSpan]] = {}
        known = {_id(span) for span in spans}
        for span in spans:
            above = span.parent.span_id if span.parent is not None and span.parent.span_id in known else None
            below.setdefault(above, []).append(span)

        def walk(above: int | None, depth: int) -> list[str]:
            return [
                line
                for span in below.get(above, [])
                for line in (f"{'  ' * depth}{span.name}", *walk(_id(span), depth + 1))
            ]

        return walk(None, 0)

    def metrics(self) -> dict[str, list[tuple[Mapping[str, Any], Any]]]:
        """By name: the attributes and the point of each."""
        data = self._reader.get_metrics_data()
        found: dict[str, list[tuple[Mapping[str, Any], Any]]] = {}
        for resource in data.resource_metrics if data is not None else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found[metric.name] = [(point.attributes or {}, point) for point in metric.data.data_points]
                    self.units[metric.name] = metric.unit or ""
        return found

    units: dict[str, str] = {}  # noqa: RUF012 - of the last reading


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {}).get(name)
