"""Emit the events of calls, and of the end of a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from mcpagent.history.conversation import INNER
from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.run_parts import CallState
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.values.events import (
    ToolCallFinished,
    ToolCallStarted,
    ToolsLoaded,
    ToolsRemoved,
)
from mcpagent.values.messages import ToolsChanged
from mcpagent.values.tools import ToolChange


class Reporting(Middleware):
    """Reports each call when it starts and when it has a result, and the end of the run."""

    @contextmanager
    def around_run(self, run: AgentRun) -> Iterator[None]:
        """Report the end of the run, after it was written."""
        yield
        if run.tally.finished is not None:
            run.emit(run.tally.finished)

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Report a call, and its result with everything that it changed. If the call was pending, its start was
        reported before.
        """
        is_much = is_large(call.call.arguments)
        begun, ended = [
            await beside_loop(call.call.copied, is_much=is_much) for _ in range(2)
        ]  # listeners get copies, which they may store
        if call.tool is not None:
            server = call.tool.definition.server
        else:
            server = None
        if call.answer is None and not is_answered_inside(call.call.id, run):
            run.emit(ToolCallStarted(begun, server, call.parent))
        yield
        if call.result is None or call.output is None:
            return
        run.emit(ToolCallFinished(ended, call.result, server, call.parent))
        for event in call.output.events:
            run.emit(event)
        _report_changes(() if call.parent else call.changes, run)
        if (state_change := run.state.changes()) is not None:
            run.emit(state_change)


def _report_changes(changes: Sequence[ToolChange], run: AgentRun) -> None:
    for change in changes:
        if not isinstance(change, ToolsChanged):
            continue
        if change.added:
            names = tuple(tool.name for tool in change.added)
            run.emit(ToolsLoaded(names, run.tools.tokens(names)))
        if change.removed:
            run.emit(ToolsRemoved(change.removed))


def is_answered_inside(call_id: str, run: AgentRun) -> bool:
    """Return whether this run has answers to calls for which the program of this call waited."""
    return any(
        answered.startswith(f"{call_id}{INNER}") for answered in run.answers or ()
    )
