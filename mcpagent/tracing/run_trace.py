"""The spans of one run: the run, its requests and calls, what was decided and searched for in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from mcpagent.conversation import INNER
from mcpagent.events import (
    AnswerRestarted,
    ConversationCompacted,
    Event,
    Notice,
    ProviderCall,
    ProviderCallFinished,
    ProviderCallStarted,
    RequestSent,
    RunFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolsLoaded,
    ToolsSearched,
)
from mcpagent.messages import ToolCall
from mcpagent.models.base import Model, ModelRequest, ModelResponse
from mcpagent.run import AgentRun, RunWatch
from mcpagent.text.safe_text import safe_line
from mcpagent.tools import Tool
from mcpagent.tracing.content import SpanContent
from mcpagent.tracing.conventions import (
    FINISHED,
    asked_attributes,
    call_attributes,
    compacted_attributes,
    error_type,
    model_attributes,
    offer_attributes,
    response_attributes,
    result_error,
    search_attributes,
    settings_attributes,
    spent_attributes,
)
from mcpagent.tracing.open_spans import OpenSpan, OpenSpans, current, trace_parent
from mcpagent.tracing.spans import Attributes, AttributeValue

logger = logging.getLogger("mcpagent")

MOST_EVENTS = 100
"""Of one span; what restarts without an end must not fill the memory."""


_T = TypeVar("_T")


class _Harmless(AbstractContextManager[_T], Generic[_T]):
    """What stands around a step, with its own mistakes logged: a run does not fail because it is watched."""

    def __init__(self, make: Callable[[], AbstractContextManager[_T]], otherwise: _T) -> None:
        self._make = make
        self._otherwise = otherwise
        self._inside: AbstractContextManager[_T] | None = None

    def __enter__(self) -> _T:
        try:
            inside = self._make()
            given = inside.__enter__()
        except Exception:
            logger.exception("tracing failed at the beginning of a step")
            return self._otherwise
        self._inside = inside
        return given

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inside is None:
            return
        try:
            self._inside.__exit__(kind, error, trace)
        except BaseException as own:
            if own is not error:
                logger.exception("tracing failed at the end of a step")


def _nothing(response: ModelResponse) -> None:
    """For an answer that cannot be noted."""


class Tracer(Protocol):
    """What the runs of an agent share: where spans go, what is captured, how servers are reached."""

    spans: OpenSpans
    agent_name: str
    content: SpanContent | None
    """What may be captured of what is said; None: nothing."""

    def server_attributes(self, server: str) -> Attributes:
        """How it is reached."""
        ...


class RunTrace(RunWatch):
    """Stands beside one run and makes its spans; `earlier` are links to the run that it goes on with."""

    def __init__(self, tracer: Tracer, run: AgentRun, earlier: tuple[tuple[str, str], ...] = ()) -> None:
        self._tracer = tracer
        self._spans = tracer.spans
        self._conversation_id = safe_line(run.context.thread_id, 200)
        self._offer: Attributes = {}
        self._request: OpenSpan | None = None
        self._calls: dict[str, OpenSpan] = {}
        self._last_call: OpenSpan | None = None
        self._provider_calls: dict[str, OpenSpan] = {}
        self._found: dict[str, tuple[int, tuple[str, str]]] = {}
        """By tool: its rank in the last search that had it, and the span of that search."""
        self._finished: dict[str, AttributeValue] = {}
        self._context = run
        self._earlier = earlier
        self._run: OpenSpan

    def nested(self, run: AgentRun, earlier: str) -> RunWatch:  # noqa: ARG002 - it begins with this call
        """The trace of an agent that is called here, below the call."""
        return RunTrace(self._tracer, run)

    # -- what it is around --------------------------------------------------------------------------------------------

    def running(self) -> AbstractContextManager[None]:
        """Makes the run the current span."""
        return _Harmless(lambda: self._running(), None)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._run = span = self._begin_run()
        self.trace = trace_parent(span.ids)
        error = ""
        try:
            with current(span):
                yield
        except BaseException as raised:
            error = error_type(raised)
            self._describe(span, raised)
            raise
        finally:
            for call in self._calls.values():  # cancelled ones have no result
                self._spans.finish(call)
            spent = self._context.tally
            found = spent_attributes(spent.spent) | {"mcpagent.turns": spent.turns}
            self._spans.finish(span, found | self._finished, error=error)

    def _begin_run(self) -> OpenSpan:
        run, tracer = self._context, self._tracer
        name = run.label or tracer.agent_name
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            **model_attributes(run.model),
            "gen_ai.conversation.id": self._conversation_id,
            "mcpagent.run.id": run.context.run_id,
        }
        if name:
            attributes["gen_ai.agent.name"] = safe_line(name, 80)
        if (content := tracer.content) is not None:
            attributes["gen_ai.input.messages"] = content.messages(run.conversation.messages[-1:])
        return self._spans.begin(f"invoke_agent {name}".strip(), attributes, links=self._earlier)

    def asking(self, request: ModelRequest, model: Model) -> AbstractContextManager[Callable[[ModelResponse], None]]:
        """One request, with all that is tried again for it."""
        return _Harmless(lambda: self._asking(request, model), _nothing)

    @contextmanager
    def _asking(self, request: ModelRequest, model: Model) -> Iterator[Callable[[ModelResponse], None]]:
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            **model_attributes(model),
            "gen_ai.conversation.id": self._conversation_id,
            "gen_ai.request.stream": True,
            **settings_attributes(request.settings),
            **(self._offer or {"mcpagent.purpose": "summary"}),
        }
        self._offer = {}  # what is asked without an offer is a summary, when a conversation is compacted
        if (content := self._tracer.content) is not None:
            attributes["gen_ai.input.messages"] = content.messages(request.messages)
            attributes["gen_ai.system_instructions"] = content.system(request.system)
            attributes["gen_ai.tool.definitions"] = content.tools(request.tools)
        name = f"chat {attributes['gen_ai.request.model']}"
        self._request = span = self._begin(name, attributes, kind="client")
        found: dict[str, AttributeValue] = {}

        def answered(response: ModelResponse) -> None:
            try:  # a model of somebody's own may give anything
                found.update(response_attributes(response))
                if content is not None:
                    reason = FINISHED[response.stop]
                    found["gen_ai.output.messages"] = content.messages((response.message,), reason)
            except Exception:
                logger.exception("tracing failed at an answer")

        error = ""
        try:
            with current(span):
                yield answered
        except BaseException as raised:
            error = error_type(raised)
            self._describe(span, raised)
            raise
        finally:
            for call in self._provider_calls.values():
                self._spans.finish(call, error=error)
            self._provider_calls.clear()
            self._request = None
            self._spans.finish(span, found, error=error)

    def deciding(self, call: ToolCall) -> AbstractContextManager[None]:
        """The wait for whoever decides: not in the time of the call."""
        return _Harmless(lambda: self._deciding(call), None)

    @contextmanager
    def _deciding(self, call: ToolCall) -> Iterator[None]:
        attributes = {"gen_ai.tool.name": safe_line(call.name, 80), "gen_ai.tool.call.id": safe_line(call.id, 120)}
        span = self._begin(f"approval {safe_line(call.name, 80)}", attributes, above=self._above(call))
        error = ""
        try:
            yield
        except BaseException as raised:
            error = error_type(raised)
            raise
        finally:
            self._spans.finish(span, error=error)

    def calling(self, call: ToolCall, tool: Tool) -> AbstractContextManager[None]:
        """What a call runs; the event of its result says what came of it."""
        return _Harmless(lambda: self._calling(call, tool), None)

    @contextmanager
    def _calling(self, call: ToolCall, tool: Tool) -> Iterator[None]:
        attributes = call_attributes(call.name, call.id)
        with suppress(Exception):  # the tool's own code says what it asks for
            attributes |= asked_attributes(tool, call.arguments)
        if isinstance(server := attributes.get("mcpagent.server"), str):
            attributes |= self._tracer.server_attributes(server)
        rank, links = self._found.get(call.name, (0, ("", "")))
        if rank:
            attributes["mcpagent.search.rank"] = rank
        if (content := self._tracer.content) is not None:
            attributes["gen_ai.tool.description"] = content.text(tool.definition.description)
            attributes["gen_ai.tool.call.arguments"] = content.arguments(call.arguments)
        name, above = f"execute_tool {safe_line(call.name, 80)}", self._above(call)
        span = self._begin(name, attributes, above=above, links=(links,) if rank else ())
        if (other := self._calls.pop(call.id, None)) is not None:  # a model gave two calls one id
            self._spans.finish(other)
        self._calls[call.id] = span
        try:
            with current(span):
                yield
        except BaseException as raised:
            span.error = error_type(raised)
            raise
        finally:
            span.stop()

    def _begin(
        self, name: str, attributes: Attributes, *, above: OpenSpan | None = None, seconds: float = 0.0, **others: Any
    ) -> OpenSpan:
        """A span below that one, or the run, so many seconds ago; by its clock, so that it is within."""
        above = above or self._run
        begun = max(above.now() - int(seconds * 1e9), above.begun)
        return self._spans.begin(name, attributes, parent=above.context, begun=begun, **others)

    def _above(self, call: ToolCall) -> OpenSpan | None:
        """The call whose program makes this one; None for one that the model made."""
        return self._calls.get(call.id.rpartition(INNER)[0])

    def _describe(self, span: OpenSpan, error: BaseException) -> None:
        """The words of an error may repeat what was said."""
        if self._tracer.content is not None:
            span.failure = safe_line(str(error), 500)

    def requested(self, call_id: str, method: str, request_id: str, code: int | None) -> None:
        """How a call was asked for, the last time if it was asked again."""
        span = self._calls.get(call_id)
        if span is None or span.attributes.get("mcp.method.name") != method:
            return
        span.late["jsonrpc.request.id"] = safe_line(request_id, 80)
        span.late.pop("rpc.response.status_code", None)
        if code is not None:
            span.late["rpc.response.status_code"] = str(code)

    # -- what it hears ------------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Takes from an event what belongs to a span."""
        if self.trace:
            take = _TAKES.get(type(event))
            if take is not None:
                take(self, event)

    def _happened(self, name: str, attributes: Attributes) -> None:
        span = self._request or self._run
        if len(span.events) < MOST_EVENTS:
            span.happened(name, attributes)

    def _take_offer(self, event: RequestSent) -> None:
        self._offer = offer_attributes(event)

    def _take_loaded(self, event: ToolsLoaded) -> None:
        self._happened("mcpagent.tools.loaded", {"mcpagent.tools": event.names, "mcpagent.tokens": event.tokens})

    def _take_compacted(self, event: ConversationCompacted) -> None:
        self._happened("mcpagent.compacted", compacted_attributes(event))

    def _take_restart(self, event: AnswerRestarted) -> None:
        self._happened("mcpagent.answer.restarted", self._words("mcpagent.reason", event.reason))

    def _take_notice(self, event: Notice) -> None:
        if event.level == "warning":
            self._happened("mcpagent.warning", self._words("mcpagent.text", event.text))

    def _words(self, name: str, text: str) -> Attributes:
        """What is told of a step may repeat what was said in it."""
        return {name: self._tracer.content.text(text)} if self._tracer.content is not None else {}

    def _take_provider_start(self, event: ProviderCallStarted) -> None:
        self._provider_calls[event.call.id] = self._begin_provider_call(event.call)

    def _take_provider_end(self, event: ProviderCallFinished) -> None:
        span = self._provider_calls.pop(event.call.id, None) or self._begin_provider_call(event.call)
        self._spans.finish(span, error="tool_error" if event.failed else "")

    def _take_delta(self, event: TextDelta | ThinkingDelta) -> None:  # noqa: ARG002 - that one came is enough
        span, name = self._request, "gen_ai.response.time_to_first_chunk"
        if span is not None and name not in span.late:
            span.late[name] = (span.now() - span.begun) / 1e9

    def _take_result(self, event: ToolCallFinished) -> None:
        call, result = event.call, event.result
        span = self._calls.pop(call.id, None)
        if span is None:  # it was not run
            attributes = call_attributes(call.name, call.id)
            name, above = f"execute_tool {safe_line(call.name, 80)}", self._calls.get(event.parent)
            span = self._begin(name, attributes, above=above, seconds=result.seconds)
            span.ended = self._run.now()
        found: dict[str, AttributeValue] = {}
        if self._tracer.content is not None:
            found["gen_ai.tool.call.result"] = self._tracer.content.result(result)
        code = span.late.get("rpc.response.status_code")
        span.error = str(code) if code is not None else result_error(result, is_servers=event.server is not None)
        self._last_call = span
        self._spans.finish(span, found)

    def _take_search(self, event: ToolsSearched) -> None:
        """A search that a call made comes right behind its result."""
        above = self._request or self._last_call or self._run
        attributes = search_attributes(event)
        if self._tracer.content is not None:
            attributes["gen_ai.retrieval.query.text"] = self._tracer.content.text(event.query)
        ended = above.ended or above.now()
        begun = max(ended - int(event.seconds * 1e9), above.begun)
        span = self._spans.begin("retrieval tools", attributes, parent=above.context, begun=begun)
        span.ended = ended
        place = (format(span.ids.trace_id, "032x"), format(span.ids.span_id, "016x"))
        self._found |= {name: (rank, place) for rank, name in enumerate(event.matches, 1)}
        self._spans.finish(span)

    def _begin_provider_call(self, call: ProviderCall) -> OpenSpan:
        attributes = call_attributes(call.name, call.id) | {"gen_ai.tool.type": "extension"}
        name, above = f"execute_tool {safe_line(call.name, 80)}", self._request or self._run
        return self._spans.begin(name, attributes, parent=above.context, begun=self._run.now())

    def _take_end(self, event: RunFinished) -> None:
        self._finished["mcpagent.stop"] = event.stop
        if event.pending:
            self._finished["mcpagent.pending"] = tuple(safe_line(call.tool, 80) for call in event.pending)
        if self._tracer.content is not None:
            self._finished["gen_ai.output.messages"] = self._tracer.content.answer(event.answer)


_TAKES: Mapping[type, Callable[[RunTrace, Any], None]] = {
    TextDelta: RunTrace._take_delta,
    ThinkingDelta: RunTrace._take_delta,
    RequestSent: RunTrace._take_offer,
    ToolCallFinished: RunTrace._take_result,
    ToolsSearched: RunTrace._take_search,
    ToolsLoaded: RunTrace._take_loaded,
    ProviderCallStarted: RunTrace._take_provider_start,
    ProviderCallFinished: RunTrace._take_provider_end,
    AnswerRestarted: RunTrace._take_restart,
    ConversationCompacted: RunTrace._take_compacted,
    Notice: RunTrace._take_notice,
    RunFinished: RunTrace._take_end,
}
"""What a run's trace takes from each event; from all others nothing."""
