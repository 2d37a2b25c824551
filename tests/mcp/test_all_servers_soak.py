"""Twenty sessions go on asking while one fault follows another: every run ends, nothing grows, nothing is left.

MCPAGENT_SOAK_SECONDS=600 makes it the long form: that long, a fault every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from mcpagent import Agent, Message, RunOptions, ServerOptions, Text, ToolCall, ToolResult, Usage
from mcpagent.config import ServerConfig
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.values.events import Emit
from tests.servers.leftovers import nothing_left, open_files, processes

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"
SECONDS = float(os.environ.get("MCPAGENT_SOAK_SECONDS", "0"))
FAULTS = int(SECONDS) or 48
SESSIONS = 20
SERVERS = 8
MOST_SECONDS = 60.0
"""For one run, however many faults it meets on a busy machine."""

KINDS = (
    *("kill-on-call", "truncated-json", "exit-on-call", "flood-notifications", "invalid-utf8", "kill from outside"),
    *("stop-on-call", "result-array", "run cancelled", "segv-on-call", "flood-requests", "wrong-id", "close-stdout"),
    *("huge-int", "hang-on-call", "kill-mid-line", "list-changed-storm", "garbage-then-answer", "model fails"),
    *("exit-after-answer", "deep-json", "no-result", "progress-forever", "half-line"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(180 + SECONDS * 1.5),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see what is left"),
]


class Obedient:
    """A model that calls the tool which its prompt names in JSON, and then says how that ended."""

    name = "obedient:test"

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        last = request.messages[-1].parts[-1]
        if isinstance(last, ToolResult):
            said = Text(last.error or "ok")
            return ModelResponse(Message("assistant", (said,)), Usage(requests=1), "end")
        assert isinstance(last, Text)
        wanted = json.loads(last.text)
        if wanted["tool"] == "":
            raise RuntimeError("no model")
        call = ToolCall("call", wanted["tool"], {"text": wanted["text"]})
        return ModelResponse(Message("assistant", (call,)), Usage(requests=1), "tool_calls")

    async def aclose(self) -> None:
        """Holds nothing."""


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def prompt(tool: str, text: str) -> str:
    return json.dumps({"tool": tool, "text": text})


async def asked(agent: Agent, tool: str, text: str) -> str:
    """How one run of a new session ends."""
    async with asyncio.timeout(MOST_SECONDS):
        return await agent.session().ask(prompt(tool, text))


async def one_fault(agent: Agent, kind: str, server: int, ends: Counter[str]) -> None:
    echo, trouble = f"s{server}_echo", f"s{server}_trouble"
    if kind == "kill from outside":
        found = [pid for pid, text in processes().items() if f"mark-{server} " in text and "faulty_server" in text]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    elif kind == "run cancelled":
        run = asyncio.create_task(asked(agent, trouble, "hang-on-call"))
        await asyncio.wait({run}, timeout=0.1)
        run.cancel()
        await asyncio.wait({run}, timeout=MOST_SECONDS)
        assert run.cancelled()
    elif kind == "model fails":
        with pytest.raises(Exception, match="no model"):
            await asked(agent, "", "")
    else:
        ends[f"{kind}: {await asked(agent, trouble, kind)}"] += 1
    ends[f"echo: {await asked(agent, echo, kind)}"] += 1


async def test_twenty_sessions_and_a_fault_after_the_other(tmp_path: Path) -> None:
    servers = [
        ServerConfig(
            name=f"s{number}",
            command=sys.executable,
            args=(str(SERVER), "any", "--log", str(tmp_path / f"mark-{number} ")),
            timeout_seconds=1.0,
            total_timeout_seconds=3.0,
            shutdown_seconds=1.0,
        )
        for number in range(SERVERS)
    ]
    ends: Counter[str] = Counter()
    over = asyncio.Event()

    async def session_goes_on(number: int) -> None:
        for turn in itertools.count(number):
            if over.is_set():
                return
            ends[f"echo: {await asked(agent, f's{turn % SERVERS}_echo', str(turn))}"] += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.1)

    async with (
        nothing_left(str(tmp_path), most_lag_seconds=1.0, most_process_seconds=5.0),
        Agent(
            Obedient(),
            mcp_config=servers,
            options=RunOptions(servers=ServerOptions(startup_seconds=None), large_result_tokens=0),
        ) as agent,
    ):
        asking = [asyncio.create_task(session_goes_on(number)) for number in range(SESSIONS)]
        before = (0.0, 0, 0)
        for number in range(FAULTS):
            if number == FAULTS // 3:  # all has happened once that loads something for good
                before = resident_mib(), open_files(), len(asyncio.all_tasks())
            started = time.monotonic()
            await one_fault(agent, KINDS[number % len(KINDS)], number % SERVERS, ends)
            if SECONDS:
                await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - started)))
        over.set()
        await asyncio.gather(*asking)
        memory, files, tasks = before
        assert resident_mib() - memory <= 40
        assert open_files() - files <= SERVERS * 8
        assert len(asyncio.all_tasks()) - tasks <= SERVERS * 8
    assert ends["echo: ok"] > FAULTS
    assert {end for end in ends if end.startswith("echo: ")} <= {"echo: ok", "echo: server_down", "echo: timeout"}, ends
