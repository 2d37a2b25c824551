"""Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages), always streamed.

Caching: one breakpoint at the end of what never changes (the system prompt, else the last tool) and Anthropic's
automatic one at the end of the request, so no earlier byte of a conversation is ever written differently. Bedrock and
Vertex have no automatic one: the last block is marked there. Only after a turn with very many blocks one more is set,
where the request before ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Unpack

from mcpagent.models.anthropic.anthropic_history import (
    PROVIDER,
    AnthropicHistory,
    found_names,
    limit_problem,
    search_events,
    write_tool,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ResponseStop
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.failures_and_retries import AnswerError, Failure, ReportedError
from mcpagent.models.found_tools.proxied_calls import CALL_TOOL
from mcpagent.models.http_model import ANTHROPIC_URL, Connection, HttpModel
from mcpagent.models.provider_tools.citations import citations_of
from mcpagent.models.provider_tools.provider_calls import asked_in, ended_in
from mcpagent.models.provider_tools.provider_tool_forms import MCP_BETA, WrittenTools
from mcpagent.models.provider_tools.stored_files import from_anthropic
from mcpagent.models.sendable_history import last_container
from mcpagent.models.stream_rollback import CallDelta, Delta
from mcpagent.models.transport.sdk_connection import ProviderSdk
from mcpagent.models.wellformed.wellformed_messages import wellformed_messages
from mcpagent.models.wire_values import (
    distinct_ids,
    parse_object,
    read_call,
    usage_count,
    without,
)
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.values.events import (
    ProviderCall,
    ProviderCallStarted,
    TextDelta,
    ThinkingDelta,
)
from mcpagent.values.messages import (
    Container,
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolDefinition,
    Usage,
)

MAX_CONTINUATIONS = 5
"""How often mcpagent continues a turn that Anthropic paused (`pause_turn`, long searches at Anthropic)."""

LEAST_ROOM = 1024
"""Minimum number of tokens for the answer; a conversation that leaves less is too long."""

_TOO_LONG_AN_ANSWER = re.compile(r"max_tokens: [0-9]{1,9} > ([0-9]{1,9})\b")
_NO_ROOM = re.compile(
    r"exceed context limit: ([0-9]{1,9}) \+ ([0-9]{1,9}) > ([0-9]{1,9})\b"
)

LOOKBACK_BLOCKS = 18
"""Anthropic looks for a cached prefix at most 20 blocks before a breakpoint; the answer and a note need some room."""

CHANGES_BY_REFERENCE_BETA = "mid-conversation-tool-changes-2026-07-01"
CHANGES_BY_VALUE_BETA = "inline-tools-2026-09-15"

_NOT_OF_THE_BLOCK = ("type", "estimated_tokens")
"""Fields that describe a delta, not its block; Anthropic refuses a block that contains them."""

_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""The text that each kind of delta adds to its block."""

_KNOWN_DELTAS = frozenset({"citations_delta", "compaction_delta"})
_KNOWN_BLOCKS = frozenset(
    {
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "mcp_tool_use",
    }
)

CONTAINER_SECONDS = 30 * 24 * 3600.0
"""How long after its expiry time Anthropic may restore a container."""

_REFUSES_REFERENCES = re.compile(
    r"invalid beta flag|for the `?anthropic-beta`? header"
    r"|(?:defer_loading|tool_reference).{0,80}(?:not permitted|does not match)"
)
"""Errors of clouds that refuse deferred tools: because of the beta header (anthropics/claude-code#49370) or the field.
"""

_FILTERED = ("web_search_2026", "web_fetch_2026")

_GOES_ON = ("pause_turn", "compaction")
"""Stop reasons after which the client must send the turn again so that Anthropic continues it."""

_STOPS: dict[str, ResponseStop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
    "refusal": "refusal",
}


