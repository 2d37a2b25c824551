"""Attributes of spans, and metrics, by OpenTelemetry's conventions; mcpagent's own names begin with `mcpagent.`.

Source: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai: agent spans, client inference, execute tool,
retrievals, MCP, metrics; as of autumn 2026. `content.py` builds attributes with content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from mcpagent.config import ServerConfig
from mcpagent.errors import ModelError
from mcpagent.models.base import Model, ModelResponse, ResponseStop
from mcpagent.models.model_settings import ModelSettings
from mcpagent.run.run_parts import ToolOffer
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import ConversationCompacted, ToolsSearched
from mcpagent.values.messages import Spent, ToolResult, Usage
from mcpagent.values.tools import Tool

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Provider names of mcpagent -> names in the conventions, if they differ."""

FINISHED: Mapping[ResponseStop, str] = {
    "end": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "refusal": "content_filter",
}
"""The reasons for the end of an answer, as named in the schemas of messages."""

_METHODS = {"tool": "tools/call", "prompt": "prompts/get", "resource": "resources/read"}


def _known(
    attributes: Mapping[str, AttributeValue | None],
) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}


def _float(value: float | None) -> float | None:
    if value is None:
        return None
    return float(value)


def model_attributes(model: Model) -> dict[str, AttributeValue]:
    """Return the attributes for the provider and the model; for a chain of models, those of the first one."""
    first = model.name.partition(",")[0].strip()
    provider, colon, name = first.partition(":")
    return {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider) or "unknown",
        "gen_ai.request.model": safe_line(name if colon else provider, 120),
        **address_attributes(
            str(getattr(getattr(model, "endpoint", None), "base_url", ""))
        ),
    }


def address_attributes(url: str) -> dict[str, AttributeValue]:
    """Return the attributes for host and port of an address; {} if it has no host."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme in ("http", "ws") else 443)
    except ValueError:
        return {}
    if parts.hostname:
        return {"server.address": parts.hostname, "server.port": port}
    return {}


def settings_attributes(settings: ModelSettings) -> dict[str, AttributeValue]:
    """Return the attributes for the settings of a request."""
    return _known(
        {
            "gen_ai.request.max_tokens": settings.max_output_tokens,
            "gen_ai.request.temperature": _float(settings.temperature),
            "gen_ai.request.top_p": _float(settings.top_p),
            "gen_ai.request.seed": settings.seed,
            "gen_ai.request.stop_sequences": settings.stop or None,
            "gen_ai.request.reasoning.level": settings.thinking
            if isinstance(settings.thinking, str)
            else None,
        }
    )


def offer_attributes(
    turn: int, names: tuple[str, ...], offer: ToolOffer
) -> dict[str, AttributeValue]:
    """Return the attributes for the tools that a request offers; token counts are estimates of their definitions."""
    return {
        "mcpagent.turn": turn,
        "mcpagent.tools.offered": names,
        "mcpagent.tools.offered_count": len(names),
        "mcpagent.tools.offered_tokens": offer.offered_tokens,
        "mcpagent.tools.known_count": offer.known_tools,
        "mcpagent.tools.saved_tokens": offer.saved_tokens,
    }


def response_attributes(response: ModelResponse) -> dict[str, AttributeValue]:
    """Return the attributes of an answer: its model, the reason for its end, and its usage."""
    origin = response.message.origin
    found: dict[str, AttributeValue | None] = {
        "gen_ai.response.finish_reasons": (FINISHED[response.stop],),
        "mcpagent.cost.usd": _float(response.dollars),
    }
    if origin is not None and origin.model:
        found["gen_ai.response.model"] = safe_line(origin.model, 120)
        found["gen_ai.provider.name"] = _PROVIDERS.get(origin.provider, origin.provider)
    return _known(found) | usage_attributes(response.usage)


def usage_attributes(usage: Usage) -> dict[str, AttributeValue]:
    """Return the attributes for token counts; the input includes tokens read from and written to the cache."""
    written = usage.cache_write_tokens or None
    return _known(
        {
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens or None,
            "gen_ai.usage.cache_write.input_tokens": written,
            "gen_ai.usage.cache_creation.input_tokens": written,  # the name before version 0.1.0 of the conventions
        }
    )


def spent_attributes(spent: Spent) -> dict[str, AttributeValue]:
    """Return the usage of a run as attributes."""
    if spent.cost_known:
        dollars = float(spent.dollars)
    else:
        dollars = None
    own = {
        "mcpagent.cost.usd": dollars,
        "mcpagent.tools.saved_tokens": spent.saved_tokens,
    }
    return usage_attributes(spent.usage) | _known(own)


def call_attributes(name: str, call_id: str) -> dict[str, AttributeValue]:
    """Return the attributes of every call, even of one that did not run."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": safe_line(name, 80),
        "gen_ai.tool.call.id": safe_line(call_id, 120),
        "gen_ai.tool.type": "function",
    }


