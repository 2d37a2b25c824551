"""`mcpagent doctor|config|completion`: their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from typing import Any

import click

from mcpagent.cli import options as opt

config_app = click.Group("config", help="Your settings: what counts, where it comes from, where it is.")


@click.command()
@click.pass_context
@opt.model
@opt.config
@opt.server
@opt.trust_project
@click.option("--fix", is_flag=True, help="Mend what needs no question: who can read your files.")
@opt.report
def doctor(context: click.Context, /, fix: bool, **given: Any) -> int:
    """Looks whether everything works: model, keys, files, servers. Exit code 5: a required server, or all, failed."""
    from mcpagent.cli.doctor import run_doctor

    return run_doctor(opt.options_of(given), context.find_root().command, fix=fix)


@click.command()
@click.argument("shell", type=opt.Member(opt.Shell), metavar="SHELL", help="bash, zsh, fish or pwsh.")
def completion(shell: opt.Shell) -> int:
    """The script that completes commands, options, servers and tools: eval "$(mcpagent completion bash)"."""
    from mcpagent.cli.completion import print_script

    return print_script(shell)


@config_app.command("show")
@click.pass_context
@click.option("--origin", is_flag=True, help="Say where each comes from: a variable, file and line, or the default.")
@opt.report
def config_show(context: click.Context, /, origin: bool, **given: Any) -> int:
    """Every option that a variable or a file can set, with the value it has now."""
    from mcpagent.cli.config_commands import show_config

    return show_config(opt.options_of(given), context.find_root().command, with_origin=origin)


@config_app.command("path")
@click.argument("what", required=False, metavar="WHAT", help="config, servers, project, logs, state, data, cache.")
@opt.debug
@opt.color
def config_path(what: str | None, **given: Any) -> int:
    """Where files are: one path, or all with their names."""
    from mcpagent.cli.config_commands import print_path

    return print_path(opt.options_of(given), what)


@config_app.command("edit")
@click.pass_context
@click.argument("what", default="config", metavar="WHAT", help="config, servers, project or project-config.")
@opt.debug
@opt.color
def config_edit(context: click.Context, /, what: str, **given: Any) -> int:
    """Opens config.toml, or another file, in your editor and checks it afterwards."""
    from mcpagent.cli.config_commands import edit_config

    return edit_config(opt.options_of(given), what, context.find_root().command)
