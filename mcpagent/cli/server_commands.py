"""`mcpagent mcp list|test`: the configured servers, and whether they work."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcpagent.cli.agents import connected_without_model
from mcpagent.cli.configuration import Configuration, load_configuration, short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted, duration
from mcpagent.cli.headless import write_out
from mcpagent.cli.lines import column, reason
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.terminal import Glyphs, Terminal, open_terminal, put
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import InputError
from mcpagent.events import Event, Notice, ServerConnected, ServerFailed
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent.cli.configuration import Configuration


def list_servers(options: Options) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)
    configuration = load_configuration(options)
    if options.output is OutputFormat.json:
        write_out(json.dumps(_configuration_document(configuration), indent=2) + "\n")
        return ExitCode.OK
    put(terminal.out, *_configuration_lines(configuration, options, terminal.glyphs))
    return ExitCode.OK


def run_server_test(options: Options, name: str | None) -> ExitCode:
    """Starts every server, or the named one, and tells what came of it."""
    terminal = open_terminal(options.color, os.environ)
    configuration = load_configuration(options)
    if name is not None:
        configuration = _only(configuration, name)
    return asyncio.run(_test(options, configuration, terminal))


async def _test(options: Options, configuration: Configuration, terminal: Terminal) -> ExitCode:
    report = _TestReport(configuration, terminal, told=options.output is OutputFormat.text)
    async with connected_without_model(options, configuration, terminal, report) as agent:
        for server, status in agent.servers.items():
            tools = [tool.name for tool in agent.known_tools.values() if tool.server == server]
            report.finish(server, status, agent.catalog.tokens(tools))
        if options.output is OutputFormat.json:
            write_out(json.dumps(report.documents, indent=2) + "\n")
        else:
            ready = sum(1 for item in report.documents.values() if item["state"] in ("ready", "cached"))
            total = agent.catalog.tokens(agent.known_tools)
            known = counted(len(agent.known_tools), "tool")
            terminal.out.print(
                f"{ready} of {len(report.documents)} usable {terminal.glyphs.dot} {known}, {total:,} tokens"
            )
        return ExitCode.SERVERS if report.failed else ExitCode.OK


class _TestReport:
    """One line per server as soon as it is known how it went, and the same for --json."""

    def __init__(self, configuration: Configuration, terminal: Terminal, *, told: bool) -> None:
        self._servers = {server.name: server for server in configuration.servers.servers}
        self._terminal = terminal
        self._told = told
        self.documents: dict[str, dict[str, Any]] = {}
        self.failed = False

    def __call__(self, event: Event) -> None:
        glyphs = self._terminal.glyphs
        match event:
            case ServerFailed(server=server, reason=why):
                self.failed = True
                self._tell(Text.assemble((glyphs.failed, "error"), " ", (safe_line(server, 64), "user")))
                for stage, outcome in self._stages(server):
                    self._tell(Text(f"    {stage:<11} {outcome}", "dim"))
                self._tell(Text(f"    {'connect':<11} {reason(server, why)}"))
            case ServerConnected(server=server, tools=tools, seconds=seconds):
                self._tell(Text.assemble((glyphs.ok, "ok"), " ", (safe_line(server, 64), "user")))
                for stage, outcome in self._stages(server):
                    self._tell(Text(f"    {stage:<11} {outcome}", "dim"))
                self._tell(Text(f"    {'connect':<11} {duration(seconds)}", "dim"))
                self._tell(Text(f"    {'list':<11} {counted(tools, 'tool')}", "dim"))
            case Notice(text=text, level="warning"):
                self._tell(Text(f"    {glyphs.warning} {safe_line(text, 300)}", "warning"))
            case _:
                pass

    def finish(self, server: str, status: Any, tokens: int) -> None:
        self.documents[server] = {
            "state": status.state,
            "seconds": round(status.seconds, 3),
            "tools": status.tool_count,
            "tokens": tokens,
            "protocol_version": status.protocol_version or None,
            "reason": status.reason or None,
            "warnings": list(status.warnings),
        }

    def _stages(self, server: str) -> list[tuple[str, str]]:
        """What can be said before the server is started."""
        config = self._servers.get(server)
        if config is None:
            return []
        stages = [("config", safe_line(config.source or "given on the command line", 100))]
        if config.command:
            found = shutil.which(config.command, path=config.env.get("PATH"))
            stages.append(("executable", safe_line(found or f"{config.command}: not found on PATH", 120)))
        else:
            stages.append(("address", safe_line(config.url.partition("?")[0], 120)))
        return stages

    def _tell(self, line: Text) -> None:
        if self._told:
            put(self._terminal.out, line)


def _only(configuration: Configuration, name: str) -> Configuration:
    servers = [server for server in configuration.servers.servers if server.name == name]
    problems = [problem for problem in configuration.servers.problems if problem.name == name]
    if not (servers or problems):
        near = get_close_matches(name, configuration.names, n=3) or configuration.names[:3]
        raise InputError(f'no server "{safe_line(name, 64)}"; configured: {", ".join(near) or "none"}')
    return Configuration(
        ServersConfig(tuple(servers), tuple(problems), configuration.servers.files), configuration.is_demo
    )


def _configuration_lines(configuration: Configuration, options: Options, glyphs: Glyphs) -> list[Text]:
    lines: list[Text] = []
    width = max((len(name) for name in configuration.names), default=0)
    for server in configuration.servers.servers:
        mark = "-" if server.disabled else glyphs.dot
        state = "disabled  " if server.disabled else ""
        lines.append(
            Text.assemble(
                mark,
                " ",
                (column(safe_line(server.name, 64), width), "user"),
                "  ",
                state,
                _target(server),
                (f"  {short_path(server.source, options.folder)}" if server.source else "", "dim"),
            )
        )
    for problem in configuration.servers.problems:
        name = column(safe_line(problem.name, 64), width)
        lines.append(Text.assemble((glyphs.failed, "error"), " ", (name, "user"), "  ", safe_line(problem.reason, 300)))
    lines.append(Text(configuration.describe(options.folder), "dim"))
    return lines


def _configuration_document(configuration: Configuration) -> dict[str, Any]:
    return {
        "files": list(configuration.servers.files),
        "demo": configuration.is_demo,
        "servers": {
            server.name: {
                "target": _target(server),
                "disabled": server.disabled,
                "source": server.source or None,
                "description": server.description or None,
            }
            for server in configuration.servers.servers
        },
        "problems": {problem.name: problem.reason for problem in configuration.servers.problems},
    }


def _target(server: ServerConfig) -> str:
    """The command or the address; a query may hold a key, so it is left out."""
    if server.url:
        return safe_line(server.url.partition("?")[0], 100)
    return safe_line(" ".join((server.command, *server.args)), 100)
