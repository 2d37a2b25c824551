"""`mcpagent mcp list`: the configured servers."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from rich.text import Text

from mcpagent.cli.configuration import Configuration, load_configuration, short_path, target_of
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.lines import column
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.stdout import write_json
from mcpagent.cli.terminal import Glyphs, open_terminal, put
from mcpagent.cli.trust import TrustStore, untrusted
from mcpagent.safe_text import safe_line


def list_servers(options: Options) -> ExitCode:
    terminal = open_terminal(options.color, os.environ)
    configuration = load_configuration(options)
    if options.output is OutputFormat.json:
        write_json(_configuration_document(configuration, options))
        return ExitCode.OK
    waiting = {server.name for server in untrusted(configuration.enabled, TrustStore.of_user(options.environ))}
    put(terminal.out, *_configuration_lines(configuration, waiting, options, terminal.glyphs))
    return ExitCode.OK


def _configuration_lines(
    configuration: Configuration, waiting: Collection[str], options: Options, glyphs: Glyphs
) -> list[Text]:
    """`waiting` are those that nobody has said yes to yet."""
    lines: list[Text] = []
    width = max((len(name) for name in configuration.names), default=0)
    for server in configuration.servers.servers:
        mark = "-" if server.disabled else glyphs.dot
        state = "disabled  " if server.disabled else "not trusted yet  " if server.name in waiting else ""
        lines.append(
            Text.assemble(
                mark,
                " ",
                (column(safe_line(server.name, 64), width), "user"),
                "  ",
                state,
                target_of(server),
                (f"  {short_path(server.source, options.folder)}" if server.source else "", "dim"),
            )
        )
    for problem in configuration.servers.problems:
        name = column(safe_line(problem.name, 64), width)
        lines.append(Text.assemble((glyphs.failed, "error"), " ", (name, "user"), "  ", safe_line(problem.reason, 300)))
    lines.append(Text(configuration.describe(options.folder), "dim"))
    return lines


def _configuration_document(configuration: Configuration, options: Options) -> dict[str, Any]:
    waiting = {server.name for server in untrusted(configuration.enabled, TrustStore.of_user(options.environ))}
    return {
        "files": list(configuration.servers.files),
        "demo": configuration.is_demo,
        "servers": {
            server.name: {
                "target": target_of(server),
                "disabled": server.disabled,
                "scope": server.scope or None,
                "trusted": server.name not in waiting,
                "source": server.source or None,
                "description": server.description or None,
            }
            for server in configuration.servers.servers
        },
        "problems": {problem.name: problem.reason for problem in configuration.servers.problems},
    }
