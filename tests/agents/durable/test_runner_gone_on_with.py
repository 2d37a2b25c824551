"""A run that another process goes on with: what is known of a call counts, whatever else is different there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mcpagent import (
    Agent,
    AgentStateError,
    ApprovalPolicy,
    CallAnswer,
    InputError,
    PendingCall,
    RunContext,
    RunOptions,
    ScriptedModel,
    SessionBusyError,
    Sessions,
    ToolCall,
)
from mcpagent.agents.durable import DurableRuns
from mcpagent.models.base import ModelRequest

SECONDS = 60.0
QUESTION = "Pay."


class Notes(BaseModel):
    """What tools keep."""

    lines: list[str] = []


def model(*, dies: bool = False) -> ScriptedModel:
    """It pays, and says what came of it; a process that `dies` does so before the second request."""

    def reply(request: ModelRequest) -> ToolCall | str:
        results = [result for message in request.messages for result in message.tool_results]
        if request.messages[-1].text == "And now?":
            return "This is new."
        if not results:
            return ToolCall("1", "pay", {"amount": 5})
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return results[0].text

    return ScriptedModel([reply] * 5)


def paying(ledger: Path) -> Any:
    def pay(context: RunContext[Any], amount: int) -> str:
        """Pays."""
        with ledger.open("a") as file:
            file.write(f"{amount}\n")
        context.tool_context.get_or_create("notes", Notes).lines.append(f"paid {amount}")
        return f"paid {amount}"

    return pay


def yes(request: PendingCall) -> bool:
    return True


def no(request: PendingCall) -> bool:
    return False


def later(request: PendingCall) -> PendingCall:
    return request


def durable_in(folder: Path) -> tuple[DurableRuns, Sessions]:
    return DurableRuns(folder / "runs.db"), Sessions(folder / "chats.db")


@asynccontextmanager
async def served(agent: Agent[Any], durable: DurableRuns, **options: Any) -> AsyncIterator[None]:
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent, **options):
        yield


async def _first(folder: Path) -> None:
    durable, store = durable_in(folder)
    policy = ApprovalPolicy(required=True, decide=yes)
    tools = [paying(folder / "ledger")]
    agent = Agent(
        model(dies=True), tools=tools, approval=policy, sessions=store, options=RunOptions(wrappers=[durable])
    )
    async with served(agent, durable):
        await (await durable.start(QUESTION, session="ann", run="the-run")).result()


def _in_a_process(folder: Path) -> None:
    asyncio.run(_first(folder))


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which the call is done, and written, and whose worker was killed then."""
    folder = tmp_path_factory.mktemp("left_behind")
    process = multiprocessing.get_context("spawn").Process(target=_in_a_process, args=(folder,))
    process.start()
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert (folder / "ledger").read_text() == "5\n"
    return folder


@pytest.fixture
def folder(left_behind: Path, tmp_path: Path) -> Path:
    """A copy of what the killed worker left, for this test alone."""
    return shutil.copytree(left_behind, tmp_path / "folder")


@pytest.mark.slow
@pytest.mark.parametrize("decide", [yes, no, later])
@pytest.mark.parametrize("has_tool", [True, False])
async def test_what_was_done_is_done_whatever_is_decided_or_there_now(
    folder: Path, decide: Any, has_tool: bool
) -> None:
    durable, store = durable_in(folder)
    tools = [paying(folder / "ledger")] if has_tool else []
    policy = ApprovalPolicy(required=True, decide=decide)
    agent = Agent(model(), tools=tools, approval=policy, sessions=store, options=RunOptions(wrappers=[durable]))
    async with served(agent, durable):
        result = await (await durable.run("the-run")).result()
        assert (result.answer, result.stop, result.pending) == ("paid 5", "answered", ())
    assert (folder / "ledger").read_text() == "5\n"
    kept = store.read("ann")
    assert kept.values["state"] == {"notes": {"lines": ["paid 5"]}}
    assert not kept.values.get("durable")
    assert kept.info.holder is None
    store.close()


