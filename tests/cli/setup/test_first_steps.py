"""The first chat without a key and a configuration: commands, shown once, and no keys but those of the prompt."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mcpagent.cli.common.options import Options
from mcpagent.cli.setup.first_steps import UserEnvironment, look_around, model_here, welcome
from tests.tables import each_row
from tests.terminal.warm import on_a_terminal


@pytest.fixture
def options(tmp_path: Path) -> Options:
    home = str(tmp_path / "home")
    return Options(environ={"MCPAGENT_HOME": home, "HOME": home}, folder=tmp_path)


def shown(around: UserEnvironment) -> str:
    return "\n".join(line.plain for line in welcome(around))


def test_each_line_is_a_command() -> None:
    assert "mcpagent keys set anthropic" in shown(UserEnvironment())
    assert "mcpagent demo" in shown(UserEnvironment())
    assert "/model" not in shown(UserEnvironment())
    assert "/import" not in shown(UserEnvironment())


def test_a_local_model_is_a_command_of_the_chat() -> None:
    text = shown(UserEnvironment(local_model="ollama:qwen3:8b"))
    assert "/model ollama:qwen3:8b" in text
    assert "answers with qwen3:8b, which runs here in Ollama" in text


def test_servers_of_another_program_are_counted_and_nothing_is_written(options: Options, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    entry = {"command": sys.executable, "args": ["x.py"]}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}), "utf-8")
    around = look_around(options, {"ollama": "https://example.com"})
    assert (around.servers, around.clients, around.local_model) == (1, "cursor", "")
    assert "shows 1 server of cursor" in shown(around)
    assert not (home / "config").exists()


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
    home = str(tmp_path / "home")
    options = Options(environ={"MCPAGENT_HOME": home, "HOME": home}, folder=tmp_path)
    around = look_around(options, {"ollama": NOBODY, prefix: f"http://{server}/v1"})
    assert around.local_model == f"{prefix}:qwen3:8b"
    assert f"/model {prefix}:qwen3:8b" in shown(around)
    monkeypatch.setattr(Models, "body", b"<html>")
    assert model_here({prefix: f"http://{server}/v1"}) == ""
    for elsewhere in ("http://192.0.2.1:11434/v1", "example.com", "http://127.0.0.1:99999/v1", NOBODY):
        assert model_here({prefix: elsewhere}) == ""


def test_ollama_is_where_its_variable_says(server: str, options: Options) -> None:
    here = replace(options, environ={**options.environ, "OLLAMA_HOST": server})
    assert look_around(here).local_model == "ollama:qwen3:8b"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_question_typed_at_once_is_a_question_and_the_commands_are_shown_once(tmp_path: Path) -> None:
    """Each letter of it was a key of a menu here: `Is` imported servers."""
    home = tmp_path / "home"
    (home / ".cursor").mkdir(parents=True)
    entry = {"command": sys.executable, "args": ["-c", "open('STARTED', 'w')"]}
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"files": entry}}), "utf-8")
    env = {"HOME": str(home), "OLLAMA_HOST": "127.0.0.1:1"}
    with on_a_terminal([], tmp_path, env=env) as screen:
        screen.type("Is 221 a prime number?\r")
        screen.wait_for(r"(?m)^>.*Is 221 a prime number\?")
        assert "/import" in screen.text
        screen.wait_for("13")
        screen.type("/import\r")
        screen.wait_for("/import yes imports them")
        assert not (home / "config" / "mcp.json").exists()
        screen.type("/import yes\r")
        screen.wait_for("they join at the next start")
        assert "files" in (home / "config" / "mcp.json").read_text("utf-8")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert not (tmp_path / "STARTED").exists()
    (home / "config" / "mcp.json").unlink()
    with on_a_terminal([], tmp_path, env=env) as screen:
        screen.wait_for(r"(?m)^>")
        screen.type("\x04")
        assert screen.exit_code() == 0
        assert "Nothing is configured yet" not in screen.text
