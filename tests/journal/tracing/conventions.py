"""What OpenTelemetry's conventions ask of the spans and metrics of agents, as a table, and whether they have it.

Source: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai: gen-ai-agent-spans.md (invoke agent
internal), client-inference.md, gen-ai-spans.md (execute tool, retrievals), mcp.md (client), gen-ai-metrics.md; and
docs/registry/attributes of open-telemetry/semantic-conventions for `server.*`, `network.*`, `error.type`. Read in
November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

TEXTS = tuple[str, ...]

TYPES: Mapping[str, Any] = {
    "error.type": str,
    "gen_ai.agent.name": str,
    "gen_ai.conversation.id": str,
    "gen_ai.data_source.id": str,
    "gen_ai.input.messages": str,
    "gen_ai.operation.name": str,
    "gen_ai.output.messages": str,
    "gen_ai.prompt.name": str,
    "gen_ai.provider.name": str,
    "gen_ai.request.max_tokens": int,
    "gen_ai.request.model": str,
    "gen_ai.request.reasoning.level": str,
    "gen_ai.request.seed": int,
    "gen_ai.request.stop_sequences": TEXTS,
    "gen_ai.request.stream": bool,
    "gen_ai.request.temperature": float,
    "gen_ai.request.top_p": float,
    "gen_ai.response.finish_reasons": TEXTS,
    "gen_ai.response.model": str,
    "gen_ai.response.time_to_first_chunk": float,
    "gen_ai.retrieval.query.text": str,
    "gen_ai.system_instructions": str,
    "gen_ai.tool.call.arguments": str,
    "gen_ai.tool.call.id": str,
    "gen_ai.tool.call.result": str,
    "gen_ai.tool.definitions": str,
    "gen_ai.tool.description": str,
    "gen_ai.tool.name": str,
    "gen_ai.tool.type": str,
    "gen_ai.usage.cache_creation.input_tokens": int,
    "gen_ai.usage.cache_read.input_tokens": int,
    "gen_ai.usage.cache_write.input_tokens": int,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "jsonrpc.request.id": str,
    "mcp.method.name": str,
    "mcp.protocol.version": str,
    "mcp.resource.uri": str,
    "network.protocol.name": str,
    "network.transport": str,
    "rpc.response.status_code": str,
    "server.address": str,
    "server.port": int,
}
"""Every attribute of the conventions that we use, and the type they give it; content is JSON in a text."""

OPT_IN = frozenset(
    "gen_ai.input.messages gen_ai.output.messages gen_ai.system_instructions gen_ai.tool.definitions "  # noqa: SIM905
    "gen_ai.tool.call.arguments gen_ai.tool.call.result gen_ai.retrieval.query.text gen_ai.tool.description".split()
)
"""What is there only when content is captured."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Of the spans of one operation: their kind, the attributes that name them, and those they must have.

    `recommended` are those that we always have, too.
    """

    kind: SpanKind
    named_by: tuple[str, ...]
    required: tuple[str, ...]
    recommended: tuple[str, ...] = ()
    may_fail_with: frozenset[str] = field(default_factory=frozenset[str])


SPANS: Mapping[str, Asked] = {
    "invoke_agent": Asked(
        SpanKind.INTERNAL,
        ("gen_ai.operation.name", "gen_ai.agent.name"),
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.conversation.id"),
        ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    ),
    "chat": Asked(
        SpanKind.CLIENT,
        ("gen_ai.operation.name", "gen_ai.request.model"),
        (
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.conversation.id",
            "gen_ai.request.stream",
        ),
    ),
    "execute_tool": Asked(
        SpanKind.INTERNAL,
        ("gen_ai.operation.name", "gen_ai.tool.name"),
        ("gen_ai.operation.name", "gen_ai.tool.name"),
        ("gen_ai.tool.call.id", "gen_ai.tool.type"),
    ),
    "retrieval": Asked(
        SpanKind.INTERNAL,
        ("gen_ai.operation.name", "gen_ai.data_source.id"),
        ("gen_ai.operation.name", "gen_ai.data_source.id"),
    ),
    "initialize": Asked(
        SpanKind.CLIENT, ("mcp.method.name", "mcpagent.server"), ("mcp.method.name",), ("network.transport",)
    ),
    "approval": Asked(SpanKind.INTERNAL, (), ("gen_ai.tool.name",)),
}
"""By operation; `initialize` is MCP's, `approval` our own."""

OF_MCP = ("mcp.method.name", "jsonrpc.request.id", "network.transport", "mcp.protocol.version")
"""What a call on an MCP server has besides."""

METRICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gen_ai.client.operation.duration": (
        "s",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"),
    ),
    "gen_ai.client.token.usage": (
        "{token}",
        ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.token.type"),
    ),
    "gen_ai.invoke_agent.duration": ("s", ("gen_ai.operation.name",)),
    "gen_ai.execute_tool.duration": ("s", ("gen_ai.operation.name", "gen_ai.tool.name")),
    "mcp.client.operation.duration": ("s", ("mcp.method.name",)),
}
"""Unit, and the attributes that each point must have."""


def operation(span: ReadableSpan) -> str:
    """The row of the table that is about it."""
    attributes = span.attributes or {}
    return str(attributes.get("gen_ai.operation.name") or span.name.split()[0])


def misfits(span: ReadableSpan) -> list[str]:
    """What a span has that the conventions do not allow, or lacks."""
    attributes, asked = span.attributes or {}, SPANS[operation(span)]
    found = [f"lacks {name}" for name in (*asked.required, *asked.recommended) if name not in attributes]
    for name, value in attributes.items():
        if name.startswith("mcpagent."):
            continue
        if name not in TYPES:
            found.append(f"{name} is in no convention")
        elif not _is(value, TYPES[name]):
            found.append(f"{name} is {value!r}")
    if span.kind is not asked.kind:
        found.append(f"is of kind {span.kind}")
    expected = " ".join(str(attributes[name]) for name in asked.named_by if name in attributes)
    if asked.named_by and span.name != expected:
        found.append(f"is called {span.name!r}, not {expected!r}")
    if (span.status.status_code is StatusCode.ERROR) is not ("error.type" in attributes):
        found.append(f"has the status {span.status.status_code} with error.type {attributes.get('error.type')}")
    return [f"{span.name}: {problem}" for problem in (*found, *_misfits_of_servers(attributes))]


def _misfits_of_servers(attributes: Mapping[str, Any]) -> list[str]:
    """What goes together, of who was asked."""
    found = []
    if attributes.get("rpc.response.status_code", attributes.get("error.type")) != attributes.get("error.type"):
        found.append("has another error.type than the code of the error")
    if "server.address" in attributes and "server.port" not in attributes:
        found.append("lacks server.port")
    if attributes.get("mcp.method.name") == "tools/call":
        found += [f"lacks {name}" for name in OF_MCP if name not in attributes]
    return found


def _is(value: Any, kind: Any) -> bool:
    if kind is TEXTS:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
