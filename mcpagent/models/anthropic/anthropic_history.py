"""Write a history for Anthropic's Messages API, with discovered tools at the position of their discovery.

Forms and placement: https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool. Removing and
redefining tools is a beta, "mid-conversation tool changes".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mcpagent.errors import ConfigError
from mcpagent.models.base import ModelRequest
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.found_tools.proxied_calls import (
    CALL_TOOL,
    proxy_of,
    through_call_tool,
)
from mcpagent.models.tool_changes_in_history import (
    Change,
    annotated,
    plan_tools,
)
from mcpagent.models.transport.sdk_connection import encoded
from mcpagent.models.wire_values import (
    headed,
    ids_on_the_wire,
    legal_id,
    object_schema,
    sendable_name,
    shown_parts,
    without,
    written_parts,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, Notice, ToolsSearched
from mcpagent.values.messages import (
    Audio,
    Document,
    FileId,
    FilePart,
    Image,
    ImageUrl,
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
)

PROVIDER = "anthropic"

MAX_DEFERRED_TOOLS = 10_000
MAX_DEFINITION_BYTES = 4_000_000
"""Anthropic's documented limits on deferred tools."""

_SEARCH_RESULT = "tool_search_tool_result"
_SEARCH_TOOLS = {
    "auto": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "bm25": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "regex": {
        "type": "tool_search_tool_regex_20251119",
        "name": "tool_search_tool_regex",
    },
}

_LEGAL_PARAMETER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_LONGEST_ID = 64


def write_tool(tool: ToolDefinition) -> dict[str, Any]:
    """Return a tool definition as JSON for the request.

    Parameters whose names Anthropic refuses are omitted: one of them would make every request fail.
    """
    schema = object_schema(tool.parameters)
    refused = [
        name for name in schema["properties"] if not _LEGAL_PARAMETER.fullmatch(name)
    ]
    if refused:
        required = [name for name in schema.get("required", ()) if name not in refused]
        schema = {
            **schema,
            "properties": without(schema["properties"], refused),
            "required": required,
        }
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


