"""`mcpagent mcp`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from typing import Any

import click

from mcpagent.cli import options as opt
from mcpagent.cli.options import WriteScope

mcp_app = click.Group("mcp", help="Your MCP servers.")

server_name = click.argument("name", metavar="NAME", help="The server.")
file_to_change = click.option(
    "--config",
    metavar="FILE",
    envvar="MCPAGENT_CONFIG",
    help="The file to change instead.",
    type=opt.FILE,
    multiple=True,
)
one_scope = click.option(
    "--scope",
    metavar="user|project",
    type=opt.Member(WriteScope),
    help="Whose file; without it the one that counts.",
)
new_scope = click.option(
    "--scope",
    type=opt.Member(WriteScope),
    default=WriteScope.user,
    help="Whose file it goes to: your own mcp.json, or the project's .mcp.json.",
)
in_its_file = opt.together(one_scope, file_to_change, opt.debug, opt.color)


@mcp_app.command("list")
@opt.config
@opt.server
@opt.report
def mcp_list(**given: Any) -> int:
    """The configured servers and where each comes from; starts none."""
    from mcpagent.cli.server_commands import list_servers

    return list_servers(opt.options_of(given))


@mcp_app.command("test")
@click.argument("name", required=False, metavar="NAME", help="One server; without it all are tested.")
@opt.config
@opt.server
@opt.trust_project
@opt.report
def mcp_test(name: str | None, **given: Any) -> int:
    """Starts the servers and says step by step what works and how long it takes. Exit code 5: one failed."""
    from mcpagent.cli.server_tests import run_server_test

    return run_server_test(opt.options_of(given), name)


@mcp_app.command("add")
@server_name
@click.argument(
    "target", nargs=-1, required=True, metavar="-- COMMAND ARGS|URL", help="What is started, or an address."
)
@click.option(
    "--env", "-e", metavar="K[=V]", multiple=True, help="A variable for it; K alone refers to yours. Repeatable."
)
@click.option(
    "--secret",
    metavar="K",
    multiple=True,
    help="A variable whose value is asked for and kept in the keyring; for a URL its bearer token.",
)
@click.option("--header", metavar="'K: V'", multiple=True, help="An HTTP header for a URL. Repeatable.")
@click.option("--transport", metavar="http|sse", default="", help="How a URL is spoken to. Default: http.")
@click.option("--cwd", metavar="FOLDER", default="", help="The folder it is started in.")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@new_scope
@click.option("--replace", is_flag=True, help="Replace the server of that name.")
@file_to_change
@opt.debug
@opt.color
def mcp_add(
    name: str,
    target: tuple[str, ...],
    env: tuple[str, ...],
    secret: tuple[str, ...],
    header: tuple[str, ...],
    transport: str,
    cwd: str,
    description: str,
    scope: WriteScope,
    replace: bool,
    **given: Any,
) -> int:
    """Adds a server: mcpagent mcp add git -- uvx mcp-server-git; mcpagent mcp add docs https://example.com/mcp."""
    from mcpagent.cli.server_editing import NewServer, add_server

    new = NewServer(name, target, env, secret, header, transport, cwd, description)
    return add_server(opt.options_of(given), new, scope, replace=replace)


@mcp_app.command("remove")
@server_name
@in_its_file
def mcp_remove(name: str, scope: WriteScope | None, **given: Any) -> int:
    """Takes a server out of its file; comments and everything else in it stay."""
    from mcpagent.cli.server_editing import remove_server

    return remove_server(opt.options_of(given), name, scope)


@mcp_app.command("enable")
@server_name
@in_its_file
def mcp_enable(name: str, scope: WriteScope | None, **given: Any) -> int:
    """Uses a server again that was disabled."""
    from mcpagent.cli.server_editing import switch_server

    return switch_server(opt.options_of(given), name, scope, on=True)


@mcp_app.command("disable")
@server_name
@in_its_file
def mcp_disable(name: str, scope: WriteScope | None, **given: Any) -> int:
    """Keeps a server configured without using it."""
    from mcpagent.cli.server_editing import switch_server

    return switch_server(opt.options_of(given), name, scope, on=False)


@mcp_app.command("import")
@click.option(
    "--from",
    "source",
    metavar="CLIENT,...",
    default="",
    help=f"Only from these: {', '.join(opt.CLIENTS)}. Default: all.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change, as a diff.")
@new_scope
@click.option("--replace", is_flag=True, help="Replace servers of the same name.")
@click.option(
    "--plain-secrets", is_flag=True, help="Leave keys as they stand in those files instead of keeping them apart."
)
@file_to_change
@opt.debug
@opt.color
def mcp_import(source: str, dry_run: bool, scope: WriteScope, replace: bool, plain_secrets: bool, **given: Any) -> int:
    """Takes over the servers of other MCP clients; what is there already stays. Exit code 1: none found.

    Keys that are written out there are kept in the system keyring, or in files that only you can read.
    """
    from mcpagent.cli.importing.command import clients_named, import_servers

    return import_servers(
        opt.options_of(given),
        clients_named(source),
        scope,
        dry_run=dry_run,
        replace=replace,
        plain_secrets=plain_secrets,
    )


@mcp_app.command("logs")
@server_name
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--lines", "-n", metavar="N", type=click.IntRange(1), default=50, help="The last lines shown.")
@opt.config
@opt.server
@opt.debug
@opt.color
def mcp_logs(name: str, follow: bool, lines: int, **given: Any) -> int:
    """What a server wrote to its standard error, and when it was started and ended."""
    from mcpagent.cli.server_logs import show_log

    return show_log(opt.options_of(given), name, lines, follow=follow)


@mcp_app.command("login")
@server_name
@click.option("--no-browser", is_flag=True, help="Only print the address; what the browser ends at can be pasted.")
@click.option(
    "--client-id",
    metavar="ID",
    help="A client registered by hand, where a server registers none; its secret, if any, is taken from "
    "MCPAGENT_CLIENT_SECRET.",
)
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=0, help="The port its redirect address has."
)
@opt.config
@opt.server
@opt.trust_project
@opt.debug
@opt.color
def mcp_login(name: str, no_browser: bool, client_id: str | None, port: int, **given: Any) -> int:
    """Signs in to a remote server (OAuth) in the browser; the sign-in is kept and renewed."""
    from mcpagent.cli.login_commands import Login, log_in

    return log_in(Login(name, not no_browser, client_id, port), opt.options_of(given))


@mcp_app.command("logout")
@click.argument("name", metavar="NAME|URL", help="The server, or its address.")
@opt.config
@opt.server
@opt.debug
@opt.color
def mcp_logout(name: str, **given: Any) -> int:
    """Signs out: revokes the sign-in where the server offers that, and forgets it."""
    from mcpagent.cli.login_commands import log_out

    return log_out(name, opt.options_of(given))
