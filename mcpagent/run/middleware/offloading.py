"""Store large results outside of the conversation; the model gets a preview, and tools that read the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.large_results.large_output import estimated_tokens
from mcpagent.run.run_parts import CallState
from mcpagent.values.messages import Image


class Offloading(Middleware):
    """Replaces a large result by a preview. The result of a program's call is a value of the program, so it stays."""

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Offload the result, if there is one and it is large."""
        yield
        if call.result is not None and call.output is not None and not call.parent:
            tokens = None
            if call.tool is not None:
                tokens = call.tool.large_result_tokens
                if tokens:  # a tool's own threshold is in tokens of its text
                    tokens += estimated_tokens(
                        part for part in call.result.content if isinstance(part, Image)
                    )
            whole, call.result = (
                call.result,
                None,
            )  # even if this is cancelled, the conversation does not get the whole result
            call.result = await run.large.set_aside(
                whole, tokens=tokens, blocks=call.output.blocks
            )
