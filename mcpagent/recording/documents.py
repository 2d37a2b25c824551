"""The lines of a recording as JSON data, and back. Every function here is pure.

A recording is JSON lines, each with a `type`: `start` (with `schema`), `question`, `conversation` (what it begins
with), `tools` (a change in it), `provider_search`, `request`, `response` and `call`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from mcpagent.catalog import ToolSearch
from mcpagent.errors import ContextOverflowError, CredentialsError, McpAgentError, ModelError
from mcpagent.events import CustomEvent, Event, TextDelta, ThinkingDelta, ToolProgress, ToolsSearched
from mcpagent.mcp.status import ServerStatus
from mcpagent.messages import (
    Image,
    Message,
    Text,
    ToolDefinition,
    ToolsChanged,
    ToolsShown,
    Usage,
    dump_messages,
    load_messages,
)
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.recording.tape import Change, Opening, Setting
from mcpagent.tools import Tool, ToolOutput

Document = dict[str, Any]

# -- how the agent is made --------------------------------------------------------------------------------------------


def setting_document(setting: Setting) -> Document:
    search = setting.search
    return {
        "instructions": setting.instructions,
        "pinned": list(setting.pinned),
        "max_turns": setting.max_turns,
        "search": None if search is None else _kept(search),
    }


def setting_of(document: Mapping[str, Any]) -> Setting:
    search = document["search"]
    if search is not None:
        search = ToolSearch(**_known(ToolSearch, {**search, "extra_tools": tuple(search.get("extra_tools", ()))}))
    return Setting(str(document["instructions"]), search, tuple(document["pinned"]), int(document["max_turns"]))


_OF_THIS_MACHINE = {"cache_folder", "history"}


def _kept(search: ToolSearch) -> Document:
    """Without what is code, which who replays gives again, and without what lies on the disk of one machine."""
    return {key: value for key, value in _fields(search) if not callable(value) and key not in _OF_THIS_MACHINE}


def _fields(value: Any) -> list[tuple[str, Any]]:
    return [(item.name, getattr(value, item.name)) for item in fields(value)]


def _known(kind: Any, document: Mapping[str, Any]) -> Document:
    """Without what another version has beyond this one."""
    names = {item.name for item in fields(kind)}
    return {name: value for name, value in document.items() if name in names}


# -- tools ------------------------------------------------------------------------------------------------------------


def opening_document(opening: Opening) -> Document:
    return {
        "tools": [_tool_document(tool) for tool in opening.tools],
        "servers": {name: asdict(status) for name, status in opening.servers.items()},
        "descriptions": dict(opening.descriptions),
        "unavailable": dict(opening.unavailable),
        "expects_deferred": opening.expects_deferred,
    }


def opening_of(document: Mapping[str, Any]) -> Opening:
    servers = {
        name: ServerStatus(**_known(ServerStatus, {**item, "warnings": tuple(item.get("warnings", ()))}))
        for name, item in document["servers"].items()
    }
    return Opening(
        [_tool_of(item) for item in document["tools"]],
        servers,
        document["descriptions"],
        document["unavailable"],
        bool(document["expects_deferred"]),
    )


def change_document(change: Change) -> Document:
    return {
        "tools": None if change.tools is None else [_tool_document(tool) for tool in change.tools],
        "said": change.said,
        "descriptions": dict(change.descriptions),
        "unavailable": dict(change.unavailable),
    }


def change_of(document: Mapping[str, Any]) -> Change:
    tools = document["tools"]
    return Change(
        None if tools is None else [_tool_of(item) for item in tools],
        str(document["said"]),
        document["descriptions"],
        document["unavailable"],
    )


def _tool_document(tool: Tool) -> Document:
    flags = {"deferred": tool.deferred, "checks_arguments": tool.checks_arguments, "external": tool.external}
    return asdict(tool.definition) | {name: value for name, value in flags.items() if value not in (None, False)}


def _tool_of(document: Mapping[str, Any]) -> Tool:
    """A tool that cannot be run: what its calls gave is in the recording."""
    given = dict(document)
    flags = {name: given.pop(name) for name in ("deferred", "checks_arguments", "external") if name in given}
    given["tags"] = tuple(given.get("tags", ()))
    return Tool(ToolDefinition(**_known(ToolDefinition, given)), _run_nothing, **flags)


async def _run_nothing(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("this tool is only recorded", error="failed")


# -- requests and responses -------------------------------------------------------------------------------------------


def message_documents(messages: Sequence[Message]) -> list[Document]:
    """The messages without what differs from run to run: how long calls took."""
    documents = dump_messages(messages)
    for document in documents:
        for part in document["parts"]:
            part.pop("seconds", None)
    return documents


def request_document(request: ModelRequest) -> Document:
    """Everything that the model is sent; tools by name, with one fingerprint of their definitions."""
    shown = [(tool.name, tool.description, tool.parameters) for tool in (*request.tools, *request.deferred_tools)]
    return {
        "system": request.system,
        "messages": message_documents(request.messages),
        "tools": [tool.name for tool in request.tools],
        "deferred_tools": [tool.name for tool in request.deferred_tools],
        "definitions": hashlib.sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest(),
        "tool_choice": request.tool_choice,
    }


def response_document(response: ModelResponse, deltas: Sequence[TextDelta | ThinkingDelta]) -> Document:
    [message] = dump_messages([response.message])
    return {
        "deltas": [["thinking" if isinstance(delta, ThinkingDelta) else "text", delta.text] for delta in deltas],
        "message": message,
        "usage": asdict(response.usage),
        "stop": response.stop,
        "dollars": response.dollars,
    }


def response_of(document: Mapping[str, Any]) -> tuple[ModelResponse, list[Event]]:
    [message] = load_messages([document["message"]])
    deltas: list[Event] = [
        ThinkingDelta(text) if kind == "thinking" else TextDelta(text) for kind, text in document["deltas"]
    ]
    usage = Usage(**document["usage"])
    return ModelResponse(message, usage, document["stop"], document["dollars"]), deltas


def error_document(error: McpAgentError) -> Document:
    known: Document = {"kind": "model", "message": str(error)}
    if isinstance(error, CredentialsError):
        known["kind"] = "credentials"
    elif isinstance(error, ModelError):
        known |= {
            "overflow": isinstance(error, ContextOverflowError),
            "provider": error.provider,
            "status": error.status,
            "retryable": error.retryable,
        }
    return known


def error_of(document: Mapping[str, Any]) -> McpAgentError:
    text = str(document["message"])
    if document["kind"] == "credentials":
        return CredentialsError(text)
    kind = ContextOverflowError if document.get("overflow") else ModelError
    return kind(
        text,
        provider=str(document.get("provider", "")),
        status=document.get("status"),
        retryable=bool(document.get("retryable")),
    )


# -- calls ------------------------------------------------------------------------------------------------------------


def output_document(output: ToolOutput, progress: Sequence[ToolProgress]) -> Document:
    return {
        "content": [asdict(part) for part in output.content],
        "error": output.error,
        "progress": [[item.progress, item.total, item.message] for item in progress],
        "events": [_event_document(item) for item in output.events if isinstance(item, CustomEvent | ToolsSearched)],
        "changes": [_change_document(item) for item in output.changes],
    }


def _event_document(event: CustomEvent | ToolsSearched) -> Document:
    return {"kind": "search" if isinstance(event, ToolsSearched) else "custom", **asdict(event)}


def _event_of(document: Mapping[str, Any]) -> Event:
    if document["kind"] == "custom":
        return CustomEvent(document["name"], document["value"])
    return ToolsSearched(**_known(ToolsSearched, {**document, "matches": tuple(document["matches"])}))


def _change_document(change: ToolsShown | ToolsChanged) -> Document:
    if isinstance(change, ToolsShown):
        return {"shown": list(change.names)}
    was = [[place, asdict(tool)] for place, tool in change.was]
    return {"added": [asdict(tool) for tool in change.added], "removed": list(change.removed), "was": was}


def _change_of(document: Mapping[str, Any]) -> ToolsShown | ToolsChanged:
    if "shown" in document:
        return ToolsShown(tuple(document["shown"]))
    added = tuple(_tool_of(item).definition for item in document["added"])
    was = tuple((place, _tool_of(item).definition) for place, item in document.get("was", ()))
    return ToolsChanged(added, tuple(document["removed"]), was)


def output_of(document: Mapping[str, Any]) -> ToolOutput:
    content = tuple(
        Image(item["media_type"], item["data"]) if item["type"] == "image" else Text(item["text"])
        for item in document["content"]
    )
    changes = tuple(_change_of(item) for item in document["changes"])
    events = tuple(_event_of(item) for item in document["events"])
    return ToolOutput(content, document["error"], changes, events)


def progress_of(document: Mapping[str, Any], server: str, tool: str) -> list[ToolProgress]:
    return [ToolProgress(server, tool, done, total, message) for done, total, message in document["progress"]]
