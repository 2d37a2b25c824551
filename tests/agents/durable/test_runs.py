"""Runs that outlive their process: what they come to, and what they do not do twice."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    ApprovalPolicy,
    ConfigError,
    InputError,
    ModelError,
    RunOptions,
    ScriptedModel,
    Sessions,
    ToolCall,
)
from mcpagent.agents.durable import DurableRuns
from mcpagent.history.conversation import UNKNOWN
from mcpagent.models.base import ModelRequest
from tests.agents.durable.killed_workers import exit_code_of
from tests.agents.durable.worker_program import PLACES, Outside, agent_of, work
from tests.journal.sessions.postgres_server import postgres_server

SECONDS = 60.0
ALL = [line for number, place in enumerate(PLACES) for line in (f"request {number}", f"book {place}")]
ALL += [f"request {len(PLACES)}"]
POINTS = [f"{step} {when}" for step in range(1, len(ALL) + 1) for when in ("before", "after")]


@asynccontextmanager
async def served(agent: Agent[Any], durable: DurableRuns, **options: Any) -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent, **options):
        yield


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def files(tmp_path: Path) -> tuple[DurableRuns, Sessions]:
    return DurableRuns(tmp_path / "runs.db"), Sessions(tmp_path / "sessions.db")


async def test_runs_of_one_session_take_turns_and_go_on(tmp_path: Path) -> None:
    durable, store = files(tmp_path)
    seen: list[int] = []

    def reply(request: ModelRequest) -> str:
        seen.append(len(request.messages))
        return f"answer {len(seen)}"

    agent = Agent(ScriptedModel([reply] * 3), sessions=store, options=RunOptions(wrappers=[durable]))
    async with served(agent, durable):
        runs = [await durable.start(f"question {number}", session="ann") for number in range(3)]
        answers = [(await run.result()).answer for run in runs]
        assert sorted(answers) == ["answer 1", "answer 2", "answer 3"]
        assert sorted(seen) == [1, 3, 5]
        assert [await run.state() for run in runs] == ["done"] * 3
        again = await durable.run(runs[0].id)
        assert (await again.result()).answer == answers[0]
    assert len(store.read("ann").messages) == 6
    store.close()


async def test_an_approval_waits_for_another_process(tmp_path: Path) -> None:
    durable, store = files(tmp_path)
    ran: list[int] = []

    def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        return f"paid {amount}"

    replies: Sequence[Any] = [
        ToolCall("1", "pay", {"amount": 5}),
        lambda request: request.messages[-1].tool_results[0].text,
    ]
    policy = ApprovalPolicy(required=True)
    agent = Agent(
        ScriptedModel(replies), tools=[pay], approval=policy, sessions=store, options=RunOptions(wrappers=[durable])
    )
    async with served(agent, durable):
        waiting = await (await durable.start("Pay five.", session="ann")).result()
        assert (waiting.stop, ran) == ("calls_pending", [])
        [call] = waiting.pending
    again, store_again = files(tmp_path)
    agent = Agent(
        ScriptedModel(replies[1:]),
        tools=[pay],
        approval=policy,
        sessions=store_again,
        options=RunOptions(wrappers=[again]),
    )
    async with served(agent, again):
        answers = [await again.answer([call.approve({"amount": 4})], session="ann") for _ in range(2)]
        assert [(await run.result()).answer for run in answers] == ["paid 4", "paid 4"]
        assert ran == [4]
        with pytest.raises(InputError, match="give an answer"):
            await again.answer([], session="ann")
    store.close()
    store_again.close()


async def test_errors_are_those_of_a_run(tmp_path: Path) -> None:
    durable, store = files(tmp_path)
    error = ModelError("provider: no such model", provider="test", status=404, retryable=False)
    agent = Agent(ScriptedModel([error, "fine"]), sessions=store, options=RunOptions(wrappers=[durable]))
    with pytest.raises(AgentStateError, match="not served"):
        await durable.start("hello")
    async with served(agent, durable):
        run = await durable.start("hello", session="ann")
        with pytest.raises(ModelError, match="no such model") as raised:
            await run.result()
        assert raised.value.status == 404
        assert await run.state() == "failed"
        assert (await (await durable.start("again", session="ann")).result()).answer == "fine"
        with pytest.raises(InputError, match='there is no run "nope"'):
            await durable.run("nope")
        with pytest.raises(InputError, match="prompt is empty"):
            await durable.start(" ")
    store.close()


async def test_an_agent_without_a_store_is_told(tmp_path: Path) -> None:
    durable, _ = files(tmp_path)
    async with Agent(ScriptedModel([])) as agent:
        with pytest.raises(ConfigError, match="keeps its sessions"):
            async with durable.serving(agent):
                pass


async def is_finished_by_another(runs: str, sessions: str, ledger: Path, point: str, run: str) -> float:
    """Kills a worker there, and has another one finish; gives the seconds from its start to the answer."""
    assert await exit_code_of(work, runs, sessions, str(ledger), point, run, seconds=SECONDS) == -signal.SIGKILL
    before = time.monotonic()
    outside, durable, store = Outside(ledger), DurableRuns(runs), Sessions(sessions)
    agent = agent_of(outside, durable, store)
    async with served(agent, durable):
        result = await (await durable.run(run)).result()
        seconds = time.monotonic() - before
        assert (result.answer, result.stop) == ("all done", "answered")
    messages = store.read("ann").messages
    store.close()
    step, _, when = point.partition(" ")
    killed_in = ALL[int(step) - 1]
    done = outside.done()
    for line in ALL:
        if line != killed_in:
            assert done.count(line) == 1, f"{point}: {line}"
    results = [result.text for message in messages for result in message.tool_results]
    if killed_in.startswith("book"):  # it may have run, so it is told, and not made again
        assert done.count(killed_in) == (when == "after")
        assert results.count(UNKNOWN) == 1
    else:
        assert done.count(killed_in) == 1 + (when == "after")  # an answer that nobody got is asked for again
        assert UNKNOWN not in results
    return seconds


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("point", ["1 before", "4 before", "4 after", "5 after", "11 after"])
async def test_another_process_finishes_what_a_dead_one_began_in_files(tmp_path: Path, point: str) -> None:
    await is_finished_by_another(
        str(tmp_path / "runs.db"), str(tmp_path / "sessions.db"), tmp_path / "ledger", point, "the-run"
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_two_workers_on_postgresql_and_a_kill_at_every_border(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run in a database of its own: the worker that begins it is killed, another one goes on."""
    server = postgres_server()
    took: list[float] = []
    runs, sessions = server.address(server.new_database()), server.address(server.new_database())
    for number, point in enumerate(POINTS):
        ledger = tmp_path / f"ledger{number}"
        store = Sessions(sessions)
        if number:
            store.delete("ann")
        store.close()
        took.append(await is_finished_by_another(runs, sessions, ledger, point, f"run-{number}"))
    with capsys.disabled():
        print(
            f"\ntaken over {len(took)} times, in {sorted(took)[len(took) // 2]:.1f} s (median), {max(took):.1f} at most"
        )


async def test_an_answer_of_a_type_also_after_an_approval(tmp_path: Path) -> None:
    durable, store = files(tmp_path)
    replies: list[ToolCall | str] = [
        ToolCall("1", "add", {"a": 1, "b": 2}),
        '{"result": ["x"]}',
        '{"result": [3]}',
        "no",
        "none",
    ]
    agent = Agent(
        ScriptedModel(replies), tools=[add], approval=True, sessions=store, options=RunOptions(wrappers=[durable])
    )
    async with served(agent, durable):
        waiting = await (await durable.start("Add.", session="ann", output_type=list[int])).result()
        assert (waiting.stop, waiting.output) == ("calls_pending", None)
        done = await (await durable.answer([waiting.pending[0].approve()], session="ann")).result()
        assert (done.stop, done.output, done.answer) == ("answered", [3], "[3]")
        unfit = await (await durable.start("Again.", session="ann", output_type=int)).result()
        assert (unfit.stop, unfit.output) == ("misfit", None)
        assert "no JSON" in str(unfit.problems[0])
        with pytest.raises(InputError, match=r"^output_type: "):
            await durable.start("Again.", output_type=5)
    store.close()
