"""The commands of `mcpagent skills` and their options; the implementation is loaded on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

skills_app = typer.Typer(
    help="Agent Skills: yours, and those of the project.", **opt.PLAIN
)


@opt.command(skills_app, "list", opt.REPORT)
def skills_list(options: opt.Options) -> int:
    """List the skills in this folder and yours, and whether they are used. Exit code 1: there are none."""
    from mcpagent.cli.setup.skill_commands import list_skills

    return list_skills(options)


@opt.command(skills_app, "show", opt.REPORT)
def skills_show(
    options: opt.Options,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FOLDER", help="A skill found here, or its folder."
        ),
    ],
) -> int:
    """Show one skill: its fields, files and instructions, as the model gets them."""
    from mcpagent.cli.setup.skill_commands import show_skill

    return show_skill(options, name)


@opt.command(skills_app, "lint", opt.REPORT)
def skills_lint(
    options: opt.Options,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDERS",
            help="Skills, or folders of them. Default: those found here.",
        ),
    ] = None,
) -> int:
    """Check skills against the specification of Agent Skills. Exit code 3: one is invalid."""
    from mcpagent.cli.setup.skill_commands import lint_skills

    return lint_skills(options, folders or ())
