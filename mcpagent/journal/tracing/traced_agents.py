"""`Tracing`: a wrapper that traces the runs of an agent."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mcpagent.errors import ConfigError
from mcpagent.journal.tracing.content import SpanContent, is_captured
from mcpagent.journal.tracing.conventions import (
    Attributes,
    AttributeValue,
    transport_attributes,
)
from mcpagent.journal.tracing.open_spans import OpenSpan, OpenSpans, link_to
from mcpagent.journal.tracing.run_trace import RunTrace
from mcpagent.run.agent_run import AgentRun
from mcpagent.toolsets.definition import Definition
from mcpagent.toolsets.sources import AgentSources, OnChange, WrappedSources
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide_environment
from mcpagent.utilities.version import __version__
from mcpagent.values.events import (
    Emit,
    Event,
    ServerConnected,
    ServerConnecting,
    ServerFailed,
    guarded,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

logger = logging.getLogger("mcpagent")

FLUSH_SECONDS = 3.0
"""How long closing an agent waits for unsent spans."""


class Tracing:
    """A wrapper for `RunOptions(wrappers=[Tracing()])`: runs as spans of OpenTelemetry, by its GenAI conventions, and
    as metrics.

    They go to the `TracerProvider` and `MeterProvider` that the program has set up, or that are passed here. Without
    any, nothing is traced, at no cost. `Tracing.from_environment()` sets them up from the standard variables. `name` is
    the agent's name.

    Content is omitted unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is `true`. Spans never have secrets.
    """

    def __init__(
        self,
        *,
        name: str = "",
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        expect("name", name, str, "the agent's name as text")
        for kind, provider in (("tracer", tracer_provider), ("meter", meter_provider)):
            gives = partial(_gives, f"get_{kind}")
            expect(
                f"{kind}_provider",
                provider,
                object,
                f"a {kind.title()}Provider of OpenTelemetry",
                holds=gives,
            )
        self.agent_name = name
        self.content = SpanContent() if is_captured(os.environ) else None
        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self.problems: tuple[str, ...] = ()
        """Errors in the standard variables, one line each; the valid settings still apply."""
        self._flush: Callable[[], None] | None = None
        self._flush_seconds = FLUSH_SECONDS
        hide_environment(os.environ)

    @property
    def goes_somewhere(self) -> bool:
        """Return whether the caller passed a provider."""
        return self.tracer_provider is not None or self.meter_provider is not None

    @classmethod
    def from_environment(
        cls, *, name: str = "", flush_seconds: float = FLUSH_SECONDS
    ) -> Tracing:
        """Set up providers from OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_EXPORTER and related variables.

        Needs `mcpagent[otel]`. Never raises: mistakes are in `problems`. The end of an agent waits at most
        `flush_seconds` for spans that were not sent yet.
        """
        expect(
            "flush_seconds",
            flush_seconds,
            (int, float),
            "seconds",
            holds=lambda seconds: 0 <= seconds < 3_600,
        )
        from mcpagent.journal.tracing.otel_setup import providers_from_environment

        providers, problems = providers_from_environment(os.environ)
        tracing = cls(name=name)
        tracing.problems = problems
        if providers is not None:
            tracing.tracer_provider, tracing.meter_provider = (
                providers.tracers,
                providers.meters,
            )
            tracing._flush, tracing._flush_seconds = providers.flush, flush_seconds
        return tracing

    def __call__(self, definition: Definition) -> Definition:
        """Return the definition with tracing of its runs and of the connections of its servers."""
        spans = OpenSpans(
            tracers=self.tracer_provider,
            meters=self.meter_provider,
            version=__version__,
        )
        agent = _TracedAgent(self, spans, definition.sources)
        return replace(
            definition,
            sources=_TracedSources(definition.sources, agent),
            hears=(*definition.hears, guarded(agent.hear)),
            observe=agent.observe,
        )

    async def flush(self) -> None:
        """Send the waiting spans, in a bounded time, if `from_environment` has set up the providers."""
        if self._flush is not None:
            await _within(self._flush, self._flush_seconds)


class _TracedAgent:
    """Traces the runs of one agent, and the connections of its servers."""

    def __init__(
        self, tracing: Tracing, spans: OpenSpans, sources: AgentSources
    ) -> None:
        self.tracing = tracing
        self.spans = spans
        self.agent_name = tracing.agent_name
        self.content = tracing.content
        self._sources = sources
        self._connecting: dict[str, OpenSpan] = {}

    def observe(self, run: AgentRun, earlier: str) -> RunTrace | None:
        """Create the observer that traces a run; None if spans are not exported. `earlier` is the run that it
        continues.
        """
        try:
            return RunTrace(self, run, link_to(earlier)) if self.spans.is_on else None
        except Exception:
            logger.exception("tracing failed at the beginning of a run")
            return None

    def server_attributes(self, server: str) -> Attributes:
        """Return the attributes for the transport to a server; {} if it is unknown."""
        with suppress(Exception):  # a replay has no servers
            servers = self._sources.servers
            return transport_attributes(
                servers.configs[server], servers.statuses[server].protocol_version
            )
        return {}

    def hear(self, event: Event) -> None:
        """Create and end the spans of server connections."""
        if not isinstance(event, ServerConnecting | ServerConnected | ServerFailed):
            return
        span = self._connecting.pop(event.server, None)
        match event:
            case ServerConnecting():
                self._cancel(span)
                if self.spans.is_on:
                    name = safe_line(event.server, 64)
                    attributes: dict[str, AttributeValue] = {
                        "mcp.method.name": "initialize",
                        "mcpagent.server": name,
                    }
                    attributes |= self.server_attributes(event.server)
                    self._connecting[event.server] = self.spans.begin(
                        f"initialize {name}", attributes, kind="client"
                    )
            case ServerConnected() if span is not None:
                span.late |= {
                    "mcpagent.tools.count": event.tools,
                    **self.server_attributes(event.server),
                }
                self.spans.finish(span)
            case ServerFailed() if span is not None:
                span.error, span.failure = "ServerError", safe_line(event.reason, 300)
                self.spans.finish(span)

    def _cancel(self, span: OpenSpan | None) -> None:
        if span is not None:
            span.error = "cancelled"
            self.spans.finish(span)

    def open(self) -> None:
        """Check that OpenTelemetry is installed, before the agent starts. Raises `ConfigError`."""
        try:
            import opentelemetry.trace  # noqa: F401 - what holds the place in a trace
        except ImportError:
            raise ConfigError(
                "tracing needs OpenTelemetry's API; pip install 'mcpagent[otel]'"
            ) from None

    async def close(self) -> None:
        """End and send the remaining spans, after the agent was closed."""
        for span in self._connecting.values():
            self._cancel(span)
        self._connecting.clear()
        await self.tracing.flush()


class _TracedSources(WrappedSources):
    """The sources of a traced agent; tracing begins before them and ends after them."""

    def __init__(self, sources: AgentSources, agent: _TracedAgent) -> None:
        super().__init__(sources)
        self._agent = agent

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Begin tracing and open the sources; `exits` ends both."""
        self._agent.open()
        exits.push_async_callback(self._agent.close)
        await self.inside.open(exits, emit, on_change)


def tracing_wanted(environ: Mapping[str, str]) -> bool:
    """Return whether the standard variables request traces or metrics."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = [
        environ.get(f"OTEL_{kind}_EXPORTER", "").strip()
        for kind in ("TRACES", "METRICS")
    ]
    if any(name and name != "none" for name in exporters):
        return True
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return exporters[0] != "none" and any(
        environ.get(name, "").strip() for name in endpoints
    )


async def _within(work: Callable[[], None], seconds: float) -> None:
    """Run work that may block in a thread, and wait at most `seconds` for it."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def do() -> None:
        try:
            work()
        except Exception:
            logger.exception("traces could not be sent")
        # The caller may have stopped waiting, and closed the event loop.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=do, name="mcpagent-traces", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await done.wait()


def _gives(what: str, provider: object) -> bool:
    return provider is None or callable(getattr(provider, what, None))
