"""Writing a run to its session: before a request, before a call is sent, and when a result arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mcpagent.errors import RunCancelledError, SessionStoreError
from mcpagent.history.conversation import CallProgress
from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.run_parts import CallBatch, CallState, StepState

_NOT_WRITTEN = "This call was not run: the run was cancelled, or the call could not be written down before."


class Journal(Middleware):
    """Write each step before the next one begins, so that a process that dies loses and repeats nothing."""

    @asynccontextmanager
    async def around_run(self, run: AgentRun) -> AsyncIterator[None]:
        """Write the prompt, and the end of the run with its result."""
        await run.keep()
        yield
        await run.keep()

    @asynccontextmanager
    async def around_step(self, run: AgentRun, step: StepState) -> AsyncIterator[None]:
        """Write the messages that the model is sent. Its answer is written with its calls, or the end of the run."""
        if not step.is_summary:
            await run.keep()
        yield

    @asynccontextmanager
    async def around_calls(
        self, run: AgentRun, batch: CallBatch
    ) -> AsyncIterator[None]:
        """Write the message with all results."""
        yield
        if batch.results:
            await run.keep()

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Write a result while other calls of its message still run; the last one is in the message with all."""
        yield
        if call.result is not None and call.batch.unfinished > 1:
            is_repeatable = call.tool is not None and call.tool.safe_to_repeat
            run.conversation.note_progress(
                call.call.id, CallProgress(is_repeatable, call.parts)
            )
            await is_written(run)

    @asynccontextmanager
    async def around_question(
        self, run: AgentRun, call: CallState
    ) -> AsyncIterator[None]:
        """Write the call before a person is asked about it, who may take long."""
        if not await is_written(run):
            call.refuse(_NOT_WRITTEN, "cancelled")
        yield

    @asynccontextmanager
    async def around_execution(
        self, run: AgentRun, call: CallState
    ) -> AsyncIterator[None]:
        """Write that the call is sent. The runtime's own tools change nothing outside, so they are only planned."""
        assert call.tool is not None
        if not run.tools.is_own(call.tool):
            is_repeatable, times_sent = call.tool.safe_to_repeat, call.times_sent + 1
            progress = replace(
                call.progress, is_repeatable=is_repeatable, times_sent=times_sent
            )
            run.conversation.note_progress(call.call.id, progress)
        if not await is_written(run):
            call.refuse(_NOT_WRITTEN, "cancelled")
        yield


async def is_written(run: AgentRun) -> bool:
    """Write what is new in the run. Return whether the store took it; the loop ends a run whose store does not."""
    try:
        await run.keep()
    except (SessionStoreError, RunCancelledError):
        return False
    return True
