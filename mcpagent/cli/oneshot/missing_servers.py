"""Name the servers whose tools are missing, each with the reason and the command that helps."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from mcpagent.cli.common.suggested_fixes import look_command
from mcpagent.cli.screen.lines import reason
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.cli.common.configuration import Configuration
    from mcpagent.mcp.server_status import ServerStatus


def missing_servers(agent: Agent, configuration: Configuration) -> list[str]:
    """Return a line for each server that failed; if no server has tools, a line for each server without tools."""
    servers = agent.servers
    lines = [
        _line_about(status, agent)
        for name, status in servers.items()
        if status.state == "failed" and name not in configuration.untrusted
    ]
    if any(status.tool_count for status in servers.values()):
        return lines
    for name, status in servers.items():
        if status.state != "failed" or name in configuration.untrusted:
            lines.append(_line_about(status, agent))
    for server in configuration.servers.servers:
        if server.disabled:
            command = f"mcpagent mcp enable {shlex.quote(server.name)}"
            lines.append(f"{_shown(server.name)}: it is disabled; {command}")
    return lines


def _line_about(status: ServerStatus, agent: Agent) -> str:
    name = _shown(status.name)
    why = safe_line(reason(status.name, status.reason), 200)
    match status.state:
        case "connecting":
            return f"{name}: it is still connecting; ask again in a moment"
        case "closed":
            return f"{name}: it is off; /mcp on {name}"
        case "failed" if status.name in agent.mcp.configs:
            command = look_command(agent.mcp.configs[status.name])
            return f"{name}: {why}; {command} shows more"
        case "failed":
            return f"{name}: {why}"
        case _:
            command = f"mcpagent mcp test {shlex.quote(status.name)}"
            return f"{name}: it lists no tools; {command} shows what it offers"


def _shown(name: str) -> str:
    return safe_line(name, 64)
