"""A request in progress: its body, the incoming events, the emitted deltas, and the decision to retry.

`HttpModel.respond` does the I/O and the waiting; this module decides everything else.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from mcpagent.models.base import (
    ModelRequest,
    ModelResponse,
    request_tokens,
    untold_tokens,
)
from mcpagent.models.failures_and_retries import (
    AnswerError,
    Failure,
    ReportedError,
    Target,
    read_failure,
    reading,
    to_error,
)
from mcpagent.models.prices import dollars_for
from mcpagent.models.provider_tools.provider_calls import (
    call_events,
    calls_to_come,
    ran_unpriced,
)
from mcpagent.models.stream_rollback import CallDelta, Delta, ShownDeltas
from mcpagent.models.tool_changes_in_history import with_found
from mcpagent.values.events import (
    Emit,
    Event,
    Notice,
    ProviderCallFinished,
    ProviderCallStarted,
)
from mcpagent.values.messages import Message, Origin, Part, Usage

if TYPE_CHECKING:
    import httpx2


class StreamReader(Protocol):
    """Assembles the events of one stream; `done` is True once no further event is expected."""

    was_marked: bool
    """True if the stream ended with the marker `[DONE]`, which follows the last event."""

    @property
    def done(self) -> bool:
        """Return whether the answer is complete."""
        ...

    def add(self, event: Mapping[str, Any]) -> Delta | CallDelta | None:
        """Process one event; return the delta to show, or None. Raises `ReportedError` if the event is an error."""
        ...

    def answer(self) -> dict[str, Any]:
        """Return the same JSON as without streaming. Raises `AnswerError` if the stream ended before the answer did."""
        ...


def _unheard(delta: CallDelta) -> None:
    """Ignore a piece of a call's arguments: calls are shown when they are complete."""


@dataclass(frozen=True, slots=True)
class RequestVariant:
    """A form of a request: the request to send, the receiver of its events, and the functions that read its answer and
    its calls.
    """

    request: ModelRequest
    listen: Emit
    understand: Callable[[ModelResponse], ModelResponse] = lambda response: response
    hear_call: Callable[[CallDelta], None] = _unheard


