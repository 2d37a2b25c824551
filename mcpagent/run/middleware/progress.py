"""Notes to a small model about its progress: the prompt, the results so far, and the missing parts."""

from __future__ import annotations

from itertools import pairwise

from mcpagent.prompt.builder import progress_note
from mcpagent.run.agent_run import AgentRun
from mcpagent.values.limits.question_parts import missing_parts, parts_of
from mcpagent.values.messages import ToolCall, ToolResult


def results_of(run: AgentRun) -> list[tuple[ToolCall, ToolResult]]:
    """Return the calls of this prompt with their results, in order, including those of an earlier process."""
    made: list[tuple[ToolCall, ToolResult]] = []
    for message, following in pairwise(run.conversation.messages[run.begins_at :]):
        results = {result.call_id: result for result in following.tool_results}
        made += [
            (call, results[call.id])
            for call in message.tool_calls
            if call.id in results
        ]
    return made


def has_result(run: AgentRun) -> bool:
    """Return whether a call for this prompt succeeded."""
    return any(result.error is None for _, result in results_of(run))


def missing_of(
    run: AgentRun, newest: list[tuple[ToolCall, ToolResult]] | None = None
) -> tuple[str, ...]:
    """Return the parts of the prompt that no result covers; () if the prompt has only one part.

    `newest` are results that are not in the history yet.
    """
    parts = parts_of(run.context.prompt)
    if len(parts) > 1:
        return missing_parts(parts, [*results_of(run), *(newest or ())])
    return ()


def progress_of(
    run: AgentRun, newest: list[tuple[ToolCall, ToolResult]] | None = None
) -> str:
    """Return the note about the progress; `newest` are results that are not in the history yet."""
    made = [*results_of(run), *(newest or ())]
    told = [
        (call.name, call.arguments, result.text)
        for call, result in made
        if result.error is None
    ]
    return progress_note(run.context.prompt, told, missing_of(run, newest))
