"""The screens that README.md and docs/ show: taken from the real command on a pseudo-terminal, written as SVG.

    python benchmarks/screenshots.py [--check] [NAME ...]

Times are left out, "…" in their place: they differ from run to run, and those of a stand-in for a model say nothing.
Where Python is stands as /usr/bin/python3; all else is as it
was on the screen. `--check` writes nothing and exits with 1 where a file in docs/screens/ is no longer what the command
shows. Linux and macOS; needs pyte.
"""

from __future__ import annotations

import argparse
import difflib
import html
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.terminal.process import SMALL_SERVER, Screen, on_a_terminal  # noqa: E402 - found through the line above
from tests.terminal.small_model import small_model  # noqa: E402 - found through the line above

FOLDER = ROOT / "docs" / "screens"
COLUMNS = 100
VARYING = re.compile(r"\b\d[\d.]* (?:ms|s)\b|(?P<path>/\S+/python3\b)")
PROMPT = r"(?m)^>"
USAGE = r"\d requests? · in [^\n]*"


@dataclass(frozen=True, slots=True)
class Shot:
    """A screen: the command, what is done on it, and the line from which on it is shown (its first that matches)."""

    arguments: tuple[str, ...]
    act: Callable[[Screen], None]
    start: str = ""
    end: str = ""
    title: str = ""


def asked(question: str) -> Callable[[Screen], None]:
    def act(screen: Screen) -> None:
        screen.wait_for(r"mcp 1 ok")
        screen.type(f"{question}\r")
        screen.wait_for(USAGE)
        screen.wait_for(r"mcp 1 ok")

    return act


def asked_then(question: str, command: str, pattern: str) -> Callable[[Screen], None]:
    def act(screen: Screen) -> None:
        asked(question)(screen)
        screen.type(f"{command}\r")
        screen.wait_for(pattern)
        screen.wait_for(r"mcp 1 ok")

    return act


def to_its_end(screen: Screen) -> None:
    screen.exit_code()


def until(pattern: str) -> Callable[[Screen], None]:
    def act(screen: Screen) -> None:
        screen.wait_for(pattern)

    return act


def approval(screen: Screen) -> None:
    screen.wait_for(r"mcp 1 ok")
    screen.type("push branch main to remote origin\r")
    screen.wait_for(r"run it\?")


CHANGING = "CHANGING"
"""Stands for the name of a model that calls what changes things, as the offline stand-in does not."""

CHAT = ("chat", "-m", "offline", "--tool-search", "on")
SHOTS: Mapping[str, Shot] = {
    "turn": Shot(
        CHAT, asked("convert 42 kilometres to miles"), "> convert", title="mcpagent"
    ),
    "context": Shot(
        CHAT,
        asked_then("convert 42 kilometres to miles", "/context", r"largest"),
        "> /context",
        title="/context",
    ),
    "why": Shot(
        CHAT,
        asked_then(
            "convert 42 kilometres to miles", "/why convert_units", r"called|loaded"
        ),
        "> /why",
        title="/why",
    ),
    "demo": Shot(("demo",), to_its_end, "> convert 42", title="mcpagent demo"),
    "approval": Shot(
        ("chat", "-m", CHANGING, "--config", "git.json", "--trust-project"),
        approval,
        "wants to run",
        title="approval",
    ),
    "search": Shot(
        ("tools", "search", "how far is it from one capital to another", "-v"),
        to_its_end,
        title='mcpagent tools search "..." -v',
    ),
    "test": Shot(
        ("mcp", "test", "--config", "both.json", "--trust-project"),
        to_its_end,
        title="mcpagent mcp test",
    ),
    "failure": Shot(
        ("chat", "-m", "offline", "--config", "crm.json", "--trust-project"),
        until(r"did not start 3 times"),
        "crm: exited",
        end="^>",
        title="a server that fails",
    ),
}

# -- taking ------------------------------------------------------------------------------------------------------------


def configurations(folder: Path) -> None:
    """Servers by names that a reader may have, all of them the small one of the tests."""
    (folder / "server.py").write_text(SMALL_SERVER.read_text("utf-8"), "utf-8")

    def server(mode: str) -> dict[str, Any]:
        return {"command": "python3", "args": ["server.py", mode]}

    for name, servers in {
        "git.json": {"git": server("writes")},
        "both.json": {"weather": server("good"), "crm": server("dies")},
        "crm.json": {"crm": server("dies")},
    }.items():
        (folder / name).write_text(
            json.dumps({"mcpServers": servers}, indent=2), "utf-8"
        )


