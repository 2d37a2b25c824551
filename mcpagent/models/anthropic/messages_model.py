"""Anthropic's Messages API (https://platform.claude.com/docs/en/api/messages), always streamed.

Caching: one breakpoint at the end of what never changes (the system prompt, else the last tool) and Anthropic's
automatic one at the end of the request, so no earlier byte of a conversation is ever written differently. Only after a
turn with very many blocks one more is set, where the request before ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from mcpagent.events import TextDelta, ThinkingDelta
from mcpagent.messages import Message, Part, ProviderBlock, Text, Thinking, ToolDefinition, Usage
from mcpagent.models.anthropic.anthropic_history import (
    PROVIDER,
    AnthropicHistory,
    found_names,
    limit_problem,
    search_events,
    write_tool,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ResponseStop
from mcpagent.models.capabilities import SAFE, Capabilities, anthropic_capabilities
from mcpagent.models.exchange import Delta
from mcpagent.models.failures_and_retries import AnswerError, Failure, ReportedError
from mcpagent.models.http_model import ANTHROPIC_URL, Connection, HttpModel, ProviderSdk
from mcpagent.models.wire_values import distinct_ids, parse_object, read_call, usage_count, without
from mcpagent.python.argument_checks import checked

MAX_CONTINUATIONS = 5
"""How often a turn that Anthropic paused (`pause_turn`, long searches on its side) is continued before it counts."""

LEAST_ROOM = 1024
"""Tokens: where a conversation leaves less for its answer, it is too long."""

_TOO_LONG_AN_ANSWER = re.compile(r"max_tokens: [0-9]{1,9} > ([0-9]{1,9})\b")
_NO_ROOM = re.compile(r"exceed context limit: ([0-9]{1,9}) \+ ([0-9]{1,9}) > ([0-9]{1,9})\b")

LOOKBACK_BLOCKS = 18
"""Anthropic looks for a cached prefix at most 20 blocks before a breakpoint; the answer and a note need some room."""

CHANGES_BY_REFERENCE_BETA = "mid-conversation-tool-changes-2026-07-01"
CHANGES_BY_VALUE_BETA = "inline-tools-2026-09-15"

_NOT_OF_THE_BLOCK = ("type", "estimated_tokens")
"""Fields of a delta that tell of it, not of its block, which would be refused with them."""

_GOES_ON = ("pause_turn", "compaction")
"""Stops of a turn that Anthropic wants to go on with, and asks us to ask."""

_STOPS: dict[str, ResponseStop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "compaction": "length",
    "refusal": "refusal",
}


def request_body(request: ModelRequest, model_name: str, can: Capabilities = SAFE) -> dict[str, Any]:
    """The body for one request without its settings. `tool_choice` "none" keeps the tools, and so the cached prefix."""
    cached = {"type": "ephemeral", "ttl": "1h"} if request.settings.cache_ttl == "1h" else {"type": "ephemeral"}
    history = AnthropicHistory(request, can)
    messages = history.write(request.messages)
    body: dict[str, Any] = {"model": model_name}
    tools = history.tools()
    if tools:
        body["tools"] = tools
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": cached}]
    elif eager := [tool for tool in tools if not tool.get("defer_loading")]:
        eager[-1]["cache_control"] = cached
    body["messages"] = messages
    body["cache_control"] = cached
    _reach_back(messages, cached)
    if request.tools and request.tool_choice == "none":
        body["tool_choice"] = {"type": "none"}
    return body


def _reach_back(messages: Sequence[dict[str, Any]], cached: Mapping[str, str]) -> None:
    """Marks where the request before this one ended, when more blocks came since than Anthropic looks back over.

    Without it a turn with many parallel calls would lose the cached conversation. The mark itself is no part of what
    is cached.
    """
    places = range(len(messages) - 2, -1, -1)
    before = next((place for place in places if messages[place + 1]["role"] == "assistant"), None)
    if before is not None and sum(len(turn["content"]) for turn in messages[before + 1 :]) > LOOKBACK_BLOCKS:
        content = messages[before]["content"]
        content[-1] = {**content[-1], "cache_control": cached}


def betas_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The beta headers a body needs: tools changed by system messages are not generally available yet."""
    blocks = [block for turn in body["messages"] if turn["role"] == "system" for block in turn["content"]]
    if not blocks:
        return ()
    by_value = any(block["tool"]["type"] == "tool_definition" for block in blocks)
    return (CHANGES_BY_VALUE_BETA,) if by_value else (CHANGES_BY_REFERENCE_BETA,)


def read_message(answer: Mapping[str, Any], *, history: Sequence[Message] = ()) -> ModelResponse:
    """A whole Messages answer. Raises `ReportedError` if it is an error. `history` is what came before: ids of calls
    stay distinct."""
    if answer.get("type") == "error" or (answer.get("error") and "content" not in answer):
        raise ReportedError(answer.get("error"))
    reason = str(answer.get("stop_reason") or "")
    stop = _STOPS.get(reason)
    content = answer["content"]
    parts = [
        read_block(block, cut_off=stop == "length" and position == len(content) - 1)
        for position, block in enumerate(content)
    ]
    kept = distinct_ids([part for part in parts if part is not None], history)
    message = Message("assistant", kept)
    return ModelResponse(message, read_usage(answer), stop or ("tool_calls" if message.tool_calls else "end"))


