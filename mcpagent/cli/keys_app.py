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
def keys_list(
    json: opt.Json = False,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """The names of the keys that are set, and where each is kept; reads none of them."""
    from mcpagent.cli.key_commands import list_keys

    return list_keys(opt.Options(output=opt.output_form(json), color=color))


@keys_app.command("set")
def keys_set(
    name: KeyName,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Keeps a key: typed unseen, or read from stdin. Used where the environment lacks the variable, and as
    ${keyring:NAME} in a server's configuration."""
    from mcpagent.cli.key_commands import set_key

    return set_key(name, opt.Options(color=color))


@keys_app.command("remove")
def keys_remove(
    name: KeyName,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Forgets a key."""
    from mcpagent.cli.key_commands import remove_key

    return remove_key(name, opt.Options(color=color))


@approvals_app.command("list")
def approvals_list(
    json: opt.Json = False,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """The tools and servers that run without a question since you answered "always"."""
    from mcpagent.cli.approval_commands import list_approvals

    return list_approvals(opt.Options(output=opt.output_form(json), color=color))


@approvals_app.command("forget")
def approvals_forget(
    pattern: Annotated[
        str, typer.Argument(metavar="SERVER|SERVER.TOOL", show_default=False, help="A glob such as 'git.*' too.")
    ],
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Takes an "always" back: the next call is asked about again."""
    from mcpagent.cli.approval_commands import forget_approvals

    return forget_approvals(pattern, opt.Options(color=color))
