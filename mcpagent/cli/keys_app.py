"""`mcpagent keys` and `mcpagent approvals`: commands and their options. What they do is loaded when one runs."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli import options as opt

keys_app = typer.Typer(help="API keys and other secrets, kept in the system keyring.", **opt.PLAIN)
approvals_app = typer.Typer(help='What you answered "always" to.', **opt.PLAIN)

KeyName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", show_default=False, help="A variable such as GITHUB_TOKEN, or a provider such as anthropic."
    ),
]


@keys_app.command("list")
@opt.taking(*opt.REPORT)
def keys_list(options: opt.Options) -> int:
    """The names of the keys that are set, and where each is kept; reads none of them."""
    from mcpagent.cli.key_commands import list_keys

    return list_keys(options)


@keys_app.command("set")
@opt.taking("debug", "color")
def keys_set(
    options: opt.Options,
    name: KeyName,
    value: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
) -> int:
    """Keeps a key: typed unseen, or read from stdin. Used where the environment lacks the variable, and as
    ${keyring:NAME} in a server's configuration."""
    from mcpagent.cli.key_commands import refuse_value, set_key

    if value:
        refuse_value(name)
    return set_key(name, options)


@keys_app.command("remove")
@opt.taking("debug", "color")
def keys_remove(options: opt.Options, name: KeyName) -> int:
    """Forgets a key."""
    from mcpagent.cli.key_commands import remove_key

    return remove_key(name, options)


@approvals_app.command("list")
@opt.taking(*opt.REPORT)
def approvals_list(options: opt.Options) -> int:
    """The tools and servers that run without a question since you answered "always"."""
    from mcpagent.cli.approval_commands import list_approvals

    return list_approvals(options)


@approvals_app.command("forget")
@opt.taking("debug", "color")
def approvals_forget(
    options: opt.Options,
    pattern: Annotated[
        str, typer.Argument(metavar="SERVER|SERVER.TOOL", show_default=False, help="A glob such as 'git.*' too.")
    ],
) -> int:
    """Takes an "always" back: the next call is asked about again."""
    from mcpagent.cli.approval_commands import forget_approvals

    return forget_approvals(pattern, options)
