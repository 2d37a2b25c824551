"""Validate the arguments of an `Agent` and build its runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mcpagent.agents.agent_runtime import AgentRuntime
from mcpagent.code_mode.code_options import CodeMode, search_for_programs
from mcpagent.journal.sessions.protocol import SessionStore
from mcpagent.journal.sessions.store import Sessions
from mcpagent.models.provider_tools.provider_tool_values import (
    ProviderMcp,
    ProviderTool,
    expect_distinct,
)
from mcpagent.permissions.approval_policy import ApprovalPolicy, ApprovalPredicate
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.toolsets.definition import (
    Definition,
    Instructions,
    ModelChoice,
    RunOptions,
    expect_model,
    wrapped_by,
)
from mcpagent.toolsets.skill_toolset import skills_toolset, with_joined_skills
from mcpagent.toolsets.sources import AnyTools, McpConfig, expect_config, sources_of
from mcpagent.utilities.python.argument_checks import (
    expect,
    expect_arguments,
    expect_function,
)
from mcpagent.values.events import Emit, guarded, log_warnings


def runtime_of(
    model: ModelChoice,
    tools: Sequence[AnyTools],
    *,
    mcp_config: McpConfig,
    instructions: Instructions,
    tool_search: bool | Literal["auto"] | ToolSearch | None,
    with_tool_search_mode: bool | Literal["auto"],
    pre_discovered_tools: Sequence[str],
    code_mode: bool | CodeMode,
    approval: bool | ApprovalPredicate | ApprovalPolicy,
    options: RunOptions | None,
    sessions: Sessions | SessionStore | str | Path | None,
    on_event: Emit | None,
) -> AgentRuntime:
    """Return the runtime of an agent with these arguments. Raises `ConfigError` for an unusable argument."""
    expect_model(model)
    expect_config(mcp_config)
    expect("tools", tools, (list, tuple), "list of functions, tools and toolsets")
    annotated: dict[str, object] = {
        "instructions": instructions,
        "tool_search": tool_search,
        "with_tool_search_mode": with_tool_search_mode,
        "pre_discovered_tools": pre_discovered_tools,
        "code_mode": code_mode,
        "options": options,
        "sessions": sessions,
        "on_event": on_event,
    }
    expect_arguments("Agent", runtime_of, annotated)
    if callable(instructions):
        expect_function("instructions", instructions, "context")
    if on_event is not None:
        expect_function("on_event", on_event, "event")
    options = options or RunOptions()
    if isinstance(approval, ApprovalPolicy):
        rules = approval
    else:
        rules = ApprovalPolicy(approval)
    hosted = expect_distinct(tool for tool in tools if isinstance(tool, ProviderTool))
    own = [tool for tool in tools if not isinstance(tool, ProviderTool)]
    if options.skills:
        own.append(skills_toolset(*options.skills))
    definition = Definition(
        instructions,
        _search_of(tool_search, with_tool_search_mode, code_mode),
        tuple(pre_discovered_tools),
        options,
        sources_of(with_joined_skills(own), mcp_config, options.servers, rules),
        provider_tools=hosted,
        code_mode=CodeMode() if code_mode is True else code_mode or None,
    )
    unasked = [
        tool.name
        for tool in hosted
        if isinstance(tool, ProviderMcp) and rules.required is not False
    ]
    return AgentRuntime(
        wrapped_by(definition, options.wrappers),
        model,
        mcp_config=mcp_config,
        rules=rules,
        store=sessions
        if sessions is None or isinstance(sessions, Sessions)
        else Sessions(sessions),
        listener=guarded(on_event) if on_event is not None else log_warnings,
        unasked=unasked,
    )


def _search_of(
    search: bool | Literal["auto"] | ToolSearch | None,
    mode: bool | Literal["auto"],
    code_mode: bool | CodeMode,
) -> ToolSearch | None:
    """Return the tool search that these parameters request; None: the model searches only tools that are marked as
    deferred.
    """
    if isinstance(search, ToolSearch | None):
        wanted = search
    else:
        wanted = ToolSearch(enabled=search)
    if wanted is None and mode is not False:
        wanted = ToolSearch(enabled=mode)
    if code_mode:
        return search_for_programs(wanted)
    return wanted