class AnthropicHistory:
    """The history of a request in alternating turns, with discovered tools at their position.

    A discovered tool is a deferred definition at the end of `tools`, and a `tool_reference` in the result that found
    it; the text of that result comes after the results. Removed and redefined tools are system messages after the turn
    if the model supports them, else text in the result. With Anthropic's own search, all deferred tools are in the
    request from the start, and the search results refer to them. Results of another provider's search become references
    in the result of the next call.
    """

    def __init__(self, request: ModelRequest, can: Capabilities) -> None:
        self.plan = plan_tools(request)
        self._proxy = proxy_of(self.plan, can)
        asked = can.searches and bool(request.deferred_tools)
        self.searched = asked or any(
            _is_search(part) for message in request.messages for part in message.parts
        )
        self.by_reference = can.discovery == "references" and (
            bool(self.plan.eager) or self.searched
        )
        self.changes_tools = self.by_reference and can.tool_changes != "none"
        self.redefines_tools = self.by_reference and can.tool_changes == "by_value"
        self._strategy = request.search_strategy
        legal = partial(legal_id, longest=_LONGEST_ID)
        self._ids = ids_on_the_wire(request.messages, legal, legal)
        if asked:
            self._searchable = {tool.name for tool in request.deferred_tools}
        else:
            self._searchable = set[str]()
        self._defined = {
            *(tool.name for tool in self.plan.all_tools),
            *self._searchable,
        }
        self._referenced: set[str] = set()
        self._withdrawn: set[str] = set()
        self._turns: list[dict[str, Any]] = []
        self._announced: dict[str, dict[str, Any]] = {}

    def tools(self) -> list[dict[str, Any]]:
        """Return the definitions; call it after `write`.

        Only tools that the history refers to, or that the provider can search, are deferred.
        """
        search = []
        if self.searched:
            search = [dict(_SEARCH_TOOLS[self._strategy])]
        written = [
            self._written(tool)
            for tool in self.plan.in_order_of_arrival()
            if tool.name in self._defined and tool.name not in self._proxy.names
        ]
        if problem := limit_problem(
            [tool for tool in written if "defer_loading" in tool]
        ):
            raise ConfigError(
                f'{problem}; select fewer tools, or let mcpagent search (ToolSearch execution "local")'
            )
        tools = [*map(write_tool, self.plan.eager), *search, *written]
        if self._proxy.is_offered:
            tools.append(write_tool(CALL_TOOL))
        return tools

    def _written(self, tool: ToolDefinition) -> dict[str, Any]:
        deferred = tool.name in self._referenced or tool.name not in self.plan.found
        if deferred:
            return {**write_tool(tool), "defer_loading": True}
        return write_tool(tool)

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return the turns of the messages; call it only once."""
        in_answer: tuple[Change, ...] = ()
        for position, message in enumerate(messages):
            changes = self.plan.changes.get(position, ())
            if message.role == "assistant":
                self._announce()
                self._append("assistant", self._assistant_blocks(message))
                if self.searched:
                    self._referenced.update(
                        name for part in message.parts for name in found_names(part)
                    )
                in_answer = (*in_answer, *changes)
            else:  # tools that a search inside the answer found are announced with the results of its calls
                if in_answer:
                    first = next(
                        (result.call_id for result in message.tool_results), ""
                    )
                    changes = (
                        *(replace(change, result=first) for change in in_answer),
                        *changes,
                    )
                    in_answer = ()
                self._append("user", self._user_blocks(message, changes))
        self._announce()
        return self._turns

    def _assistant_blocks(self, message: Message) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolCall) and part.name in self._proxy.names:
                name, arguments = through_call_tool(part)
                part = replace(part, name=name, arguments=arguments)
            block = _assistant_block(part, self._ids)
            if block is not None:
                blocks.append(self._without_lost(block))
        return blocks

    def _without_lost(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a search result without references to removed tools, because Anthropic refuses a request with such
        references.
        """
        if block.get("type") != _SEARCH_RESULT or not self._defined:
            return block
        content = block.get("content")
        lost = {name for name in _referred(content) if name not in self._defined}
        if not lost or not isinstance(content, dict):
            return block
        known = [
            reference
            for reference in content["tool_references"]
            if _name_in(reference) not in lost
        ]
        return {**block, "content": {**content, "tool_references": known}}

    def _append(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1]["role"] == role:
            self._turns[-1]["content"] += blocks
        else:
            self._turns.append({"role": role, "content": blocks})

    def _announce(self) -> None:
        """Add the pending tool changes after a user's turn and before the model's, never between a call and its
        result.
        """
        if self._announced and self._turns:
            self._turns.append(
                {"role": "system", "content": list(self._announced.values())}
            )
            self._announced.clear()

    def _user_blocks(
        self, message: Message, changes: Sequence[Change]
    ) -> list[dict[str, Any]]:
        references = self._references(changes)
        if not self.redefines_tools:
            message = annotated(message, changes, self._proxy.notes)
        blocks: list[dict[str, Any]] = []
        words: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text() | Image() | Document() | Audio() | ImageUrl() | FileId():
                    words += written_parts([part], "text", _file)
                case ToolResult():
                    named = references.get(part.call_id)
                    blocks.append(
                        self._reference_result(part, named)
                        if named
                        else self._tool_result(part)
                    )
                    if named:
                        words += _words_beside(part)
                case _:
                    pass  # tool changes are not content, and a user's message has no thinking or calls
        return blocks + words

    def _reference_result(
        self, result: ToolResult, names: Sequence[str]
    ) -> dict[str, Any]:
        references = [{"type": "tool_reference", "tool_name": name} for name in names]
        return {
            "type": "tool_result",
            "tool_use_id": self._ids[result.call_id],
            "content": references,
        }

    def _tool_result(self, result: ToolResult) -> dict[str, Any]:
        content = written_parts(shown_parts(result), "text", _file)
        call_id = self._ids[result.call_id]
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": content,
        }
        if result.error:
            return {**block, "is_error": True}
        return block

    def _references(self, changes: Sequence[Change]) -> dict[str, list[str]]:
        """Return the names of the tools that each result refers to, by call ID. Other changes are announced after the
        turn.
        """
        references: dict[str, list[str]] = {}
        if not self.by_reference:
            return references
        for change in changes:
            if self.changes_tools:
                self._withdraw(change.removed)
                self._restore(
                    [tool.name for tool in change.added if tool.name in self._withdrawn]
                )
            new = [
                tool.name for tool in change.new if tool.name not in self._referenced
            ]
            if change.result and new:
                references.setdefault(change.result, []).extend(new)
            elif self.changes_tools:
                self._announced |= {
                    name: _tool_change("tool_addition", name) for name in new
                }
            if change.result or self.changes_tools:
                self._referenced.update(new)
            if self.redefines_tools:
                self._announced |= {
                    tool.name: _tool_definition(tool) for tool in change.redefined
                }
        return references

    def _withdraw(self, names: Sequence[str]) -> None:
        for name in names:
            self._withdrawn.add(name)
            self._announced[name] = _tool_change("tool_removal", name)

    def _restore(self, names: Sequence[str]) -> None:
        for name in names:
            self._withdrawn.discard(name)
            if (
                name in self._announced
            ):  # removed and added again before the model saw either
                del self._announced[name]
            else:
                self._announced[name] = _tool_change("tool_addition", name)


