"""A chat that opens the session of an unfinished durable run shows it, can end it, and never answers beside it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.models.base import ModelRequest
from tests.terminal.warm import on_a_terminal, run

SECONDS = 60.0
PROMPT = r"(?m)^>"
RESUMED = ["-m", "offline", "--resume", "ann"]


def lamps_left() -> int:
    """How many lamps are left."""
    return 12


async def worked_on(folder: Path, *, dies: bool) -> str:
    """The answer of the run, which a process that `dies` leaves when the call is done."""

    def reply(request: ModelRequest) -> Any:
        if not request.messages[-1].tool_results:
            return ToolCall("1", "lamps_left", {})
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "There are twelve lamps."

    store = Sessions(folder / "home" / "data" / "sessions.db")
    durable = DurableRuns(folder / "home" / "data" / "runs.db")
    agent = Agent(ScriptedModel([reply] * 4), tools=[lamps_left], sessions=store)
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        begun = await durable.start("How many lamps are there?", session="ann", run="the-run")
        answer = (await begun.result()).answer
    store.close()
    return answer


def _in_a_process(folder: Path) -> None:
    asyncio.run(worked_on(folder, dies=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home whose session "ann" has a run that its worker did not finish."""
    (tmp_path / "home" / "data").mkdir(parents=True)
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(tmp_path,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL
    return tmp_path


@pytest.mark.slow
def test_a_chat_shows_the_run_until_its_worker_has_ended_it(folder: Path) -> None:
    with on_a_terminal(RESUMED, folder) as screen:
        screen.wait_for(r"a worker answers here \(run the-run\)")
        screen.wait_for("> How many lamps are there?")
        screen.wait_for("lamps_left")
        assert asyncio.run(worked_on(folder, dies=False)) == "There are twelve lamps."
        screen.wait_for("There are twelve lamps.")
        screen.wait_for("the run ended: answered")
        screen.wait_for(PROMPT)
        screen.type("/history\r")  # of this very conversation
        screen.wait_for("How many lamps are there?")
        screen.type("\x04")
        assert screen.exit_code() == 0


def test_a_chat_ends_the_run_or_leaves_it(folder: Path) -> None:
    with on_a_terminal(RESUMED, folder) as screen:
        screen.wait_for("lamps_left")
        screen.type("\x03")
        screen.wait_for("end this run?")
        screen.type("n\r")
        screen.wait_for("the worker goes on with it; this is a new conversation")
        screen.wait_for(PROMPT)
        screen.type("/resume ann\r")
        screen.wait_for(r"a worker answers here \(run the-run\)")
        screen.type("\x03")
        screen.wait_for("end this run?")
        screen.type("y\r")
        screen.wait_for('the run cancelled: run "the-run" was cancelled')
        screen.wait_for("this question was not finished")
        screen.type("\x04")
        assert screen.exit_code() == 0
    with pytest.raises(Exception, match='run "the-run" was cancelled'):
        asyncio.run(worked_on(folder, dies=False))


@pytest.mark.slow
def test_a_single_question_in_that_session_is_an_error_of_one_line(folder: Path) -> None:
    done = run(["-m", "offline", "-p", "What else?", "--session", "ann"], folder)
    assert done.returncode != 0
    assert done.stdout == ""
    assert 'session "ann" belongs to durable run "the-run"; wait for its end' in done.stderr.splitlines()[-1]
