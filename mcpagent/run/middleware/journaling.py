"""Write a run to its session: before a request, before a call is sent, and when a result arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mcpagent.errors import RunCancelledError, SessionStoreError
from mcpagent.history.conversation import call_digest
from mcpagent.run.agent_run import AgentRun, Middleware, nothing_to_keep
from mcpagent.run.run_parts import CallBatch, CallState, StepState
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import ToolCall
from mcpagent.values.tools import Tool

_NOT_WRITTEN = "This call was not run: the run was cancelled, or the call could not be written down before."


class Journal(Middleware):
    """Writes each step before the next one begins, so that after a crash nothing is lost or repeated."""

    @asynccontextmanager
    async def around_run(self, run: AgentRun) -> AsyncIterator[None]:
        """Write the prompt, and later the end of the run with its result."""
        await run.keep()
        yield
        await run.keep()

    @asynccontextmanager
    async def around_step(self, run: AgentRun, step: StepState) -> AsyncIterator[None]:
        """Write the messages that the model is sent. Its answer is written together with its calls, or with the end of
        the run.
        """
        if not step.is_summary:
            await run.keep()
        yield

    @asynccontextmanager
    async def around_calls(
        self, run: AgentRun, batch: CallBatch
    ) -> AsyncIterator[None]:
        """Write the message with all results of the calls."""
        yield
        if batch.results:
            await run.keep()

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Write a result while other calls of its message still run; the last result is written with the whole
        message.
        """
        yield
        if call.result is not None and call.batch.unfinished > 1:
            is_repeatable = call.tool is not None and call.tool.safe_to_repeat
            progress = replace(
                call.progress, is_repeatable=is_repeatable, parts=call.parts
            )
            run.conversation.note_progress(call.call.id, progress)
            await is_written(run)

    @asynccontextmanager
    async def around_question(
        self, run: AgentRun, call: CallState
    ) -> AsyncIterator[None]:
        """Write the call before a person is asked, which may take long."""
        if not await is_written(run):
            call.refuse(_NOT_WRITTEN, "cancelled")
        yield

    @asynccontextmanager
    async def around_execution(
        self, run: AgentRun, call: CallState
    ) -> AsyncIterator[None]:
        """Write that the call is being sent; not for the runtime's own tools, which have no external effect."""
        assert call.tool is not None
        if not run.tools.is_own(call.tool):
            if run.keep is not nothing_to_keep and not call.progress.cause:
                call.progress = replace(
                    call.progress, cause=await _cause(call.tool, call.call)
                )
            is_repeatable, times_sent = call.tool.safe_to_repeat, call.times_sent + 1
            call.progress = replace(
                call.progress, is_repeatable=is_repeatable, times_sent=times_sent
            )
            run.conversation.note_progress(call.call.id, call.progress)
        if not await is_written(run):
            call.refuse(_NOT_WRITTEN, "cancelled")
        yield


async def _cause(tool: Tool, call: ToolCall) -> str:
    """Return the digest of a call without secrets, as the history stores it."""
    key, is_much = tool.definition.key, is_large(call.arguments)
    return await beside_loop(
        lambda: call_digest(key, with_texts(call.arguments, without_secrets)),
        is_much=is_much,
    )


async def is_written(run: AgentRun) -> bool:
    """Write the changes of the run. Returns False if the store failed; the loop then ends the run."""
    try:
        await run.keep()
    except (SessionStoreError, RunCancelledError):
        return False
    return True
