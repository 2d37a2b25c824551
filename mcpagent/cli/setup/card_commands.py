"""`mcpagent cards check|show`: check and show agent cards, without starting servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.agents.cards.agent_cards import agent_from_card, card_warnings
from mcpagent.agents.cards.reading import YAML, load_card, load_cards
from mcpagent.agents.cards.teams import card_at, read_team
from mcpagent.agents.cards.writing import card_data, dump_card
from mcpagent.cli.approvals.project_trust import lines_to_say_yes_to
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import open_terminal, write_json, write_out
from mcpagent.config.literals import literal_values
from mcpagent.errors import ConfigError
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.utilities.text.secrets import hide


def check_cards(paths: Sequence[Path], options: Options) -> ExitCode:
    """Report for each card whether it is usable, and which consent it needs. Exit code 3: a card is unusable."""
    documents = [document for path in paths for document in _documents(path, options)]
    lines: list[Text] = []
    for found in documents:
        if found["error"]:
            lines.append(Text.assemble(("failed  ", "red"), found["error"]))
        else:
            place = (f"  {safe_line(found['path'], 200)}", "dim")
            if found["asks"]:
                mark = "asks    ", "yellow"
            else:
                mark = "ok      ", "green"
            lines.append(Text.assemble(mark, found["name"], place))
            lines += [Text(f"        {line}", style="yellow") for line in found["asks"]]
            lines += [
                Text(f"        {line}", style="yellow") for line in found["warnings"]
            ]
    open_terminal(options.color).report(
        options, documents, *lines, exact=True
    )  # the lines show the programs that would run
    if any(found["error"] for found in documents):
        return ExitCode.CONFIG
    return ExitCode.OK


def _documents(path: Path, options: Options) -> Iterator[dict[str, Any]]:
    """Yield one document per card of a file or folder. `error` is None for a usable card; `asks` lists what needs
    consent.
    """
    failed: dict[str, Any] = {
        "path": str(path),
        "name": "",
        "error": "",
        "warnings": [],
        "asks": [],
    }
    try:
        if path.is_dir():
            cards = list(load_cards(path).values())
        else:
            cards = [load_card(path)]
    except ConfigError as error:
        yield {**failed, "error": safe_line(str(error), 500)}
        return
    for card in cards:
        problem, asks = None, list[str]()
        try:
            team = read_team(card, options.environ)
            asks = lines_to_say_yes_to(team, options)
            agent_from_card(Agent, team)
        except ConfigError as failure:
            problem = safe_line(str(failure), 500)
        warnings = [safe_line(line, 300) for line in card_warnings(card)]
        yield {
            "path": card.path,
            "name": card.name,
            "error": problem,
            "warnings": warnings,
            "asks": asks,
        }
    if not cards:
        yield {**failed, "error": f"{path} holds no card: a card ends in .md or .yaml"}


def show_card(path: Path, options: Options) -> ExitCode:
    """Print the card in its file format, with its literal secrets redacted."""
    card = card_at(path)
    for entry in (*card.mcp_servers.values(), *card.mcp_connect):
        if isinstance(entry, Mapping):
            hide(*literal_values(entry))
    if options.output == "json":
        write_json({**card_data(card), "instruction": card.instruction})
    else:
        write_out(
            safe_text(
                dump_card(card, "yaml" if Path(card.path).suffix in YAML else "md")
            )
        )
    return ExitCode.OK
