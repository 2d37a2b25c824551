"""The spans of one run: the run, its requests and calls, and the decisions and searches in between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    contextmanager,
    suppress,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from mcpagent.history.conversation import INNER
from mcpagent.journal.tracing.content import SpanContent
from mcpagent.journal.tracing.conventions import (
    FINISHED,
    Attributes,
    AttributeValue,
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
from mcpagent.journal.tracing.open_spans import (
    OpenSpan,
    OpenSpans,
    current,
    trace_parent,
)
from mcpagent.models.base import Model, ModelResponse
from mcpagent.run.agent_run import AgentRun, RunObserver
from mcpagent.run.run_parts import CallState, CallTally, ServerRequest, StepState
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    AnswerRestarted,
    ConversationCompacted,
    Event,
    Notice,
    ProviderCall,
    ProviderCallFinished,
    ProviderCallStarted,
    RunFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolsLoaded,
    ToolsSearched,
)
from mcpagent.values.messages import ToolCall
from mcpagent.values.tools import Tool

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

logger = logging.getLogger("mcpagent")


class _Harmless(AbstractAsyncContextManager[None]):
    """Wraps a context manager and logs its errors, so that tracing cannot make a run fail."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._inside: AbstractContextManager[None] | None = None

    async def __aenter__(self) -> None:
        try:
            inside = self._make()
            inside.__enter__()
        except Exception:
            logger.exception("tracing failed at the beginning of a step")
            return
        self._inside = inside

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._inside is None:
            return
        try:
            self._inside.__exit__(kind, error, trace)
        except BaseException as own:
            if own is not error:
                logger.exception("tracing failed at the end of a step")


class Tracer(Protocol):
    """The parts of tracing that all runs of an agent share. If `content` is None, spans have no content."""

    spans: OpenSpans
    agent_name: str
    content: SpanContent | None

    def server_attributes(self, server: str) -> Attributes:
        """Return the attributes for the transport to a server."""
        ...


