"""Decide which tools need a new consent because their servers changed them since their first use.

Calls, `/why`, `/allow` and `mcpagent permissions explain` share these functions, so that a tool reported as allowed is
not refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.screen.terminal import Terminal, agreed, open_terminal, put
from mcpagent.errors import InputError
from mcpagent.permissions.trust.own_edits import are_written_in
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.cli.common.configuration import Configuration
    from mcpagent.cli.common.options import Options
    from mcpagent.config import ServerConfig
    from mcpagent.mcp.lists.pins import ToolChange
    from mcpagent.values.messages import ToolDefinition

HOW_TO_ACCEPT = (
    "a chat asks about it at its next call; with -p, --trust-changes accepts it"
)


def accept_tool(options: Options, name: str, *, yes: bool) -> ExitCode:
    """Run `mcpagent trust tool SERVER.TOOL`: show a tool's changes since its first use, and accept them."""
    terminal = open_terminal(options.color)
    configuration = trusted_configuration(options, terminal)
    holders = [
        server for server in configuration.enabled if name.startswith(f"{server.name}.")
    ]
    if not holders:
        known = ", ".join(
            safe_line(server.name, 60) for server in configuration.enabled
        )
        raise InputError(
            f'trust tool: "{safe_line(name, 80)}" names no server; write SERVER.TOOL, with one of {known}'
        )
    server = max(holders, key=lambda one: len(one.name))
    return run_to_end(
        _accept(options, terminal, server, name[len(server.name) + 1 :], yes=yes)
    )


async def _accept(
    options: Options, terminal: Terminal, server: ServerConfig, tool: str, *, yes: bool
) -> ExitCode:
    from mcpagent.mcp.server_link import ServerLink
    from mcpagent.mcp.server_options import ServerOptions

    stored = ServerOptions.stored(options.environ)
    auth = stored.auth if server.may_sign_in else None
    async with ServerLink(server, pins=stored.pins, auth=auth) as link:
        found = [one for one in link.lists.tools if one.original_name == tool]
        if not found:
            raise InputError(
                f'trust tool: server "{server.name}" has no tool "{safe_line(tool, 80)}"'
            )
        change = link.known_change(found[0])
        output = link.lists.output_schemas.get(tool)
    label = safe_line(f"{server.name}.{tool}", 140)
    if change is None or stored.pins is None:
        put(terminal.err, f"{label} has not changed since its first use")
        return ExitCode.OK
    put(terminal.err, *change.whole)
    if not yes and not agreed(terminal, f"accept {label} as it is now?", "accepts it"):
        put(terminal.err, "nothing was accepted", style="dim")
        return ExitCode.OK
    await asyncio.to_thread(stored.pins.accept, server, found[0], output)
    terminal.done(f"accepted {label}")
    return ExitCode.OK


async def is_accepted(
    change: ToolChange, options: Options, configuration: Configuration
) -> bool:
    """Return whether a changed tool may be called without a question: by `--trust-changes`, or because it is the user's
    own code.
    """
    if options.trust_changes:
        return True
    folder = configuration.own_code.get(change.server)
    if folder is None or change.is_declared_safe:
        return False
    return await asyncio.to_thread(are_written_in, folder, change.texts, change.tool)


async def change_to_agree_to(
    tool: ToolDefinition, agent: Agent, options: Options, configuration: Configuration
) -> ToolChange | None:
    """Return the change that the next call of the tool needs consent to, or None. Its server connects if necessary."""
    for link in agent.mcp.toolsets:
        if link.config.name == tool.server:
            change = await link.change_of(tool)
            if change is not None and not await is_accepted(
                change, options, configuration
            ):
                return change
    return None


async def known_changes(
    tools: Iterable[ToolDefinition],
    agent: Agent,
    options: Options,
    configuration: Configuration,
) -> list[ToolChange]:
    """Return the changes that the next calls of these tools need consent to, by the servers' known lists."""
    links = {link.config.name: link for link in agent.mcp.toolsets}
    changes = [
        links[tool.server].known_change(tool)
        for tool in tools
        if tool.kind == "tool" and tool.server in links
    ]
    return [
        change
        for change in changes
        if change is not None and not await is_accepted(change, options, configuration)
    ]


def reason_of(change: ToolChange) -> str:
    """Return `its server changed it since its first use: description: "old" -> "new"`."""
    lines = safe_line("; ".join(change.lines), 300)
    return f"its server changed it since its first use: {lines}"
