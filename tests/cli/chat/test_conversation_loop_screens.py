"""The chat's screens as a terminal shows them: the kept ones, narrow, dumb, without Unicode, resized, pasted into."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")
pytest.importorskip("wordllama", reason="pip install -e '.[semantic]': the kept screens rank with word vectors")
pytest.importorskip("pyte", reason="pip install pyte: the screens are read by a terminal emulator")

from tests.speed import within
from tests.terminal.picture import Picture, assert_golden
from tests.terminal.process import Screen, server_option
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"
GOOD = ["-m", "offline", "--allow", "small.*", *server_option("good", "small")]


def picture(screen: Screen, columns: int, rows: int = 40) -> Picture:
    shown = Picture(columns, rows)
    shown.feed(screen.raw)
    return shown


def input_line(screen: Screen) -> str:
    """The last row that begins like the input line."""
    return next((line for line in reversed(picture(screen, 100).lines) if line.startswith(">")), "")


def asked(screen: Screen, question: str) -> None:
    screen.type(f"{question}\r")
    screen.wait_for(r"\d requests? · in [^\n]*|\d requests? - in [^\n]*")


def cut(text: str, start: str, end: str = "") -> str:
    """The part of the screen from the first line with `start` to the last that `end` matches.

    What comes after the output that a test waited for may be there already or not, so a test says where it ends.
    """
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if start in line)
    last = max(number for number, line in enumerate(lines) if re.match(end, line))
    return "\n".join(lines[first : last + 1]) + "\n"


def test_start_turn_context_and_why_look_like_this(tmp_path: Path) -> None:
    with on_a_terminal([*GOOD, "--tool-search", "on"], tmp_path, rows=100) as screen:
        screen.wait_for("connected in")
        asked(screen, "what is the weather in Tokyo?")
        for command, last in (
            ("/context", "largest tools"),
            ("/why get_weather", "called in request"),
            ("/why not fail_always", "offers it from the first request on"),
            ("/mcp", "1 server from"),
            ("/help", "says what each command does"),
        ):
            screen.type(f"{command}\r")
            screen.wait_for(last)
            screen.wait_for(r"ask")
        text = picture(screen, 100, 100).text
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert text.startswith("mcpagent ")
    # The line above it has the folder in it, and breaks where that is long.
    assert_golden("turn", cut(text, "small connected"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "variables"),
    [
        pytest.param("narrow", {}, marks=pytest.mark.slow),
        ("dumb", {"TERM": "dumb"}),
        pytest.param("ascii", {"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.slow),
    ],
)
def test_sixty_columns_dumb_terminals_and_ascii(name: str, variables: dict[str, str], tmp_path: Path) -> None:
    arguments = [*GOOD, "--tool-search", "on"]
    with on_a_terminal(arguments, tmp_path, columns=60, rows=80, env=variables) as screen:
        screen.wait_for("connected in")
        asked(screen, "what is the weather in Tokyo?")
        screen.type("/context\r")
        screen.wait_for("answered with")
        screen.wait_for(PROMPT)
        shown = picture(screen, 60, 80)
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert all(len(line) <= 60 for line in shown.lines)
    if name == "dumb":
        assert "\x1b" not in screen.raw
    if name == "ascii":
        assert re.sub(r"\x1b[^\x1b]*?[A-Za-z]", "", screen.raw).isascii()
    assert_golden(name, cut(shown.text, "small connected", end=">"), tmp_path)


@pytest.mark.slow
def test_a_failed_server_looks_like_this(tmp_path: Path) -> None:
    dies = {"command": "sh", "args": ["-c", "echo Traceback >&2; echo 'KeyError: CRM_TOKEN is required' >&2; exit 1"]}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"crm": dies}}, indent=1), "utf-8")
    with on_a_terminal(["-m", "offline", "--config", "servers.json", "--trust-project"], tmp_path) as screen:
        screen.wait_for("did not start 3 times")
        screen.wait_for("mcp 0 ok 1!|mcp 1!")
        shown = picture(screen, 100)
        screen.type("\x04")
        assert screen.exit_code() == 0
    block = cut(shown.text, "✗ crm")
    assert "KeyError: CRM_TOKEN is required" in block
    assert len([line for line in block.splitlines() if line.strip() and not line.startswith((">", " offline"))]) <= 7
    assert_golden("down", block, tmp_path)


@pytest.mark.slow
def test_a_call_that_needs_a_yes_looks_like_this(tmp_path: Path, changing_model: str) -> None:
    arguments = ["-m", changing_model, *server_option("writes", "small"), "--tool-search", "on"]
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for("connected in")
        screen.type("push the branch main to origin\r")
        screen.wait_for(r"run it\?")
        screen.type("y\r")
        screen.wait_for(r"\d requests? · in [^\n]*")
        shown = picture(screen, 100)
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert_golden("approval", cut(shown.text, "push the branch main to origin", end=r"  \d requests? · "), tmp_path)


@pytest.mark.slow
def test_only_sixteen_colours_are_used(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path, env={"COLORTERM": "truecolor", "TERM": "xterm-256color"}) as screen:
        screen.wait_for("mcp 1 ok")
        asked(screen, "what is the weather in Tokyo?")
        screen.type("\x04")
        assert screen.exit_code() == 0
    codes = {int(code) for found in re.findall(r"\x1b\[([\d;]*)m", screen.raw) for code in found.split(";") if code}
    assert codes
    assert not codes & {38, 48}  # 256 colours and true colour


@pytest.mark.slow
def test_the_window_may_change_while_a_turn_runs(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("wait 2 seconds\r")
        screen.wait_for("running wait_seconds")
        before = len(screen.raw)
        screen.resize(60)
        screen.wait_for(r"\d requests? · in")
        screen.wait_for(r"mcp 1 ok")
        shown = Picture(60)
        shown.feed(screen.raw[before:])
        screen.type("/tools\r")
        screen.wait_for("get_weather")
        screen.type("\x04")
        assert screen.exit_code() == 0
    [call] = [line for line in shown.lines if line.startswith("● small.wait_seconds")]
    assert len(call) <= 60
    assert any(line.startswith(" offline │ ctx") for line in shown.lines)


@pytest.mark.slow
def test_a_paste_of_ten_thousand_lines_is_sent_whole(tmp_path: Path) -> None:
    pasted = "\n".join(f"line {number} of what was pasted" for number in range(10_000))
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        before = screen.cpu_seconds()
        screen.type(f"\x1b[200~{pasted}\x1b[201~")
        screen.wait_for(r"\[paste 1: 10,000 lines\]")
        assert "of what was pasted" not in screen.text
        screen.type(" and the end")
        screen.wait_for("and the end")
        assert within(screen.cpu_seconds() - before, 20)
        screen.type("\r")
        screen.wait_for(r"\d requests? · in", 60)
        screen.type("/save pasted\r")
        screen.wait_for("saved as")
        screen.type("\x04")
        assert screen.exit_code() == 0
    saved = json.loads((tmp_path / "home" / "data" / "exports" / "pasted.json").read_text("utf-8"))
    [question] = [message for message in saved["messages"] if message["role"] == "user"][:1]
    assert question["parts"][0]["text"] == f"{pasted} and the end"


@pytest.mark.slow
def test_other_peoples_text_cannot_set_the_title_or_move_the_cursor(tmp_path: Path) -> None:
    arguments = ["-m", "offline", "--allow", "*", *server_option("offers", "small")]
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("see @small:note://today\r")
        screen.wait_for(r"\d requests? · in")
        asked(screen, "give me the hostile text")
        screen.type("\x14")  # Ctrl+T
        screen.wait_for("the last call")
        screen.type("/tool hostile_text\r")
        screen.wait_for("no parameters")
        screen.type("!printf '\\033]0;mine\\007\\033[2J'\r")
        screen.wait_for("run it")
        screen.type("y\r")
        screen.wait_for("exit code 0")
        shown = picture(screen, 100)
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert shown.title == ""
    assert "\x1b[31mtext" not in screen.raw
    assert "\u202e" not in screen.raw
    text = shown.text
    assert "title" not in text  # of a result nothing is left that would set one
    assert "]0;mine[2J" in text
    assert "see @small:note://today" in text


@pytest.mark.slow
def test_keys_edit_clear_complete_and_unfold(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "what is the weather in Oslo?" > "$1"\n')
    editor.chmod(0o700)
    with on_a_terminal(GOOD, tmp_path, env={"EDITOR": str(editor), "VISUAL": ""}) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("rubbish")
        screen.wait_until(lambda: input_line(screen) == "> rubbish")
        screen.type("\x1b")  # Esc; typed at once, the line might be cleared before it was ever drawn
        screen.wait_until(lambda: input_line(screen) == ">")
        screen.type("\x05")  # Ctrl+E
        screen.wait_for(r"Oslo\?")
        screen.type("\r")
        screen.wait_for("Oslo: 18 degrees")
        screen.wait_for(r"\d requests? · in")
        screen.type("\x14")
        screen.wait_for("small.get_weather  the last call, .* 16 characters")
        screen.wait_for('"city": "Oslo"')
        screen.type("/tool get_w")
        screen.wait_for("get_weather")  # the menu
        screen.type("\t")
        screen.wait_for("eather")
        screen.type("\r\r")  # takes it, sends it
        screen.wait_for("get_weather   server small")
        screen.type("\x12Oslo")  # Ctrl+R
        screen.wait_for("I-search backward: Oslo")
        screen.type("\r\r")
        screen.wait_for("Oslo: 18 degrees")
        screen.wait_for(r"\d requests? · in")
        screen.type("\x04")
        assert screen.exit_code() == 0
    history = (tmp_path / "home" / "state" / "history").read_text("utf-8")
    assert history.count("+what is the weather in Oslo?") >= 1
