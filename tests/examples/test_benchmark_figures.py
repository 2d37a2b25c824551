"""The figures of docs/benchmarks.md: page and file agree, commands exist, and a changed figure is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.all import PAGE, ROOT, Figure, blocks, differences, load, number, numbers, rendered, written

from tests.tables import each_row

TABLE = Figure(
    "example",
    "python benchmarks/search_github.py FILE",
    "52d50a6c",
    "2026-11-28",
    "two cores",
    [
        "| | found | p50 ms | p95 |",
        "| --- | --- | --- | --- |",
        "| ours | 31 of 40 | 1.50 | 3.00 |",
        "| bm25s | 16 | 0.50 | 0.80 |",
    ],
    ["p50 ms", "p95"],
)


def printed(*changes: tuple[str, str]) -> str:
    """Return the output of a run that prints the table after other lines, with changes."""
    output = "\n".join(["40 requests", *TABLE.lines])
    for stated, found in changes:
        output = output.replace(stated, found)
    return output


def test_page_and_file_agree() -> None:
    page = PAGE.read_text("utf-8")
    figures = load()
    assert blocks(page) == [figure.name for figure in figures]
    assert written(page, figures) == page


def test_a_changed_figure_changes_the_page() -> None:
    page = PAGE.read_text("utf-8")
    first, *others = load()
    wrong = replace(first, lines=[line.replace("0.86", "0.96") for line in first.lines])
    assert written(page, [wrong, *others]) != page


def test_each_figure_has_a_command_that_exists_a_commit_a_date_and_a_machine() -> None:
    for figure in load():
        assert figure.command.startswith("python "), figure.name
        assert figure.script.is_file(), figure.command
        assert figure.script.parent == ROOT / "benchmarks", figure.command
        assert len(figure.commit) == 8, figure.name
        assert figure.machine, figure.name
        assert figure.date[:4] in rendered(figure), figure.name


def test_the_lines_of_each_figure_are_as_themselves() -> None:
    for figure in load():
        assert differences(figure, "\n".join(figure.lines)) == [], figure.name


def test_a_number_that_becomes_twice_as_large_differs_in_each_figure() -> None:
    for figure in load():
        place, line = max((place, line) for place, line in enumerate(figure.lines) if numbers(line))
        _, stated = numbers(line)[-1]
        before, _, after = line.rpartition(stated)
        changed = [*figure.lines]
        changed[place] = f"{before}{2 * number(stated) + 9:.2f}{after}"
        assert differences(figure, "\n".join(changed)), figure.name


def test_a_row_is_compared_with_the_row_under_the_same_heading() -> None:
    two = replace(TABLE, lines=["first", *TABLE.lines, "second", *TABLE.lines], times=False)
    output = "\n".join(two.lines)
    assert differences(two, output) == []
    assert len(differences(two, output.replace("second", "third"))) == 2


@each_row(
    "changes, expected",
    [
        ((), 0),
        ((("31 of 40", "26 of 40"),), 0),
        ((("31 of 40", "20 of 40"),), 1),
        ((("16", "30"),), 1),
        ((("| bm25s | 16", "| bm25s | none"),), 1),
        ((("0.50", "0.51"),), 0),
        ((("| 1.50 | 3.00", "| 3.10 | 6.20"), ("0.50", "1.00"), ("0.80", "1.60")), 0),
        ((("0.50", "1.00"),), 1),
    ],
)
def test_a_number_that_differs_by_over_thirty_per_cent_is_reported(
    changes: Sequence[tuple[str, str]], expected: int
) -> None:
    assert len(differences(TABLE, printed(*changes))) == expected


def test_figures_in_the_readme_are_on_the_page() -> None:
    """Each number of README's table is one of a figure of the same command, perhaps with fewer digits."""
    section = (ROOT / "README.md").read_text("utf-8").partition("## Beside others")[2].partition("\n## ")[0]
    rows = [row.strip("|").split("|") for row in section.splitlines() if row.startswith("|")][2:]
    assert len(rows) > 5
    script = ""
    for _, ours, peers, command in rows:
        script = next((word for word in command.strip(" `").split() if word.startswith("benchmarks")), script)
        path = ROOT / (script.removesuffix(".py").replace(".", "/") + ".py")
        printed = [
            text for figure in load() if figure.script == path for line in figure.lines for _, text in numbers(line)
        ]
        for _, stated in [*numbers(ours), *numbers(peers)]:
            whole = f"0{stated}" if stated.startswith(".") else stated
            assert any(text.startswith(whole) for text in printed), f"{stated} of {script}"
