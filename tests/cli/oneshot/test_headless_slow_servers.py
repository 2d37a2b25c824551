"""A server that takes its time, met with `mcpagent -p`, in the chat and by doctor: the first answer is true."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from mcpagent.cli.app import run as run_command_line
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console
from mcpagent.config import ServersConfig, load_servers
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.values.events import Event
from tests.scenes import call, results
from tests.servers.gates import Gate
from tests.terminal.process import SMALL_SERVER
from tests.terminal.warm import on_a_terminal

PROMPT = r"(?m)^>"
SEARCH = call("search_tools", query="weather in a city")
LINE = "- slow, still connecting: you are told when its tools can be used"


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as gate:
        yield gate


def slow(gate: Gate) -> str:
    """For `--server`."""
    server = gate.server(str(SMALL_SERVER), "good")
    return f"slow={shlex.join([server['command'], *server['args']])}"


def one_shot(gate: Gate, folder: Path, model: ScriptedModel, seconds: float) -> tuple[ExitCode, str]:
    """Exit code and what stood on stderr."""
    err = io.StringIO()
    terminal = Terminal(make_console(io.StringIO(), "auto", {}), make_console(err, "auto", {}), Glyphs())
    options = Options(
        server=(slow(gate),),
        environ={"MCPAGENT_HOME": str(folder), "PATH": os.environ["PATH"]},
        folder=folder,
        tool_search="on",
        allow=("slow.*",),
        server_wait=seconds,
    )
    return ask_once(options, "How is the weather?", terminal, model=model), err.getvalue()


def test_one_question_waits_for_a_slow_server_and_uses_its_tool(
    gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opening = Thread(target=gate.open_at_the_first, daemon=True)
    opening.start()
    model = ScriptedModel(
        [SEARCH, call("add_tool", tool_names=["get_weather"]), call("get_weather", city="Rome"), "18 degrees"]
    )
    code, err = one_shot(gate, tmp_path, model, 60)
    assert (code, capsys.readouterr().out, err) == (ExitCode.OK, "18 degrees\n", "")
    assert "connecting" not in model.requests[0].system
    assert results(model.requests[-1].messages)[-1].text == "Rome: 18 degrees"


def test_one_question_that_cannot_wait_so_long_says_so(
    gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([SEARCH, "slow is still connecting"])
    code, err = one_shot(gate, tmp_path, model, 0.3)
    assert (code, capsys.readouterr().out) == (ExitCode.WITHOUT_SERVER, "slow is still connecting\n")
    assert err.splitlines() == ['! server "slow" is still connecting; this question is answered without its tools']
    assert LINE in model.requests[0].system
    (found,) = results(model.requests[1].messages)
    assert "Not searched yet: slow (it is still connecting)." in json.loads(found.text)["message"]


async def test_what_was_waited_for_at_the_start_is_not_waited_for_again(gate: Gate) -> None:
    """The start of a single question is part of it."""
    (config,) = load_servers({"mcpServers": {"slow": gate.server(str(SMALL_SERVER), "good")}}).servers
    events: list[Event] = []
    reports: list[tuple[str, ...]] = []
    servers = McpServers(ServersConfig((config,)), (config,), ServerOptions(), emit=events.append)
    try:
        await servers.open(0.2)
        servers.has_waited(0.2)
        assert servers.connecting == ("slow",)
        assert await servers.settle(0.2, reports.append) == 0
        assert reports == []
        assert await servers.settle(0.3, reports.append) > 0  # that has waited less than this question may
        assert await servers.settle(0.3, reports.append, spent=0.3) == 0
        assert reports == [("slow",)]
    finally:
        await servers.close()


def test_doctor_says_connecting_as_a_chat_does(
    gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    arguments = ["doctor", "-m", "offline", "--server", slow(gate), "--set", "server_wait=0.3"]
    assert run_command_line(arguments) == ExitCode.SERVERS
    out = capsys.readouterr().out
    assert re.search(r"    initialize  \.\. .* it is still connecting\n", out)
    assert "do          --set server_wait=30 waits as long as it may take" in out
    assert "0 of 1 usable" in out
    assert run_command_line([*arguments, "--json"]) == ExitCode.SERVERS
    found = json.loads(capsys.readouterr().out)["servers"]["slow"]
    assert (found["state"], found["reason"]) == ("connecting", "it is still connecting")
    gate.open()
    assert run_command_line([*arguments[:-1], "server_wait=60", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["servers"]["slow"]["state"] == "ready"


def test_the_chat_waits_for_its_first_question(gate: Gate, tmp_path: Path) -> None:
    arguments = ["-m", "offline", "--allow", "slow.*", "--tool-search", "on", "--server", slow(gate)]
    with on_a_terminal([*arguments, "--set", "server_wait=60"], tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.wait_for(r"mcp 1\.\.")
        screen.type("what is the weather in Tokyo?\r")
        screen.wait_for(r"connecting slow · \d")
        gate.open()
        turn = screen.wait_for(r"\d requests .* \d calls")
        assert "Tokyo: 18 degrees" in turn
        assert "still connecting" not in turn
        screen.wait_for(r"mcp 1 ok")
        screen.type("\x04")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_the_chat_says_what_it_did_not_wait_for_and_does_not_wait_again(gate: Gate, tmp_path: Path) -> None:
    arguments = ["-m", "offline", "--allow", "slow.*", "--tool-search", "on", "--server", slow(gate)]
    with on_a_terminal([*arguments, "--set", "server_wait=1"], tmp_path) as screen:
        screen.wait_for(PROMPT)
        screen.type("what is the weather in Tokyo?\r")
        screen.wait_for('server "slow" is still connecting; this question is answered without its tools')
        screen.wait_for("not searched, still connecting: slow")
        screen.wait_for(PROMPT)
        screen.type("/mcp\r")
        screen.wait_for(r"\.\. slow +connecting")
        screen.type("/why get_weather\r")
        screen.wait_for(r"not searched: slow \(it is still connecting\)")
        screen.type("what is the weather in Paris?\r")
        turn = screen.wait_for('server "slow" is still connecting; this question is answered without its tools')
        assert "connecting slow ·" not in turn  # the line that moves while a question waits
        screen.wait_for(PROMPT)
        gate.open()
        screen.wait_for(r"mcp 1 ok")
        screen.type("what is the weather in Rome?\r")
        screen.wait_for("Rome: 18 degrees")
        screen.type("\x04")
        assert screen.exit_code() == 0
