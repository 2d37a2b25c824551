"""The commands of `mcpagent mcp` and their options; the implementation is loaded on demand."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import typer

from mcpagent.cli.common import options as opt
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import WriteScope
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line

_CLIENTS = ", ".join(get_args(opt.Client))

mcp_app = typer.Typer(help="Your MCP servers.", **opt.PLAIN)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The server.")]
OneScope = Annotated[
    WriteScope | None,
    typer.Option(
        "--scope",
        metavar=opt.one_of(WriteScope),
        help="The file: your own or the project's. Default: the one in effect.",
    ),
]
NewScope = Annotated[
    WriteScope,
    typer.Option(
        "--scope",
        metavar=opt.one_of(WriteScope),
        help="The file to change: your own mcp.json, or the project's .mcp.json.",
    ),
]
File = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="MCPAGENT_CONFIG",
        help="The file to change instead.",
    ),
]


@opt.command(mcp_app, "list", ["config", "server", "openapi", *opt.REPORT])
def mcp_list(options: opt.Options) -> int:
    """List the configured servers and the origin of each, without starting them."""
    from mcpagent.cli.servers.server_commands import list_servers

    return list_servers(options)


@opt.command(
    mcp_app, "test", ["config", "server", "openapi", "trust_project", *opt.REPORT]
)
def mcp_test(
    options: opt.Options,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The server to test. Default: all servers."
        ),
    ] = None,
) -> int:
    """Start the servers, and show each step with its result and time. Exit code 5: one failed."""
    from mcpagent.cli.servers.server_commands import run_server_test

    return run_server_test(options, name)


@opt.command(mcp_app, "add", opt.QUIET, config=File)
def mcp_add(
    options: opt.Options,
    name: Name,
    target: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND ARGS|URL", help="The command to start, or an address."
        ),
    ],
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="K[=V]",
            help="A variable for the server; K alone refers to your own variable. Repeatable.",
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            metavar="K",
            help="A variable whose value you type, for the keyring; for a URL its bearer token.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="'K: V'", help="An HTTP header for a URL. Repeatable."
        ),
    ] = None,
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            metavar="http|sse",
            help="The transport of a URL. Default: http.",
        ),
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="cwd=FOLDER: the working folder; description=TEXT: its purpose. Repeatable.",
        ),
    ] = None,
    trust: Annotated[
        bool,
        typer.Option(
            "--trust",
            help="Believe the server which tools only read, or are safe to repeat.",
        ),
    ] = False,
    scope: NewScope = "user",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the server of that name.")
    ] = False,
) -> int:
    """Add a server, and start a local one once: mcpagent mcp add git -- uvx mcp-server-git; mcpagent mcp add docs https://example.com/mcp."""
    from mcpagent.cli.servers.server_commands import try_added
    from mcpagent.cli.servers.server_editing import NewServer, add_server

    new = NewServer(
        name,
        target,
        env or (),
        secret or (),
        header or (),
        transport,
        **_entry_settings(set_ or ()),
        trust=trust,
    )
    return add_server(
        options, new, scope, replace=replace, tried=partial(try_added, options)
    )


def _entry_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return the entry fields of `--set`. Raises `InputError` for unknown names."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name not in ("cwd", "description"):
            raise InputError(
                f'--set "{safe_line(name, 40)}" is no setting of a server; write cwd=FOLDER or description=TEXT'
            )
        found[name] = value
    return found


@opt.command(mcp_app, "remove", opt.QUIET, config=File)
def mcp_remove(options: opt.Options, name: Name, scope: OneScope = None) -> int:
    """Remove a server from its file; comments and other content stay."""
    from mcpagent.cli.servers.server_editing import remove_server

    return remove_server(options, name, scope)


@opt.command(mcp_app, "enable", opt.QUIET, config=File)
def mcp_enable(options: opt.Options, name: Name, scope: OneScope = None) -> int:
    """Enable a disabled server."""
    from mcpagent.cli.servers.server_editing import switch_server

    return switch_server(options, name, scope, on=True)


@opt.command(mcp_app, "disable", opt.QUIET, config=File)
def mcp_disable(options: opt.Options, name: Name, scope: OneScope = None) -> int:
    """Disable a server, and keep its configuration."""
    from mcpagent.cli.servers.server_editing import switch_server

    return switch_server(options, name, scope, on=False)


@opt.command(mcp_app, "import", opt.QUIET, config=File)
def mcp_import(
    options: opt.Options,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CLIENTS", help=f"Only from these: {_CLIENTS}. Default: all."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change, as a diff.")
    ] = False,
    scope: NewScope = "user",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace servers of the same name.")
    ] = False,
    plain_secrets: Annotated[
        bool,
        typer.Option(
            "--plain-secrets",
            help="Copy keys as text, instead of moving them to the keyring.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Import without a question.")
    ] = False,
) -> int:
    """Import the servers of other MCP clients after a question; others stay. Exit code 1: nothing to import.

    It moves literal keys to the system keyring, or in files that only you can read.
    """
    from mcpagent.cli.servers.importing.import_command import (
        clients_named,
        import_servers,
    )

    clients = clients_named(source or ())
    code = import_servers(
        options,
        clients,
        scope,
        dry_run=dry_run,
        replace=replace,
        plain_secrets=plain_secrets,
        agreed=_agreed if not yes else lambda _: True,
    )
    if dry_run:  # a dry run that finds nothing is no failure
        return ExitCode.OK
    return code


def _agreed(question: str) -> bool:
    """Ask on the terminal. Raises `InputError` without a terminal."""
    if not sys.stdin.isatty():
        raise InputError(
            "mcp import asks before it writes, and stdin is no terminal; --yes imports"
        )
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


@opt.command(mcp_app, "logs", ["config", "server", "openapi", *opt.QUIET])
def mcp_logs(
    options: opt.Options,
    name: Name,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Print new lines until Ctrl-C."),
    ] = False,
    lines: Annotated[
        int,
        typer.Option(
            "--limit", "-k", "-n", metavar="N", min=1, help="The last lines shown."
        ),
    ] = 50,
) -> int:
    """Show a server's output on standard error, and the times of its starts and ends."""
    from mcpagent.cli.servers.server_commands import show_log

    return show_log(options, name, lines, follow=follow)


@opt.command(
    mcp_app,
    "login",
    [
        "client_id",
        "redirect_port",
        "device_code",
        "config",
        "server",
        "trust_project",
        *opt.QUIET,
    ],
)
def mcp_login(
    options: opt.Options,
    name: Name,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Only print the address. Paste the address of the browser's last page.",
        ),
    ] = False,
) -> int:
    """Sign in to a remote server (OAuth) in the browser; mcpagent stores and renews the sign-in."""
    from mcpagent.cli.servers.login_commands import Login, log_in

    return log_in(
        Login(
            name,
            not no_browser,
            options.client_id,
            options.redirect_port,
            by_code=options.device_code,
        ),
        options,
    )


@opt.command(
    mcp_app, "logout", ["config", "server", "openapi", "trust_project", *opt.QUIET]
)
def mcp_logout(
    options: opt.Options,
    name: Annotated[
        str, typer.Argument(metavar="NAME|URL", help="The server, or its address.")
    ],
) -> int:
    """Sign out: delete the sign-in, and revoke it if the server supports that."""
    from mcpagent.cli.servers.login_commands import log_out

    return log_out(name, options)
