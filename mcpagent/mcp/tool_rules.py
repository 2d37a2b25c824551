"""Apply a server's configuration entry to its tools: enabled tools, timeouts, and tools that are safe to repeat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.mcp.lists.server_lists import ServerLists
from mcpagent.mcp.lists.shown_tools import ShownTool, are_plain
from mcpagent.permissions.decision import entry_rules, is_enabled
from mcpagent.utilities.text.globs import fits
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput

CallTool: TypeAlias = Callable[[ToolDefinition, dict[str, Any]], Awaitable[ToolOutput]]

_USUAL_TOTAL_SECONDS = ServerConfig("").total_timeout_seconds


def enabled_tools(
    lists: ServerLists, config: ServerConfig, call: CallTool
) -> tuple[Tool, ...]:
    """Return the tools that the configuration enables, in order and in their form for a model, bound to `call`.

    `call` receives each tool as listed. All tools from a server or a cache file pass this function, and become tools of
    this server, even if the file names another.
    """
    seconds, always = longer_seconds(config), config.always_load
    own, rules = config.name, entry_rules(config)
    listed = tuple(
        tool if tool.server == own else replace(tool, server=own)
        for tool in lists.tools
    )
    if config.enabled_tools or config.disabled_tools:
        listed = tuple(tool for tool in listed if is_enabled(tool, config))
    is_plain = are_plain(listed)
    tools = [
        _bound(
            tool,
            None if is_plain else ShownTool.of(tool),
            call,
            timeout_seconds=seconds,
            safe_to_repeat=may_repeat(tool.original_name, lists, config),
            output_schema=lists.output_schemas.get(tool.original_name),
            deferred=False if always and _matches(tool.original_name, always) else None,
            large_result_tokens=large_tokens(tool.original_name, config),
            rules=rules,
            allowed_callers=tuple(config.allowed_callers),
        )
        for tool in listed
    ]
    return tuple(tools)


def _bound(
    listed: ToolDefinition, shown: ShownTool | None, call: CallTool, **options: Any
) -> Tool:
    if shown is None or not shown.originals:
        return Tool(
            listed if shown is None else shown.definition,
            partial(call, listed),
            **options,
        )

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return await call(listed, shown.arguments(arguments))

    return Tool(shown.definition, run, **options)


def longer_seconds(config: ServerConfig) -> float | None:
    """Return the timeout for calls if this server's total timeout exceeds the usual one; else None."""
    is_longer = config.total_timeout_seconds > _USUAL_TOTAL_SECONDS
    if is_longer:
        return config.total_timeout_seconds + config.shutdown_seconds
    return None


def large_tokens(tool: str, config: ServerConfig) -> int | None:
    """Return the token threshold above which a result of this tool is offloaded; None if it is not configured.

    Of several matching globs, the one with the most letters counts.
    """
    limits = config.large_result_tokens
    if not isinstance(limits, Mapping):
        return limits
    fitting = [
        (sum(char not in "*?[]!" for char in glob), glob)
        for glob in limits
        if fits(tool, glob)
    ]
    if fitting:
        return limits[max(fitting)[1]]
    return None


def may_repeat(tool: str, lists: ServerLists, config: ServerConfig) -> bool:
    """Return whether a call may run twice: by the user's setting, or by the server's hint if that is trusted."""
    return _matches(tool, config.safe_to_repeat) or (
        config.trust_hints and tool in lists.safe_by_hint
    )


def may_be_task(
    tool: str, lists: ServerLists, config: ServerConfig, *, is_long: bool
) -> bool:
    """Return whether to request a call as a task: always if its server requires it, else for long calls if it is
    possible.
    """
    is_long = is_long or longer_seconds(config) is not None
    return tool in lists.task_only or (is_long and tool in lists.task_able)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fits(name, glob) for glob in globs)
