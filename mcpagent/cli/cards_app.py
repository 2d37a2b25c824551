"""`mcpagent cards`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mcpagent.cli import options as opt

cards_app = click.Group("cards", help="Agent cards.")


@cards_app.command("check")
@click.argument("paths", nargs=-1, required=True, type=opt.FILE, metavar="PATHS", help="Cards, or folders of them.")
@opt.report
def cards_check(paths: tuple[Path, ...], **given: Any) -> int:
    """Whether cards can be used: fields, servers, members; starts none. Exit code 3: one cannot."""
    from mcpagent.cli.card_commands import check_cards

    return check_cards(paths, opt.options_of(given))


@cards_app.command("show")
@click.argument("path", type=opt.FILE, metavar="PATH", help="A card, or a folder of them.")
@opt.report
def cards_show(path: Path, **given: Any) -> int:
    """A card as it is understood, with variables as they are written."""
    from mcpagent.cli.card_commands import show_card

    return show_card(path, opt.options_of(given))