def request_body(
    request: ModelRequest,
    model_name: str,
    can: Capabilities = SAFE,
    *,
    has_field: bool = True,
) -> dict[str, Any]:
    """The body for one request without its settings. `tool_choice` "none" keeps the tools, and so the cached prefix.

    `has_field`: whether the server knows `cache_control` as a field of the body; else the last block is marked.
    """
    if request.settings.cache_ttl == "1h":
        cached = {"type": "ephemeral", "ttl": "1h"}
    else:
        cached = {"type": "ephemeral"}
    history = AnthropicHistory(request, can)
    messages = history.write(request.messages)
    body: dict[str, Any] = {"model": model_name}
    tools = history.tools()
    if tools:
        body["tools"] = tools
    if request.system.strip():
        body["system"] = [
            {"type": "text", "text": request.system, "cache_control": cached}
        ]
    elif eager := [tool for tool in tools if not tool.get("defer_loading")]:
        eager[-1]["cache_control"] = cached
    body["messages"] = messages
    if has_field:
        body["cache_control"] = cached
    else:
        _mark_end(messages, cached)
    _reach_back(messages, cached)
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = {"type": "none"}
    return body


def _mark_end(messages: Sequence[dict[str, Any]], cached: Mapping[str, str]) -> None:
    """Mark the last block of the last user turn, as Anthropic itself does for the field of the body."""
    asked = next(
        (
            turn
            for turn in reversed(messages)
            if turn["role"] == "user" and turn["content"]
        ),
        None,
    )
    if asked is not None:
        asked["content"][-1] = {**asked["content"][-1], "cache_control": cached}


def without_markers(value: Any) -> Any:
    """Return a body without any cache marker, for a server that takes none."""
    if isinstance(value, list):
        return [without_markers(one) for one in value]
    if isinstance(value, dict):
        kept = ((key, one) for key, one in value.items() if key != "cache_control")
        return {
            key: one if key == "input" else without_markers(one) for key, one in kept
        }
    return value


def _reach_back(messages: Sequence[dict[str, Any]], cached: Mapping[str, str]) -> None:
    """Mark the end of the previous request if more blocks were added since than Anthropic looks back over.

    Without it a turn with many parallel calls would lose the cached conversation. The marker itself is not cached.
    """
    places = range(len(messages) - 2, -1, -1)
    before = next(
        (place for place in places if messages[place + 1]["role"] == "assistant"), None
    )
    if (
        before is not None
        and sum(len(turn["content"]) for turn in messages[before + 1 :])
        > LOOKBACK_BLOCKS
    ):
        content = messages[before]["content"]
        content[-1] = {**content[-1], "cache_control": cached}


