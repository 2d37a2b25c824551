"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses), always streamed and stateless.

OpenAI stores nothing: each request has the whole history, with reasoning as the encrypted items that OpenAI sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.failures_and_retries import AnswerError, Failure, ReportedError
from mcpagent.models.http_model import Connection, OpenAIModel
from mcpagent.models.openai.openai_responses_history import (
    PROVIDER,
    found_names,
    request_body,
    search_events,
)
from mcpagent.models.provider_tools.citations import citations_of
from mcpagent.models.provider_tools.provider_calls import (
    asked_in,
    containers_of,
    ended_in,
)
from mcpagent.models.stream_rollback import CallDelta, Delta
from mcpagent.models.wellformed.wellformed_responses import wellformed_responses
from mcpagent.models.wire_values import (
    distinct_ids,
    openai_usage,
    read_call,
    stop_of,
    without,
)
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.values.events import ProviderCallStarted, TextDelta, ThinkingDelta
from mcpagent.values.messages import (
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolDefinition,
)


def read_response(
    answer: Mapping[str, Any], *, history: Sequence[Message] = ()
) -> ModelResponse:
    """Convert a whole Responses answer to a response. Raises `ReportedError` if it failed.

    `history` has the earlier messages, so that the IDs of calls stay distinct.
    """
    _check(answer)
    reason = (answer.get("incomplete_details") or {}).get("reason")
    cut = answer.get("status") == "incomplete" and reason != "content_filter"
    output = answer["output"]
    parts: list[Part] = []
    for position, item in enumerate(output):
        parts += read_item(item, cut_off=cut and position == len(output) - 1)
    message = Message("assistant", distinct_ids(parts, history))
    contents = [
        part.provider_data.get("content", {})
        for part in parts
        if isinstance(part, Text)
    ]
    refused = reason == "content_filter" or any(
        content.get("type") == "refusal" for content in contents
    )
    usage = openai_usage(answer.get("usage"), "input_tokens", "output_tokens")
    usage = replace(usage, web_searches=sum(map(_is_web_search, output)))
    return ModelResponse(message, usage, stop_of(message, cut=cut, refused=refused))


def _is_web_search(item: Mapping[str, Any]) -> bool:
    """Return whether the item is a web search, which costs money; opening a found page does not."""
    action = item.get("action")
    kind = action.get("type") if isinstance(action, Mapping) else "search"
    return item.get("type") == "web_search_call" and kind == "search"


def _check(answer: Mapping[str, Any]) -> None:
    """Raise `ReportedError` if the answer failed or was cancelled."""
    if answer.get("status") in ("failed", "cancelled") or answer.get("error"):
        told = answer.get("error") or {
            "type": "server_error",
            "message": f"the answer is {answer.get('status')}",
        }
        raise ReportedError(told)


def read_item(item: Mapping[str, Any], *, cut_off: bool = False) -> list[Part]:
    """Return the parts for an item of an answer. `cut_off`: the answer ended inside it, so a call is incomplete."""
    match item:
        case {"type": "message", "content": [_, *_] as contents}:
            around = without(item, ("content",))
            return [
                _read_content(content, around, joined=place > 0)
                for place, content in enumerate(contents)
            ]
        case {"type": "message", "content": None | []}:
            return []  # an empty item, which no request may contain
        case {"type": "function_call", "name": str(name)}:
            rest = without(item, ("type", "call_id", "name"))
            cut_off = cut_off or item.get("status") == "incomplete"
            call_id, arguments = (
                str(item.get("call_id") or ""),
                item.get("arguments") or "",
            )
            return [
                read_call(call_id, name, arguments, cut_off=cut_off, provider_data=rest)
            ]
        case {"type": "reasoning"}:
            shown = [*_texts(item.get("summary")), *_texts(item.get("content"))]
            return [Thinking("\n\n".join(shown), dict(item))]
        case _:
            return [ProviderBlock(dict(item))]


def _texts(pieces: object) -> list[str]:
    listed = pieces if isinstance(pieces, list) else ()
    return [
        str(piece.get("text") or "") for piece in listed if isinstance(piece, Mapping)
    ]


