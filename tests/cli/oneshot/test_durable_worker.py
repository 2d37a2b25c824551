"""`mcpagent worker`, as a process: it does what others begin, and ends when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mcpagent import Agent, RunOptions, Sessions
from mcpagent.agents.durable import DurableRuns

SECONDS = 60.0


async def started(tmp_path: Path, *options: str) -> asyncio.subprocess.Process:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MCPAGENT_HOME": str(tmp_path / "home")}
    files = ["--database", str(tmp_path / "runs.db"), "--set", f"session_db={tmp_path / 'chats.db'}"]
    return await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "mcpagent", "worker", "-m", "offline", *files, *options],
        cwd=tmp_path,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.slow
async def test_a_worker_does_what_another_process_begins(tmp_path: Path) -> None:
    """That one has no tools: the answer is made with the demo server's, in the worker."""
    durable, store = DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "chats.db")
    async with asyncio.timeout(SECONDS):
        process = await started(tmp_path)
        assert process.stderr is not None
        while "working on the runs in" not in (line := (await process.stderr.readline()).decode()):
            assert line, "the worker has ended"
        agent = Agent("offline", sessions=store, options=RunOptions(wrappers=[durable]))
        async with agent, durable.serving(agent, works=False):
            run = await durable.start("What is 12 * 12?", session="ann")
            result = await run.result()
        assert "144" in result.answer
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert process.returncode == 143
    assert b"Traceback" not in errors
    assert "a run ended: answered" in errors.decode()
    kept = store.read("ann")
    assert kept.info.holder is None
    assert "144" in kept.messages[-1].text
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (["--set", "at_once=0"], "at_once", 2),
        (["--config", "nowhere.json"], "nowhere.json", 3),
    ],
)
async def test_what_is_wrong_is_one_line(tmp_path: Path, options: list[str], said: str, code: int) -> None:
    async with asyncio.timeout(SECONDS):
        process = await started(tmp_path, *options)
        output, errors = await process.communicate()
    assert process.returncode == code
    assert output == b""
    assert said in errors.decode()
    assert b"Traceback" not in errors
