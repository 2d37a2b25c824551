"""An agent whose requests and calls are steps of a workflow: what is completed is read, not done again.

A step is named by its number in the workflow, so numbers must be the same in each process. A request draws one. An
answer then draws two for each of its calls, in their order, whatever the order in which they run: one says that the
call is sent, and one has what it gave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mcpagent.conversation import NOT_KEPT, UNKNOWN, CallProgress, is_cut, not_run
from mcpagent.definition import Definition
from mcpagent.errors import McpAgentError
from mcpagent.events import Emit
from mcpagent.execution import NOTHING_RETURNED, failure_output
from mcpagent.messages import Part, Text, ToolCall, ToolDefinition, ToolResult
from mcpagent.models.base import (
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    is_small,
    look_up,
    search_problem,
)
from mcpagent.models.output_ways.asked_output import told_form
from mcpagent.recording.recorded_lines import CallLine, ResponseLine, output_document, read, response_line
from mcpagent.run import run_context
from mcpagent.sessions.store import SessionStore
from mcpagent.tools import Tool, ToolOutput
from mcpagent.toolsets.sources import WrappedSources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dbos import StepReservation


@dataclass(slots=True)
class Workflow:
    """One execution of a run's workflow. `token` is another one in each process that executes it.

    `recorded` has what the steps gave, by number, that an earlier execution came to.
    """

    store: SessionStore
    recorded: Mapping[int, str] = field(default_factory=dict[int, str])
    token: str = field(default_factory=lambda: uuid4().hex)
    reserved: dict[str, tuple[StepReservation, StepReservation]] = field(default_factory=dict)

    def reserve(self, calls: Sequence[ToolCall]) -> None:
        """Draws the numbers of the steps of these calls, in their order, and tells the run what is known of them.

        What a call came to in an earlier execution is so, whatever became of its tool, its approval or its state since.
        """
        from dbos import DBOS

        run = run_context()
        self.reserved = {call.id: (DBOS.reserve_step(), DBOS.reserve_step()) for call in calls}
        for call in calls:
            sending, giving = self.reserved[call.id]
            if (given := self.recorded.get(giving.step_id)) is not None:
                data = json.loads(given)
                run.tool_context.restore_namespaces(data.pop("state", {}))
                output = read(CallLine, data).output
                result = ToolResult(call.id, call.name, output.content or (Text(NOTHING_RETURNED),), output.error)
                parts: tuple[Part, ...] = (result, *output.changes)
            elif self.recorded.get(sending.step_id) is not None:
                parts = (not_run(call, UNKNOWN),)
            elif self.recorded and is_cut(call):
                parts = (not_run(call, NOT_KEPT),)
            else:
                continue
            run.conversation.note_progress(call.id, CallProgress(parts=parts))


WORKFLOW: ContextVar[Workflow | None] = ContextVar("mcpagent_durable_workflow", default=None)
"""The workflow that this code runs in; an agent that is called as a tool runs within one step."""


def in_steps(definition: Definition) -> Definition:
    """The agent with each request to its model and each call of a tool as a step, where it runs in a workflow."""
    return replace(
        definition,
        resolve=lambda choice: _StepModel(definition.resolve(choice)),
        sources=WrappedSources(definition.sources, _step_tool),
        bind=lambda tools: [_step_tool(tool) for tool in definition.bind(tools)],
    )


class _StepModel:
    """The model, each answer of which is the result of a step."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        return self._model.name

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        return search_problem(self._model, strategy, deferred)

    def is_small(self, settings: ModelSettings) -> bool:
        return is_small(self._model, settings)

    def takes_output(self) -> bool:
        return True

    async def look_up(self) -> None:
        await look_up(self._model)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        workflow = WORKFLOW.get()
        if workflow is None:
            return await self._model.respond(told_form(self._model, request), emit)
        from dbos import DBOS

        live: list[ModelResponse] = []

        async def ask() -> str:
            try:
                response = await _alone(self._model.respond(told_form(self._model, request), emit))
            except McpAgentError as error:
                raise storable_error(error, workflow.store) from None
            live.append(response)
            message = json.loads(workflow.store.message_as_json(response.message))
            return _json({**asdict(response_line(0, response, ())), "message": message})

        said = await DBOS.run_step_async({"name": "request"}, ask)
        # What is written has no secrets, which the calls of this process may need.
        response = live[0] if live else read(ResponseLine, json.loads(said)).response
        workflow.reserve(response.message.tool_calls)
        return response

    async def aclose(self) -> None:
        await self._model.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _step_tool(tool: Tool) -> Tool:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        workflow = WORKFLOW.get()
        reserved = workflow.reserved.pop(run_context().call_id, None) if workflow is not None else None
        if workflow is None or reserved is None:
            return await tool.run(arguments)
        sending, giving = reserved
        live: list[ToolOutput] = []

        async def send() -> str:
            return workflow.token

        async def call() -> str:
            try:
                output = await _alone(tool.run(arguments))
            except Exception as error:  # noqa: BLE001 - tools are other people's code
                output = failure_output(error, tool)
            live.append(output)
            state = run_context().tool_context.dump_namespaces()
            line = {"id": "", "name": tool.name, **output_document(output.for_model(), ())}
            return workflow.store.as_json({**line, "state": state} if state else line)

        if not (tool.safe_to_repeat or tool.ordered):
            await sending.run_async({"name": f"send {tool.name}"}, send)
        given = json.loads(await giving.run_async({"name": f"call {tool.name}"}, call))
        given.pop("state", None)
        return live[0] if live else read(CallLine, given).output

    return replace(tool, run=run)


async def _alone(work: Any) -> Any:
    """Within a step there are no steps: an agent that is called as a tool is a part of the call."""
    token = WORKFLOW.set(None)
    try:
        return await work
    finally:
        WORKFLOW.reset(token)


def storable_error(error: McpAgentError, store: SessionStore) -> McpAgentError:
    """The error with its words as they may be written down."""
    error.args = tuple(store.redact(part) if isinstance(part, str) else part for part in error.args)
    return error


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)
