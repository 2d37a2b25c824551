"""`mcpagent mcp list|test`: the configured servers, and whether they work."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mcpagent.cli.configuration import Configuration, load_configuration, short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.headless import write_out
from mcpagent.cli.lines import column
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.terminal import Glyphs, open_terminal, put
from mcpagent.config import ServerConfig
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
