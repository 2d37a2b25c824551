"""Run the commands behind the figures of docs/benchmarks.md, and fail if one differs from the page by over 30 %.

    python benchmarks/all.py [--only NAME ...] [--data NAME=PATH[,PATH...] ...] [--record MACHINE]
    python benchmarks/all.py --list | --write

`benchmarks/figures.json` has each figure: the command, the commit, date and machine of its last run, and the lines of
the output that the page shows. A word in capitals in a command is data that you pass with `--data`, for example
`--data CATALOGUES=catalogs FOLDERS=livemcp,metatool`. A command whose data is missing counts as a failure.

A line of the page is looked up in the output by its heading and its text without numbers. Their numbers are compared
as ratios; one unit of the last printed digit is always accepted. Times of a figure (`"times"`: true, or the names of
columns) are first divided by the median ratio of the run, so that a slower machine passes and a slower row does not. A
figure with `"not_compared"` is not run: the page shows the output in another form, for the reason given there.

`--list` prints the commands. `--record MACHINE` writes the printed lines, the commit and the date into the file and the
page, for each figure whose lines were all printed. `--write` writes the page from the file.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "benchmarks" / "figures.json"
PAGE = ROOT / "docs" / "benchmarks.md"
MOST = 1.3
"""The largest accepted ratio of a printed number and the page's, in either direction."""

_LEAST_TIMES = 3
"""With fewer times in a figure there is no median to speak of: they are compared as other numbers are."""

