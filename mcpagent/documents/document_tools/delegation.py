"""Requests that a document tool makes to a model, each as a run of a separate agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpagent.agents.agent import Agent
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.documents.document_tools.document_deps import DocumentConfig
from mcpagent.run.agent_run import current_run
from mcpagent.toolsets.definition import ModelChoice, RunOptions
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput


async def delegate(
    config: DocumentConfig,
    name: str,
    prompt: str,
    *,
    instructions: str,
    tools: Sequence[Tool] = (),
    output_type: Any = None,
    code_mode: bool | CodeMode = False,
    options: RunOptions | None = None,
) -> ToolOutput:
    """Return the answer of a new agent with these tools to the prompt.

    If a run calls this function, the new agent shares the limits, approvals, usage and cancellation of that run. Its
    events are `SubagentEvent` values with `name`.
    """
    agent: Agent[Any] = Agent(
        _model(config),
        list(tools),
        instructions=instructions,
        pre_discovered_tools=[tool.name for tool in tools],
        code_mode=code_mode,
        options=options,
    )
    asked = agent.as_tool(name, instructions, output_type=output_type)
    async with agent:
        return await asked.run({"prompt": prompt})


def _model(config: DocumentConfig) -> ModelChoice:
    run = current_run()
    if config.model is None and run is not None:
        return run.model
    return config.model


def answer_text(output: ToolOutput) -> str:
    """Return the texts of the output, joined by line breaks."""
    return "\n".join(part.text for part in output.content if isinstance(part, Text))
