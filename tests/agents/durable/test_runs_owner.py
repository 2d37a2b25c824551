"""A run belongs to its session, and to its user: another owner gets an error, and never its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, InputError, ScriptedModel, Sessions
from mcpagent.agents.durable import DurableRuns

SECONDS = 60.0
SECRET = "the answer to ann alone"


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[DurableRuns]:
    store = Sessions(folder / "chats.db")
    agent, durable = Agent(ScriptedModel([SECRET] * 9), sessions=store), DurableRuns(folder / "runs.db")
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        yield durable
    store.close()


OTHERS: dict[str, Callable[[DurableRuns, str], Awaitable[Any]]] = {
    "another session": lambda runs, run: runs.start("Mine?", session="bob", user="ann", run=run),
    "another user": lambda runs, run: runs.start("Mine?", session="ann", user="bob", run=run),
    "no user": lambda runs, run: runs.start("Mine?", session="ann", run=run),
    "a new session": lambda runs, run: runs.start("Mine?", user="ann", run=run),
    "finding it as another session": lambda runs, run: runs.run(run, session="bob"),
    "finding it as another user": lambda runs, run: runs.run(run, user="bob"),
    "cancelling it as another session": lambda runs, run: runs.cancel(run, session="bob"),
    "cancelling it as another user": lambda runs, run: runs.cancel(run, user="bob"),
}


async def test_another_owner_gets_an_error_of_one_line(tmp_path: Path) -> None:
    told: dict[str, tuple[str, str, str]] = {}
    async with served(tmp_path) as durable:
        for number, (other, attempt) in enumerate(OTHERS.items()):
            name = f"order-{number}"
            run = await durable.start("What is it?", session="ann", user="ann", run=name)
            with pytest.raises(InputError) as raised:
                await attempt(durable, name)
            error = str(raised.value).replace(name, "ORDER")
            told[other] = error, (await run.result()).answer, await run.state()
    refused = 'run "ORDER" belongs to another owner; use the ID of a run of your own'
    assert told == dict.fromkeys(OTHERS, (refused, SECRET, "done"))


async def test_the_owner_finds_the_run_again(tmp_path: Path) -> None:
    async with served(tmp_path) as durable:
        runs = [await durable.start("What?", session="ann", user="ann", run="order-17") for _ in range(2)]
        runs.append(await durable.run("order-17", session="ann", user="ann"))
        assert {(await run.result()).answer for run in runs} == {SECRET}
        unnamed = [await durable.start("What?", run="order-18") for _ in range(2)]
        assert {run.session for run in unnamed} == {unnamed[0].session}
        assert [(await run.result()).answer for run in unnamed] == [SECRET, SECRET]


async def test_a_run_of_a_session_that_was_deleted_has_no_result(tmp_path: Path) -> None:
    async with served(tmp_path) as durable:
        run = await durable.start("What?", session="ann")
        assert (await run.result()).answer == SECRET
        store = Sessions(tmp_path / "chats.db")
        store.delete("ann")
        store.close()
        with pytest.raises(Exception, match="was deleted; there is no result any more"):
            await run.result()
