"""The servers of `mcpagent doctor` as a table: one row each, one column for each stage."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text

from mcpagent.cli.configuration import short_path
from mcpagent.cli.lines import column
from mcpagent.cli.probing import Probe, Stage, StageName
from mcpagent.cli.terminal import Glyphs, Terminal
from mcpagent.safe_text import safe_line

COLUMNS: tuple[tuple[str, tuple[StageName, ...]], ...] = (
    ("vars", ("variables", "trust")),
    ("exec", ("executable", "address")),
    ("spawn", ("spawn",)),
    ("init", ("initialize",)),
    ("list", ("list",)),
)
WIDTH = 7
NAME_WIDTH = 24


def server_table(probes: Sequence[Probe], terminal: Terminal, folder: Path) -> Iterator[Text]:
    """Head and rows; a row that ends early says why, and under it what to do."""
    if not probes:
        return
    name_width = min(max(len(safe_line(found.name, NAME_WIDTH)) for found in probes) + 2, NAME_WIDTH + 2)
    name_width = max(name_width, len("server") + 2)
    heads = "".join(f"{head:<{WIDTH}}" for head, _ in COLUMNS)
    yield Text(f"  {'server':<{name_width}}{heads}{'tools':>6}{'tokens':>9}", "dim")
    for found in probes:
        yield from _rows(found, name_width, terminal, folder)


def _rows(found: Probe, name_width: int, terminal: Terminal, folder: Path) -> Iterator[Text]:
    stages = {stage.name: stage for stage in found.stages}
    indent = " " * (name_width + 2)
    row = Text.assemble("  ", (column(safe_line(found.name, NAME_WIDTH), name_width), "user"))
    why = ""
    for _, names in COLUMNS:
        stage = next((stages[name] for name in names if name in stages), None)
        if stage is None:  # nothing to do there: no variables, no process
            stage = Stage(names[0], ok=True, detail="-" if names[0] == "spawn" else "")
        mark, style = _cell(stage, terminal.glyphs)
        row.append(column(mark, WIDTH) if stage.ok else f"{mark} ", style)
        if not stage.ok:
            place = f" ({short_path(found.source, folder)})" if stage.name == "variables" else ""
            why = safe_line(stage.detail, 300) + place
            break
    else:
        row.append(f"{found.tools:>6}{found.tokens:>9,}")
    width = terminal.out.width
    if cell_len(row.plain) + cell_len(why) <= width:
        yield row.append(why)
    else:
        yield row
        yield from _indented(why, indent, width)
    if found.mend:
        yield from _indented(f"do  {found.mend}", indent, width, "dim")
    for warning in found.warnings:
        yield from _indented(f"{terminal.glyphs.warning} {warning}", indent, width, "warning")


def _indented(text: str, indent: str, width: int, style: str = "") -> Iterator[Text]:
    room = max(width, len(indent) + 20)
    for line in textwrap.wrap(text, room, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False):
        yield Text(line, style)


def _cell(stage: Stage, glyphs: Glyphs) -> tuple[str, str]:
    if not stage.ok:
        took = "" if stage.seconds is None else f"{stage.seconds:.1f}s "
        return f"{took}{glyphs.failed}", "error"
    if stage.detail == "-":
        return "-", "dim"
    return (glyphs.ok, "ok") if stage.seconds is None else (f"{stage.seconds:.1f}s", "none")
