"""How a server's tools may be called: what its configuration says, and its own word as far as that counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.config.permissions import approval_for
from mcpagent.config.rule_names import forbids_of_server
from mcpagent.config.values import Approval
from mcpagent.mcp.lists.server_lists import ServerLists
from mcpagent.mcp.lists.shown_tools import ShownTool, are_plain
from mcpagent.messages import ToolDefinition
from mcpagent.text.globs import fits
from mcpagent.tools import Tool, ToolOutput

CallTool: TypeAlias = Callable[[ToolDefinition, dict[str, Any]], Awaitable[ToolOutput]]

_USUAL_TOTAL_SECONDS = ServerConfig("").total_timeout_seconds


def enabled_tools(lists: ServerLists, config: ServerConfig, call: CallTool) -> tuple[Tool, ...]:
    """The listed tools that the configuration enables, in their order, as a model is shown them, bound to `call`.

    `call` gets each as it is listed. Whatever the lists come from, a server or a file, this is where tools enter, and
    whatever that file says, they are this server's.
    """
    seconds, always = longer_seconds(config), config.always_load
    own, rule = config.name, own_rule(config)
    listed = tuple(tool if tool.server == own else replace(tool, server=own) for tool in lists.tools)
    if config.enabled_tools or config.disabled_tools:
        listed = tuple(tool for tool in listed if _is_enabled(tool, config))
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
            own_rule=rule,
        )
        for tool in listed
    ]
    return tuple(tools)


def own_rule(config: ServerConfig) -> Callable[[ToolDefinition], Approval | None] | None:
    """Return the rules of the server's `approval` for a tool, prompt or resource; None if there are none."""
    return partial(approval_for, config.approval) if config.approval else None


def _bound(listed: ToolDefinition, shown: ShownTool | None, call: CallTool, **options: Any) -> Tool:
    if shown is None or not shown.originals:
        return Tool(listed if shown is None else shown.definition, partial(call, listed), **options)

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return await call(listed, shown.arguments(arguments))

    return Tool(shown.definition, run, **options)


def longer_seconds(config: ServerConfig) -> float | None:
    """How long the agent must let a call take, if it may take longer here than anywhere else."""
    is_longer = config.total_timeout_seconds > _USUAL_TOTAL_SECONDS
    return config.total_timeout_seconds + config.shutdown_seconds if is_longer else None


def large_tokens(tool: str, config: ServerConfig) -> int | None:
    """From how many tokens on a result of this tool is set aside, if the configuration says so.

    Of several globs that fit it is the one that names most letters.
    """
    limits = config.large_result_tokens
    if not isinstance(limits, Mapping):
        return limits
    fitting = [(sum(char not in "*?[]!" for char in glob), glob) for glob in limits if fits(tool, glob)]
    return limits[max(fitting)[1]] if fitting else None


def may_repeat(tool: str, lists: ServerLists, config: ServerConfig) -> bool:
    """Whether a call may run twice: by the user's own mark; by the server's word only if the user trusts it."""
    return _matches(tool, config.safe_to_repeat) or (config.trust_hints and tool in lists.safe_by_hint)


def may_be_task(tool: str, lists: ServerLists, config: ServerConfig, *, is_long: bool) -> bool:
    """Whether a call is asked for as a task: always if its server wants it so, by choice if calls take long."""
    is_long = is_long or longer_seconds(config) is not None
    return tool in lists.task_only or (is_long and tool in lists.task_able)


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fits(name, glob) for glob in globs)


def _is_enabled(tool: ToolDefinition, config: ServerConfig) -> bool:
    is_named = not config.enabled_tools or _matches(tool.original_name, config.enabled_tools)
    return is_named and not any(forbids_of_server(glob, tool) for glob in config.disabled_tools)
