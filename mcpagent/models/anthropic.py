"""Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages), always streamed.

Caching: one breakpoint at the end of what never changes (the system prompt, else the last tool) and Anthropic's
automatic one at the end of the request, so no earlier byte of a conversation is ever written differently. Only after a
turn with very many blocks one more is set, where the request before ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcpagent.errors import ConfigError
from mcpagent.events import Event, Notice, TextDelta, ThinkingDelta, ToolsSearched
from mcpagent.messages import (
    Image,
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings, ResponseStop
from mcpagent.models.capabilities import SAFE, Capabilities, anthropic_capabilities
from mcpagent.models.discovery import Change, annotated, plan_tools, redefinition_notes, with_found
from mcpagent.models.failures import AnswerError, Endpoint
from mcpagent.models.http_model import Delta, HttpModel, timeouts
from mcpagent.models.wire import (
    distinct_ids,
    left_out,
    legal_id,
    legal_name,
    marked_error,
    object_schema,
    parse_object,
    read_call,
    shown_parts,
    usable_image,
    without,
)
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    import anthropic
    import httpx2

PROVIDER = "anthropic"
BASE_URL = "https://api.anthropic.com"
DEFAULT_MAX_TOKENS = 32_000
"""Anthropic demands a limit; every model from Claude 4.5 on can write at least this much."""

MAX_CONTINUATIONS = 5
"""How often a turn that Anthropic paused (`pause_turn`, long searches on its side) is continued before it counts."""

LOOKBACK_BLOCKS = 18
"""Anthropic looks for a cached prefix at most 20 blocks before a breakpoint; the answer and a note need some room."""

MAX_DEFERRED_TOOLS = 10_000
"""Anthropic's documented limit for one request."""