def _read_content(content: Any, around: dict[str, Any], *, joined: bool) -> Part:
    """Return one content block of a message item, with the data of the item, so that the item can be restored.

    `joined`: it belongs to the same item as the previous block.
    """
    place = {"item": around, **({"joined": True} if joined else {})}
    match content:
        case {"type": "refusal", "refusal": str(text)}:
            return Text(
                text, provider_data={**place, "content": without(content, ("refusal",))}
            )
        case {"type": "output_text", "text": str(text)}:
            data = {**place, "content": without(content, ("text",))}
            return Text(text, data, citations_of(content.get("annotations")))
        case _:
            return ProviderBlock({**place, "content": content})


class ResponseStream:
    """Assembles a stream's events. The last event has the whole answer, or, at some servers, everything but its items.

    Events as in https://platform.openai.com/docs/api-reference/responses-streaming.
    """

    def __init__(self) -> None:
        self.was_marked = False
        self._items: dict[int, dict[str, Any]] = {}
        self._called: dict[object, str] = {}
        self._answer: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Return whether the last event arrived."""
        return self._answer is not None

    def add(self, event: Mapping[str, Any]) -> Delta | CallDelta | None:
        """Process one event; return the delta to emit, or None."""
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                return TextDelta(event["delta"])
            case (
                "response.reasoning_summary_text.delta"
                | "response.reasoning_text.delta"
            ):
                return ThinkingDelta(event["delta"])
            case "response.output_item.added":
                item = event.get("item") or {}
                if item.get("type") == "function_call":
                    self._called[event.get("output_index")] = str(
                        item.get("name") or ""
                    )
                call = asked_in(item)
                if call is not None and call.id:
                    return ProviderCallStarted(call)
                return None
            case "response.function_call_arguments.delta":
                return CallDelta(
                    self._called.get(event.get("output_index"), ""),
                    str(event.get("delta") or ""),
                )
            case "response.output_item.done":
                # llama.cpp and LiteLLM send no index; their items arrive in order
                self._items[event.get("output_index", len(self._items))] = dict(
                    event["item"]
                )
                ended = ended_in(event["item"], {})
                if ended is not None and ended.call.id:
                    return ended.events[1]
                return None
            case (
                "response.completed"
                | "response.incomplete"
                | "response.failed"
                | "response.cancelled"
            ):
                _check(event["response"])
                self._answer = dict(event["response"])
            case "error":
                raise ReportedError(event.get("error") or without(event, ("type",)))
            case _:
                pass
        return None

    def answer(self) -> dict[str, Any]:
        """Return the same answer as without streaming. Raises `AnswerError` if the stream ended early."""
        if self._answer is None:
            raise AnswerError("the stream ended early", "cut")
        items = [self._items[index] for index in sorted(self._items)]
        return {**self._answer, "output": self._answer.get("output") or items}


class OpenAIResponsesModel(OpenAIModel):
    """A model behind OpenAI's Responses API, by default with the key in OPENAI_API_KEY.

    At other addresses, the capabilities of the model are unknown. For the options, see `Connection`.
    """

    path = "/responses"
    protocol = "responses"
    stream_reader = ResponseStream
    found_names = staticmethod(found_names)
    search_events = staticmethod(search_events)

    @checked()
    def __init__(
        self,
        model_name: str,
        *,
        provider: str = PROVIDER,
        **connection: Unpack[Connection],
    ) -> None:
        super().__init__(provider, model_name, "OPENAI_API_KEY", **connection)

    def write(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON of a Responses request."""
        return request_body(request, self.model_name, self.capabilities)

    def wellformed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body in a form that passes OpenAI's validation. Other servers also parse the arguments of earlier
        calls.
        """
        return wellformed_responses(
            body,
            parses_arguments=self.provider != PROVIDER and not self.speaks_as_openai,
        )

    def _read(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        return read_response(answer, history=request.messages)

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        """Return why the model's provider cannot search these tools, or not by this `strategy`; "" if it can."""
        if not self.capabilities.searches:
            return super().search_problem(strategy, deferred)
        if strategy == "auto":
            return ""
        return f'OpenAI ranks in a way of its own, not by "{strategy}"'

    def learns(self, failure: Failure, way: RequestVariant) -> bool:
        """Also learn that a container has expired: from then on, its results are sent as text.

        Errors of OpenAI and Azure: "Expected container_id: cntr_...", "Container is expired."
        """
        said = failure.message.lower()
        if failure.status in (400, 404) and "container" in said:
            known = {
                one
                for message in way.request.messages
                for one in containers_of(message)
            } - self._gone
            if lost := {one for one in known if one.lower() in said} or known:
                self.lose(lost, way.listen)
                return True
        return super().learns(failure, way)
