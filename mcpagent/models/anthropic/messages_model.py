"""Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages), always streamed.

Caching uses two breakpoints: one at the end of the constant part (the system prompt, else the last tool), and
Anthropic's automatic one at the end of the request. So earlier bytes of a conversation never change. Bedrock and Vertex
have no automatic breakpoint: there, the last block is marked. After a turn with very many blocks, a further breakpoint
is set at the end of the previous request.
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
"""Maximum number of continuations of a turn that Anthropic paused (`pause_turn`, for long searches)."""

LEAST_ROOM = 1024
"""Minimum number of tokens for the answer; if the window has less room, the conversation is too long."""

_TOO_LONG_AN_ANSWER = re.compile(r"max_tokens: [0-9]{1,9} > ([0-9]{1,9})\b")
_NO_ROOM = re.compile(
    r"exceed context limit: ([0-9]{1,9}) \+ ([0-9]{1,9}) > ([0-9]{1,9})\b"
)

LOOKBACK_BLOCKS = 18
"""Maximum number of blocks added without a further breakpoint. Anthropic looks for a cached prefix at most 20 blocks
before a breakpoint; the answer and a note need some of these.
"""

CHANGES_BY_REFERENCE_BETA = "mid-conversation-tool-changes-2026-07-01"
CHANGES_BY_VALUE_BETA = "inline-tools-2026-09-15"

_NOT_OF_THE_BLOCK = ("type", "estimated_tokens")
"""Fields of a delta that do not belong to its block; Anthropic refuses a block that contains them."""

_FIELDS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""Kind of delta -> the field of its block that it extends."""

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
"""Time after its expiry within which Anthropic may restore a container."""

_REFUSES_REFERENCES = re.compile(
    r"invalid beta flag|for the `?anthropic-beta`? header"
    r"|(?:defer_loading|tool_reference).{0,80}(?:not permitted|does not match)"
)
"""Matches errors of clouds that refuse deferred tools, because of the beta header (anthropics/claude-code#49370) or the
field.
"""

_FILTERED = ("web_search_2026", "web_fetch_2026")

