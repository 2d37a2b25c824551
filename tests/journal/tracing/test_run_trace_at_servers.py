"""What real servers are told of a trace: where the call stands, and nothing of its baggage."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from opentelemetry import baggage, context, trace

from mcpagent import Agent, RunOptions, ScriptedModel
from mcpagent.journal.tracing import Tracing
from mcpagent.values.messages import ToolResult
from tests.journal.tracing.conventions import METRICS, misfits
from tests.journal.tracing.traced import Traced, attribute
from tests.scenes import call
from tests.servers.everyday import serving
from tests.servers.meta_server import build

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parents[2] / "servers" / "meta_server.py"


@asynccontextmanager
async def configured(kind: Literal["stdio", "http"]) -> AsyncIterator[dict[str, Any]]:
    if kind == "stdio":
        yield {"mcpServers": {"meta": {"command": sys.executable, "args": ["-m", "tests.servers.meta_server"]}}}
        return
    async with serving(lambda _: build().streamable_http_app()) as address:
        yield {"mcpServers": {"meta": {"url": f"{address}/mcp"}}}


async def told(kind: Literal["stdio", "http"], tracing: Tracing | None) -> dict[str, Any]:
    """The `_meta` of one call."""
    model = ScriptedModel([call("show_meta"), call("refuse"), call("refuse_request"), "ok"])
    async with configured(kind) as config:
        wrappers = [tracing] if tracing is not None else []
        async with Agent(model, mcp_config=config, options=RunOptions(wrappers=wrappers)) as agent:
            await agent.ask("go")
            first = next(part for message in agent.messages for part in message.parts if isinstance(part, ToolResult))
    found: dict[str, Any] = json.loads(first.text)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_server_is_told_where_its_call_stands_with_the_state_of_the_caller_but_no_baggage(
    kind: Literal["stdio", "http"],
) -> None:
    traced = Traced()
    state = trace.TraceState([("vendor", "7")])
    above = trace.SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
    around = trace.set_span_in_context(trace.NonRecordingSpan(above))
    token = context.attach(baggage.set_baggage("user.email", "someone@example.org", around))
    try:
        meta = await told(kind, traced.tracing())
    finally:
        context.detach(token)
    called = traced.one("execute_tool show_meta")
    assert called.context is not None
    assert called.context.trace_id == 0xABC
    assert meta["traceparent"] == f"00-{0xABC:032x}-{called.context.span_id:016x}-01"
    assert meta["tracestate"] == "vendor=7"
    assert "baggage" not in meta
    assert "example.org" not in str(meta)
    # What MCP's conventions ask for stands on the span of the call: there is no second one.
    assert [problem for span in traced.spans for problem in misfits(span)] == []
    assert attribute(called, "network.transport") == ("pipe" if kind == "stdio" else "tcp")
    assert attribute(called, "gen_ai.tool.type") == "extension"
    assert attribute(called, "mcpagent.server") == "meta"
    assert attribute(traced.one("execute_tool refuse"), "error.type") == "tool_error"
    refused = traced.one("execute_tool refuse_request")
    assert attribute(refused, "rpc.response.status_code") == attribute(refused, "error.type") == "-32042"
    connected = traced.one("initialize meta")
    assert attribute(connected, "mcpagent.tools.count") == 3
    assert attribute(connected, "mcp.protocol.version")
    if kind == "http":
        assert attribute(called, "server.address") == "127.0.0.1"
    found = traced.metrics()["mcp.client.operation.duration"]
    _, required = METRICS["mcp.client.operation.duration"]
    assert {attributes["mcp.method.name"] for attributes, _ in found} == {"initialize", "tools/call"}
    assert all(set(required) <= set(attributes) for attributes, _ in found)


@pytest.mark.slow
async def test_without_a_trace_servers_are_told_nothing() -> None:
    assert "traceparent" not in await told("http", None)
    assert "traceparent" not in await told("http", Tracing())