def read_block(block: Mapping[str, Any], *, cut_off: bool = False) -> Part | None:
    """A block of an answer, None if it says nothing. `cut_off`: the answer ended in it, so that a call is not whole."""
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text, provider_data=without(block, ("type", "text"))) if text.strip() else None
        case {"type": "tool_use", "name": str(name)}:
            rest = without(block, ("type", "id", "name", "input"))
            call_id, arguments = str(block.get("id") or ""), block.get("input")
            return read_call(call_id, name, arguments, cut_off=cut_off, provider_data=rest)
        case {"type": "thinking" | "redacted_thinking"}:
            thought = block.get("thinking")
            return Thinking(thought if isinstance(thought, str) else "", dict(block))
        case _:
            return ProviderBlock(dict(block))


def read_usage(answer: Mapping[str, Any]) -> Usage:
    """Anthropic counts what the cache read and wrote beside `input_tokens`; ours is the whole input."""
    usage = answer.get("usage")
    read, written = usage_count(usage, "cache_read_input_tokens"), usage_count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=usage_count(usage, "input_tokens") + read + written,
        output_tokens=usage_count(usage, "output_tokens"),
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
        self.was_marked = False
        self.done = False

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        """Takes one event; gives what to show of it."""
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
                self.done = True
            case _:
                pass
        return None

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> Delta | None:
        block = self._blocks[index]
        for name, value in without(delta, _NOT_OF_THE_BLOCK).items():
            if delta["type"] == "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), value]
            elif isinstance(value, str):
                self._texts.setdefault((index, name), []).append(value)
            elif value is not None or name not in block:
                block[name] = value
        match delta["type"]:
            case "text_delta":
                return TextDelta(delta["text"])
            case "thinking_delta":
                return ThinkingDelta(delta["thinking"])
            case _:
                return None

    def answer(self) -> dict[str, Any]:
        """The answer as it is without streaming. Raises `AnswerError` if the stream ended early."""
        if not self.done or not self._message:
            raise AnswerError("the stream ended early", "cut")
        for (index, name), pieces in self._texts.items():
            text = "".join(pieces)
            if name == "partial_json":
                if text:  # a block that starts with its whole input may be followed by an empty delta
                    parsed = parse_object(text)
                    self._blocks[index]["input"] = text if parsed is None else parsed
            else:
                self._blocks[index][name] = (self._blocks[index].get(name) or "") + text
        return {**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]}


class AnthropicModel(HttpModel):
    """A Claude model, by default with the key in ANTHROPIC_API_KEY.

    `betas` go into the `anthropic-beta` header, beside those a request needs. The rest is in `Connection`.
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
        super().__init__(provider, model_name, "ANTHROPIC_API_KEY", **connection)
        self.betas = tuple(betas)

    def known_capabilities(self) -> Capabilities:
        """By family and version, whatever the address."""
        return anthropic_capabilities(self.model_name)

    def write(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON of a Messages request."""
        return request_body(request, self.model_name, self.capabilities)

    def most_output(self, failure: Failure) -> int | None:
        """The longest answer that the model takes, or that this conversation leaves room for, as Anthropic told it."""
        if found := _TOO_LONG_AN_ANSWER.search(failure.message):
            return int(found[1])
        if found := _NO_ROOM.search(failure.message):
            room = int(found[3]) - int(found[1])
            return room if room >= LEAST_ROOM else None
        return None

    def _read(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        return read_message(answer, history=request.messages)

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        """Too many tools, or too large ones, for the model's search; or that it has none."""
        if not self.capabilities.searches:
            return super().search_problem(strategy, deferred)
        return limit_problem([write_tool(tool) for tool in deferred])

    def sdk(self) -> ProviderSdk:
        """Anthropic's."""
        import anthropic

        stream, header = anthropic.AsyncStream[object], ("X-Api-Key", "{}", anthropic.Omit())
        return ProviderSdk(anthropic.AsyncAnthropic, anthropic.AnthropicError, stream, *header)

    def request_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The header of the betas that are given and needed, if there are any."""
        betas = dict.fromkeys((*self.betas, *betas_of(body)))
        return {"headers": {"anthropic-beta": ",".join(betas)}, "params": {"beta": "true"}} if betas else {}

    def continued(self, body: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """The same body with the paused turn at its end, so many times as `MAX_CONTINUATIONS` says."""
        last = answers[-1]
        if last.get("stop_reason") not in _GOES_ON or len(answers) > MAX_CONTINUATIONS:
            return None
        return {**body, "messages": [*body["messages"], {"role": "assistant", "content": last.get("content")}]}
