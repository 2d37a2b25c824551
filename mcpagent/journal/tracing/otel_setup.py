"""Set up OpenTelemetry's SDK from its standard variables; the only module that needs `mcpagent[otel]`.

The providers are not registered globally: otherwise the MCP SDK would add its own span to each request, with the text
of a server's errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

INSTALL = "pip install 'mcpagent[otel]'"
_PROTOCOLS = {
    "http/protobuf": "otlp_proto_http",
    "grpc": "otlp_proto_grpc",
    "http/json": "otlp_json_http",
}
FLUSH_MILLISECONDS = 10_000


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers of spans and of metrics; None if they are not exported."""

    tracers: TracerProvider | None
    meters: MeterProvider | None

    def flush(self) -> None:
        """Send the waiting spans and metrics. It blocks."""
        if self.tracers is not None:
            self.tracers.force_flush(FLUSH_MILLISECONDS)
        if self.meters is not None:
            self.meters.force_flush(FLUSH_MILLISECONDS)


def providers_from_environment(
    environ: Mapping[str, str],
) -> tuple[Providers | None, tuple[str, ...]]:
    """Return the providers, None if nothing is exported, and a line for each mistake.

    The SDK itself reads the variables of its exporters, queues and samplers from the process's environment.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None, ()
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    except ImportError:
        return None, (f"OTEL_... variables are set, but nothing is sent: {INSTALL}",)
    # Exporters log their failures; without this handler, Python would print them.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
    problems: list[str] = []
    try:
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "mcpagent"}))
    except Exception as error:  # noqa: BLE001 - a variable can have any value
        return None, (f"OTEL_...: {_line(error)}; nothing is sent",)
    tracers = _made(
        "TRACES", lambda name: _tracers(name, environ, resource), environ, problems
    )
    meters = _made(
        "METRICS", lambda name: _meters(name, environ, resource), environ, problems
    )
    return (
        Providers(tracers, meters)
        if tracers is not None or meters is not None
        else None
    ), tuple(problems)


def _made(
    kind: str,
    make: Callable[[str], Any],
    environ: Mapping[str, str],
    problems: list[str],
) -> Any:
    """Create the provider for the exporter that OTEL_<kind>_EXPORTER names."""
    variable = f"OTEL_{kind}_EXPORTER"
    name = environ.get(variable, "").strip().lower() or "otlp"
    if name == "none":
        return None
    try:
        return make(name)
    except Exception as error:  # noqa: BLE001 - exporters raise any exception, also for values that they cannot read
        problems.append(
            f"{variable}={safe_line(name, 40)}: {_line(error)}; {kind.lower()} are not sent"
        )
        return None


def _tracers(
    name: str, environ: Mapping[str, str], resource: Resource
) -> TracerProvider:
    import sys

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    # Print to stderr, because stdout is for the answer.
    exporter: Any = (
        ConsoleSpanExporter(out=sys.stderr)
        if name == "console"
        else _exporter("traces", name, environ)
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meters(name: str, environ: Mapping[str, str], resource: Resource) -> MeterProvider:
    import sys

    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        ConsoleMetricExporter,
        PeriodicExportingMetricReader,
    )

    exporter: Any = (
        ConsoleMetricExporter(out=sys.stderr)
        if name == "console"
        else _exporter("metrics", name, environ)
    )
    return MeterProvider(
        [PeriodicExportingMetricReader(exporter)],
        resource=resource,
        shutdown_on_exit=False,
    )


def _exporter(kind: str, name: str, environ: Mapping[str, str]) -> Any:
    """Create the exporter with this name from an installed package. Raises `ValueError` if it is missing."""
    from importlib.metadata import entry_points

    if name == "otlp":
        variables = (
            f"OTEL_EXPORTER_OTLP_{kind.upper()}_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        )
        protocol = next(
            (value for it in variables if (value := environ.get(it, "").strip())),
            "http/protobuf",
        )
        if protocol not in _PROTOCOLS:
            raise ValueError(
                f"protocol {safe_line(protocol, 40)} is none of {', '.join(_PROTOCOLS)}"
            )
        name = _PROTOCOLS[protocol]
    for found in entry_points(group=f"opentelemetry_{kind}_exporter", name=name):
        return found.load()()
    raise ValueError(
        f"no installed package has the exporter {safe_line(name, 60)}; {INSTALL} brings otlp over HTTP"
    )


def _line(error: Exception) -> str:
    return safe_line(f"{type(error).__name__}: {error}", 200)
