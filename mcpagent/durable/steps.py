"""An agent whose requests and calls are steps of a workflow: what is completed is read, not done again.

A step is named by its number in the workflow, so numbers must be the same in each process. A request draws one. An
answer then draws two for each of its calls, in their order, whatever the order in which they run: one says that the
call is sent, and one has what it gave.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from mcpagent.conversation import NOT_KEPT, UNKNOWN, CallProgress, is_cut, not_run
from mcpagent.definition import Definition
from mcpagent.errors import McpAgentError
from mcpagent.events import Emit
from mcpagent.execution import NOTHING_RETURNED, end_call, failure_output
from mcpagent.messages import BinaryBlock, Part, Spent, Text, ToolCall, ToolResult, Usage
from mcpagent.models.base import ModelRequest, ModelResponse, WrappedModel
from mcpagent.models.output_ways.asked_output import told_form
from mcpagent.recording.recorded_lines import CallLine, ResponseLine, output_document, read, response_line
from mcpagent.run import run_context
from mcpagent.sessions.standing import written_json
from mcpagent.sessions.store import SessionStore
from mcpagent.text.safe_text import safe_line
from mcpagent.tools import Tool, ToolOutput, usable_output
from mcpagent.toolsets.sources import WrappedSources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dbos import StepReservation


@dataclass(slots=True)
class Workflow:
    """One execution of a run's workflow, in this task. `token` is another one in each process that executes it.

    `recorded` has what the steps gave, by number, that an earlier execution came to. `ended` is what the engine says
    when this execution is over before its time: the run was cancelled, or another process goes on with it.
    """

    store: SessionStore
    task: asyncio.Task[Any]
    recorded: Mapping[int, str] = field(default_factory=dict[int, str])
    token: str = field(default_factory=lambda: uuid4().hex)
    reserved: dict[str, tuple[StepReservation, StepReservation]] = field(default_factory=dict)
    ended: BaseException | None = None
    made: Counter[str] = field(default_factory=Counter[str])
    """How many calls programs had made in an execution that died in them, by the call that runs the program: these are
    not made again."""

    async def step(self, given: Awaitable[str], live: Sequence[object] = ()) -> str:
        """What the step gave. When this execution is over the run ends as one that is cancelled does, so that it keeps
        what was finished; what was done in the step itself (`live`) counts."""
        from dbos import error

        try:
            return await given
        except error.DBOSBaseException as ended:
            self.ended = self.ended or ended
        if live:
            return ""
        return await self._stop()

    async def _stop(self) -> NoReturn:
        self.task.cancel()
        await asyncio.Event().wait()  # until that comes here
        raise asyncio.CancelledError

    def reserve(self, calls: Sequence[ToolCall]) -> None:
        """Draws the numbers of the steps of these calls, in their order, and tells the run what is known of them.

        What a call came to in an earlier execution is so, whatever became of its tool, its approval or its state since.
        """
        from dbos import DBOS

        run = run_context()
        self.reserved = {call.id: (DBOS.reserve_step(), DBOS.reserve_step()) for call in calls}
        for call in calls:
            blocks: tuple[BinaryBlock, ...] = ()
            sending, giving = self.reserved[call.id]
            given = self.recorded.get(giving.step_id)
            made = self.made.pop(call.id, 0) if given is None else 0  # of a program that is gone on with
            run.count(Spent(tool_calls=made))
            if given is not None:
                if "waits" in json.loads(given):
                    continue  # it is made again, and waits again
                output = _recorded_output(given)
                result = ToolResult(call.id, call.name, output.content or (Text(NOTHING_RETURNED),), output.error)
                parts: tuple[Part, ...] = (result, *output.changes)
                blocks = output.blocks
            elif self.recorded.get(sending.step_id) is not None:
                parts = (not_run(call, UNKNOWN),)
            elif self.recorded and is_cut(call):
                parts = (not_run(call, NOT_KEPT),)
            else:
                continue
            tool = run.tools.find(call.name)
            if self.recorded.get(sending.step_id, given) is not None and (tool is None or not run.tools.is_own(tool)):
                run.count(Spent(tool_calls=1))  # as when it was run
            run.conversation.note_progress(call.id, CallProgress(parts=parts, blocks=blocks))


NEVER_SECONDS = 1e8
"""A limit as good as none, which every event loop takes."""

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


class _StepModel(WrappedModel):
    """The model, each answer of which is the result of a step."""

    def takes_output(self) -> bool:
        return True

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        workflow = WORKFLOW.get()
        if workflow is None:
            return await self.inside.respond(told_form(self.inside, request), emit)
        from dbos import DBOS

        live: list[ModelResponse] = []

        async def ask() -> str:
            try:
                response = await _alone(self.inside.respond(told_form(self.inside, request), emit))
            except Exception as error:  # noqa: BLE001 - models are other people's code
                raise storable_error(error, workflow.store) from None
            live.append(response)
            message = json.loads(workflow.store.message_as_json(response.message))
            return written_json({**asdict(response_line(0, response, ())), "message": message})

        said = await workflow.step(DBOS.run_step_async({"name": "request"}, ask), live)
        # What is written has no secrets, which the calls of this process may need.
        response = live[0] if live else read(ResponseLine, json.loads(said)).response
        if not live:
            run_context().watch.replayed()
        workflow.reserve(response.message.tool_calls)
        return response


def _step_tool(tool: Tool) -> Tool:
    """The tool, a call of which ends in time within its step: so that it is written that it did not."""

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        workflow, called = WORKFLOW.get(), run_context()
        seconds = tool.limit(called.options.tool_timeout_seconds)
        reserved = workflow.reserved.pop(called.call_id, None) if workflow is not None else None
        if workflow is None or reserved is None:
            return await _in_time(tool, arguments, seconds)
        sending, giving = reserved
        live: list[ToolOutput] = []

        async def send() -> str:
            return workflow.token

        async def call() -> str:
            try:
                output = await _alone(_in_time(tool, arguments, seconds))
            except Exception as error:  # noqa: BLE001 - tools are other people's code
                output = failure_output(error, tool)
            live.append(output)
            line = {"id": "", "name": tool.name, **output_document(output.for_model(), ())}
            if state := called.tool_context.dump_namespaces():
                line["state"] = state
            if called.of_call is not None and called.of_call.spent != Spent():
                line["agents"] = asdict(called.of_call.spent)
            return workflow.store.as_json(line)

        if not (tool.safe_to_repeat or tool.ordered):
            await workflow.step(sending.run_async({"name": f"send {tool.name}"}, send))
        given = await workflow.step(giving.run_async({"name": f"call {tool.name}"}, call), live)
        return live[0] if live else _recorded_output(given)

    return replace(tool, run=run, timeout_seconds=NEVER_SECONDS)


async def _in_time(tool: Tool, arguments: dict[str, Any], seconds: float) -> ToolOutput:
    """What the tool gives, or that it gave nothing within its limit."""
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            working = asyncio.ensure_future(tool.run(arguments))
            try:
                await asyncio.wait({working})
            except asyncio.CancelledError:
                # Before the run would leave the step.
                await end_call(working, tool, run_context(), run_context().left_after / 2)
            return usable_output(tool, working.result())
    except TimeoutError as error:
        if not timeout.expired():
            raise
        return failure_output(error, tool, seconds)


def _recorded_output(given: str) -> ToolOutput:
    """What a call gave in an earlier execution; what it did to the run and its state is done again."""
    data, run = json.loads(given), run_context()
    run.tool_context.restore_namespaces(data.pop("state", {}))
    if (spent := data.pop("agents", None)) is not None:
        run.count(Spent(**{**spent, "usage": Usage(**spent["usage"])}))
    return read(CallLine, data).output


async def _alone(work: Any) -> Any:
    """Within a step there are no steps: an agent that is called as a tool is a part of the call."""
    token = WORKFLOW.set(None)
    try:
        return await work
    finally:
        WORKFLOW.reset(token)


def storable_error(error: Exception, store: SessionStore) -> McpAgentError:
    """The error with its words as they may be written down; one that is not ours is named, and told in a line."""
    if not isinstance(error, McpAgentError):
        return McpAgentError(safe_line(store.redact(f"{type(error).__name__}: {error}"), 500))
    error.args = tuple(_without_secrets(part, store) for part in error.args)
    error.__dict__.update({name: _without_secrets(value, store) for name, value in error.__dict__.items()})
    return error


def _without_secrets(value: Any, store: SessionStore) -> Any:
    if isinstance(value, str):
        return store.redact(value)
    return type(value)(_without_secrets(item, store) for item in value) if type(value) in (list, tuple) else value
