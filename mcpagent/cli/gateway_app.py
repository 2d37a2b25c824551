"""`mcpagent gateway`: its commands and their options; the implementation is loaded on demand."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

gateway_app = typer.Typer(
    help="Your MCP servers behind one, for other clients.", **opt.PLAIN
)


@opt.command(
    gateway_app,
    "serve",
    ["config", "server", "openapi", "approve", "yes", "allow", "deny", *opt.QUIET],
)
def gateway_serve(
    options: opt.Options,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="mode=auto|search|add|code|all, ask=client|elicit|deny, idle=15m, pin=SERVER.TOOL, http=PORT.",
        ),
    ] = None,
) -> int:
    """Serves your servers as one, to the client that starts this; with --set http=PORT to many."""
    from mcpagent.cli.gateway_command.gateway_settings import gateway_settings
    from mcpagent.cli.gateway_command.serving import serve_gateway
    from mcpagent.cli.screen.terminal import open_terminal

    settings = gateway_settings(set_ or ())
    return serve_gateway(options, open_terminal(options.color), settings)
