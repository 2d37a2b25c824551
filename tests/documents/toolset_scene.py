"""Calls of document tools by an agent with a scripted model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpagent import Agent, ScriptedModel, ToolCall, ToolContext, ToolResult, prepare_context
from mcpagent.documents import AgentDeps
from mcpagent.values.events import Event


def prepared(*features: str, state_key: str | None = None) -> ToolContext:
    """A context with the state of these features."""
    return prepare_context(ToolContext(), list(features), state_key)


async def called(
    toolset: Any,
    *calls: tuple[str, dict[str, Any]],
    store: Any,
    context: ToolContext | None = None,
    model: Sequence[Any] = (),
    events: list[Event] | None = None,
) -> list[ToolResult]:
    """Return the results of the calls, one after another; `model` are replies to requests that the tools make."""
    before: list[Any] = [ToolCall("", name, arguments) for name, arguments in calls]
    scripted = ScriptedModel([*before[:1], *model, *before[1:], "done"])
    deps = AgentDeps(client=store, tool_context=context)
    heard = events if events is not None else []
    async with Agent(scripted, tools=[toolset], on_event=heard.append) as agent:
        session = agent.session(deps=deps, tool_context=context)
        await session.ask("go")
        return [result for message in session.messages for result in message.tool_results]