def limit_problem(deferred: Sequence[dict[str, Any]]) -> str:
    """Return the limit of Anthropic that these definitions exceed, in a few words; "" if they exceed none."""
    if len(deferred) > MAX_DEFERRED_TOOLS:
        return f"anthropic: {len(deferred):,} deferred tools are over its limit of {MAX_DEFERRED_TOOLS:,}"
    megabytes, limit = (
        sum(len(encoded(tool)) for tool in deferred) / 1e6,
        MAX_DEFINITION_BYTES / 1e6,
    )
    if megabytes > limit:
        return f"anthropic: {megabytes:.1f} MB of deferred tools are over its limit of {limit:g} MB"
    return ""


def _is_search(part: Part) -> bool:
    """Return whether the part is a search by Anthropic, or its result."""
    if not isinstance(part, ProviderBlock):
        return False
    return part.data.get("type") == _SEARCH_RESULT or str(
        part.data.get("name")
    ).startswith("tool_search_tool")


def found_names(part: Part) -> list[str]:
    """Return the names of the tools that a result of Anthropic's own search refers to."""
    if not isinstance(part, ProviderBlock) or part.data.get("type") != _SEARCH_RESULT:
        return []
    return _referred(part.data.get("content"))


def _referred(content: object) -> list[str]:
    references = None
    if isinstance(content, Mapping):
        references = content.get("tool_references")
    names = []
    if isinstance(references, list):
        names = [_name_in(reference) for reference in references]
    return [name for name in names if name]


def _name_in(reference: object) -> str:
    name = None
    if isinstance(reference, Mapping):
        name = reference.get("tool_name")
    if isinstance(name, str):
        return name
    return ""


def search_events(message: Message, *, known: int) -> list[Event]:
    """Return the events for Anthropic's own searches in an answer, including their errors, which come inside successful
    answers.
    """
    events: list[Event] = []
    query = ""
    for part in message.parts:
        if not isinstance(part, ProviderBlock) or not _is_search(part):
            continue
        if part.data.get("type") != _SEARCH_RESULT:
            asked = part.data.get("input")
            query = ""
            if isinstance(asked, Mapping):
                query = str(asked.get("query") or asked.get("pattern") or "")
            continue
        names, content = tuple(found_names(part)), part.data.get("content")
        if isinstance(content, Mapping) and (code := content.get("error_code")):
            why = safe_line(
                f"{code}: {content.get('error_message') or 'no reason given'}"
            )
            events.append(
                Notice(f"anthropic: its tool search failed ({why})", "warning")
            )
        else:
            events.append(ToolsSearched(query, len(names), names, known, 0.0))
    return events


def _tool_change(kind: str, name: str) -> dict[str, Any]:
    """Return a tool change. Its reference uses the key `name` in system messages, but `tool_name` in results."""
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def _tool_definition(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "type": "tool_addition",
        "tool": {"type": "tool_definition", "definition": write_tool(tool)},
    }


def _words_beside(result: ToolResult) -> list[dict[str, Any]]:
    """Return the content of a result that also has references, as separate blocks.

    Anthropic documents references only in results that contain nothing else.
    """
    return written_parts(
        headed(result, f"{sendable_name(result.name)}:", " "), "text", _file
    )


def _file(part: FilePart) -> dict[str, Any] | None:
    """Return an image or document block; None for a recording, which the API does not accept."""
    match part:
        case Image():
            source = {
                "type": "base64",
                "media_type": part.media_type,
                "data": part.data,
            }
            return {"type": "image", "source": source}
        case ImageUrl():
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        case Document(media_type="application/pdf"):
            source = {
                "type": "base64",
                "media_type": part.media_type,
                "data": part.data,
            }
            titled = {}
            if part.name:
                titled = {"title": part.name}
            return {"type": "document", "source": source, **titled}
        case FileId():
            kind = "document"
            if part.media_type.startswith("image/"):
                kind = "image"
            return {"type": kind, "source": {"type": "file", "file_id": part.id}}
        case _:
            return None


def _assistant_block(part: Part, ids: Mapping[str, str]) -> dict[str, Any] | None:
    match part:
        case Text() if part.text.strip():
            return {"type": "text", "text": part.text, **part.provider_data}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": ids[part.id],
                "name": part.name,
                "input": part.arguments,
                **part.provider_data,
            }
        case Thinking() if part.provider_data:
            return dict(part.provider_data)
        case ProviderBlock() if part.data:
            return dict(part.data)
        case _:
            return None
