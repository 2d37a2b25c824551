"""Compact a conversation that no longer fits the model, before a request, or after a request that was too long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcpagent.errors import ContextOverflowError
from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.compaction.compacting import make_room
from mcpagent.run.run_parts import StepState
from mcpagent.values.events import Notice


class Shortening(Middleware):
    """Keeps each request within the context window of the model."""

    @asynccontextmanager
    async def around_step(self, run: AgentRun, step: StepState) -> AsyncIterator[None]:
        """Compact the conversation if the request would be too long, or if the model refused it as such; then build it
        again.

        A prompt that is too long by itself is removed: it can never be answered, and would block the next one.
        """
        if step.is_summary:
            yield
            return
        await make_room(run)
        try:
            yield
        except ContextOverflowError:
            step.is_shortened = await make_room(run, refused=True)
            if step.is_shortened:
                return
            if run.conversation.take_back_prompt():
                run.emit(
                    Notice(
                        "what was asked is too long, and is taken back: ask for less",
                        "warning",
                    )
                )
            raise