@pytest.mark.slow
async def test_nobody_else_answers_in_the_session_of_an_unfinished_run(folder: Path) -> None:
    durable, store = durable_in(folder)
    async with asyncio.timeout(SECONDS), Agent(model(), sessions=store) as agent:
        for opening in (lambda: agent.session("ann"), lambda: asyncio.to_thread(agent.session, "ann")):
            with pytest.raises(SessionBusyError, match='belongs to durable run "the-run"; wait for its end'):
                await opening()  # type: ignore[misc]
    agent = Agent(model(), tools=[paying(folder / "ledger")], sessions=store, options=RunOptions(wrappers=[durable]))
    async with served(agent, durable):
        assert (await (await durable.run("the-run")).result()).answer == "paid 5"
        assert await agent.session("ann").ask("And now?") == "This is new."
    assert (folder / "ledger").read_text() == "5\n"
    store.close()


@pytest.mark.slow
async def test_another_run_waits_for_one_that_is_not_finished(folder: Path) -> None:
    durable, store = durable_in(folder)
    policy = ApprovalPolicy(required=True, decide=yes)
    agent = Agent(
        model(),
        tools=[paying(folder / "ledger")],
        approval=policy,
        sessions=store,
        options=RunOptions(wrappers=[durable]),
    )
    async with served(agent, durable):
        new = await durable.start("And now?", session="ann")
        assert (await new.result()).answer == "This is new."
        assert (await (await durable.run("the-run")).result()).answer == "paid 5"
    texts = [message.text for message in store.read("ann").messages if message.role != "tool" and message.text]
    assert texts == [QUESTION, "paid 5", "And now?", "This is new."]
    store.close()


@pytest.mark.slow
async def test_answers_that_came_to_nothing_can_be_given_again(tmp_path: Path) -> None:
    durable, store = durable_in(tmp_path)
    policy, tools = ApprovalPolicy(required=True), [paying(tmp_path / "ledger")]
    agent = Agent(model(), tools=tools, approval=policy, sessions=store, options=RunOptions(wrappers=[durable]))
    async with served(agent, durable):
        [call] = (await (await durable.start(QUESTION, session="ann")).result()).pending
        wrong = CallAnswer("2", call.fingerprint, approved=True, session="ann")
        for _ in range(2):
            with pytest.raises(InputError, match='no call "2" waits'):
                await (await durable.answer([wrong], session="ann")).result()
        denied = await (await durable.answer([call.deny("Too much.")], session="ann")).result()
        assert "Too much." in denied.answer
        assert not (tmp_path / "ledger").exists()
    store.close()


@pytest.mark.slow
async def test_a_run_that_is_cancelled_is_told_and_holds_nothing(tmp_path: Path) -> None:
    durable, store = durable_in(tmp_path)
    begun = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        begun.set()
        await asyncio.sleep(0.5)
        return "waited"

    agent = Agent(
        ScriptedModel([ToolCall("1", "wait", {})] * 4),
        tools=[wait],
        sessions=store,
        options=RunOptions(wrappers=[durable]),
    )
    async with served(agent, durable):
        run = await durable.start("Wait.", session="ann")
        await begun.wait()
        waiting = await durable.start("And then?", session="ann")
        await durable.cancel(waiting.id)
        await durable.cancel(run.id)
        for one in (run, waiting):
            with pytest.raises(AgentStateError, match="was cancelled"):
                await one.result()
        with pytest.raises(InputError, match='there is no run "nope"'):
            await durable.cancel("nope")
        other = DurableRuns(tmp_path / "others.db")
        with pytest.raises(AgentStateError, match="serves durable runs already"):
            async with other.serving(agent):
                pass
        assert await (await durable.run(run.id)).state() == "cancelled"
    assert store.read("ann").info.holder is None
    store.close()


async def test_a_copy_of_a_session_has_its_own_calls_that_wait(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "chats.db")
    policy, tools = ApprovalPolicy(required=True), [paying(tmp_path / "ledger")]
    async with asyncio.timeout(SECONDS), Agent(model(), tools=tools, approval=policy, sessions=store) as agent:
        await agent.session("ann").run(QUESTION)
        store.fork("ann", "copy")
        copy = agent.session("copy")
        [call] = copy.pending
        assert call.session == "copy"
        assert await copy.resume([call.approve()]) == "paid 5"
        with pytest.raises(SessionBusyError):
            store.delete("copy")
    store.delete("copy")
    store.close()
