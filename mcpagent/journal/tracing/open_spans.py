"""Open spans, and the metrics that are recorded when they end.

The current span is in OpenTelemetry's context. So spans of the caller's program are above those of mcpagent, and spans
of a tool function and of the HTTP client are below them. The MCP SDK sends the current span to servers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from mcpagent.journal.tracing.conventions import (
    INSTRUMENTS,
    Attributes,
    AttributeValue,
    measures_of,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanContext, Tracer, TracerProvider

logger = logging.getLogger("mcpagent")


class OpenSpan:
    """A span in progress. In `context`, it is the current span; `late` are attributes that are added at its end.

    `error` is the type of the error that ends it, `failure` the text of the error. Times are nanoseconds since 1970.
    """

    __slots__ = (
        "_clock",
        "attributes",
        "begun",
        "context",
        "ended",
        "error",
        "failure",
        "is_over",
        "late",
        "otel",
    )

    def __init__(
        self,
        otel: OtelSpan,
        context: Context,
        attributes: dict[str, AttributeValue],
        begun: int,
    ) -> None:
        self.otel = otel
        self.context = context
        self.attributes = attributes
        self.late: dict[str, AttributeValue] = {}
        self.begun = begun
        self.ended: int | None = None
        self.error = ""
        self.failure = ""
        self.is_over = False
        self._clock = time.perf_counter_ns()

    @property
    def ids(self) -> SpanContext:
        """The IDs of the trace and of the span."""
        return self.otel.get_span_context()

    def now(self) -> int:
        """Return the current time, unaffected by changes of the machine's clock since the span began."""
        return self.begun + time.perf_counter_ns() - self._clock

    def stop(self) -> None:
        """Record the span's end time; attributes may still be added."""
        if self.ended is None:
            self.ended = self.now()


class OpenSpans:
    """Starts and ends spans. `tracers` and `meters` are OpenTelemetry's providers; None: those of the program."""

    def __init__(
        self,
        *,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
        version: str,
    ) -> None:
        self._tracers = tracers
        self._meters = meters
        self._version = version
        self._tracer: Tracer | None = None
        self._histograms: dict[str, Histogram] = {}

    @property
    def is_on(self) -> bool:
        """Return whether spans are exported; False if the program has not set up OpenTelemetry."""
        if self._tracers is not None or self._meters is not None:
            return True
        from opentelemetry import trace

        return not isinstance(
            trace.get_tracer_provider(),
            trace.ProxyTracerProvider | trace.NoOpTracerProvider,
        )

    def begin(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: Literal["internal", "client"] = "internal",
        parent: Context | None = None,
        links: Sequence[SpanContext] = (),
        begun: int | None = None,
    ) -> OpenSpan:
        """Begin a span below the current one, or below the one in the context `parent`."""
        from opentelemetry import context, trace

        if self._tracer is None:
            self._tracer = trace.get_tracer("mcpagent", self._version, self._tracers)
        clean, at = self._clean(attributes), begun or time.time_ns()
        if parent is None:
            within = context.get_current()
        else:
            within = parent
        shown = safe_line(without_secrets(name), 200)
        targets = [trace.Link(link) for link in links]
        otel = self._tracer.start_span(
            shown, within, trace.SpanKind[kind.upper()], clean, targets, at
        )
        return OpenSpan(otel, trace.set_span_in_context(otel, within), clean, at)

    def happened(self, span: OpenSpan, name: str, attributes: Attributes) -> None:
        """Add an event to the span with the current time."""
        span.otel.add_event(name, self._clean(attributes), span.now())

    def finish(self, span: OpenSpan) -> None:
        """End a span with its late attributes and its error, and update the metrics. A second call has no effect."""
        if span.is_over:
            return
        from opentelemetry.trace import Status, StatusCode

        span.is_over = True
        span.stop()
        assert span.ended is not None
        late = self._clean(
            {**span.late, **({"error.type": span.error} if span.error else {})}
        )
        span.otel.set_attributes(late)
        if span.error:
            span.otel.set_status(
                Status(StatusCode.ERROR, without_secrets(span.failure) or None)
            )
        ended = max(span.ended, span.begun)
        span.otel.end(ended)
        for name, value, about in measures_of(
            span.attributes | late, (ended - span.begun) / 1e9
        ):
            self._histogram(name).record(value, about, span.context)

    def _histogram(self, name: str) -> Histogram:
        from opentelemetry import metrics

        if name not in self._histograms:
            it = INSTRUMENTS[name]
            meter = metrics.get_meter("mcpagent", self._version, self._meters)
            self._histograms[name] = meter.create_histogram(
                name,
                it.unit,
                it.description,
                explicit_bucket_boundaries_advisory=it.bounds,
            )
        return self._histograms[name]

    def _clean(self, attributes: Attributes) -> dict[str, AttributeValue]:
        """Return the attributes without secrets."""
        return {name: self._clean_value(value) for name, value in attributes.items()}

    def _clean_value(self, value: AttributeValue) -> AttributeValue:
        if isinstance(value, str):
            return without_secrets(value)
        if isinstance(value, tuple):
            return tuple(map(without_secrets, value))
        return value


@contextmanager
def current(span: OpenSpan) -> Iterator[None]:
    """Make this the current span of OpenTelemetry, in this task and in tasks that it starts."""
    from opentelemetry import context

    token = context.attach(span.context)
    try:
        yield
    finally:
        context.detach(token)


def trace_parent(ids: SpanContext) -> str:
    """Return the IDs in the W3C format, `00-<trace>-<span>-<flags>`; "" if they are not valid."""
    if ids.is_valid:
        return f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"
    return ""


def link_to(parent: str) -> tuple[SpanContext, ...]:
    """Return the result of `trace_parent` as a target for links; () for any other text."""
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import (
        TraceContextTextMapPropagator,
    )

    within = TraceContextTextMapPropagator().extract({"traceparent": parent}, Context())
    ids = get_current_span(within).get_span_context()
    if ids.is_valid:
        return (ids,)
    return ()