_GOES_ON = ("pause_turn", "compaction")
"""Stop reasons after which the client must send the turn again, so that Anthropic continues it."""

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
    """Return the body of a request without its settings. With `tool_choice` "none" it still has the tools, so the
    cached prefix stays.

    `has_field`: the server accepts `cache_control` as a field of the body; otherwise the last block is marked.
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
    """Mark the last block of the last user turn for caching, as Anthropic does itself for the field of the body."""
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
    """Return a body without cache markers, for a server that accepts none."""
    if isinstance(value, list):
        return [without_markers(one) for one in value]
    if isinstance(value, dict):
        kept = ((key, one) for key, one in value.items() if key != "cache_control")
        return {
            key: one if key == "input" else without_markers(one) for key, one in kept
        }
    return value


def _reach_back(messages: Sequence[dict[str, Any]], cached: Mapping[str, str]) -> None:
    """Mark the end of the previous request for caching, if more blocks were added since than Anthropic looks back.

    Otherwise a turn with many parallel calls would lose the cached conversation. The marker itself is not part of the
    cached content.
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
    """Return the beta headers that a body needs: for tool changes in system messages, and for MCP servers that
    Anthropic calls.
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
    """Return whether the body has deferred tools, or a search tool of the provider."""
    for tool in body.get("tools", ()):
        is_search = str(tool.get("type")).startswith("tool_search_tool")
        if is_search or tool.get("defer_loading"):
            return True
    return False


def read_message(
    answer: Mapping[str, Any], *, history: Sequence[Message] = ()
) -> ModelResponse:
    """Return a complete Messages answer as a response. Raises `ReportedError` if it is an error.

    `history` has the earlier messages, so that the IDs of calls stay distinct.
    """
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
    """Return the container in which the provider ran code for the answer, as a part, or []."""
    if not isinstance(told, Mapping) or not isinstance(told.get("id"), str):
        return []
    return [Container(told["id"], str(told.get("expires_at") or ""))]


def read_block(block: Mapping[str, Any], *, cut_off: bool = False) -> Part | None:
    """Convert a block of an answer to a part; None if it is empty. `cut_off`: the answer ended inside it, perhaps
    inside a call.
    """
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
            if (
                name == CALL_TOOL.name
            ):  # store the original form of a call through `call_tool`
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
    """Return the usage. In Anthropic's `input_tokens`, tokens read from and written to the cache are not included; in
    mcpagent's they are.
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
    """Assembles a stream's events into the same answer as without streaming.

    Events as in https://platform.claude.com/docs/en/build-with-claude/streaming. A delta's fields are added to the
    fields of the same name in its block, so unknown kinds of content are preserved. Unknown deltas of known blocks are
    in `unknown_deltas` of the answer.
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
        """Process one event; return the delta to show, or None."""
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
        """Return whether the delta can be added to its block.

        Anthropic would refuse a block of a known type with unknown fields.
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
            ):  # each such delta has the whole content so far
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
        """Return the event for a complete block of a provider tool: the start of a call, or its result; None for other
        blocks.
        """
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
        """Return the same answer as without streaming. Raises `AnswerError` if the stream ended early."""
        if not self.done or not self._message:
            raise AnswerError("the stream ended early", "cut")
        for (index, name), pieces in self._texts.items():
            text = "".join(pieces)
            if name == "partial_json":
                if text:  # a block that starts with its complete input may be followed by an empty delta
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

    `betas` are added to the `anthropic-beta` header. For the other arguments, see `Connection`.
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
        if url:  # the SDK itself adds /v1
            connection["base_url"] = url.rstrip("/").removesuffix("/v1")
        super().__init__(provider, model_name, "ANTHROPIC_API_KEY", **connection)
        self.betas = tuple(betas)

    def write(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON of a Messages request."""
        learned = self.server()
        has_field = self.endpoint.caching == "field" and learned.flag("cache_field")
        body = request_body(request, self.model_name, self.able, has_field=has_field)
        return body if learned.flag("cache_markers") else without_markers(body)

    def most_output(self, failure: Failure) -> int | None:
        """Return the maximum output, or the rest of the window, if Anthropic's error message states it; else None."""
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
        """Return why Anthropic cannot search these tools: too many, too large, or no search; "" if it can."""
        if not self.able.searches:
            return super().search_problem(strategy, deferred)
        return limit_problem([write_tool(tool) for tool in deferred])

    def sdk(self) -> ProviderSdk:
        """Return the parts of Anthropic's SDK that are used."""
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
        """Return the path, with `beta=true` if the request has beta headers, which the clients of clouds look for."""
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
        """Return the body with a paused turn at its end, so that Anthropic continues it; None if the answer is
        complete.

        At most `MAX_CONTINUATIONS` times.
        """
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
        """Return the body in a form that passes Anthropic's validation."""
        return wellformed_messages(body)

    def write_beside(
        self, body: dict[str, Any], run: WrittenTools, request: ModelRequest
    ) -> dict[str, Any]:
        """Return the body with the provider tools, and with the container of earlier code runs if it still exists."""
        body = super().write_beside(body, run, request)
        found = self._container_of(request)
        if found is not None:
            return {**body, "container": found.id}
        return body

    def _container_of(self, request: ModelRequest) -> Container | None:
        """Return the last container of the conversation at this address; None if it was refused or has certainly
        expired.
        """
        found = last_container(request.messages, self.origin)
        if (
            found is None
            or found.id in self._gone
            or self._seconds_past(found) >= CONTAINER_SECONDS
        ):
            return None
        return found

    def _seconds_past(self, container: Container) -> float:
        """Return the seconds since a container's reported expiry; negative if it has not expired, 0 if the time is
        invalid.
        """
        try:
            end = datetime.fromisoformat(container.expires_at)
        except ValueError:
            return 0.0
        return (
            self._now()
            - (end if end.tzinfo is not None else end.replace(tzinfo=UTC)).timestamp()
        )

    def learns(self, failure: Failure, way: RequestVariant) -> bool:
        """Also learn that the model accepts no references to found tools, or that a container has expired.

        The next request then gets a new container. After its reported expiry, Anthropic restores a container for 30
        days; if it cannot, it returns status 500.
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
        """Return whether the price is known. Code runs cost nothing together with tools whose results the code
        filters.
        """
        filtered = any(
            str(tool.get("type")).startswith(_FILTERED)
            for tool in body.get("tools", ())
        )
        return filtered or super().is_priced(message, body)
