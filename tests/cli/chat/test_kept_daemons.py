"""The question whether programs that a server started may outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from mcpagent.agents.agent import Agent
from mcpagent.cli.chat.kept_daemons import DaemonQuestions
from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.models.scripted import ScriptedModel
from tests.servers.leftovers import nothing_left, processes
from tests.tables import each_row

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what is left")

SERVER = Path(__file__).resolve().parents[2] / "servers" / "faulty_server.py"
STAYS = '"keeps_running": true is in mcp.json'


def configured(folder: Path, mode: str, **settings: bool) -> Options:
    """Write the file of one server; its daemon has the path of the log in its command."""
    entry = {"command": sys.executable, "args": [str(SERVER), mode, "--log", str(folder / "log")], **settings}
    (folder / "log").touch()
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"dev": entry}}, indent=2))
    return Options(folder=folder, environ={"HOME": str(folder)}, config=(folder / "mcp.json",))


async def asked(options: Options, *answers: str, closes: int = 1) -> tuple[list[str], list[str], int]:
    """Return the questions, the printed lines, and the number of daemons that a closed agent leaves."""
    typed, questions, lines = list(answers), list[str](), list[str]()

    async def choose(question: str) -> str:
        questions.append(question)
        return typed.pop(0)

    asking = DaemonQuestions(options, choose, lines.append)
    async with Agent(ScriptedModel([]), mcp_config=load_configuration(options).enabled) as agent:
        for close in range(closes):
            if close:
                await agent.mcp.restart("dev")
            await asking.before_close(agent.mcp, list(agent.mcp.configs))
    return questions, lines, await ended(options.folder)


async def ended(folder: Path) -> int:
    """End the daemons and return how many there were."""
    left = [pid for pid, text in processes(str(folder)).items() if f"# {folder}" in text]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


@each_row(
    "answers, stays, written",
    [([""], 0, False), (["n"], 0, False), (["what?", "Y"], 1, False), (["a"], 1, True), (["always"], 1, True)],
)
async def test_an_answer_holds_for_this_close_or_always(
    answers: list[str], stays: int, tmp_path: Path, *, written: bool
) -> None:
    folder = tmp_path / answers[0].strip("?") / "x"
    folder.mkdir(parents=True)
    options = configured(folder, "daemon-child")
    before = json.loads((folder / "mcp.json").read_text())
    async with nothing_left(str(folder)):
        questions, lines, left = await asked(options, *answers)
    assert questions == ["keep running? [y] yes  [a] always  [N] no: "] * len(answers)
    assert lines[0] == 'server "dev" started programs that would end with it:'
    assert f"# {folder}" in lines[1] or "time.sleep" in lines[1]
    assert left == stays
    after = json.loads((folder / "mcp.json").read_text())
    if written:
        assert STAYS in lines[-1]
        before["mcpServers"]["dev"]["keeps_running"] = True
    assert after == before


@each_row(
    "mode, settings, stays",
    [("ok", {}, 0), ("daemon-child", {"keeps_running": False}, 0), ("daemon-child", {"keepsRunning": True}, 1)],
)
async def test_nothing_is_asked_without_a_daemon_or_if_the_entry_says_it(
    mode: str, settings: dict[str, bool], stays: int, tmp_path: Path
) -> None:
    folder = tmp_path / f"{mode}-{len(settings)}-{stays}"
    folder.mkdir()
    async with nothing_left(str(folder)):
        questions, lines, left = await asked(configured(folder, mode, **settings))
    assert (questions, lines, left) == ([], [], stays)


@pytest.mark.slow
async def test_always_means_that_the_next_chat_does_not_ask(tmp_path: Path) -> None:
    options = configured(tmp_path, "daemon-child")
    async with nothing_left(str(tmp_path)):
        assert (await asked(options, "a"))[2] == 1
        assert await asked(options) == ([], [], 1)


@pytest.mark.slow
async def test_a_server_is_asked_about_once_in_a_chat(tmp_path: Path) -> None:
    options = configured(tmp_path, "daemon-child")
    async with nothing_left(str(tmp_path)):
        questions, _, left = await asked(options, "y", closes=2)
    assert (len(questions), left) == (1, 2)


@pytest.mark.slow
async def test_a_server_of_no_file_is_kept_this_time_only(tmp_path: Path) -> None:
    options = configured(tmp_path, "daemon-child")
    lines = list[str]()
    questions = DaemonQuestions(options, lambda _: asyncio.sleep(0, "a"), lines.append)
    async with nothing_left(str(tmp_path)):
        async with Agent(ScriptedModel([]), mcp_config=load_configuration(options).enabled) as agent:
            (tmp_path / "mcp.json").write_text("{}")
            await questions.before_close(agent.mcp, ["dev", "unknown"])
        assert await ended(tmp_path) == 1
    assert lines[-1].startswith('only this time: no server "dev"')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leave", "answer", "stays"), [("/exit\r", "y\r", 1), ("\x04", "\r", 0), ("/mcp off dev\r", "y\r", 1)]
)
async def test_a_chat_asks_before_it_ends(leave: str, answer: str, stays: int, tmp_path: Path) -> None:
    pytest.importorskip("pty", reason="pseudo-terminals are POSIX")
    from tests.terminal.warm import on_a_terminal

    configured(tmp_path, "daemon-child")
    with on_a_terminal(["-m", "offline", "--config", str(tmp_path / "mcp.json")], tmp_path) as screen:
        screen.wait_for("mcp 1 ok")
        screen.type(leave)
        screen.wait_for(r"keep running\?")
        screen.type(answer)
        if leave.startswith("/mcp"):
            screen.wait_for("dev is off")
            screen.type("/exit\r")
        assert screen.exit_code() == 0
    assert screen.text.count("started programs that would end with it") == 1
    assert await ended(tmp_path) == stays
