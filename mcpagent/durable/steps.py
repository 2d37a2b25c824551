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

from mcpagent.conversation import UNKNOWN
from mcpagent.definition import Definition
from mcpagent.events import Emit
from mcpagent.execution import failure_output
from mcpagent.messages import ToolDefinition
from mcpagent.models.base import (
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    is_small,
    look_up,
    search_problem,
)
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
    """One execution of a run's workflow. `token` is another one in each process that executes it."""

    store: SessionStore
    token: str = field(default_factory=lambda: uuid4().hex)
    reserved: dict[str, tuple[StepReservation, StepReservation]] = field(default_factory=dict)

    def reserve(self, calls: Mapping[str, object] | Sequence[str]) -> None:
        """Draws the numbers of the steps of these calls, in their order."""
        from dbos import DBOS

        self.reserved = {call: (DBOS.reserve_step(), DBOS.reserve_step()) for call in calls}


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

    async def look_up(self) -> None:
        await look_up(self._model)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        workflow = WORKFLOW.get()
        if workflow is None:
            return await self._model.respond(request, emit)
        from dbos import DBOS

        async def ask() -> str:
            response = await _alone(self._model.respond(request, emit))
            message = json.loads(workflow.store.message_as_json(response.message))
            return _json({**asdict(response_line(0, response, ())), "message": message})

        said = await DBOS.run_step_async({"name": "request"}, ask)
        response = read(ResponseLine, json.loads(said)).response
        workflow.reserve([call.id for call in response.message.tool_calls])
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
        by = workflow.token
        if not (tool.safe_to_repeat or tool.ordered):

            async def send() -> str:
                return by

            by = await sending.run_async({"name": f"send {tool.name}"}, send)

        async def call() -> str:
            if by != workflow.token:  # another process has sent it, and ended before it had a result
                output = ToolOutput.of_text(UNKNOWN, error="cancelled")
            else:
                try:
                    output = await _alone(tool.run(arguments))
                except Exception as error:  # noqa: BLE001 - tools are other people's code
                    output = failure_output(error, tool)
            return workflow.store.as_json({"id": "", "name": tool.name, **output_document(output.for_model(), ())})

        given = await giving.run_async({"name": f"call {tool.name}"}, call)
        return read(CallLine, json.loads(given)).output

    return replace(tool, run=run)


async def _alone(work: Any) -> Any:
    """Within a step there are no steps: an agent that is called as a tool is a part of the call."""
    token = WORKFLOW.set(None)
    try:
        return await work
    finally:
        WORKFLOW.reset(token)


def _json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, default=str)
