"""The commands of `mcpagent gateway` and their options; the implementation is loaded on demand."""

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
    """Serve your servers as one, to the client that starts this; with --set http=PORT to many."""
    from mcpagent.cli.gateway_command.gateway_settings import gateway_settings
    from mcpagent.cli.gateway_command.serving import serve_gateway
    from mcpagent.cli.screen.terminal import open_terminal

    settings = gateway_settings(set_ or ())
    return serve_gateway(options, open_terminal(options.color), settings)


ClientName = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT",
        help="claude-desktop, claude-code, cursor, vscode, codex, windsurf or zed.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Without a question.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show what would change, as a diff.")
]


@opt.command(gateway_app, "install", opt.QUIET)
def gateway_install(
    options: opt.Options, client: ClientName, yes: Yes = False, dry_run: DryRun = False
) -> int:
    """Move a client's servers to your own file, their secrets to the keyring, and add the gateway to the client."""
    from mcpagent.cli.gateway_command.installing import client_named, install
    from mcpagent.cli.screen.terminal import open_terminal

    terminal = open_terminal(options.color)
    return install(options, client_named(client), terminal, yes=yes, dry_run=dry_run)


@opt.command(gateway_app, "uninstall", opt.QUIET)
def gateway_uninstall(
    options: opt.Options, client: ClientName, yes: Yes = False, dry_run: DryRun = False
) -> int:
    """Restore a client's file byte for byte."""
    from mcpagent.cli.gateway_command.installing import client_named, uninstall
    from mcpagent.cli.screen.terminal import open_terminal

    terminal = open_terminal(options.color)
    return uninstall(options, client_named(client), terminal, yes=yes, dry_run=dry_run)


@opt.command(gateway_app, "status", opt.REPORT)
def gateway_status(options: opt.Options) -> int:
    """Show running gateways, tokens saved for each client, calls, slowest tools, and searches without results."""
    from mcpagent.cli.gateway_command.reports import show_status

    return show_status(options)


@opt.command(gateway_app, "logs", opt.REPORT)
def gateway_logs(
    options: opt.Options,
    lines: Annotated[
        int,
        typer.Option(
            "--limit", "-k", "-n", metavar="N", min=1, help="The last lines shown."
        ),
    ] = 50,
) -> int:
    """List the last calls and searches of your gateways, with their outcome and time."""
    from mcpagent.cli.gateway_command.reports import show_calls

    return show_calls(options, lines)