def take(shot: Shot) -> str:
    """The shot as SVG."""
    with tempfile.TemporaryDirectory() as path, small_model() as changing:
        folder = Path(path)
        arguments = [
            changing if argument == CHANGING else argument
            for argument in shot.arguments
        ]
        configurations(folder)
        # By words: the same whether word vectors are installed or not.
        env = {
            "TERM": "xterm-256color",
            "COLUMNS": str(COLUMNS),
            "MCPAGENT_SEARCH_STRATEGY": "bm25",
        }
        # The first run fills the cache of lists, so that the second does not depend on who connects when.
        for _ in range(2):
            with on_a_terminal(
                arguments, folder, columns=COLUMNS, rows=100, env=env
            ) as screen:
                shot.act(screen)
                raw, text = screen.raw, screen.text
    if "internal error" in text:
        sys.exit(f"the command failed:\n{text[-1_000:]}")
    return as_svg(rows_of(raw), shot)


def rows_of(raw: str) -> list[Any]:
    """What a terminal of that size shows, as rich texts, one per row."""
    import pyte
    from rich.text import Text

    screen: Any = pyte.HistoryScreen(COLUMNS, 100, history=5_000, ratio=0.5)
    pyte.Stream(screen).feed(raw)
    rows = []
    for row in (
        *screen.history.top,
        *(screen.buffer[line] for line in range(screen.lines)),
    ):
        text = Text()
        for column in range(COLUMNS):
            cell = row[column]
            text.append(cell.data, _style(cell))
        text.rstrip()
        rows.append(text)
    return rows


def _style(cell: Any) -> str:
    words = [word for word in ("bold", "reverse") if getattr(cell, word)]
    if cell.fg != "default":
        words.append(
            {"brown": "yellow"}.get(cell.fg, cell.fg.replace("bright", "bright_"))
        )
    return " ".join(words)


def as_svg(rows: list[Any], shot: Shot) -> str:
    from rich.console import Console
    from rich.text import Text

    plain = [row.plain for row in rows]
    first = next(
        (
            place
            for place, line in enumerate(plain)
            if shot.start and shot.start in line
        ),
        0,
    )
    shown = rows[first:]
    if shot.end:
        shown = shown[
            : next(
                (at for at, row in enumerate(shown) if re.search(shot.end, row.plain)),
                len(shown),
            )
        ]
    while shown and not shown[-1].plain.strip():
        shown.pop()
    console = Console(
        file=io.StringIO(),
        record=True,
        width=COLUMNS,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
    )
    empty = 0
    for row in shown:
        empty = 0 if row.plain.strip() else empty + 1
        if empty < 2:
            console.print(
                steady(row) if isinstance(row, Text) else row,
                soft_wrap=True,
                highlight=False,
            )
    return console.export_svg(title=shot.title) + "\n"


def steady(row: Any) -> Any:
    """The row with "…" for every time and Python where it usually is; what stands at the right edge stays there.

    Whether a row of plain text reaches the edge depends on the times in it: only a wide gap inside it sets text there.
    """
    reaches_edge = len(row.plain) >= COLUMNS - 1
    for match in reversed(list(VARYING.finditer(row.plain))):
        word = "/usr/bin/python3" if match["path"] else "…"
        row = (
            row[: match.start()]
            + _like(row[match.end() - 1], word)
            + row[match.end() :]
        )
    gap = max(
        re.finditer(r"(?<=\S) {4,}", row.plain),
        key=lambda found: len(found[0]),
        default=None,
    )
    if reaches_edge and gap is not None:
        spaces = max(len(gap[0]) + COLUMNS - len(row.plain), 2)
        row = row[: gap.start()] + " " * spaces + row[gap.end() :]
    return row


def _like(character: Any, word: str) -> Any:
    """The word in the style of this character."""
    new = character.blank_copy("")
    new.append(word, style=character.spans[0].style if character.spans else "")
    return new


def words_of(svg: str) -> list[str]:
    """What stands in a picture, a line for each piece of text."""
    return [
        f"{html.unescape(text)}\n"
        for text in re.findall(r"<text [^>]*>([^<]+)</text>", svg)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"which: {', '.join(SHOTS)}; without one all",
    )
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    old: list[str] = []
    for name in options.names or SHOTS:
        path = FOLDER / f"{name}.svg"
        if not options.check:
            path.write_text(take(SHOTS[name]), "utf-8")
            continue
        kept = path.read_text("utf-8") if path.exists() else ""
        # Twice at most: on a busy machine a server may be slow to end, and is told of in other words.
        for _ in range(2):
            svg = take(SHOTS[name])
            if svg == kept:
                break
            sys.stderr.writelines(
                difflib.unified_diff(
                    words_of(kept), words_of(svg), "kept", "shown", n=0
                )
            )
        else:
            old.append(name)
    if old:
        print(
            f"old: {', '.join(old)}; python benchmarks/screenshots.py {' '.join(old)}",
            file=sys.stderr,
        )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