def betas_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the beta headers that a body needs, for tools changed by system messages and for servers that Anthropic
    calls.
    """
    blocks = [
        block
        for turn in body["messages"]
        if turn["role"] == "system"
        for block in turn["content"]
    ]
    betas: list[str] = []
    if blocks:
        by_value = any(block["tool"]["type"] == "tool_definition" for block in blocks)
        betas.append(CHANGES_BY_VALUE_BETA if by_value else CHANGES_BY_REFERENCE_BETA)
    if "mcp_servers" in body:
        betas.append(MCP_BETA)
    return tuple(betas)


def _has_deferred(body: Mapping[str, Any]) -> bool:
    """Return whether tools of the body are loaded later, or searched by the provider."""
    for tool in body.get("tools", ()):
        is_search = str(tool.get("type")).startswith("tool_search_tool")
        if is_search or tool.get("defer_loading"):
            return True
    return False


def read_message(
    answer: Mapping[str, Any], *, history: Sequence[Message] = ()
) -> ModelResponse:
    """A whole Messages answer. Raises `ReportedError` if it is an error. `history` is what came before: ids of calls
    stay distinct."""
    if answer.get("type") == "error" or (
        answer.get("error") and "content" not in answer
    ):
        raise ReportedError(answer.get("error"))
    reason = str(answer.get("stop_reason") or "")
    stop = _STOPS.get(reason)
    content = answer["content"]
    parts = [
        read_block(block, cut_off=stop == "length" and position == len(content) - 1)
        for position, block in enumerate(content)
    ]
    kept = distinct_ids([part for part in parts if part is not None], history)
    message = Message("assistant", (*kept, *_container(answer.get("container"))))
    return ModelResponse(
        message,
        read_usage(answer),
        stop or ("tool_calls" if message.tool_calls else "end"),
    )


def _container(told: object) -> list[Part]:
    """Return the container in which the provider ran code for the answer, if there is one."""
    if not isinstance(told, Mapping) or not isinstance(told.get("id"), str):
        return []
    return [Container(told["id"], str(told.get("expires_at") or ""))]


def read_block(block: Mapping[str, Any], *, cut_off: bool = False) -> Part | None:
    """Convert a block of an answer; None if it is empty. `cut_off`: the answer ended within it, maybe in a call."""
    match block:
        case {"type": "text", "text": str(text)}:
            rest = without(block, ("type", "text"))
            if text.strip():
                return Text(text, rest, citations_of(block.get("citations")))
            return None
        case {"type": "tool_use"}:
            name = block.get("name")
            if not isinstance(name, str):
                name = ""
            rest = without(block, ("type", "id", "name", "input"))
            if name == CALL_TOOL.name:  # keep the wire form of a proxied call
                rest = without(block, ("type", "id"))
            call_id, arguments = str(block.get("id") or ""), block.get("input")
            return read_call(
                call_id, name, arguments, cut_off=cut_off, provider_data=rest
            )
        case {"type": "thinking" | "redacted_thinking"}:
            thought = block.get("thinking")
            return Thinking(thought if isinstance(thought, str) else "", dict(block))
        case {"type": str()}:
            return ProviderBlock(dict(block))
        case {"text": str(text)} if text.strip():
            return Text(text)
        case _:  # content of an unknown type
            return None


def read_usage(answer: Mapping[str, Any]) -> Usage:
    """Return the usage. Anthropic's `input_tokens` exclude tokens read from and written to the cache; mcpagent's
    include them.

    Anthropic's `input_tokens` exclude tokens read from and written to the cache; ours include them.
    """
    usage = answer.get("usage")
    read, written = (
        usage_count(usage, "cache_read_input_tokens"),
        usage_count(usage, "cache_creation_input_tokens"),
    )
    return Usage(
        input_tokens=usage_count(usage, "input_tokens") + read + written,
        output_tokens=usage_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        requests=1 + len(answer.get("continued") or ()),
        web_searches=usage_count(usage, "server_tool_use", "web_search_requests"),
    )


class MessageStream:
    """Assemble a stream's events into the answer of a request without streaming.

    Events as in https://platform.claude.com/docs/en/build-with-claude/streaming. A delta's fields are added to the
    block's fields of the same name, so unknown kinds of content survive too. Unknown deltas of known blocks are in
    `unknown_deltas` of the answer.
    """

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}
        self._citations: dict[int, list[Any]] = {}
        self._calls: dict[str, ProviderCall] = {}
        self._unknown: list[Mapping[str, Any]] = []
        self.was_marked = False
        self.done = False

    def add(self, event: Mapping[str, Any]) -> Delta | CallDelta | None:
        """Process one event; return the delta to show."""
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start" if isinstance(
                event.get("content_block"), Mapping
            ):
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta" if self._is_known(event):
                return self._add_delta(event["index"], event["delta"])
            case "content_block_delta":
                self._unknown.append(event)
            case "content_block_stop":
                return self._ran(event["index"])
            case "message_delta":
                self._message |= {
                    name: value
                    for name, value in (event.get("delta") or {}).items()
                    if value is not None
                }
                told = {
                    key: value
                    for key, value in (event.get("usage") or {}).items()
                    if value is not None
                }
                self._message["usage"] = {**(self._message.get("usage") or {}), **told}
            case "message_stop":
                self.done = True
            case _:
                pass
        return None

    def _is_known(self, event: Mapping[str, Any]) -> bool:
        """True if the delta can be added to its block.

        A block of a known type with unknown fields would be rejected.
        """
        block, delta = self._blocks.get(event.get("index", -1)), event.get("delta")
        if (
            block is None
            or not isinstance(delta, Mapping)
            or not isinstance(delta.get("type"), str)
        ):
            return False
        if delta["type"] in _FIELDS:
            return isinstance(delta.get(_FIELDS[delta["type"]]), str)
        return delta["type"] in _KNOWN_DELTAS or block.get("type") not in _KNOWN_BLOCKS

    def _add_delta(
        self, index: int, delta: Mapping[str, Any]
    ) -> Delta | CallDelta | None:
        block = self._blocks[index]
        for name, value in without(delta, _NOT_OF_THE_BLOCK).items():
            if delta["type"] == "citations_delta":
                self._citations.setdefault(
                    index, list(block.get("citations") or ())
                ).append(value)
            elif (
                delta["type"] == "compaction_delta"
            ):  # each one is the whole content so far
                block[name] = value
            elif isinstance(value, str):
                self._texts.setdefault((index, name), []).append(value)
            elif value is not None or name not in block:
                block[name] = value
        match delta["type"]:
            case "text_delta":
                return TextDelta(delta["text"])
            case "thinking_delta":
                return ThinkingDelta(delta["thinking"])
            case "input_json_delta" if block.get("type") == "tool_use":
                return CallDelta(
                    str(block.get("name") or ""), str(delta.get("partial_json") or "")
                )
            case _:
                return None

    def _ran(self, index: int) -> Delta | None:
        """Return the event for a complete block of a provider tool: the start of a call, or its result."""
        block = self._blocks.get(index, {})
        written = "".join(self._texts.get((index, "partial_json"), ()))
        call = asked_in({**block, "input": parse_object(written)} if written else block)
        if call is not None:
            self._calls[call.id] = call
            return ProviderCallStarted(call)
        ended = ended_in(block, self._calls)
        if ended is not None:
            return ended.events[1]
        return None

    def answer(self) -> dict[str, Any]:
        """Return the answer as without streaming. Raises `AnswerError` if the stream ended early."""
        if not self.done or not self._message:
            raise AnswerError("the stream ended early", "cut")
        for (index, name), pieces in self._texts.items():
            text = "".join(pieces)
            if name == "partial_json":
                if text:  # a block that starts with its whole input may be followed by an empty delta
                    parsed = parse_object(text)
                    if parsed is None:
                        self._blocks[index]["input"] = text
                    else:
                        self._blocks[index]["input"] = parsed
            else:
                self._blocks[index][name] = (self._blocks[index].get(name) or "") + text
        for index, citations in self._citations.items():
            self._blocks[index]["citations"] = citations
        beside = {}
        if self._unknown:
            beside = {"unknown_deltas": self._unknown}
        return {
            **self._message,
            "content": [self._blocks[index] for index in sorted(self._blocks)],
            **beside,
        }


class AnthropicModel(HttpModel):
    """A Claude model, by default with the key in ANTHROPIC_API_KEY.

    `betas` go into the `anthropic-beta` header, in addition to those that a request needs. The rest is in `Connection`.
    """

    path = "/v1/messages"
    protocol = "messages"
    usual_url = ANTHROPIC_URL
    stream_reader = MessageStream
    found_names = staticmethod(found_names)
    search_events = staticmethod(search_events)

    @checked()
    def __init__(
        self,
        model_name: str,
        *,
        provider: str = PROVIDER,
        betas: Sequence[str] = (),
        **connection: Unpack[Connection],
    ) -> None:
        url = connection.get("base_url")
        if url:  # the SDK adds /v1 itself
            connection["base_url"] = url.rstrip("/").removesuffix("/v1")
        super().__init__(provider, model_name, "ANTHROPIC_API_KEY", **connection)
        self.betas = tuple(betas)

    def write(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON of a Messages request."""
        learned = self.server()
        has_field = self.endpoint.caching == "field" and learned.flag("cache_field")
        body = request_body(request, self.model_name, self.able, has_field=has_field)
        return body if learned.flag("cache_markers") else without_markers(body)

    def most_output(self, failure: Failure) -> int | None:
        """Return the maximum output of the model, or the rest of its window, as Anthropic reported it, if it did."""
        if found := _TOO_LONG_AN_ANSWER.search(failure.message):
            return int(found[1])
        if found := _NO_ROOM.search(failure.message):
            room = int(found[3]) - int(found[1])
            if room >= LEAST_ROOM:
                return room
            return None
        return None

    def _read(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        return read_message(answer, history=request.messages)

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        """Return why the model's search cannot be used: too many or too large tools, or no search; "" if it can."""
        if not self.able.searches:
            return super().search_problem(strategy, deferred)
        return limit_problem([write_tool(tool) for tool in deferred])

    def sdk(self) -> ProviderSdk:
        """Anthropic's."""
        import anthropic

        stream, header = (
            anthropic.AsyncStream[object],
            ("X-Api-Key", "{}", anthropic.Omit()),
        )
        return ProviderSdk(
            anthropic.AsyncAnthropic,
            anthropic.AnthropicError,
            stream,
            *header,
            from_anthropic,
        )

    def request_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the header with the configured and the needed betas, if there are any."""
        if betas := self._betas_for(body):
            return {"headers": {"anthropic-beta": ",".join(betas)}}
        return {}

    def address_for(self, body: Mapping[str, Any]) -> str:
        """Return the path with `beta=true` if there are betas, which the clients of clouds look for."""
        if self._betas_for(body):
            return f"{self.path}?beta=true"
        return self.path

    def _betas_for(self, body: Mapping[str, Any]) -> list[str]:
        needed = betas_of(body)
        if self.endpoint.server.search_beta and _has_deferred(body):
            needed = (*needed, self.endpoint.server.search_beta)
        return list(dict.fromkeys((*self.betas, *needed)))

    def continued(
        self, body: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Yield the body with the paused turn at its end, at most `MAX_CONTINUATIONS` times."""
        last = answers[-1]
        if last.get("stop_reason") not in _GOES_ON or len(answers) > MAX_CONTINUATIONS:
            return None
        container = last.get("container")
        inside = {}
        if isinstance(container, Mapping) and container.get("id"):
            inside = {"container": container["id"]}
        turn = {"role": "assistant", "content": last.get("content")}
        return self.wellformed(
            {**body, **inside, "messages": [*body["messages"], turn]}
        )

    def wellformed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body as Anthropic's validation demands it."""
        return wellformed_messages(body)

    def write_beside(
        self, body: dict[str, Any], run: WrittenTools, request: ModelRequest
    ) -> dict[str, Any]:
        """Write the container of earlier code runs too, while it exists."""
        body = super().write_beside(body, run, request)
        found = self._container_of(request)
        if found is not None:
            return {**body, "container": found.id}
        return body

    def _container_of(self, request: ModelRequest) -> Container | None:
        """The last one of the conversation at this address, unless it was refused or is past its end for sure."""
        found = last_container(request.messages, self.origin)
        if (
            found is None
            or found.id in self._gone
            or self._seconds_past(found) >= CONTAINER_SECONDS
        ):
            return None
        return found

    def _seconds_past(self, container: Container) -> float:
        """Return the seconds since a container's reported end; below 0 while it is alive, 0 if the time is invalid."""
        try:
            end = datetime.fromisoformat(container.expires_at)
        except ValueError:
            return 0.0
        return (
            self._now()
            - (end if end.tzinfo is not None else end.replace(tzinfo=UTC)).timestamp()
        )

    def learns(self, failure: Failure, way: RequestVariant) -> bool:
        """Also learn that the model accepts no references to found tools, and that a container has expired, so that the
        request gets a new one.

        After the reported time, Anthropic restores it for 30 days; if it cannot, it answers 500.
        """
        if self.able.discovery == "references" and _REFUSES_REFERENCES.search(
            failure.message
        ):
            return self.learn(failure, references=False)
        container = self._container_of(way.request)
        if container is not None:
            named = (
                "container" in failure.message.lower() or failure.param == "container"
            )
            is_late = (failure.status or 0) >= 500 and self._seconds_past(container) > 0
            if is_late or (named and 400 <= (failure.status or 0) < 500):
                self.lose({container.id}, way.listen)
                return True
        return super().learns(failure, way)

    def is_priced(self, message: Message, body: Mapping[str, Any]) -> bool:
        """Code costs nothing together with tools that are filtered by code."""
        filtered = any(
            str(tool.get("type")).startswith(_FILTERED)
            for tool in body.get("tools", ())
        )
        return filtered or super().is_priced(message, body)
