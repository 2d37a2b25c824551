"""`mcpagent mcp`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli import options as opt
from mcpagent.cli.options import WriteScope

mcp_app = typer.Typer(help="Your MCP servers.", **opt.PLAIN)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The server.")]
File = Annotated[
    list[Path] | None,
    typer.Option("--config", metavar="FILE", envvar="MCPAGENT_CONFIG", help="The file to change instead."),
]
OneScope = Annotated[
    WriteScope | None,
    typer.Option("--scope", metavar="user|project", help="Whose file; without it the one that counts."),
]
NewScope = Annotated[
    WriteScope,
    typer.Option("--scope", help="Whose file it goes to: your own mcp.json, or the project's .mcp.json."),
]


@mcp_app.command("list")
@opt.taking("config", "server", *opt.REPORT)
def mcp_list(options: opt.Options) -> int:
    """The configured servers and where each comes from; starts none."""
    from mcpagent.cli.server_commands import list_servers

    return list_servers(options)


@mcp_app.command("test")
@opt.taking("config", "server", "trust_project", *opt.REPORT)
def mcp_test(
    options: opt.Options,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="One server; without it all are tested.")
    ] = None,
) -> int:
    """Starts the servers and says step by step what works and how long it takes. Exit code 5: one failed."""
    from mcpagent.cli.server_tests import run_server_test

    return run_server_test(options, name)


@mcp_app.command("add")
@opt.taking("debug", "color", config=File)
def mcp_add(
    options: opt.Options,
    name: Name,
    target: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND ARGS|URL", show_default=False, help="What is started, or an address."),
    ],
    env: Annotated[
        list[str] | None,
        typer.Option("--env", "-e", metavar="K[=V]", help="A variable for it; K alone refers to yours. Repeatable."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="K",
            help="A variable whose value is asked for and kept in the keyring; for a URL its bearer token.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="'K: V'", help="An HTTP header for a URL. Repeatable.")
    ] = None,
    transport: Annotated[
        str, typer.Option("--transport", metavar="http|sse", help="How a URL is spoken to. Default: http.")
    ] = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="FOLDER", help="The folder it is started in.")] = "",
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="What it is for.")] = "",
    scope: NewScope = WriteScope.user,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the server of that name.")] = False,
) -> int:
    """Adds a server: mcpagent mcp add git -- uvx mcp-server-git; mcpagent mcp add docs https://example.com/mcp."""
    from mcpagent.cli.server_editing import NewServer, add_server

    new = NewServer(name, target, env or (), secret or (), header or (), transport, cwd, description)
    return add_server(options, new, scope, replace=replace)


@mcp_app.command("remove")
@opt.taking("debug", "color", config=File)
def mcp_remove(
    options: opt.Options,
    name: Name,
    scope: OneScope = None,
) -> int:
    """Takes a server out of its file; comments and everything else in it stay."""
    from mcpagent.cli.server_editing import remove_server

    return remove_server(options, name, scope)


@mcp_app.command("enable")
@opt.taking("debug", "color", config=File)
def mcp_enable(
    options: opt.Options,
    name: Name,
    scope: OneScope = None,
) -> int:
    """Uses a server again that was disabled."""
    from mcpagent.cli.server_editing import switch_server

    return switch_server(options, name, scope, on=True)


@mcp_app.command("disable")
@opt.taking("debug", "color", config=File)
def mcp_disable(
    options: opt.Options,
    name: Name,
    scope: OneScope = None,
) -> int:
    """Keeps a server configured without using it."""
    from mcpagent.cli.server_editing import switch_server

    return switch_server(options, name, scope, on=False)


@mcp_app.command("import")
@opt.taking("debug", "color", config=File)
def mcp_import(
    options: opt.Options,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="CLIENT,...", help=f"Only from these: {', '.join(opt.CLIENTS)}. Default: all."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change, as a diff.")] = False,
    scope: NewScope = WriteScope.user,
    replace: Annotated[bool, typer.Option("--replace", help="Replace servers of the same name.")] = False,
    plain_secrets: Annotated[
        bool,
        typer.Option("--plain-secrets", help="Leave keys as they stand in those files instead of keeping them apart."),
    ] = False,
) -> int:
    """Takes over the servers of other MCP clients; what is there already stays. Exit code 1: none found.

    Keys that are written out there are kept in the system keyring, or in files that only you can read.
    """
    from mcpagent.cli.importing.command import clients_named, import_servers

    return import_servers(
        options,
        clients_named(source or ""),
        scope,
        dry_run=dry_run,
        replace=replace,
        plain_secrets=plain_secrets,
    )


@mcp_app.command("logs")
@opt.taking("config", "server", "debug", "color")
def mcp_logs(
    options: opt.Options,
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=1, help="The last lines shown.")] = 50,
) -> int:
    """What a server wrote to its standard error, and when it was started and ended."""
    from mcpagent.cli.server_logs import show_log

    return show_log(options, name, lines, follow=follow)


@mcp_app.command("login")
@opt.taking("config", "server", "trust_project", "debug", "color")
def mcp_login(
    options: opt.Options,
    name: Name,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address; what the browser ends at can be pasted.")
    ] = False,
    client_id: Annotated[
        str | None,
        typer.Option(
            "--client-id",
            metavar="ID",
            help="A client registered by hand, where a server registers none; its secret, if any, is taken from "
            "MCPAGENT_CLIENT_SECRET.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port its redirect address has.")
    ] = 0,
) -> int:
    """Signs in to a remote server (OAuth) in the browser; the sign-in is kept and renewed."""
    from mcpagent.cli.login_commands import Login, log_in

    return log_in(Login(name, not no_browser, client_id, port), options)


@mcp_app.command("logout")
@opt.taking("config", "server", "debug", "color")
def mcp_logout(
    options: opt.Options,
    name: Annotated[str, typer.Argument(metavar="NAME|URL", show_default=False, help="The server, or its address.")],
) -> int:
    """Signs out: revokes the sign-in where the server offers that, and forgets it."""
    from mcpagent.cli.login_commands import log_out

    return log_out(name, options)
