"""`mcpagent cards check|show`: agent cards, without starting anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from mcpagent.agent_cards import agent_from_card, card_at, card_warnings
from mcpagent.cards.card import AgentCard
from mcpagent.cards.reading import YAML, load_card, load_cards
from mcpagent.cards.writing import card_data, dump_card
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.stdout import write_json, write_out
from mcpagent.cli.terminal import open_terminal, put
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line, safe_text


@dataclass(frozen=True, slots=True)
class CardReport:
    """What came of looking at one card; `error` is empty where it can be used."""

    path: str
    name: str = ""
    error: str = ""
    warnings: tuple[str, ...] = ()


def check_cards(paths: Sequence[Path], options: Options) -> ExitCode:
    """Tells of each card whether an agent can be made of it."""
    reports = [report for path in paths for report in card_reports(path)]
    failed = any(report.error for report in reports)
    if options.output is OutputFormat.json:
        documents = [
            {"path": item.path, "name": item.name, "error": item.error or None, "warnings": list(item.warnings)}
            for item in reports
        ]
        write_json(documents)
    else:
        terminal = open_terminal(options.color, os.environ)
        put(terminal.out, *(line for report in reports for line in _lines(report)))
    return ExitCode.CONFIG if failed else ExitCode.OK


def card_reports(path: Path) -> list[CardReport]:
    """One report per card of a file or folder."""
    try:
        cards = list(load_cards(path).values()) if path.is_dir() else [load_card(path)]
    except ConfigError as error:
        return [CardReport(str(path), error=safe_line(str(error), 500))]
    if not cards:
        return [CardReport(str(path), error=f"{path} holds no card: a card ends in .md or .yaml")]
    return [_report(card) for card in cards]


def _report(card: AgentCard) -> CardReport:
    warnings = tuple(safe_line(line, 300) for line in card_warnings(card))
    try:
        agent_from_card(card)
    except ConfigError as error:
        return CardReport(card.path, card.name, safe_line(str(error), 500), warnings)
    return CardReport(card.path, card.name, "", warnings)


def _lines(report: CardReport) -> list[Text]:
    if report.error:
        return [Text.assemble(("failed  ", "red"), report.error)]
    head = Text.assemble(("ok      ", "green"), report.name, (f"  {safe_line(report.path, 200)}", "dim"))
    return [head, *(Text(f"        {line}", style="yellow") for line in report.warnings)]


def show_card(path: Path, options: Options) -> ExitCode:
    """Prints the card as it would be written."""
    card = card_at(path)
    if options.output is OutputFormat.json:
        write_json({**card_data(card), "instruction": card.instruction})
    else:
        write_out(safe_text(dump_card(card, "yaml" if Path(card.path).suffix in YAML else "md")))
    return ExitCode.OK
