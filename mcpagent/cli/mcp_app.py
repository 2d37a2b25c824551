"""`mcpagent mcp`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli import options as opt

mcp_app = typer.Typer(help="Your MCP servers.", **opt.PLAIN)


@mcp_app.command("list")
def mcp_list(
    config: opt.Config = None,
    server: opt.Server = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """The configured servers and where each comes from; starts none."""
    from mcpagent.cli.server_commands import list_servers

    return list_servers(opt.server_options(config, server, json, debug, color))


@mcp_app.command("test")
def mcp_test(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="One server; without it all are tested.")
    ] = None,
    config: opt.Config = None,
    server: opt.Server = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Starts the servers and says step by step what works and how long it takes. Exit code 5: one failed."""
    from mcpagent.cli.server_commands import run_server_test

    return run_server_test(opt.server_options(config, server, json, debug, color), name)
