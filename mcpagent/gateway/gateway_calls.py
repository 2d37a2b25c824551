"""Requests of a client to a server: permissions, forwarding, and errors for each kind of failure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp import MCPError

from mcpagent.errors import InputError
from mcpagent.gateway.asking_client import Caller
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.offered_tools import OfferedTool
from mcpagent.gateway.upstreams import Upstreams
from mcpagent.mcp.lists.pins import ChangedToolError, ToolChange
from mcpagent.mcp.request_failures import (
    REQUEST_FAILURES,
    RefusedError,
    RequestFailure,
    failed_output,
)
from mcpagent.mcp.server_link import redacted
from mcpagent.permissions.decision import CallFacts, Decision, decide
from mcpagent.run.validation import output_problem
from mcpagent.utilities.text.safe_text import safe_line, with_codes
from mcpagent.values.messages import Text

OUTCOME = "mcpagent/outcome"
"""The key in a result's `_meta` for the outcome of a call that failed on its way (`mcp/outcomes.py`)."""

RESOURCE_NOT_FOUND = -32002
_OF_THIS_HOP = ("io.modelcontextprotocol/", "progressToken")
_RUN_IT = "run"


def error_result(text: str, outcome: str) -> dict[str, Any]:
    """Return a tool result that reports a failed call, with the outcome for programs."""
    block = {"type": "text", "text": text}
    return {"content": [block], "isError": True, "_meta": {OUTCOME: outcome}}


def text_result(text: str) -> dict[str, Any]:
    """Return a tool's result of one text."""
    return {"content": [{"type": "text", "text": text}]}


async def call_on_server(
    upstreams: Upstreams,
    caller: Caller,
    tool: OfferedTool,
    arguments: dict[str, Any],
    meta: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Call a tool if the rules allow it. Return the server's result, or a result with the reason for a failure.

    Raises `MCPError` for the server's own JSON-RPC error.
    """
    refusal = await _refused(upstreams.options, caller, tool, arguments)
    if refusal:
        return error_result(refusal, "not_sent")
    sent = {
        "name": tool.listed.original_name,
        "arguments": tool.arguments(arguments),
        **_meta_for(meta, caller.log_level),
    }
    request = types.CallToolRequest(
        params=types.CallToolRequestParams.model_validate(sent)
    )
    try:
        async with upstreams.using(tool.server, caller) as link:
            result = await link.call_for_client(
                request, tool.listed, caller.on_progress
            )
    except ChangedToolError as error:
        upstreams.forget_lists()
        return error_result(withheld_text(error.change), "not_sent")
    except InputError as error:
        return error_result(str(error), "not_sent")
    except RefusedError as error:
        raise _own_error(error) from None
    except REQUEST_FAILURES as error:
        return error_result(_text_of(error), outcome_of_failure(error))
    if tool.withheld is not None:
        upstreams.forget_lists()
    upstreams.note_links(tool.server, result)
    return await _held_to_schema(tool, result)


async def _held_to_schema(tool: OfferedTool, result: dict[str, Any]) -> dict[str, Any]:
    """Return the result; if it violates the tool's output schema, as an error with all of its content.

    Clients check the schema, too, and some discard such a result.
    """
    schema = tool.wire.get("outputSchema")
    if schema is None or result.get("isError"):
        return result
    problem = await output_problem(schema, result.get("structuredContent"))
    if not problem:
        return result
    why = safe_line(problem, 300)
    text = f"its server ran it, and the result does not fit its output schema: {why}"
    blocks = [*(result.get("content") or ()), {"type": "text", "text": text}]
    return {**result, "content": blocks, "isError": True}


def withheld_text(change: ToolChange) -> str:
    """Return the refusal for a changed tool, with the difference and the command that accepts it."""
    lines = "; ".join(change.lines)
    how = f"mcpagent trust tool {safe_line(f'{change.server}.{change.tool}', 140)}"
    return f"{change.refusal}. The change: {lines}. To allow it: {how}"


async def forward(
    upstreams: Upstreams,
    caller: Caller,
    server: str,
    request: types.Request[Any, Any],
    target: str,
) -> dict[str, Any]:
    """Send a request other than a call to a server; return its result. Raises `MCPError` with the cause."""
    try:
        async with upstreams.using(server, caller) as link:
            progress = caller.on_progress
            return await redacted(await link.ask(request, target, on_progress=progress))
    except InputError as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None
    except RefusedError as error:
        raise _own_error(error) from None
    except REQUEST_FAILURES as error:
        data = {OUTCOME: outcome_of_failure(error)}
        text = _text_of(error)
        raise MCPError(code=types.INTERNAL_ERROR, message=text, data=data) from None


def meta_of(params: Any) -> dict[str, Any]:
    """Return the `_meta` of a request's parameters, as JSON."""
    if params.meta is None:
        return {}
    return dict(params.meta)


def _meta_for(meta: Mapping[str, Any] | None, log_level: str | None) -> dict[str, Any]:
    """Return the client's `_meta` for the server, without the fields that apply to the client's connection only.

    A server of the 2026 protocol sends log messages of the level that the request names.
    """
    kept = {
        key: value
        for key, value in (meta or {}).items()
        if not key.startswith(_OF_THIS_HOP) and key != "progress_token"
    }
    if log_level is not None:
        kept[types.LOG_LEVEL_META_KEY] = log_level
    if kept:
        return {"_meta": kept}
    return {}


def _own_error(error: RefusedError) -> MCPError:
    return MCPError(code=error.code, message=error.message, data=error.data)


def outcome_of_failure(error: RequestFailure) -> str:
    """Return the outcome of a failed request; "not_sent" if the connection could not be opened."""
    return str(getattr(error, "outcome", "not_sent"))


def _text_of(error: RequestFailure) -> str:
    [part] = failed_output(error).content
    if isinstance(part, Text):
        return part.text
    return str(error)


async def _refused(
    options: GatewayOptions,
    caller: Caller,
    tool: OfferedTool,
    arguments: dict[str, Any],
) -> str:
    """Return why a call is not sent, or ""."""
    judged = tool.shown
    decision = decide(CallFacts(judged, arguments, tool.rules), options.rules())
    named = safe_line(f"{tool.server}.{tool.listed.original_name}", 140)
    if decision.verdict == "deny":
        return f"denied: {named} ({decision})"
    if decision.verdict == "allow" or options.asking == "client":
        return ""
    can_elicit = "elicitation/create" in caller.client.methods()
    if options.asking == "deny" or not can_elicit:
        why = f"it needs approval ({decision}), and no one can be asked here"
        return f"denied: {named}: {why}; a rule can allow it: --allow {named}"
    return await _asked(caller, named, arguments, decision)


async def _asked(
    caller: Caller, named: str, arguments: dict[str, Any], decision: Decision
) -> str:
    """Ask the client's user about one call; return the refusal, or ""."""
    schema = {
        "type": "object",
        "properties": {_RUN_IT: {"type": "boolean", "title": f"Run {named}?"}},
        "required": [_RUN_IT],
    }
    shown = with_codes(json.dumps(arguments, ensure_ascii=False))
    message = f"{named} is to be called with {shown} ({decision})"
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    answer = await caller.ask(types.ElicitRequest(params=params))
    content = getattr(answer, "content", None) or {}
    if getattr(answer, "action", "") == "accept" and content.get(_RUN_IT) is True:
        return ""
    return f"denied: {named}: the user did not approve it"
