"""`mcpagent tools describe`: what it costs first, what is asked, what is kept, and that searches read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tables import each_row
from tests.terminal.process import server_option
from tests.terminal.warm import on_a_terminal, run

SMALL = server_option("good", "small")
FILE = Path("home") / "data" / "example-requests.json"


def test_nothing_is_asked_before_somebody_said_yes(tmp_path: Path, changing_model: str) -> None:
    done = run(["tools", "describe", "--again", "-m", changing_model, *SMALL], tmp_path)
    assert done.returncode == 1
    assert "4 tools: 1 request to " in done.stderr
    assert "tokens in and 320 out, price not known" in done.stderr
    assert "nothing was asked; --yes does it without a question" in done.stderr
    assert not (tmp_path / FILE).exists()


@pytest.mark.slow
def test_what_was_written_is_kept_and_searched(tmp_path: Path, changing_model: str) -> None:
    find = ["tools", "search", "--search-strategy", "bm25", *SMALL, "marvin"]
    assert run(find, tmp_path).returncode == 1
    done = run(["tools", "describe", "--again", "--yes", "-m", changing_model, *SMALL], tmp_path)
    assert done.returncode == 1, done.stderr  # the model left one out
    assert "requests for 3 tools in " in done.stdout
    assert "none were written for wait_seconds; run it again" in done.stderr
    assert len(json.loads((tmp_path / FILE).read_text("utf-8"))["examples"]) == 3
    found = run(find, tmp_path)
    assert found.returncode == 0
    assert "get_weather" in found.stdout
    again = run(["tools", "describe", "--json", "--yes", "-m", changing_model, *SMALL], tmp_path)
    assert json.loads(again.stdout) == {"tools": 1, "written": 0, "cost_usd": 0.0}
    assert "1 tool: 1 request" in again.stderr


@each_row(
    "arguments, line",
    [
        ((), "the offline stand-in cannot write; name a model, -m provider:model"),
        (("nowhere",), "no tools of nowhere; the servers are small"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: tuple[str, ...], line: str, tmp_path: Path) -> None:
    done = run(["tools", "describe", *arguments, "-m", "offline", *SMALL], tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_file_is_one_line_and_stays(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text("{", "utf-8")
    done = run(["tools", "search", *SMALL, "weather"], tmp_path)
    assert done.returncode == 2
    assert "example-requests.json: no file of example requests" in done.stderr
    assert path.read_text("utf-8") == "{"


@pytest.mark.slow
@pytest.mark.skipif("sys.platform == 'win32'", reason="needs a pseudo-terminal")
def test_somebody_at_a_terminal_is_asked(tmp_path: Path, changing_model: str) -> None:
    for answer, code in (("n", 1), ("y", 1)):
        with on_a_terminal(["tools", "describe", "--again", "-m", changing_model, *SMALL], tmp_path) as screen:
            screen.wait_for(r"ask it\? \[y\] yes  \[N\] no")
            screen.type(f"{answer}\r")
            screen.wait_for("nothing was asked" if answer == "n" else "requests for 3 tools")
            assert screen.exit_code() == code
