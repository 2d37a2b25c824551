"""`mcpagent cards`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli import options as opt

cards_app = typer.Typer(help="Agent cards.", **opt.PLAIN)


@cards_app.command("check")
@opt.taking(*opt.REPORT)
def cards_check(
    options: opt.Options,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATHS", show_default=False, help="Cards, or folders of them.")
    ],
) -> int:
    """Whether cards can be used: fields, servers, members; starts none. Exit code 3: one cannot."""
    from mcpagent.cli.card_commands import check_cards

    return check_cards(paths, options)


@cards_app.command("show")
@opt.taking(*opt.REPORT)
def cards_show(
    options: opt.Options,
    path: Annotated[Path, typer.Argument(metavar="PATH", show_default=False, help="A card, or a folder of them.")],
) -> int:
    """A card as it is understood, with variables as they are written."""
    from mcpagent.cli.card_commands import show_card

    return show_card(path, options)
