"""Servers that change between two chats, that are required and fail, and what the line under the prompt tells."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from mcpagent.cli.chat.status_line import Status, status_line
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.models.endpoints.endpoint import context_window
from tests.terminal.picture import Picture
from tests.terminal.process import SMALL_SERVER, Screen, server_option
from tests.terminal.warm import on_a_terminal


@pytest.mark.slow
def test_a_tool_that_its_server_changed_is_called_only_after_a_yes(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SMALL_SERVER.read_text("utf-8"), "utf-8")
    arguments = ["-m", "offline", "--allow", "*", "--server", f"small='{sys.executable}' '{server}' good"]

    def ask(*answers: str) -> str:
        with on_a_terminal(arguments, tmp_path) as screen:
            screen.wait_for("mcp 1 ok")
            screen.type("what is the weather in Tokyo?\r")
            for answer in answers:
                screen.wait_for(r"call it as it is now\? \[y\] yes, always  \[N\] no")
                screen.type(f"{answer}\r")
                if answer not in ("y", "n"):
                    screen.wait_for(f"'{answer}' is no answer here")
            screen.wait_for(r"\d requests? · in")
            if "n" in answers:
                for command in ("/why small.get_weather", "/allow small.get_weather"):
                    screen.type(f"{command}\r")
                    screen.wait_for("you declined it")
            screen.type("\x04")
            assert screen.exit_code() == 0
        return screen.text

    assert "Tokyo: 18 degrees" in ask()
    server.write_text(server.read_text("utf-8").replace("Get the current weather", "Tell the weather"), "utf-8")
    assert "Tokyo: 18 degrees" not in ask("yse", "n")
    assert "Tokyo: 18 degrees" in ask("y")
    assert "Tokyo: 18 degrees" in ask()


@pytest.mark.slow
def test_a_required_server_that_fails_ends_the_chat(tmp_path: Path) -> None:
    servers = {"dies": {"command": sys.executable, "args": [str(SMALL_SERVER), "dies"], "required": True}}
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    with on_a_terminal(["-m", "offline", "--config", str(path), "--trust-project"], tmp_path) as screen:
        assert screen.exit_code() == 5
    assert "GITHUB_TOKEN is required" in screen.text
    assert "Traceback" not in screen.text


def shown(screen: Screen) -> str:
    """What the terminal shows: only what has changed of a line is written."""
    picture = Picture(100)
    picture.feed(screen.raw)
    return picture.text


@pytest.mark.slow
def test_the_line_under_the_prompt_can_be_the_users_own(tmp_path: Path) -> None:
    pytest.importorskip("pyte", reason="pip install pyte: the screen is read by a terminal emulator")
    script = tmp_path / "line.py"
    script.write_text("import json, sys\nprint('tools:', json.load(sys.stdin)['tools']['known'], '\\033[2J')\n")
    arguments = [
        "-m",
        "offline",
        *server_option("good", "small"),
        "--set",
        f"status_line='{sys.executable}' '{script}'",
    ]
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_until(lambda: "\n tools: 4 " in shown(screen))
        screen.type("\x04")
        assert screen.exit_code() == 0


def test_the_context_is_shown_as_a_share_where_the_window_is_known() -> None:
    window = context_window("anthropic", "claude-sonnet-4-5")
    assert window is not None
    assert window >= 200_000
    assert context_window("openai-chat", "gpt-5") is not None
    assert context_window("ollama", "qwen3") is None
    assert context_window("anthropic", "claude-nobody-0") is None
    known = Status("anthropic:claude-sonnet-4-5", used=window // 20)
    assert " │ ctx 5% " in status_line(known, Glyphs(), 100)
    assert " │ ctx 10.2k │ " in status_line(Status("ollama:qwen3", used=10_200), Glyphs(), 100)
