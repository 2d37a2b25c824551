"""Agents and sessions used from synchronous code, from notebooks, and from threads."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcpagent import Agent, AgentStateError, CredentialsError, ModelError, ModelRequest, ServerError, Text, events
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.approval import CallsPendingError
from mcpagent.values.messages import ToolCall, user_message
from tests.tables import each_row

SECONDS = 30


def echo(request: ModelRequest) -> str:
    return f"{len(request.messages)}: {request.messages[-1].text}"


def told(work: Callable[[], object]) -> object:
    """What the work gives in a thread of its own, or the error that it raises; a hang is a failure."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except AgentStateError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert outcome, "it hangs"
    return outcome[0]


def test_ask_sync_of_an_agent_whose_loop_does_not_run_is_an_error() -> None:
    loop = asyncio.new_event_loop()
    agent = Agent(ScriptedModel([echo]))
    loop.run_until_complete(agent.__aenter__())
    for ask in (agent.ask_sync, agent.session().ask_sync):
        assert "event loop that does not run" in str(told(lambda ask=ask: ask("hello")))  # type: ignore[misc]
    assert loop.run_until_complete(agent.ask("hello")) == "1: hello"
    loop.run_until_complete(agent.aclose())
    loop.close()


def test_ask_sync_within_the_agents_own_loop_is_an_error() -> None:
    """It would wait for itself."""
    said: list[str] = []

    async def look() -> str:
        """Looks."""
        with pytest.raises(AgentStateError, match="would block") as caught:
            agent.session().ask_sync("inside")
        said.append(str(caught.value))
        return "looked"

    with Agent(ScriptedModel([ToolCall("", "look", {}), "done"]), tools=[look]) as agent:
        assert told(lambda: agent.ask_sync("go")) == "done"
    assert len(said) == 1


def test_sessions_can_be_asked_in_synchronous_code() -> None:
    with Agent(ScriptedModel([echo] * 4)) as agent:
        ann, bob = agent.session("ann"), agent.session("bob")
        assert ann.ask_sync("hello") == "1: hello"
        assert bob.ask_sync([Text("I am Bob")]) == "1: I am Bob"
        assert ann.ask_sync("again") == "3: again"
        assert asyncio.run(ann.ask("and again")) == "5: and again"
    with pytest.raises(AgentStateError, match="not started"):
        ann.ask_sync("late")


def test_threads_that_ask_an_agent_at_once_start_it_once() -> None:
    agent = Agent(ScriptedModel([echo] * 8))
    barrier = threading.Barrier(8)
    answers: list[str] = []

    def ask() -> None:
        barrier.wait(SECONDS)
        try:
            answers.append(agent.ask_sync("hello"))
        except AgentStateError as error:
            answers.append(str(error))

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    agent.close()
    assert len(answers) == 8
    # All of them ask one session: who comes while another is answered is told so, and nothing else goes wrong.
    assert all("hello" in answer or "answering already" in answer for answer in answers)
    assert any("hello" in answer for answer in answers)


async def test_a_notebook_may_use_everything_after_ask_sync() -> None:
    def wait() -> str:
        """Waits."""
        return "waited"

    def reply(request: ModelRequest) -> Any:
        return ToolCall("", "wait", {}) if request.messages[-1].text == "wait" else echo(request)

    agent = Agent(ScriptedModel([reply] * 20), tools=[wait], approval=True)
    try:
        assert agent.ask_sync("one") == "1: one"
        async with asyncio.timeout(SECONDS):
            session = agent.session()
            assert await session.ask("two") == "1: two"
            async with session.stream("three") as stream:
                told = [event async for event in stream]
            assert isinstance(told[-1], events.RunFinished)
            assert told[-1].answer == "3: three"
            async for _ in session.stream("left"):
                break
            pending = (await session.run("wait")).pending
            assert await session.resume([call.approve() for call in pending]) != ""
            assert session.messages[-2].tool_results[0].text == "waited"
            request = ModelRequest(system="", messages=(user_message("four"),), tools=())
            assert (await agent._runtime.complete(request)).message.text == "1: four"
            assert (await agent.ask_with_history([{"role": "user", "content": "five"}]))[0] == "1: five"
            assert (await agent.search("wait")).found == 1
            await agent.use_model(ScriptedModel([echo]))
            assert await agent.ask("six") == "3: six"
    finally:
        agent.close()


