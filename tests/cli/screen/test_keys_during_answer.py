"""What was typed before a question could be seen is no answer to it, whoever asks: us, a tool call, a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from tests.terminal.process import server_option
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"
CHANGES = server_option("writes", "small")


@pytest.mark.slow
def test_a_yes_typed_ahead_approves_no_call(tmp_path: Path, changing_model: str) -> None:
    with on_a_terminal(["-m", changing_model, *CHANGES], tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("push branch main to origin\ry\ry\r\r")
        screen.wait_for("push_branch wants to run")
        screen.wait_for(r"run it\? \[N\]")
        screen.type("\r")  # now it is an answer, and Enter alone is no
        screen.wait_for(r"\d requests? · in")
        screen.wait_for(PROMPT)
        assert "pushed main" not in screen.text
        screen.type("push branch main to origin\r")
        screen.wait_for(r"run it\? \[N\]")
        screen.type("y\r")
        screen.wait_for("pushed main to origin")
        screen.wait_for(r"\d requests? · in")
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_a_yes_typed_ahead_runs_no_command(tmp_path: Path) -> None:
    with on_a_terminal(["-m", "offline", *CHANGES], tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type("!touch made\ry\r")
        screen.wait_for("run it")
        screen.type("\r")
        screen.wait_for("not run")
        assert not (tmp_path / "made").exists()
        screen.type("!touch made\r")
        screen.wait_for("run it")
        screen.type("y\r")
        screen.wait_for("exit code 0")
        assert (tmp_path / "made").exists()
        screen.type("\x04")
        assert screen.exit_code() == 0


UNASKED = """
import json, pathlib, sys

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") == "question":
        pathlib.Path(sys.argv[1]).write_text(json.dumps(message["result"]))
    elif message.get("method") == "initialize":
        send({"id": message["id"], "result": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "eager", "version": "1"}}})
    elif message.get("method") == "tools/list":
        send({"id": message["id"], "result": {"tools": []}})
        send({"id": "question", "method": "elicitation/create", "params": {
            "message": "Delete everything?", "requestedSchema": {"type": "object", "properties": {}}}})
    elif "id" in message and "method" in message:
        send({"id": message["id"], "result": {}})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "action"), [("", "decline"), ("y", "accept")])
def test_a_server_that_asks_while_a_line_is_typed_waits_for_its_end(answer: str, action: str, tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text(UNASKED, "utf-8")
    answered = tmp_path / "answered.json"
    entry = {"command": sys.executable, "args": [str(tmp_path / "eager.py"), str(answered)], "elicitation": True}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"eager": entry}}), "utf-8")
    with on_a_terminal(["-m", "offline", "--config", "servers.json", "--trust-project"], tmp_path) as screen:
        screen.wait_for("server eager asks you something; it is shown after Enter")
        screen.type("/cost y\ry\r")  # a line that was begun, and its Enter: no answer, nor what follows
        screen.wait_for("Delete everything")
        screen.wait_for(r"answer it\? \[y\] yes  \[N\] no")
        screen.wait_until(lambda: "/cost takes nothing after it" in screen.text)
        assert not answered.exists()
        screen.type(f"{answer}\r")
        screen.wait_until(answered.exists)
        screen.wait_until(lambda: answered.read_text("utf-8"))
        screen.wait_for(PROMPT)
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert json.loads(answered.read_text("utf-8"))["action"] == action