_SEARCH_RESULT = "tool_search_tool_result"
_SEARCH_TOOLS = {
    "auto": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "bm25": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    "regex": {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
}

CHANGES_BY_REFERENCE_BETA = "mid-conversation-tool-changes-2026-07-01"
CHANGES_BY_VALUE_BETA = "inline-tools-2026-09-15"

_LEGAL_PARAMETER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_LONGEST_ID = 64
_CACHED_FROM_HERE = {"type": "ephemeral"}
_STOPS: dict[str, ResponseStop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refusal",
}


class AnthropicModel(HttpModel):
    """A Claude model.

    `api_key` None reads ANTHROPIC_API_KEY at the first request. `betas` go into the `anthropic-beta` header, beside
    those a request needs. `capabilities` overrules what is known of the model.
    """

    path = "/v1/messages"

    def __init__(
        self,
        model_name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        http_client: httpx2.AsyncClient | None = None,
        max_retries: int = 2,
        settings: ModelSettings | None = None,
        betas: Sequence[str] = (),
        capabilities: Capabilities | None = None,
        silent_seconds: float = 300.0,
        key_variable: str = "ANTHROPIC_API_KEY",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(
            Endpoint(PROVIDER, model_name, base_url or BASE_URL, key_variable, silent_seconds=silent_seconds),
            api_key=api_key,
            http_client=http_client,
            max_retries=max_retries,
            settings=settings,
            sleep=sleep,
        )
        self.betas = tuple(betas)
        self.capabilities = capabilities or anthropic_capabilities(model_name)

    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        return request_body(request, self.model_name, self.capabilities)

    def read_answer(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        response = read_message(answer, history=request.messages)
        return replace(response, message=with_found(response.message, request, found_names))

    @property
    def searches_tools(self) -> bool:
        return self.capabilities.searches

    def searches_in(self, message: Message, request: ModelRequest) -> list[Event]:
        return search_events(message, known=len(request.tools) + len(request.deferred_tools))

    def stream_reader(self) -> MessageStream:
        return MessageStream()

    def connect(self, api_key: str) -> anthropic.AsyncAnthropic:
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=self.endpoint.base_url,
            max_retries=0,
            timeout=timeouts(self.endpoint),
            http_client=self._http_client,
        )

    def request_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        betas = dict.fromkeys((*self.betas, *betas_of(body)))
        return {"headers": {"anthropic-beta": ",".join(betas)}, "params": {"beta": "true"}} if betas else {}

    def continued(self, body: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        last = answers[-1]
        if last.get("stop_reason") != "pause_turn" or len(answers) > MAX_CONTINUATIONS:
            return None
        return {**body, "messages": [*body["messages"], {"role": "assistant", "content": last.get("content")}]}

    def sdk_errors(self) -> tuple[type[Exception], ...]:
        import anthropic

        return (anthropic.AnthropicError,)

    def stream_class(self) -> type[anthropic.AsyncStream[object]]:
        import anthropic

        return anthropic.AsyncStream[object]


def request_body(request: ModelRequest, model_name: str, can: Capabilities = SAFE) -> dict[str, Any]:
    """The body for one request. `tool_choice` "none" keeps the tools, and so the cached prefix."""
    settings = request.settings
    history = History(request, can)
    messages = history.write(request.messages)
    body: dict[str, Any] = {"model": model_name, "max_tokens": settings.max_output_tokens or DEFAULT_MAX_TOKENS}
    tools = history.tools()
    if tools:
        body["tools"] = tools
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED_FROM_HERE}]
    elif eager := [tool for tool in tools if not tool.get("defer_loading")]:
        eager[-1]["cache_control"] = _CACHED_FROM_HERE
    body["messages"] = messages
    body["cache_control"] = _CACHED_FROM_HERE
    _reach_back(messages)
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = {"type": "none"}
    if settings.temperature is not None:
        body["temperature"] = settings.temperature
    return {**body, "stream": True, **settings.extra}


def _reach_back(messages: Sequence[dict[str, Any]]) -> None:
    """Marks where the request before this one ended, when more blocks came since than Anthropic looks back over.

    Without it a turn with many parallel calls would lose the cached conversation. The mark itself is no part of what
    is cached.
    """
    places = range(len(messages) - 2, -1, -1)
    before = next((place for place in places if messages[place + 1]["role"] == "assistant"), None)
    if before is not None and sum(len(turn["content"]) for turn in messages[before + 1 :]) > LOOKBACK_BLOCKS:
        content = messages[before]["content"]
        content[-1] = {**content[-1], "cache_control": _CACHED_FROM_HERE}


def write_tool(tool: ToolDefinition) -> dict[str, Any]:
    """A definition. Parameters with a name that Anthropic refuses are left out: one would fail every request."""
    schema = object_schema(tool.parameters)
    refused = [name for name in schema["properties"] if not _LEGAL_PARAMETER.fullmatch(name)]
    if refused:
        required = [name for name in schema.get("required", ()) if name not in refused]
        schema = {**schema, "properties": without(schema["properties"], refused), "required": required}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def betas_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The beta headers a body needs: tools changed by system messages are not generally available yet."""
    blocks = [block for turn in body["messages"] if turn["role"] == "system" for block in turn["content"]]
    if not blocks:
        return ()
    by_value = any(block["tool"]["type"] == "tool_definition" for block in blocks)
    return (CHANGES_BY_VALUE_BETA,) if by_value else (CHANGES_BY_REFERENCE_BETA,)


class History:
    """One request's history in alternating turns, as Anthropic demands, with found tools where they were found.

    A found tool is a deferred definition, at the end of `tools`, and a `tool_reference` in the result that found it;
    that result's own words follow the results. Withdrawals and new definitions are system messages after the turn
    where the model knows such, else the words of the result alone. With Anthropic's own search all deferred tools are
    there from the start, and its own results refer to them.
    """

    def __init__(self, request: ModelRequest, can: Capabilities) -> None:
        self.plan = plan_tools(request)
        asked = can.searches and bool(request.deferred_tools)
        self.searched = asked or any(map(_has_search, request.messages))
        self.by_reference = can.discovery == "references" and (bool(self.plan.eager) or self.searched)
        self.changes_tools = self.by_reference and can.tool_changes != "none"
        self.redefines_tools = self.by_reference and can.tool_changes == "by_value"
        self._strategy = request.search_strategy
        self._deferred = request.deferred_tools if asked else ()
        self._defined = {tool.name for tool in (*self.plan.all_tools, *self._deferred)}
        self._referenced: set[str] = set()
        self._withdrawn: set[str] = set()
        self._turns: list[dict[str, Any]] = []
        self._announced: dict[str, dict[str, Any]] = {}

    def tools(self) -> list[dict[str, Any]]:
        """The definitions, to be written after the history: only what it refers to is deferred."""
        if len(self._deferred) > MAX_DEFERRED_TOOLS:
            raise ConfigError(
                f"anthropic: {len(self._deferred):,} deferred tools are over its limit of {MAX_DEFERRED_TOOLS:,}; "
                "select fewer tools, or let mcpagent search (execution local)"
            )
        whole = [tool for name, tool in self.plan.found.items() if name not in self._referenced]
        later = [tool for name, tool in self.plan.found.items() if name in self._referenced]
        search = [dict(_SEARCH_TOOLS[self._strategy])] if self.searched else []
        if self.searched:
            later = sorted([*later, *self._deferred], key=lambda tool: tool.name)
            return [*search, *map(write_tool, (*self.plan.eager, *whole)), *map(_deferred_tool, later)]
        return [*map(write_tool, self.plan.eager), *map(self._found_tool, self.plan.found.values())]

    def _found_tool(self, tool: ToolDefinition) -> dict[str, Any]:
        return _deferred_tool(tool) if tool.name in self._referenced else write_tool(tool)

    def write(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        for position, message in enumerate(messages):
            changes = self.plan.changes.get(position, ())
            if message.role == "assistant":
                self._find(message, changes)
                self._announce()
                self._append("assistant", self._assistant_blocks(message))
            else:
                self._append("user", self._user_blocks(message, changes))
        self._announce()
        return self._turns

    def _find(self, message: Message, changes: Sequence[Change]) -> None:
        """What a provider's search found: Anthropic's results refer to it; of another's the model is told before."""
        if self.searched and message.provider == PROVIDER:
            self._referenced.update(name for part in message.parts for name in found_names(part))
        self._references(changes)

    def _assistant_blocks(self, message: Message) -> list[dict[str, Any]]:
        ours = message.provider == PROVIDER
        blocks = (_assistant_block(part, ours) for part in message.parts)
        return [self._without_lost(block) for block in blocks if block is not None]

    def _without_lost(self, block: dict[str, Any]) -> dict[str, Any]:
        """A search's result without tools that no longer exist: Anthropic refuses a request that refers to one."""
        references = block["content"].get("tool_references") if block["type"] == _SEARCH_RESULT else None
        if not references or not self._defined:
            return block
        known = [reference for reference in references if reference["tool_name"] in self._defined]
        return {**block, "content": {**block["content"], "tool_references": known}}

    def _append(self, role: str, blocks: list[dict[str, Any]]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1]["role"] == role:
            self._turns[-1]["content"] += blocks
        else:
            self._turns.append({"role": role, "content": blocks})

    def _announce(self) -> None:
        """Tool changes stand after a user's turn and before the model's, never between a call and its result."""
        if self._announced and self._turns:
            self._turns.append({"role": "system", "content": list(self._announced.values())})
            self._announced.clear()

    def _user_blocks(self, message: Message, changes: Sequence[Change]) -> list[dict[str, Any]]:
        references = self._references(changes)
        if not self.redefines_tools:
            message = annotated(message, changes, redefinition_notes)
        blocks: list[dict[str, Any]] = []
        words: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text() | Image():
                    words += _content([part])
                case ToolResult():
                    named = references.get(part.call_id)
                    blocks.append(_tool_result(part) if not named else _reference_result(part, named))
                    words += _words_beside(part) if named else []
                case _:
                    pass  # tool changes are not content; thinking and calls are never a user's
        return blocks + words

    def _references(self, changes: Sequence[Change]) -> dict[str, list[str]]:
        """By call id, the tools its result refers to; whatever else changed is announced after the turn."""
        references: dict[str, list[str]] = {}
        if not self.by_reference:
            return references
        for change in changes:
            if self.changes_tools:
                self._withdraw(change.removed)
                self._restore([tool.name for tool in change.added if tool.name in self._withdrawn])
            new = [tool.name for tool in change.new if tool.name not in self._referenced]
            if change.result and new:
                references.setdefault(change.result, []).extend(new)
            elif self.changes_tools:
                self._announced |= {name: _tool_change("tool_addition", name) for name in new}
            if change.result or self.changes_tools:
                self._referenced.update(new)
            if self.redefines_tools:
                self._announced |= {tool.name: _tool_definition(tool) for tool in change.redefined}
        return references

    def _withdraw(self, names: Sequence[str]) -> None:
        for name in names:
            self._withdrawn.add(name)
            self._announced[name] = _tool_change("tool_removal", name)

    def _restore(self, names: Sequence[str]) -> None:
        for name in names:
            self._withdrawn.discard(name)
            if name in self._announced:  # withdrawn and added again before the model saw either
                del self._announced[name]
            else:
                self._announced[name] = _tool_change("tool_addition", name)


def _deferred_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {**write_tool(tool), "defer_loading": True}


def _has_search(message: Message) -> bool:
    return any(map(_is_search, message.parts))


def _is_search(part: Part) -> bool:
    """Whether it is a search on Anthropic's side, or its result."""
    if not isinstance(part, ProviderBlock) or part.provider != PROVIDER:
        return False
    return part.data.get("type") == _SEARCH_RESULT or str(part.data.get("name")).startswith("tool_search_tool")


def found_names(part: Part) -> list[str]:
    """The tools that a result of Anthropic's own search refers to."""
    if not isinstance(part, ProviderBlock) or part.data.get("type") != _SEARCH_RESULT:
        return []
    return [reference["tool_name"] for reference in part.data["content"].get("tool_references") or ()]


def search_events(message: Message, *, known: int) -> list[Event]:
    """Each search on Anthropic's side, and its errors, which come inside an answer that is otherwise good."""
    events: list[Event] = []
    query = ""
    for part in message.parts:
        if not isinstance(part, ProviderBlock) or not _is_search(part):
            continue
        if part.data["type"] != _SEARCH_RESULT:
            asked = part.data.get("input") or {}
            query = str(asked.get("query") or asked.get("pattern") or "")
            continue
        names, content = tuple(found_names(part)), part.data["content"]
        if code := content.get("error_code"):
            why = safe_line(f"{code}: {content.get('error_message') or 'no reason given'}")
            events.append(Notice(f"anthropic: its tool search failed ({why})", "warning"))
        else:
            events.append(ToolsSearched(query, len(names), names, known, 0.0))
    return events


def _tool_change(kind: str, name: str) -> dict[str, Any]:
    """In system messages a reference says `name`; in results it says `tool_name`."""
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def _tool_definition(tool: ToolDefinition) -> dict[str, Any]:
    return {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": write_tool(tool)}}


def _reference_result(result: ToolResult, names: Sequence[str]) -> dict[str, Any]:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    call_id = legal_id(result.call_id, longest=_LONGEST_ID)
    return {"type": "tool_result", "tool_use_id": call_id, "content": references}


def _words_beside(result: ToolResult) -> list[dict[str, Any]]:
    """What a result that carries references says besides: only lone references in a result were ever seen accepted."""
    first, *others = shown_parts(result)
    if isinstance(first, Text):
        return _content([Text(f"{result.name}: {marked_error(result, first.text)}"), *others])
    return _content([Text(f"{result.name}:"), first, *others])


def _tool_result(result: ToolResult) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": legal_id(result.call_id, longest=_LONGEST_ID),
        "content": _content(shown_parts(result)),
    }
    return {**block, "is_error": True} if result.error else block


def _content(parts: Sequence[Text | Image]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            if part.text.strip():
                blocks.append({"type": "text", "text": part.text})
        elif usable_image(part):
            source = {"type": "base64", "media_type": part.media_type, "data": part.data}
            blocks.append({"type": "image", "source": source})
        else:
            blocks.append({"type": "text", "text": left_out(part)})
    return blocks


def _assistant_block(part: Part, ours: bool) -> dict[str, Any] | None:
    match part:
        case Text() if part.text.strip():
            return {"type": "text", "text": part.text, **(part.provider_data if ours else {})}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": legal_id(part.id, longest=_LONGEST_ID),
                "name": legal_name(part.name),
                "input": part.arguments,
                **(part.provider_data if ours else {}),
            }
        case Thinking() if part.provider == PROVIDER:
            return dict(part.provider_data)
        case ProviderBlock() if part.provider == PROVIDER:
            return dict(part.data)
        case _:
            return None


def read_message(answer: Mapping[str, Any], *, history: Sequence[Message] = ()) -> ModelResponse:
    """A whole Messages answer. `history` is what came before: ids of calls stay distinct."""
    reason = str(answer.get("stop_reason") or "")
    stop = _STOPS.get(reason)
    content = answer["content"]
    parts = [
        _read_block(block, cut_off=stop == "length" and position == len(content) - 1)
        for position, block in enumerate(content)
    ]
    kept = distinct_ids([part for part in parts if part is not None], history)
    message = Message("assistant", kept, provider=PROVIDER)
    return ModelResponse(message, read_usage(answer), stop or ("tool_calls" if message.tool_calls else "end"))


def _read_block(block: Mapping[str, Any], *, cut_off: bool) -> Part | None:
    match block["type"]:
        case "text":
            rest = without(block, ("type", "text"))
            return Text(block["text"], provider_data=rest) if block["text"].strip() else None
        case "tool_use":
            rest = without(block, ("type", "id", "name", "input"))
            return read_call(block["id"], block["name"], block["input"], cut_off=cut_off, provider_data=rest)
        case "thinking" | "redacted_thinking":
            return Thinking(str(block.get("thinking") or ""), PROVIDER, dict(block))
        case _:
            return ProviderBlock(PROVIDER, dict(block))


def read_usage(answer: Mapping[str, Any]) -> Usage:
    """Anthropic counts what the cache read and wrote beside `input_tokens`; ours is the whole input."""
    usage = answer.get("usage") or {}
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    return Usage(
        input_tokens=(usage.get("input_tokens") or 0) + read + written,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        requests=1 + len(answer.get("continued") or ()),
    )


class MessageStream:
    """Puts a stream's events together to the answer it is without streaming.

    Events as in https://platform.claude.com/docs/en/build-with-claude/streaming. A delta's fields are added to the
    block's fields of the same name, so kinds of content that are not known here survive too.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._done = False

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                return self._add_delta(event["index"], event["delta"])
            case "message_delta":
                self._message |= event.get("delta") or {}
                told = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                self._message["usage"] = {**(self._message.get("usage") or {}), **told}
            case "message_stop":
                self._done = True
            case _:
                pass
        return None

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> Delta | None:
        block = self._blocks[index]
        for name, value in without(delta, ("type",)).items():
            if delta["type"] == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), value]
            elif isinstance(value, str):
                self._texts.setdefault((index, name), []).append(value)
            else:
                block[name] = value
        match delta["type"]:
            case "text_delta":
                return TextDelta(delta["text"])
            case "thinking_delta":
                return ThinkingDelta(delta["thinking"])
            case _:
                return None

    def answer(self) -> dict[str, Any]:
        if not self._done or not self._message:
            raise AnswerError("the stream ended early", "cut")
        for (index, name), pieces in self._texts.items():
            text = "".join(pieces)
            if name == "partial_json":
                parsed = parse_object(text)
                self._blocks[index]["input"] = text if parsed is None else parsed
            else:
                self._blocks[index][name] = (self._blocks[index].get(name) or "") + text
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}