async def test_cancelling_a_question_in_a_notebook_cancels_the_run() -> None:
    entered, cancelled = threading.Event(), threading.Event()

    async def wait() -> str:
        """Waits."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    agent = Agent(ScriptedModel(["one", ToolCall("", "wait", {}), "free"]), tools=[wait])
    try:
        agent.ask_sync("one")
        session = agent.session()
        asking = asyncio.create_task(session.ask("go"))
        await asyncio.to_thread(entered.wait, SECONDS)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(cancelled.wait, SECONDS)
        async with asyncio.timeout(SECONDS):
            assert await session.ask("again") == "free"
    finally:
        agent.close()


async def test_closing_the_agent_ends_what_still_runs_and_nobody_waits_for_ever() -> None:
    entered = threading.Event()

    async def wait() -> str:
        """Waits."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(ScriptedModel(["one", ToolCall("", "wait", {}), ToolCall("", "wait", {})]), tools=[wait])
    agent.ask_sync("one")
    session = agent.session()
    async with asyncio.timeout(SECONDS):
        asking = asyncio.create_task(agent.session().ask("go"))
        async with session.stream("go") as stream:
            await anext(stream)
            await asyncio.to_thread(entered.wait, SECONDS)
            await asyncio.to_thread(agent.close)
        with pytest.raises(AgentStateError, match="the agent was closed while it answered"):
            await asking
    assert not session.is_answering
    with pytest.raises(AgentStateError, match="not started"):
        await session.ask("late")


async def test_another_event_loop_is_told_for_sessions_and_streams_too() -> None:
    async with Agent(ScriptedModel([])) as agent:
        session = agent.session()

        async def elsewhere() -> None:
            async with session.stream("hello"):
                pass

        for work in (lambda: asyncio.run(session.ask("hello")), lambda: asyncio.run(elsewhere())):
            assert "another event loop" in str(await asyncio.to_thread(told, work))


class Slow:
    """A tool that takes its time, also to end: it is cancelled well before it has ended."""

    def __init__(self) -> None:
        self.began = threading.Event()

    async def look(self) -> str:
        """Looks."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(200):
                await asyncio.sleep(0)
        return "never"


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to one thread")
@each_row("way", ["cancelled", "timeout", "interrupt"])
def test_a_session_is_free_at_once_for_who_gave_up_waiting(way: str) -> None:
    slow = Slow()
    with Agent(ScriptedModel([ToolCall("", "look", {}), "after it"]), tools=[slow.look]) as agent:
        session = agent.session()

        async def give_up() -> None:
            task = asyncio.create_task(session.ask("look"))
            assert await asyncio.to_thread(slow.began.wait, SECONDS)
            if way == "cancelled":
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await task
            assert await session.ask("again") == "after it"

        if way != "interrupt":
            asyncio.run(give_up())
            return

        def interrupt() -> None:
            assert slow.began.wait(SECONDS)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGUSR1, interrupted)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            with pytest.raises(KeyboardInterrupt):
                session.ask_sync("look")
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert session.ask_sync("again") == "after it"


def test_a_second_start_is_refused_and_harms_nothing() -> None:
    model = ScriptedModel([echo] * 8)

    def start(agent: Agent[Any]) -> None:
        with pytest.raises(AgentStateError, match="already started"), agent:
            pass

    with Agent(model) as agent:
        session = agent.session()
        start(agent)
        told(lambda: start(agent))
        assert session.ask_sync("hello") == agent.ask_sync("hello") == "1: hello"

    async def in_a_loop() -> None:
        async with Agent(model) as agent:
            start(agent)
            await asyncio.to_thread(start, agent)
            with pytest.raises(AgentStateError, match="already started"):
                async with agent:
                    pass
            assert await agent.ask("hello") == "1: hello"

    asyncio.run(in_a_loop())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_is_told_that_the_agent_is_not_its_own() -> None:
    """In a process of its own: what pytest has open is not to be forked."""
    script = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from mcpagent import Agent, AgentStateError
from mcpagent.models.scripted import ScriptedModel
agent = Agent(ScriptedModel(["parent's"] * 3))
agent.ask_sync("hi")
child = os.fork()
if not child:
    signal.alarm(30)
    for use in (lambda: agent.ask_sync("hi"), lambda: agent.session().ask_sync("hi"), agent.__enter__):
        try:
            use()
        except AgentStateError as error:
            print(error)
    sys.exit(0)  # which closes what is open
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), agent.ask_sync("hi"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    *of_child, of_parent = done.stdout.splitlines()
    assert len(of_child) == 3
    assert all("forked" in line or "already started" in line for line in of_child)
    assert of_parent == "0 parent's"


@each_row(
    "error",
    [
        ModelError("late", provider="p", status=503, retryable=True, retry_after_seconds=2.0),
        ServerError("gone", server="git", phase="start", exit_code=-9, stderr_tail=("a", "b")),
        CallsPendingError([]),
        CredentialsError("no key"),
    ],
)
def test_errors_reach_another_process_whole(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
