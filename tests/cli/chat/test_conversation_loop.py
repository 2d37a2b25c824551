"""The chat on a real pseudo-terminal, as a newcomer meets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from tests.tables import each_row
from tests.terminal.picture import Picture
from tests.terminal.process import server_option
from tests.terminal.small_model import small_model
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"
GOOD = ["-m", "offline", "--allow", "small.*", *server_option("good", "small")]


def test_a_newcomer_asks_looks_around_and_leaves(tmp_path: Path) -> None:
    with on_a_terminal([*GOOD, "--tool-search", "on"], tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.wait_for(r"tools 2/4.*mcp 1 ok")
        screen.type("/help\r")
        screen.wait_for(r"servers +/import \[yes\] +/mcp \[on\|off\|restart\|logs\|add\] \[NAME\]")
        screen.type("/help all\r")
        screen.wait_for(r"/context +what the last request carried")
        screen.type("what is the weather in Tokyo?\r")
        turn = screen.wait_for(r"\d requests .* \d calls")
        assert '⌕ search "' in turn
        assert "+ added get_weather" in turn
        assert "● small.get_weather  city=Tokyo" in turn
        assert "Tokyo: 18 degrees" in turn
        screen.wait_for(r"tools 3/4")
        screen.type("/tools weather\r")
        screen.wait_for(r"\+ get_weather +\d+  Get the current weather")
        screen.type("/context\r")
        screen.wait_for(r"context of request \d .*counted: ")
        screen.wait_for(r"tools loaded \(3\)")
        screen.type("/cost\r")
        screen.wait_for(r"\d requests in this conversation")
        screen.wait_for(r"tool definitions: about [\d.k]+ tokens")
        screen.type("/contxt\r")
        screen.wait_for(r"unknown command /contxt - did you mean /context\?")
        screen.type("/find wether\r")
        screen.wait_for(r"get_weather")
        screen.type("/mcp\r")
        screen.wait_for(r"small  4 tools")
        screen.type("/new\r")
        screen.wait_for(r"new conversation")
        screen.wait_for(r"tools 2/4")
        screen.type("/exit\r")
        assert screen.exit_code() == 0
    history = (tmp_path / "home" / "state" / "history").read_text("utf-8")
    assert "+what is the weather in Tokyo?" in history


@pytest.mark.slow
def test_a_limit_ends_the_turn_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with on_a_terminal([*GOOD, "--set", "max_seconds=2", "--set", "max_calls=1"], tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.wait_for(r"mcp 1 ok")
        screen.type("wait 30 seconds\r")
        said = screen.wait_for(r"stopped after 2\.\d seconds")
        assert "Traceback" not in said
        screen.wait_for(PROMPT)
        screen.type("thank you\r")
        screen.wait_for(r"\(Offline stand-in")
        screen.type("/exit\r")
        assert screen.exit_code() == 0


def test_esc_stops_the_turn_and_what_was_typed_is_back_in_the_line(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("wait 30 seconds\r")
        screen.wait_for(r"running wait_seconds")
        screen.type("/cont\x1b[Aext\r")  # an arrow key is no Esc
        screen.wait_for("next: /context")
        screen.type("\x1b")
        screen.wait_for("stopped; the conversation can go on", 10)
        shown = screen.wait_for(r"(?m)^> /context")  # back in the line, and not sent
        assert "context of request 1" not in shown
        screen.type("\r")
        screen.wait_for("context of request 1")
        screen.wait_for(PROMPT)
        screen.type("/exit\r")
        assert screen.exit_code() == 0


def test_the_words_of_an_answer_that_was_stopped_stay_in_the_history(tmp_path: Path) -> None:
    with small_model() as model, on_a_terminal(["-m", model, *server_option("good", "small")], tmp_path) as screen:
        screen.wait_for(r"mcp 1 ok")
        for key in ("\x1b", "\x03"):
            screen.type("talk endlessly\r")
            screen.wait_for("So far so good")
            screen.type(key)
            screen.wait_for("stopped; the conversation can go on")
        screen.type("/history\r")
        screen.wait_for(r"stopped  So far so good(?s:.*)stopped  So far so good")
        screen.type("/exit\r")
        assert screen.exit_code() == 0
        with on_a_terminal(["-c", "-m", model, *server_option("good", "small")], tmp_path) as again:
            again.wait_for("/continue|goes on")
            again.type("/history\r")
            again.wait_for(r"stopped  So far so good(?s:.*)stopped  So far so good")
            again.type("/exit\r")
            assert again.exit_code() == 0


def test_ctrl_c_stops_the_turn_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("wait 30 seconds\r")
        screen.wait_for(r"running wait_seconds")
        screen.type("\x03")
        screen.wait_for("stopped; the conversation can go on", 10)
        screen.wait_for(PROMPT)
        screen.type("/context\r")
        screen.wait_for("context of request 1")
        screen.wait_for(PROMPT)
        screen.type("half a line\x03")
        screen.type("\x03")
        screen.wait_for("Ctrl-C again quits")
        screen.type("\x03")
        assert screen.exit_code() == 130


def test_several_lines_are_one_question_and_ctrl_d_leaves(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("what is the weather\nin Tokyo\x1b\r?\r")
        screen.wait_for("Tokyo: 18 degrees")
        screen.wait_for(PROMPT)
        screen.type("\x04")
        assert screen.exit_code() == 0
    history = (tmp_path / "home" / "state" / "history").read_text("utf-8")
    assert "+what is the weather\n+in Tokyo\n+?" in history


@pytest.mark.slow
def test_what_is_typed_before_the_program_is_up_is_not_lost(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.type("what is the weather in Tokyo?\r/mc")
        screen.wait_for("Tokyo: 18 degrees")
        screen.wait_for(r"\d requests")
        screen.type("p\r")
        screen.wait_for("small  4 tools")
        screen.type("\x04")
        assert screen.exit_code() == 0


def test_broken_and_sleeping_servers_do_not_delay_the_prompt(tmp_path: Path) -> None:
    servers = [*server_option("dies"), *server_option("sleeps"), *server_option("good", "small")]
    with on_a_terminal(["-m", "offline", "--allow", "*", *servers], tmp_path) as screen:
        screen.wait_for(PROMPT, 15)  # the sleeping one sleeps for a minute
        block = screen.wait_for(r"do +export GITHUB_TOKEN", 15)
        assert "✗ dies: " in block
        assert "GITHUB_TOKEN is required" in block
        screen.wait_for(r"mcp 1 ok 1\.\. 1!")
        screen.type("what is the weather in Tokyo?\r")
        screen.wait_for(r"connecting sleeps · \d")
        screen.type("\x03")
        screen.wait_for("stopped", 10)
        screen.type("/mcp\r")
        screen.wait_for(r"\.\. sleeps +connecting")
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_what_a_tool_says_cannot_touch_the_terminal(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("/tool hostile_text\r")
        screen.wait_for(r"\[bold\]markup")
        screen.type("give me the hostile text\r")
        screen.wait_for(r"\d requests")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert "\x1b]0;title" not in screen.raw
    assert "\x1b[31mtext" not in screen.raw
    assert "\u202e" not in screen.raw


@pytest.mark.slow
@pytest.mark.parametrize(("variables", "columns"), [({"NO_COLOR": "1"}, 60), ({"TERM": "dumb"}, 60)])
def test_narrow_plain_and_dumb_terminals(variables: dict[str, str], columns: int, tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path, columns=columns, env=variables) as screen:
        screen.wait_for(PROMPT)
        screen.type("what is the weather in Tokyo?\r")
        turn = screen.wait_for(r"\d requests[^\n]*\n")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert set(re.findall(r"\x1b\[[0-9;]*m", screen.raw)) <= {"\x1b[0m"}
    if "TERM" in variables:
        assert "\x1b" not in screen.raw
    steps = turn[turn.index("●") :]
    assert "Tokyo: 18 degrees" in steps
    assert [line for line in steps.splitlines() if len(line) > columns] == []


@pytest.mark.slow
def test_ask_on_a_terminal_shows_steps_and_formatted_words(tmp_path: Path) -> None:
    with on_a_terminal([*GOOD, "what is the weather in Tokyo?"], tmp_path) as screen:
        assert screen.exit_code() == 0
    assert "● small.get_weather" in screen.text
    assert "Tokyo: 18 degrees" in screen.text
    picture = Picture(100)
    picture.feed(screen.raw)
    assert picture.text.count("18 degrees") == 1


@pytest.mark.slow
def test_without_key_and_configuration_the_chat_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "home" / "state").mkdir(parents=True)
    (tmp_path / "home" / "state" / "welcomed").touch()  # the first steps were offered before
    with on_a_terminal([], tmp_path) as screen:
        start = screen.wait_for(PROMPT)
        assert "mcpagent keys set anthropic" in start
        assert "mcpagent mcp add NAME" in start
        screen.type("\x04")
        assert screen.exit_code() == 0


def test_what_is_typed_while_it_works_comes_next_and_ctrl_c_ends_only_a_command(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("wait 2 seconds\r")
        screen.wait_for("running wait_seconds")
        screen.type("what is the weather in Oslo?\r/mc")
        turn = screen.wait_for("Oslo: 18 degrees")
        assert turn.index("small.wait_seconds") < turn.rindex("what is the weather in Oslo?")
        screen.wait_for(r"\d requests? · in")
        screen.type("p\r")
        screen.wait_for("small  4 tools")
        screen.type("!echo begun; sleep 100\r")
        screen.wait_for("run it")
        screen.type("y\r")
        screen.wait_for("begun")
        screen.type("\x03")
        screen.wait_for("stopped")
        screen.type("!echo again\r")
        screen.wait_for("run it")
        screen.type("m\r")
        screen.wait_for("your next question takes the output along")
        screen.type("/save told\r")
        screen.wait_for("saved as")
        screen.type("and what is the weather in Tokyo?\r")
        screen.wait_for(r"\d requests? · in")
        screen.type("/save told\r")
        screen.wait_for("saved as .*told-2.json")
        screen.type("\x04")
        assert screen.exit_code() == 0
    saved = (tmp_path / "home" / "data" / "exports" / "told-2.json").read_text("utf-8")
    assert "Output of `echo again` (exit code 0)" in saved


@each_row("goodbye", ["quit", "exit", " Bye "])
def test_a_goodbye_alone_leaves_and_a_file_that_is_not_there_is_told(goodbye: str, tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for(PROMPT)
        if goodbye == "quit":
            screen.type("@nofile.txt hello\r")
            screen.wait_for(r"no such file: @nofile\.txt; sent as typed")
            screen.wait_for(r"\d requests? · in")
        screen.type(f"{goodbye}\r")
        assert screen.exit_code() == 0


def test_the_first_line_names_the_files_if_they_fit(tmp_path: Path) -> None:
    name = "servers-of-everybody-who-works-here-and-elsewhere.json"
    (tmp_path / name).write_text('{"mcpServers": {}}', "utf-8")
    for columns, servers in ((60, "0 servers ·"), (250, f"0 servers from {name} ·")):
        with on_a_terminal(["-m", "offline", "--config", name], tmp_path, columns=columns) as screen:
            screen.wait_for(r"/help\s")
            assert f"offline   {servers}" in screen.text.splitlines()[0]
            screen.type("\x04")
            assert screen.exit_code() == 0
