"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses), always streamed and stateless.

Nothing is stored at OpenAI: the whole history goes out each time, reasoning as the encrypted items it came in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from mcpagent.events import Event, TextDelta, ThinkingDelta
from mcpagent.messages import (
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolDefinition,
    Usage,
)
from mcpagent.models.base import ModelRequest, ModelResponse, ResponseStop
from mcpagent.models.capabilities import SAFE, Capabilities, openai_capabilities
from mcpagent.models.discovery import with_found
from mcpagent.models.failures import AnswerError, ReportedError
from mcpagent.models.http_model import Connection, Delta
from mcpagent.models.openai_model import OpenAIModel
from mcpagent.models.openai_responses_history import PROVIDER, found_names, request_body, search_events
from mcpagent.models.wire import (
    counted,
    distinct_ids,
    read_call,
    without,
)


class OpenAIResponsesModel(OpenAIModel):
    """A model behind OpenAI's Responses API, by default with the key in OPENAI_API_KEY.

    At an address of your own nothing is known of the model's capabilities. Options are in `Connection`.
    """

    path = "/responses"

    def __init__(self, model_name: str, **connection: Unpack[Connection]) -> None:
        super().__init__(PROVIDER, model_name, "OPENAI_API_KEY", **connection)

    def known_capabilities(self) -> Capabilities:
        return openai_capabilities(self.model_name) if self.at_openai else SAFE

    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        return request_body(request, self.model_name, self.capabilities)

    def read_answer(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        response = read_response(answer, history=request.messages)
        return replace(response, message=with_found(response.message, request, found_names))

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        if not self.capabilities.searches:
            return super().search_problem(strategy, deferred)
        return "" if strategy == "auto" else f'OpenAI ranks in a way of its own, not by "{strategy}"'

    def searches_in(self, message: Message, request: ModelRequest) -> list[Event]:
        return search_events(message, known=request.known_tools)

    def stream_reader(self) -> ResponseStream:
        return ResponseStream()


def read_response(answer: Mapping[str, Any], *, history: Sequence[Message] = ()) -> ModelResponse:
    """A whole Responses answer. Raises `ReportedError` where it failed. `history` is what came before: ids of calls
    stay distinct."""
    if answer.get("status") == "failed" or answer.get("error"):
        raise ReportedError(answer.get("error"))
    reason = (answer.get("incomplete_details") or {}).get("reason")
    cut = answer.get("status") == "incomplete" and reason != "content_filter"
    output = answer["output"]
    parts: list[Part] = []
    for position, item in enumerate(output):
        parts += _read_item(item, cut_off=cut and position == len(output) - 1)
    message = Message("assistant", distinct_ids(parts, history), provider=PROVIDER)
    return ModelResponse(message, read_usage(answer), _stop(message, cut=cut, filtered=reason == "content_filter"))


def _stop(message: Message, *, cut: bool, filtered: bool) -> ResponseStop:
    if cut:
        return "length"
    refused = any(
        isinstance(part, Text) and part.provider_data.get("content", {}).get("type") == "refusal"
        for part in message.parts
    )
    if filtered or refused:
        return "refusal"
    return "tool_calls" if message.tool_calls else "end"


def _read_item(item: Mapping[str, Any], *, cut_off: bool) -> list[Part]:
    match item:
        case {"type": "message", "content": [_, *_] as contents}:
            around = without(item, ("content",))
            return [_read_content(content, around, joined=place > 0) for place, content in enumerate(contents)]
        case {"type": "function_call", "name": str(name)}:
            rest = without(item, ("type", "call_id", "name"))
            cut_off = cut_off or item.get("status") == "incomplete"
            call_id, arguments = str(item.get("call_id") or ""), item.get("arguments") or ""
            return [read_call(call_id, name, arguments, cut_off=cut_off, provider_data=rest)]
        case {"type": "reasoning"}:
            shown = [*_texts(item.get("summary")), *_texts(item.get("content"))]
            return [Thinking("\n\n".join(shown), PROVIDER, dict(item))]
        case _:
            return [ProviderBlock(PROVIDER, dict(item))]


def _texts(pieces: object) -> list[str]:
    listed = pieces if isinstance(pieces, list) else ()
    return [str(piece.get("text") or "") for piece in listed if isinstance(piece, Mapping)]


def _read_content(content: Any, around: dict[str, Any], *, joined: bool) -> Part:
    """One piece of a message item, with the item around it, so that it can be put back."""
    place = {"item": around, **({"joined": True} if joined else {})}
    match content:
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text, provider_data={**place, "content": without(content, ("refusal",))})
        case {"type": "output_text", "text": str(text)}:
            return Text(text, provider_data={**place, "content": without(content, ("text",))})
        case _:
            return ProviderBlock(PROVIDER, {**place, "content": content})


def read_usage(answer: Mapping[str, Any]) -> Usage:
    """OpenAI's `input_tokens` already hold the cached part."""
    usage = answer.get("usage")
    return Usage(
        input_tokens=counted(usage, "input_tokens"),
        output_tokens=counted(usage, "output_tokens"),
        cache_read_tokens=counted(usage, "input_tokens_details", "cached_tokens"),
        cache_write_tokens=counted(usage, "input_tokens_details", "cache_write_tokens"),
        requests=1,
    )


class ResponseStream:
    """Puts a stream's events together: the last one holds the whole answer, or, at some servers, all but its items.

    Events as in https://platform.openai.com/docs/api-reference/responses-streaming.
    """

    def __init__(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._answer: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        return self._answer is not None

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return TextDelta(event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return ThinkingDelta(event["delta"])
            case "response.output_item.done":
                self._items[event["output_index"]] = dict(event["item"])
            case "response.completed" | "response.incomplete" | "response.failed":
                self._answer = dict(event["response"])
            case "error":
                raise ReportedError(event.get("error") or without(event, ("type",)))
            case _:
                pass
        return None

    def answer(self) -> dict[str, Any]:
        if self._answer is None:
            raise AnswerError("the stream ended early", "cut")
        items = [self._items[index] for index in sorted(self._items)]
        return {**self._answer, "output": self._answer.get("output") or items}