_HOURS = 4
_VERSION = re.compile(r"\b\d+\.\d+\.\d+\b")
_NUMBER = re.compile(r"(?<![\w@.-])(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)")
_DATA = re.compile(r"^[A-Z]{3,}$")
_RULE = re.compile(r"^\|[\s|-]+$")
_BLOCK = re.compile(
    r"(?<=^<!-- figure )([\w-]+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One block of docs/benchmarks.md: the command, its last run, and the lines of the output that the page shows."""

    name: str
    command: str
    commit: str
    date: str
    machine: str
    lines: Sequence[str]
    times: bool | Sequence[str] = False
    not_compared: str = ""

    @property
    def data(self) -> list[str]:
        """The names of data that the command needs."""
        return [word for word in shlex.split(self.command) if _DATA.match(word)]

    @property
    def script(self) -> Path:
        """The file that the command runs."""
        words = shlex.split(self.command)
        if words[1] == "-m":
            return ROOT / (words[2].replace(".", "/") + ".py")
        return ROOT / words[1]


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of the page and the number that was printed in its place."""

    line: str
    stated: str
    printed: str
    is_time: bool

    @property
    def ratio(self) -> float:
        """The printed number divided by the stated one; 0 if either is 0."""
        stated, printed = number(self.stated), number(self.printed)
        return printed / stated if stated else 0.0

    def differs(self, speed: float) -> bool:
        """Return whether the ratio is over the limit; `speed` is the median ratio of the figure's times."""
        stated, printed = number(self.stated), number(self.printed)
        if self.is_time:
            printed /= speed
        _, _, decimals = self.stated.partition(".")
        if abs(printed - stated) <= 1.001 * 10 ** -len(decimals):
            return False
        low, high = sorted((stated, printed))
        return low <= 0 or high / low > MOST


def load() -> list[Figure]:
    """Return the figures of the file, in the order of the page."""
    return [Figure(**row) for row in json.loads(FILE.read_text("utf-8"))]


def save(figures: Sequence[Figure]) -> None:
    rows = [
        {key: value for key, value in asdict(figure).items() if value}
        for figure in figures
    ]
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")


def number(text: str) -> float:
    return float(text.replace(",", ""))


def shape(line: str) -> str:
    """Return the line without its numbers, versions and spacing: the key by which lines are matched."""
    plain = _NUMBER.sub("#", _VERSION.sub("VERSION", line))
    return " ".join(plain.replace("|", " | ").split())


def cells(line: str) -> list[str]:
    """Return the cells of a row: of a Markdown table, or of a text with columns two spaces apart."""
    if line.startswith("|"):
        return line.strip().strip("|").split("|")
    return re.split(r"\s{2,}", line.strip())


def numbers(line: str) -> list[tuple[int, str]]:
    """Return the numbers of the line, each with the position of its cell."""
    return [
        (place, found)
        for place, cell in enumerate(cells(line))
        for found in _NUMBER.findall(_VERSION.sub("VERSION", cell))
    ]


def headers(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the names of the columns for each line: those of its table, or the first line of a text."""
    names = [cell.strip() for cell in cells(lines[0])]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if is_table_header(line, after):
            names = [cell.strip() for cell in cells(line)]
        yield names


def is_table_header(line: str, after: str) -> bool:
    return line.startswith("|") and bool(_RULE.match(after))


def headings(lines: Sequence[str]) -> set[str]:
    """Return the shapes of the lines that begin a part of the output: headers of tables, and lines without numbers."""
    found: set[str] = set()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        is_text = bool(line.strip()) and not line.startswith("|")
        if is_table_header(line, after) or (is_text and not _NUMBER.search(line)):
            found.add(shape(line))
    return found


def keys(
    lines: Iterable[str], parts: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the key of each line: the text and the table header above it, if they begin a part, and its shape."""
    text = header = ""
    for line in lines:
        form = shape(line)
        if form in parts and line.startswith("|"):
            header = form
        elif form in parts:
            text, header = form, ""
        yield text, header, form


def printed_lines(figure: Figure, output: str) -> list[str | None]:
    """Return the printed line for each line of the figure, None for those that are not in the output."""
    parts = headings(figure.lines)
    printed = [line.rstrip() for line in output.splitlines()]
    by_key: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for key, line in zip(keys(printed, parts), printed, strict=True):
        by_key[key].append(line)
    return [
        by_key[key].pop(0) if by_key[key] else None for key in keys(figure.lines, parts)
    ]


def is_time(figure: Figure, names: Sequence[str], place: int) -> bool:
    if isinstance(figure.times, bool):
        return figure.times
    return place < len(names) and names[place] in figure.times


def differences(figure: Figure, output: str) -> list[str]:
    """Return one line for each number that differs too much, and for each line that was not printed."""
    wrong: list[str] = []
    pairs: list[Compared] = []
    rows = zip(
        figure.lines,
        printed_lines(figure, output),
        headers(figure.lines),
        strict=True,
    )
    for line, printed, names in rows:
        if not _NUMBER.search(line):
            continue
        if printed is None:
            wrong.append(f"not printed: {line}")
            continue
        for (place, stated), (_, found) in zip(
            numbers(line), numbers(printed), strict=True
        ):
            pairs.append(Compared(line, stated, found, is_time(figure, names, place)))
    ratios = [pair.ratio for pair in pairs if pair.is_time and pair.ratio]
    speed = statistics.median(ratios) if len(ratios) >= _LEAST_TIMES else 1.0
    wrong += [
        f"printed {pair.printed} for {pair.stated}: {pair.line}"
        for pair in pairs
        if pair.differs(speed)
    ]
    return wrong


def rendered(figure: Figure) -> str:
    """Return the block of the page: the command with its last run, and the lines."""
    day = datetime.fromisoformat(figure.date)
    about = f"`{figure.command}`, {day.day} {day:%B %Y}, commit {figure.commit}, {figure.machine}"
    text = "\n".join(figure.lines)
    if not any(_RULE.match(line) for line in figure.lines):
        text = f"```text\n{text}\n```"
    return f"{about}\n\n{text}\n"


def written(page: str, figures: Sequence[Figure]) -> str:
    """Return the page with the blocks of all figures written from the file."""
    by_name = {figure.name: figure for figure in figures}
    return _BLOCK.sub(
        lambda found: found[1] + found[2] + "\n" + rendered(by_name[found[1]]) + "\n",
        page,
    )


def blocks(page: str) -> list[str]:
    """Return the names of the figures on the page."""
    return [found[1] for found in _BLOCK.finditer(page)]


def run(figure: Figure, data: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Run the command; return its output, and why it failed if it did."""
    _, *words = shlex.split(figure.command)
    arguments = [part for word in words for part in data.get(word, [word])]
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_HOURS * 3600,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"the command took over {_HOURS} hours"
    failure = (
        f"the command ended with exit code {done.returncode}" if done.returncode else ""
    )
    return done.stdout, failure


def recorded(figure: Figure, output: str, machine: str) -> Figure:
    """Return the figure with the printed lines, and with the commit and date of this run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    lines = [
        line if printed is None else printed
        for line, printed in zip(
            figure.lines, printed_lines(figure, output), strict=True
        )
    ]
    today = datetime.now(UTC).date().isoformat()
    return replace(figure, lines=lines, commit=commit, date=today, machine=machine)


def compare(
    figures: Sequence[Figure], data: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Figure, str, list[str]]]:
    """Yield each figure with the output of its command and the problems; a command of several figures runs once."""
    outputs: dict[str, tuple[str, str]] = {}
    for figure in figures:
        missing = [name for name in figure.data if name not in data]
        if missing:
            yield (
                figure,
                "",
                [f"needs --data {' '.join(f'{name}=PATH' for name in missing)}"],
            )
            continue
        if figure.command not in outputs:
            outputs[figure.command] = run(figure, data)
        output, failure = outputs[figure.command]
        wrong = [failure] if failure else []
        yield figure, output, [*wrong, *differences(figure, output)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    figures = load()
    names = [figure.name for figure in figures]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--data", nargs="+", default=[], metavar="NAME=PATH[,PATH...]")
    parser.add_argument("--record", metavar="MACHINE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{figure.name:18} {figure.command}" for figure in figures))
        return 0
    if options.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), figures), "utf-8")
        return 0
    data = {
        name: paths.split(",")
        for name, _, paths in (text.partition("=") for text in options.data)
    }
    chosen = [figure for figure in figures if figure.name in options.only]
    for figure in chosen:
        if figure.not_compared:
            print(f"{figure.name}: not compared: {figure.not_compared}")
    failed = 0
    by_name = {figure.name: figure for figure in figures}
    started = time.monotonic()
    for figure, output, wrong in compare(
        [one for one in chosen if not one.not_compared], data
    ):
        seconds, started = time.monotonic() - started, time.monotonic()
        print(
            f"{figure.name}: {'differs' if wrong else 'as on the page'}, {seconds:.0f} s",
            flush=True,
        )
        print("".join(f"  {line}\n" for line in wrong), end="", flush=True)
        failed += bool(wrong)
        if options.record and None not in printed_lines(figure, output):
            by_name[figure.name] = recorded(figure, output, options.record)
    if options.record:
        save(list(by_name.values()))
        PAGE.write_text(written(PAGE.read_text("utf-8"), load()), "utf-8")
    print(f"{failed} of {len(chosen)} figures differ")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
