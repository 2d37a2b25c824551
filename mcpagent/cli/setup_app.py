"""`mcpagent doctor|config|completion`: their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpagent.cli import options as opt

config_app = typer.Typer(help="Your settings: what counts, where it comes from, where it is.", **opt.PLAIN)


@opt.taking("model", "config", "server", "trust_project", *opt.REPORT)
def doctor(
    options: opt.Options,
    context: typer.Context,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what needs no question: who can read your files.")] = False,
) -> int:
    """Looks whether everything works: model, keys, files, servers. Exit code 5: a required server, or all, failed."""
    from mcpagent.cli.doctor import run_doctor

    return run_doctor(options, context.find_root().command, fix=fix)


def completion(
    shell: Annotated[opt.Shell, typer.Argument(metavar="SHELL", show_default=False, help="bash, zsh, fish or pwsh.")],
) -> int:
    """The script that completes commands, options, servers and tools: eval "$(mcpagent completion bash)"."""
    from mcpagent.cli.completion import print_script

    return print_script(shell)


@config_app.command("show")
@opt.taking(*opt.REPORT)
def config_show(
    options: opt.Options,
    context: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each comes from: a variable, file and line, or the default.")
    ] = False,
) -> int:
    """Every option that a variable or a file can set, with the value it has now."""
    from mcpagent.cli.config_commands import show_config

    return show_config(options, context.find_root().command, with_origin=origin)


@config_app.command("path")
@opt.taking("debug", "color")
def config_path(
    options: opt.Options,
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", show_default=False, help="config, servers, project, logs, state, data, cache."),
    ] = None,
) -> int:
    """Where files are: one path, or all with their names."""
    from mcpagent.cli.config_commands import print_path

    return print_path(options, what)


@config_app.command("edit")
@opt.taking("debug", "color")
def config_edit(
    options: opt.Options,
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", show_default=False, help="config, servers, project or project-config.")
    ] = "config",
) -> int:
    """Opens config.toml, or another file, in your editor and checks it afterwards."""
    from mcpagent.cli.config_commands import edit_config

    return edit_config(options, what, context.find_root().command)
