"""The first chat without a key and a configuration: one screen, one key each, asked once."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mcpagent.cli.frame.options import Options
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Terminal, make_console
from mcpagent.cli.setup.first_steps import Surroundings, look_around, model_here, offer
from tests.tables import each_row
from tests.terminal.warm import on_a_terminal


class Screen:
    def __init__(self, tmp_path: Path) -> None:
        self.written = io.StringIO()
        console = make_console(self.written, "never", {})
        self.terminal = Terminal(console, console, ASCII_GLYPHS)
        home = str(tmp_path / "home")
        self.options = Options(environ={"MCPAGENT_HOME": home, "HOME": home}, folder=tmp_path)

    def offer(self, around: Surroundings, keys: str, *lines: str) -> Options:
        pressed, typed = iter(keys), iter(lines)
        return offer(self.options, self.terminal, around, lambda: next(pressed), lambda _question: next(typed))

    @property
    def text(self) -> str:
        return self.written.getvalue()


@pytest.fixture
def screen(tmp_path: Path) -> Screen:
    return Screen(tmp_path)


def test_any_other_key_goes_on_as_it_is(screen: Screen) -> None:
    assert screen.offer(Surroundings(), "\r") == screen.options
    assert "[k] keep a key" in screen.text
    assert "[d] see tool search at work" in screen.text
    assert "[o]" not in screen.text
    assert "[i]" not in screen.text


def test_a_model_of_ollama_is_used_now_and_from_now_on(screen: Screen, tmp_path: Path) -> None:
    chosen = screen.offer(Surroundings(local_model="ollama:qwen3:8b"), "ox")
    assert chosen == replace(screen.options, model="ollama:qwen3:8b")
    assert (tmp_path / "home" / "config" / "config.toml").read_text("utf-8") == 'model = "ollama:qwen3:8b"\n'
    assert screen.text.count("[o]") == 1  # what is done is not offered again


def test_servers_of_another_program_are_taken_over(
    screen: Screen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".cursor").mkdir()
    entry = {"command": sys.executable, "args": ["x.py"]}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}), "utf-8")
    around = look_around(screen.options, {"ollama": "https://example.com"})
    assert (around.servers, around.clients, around.local_model) == (1, "cursor", "")
    screen.offer(around, "i\x1b")
    assert "[i] take over 1 server from cursor" in screen.text
    written = json.loads((home / "config" / "mcp.json").read_text("utf-8"))
    assert written["mcpServers"]["files"]["args"] == ["x.py"]
    assert "1 server added" in capsys.readouterr().err


def test_what_fails_is_one_line_and_the_rest_is_offered_again(screen: Screen) -> None:
    screen.offer(Surroundings(), "k\r", "not a provider!")
    assert "x " in screen.text
    assert screen.text.count("[d]") == 2
    screen.offer(Surroundings(), "k\r", "")  # an empty name changes nothing


class Models(BaseHTTPRequestHandler):
    body = b'{"object": "list", "data": [{"id": "text-embedding-1"}, {"id": "qwen3:8b"}, {"id": "other"}]}'

    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface's own
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


NOBODY = "http://127.0.0.1:1/v1"


@each_row("prefix", ["ollama", "llamacpp", "lmstudio", "vllm"])
def test_a_model_is_found_on_this_computer_only(
    prefix: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(tmp_path)
    around = look_around(screen.options, {"ollama": NOBODY, prefix: f"http://{server}/v1"})
    assert around.local_model == f"{prefix}:qwen3:8b"
    screen.offer(around, "x")
    assert "[o] use qwen3:8b, which runs here in" in screen.text
    monkeypatch.setattr(Models, "body", b"<html>")
    assert model_here({prefix: f"http://{server}/v1"}) == ""
    for elsewhere in ("http://192.0.2.1:11434/v1", "example.com", "http://127.0.0.1:99999/v1", NOBODY):
        assert model_here({prefix: elsewhere}) == ""


def test_ollama_is_where_its_variable_says(server: str, screen: Screen) -> None:
    options = replace(screen.options, environ={**screen.options.environ, "OLLAMA_HOST": server})
    assert look_around(options).local_model == "ollama:qwen3:8b"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_it_is_asked_once_and_one_key_skips_it(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "OLLAMA_HOST": "127.0.0.1:1"}
    with on_a_terminal([], tmp_path, env=env) as screen:
        screen.wait_for("any other key: chat with the built-in stand-in")
        screen.type(" ")
        screen.wait_for("/help")
        screen.wait_for(r"(?m)^>")
        screen.type("\x04")
        assert screen.exit_code() == 0
    with on_a_terminal([], tmp_path, env=env) as screen:
        screen.wait_for(r"(?m)^>")
        screen.type("\x04")
        assert screen.exit_code() == 0
        assert "nothing is configured yet" not in screen.text
