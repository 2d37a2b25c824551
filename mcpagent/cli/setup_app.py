"""The options of `mcpagent doctor|config|keys|permissions|trust|cards|completion`; each command imports its code when
it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

config_app = typer.Typer(
    help="Your settings: what counts, where it comes from, where it is.", **opt.PLAIN
)
keys_app = typer.Typer(
    help="API keys and other secrets, kept in the system keyring.", **opt.PLAIN
)
trust_app = typer.Typer(help="What you agreed that projects may use.", **opt.PLAIN)
permissions_app = typer.Typer(help="The rules for calls of tools.", **opt.PLAIN)
cards_app = typer.Typer(help="Agent cards.", **opt.PLAIN)

KeyName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A variable such as GITHUB_TOKEN, or a provider such as anthropic.",
    ),
]


@opt.taking(
    [
        "model",
        "config",
        "server",
        "openapi",
        "trust_project",
        "server_wait",
        *opt.REPORT,
    ]
)
def doctor(
    options: opt.Options,
    context: typer.Context,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Fix what needs no question: who can read your files."
        ),
    ] = False,
) -> int:
    """Check model, keys, files and servers. Exit code 5: a required server failed, or all of them."""
    from mcpagent.cli.setup.doctor import run_doctor

    return run_doctor(options, context.find_root().command, fix=fix)


def completion(
    shell: Annotated[
        opt.Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or pwsh.")
    ],
) -> int:
    """Print the completion script of a shell: eval "$(mcpagent completion bash)"."""
    from mcpagent.cli.setup.completion import print_script

    return print_script(shell)


@opt.command(config_app, "show", opt.REPORT)
def config_show(
    options: opt.Options,
    context: typer.Context,
    origin: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Name the origin of each: a variable, file and line, or the default.",
        ),
    ] = False,
) -> int:
    """List every option that a variable or a file can set, with its present value."""
    from mcpagent.cli.setup.config_commands import show_config

    return show_config(options, context.find_root().command, with_origin=origin)


@opt.command(config_app, "path", opt.QUIET)
def config_path(
    options: opt.Options,
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT", help="config, servers, project, logs, state, data, cache."
        ),
    ] = None,
) -> int:
    """Print the locations of mcpagent's files: one path, or all of them with names."""
    from mcpagent.cli.setup.config_commands import print_path

    return print_path(options, what)


@opt.command(config_app, "edit", opt.QUIET)
def config_edit(
    options: opt.Options,
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="config, servers, project or project-config."
        ),
    ] = "config",
) -> int:
    """Open config.toml, or another file, in your editor, and check it afterwards."""
    from mcpagent.cli.setup.config_commands import edit_config

    return edit_config(options, what, context.find_root().command)


@opt.command(keys_app, "list", opt.REPORT)
def keys_list(options: opt.Options) -> int:
    """List the names of the stored keys and their locations, without reading the keys."""
    from mcpagent.cli.approvals.key_commands import list_keys

    return list_keys(options)


@opt.command(keys_app, "set", opt.QUIET)
def keys_set(
    options: opt.Options,
    name: KeyName,
    value: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> int:
    """Store a key: typed unseen, or read from stdin. Used when the environment lacks the variable, and as
    ${keyring:NAME} in a server's configuration."""
    from mcpagent.cli.approvals.key_commands import refuse_value, set_key

    if value:
        refuse_value(name)
    return set_key(name, options)


@opt.command(keys_app, "move", ["config", *opt.QUIET])
def keys_move(
    options: opt.Options,
    server: Annotated[str, typer.Argument(metavar="SERVER", help="The server's name.")],
) -> int:
    """Move the literal secrets of a server's entry to the keyring, and write references in their place."""
    from mcpagent.cli.servers.server_editing import move_secrets

    return move_secrets(options, server)


@opt.command(keys_app, "remove", opt.QUIET)
def keys_remove(options: opt.Options, name: KeyName) -> int:
    """Delete a key."""
    from mcpagent.cli.approvals.key_commands import remove_key

    return remove_key(name, options)


@opt.command(permissions_app, "list", opt.REPORT)
def permissions_list(options: opt.Options) -> int:
    """List the tools and servers that run without a question because you answered "always"."""
    from mcpagent.cli.approvals.approval_commands import list_approvals

    return list_approvals(options)


@opt.command(permissions_app, "forget", opt.QUIET)
def permissions_forget(
    options: opt.Options,
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="SERVER|SERVER.TOOL", help="A glob such as 'git.*' too."
        ),
    ],
) -> int:
    """Delete an answer "always": mcpagent asks again before the next call."""
    from mcpagent.cli.approvals.approval_commands import forget_approvals

    return forget_approvals(pattern, options)


@opt.command(permissions_app, "explain", [*opt.OF_SERVERS, *opt.RULES])
def permissions_explain(
    options: opt.Options,
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="SERVER.TOOL", help="Also /SERVER:PROMPT or @SERVER:URI."
        ),
    ],
) -> int:
    """Print the rule that decides on a tool, its file and key, and the rules that would decide without it."""
    from mcpagent.cli.tools_command.explaining_permissions import explain

    return explain(options, name, context)


@opt.command(trust_app, "list", opt.REPORT)
def trust_list(options: opt.Options) -> int:
    """List the files that you agreed to use, and the servers in them."""
    from mcpagent.cli.approvals.trust_commands import list_consents

    return list_consents(options)


@opt.command(trust_app, "show", ["model", *opt.REPORT])
def trust_show(options: opt.Options) -> int:
    """Show the programs, files and destinations of this project, your consent, and later changes by other people."""
    from mcpagent.cli.approvals.trust_commands import show_consent

    return show_consent(options)


@opt.command(trust_app, "tool", ["config", "server", "trust_project", *opt.QUIET])
def trust_tool(
    options: opt.Options,
    name: Annotated[
        str, typer.Argument(metavar="SERVER.TOOL", help="A tool that changed.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Without a question.")] = False,
) -> int:
    """Show a server's changes of a tool since its first use, and accept them."""
    from mcpagent.cli.approvals.changed_tools import accept_tool

    return accept_tool(options, name, yes=yes)


@opt.command(trust_app, "revoke", opt.QUIET)
def trust_revoke(
    options: opt.Options,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Default: all of this project, after a question."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Without a question.")] = False,
) -> int:
    """Withdraw your consent: mcpagent asks again before the next use."""
    from mcpagent.cli.approvals.trust_commands import revoke_consent

    return revoke_consent(options, file, yes=yes)


@opt.command(cards_app, "check", opt.REPORT)
def cards_check(
    options: opt.Options,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATHS", help="Cards, or folders of them.")
    ],
) -> int:
    """Check the fields, servers and members of cards, without starting a server. Exit code 3: one is invalid."""
    from mcpagent.cli.setup.card_commands import check_cards

    return check_cards(paths, options)


@opt.command(cards_app, "show", opt.REPORT)
def cards_show(
    options: opt.Options,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A card, or a folder of them.")
    ],
) -> int:
    """Print a card as mcpagent reads it, with variables unexpanded."""
    from mcpagent.cli.setup.card_commands import show_card

    return show_card(path, options)
