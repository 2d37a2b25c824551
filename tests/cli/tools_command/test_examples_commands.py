"""`mcpagent tools examples`: what it costs first, what is asked, what is kept, and that searches read it."""

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
    done = run(["tools", "examples", "suggest", "--replace", "-m", changing_model, *SMALL], tmp_path)
    assert done.returncode == 1
    assert "4 tools: 1 request to " in done.stderr
    assert "tokens in and 320 out, price not known" in done.stderr
    assert "nothing was asked; --yes does it without a question" in done.stderr
    assert not (tmp_path / FILE).exists()


@pytest.mark.slow
def test_what_was_written_is_kept_and_searched(tmp_path: Path, changing_model: str) -> None:
    find = ["tools", "search", "--set", "search_strategy=bm25", *SMALL, "marvin"]
    assert run(find, tmp_path).returncode == 1
    done = run(["tools", "examples", "suggest", "--replace", "--yes", "-m", changing_model, *SMALL], tmp_path)
    assert done.returncode == 1, done.stderr  # the model left one out
    assert "requests for 3 tools in " in done.stdout
    assert "none were written for wait_seconds; run it again" in done.stderr
    assert len(json.loads((tmp_path / FILE).read_text("utf-8"))["examples"]) == 3
    found = run(find, tmp_path)
    assert found.returncode == 0
    assert "get_weather" in found.stdout
    again = run(["tools", "examples", "suggest", "--json", "--yes", "-m", changing_model, *SMALL], tmp_path)
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
    done = run(["tools", "examples", "suggest", *arguments, "-m", "offline", *SMALL], tmp_path)
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
        with on_a_terminal(
            ["tools", "examples", "suggest", "--replace", "-m", changing_model, *SMALL], tmp_path
        ) as screen:
            screen.wait_for(r"ask it\? \[y\] yes  \[N\] no")
            screen.type(f"{answer}\r")
            screen.wait_for("nothing was asked" if answer == "n" else "requests for 3 tools")
            assert screen.exit_code() == code


def test_a_request_of_ones_own_is_listed_searched_and_removed(tmp_path: Path) -> None:
    request = "will I get wet"
    find = ["tools", "search", "--set", "search_strategy=bm25", *SMALL, "wet"]
    assert run(find, tmp_path).returncode == 1

    added = run(["tools", "examples", "add", "small.get_weather", request, *SMALL], tmp_path)
    assert (added.returncode, added.stdout.strip()) == (0, f"small.get_weather: {request}")
    assert "get_weather" in run(find, tmp_path).stdout
    listed = run(["tools", "examples", "list", "get_weather", "--json", *SMALL], tmp_path)
    rows = json.loads(listed.stdout)["examples"]
    assert {"tool": "small.get_weather", "source": "yours", "request": request} in rows

    other = run(["tools", "examples", "remove", "get_weather", "another request", *SMALL], tmp_path)
    assert (other.returncode, other.stdout.strip()) == (1, "removed 0 requests of small.get_weather")
    removed = run(["tools", "examples", "remove", "get_weather", request, *SMALL], tmp_path)
    assert (removed.returncode, removed.stdout.strip()) == (0, "removed 1 request of small.get_weather")
    assert run(find, tmp_path).returncode == 1


@each_row(
    "arguments, line",
    [
        (("add", "nothing", "do it"), 'no tool is called "nothing"; mcpagent tools list shows all'),
        (("add", "get_weather", "  "), "a request has 1 to 200 characters, not 0"),
        (("add", "get_weather", "x" * 201), "a request has 1 to 200 characters, not 201"),
        (("remove", "nothing"), 'no tool is called "nothing"'),
    ],
)
def test_a_request_that_cannot_be_kept_is_one_line(arguments: tuple[str, ...], line: str, tmp_path: Path) -> None:
    done = run(["tools", "examples", *arguments, *SMALL], tmp_path)
    assert done.returncode == 2
    assert line in done.stderr
    assert "Traceback" not in done.stderr