class RunTrace(RunObserver):
    """Creates the spans of one run. `earlier` are links to the run that it continues."""

    def __init__(
        self, tracer: Tracer, run: AgentRun, earlier: tuple[SpanContext, ...] = ()
    ) -> None:
        self._tracer = tracer
        self._spans = tracer.spans
        self._content = tracer.content
        self._context = run
        self._earlier = earlier
        self._conversation_id = safe_line(run.context.thread_id, 200)
        self._run: OpenSpan | None = None
        self._request: OpenSpan | None = None
        self._calls: dict[str, OpenSpan] = {}
        self._last_call: OpenSpan | None = None
        self._provider_calls: dict[str, OpenSpan] = {}
        self._found: dict[str, tuple[int, SpanContext]] = {}
        """By tool: its rank in the last search that found it, and the span of that search."""

    # -- Middleware ----------------------------------------------------------------------------------------------------

    def around_run(self, run: AgentRun) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - it is of one run
        """Create the span of the run, and make it the current one."""
        return _Harmless(self._running)

    @contextmanager
    def _running(self) -> Iterator[None]:
        run, content = self._context, self._content
        name = run.label or self._tracer.agent_name
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent",
            **model_attributes(run.model),
            "gen_ai.conversation.id": self._conversation_id,
            "mcpagent.run.id": run.context.run_id,
        }
        if name:
            attributes["gen_ai.agent.name"] = safe_line(name, 80)
        if content is not None:
            attributes["gen_ai.input.messages"] = content.messages(
                run.conversation.messages[-1:]
            )
        span = self._spans.begin(
            f"invoke_agent {name}".strip(), attributes, links=self._earlier
        )
        self._run, run.tally.trace = span, trace_parent(span.ids)
        try:
            with self._failing(span), current(span):
                yield
        finally:
            for call in self._calls.values():  # cancelled calls have no result
                self._spans.finish(call)
            if run.tally.finished is not None:
                self._take_end(span, run.tally.finished)
            span.late |= spent_attributes(run.tally.spent) | {
                "mcpagent.turns": run.tally.turns
            }
            self._spans.finish(span)

    def around_step(
        self, run: AgentRun, step: StepState
    ) -> AbstractAsyncContextManager[None]:
        """Create the span of one request with all its retries."""
        return _Harmless(lambda: self._asking(run.model, run.tally.turns + 1, step))

    @contextmanager
    def _asking(self, model: Model, turn: int, step: StepState) -> Iterator[None]:
        content, (request, offer) = self._content, step.prepared()
        about: Attributes = {"mcpagent.purpose": "summary"}
        if not step.is_summary:
            about = offer_attributes(
                turn, tuple(tool.name for tool in request.tools), offer
            )
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat",
            **model_attributes(model),
            "gen_ai.conversation.id": self._conversation_id,
            "gen_ai.request.stream": True,
            **settings_attributes(request.settings),
            **about,
        }
        if content is not None:
            attributes["gen_ai.input.messages"] = content.messages(request.messages)
            attributes["gen_ai.system_instructions"] = content.system(request.system)
            attributes["gen_ai.tool.definitions"] = content.tools(request.tools)
        self._request = span = self._begin(
            f"chat {attributes['gen_ai.request.model']}", attributes, kind="client"
        )

        try:
            with self._failing(span), current(span):
                yield
            if step.response is not None:
                self._take_response(span, step.response)
        finally:
            for call in self._provider_calls.values():
                call.error = span.error
                self._spans.finish(call)
            self._provider_calls.clear()
            self._request = None
            self._spans.finish(span)

    def _take_response(self, span: OpenSpan, response: ModelResponse) -> None:
        span.late |= response_attributes(response)
        if self._content is not None:
            reason = FINISHED[response.stop]
            span.late["gen_ai.output.messages"] = self._content.messages(
                (response.message,), reason
            )

    def around_question(
        self,
        run: AgentRun,  # noqa: ARG002
        call: CallState,
    ) -> AbstractAsyncContextManager[None]:
        """Create the span of the wait for an approval, which does not count for the time of the call."""
        return _Harmless(lambda: self._deciding(call.call))

    @contextmanager
    def _deciding(self, call: ToolCall) -> Iterator[None]:
        name = safe_line(call.name, 80)
        attributes = {
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": safe_line(call.id, 120),
        }
        span = self._begin(f"approval {name}", attributes, above=self._above(call))
        try:
            with self._failing(span):
                yield
        finally:
            self._spans.finish(span)

    def around_execution(
        self,
        run: AgentRun,  # noqa: ARG002
        call: CallState,
    ) -> AbstractAsyncContextManager[None]:
        """Create the span of a call; the event of its result ends the span."""
        assert call.tool is not None
        tool = call.tool
        return _Harmless(lambda: self._calling(call.call, tool, call.tally))

    @contextmanager
    def _calling(self, call: ToolCall, tool: Tool, tally: CallTally) -> Iterator[None]:
        attributes: dict[str, AttributeValue] = {}
        with suppress(Exception):  # `asked` runs code of the tool
            attributes |= asked_attributes(tool, call.arguments)
        if isinstance(server := attributes.get("mcpagent.server"), str):
            attributes.update(self._tracer.server_attributes(server))
        rank, search = self._found.get(call.name, (0, None))
        if rank:
            attributes["mcpagent.search.rank"] = rank
        if self._content is not None:
            attributes["gen_ai.tool.description"] = self._content.text(
                tool.definition.description
            )
            attributes["gen_ai.tool.call.arguments"] = self._content.arguments(
                call.arguments
            )
        links = (search,) if search is not None else ()
        span = self._begin_call(call, attributes, above=self._above(call), links=links)
        if (
            other := self._calls.pop(call.id, None)
        ) is not None:  # a model gave two calls the same ID
            self._spans.finish(other)
        self._calls[call.id] = span
        try:
            with self._failing(span), current(span):
                yield
        finally:
            if tally.request is not None:
                self._take_request(span, tally.request)
            span.stop()

    @contextmanager
    def _failing(self, span: OpenSpan) -> Iterator[None]:
        """Record the error that ends a span. Its text is content, which it may repeat."""
        try:
            yield
        except BaseException as raised:
            span.error = error_type(raised)
            if self._content is not None:
                span.failure = safe_line(str(raised), 500)
            raise

    def _begin(
        self,
        name: str,
        attributes: Attributes,
        *,
        above: OpenSpan | None = None,
        seconds: float = 0.0,
        **others: Any,
    ) -> OpenSpan:
        """Begin a span `seconds` ago below another one, or below the run. It uses that span's clock, so it lies within
        it.
        """
        above = above or self._run
        assert above is not None
        begun = max((above.ended or above.now()) - int(seconds * 1e9), above.begun)
        return self._spans.begin(
            name, attributes, parent=above.context, begun=begun, **others
        )

    def _begin_call(
        self, call: ToolCall | ProviderCall, attributes: Attributes, **others: Any
    ) -> OpenSpan:
        about = {**call_attributes(call.name, call.id), **attributes}
        return self._begin(f"execute_tool {safe_line(call.name, 80)}", about, **others)

    def _above(self, call: ToolCall) -> OpenSpan | None:
        """Return the span of the call whose program makes this one; None for a call by the model."""
        return self._calls.get(call.id.rpartition(INNER)[0])

    def _take_request(self, span: OpenSpan, request: ServerRequest) -> None:
        """Record the last MCP request of a call."""
        if span.attributes.get("mcp.method.name") == request.method:
            span.late["jsonrpc.request.id"] = safe_line(request.id, 80)
            if request.code is not None:
                span.late["rpc.response.status_code"] = str(request.code)

    # -- Events --------------------------------------------------------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Add an event to the span that it belongs to."""
        take = _TAKES.get(type(event))
        if self._run is not None and take is not None:
            take(self, event)

    def _happened(self, name: str, attributes: Attributes) -> None:
        if (span := self._request or self._run) is not None:
            self._spans.happened(span, name, attributes)

    def _take_loaded(self, event: ToolsLoaded) -> None:
        self._happened(
            "mcpagent.tools.loaded",
            {"mcpagent.tools": event.names, "mcpagent.tokens": event.tokens},
        )

    def _take_compacted(self, event: ConversationCompacted) -> None:
        self._happened("mcpagent.compacted", compacted_attributes(event))

    def _take_restart(self, event: AnswerRestarted) -> None:
        self._happened(
            "mcpagent.answer.restarted", self._words("mcpagent.reason", event.reason)
        )

    def _take_notice(self, event: Notice) -> None:
        if event.level == "warning":
            self._happened("mcpagent.warning", self._words("mcpagent.text", event.text))

    def _words(self, name: str, text: str) -> dict[str, AttributeValue]:
        """Return the text as an attribute if spans may have content, because it may repeat content; else {}."""
        if self._content is not None:
            return {name: self._content.text(text)}
        return {}

    def _take_provider_start(self, event: ProviderCallStarted) -> None:
        self._provider_calls[event.call.id] = self._begin_provider_call(event.call)

    def _take_provider_end(self, event: ProviderCallFinished) -> None:
        span = self._provider_calls.pop(
            event.call.id, None
        ) or self._begin_provider_call(event.call)
        if event.failed:
            span.error = "tool_error"
        else:
            span.error = ""
        self._spans.finish(span)

    def _begin_provider_call(self, call: ProviderCall) -> OpenSpan:
        return self._begin_call(
            call, {"gen_ai.tool.type": "extension"}, above=self._request
        )

    def _take_delta(self, event: TextDelta | ThinkingDelta) -> None:  # noqa: ARG002 - the first one is enough
        if (span := self._request) is not None:
            span.late.setdefault(
                "gen_ai.response.time_to_first_chunk", (span.now() - span.begun) / 1e9
            )

    def _take_result(self, event: ToolCallFinished) -> None:
        call, result = event.call, event.result
        span = self._calls.pop(call.id, None)
        if span is None:  # the call did not run
            span = self._begin_call(
                call, {}, above=self._calls.get(event.parent), seconds=result.seconds
            )
        if self._content is not None:
            span.late["gen_ai.tool.call.result"] = self._content.result(result)
        code = span.late.get("rpc.response.status_code")
        if code is not None:
            span.error = str(code)
        else:
            span.error = result_error(result, is_servers=event.server is not None)
        self._last_call = span
        self._spans.finish(span)

    def _take_search(self, event: ToolsSearched) -> None:
        """Add the span of a search; the event of a search by a call comes directly after that of the call's result."""
        attributes = search_attributes(event) | self._words(
            "gen_ai.retrieval.query.text", event.query
        )
        above = self._request or self._last_call
        span = self._begin(
            "retrieval tools", attributes, above=above, seconds=event.seconds
        )
        if above is not None:
            span.ended = above.ended
        else:
            span.ended = None
        self._found |= {
            name: (rank, span.ids) for rank, name in enumerate(event.matches, 1)
        }
        self._spans.finish(span)

    def _take_end(self, span: OpenSpan, event: RunFinished) -> None:
        span.late["mcpagent.stop"] = event.stop
        if event.pending:
            span.late["mcpagent.pending"] = tuple(
                safe_line(call.tool, 80) for call in event.pending
            )
        if self._content is not None:
            span.late["gen_ai.output.messages"] = self._content.answer(event.answer)


_TAKES: Mapping[type, Callable[[RunTrace, Any], None]] = {
    TextDelta: RunTrace._take_delta,
    ThinkingDelta: RunTrace._take_delta,
    ToolCallFinished: RunTrace._take_result,
    ToolsSearched: RunTrace._take_search,
    ToolsLoaded: RunTrace._take_loaded,
    ProviderCallStarted: RunTrace._take_provider_start,
    ProviderCallFinished: RunTrace._take_provider_end,
    AnswerRestarted: RunTrace._take_restart,
    ConversationCompacted: RunTrace._take_compacted,
    Notice: RunTrace._take_notice,
}
"""Type of event -> the method that handles it; other events change no span."""
