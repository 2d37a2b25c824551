"""`mcpagent keys` and `mcpagent approvals`: commands and their options. What they do is loaded when one runs."""

from __future__ import annotations

from typing import Any

import click

from mcpagent.cli import options as opt

keys_app = click.Group("keys", help="API keys and other secrets, kept in the system keyring.")
approvals_app = click.Group("approvals", help='What you answered "always" to.')

key_name = click.argument(
    "name", metavar="NAME", help="A variable such as GITHUB_TOKEN, or a provider such as anthropic."
)


@keys_app.command("list")
@opt.report
def keys_list(**given: Any) -> int:
    """The names of the keys that are set, and where each is kept; reads none of them."""
    from mcpagent.cli.key_commands import list_keys

    return list_keys(opt.options_of(given))


@keys_app.command("set")
@key_name
@opt.debug
@opt.color
def keys_set(name: str, **given: Any) -> int:
    """Keeps a key: typed unseen, or read from stdin. Used where the environment lacks the variable, and as
    ${keyring:NAME} in a server's configuration."""
    from mcpagent.cli.key_commands import set_key

    return set_key(name, opt.options_of(given))


@keys_app.command("remove")
@key_name
@opt.debug
@opt.color
def keys_remove(name: str, **given: Any) -> int:
    """Forgets a key."""
    from mcpagent.cli.key_commands import remove_key

    return remove_key(name, opt.options_of(given))


@approvals_app.command("list")
@opt.report
def approvals_list(**given: Any) -> int:
    """The tools and servers that run without a question since you answered "always"."""
    from mcpagent.cli.approval_commands import list_approvals

    return list_approvals(opt.options_of(given))


@approvals_app.command("forget")
@click.argument("pattern", metavar="SERVER|SERVER.TOOL", help="A glob such as 'git.*' too.")
@opt.debug
@opt.color
def approvals_forget(pattern: str, **given: Any) -> int:
    """Takes an "always" back: the next call is asked about again."""
    from mcpagent.cli.approval_commands import forget_approvals

    return forget_approvals(pattern, opt.options_of(given))