def asked_attributes(
    tool: Tool, arguments: dict[str, Any]
) -> dict[str, AttributeValue]:
    """Return the attributes for the server of a call, and its tool, prompt or resource; {} for a function."""
    asked = tool.asked(arguments)
    if asked.server is None:
        return {}
    return _known(
        {
            "gen_ai.tool.type": "extension",
            "mcp.method.name": _METHODS[asked.kind],
            "mcpagent.server": safe_line(asked.server, 64),
            "gen_ai.prompt.name": safe_line(asked.original_name, 120)
            if asked.kind == "prompt"
            else None,
            "mcp.resource.uri": safe_line(asked.original_name, 500)
            if asked.kind == "resource"
            else None,
        }
    )


def result_error(result: ToolResult, *, is_servers: bool) -> str:
    """Return the `error.type` of a call; for a tool's own error on a server (`is_servers`), MCP's name for it."""
    if result.error == "failed" and is_servers:
        return "tool_error"
    return result.error or ""


def search_attributes(found: ToolsSearched) -> dict[str, AttributeValue]:
    """Return the attributes for the result of a search, without its query, which is content."""
    return {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "tools",
        "mcpagent.search.found": found.found,
        "mcpagent.search.matches": found.matches,
        "mcpagent.tools.known_count": found.known,
    }


def compacted_attributes(made: ConversationCompacted) -> dict[str, AttributeValue]:
    """Return the attributes for the effect of a compaction: tokens of a request, messages and results."""
    return {
        "mcpagent.tokens.before": made.tokens_before,
        "mcpagent.tokens.after": made.tokens_after,
        "mcpagent.messages.summarised": made.summarised,
        "mcpagent.results.shortened": made.shortened,
    }


def transport_attributes(
    config: ServerConfig, protocol_version: str
) -> dict[str, AttributeValue]:
    """Return the attributes for the transport to a server."""
    is_remote = bool(config.url or config.openapi)
    found = {
        "network.transport": "tcp" if is_remote else "pipe",
        "network.protocol.name": "http" if is_remote else None,
        "mcp.protocol.version": safe_line(protocol_version, 40) or None,
    }
    return _known(found) | address_attributes(config.address)


def error_type(error: BaseException) -> str:
    """Return the type of an error: an HTTP status, "cancelled", "timeout", or the name of the exception."""
    if isinstance(error, ModelError) and error.status is not None:
        return str(error.status)
    if isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt):
        return "cancelled"
    if isinstance(error, TimeoutError):
        return "timeout"
    return type(error).__name__


# -- Metrics -----------------------------------------------------------------------------------------------------------

_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(4**power for power in range(14))
_MODEL = ("gen_ai.provider.name", "gen_ai.request.model")
_ADDRESS = ("server.address", "server.port")


@dataclass(frozen=True, slots=True)
class Instrument:
    """A histogram, and the attributes that its values copy from their span."""

    description: str
    attributes: tuple[str, ...]
    unit: str = "s"
    bounds: tuple[float, ...] = _SECONDS


_REQUEST = ("gen_ai.operation.name", *_MODEL, "gen_ai.response.model", *_ADDRESS)
_OF_OPERATION = {
    "chat": "gen_ai.client.operation.duration",
    "invoke_agent": "gen_ai.invoke_agent.duration",
    "execute_tool": "gen_ai.execute_tool.duration",
}
_OF_SERVERS = "mcp.client.operation.duration"
INSTRUMENTS: Mapping[str, Instrument] = {
    "gen_ai.client.operation.duration": Instrument(
        "GenAI operation duration.", (*_REQUEST, "error.type")
    ),
    "gen_ai.client.token.usage": Instrument(
        "Number of input and output tokens used.",
        _REQUEST,
        unit="{token}",
        bounds=_TOKENS,
    ),
    "gen_ai.invoke_agent.duration": Instrument(
        "Duration of one answer of an agent.",
        ("gen_ai.operation.name", *_MODEL, "gen_ai.agent.name", "error.type"),
    ),
    "gen_ai.execute_tool.duration": Instrument(
        "Duration of one tool execution.",
        ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "error.type"),
    ),
    "mcp.client.operation.duration": Instrument(
        "Duration of an MCP request, as its sender sees it.",
        (
            *(
                "gen_ai.operation.name",
                "mcp.method.name",
                "gen_ai.tool.name",
                "gen_ai.prompt.name",
                "error.type",
            ),
            *(
                "mcp.protocol.version",
                "network.transport",
                "network.protocol.name",
                *_ADDRESS,
            ),
        ),
    ),
}


def measures_of(
    span: Attributes, seconds: float
) -> Iterator[tuple[str, float, Attributes]]:
    """Yield the values that a finished span adds to the metrics: instrument, value, attributes."""

    def attributes(instrument: str) -> dict[str, AttributeValue]:
        return {
            name: span[name]
            for name in INSTRUMENTS[instrument].attributes
            if name in span
        }

    operation = span.get("gen_ai.operation.name")
    if (instrument := _OF_OPERATION.get(str(operation))) is not None:
        yield instrument, seconds, attributes(instrument)
    if "mcp.method.name" in span:
        yield _OF_SERVERS, seconds, attributes(_OF_SERVERS)
    for kind in ("input", "output") if operation == "chat" else ():
        tokens = span.get(f"gen_ai.usage.{kind}_tokens")
        if isinstance(tokens, int) and tokens:
            name = "gen_ai.client.token.usage"
            yield name, tokens, attributes(name) | {"gen_ai.token.type": kind}