class ApiFormat(ABC):
    """A provider's API with the model to use: functions over JSON data, without I/O.

    Servers of other providers may have the same API.
    """

    provider: str
    model_name: str
    target: Target
    origin: Origin
    """The provider and model that its answers name as their origin."""
    stream_reader: ClassVar[type[StreamReader]]
    """The class of the stream reader; each attempt creates a new one."""

    @abstractmethod
    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON to send for the request; the same request always gives the same bytes."""

    @abstractmethod
    def _read(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        """Convert the provider's answer to a response, including all data that the provider needs back."""

    def read_answer(
        self, answer: Mapping[str, Any], request: ModelRequest
    ) -> ModelResponse:
        """Convert the provider's answer to a response, with its origin and the tools that the provider's search
        found.
        """
        response = self._read(answer, request)
        message = replace(response.message, origin=self.origin)
        return replace(response, message=with_found(message, request, self.found_names))

    def most_output(self, failure: Failure) -> int | None:  # noqa: ARG002
        """Return the maximum output that may be requested, if the failure reports it; else None."""
        return None

    def generated_answer(self, text: str) -> dict[str, Any]:
        """Return an answer from the model's raw output, which the provider could not parse and returned in an error."""
        raise NotImplementedError(text)

    @staticmethod
    def found_names(part: Part) -> list[str]:  # noqa: ARG004
        """Return the names of the tools that the provider's own search found in this part of an answer."""
        return []

    @staticmethod
    def search_events(message: Message, *, known: int) -> list[Event]:  # noqa: ARG004
        """Return the events of the provider's own searches in an answer: results, and errors inside successful
        answers.
        """
        return []

    def is_priced(self, message: Message, body: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Return whether the price table covers everything that the provider did for the answer.

        `body` is the body of the request.
        """
        return not ran_unpriced(message)

    def price_of(self, usage: Usage) -> float | None:
        """Return the price of the tokens in US dollars by the price table; None if unknown."""
        return dollars_for(usage, self.provider, self.model_name, self.target.base_url)

    def way(self, request: ModelRequest, emit: Emit) -> RequestVariant:
        """Return the form in which to send the request, by the known facts about the server."""
        return RequestVariant(request, emit)

    def learns(self, failure: Failure, way: RequestVariant) -> bool:  # noqa: ARG002
        """Return whether the failure shows that the request needs another form, which is then used."""
        return False

    def continued(
        self,
        body: Mapping[str, Any],  # noqa: ARG002
        answers: Sequence[Mapping[str, Any]],  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Return the body that continues an answer that the provider paused; None if the answer is complete."""
        return None


MOST_WAYS = 8
"""Maximum number of changes of one request after failures, so that a server that always fails differently ends the
request.
"""


class Exchange:
    """A request until its answer is complete.

    A failed request is repeated only if no text of its answer was emitted. If thinking was emitted, an event reports
    that it is invalid.
    """

    def __init__(
        self, api: ApiFormat, request: ModelRequest, emit: Emit, max_retries: int
    ) -> None:
        self._api = api
        self._max_retries = max_retries
        self._request = request
        self._emit = emit
        self._shown = ShownDeltas(emit)
        self._told: dict[str, bool] = {}
        self._ways_left = MOST_WAYS
        self._reopened = False
        self._ask()

    def _ask(self) -> None:
        self._way = self._api.way(self._request, self._shown)
        self._sent = self._api.request_body(self._way.request)
        self._body: dict[str, Any] | None = self._sent
        self._answers: list[dict[str, Any]] = []
        self._attempt = 0

    def reopens(self, error: Exception, *, was_used: bool) -> bool:
        """Return whether to repeat the request because a reused connection closed before any byte of the answer; only
        once.

        Servers close idle connections. The request is repeated on a new one, without a notice.
        """
        if (
            not was_used
            or self._reopened
            or self._began
            or self._answers
            or read_failure(error).kind != "cut"
        ):
            return False
        self._reopened = True
        return True

    def next_body(self) -> dict[str, Any] | None:
        """Return the next body: the request, or the continuation of a paused answer; None if nothing is left to
        send.
        """
        self._reader = self._api.stream_reader()
        self._whole = False
        self._began = False
        return self._body

    def streams(self, response: httpx2.Response) -> bool:
        """Return whether the answer is a stream of events; some servers always send it in one piece."""
        self._began = True
        kind = (
            response.headers.get("content-type", "").partition(";")[0].strip().lower()
        )
        if kind == "text/html":
            raise AnswerError("a web page", "unreadable")
        return kind != "application/json"

    def add(self, event: object) -> bool:
        """Process an event and emit its content; return True if it completes the answer.

        Later events are ignored. Raises `ReportedError` if the event is an error, and `AnswerError` if it violates the
        protocol.
        """
        if self._whole:
            return False
        with reading():
            delta = None
            if isinstance(event, Mapping):
                delta = self._reader.add(event)
        if isinstance(delta, CallDelta):
            self._way.hear_call(delta)
        elif delta is not None:
            if isinstance(delta, ProviderCallStarted | ProviderCallFinished):
                self._told[delta.call.id] = isinstance(delta, ProviderCallFinished)
            self._way.listen(delta)
        if self._reader.done:
            self.end()
        return self._whole

    def end(self, *, was_marked: bool = False) -> None:
        """End the stream, perhaps with a marker. Raises `AnswerError` if the answer is not complete."""
        if not self._whole:
            self._reader.was_marked = was_marked
            with reading():
                self._take(self._reader.answer())

    def take(self, content: bytes) -> None:
        """Process an answer that came in one piece.

        If it contains an error, that is raised as in a stream, so that the request can be retried.
        """
        with reading():
            answer = dict(json.loads(content))
            self._api.read_answer(answer, self._way.request)
            self._take(answer)

    def _take(self, answer: dict[str, Any]) -> None:
        self._answers.append(answer)
        self._body = self._api.continued(self._body or {}, self._answers)
        self._whole = True
        self._attempt = 0
        self._shown.keep()

    def failed(self, error: Exception) -> float:
        """Return the seconds to wait before the next attempt. Raises the failure as an error if retrying is useless.

        Returns 0 if the answer is already complete, or if the next attempt uses another form of the request.
        """
        if self._whole:
            return 0.0
        failure = read_failure(error)
        if failure.kind == "cut" and not self._began:
            failure = replace(failure, kind="closed")
        if failure.status:
            what = f"HTTP {failure.status}"
        else:
            what = failure.message or failure.kind
        if (
            self._ways_left
            and not self._shown.any_text
            and self._asks_otherwise(failure)
        ):
            self._ways_left -= 1
            self._shown.restart(what)
            self._ask()
            return 0.0
        if failure.generated and not self._shown.any_text:
            self._shown.restart(what)
            self._take(self._api.generated_answer(failure.generated))
            return 0.0
        # If an answer used up its whole time, waiting again is useless.
        took_long = failure.kind == "too_long" and self._shown.any_since_kept
        final = self._shown.any_text or took_long or self._attempt == self._max_retries
        if final:
            delay = None
        else:
            delay = failure.seconds_before_retry(self._attempt)
        if delay is None:
            silent = (
                self._request.settings.timeout_seconds
                or self._api.target.silent_seconds
            )
            raise to_error(
                failure, replace(self._api.target, silent_seconds=silent)
            ) from None
        self._attempt += 1
        self._shown.restart(what)
        self._way = self._api.way(
            self._request, self._shown
        )  # a new parser drops the buffered text of the failed attempt
        self._emit(
            Notice(
                f"{self._api.provider}: {what}; trying again in {delay:.1f} s",
                "warning",
            )
        )
        return delay

    def _asks_otherwise(self, failure: Failure) -> bool:
        """Return whether the next attempt uses another form of the request, or requests a shorter answer."""
        most = self._api.most_output(failure)
        if most is not None and most != self._request.settings.max_output_tokens:
            settings = replace(self._request.settings, max_output_tokens=most)
            self._request = replace(self._request, settings=settings)
            return True
        return self._api.learns(failure, self._way)

    def response(self) -> ModelResponse:
        """Return the complete answer with its price. Raises `ModelError` if it violates the protocol."""
        api, request = self._api, self._way.request
        try:
            with reading():
                response = api.read_answer(reduce(joined, self._answers), request)
                happened = api.search_events(
                    response.message, known=request.known_tools
                )
                before = next(
                    (
                        one
                        for one in reversed(request.messages)
                        if one.role == "assistant"
                    ),
                    None,
                )
                happened += call_events(
                    response.message, self._told, calls_to_come(before)
                )
        except (AnswerError, ReportedError) as error:
            raise to_error(read_failure(error), api.target) from None
        for event in happened:
            self._way.listen(event)
        untold = Usage(
            *untold_tokens(
                response.usage, partial(request_tokens, request), response.message
            )
        )
        dollars = api.price_of(response.usage + untold)
        if not api.is_priced(response.message, self._sent):
            dollars = None
        return self._way.understand(replace(response, dollars=dollars))


def joined(paused: Mapping[str, Any], following: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a paused answer and its continuation.

    The content is joined in order, the usage is added up, and `continued` has the earlier IDs.
    """
    return {
        **following,
        "content": [*paused["content"], *following["content"]],
        "usage": _added(paused.get("usage") or {}, following.get("usage") or {}),
        "continued": [*(paused.get("continued") or ()), paused.get("id")],
        **(
            {"container": container}
            if (container := following.get("container") or paused.get("container"))
            else {}
        ),
    }


def _added(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects merged: numbers are added, also in nested objects; for other values, the later one counts."""
    made = dict(after)
    for key, value in before.items():
        later = after.get(key)
        if isinstance(value, int):
            made[key] = value + (later or 0)
        elif isinstance(value, Mapping):
            made[key] = _added(value, later if isinstance(later, Mapping) else {})
    return made
