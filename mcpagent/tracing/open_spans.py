"""Spans that are under way: begun with a place in the trace that is current, handed on when they are over.

What is current is OpenTelemetry's own context, whatever the spans are for: so spans of the caller's program stand above
ours, those of a tool function and of the HTTP client below them, and the MCP SDK tells servers where they stand.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcpagent.text.safe_text import safe_line
from mcpagent.tracing.conventions import INSTRUMENTS, measures_of
from mcpagent.tracing.spans import Attributes, AttributeValue, SpanEvent, SpanKind, TraceSpan

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanContext, Tracer, TracerProvider

    from mcpagent.tracing.trace_file import TraceFile

logger = logging.getLogger("mcpagent")


class OpenSpan:
    """A span that is not over. `context` has it as the current one; `late` are attributes that it ends with."""

    __slots__ = (
        "_clock",
        "attributes",
        "begun",
        "context",
        "ended",
        "error",
        "events",
        "failure",
        "is_over",
        "kind",
        "late",
        "links",
        "name",
        "otel",
        "parent_id",
    )

    def __init__(
        self, name: str, kind: SpanKind, attributes: dict[str, AttributeValue], begun: int, otel: OtelSpan
    ) -> None:
        self.name = name
        self.kind = kind
        self.attributes = attributes
        self.late: dict[str, AttributeValue] = {}
        self.events: list[SpanEvent] = []
        self.links: list[tuple[str, str]] = []
        self.begun = begun
        self.ended: int | None = None
        self.error = ""
        self.failure = ""
        self.is_over = False
        self.otel = otel
        self.parent_id = ""
        self.context: Context
        self._clock = time.perf_counter_ns()

    @property
    def ids(self) -> SpanContext:
        """Which it is."""
        return self.otel.get_span_context()

    def now(self) -> int:
        """The time in it, whatever happens to the clock of the machine meanwhile."""
        return self.begun + time.perf_counter_ns() - self._clock

    def stop(self) -> None:
        """It takes no more time; what came of it may still be told."""
        if self.ended is None:
            self.ended = self.now()

    def happened(self, name: str, attributes: Attributes | None = None) -> None:
        """Something happened in it, now."""
        self.events.append(SpanEvent(name, self.now(), attributes or {}))


class OpenSpans:
    """Begins spans and hands on those that are over: to a file, to OpenTelemetry, or to both.

    `tracers` and `meters` are OpenTelemetry's providers, None for those of the program.
    """

    def __init__(
        self,
        *,
        file: TraceFile | None,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
        service: str,
        version: str,
        redact: Callable[[str], str],
    ) -> None:
        self._file = file
        self._tracers = tracers
        self._meters = meters
        self._service = service
        self._version = version
        self._redact = redact
        self._tracer: Tracer | None = None
        self._histograms: dict[str, Histogram] = {}

    @property
    def is_on(self) -> bool:
        """Whether anybody takes spans: a program that has set up no OpenTelemetry does not."""
        if any(place is not None for place in (self._file, self._tracers, self._meters)):
            return True
        from opentelemetry import trace

        return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)

    def begin(
        self,
        name: str,
        attributes: Attributes,
        *,
        kind: SpanKind = "internal",
        parent: Context | None = None,
        links: Sequence[tuple[str, str]] = (),
        begun: int | None = None,
    ) -> OpenSpan:
        """A span below the one that is current, or that is so in `parent`."""
        from opentelemetry import context, trace

        name, clean = safe_line(self._redact(name), 200), self._clean(attributes)
        at, within = begun or time.time_ns(), context.get_current() if parent is None else parent
        above = trace.get_current_span(within).get_span_context()
        if self._tracer is None:
            self._tracer = trace.get_tracer("mcpagent", self._version, self._tracers)
        kinds = {"internal": trace.SpanKind.INTERNAL, "client": trace.SpanKind.CLIENT}
        targets = [trace.Link(_context_of(*link)) for link in links]
        otel = self._tracer.start_span(name, within, kinds[kind], clean, targets, at)
        ids = otel.get_span_context()
        if not ids.is_valid or ids.span_id == above.span_id:  # nobody has given it a place
            otel = trace.NonRecordingSpan(
                trace.SpanContext(
                    above.trace_id if above.is_valid else secrets.randbits(128) or 1,
                    secrets.randbits(64) or 1,
                    is_remote=False,
                    trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
                    trace_state=above.trace_state,
                )
            )
        span = OpenSpan(name, kind, clean, at, otel)
        span.context = trace.set_span_in_context(otel, within)
        span.links = [*links]
        span.parent_id = format(above.span_id, "016x") if above.is_valid else ""
        return span

    def finish(self, span: OpenSpan, attributes: Attributes | None = None, *, error: str = "") -> None:
        """Hands it on as it is now; a second time nothing."""
        if span.is_over:
            return
        span.is_over = True
        span.stop()
        assert span.ended is not None
        error = error or span.error
        late = self._clean({**span.late, **(attributes or {}), **({"error.type": error} if error else {})})
        events = tuple(SpanEvent(event.name, event.at, self._clean(event.attributes)) for event in span.events)
        value = TraceSpan(
            span.name,
            format(span.ids.trace_id, "032x"),
            format(span.ids.span_id, "016x"),
            parent_id=span.parent_id,
            begun=span.begun,
            ended=max(span.ended, span.begun),
            kind=span.kind,
            attributes=span.attributes | late,
            events=events,
            links=tuple(span.links),
            failed=bool(error),
            failure=self._redact(span.failure) if error else "",
            trace_state=span.ids.trace_state.to_header(),
        )
        self._to_otel(span.otel, value, late)
        if self._file is not None:
            self._file.write(value, self._service, self._version)
        self._measure(value, span.context)

    def _to_otel(self, otel: OtelSpan, value: TraceSpan, late: Attributes) -> None:
        if not otel.is_recording():
            return
        from opentelemetry.trace import Status, StatusCode

        otel.set_attributes(late)
        for event in value.events:
            otel.add_event(event.name, event.attributes, event.at)
        if value.failed:
            otel.set_status(Status(StatusCode.ERROR, value.failure or None))
        otel.end(value.ended)

    def _measure(self, value: TraceSpan, context: Context) -> None:
        from opentelemetry import metrics

        for measure in measures_of(value):
            histogram = self._histograms.get(measure.name)
            if histogram is None:
                unit, description, bounds = INSTRUMENTS[measure.name]
                meter = metrics.get_meter("mcpagent", self._version, self._meters)
                histogram = self._histograms[measure.name] = meter.create_histogram(
                    measure.name, unit, description, explicit_bucket_boundaries_advisory=bounds
                )
            histogram.record(measure.value, measure.attributes, context)

    def _clean(self, attributes: Attributes) -> dict[str, AttributeValue]:
        """The attributes without secrets."""
        return {name: self._clean_value(value) for name, value in attributes.items()}

    def _clean_value(self, value: AttributeValue) -> AttributeValue:
        if isinstance(value, str):
            return self._redact(value)
        return tuple(map(self._redact, value)) if isinstance(value, tuple) else value


@contextmanager
def current(span: OpenSpan) -> Iterator[None]:
    """Makes it the current one of OpenTelemetry, in this task and those it starts."""
    from opentelemetry import context

    token = context.attach(span.context)
    try:
        yield
    finally:
        context.detach(token)


def trace_parent(ids: SpanContext) -> str:
    """A place in a trace as the W3C writes it: `00-<trace>-<span>-<flags>`."""
    return f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"


def link_to(parent: str) -> tuple[tuple[str, str], ...]:
    """What `trace_parent` gave, as a link; none for anything else."""
    match parent.split("-"):
        case ["00", trace_id, span_id, _] if len(trace_id) == 32 and len(span_id) == 16 and _is_hex(trace_id + span_id):
            return ((trace_id, span_id),)
    return ()


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdef" for char in text)


def _context_of(trace_id: str, span_id: str) -> Any:
    from opentelemetry import trace

    return trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True)
