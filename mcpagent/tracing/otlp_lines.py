"""Spans as lines of JSON, each an export request of OTLP, and back: what a collector's file receiver reads.

Format: opentelemetry-proto, `ExportTraceServiceRequest` in its JSON encoding (ids in hexadecimal, 64-bit numbers as
texts), one request a line as the collector's file exporter writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mcpagent.errors import InputError
from mcpagent.tracing.spans import Attributes, AttributeValue, SpanEvent, SpanKind, TraceSpan

BEGINNING = '{"resourceSpans":'
_KINDS: Mapping[SpanKind, int] = {"internal": 1, "client": 3}
_NAMES: Mapping[Any, SpanKind] = {3: "client", "SPAN_KIND_CLIENT": "client"}
_ERROR = (2, "STATUS_CODE_ERROR")


def otlp_line(span: TraceSpan, service: str, version: str) -> str:
    """The span as one line, with its line break."""
    status: dict[str, Any] = {"code": 2, "message": span.failure} if span.failed else {}
    document = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "traceState": span.trace_state,
        "parentSpanId": span.parent_id,
        "flags": 0x101,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.begun),
        "endTimeUnixNano": str(span.ended),
        "attributes": _written(span.attributes),
        "events": [
            {"timeUnixNano": str(event.at), "name": event.name, "attributes": _written(event.attributes)}
            for event in span.events
        ],
        "links": [{"traceId": trace_id, "spanId": span_id} for trace_id, span_id in span.links],
        "status": status,
    }
    scope = {"scope": {"name": "mcpagent", "version": version}, "spans": [document]}
    resource = {"resource": {"attributes": _written({"service.name": service})}, "scopeSpans": [scope]}
    return json.dumps({"resourceSpans": [resource]}, separators=(",", ":")) + "\n"


def spans_in(line: str, where: str) -> list[TraceSpan]:
    """The spans of one line, whoever wrote it. Raises `InputError` for what is no export request of OTLP."""
    try:
        document = json.loads(line)
        return [_span(span) for span in _documents(document)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = "no JSON" if isinstance(error, json.JSONDecodeError) else "no spans of OTLP"
        raise InputError(f"{where}: {what}; name a file that --trace or a collector's file exporter wrote") from None


def _documents(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in document["resourceSpans"]:
        for scope in resource.get("scopeSpans", ()):
            yield from scope.get("spans", ())


def _span(document: Mapping[str, Any]) -> TraceSpan:
    status = document.get("status") or {}
    return TraceSpan(
        str(document["name"]),
        str(document["traceId"]).lower(),
        str(document["spanId"]).lower(),
        parent_id=str(document.get("parentSpanId") or "").lower(),
        begun=int(document["startTimeUnixNano"]),
        ended=int(document["endTimeUnixNano"]),
        kind=_NAMES.get(document.get("kind"), "internal"),
        attributes=_read(document.get("attributes") or ()),
        events=tuple(
            SpanEvent(str(event["name"]), int(event.get("timeUnixNano", 0)), _read(event.get("attributes") or ()))
            for event in document.get("events") or ()
        ),
        links=tuple(
            (str(link["traceId"]).lower(), str(link["spanId"]).lower()) for link in document.get("links") or ()
        ),
        failed=status.get("code") in _ERROR,
        failure=str(status.get("message") or ""),
        trace_state=str(document.get("traceState") or ""),
    )


def _written(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}


def _read(attributes: Any) -> dict[str, AttributeValue]:
    return {str(item["key"]): _read_value(item.get("value") or {}) for item in attributes}


def _read_value(value: Mapping[str, Any]) -> AttributeValue:
    if "boolValue" in value:
        return bool(value["boolValue"])
    if "intValue" in value:
        return int(value["intValue"])
    if "doubleValue" in value:
        return float(value["doubleValue"])
    if "arrayValue" in value:
        return tuple(str(_read_value(item)) for item in value["arrayValue"].get("values", ()))
    return str(value.get("stringValue", "" if not value else json.dumps(value)))
