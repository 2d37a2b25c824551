"""A stream that is left, in whatever way, leaves its session free for the next question."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    EventStream,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
    Usage,
    events,
)
from mcpagent.models.scripted import Answer, ScriptedModel
from mcpagent.values.events import Emit
from tests.tables import each_row

SECONDS = 30


@dataclass
class SlowToEnd:
    """Its first answer never comes, and a cancelled one takes until it is `released`; later ones are there at once."""

    released: asyncio.Event = field(default_factory=asyncio.Event)
    is_ending: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0
    asked: int = 0
    name: str = "scripted:slow-to-end"

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.asked += 1
        if self.asked == 1:
            emit(events.TextDelta("begun"))
            try:
                await asyncio.sleep(SECONDS)
            except asyncio.CancelledError:
                self.cancelled += 1
                self.is_ending.set()
                await self.released.wait()
                raise
        return ModelResponse(Message("assistant", (Text("here"),)), Usage(requests=1), "end")

    async def aclose(self) -> None:
        pass


async def test_the_next_question_waits_for_the_end_of_a_stream_whose_leaving_was_cut_short() -> None:
    """A cancelled scope of anyio, as web frameworks have, cuts every wait in it short, that for the run's end too."""
    model = SlowToEnd()
    async with Agent(model) as agent:
        session = agent.session()
        with anyio.CancelScope() as scope:
            async with session.stream("count") as stream:
                async for event in stream:
                    if isinstance(event, events.TextDelta):
                        scope.cancel()
        assert session.is_answering
        assert stream  # still held: nothing hangs on when it is collected
        asked = asyncio.create_task(session.ask("again"))
        model.released.set()
        async with asyncio.timeout(SECONDS):
            assert await asked == "here"
        assert model.cancelled == 1
        assert [message.text for message in session.messages] == ["count", "again", "here"]


async def test_leaving_twice_cancels_once() -> None:
    model = SlowToEnd()
    async with Agent(model) as agent:
        session = agent.session()
        stream = session.stream("count")
        async for event in stream:
            if isinstance(event, events.TextDelta):
                break
        leaving = [asyncio.create_task(stream.aclose()) for _ in range(2)]
        async with asyncio.timeout(SECONDS):
            await model.is_ending.wait()
            model.released.set()
            await asyncio.gather(*leaving)
        assert model.cancelled == 1
        assert not session.is_answering


# -- every way of leaving, at every moment ----------------------------------------------------------------------------


@dataclass
class Scene:
    """An agent whose answer to "go" calls a tool that never ends, unless it is to come to its end; others are short."""

    ends: bool = False
    in_tool: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.agent = Agent(ScriptedModel([self.answer] * 9), tools=[self.wait])

    def answer(self, request: ModelRequest) -> Answer:
        return ToolCall("", "wait", {}) if request.messages[-1].text == "go" else "free"

    async def wait(self) -> str:
        """Waits."""
        self.in_tool.set()
        if not self.ends:
            await asyncio.Event().wait()
        return "over"

    async def until(self, moment: str, read: Callable[[], Awaitable[events.Event]]) -> None:
        match moment:
            case "before the first step":
                pass
            case "after the first event":
                await read()
            case "in a tool":
                await self.in_tool.wait()
            case _:
                while not isinstance(await read(), events.RunFinished):
                    pass


MOMENTS = ("before the first step", "after the first event", "in a tool", "at the end")


async def end_of_the_block(scene: Scene, moment: str) -> object:
    async with scene.agent.stream("go") as stream:
        await scene.until(moment, lambda: anext(stream))
    return stream


async def an_error(scene: Scene, moment: str) -> object:
    try:
        async with scene.agent.stream("go") as stream:
            await scene.until(moment, lambda: anext(stream))
            raise ConnectionError
    except ConnectionError:
        return stream


async def cancelled(scene: Scene, moment: str) -> object:
    inside: asyncio.Future[EventStream] = asyncio.get_running_loop().create_future()

    async def watch() -> None:
        async with scene.agent.stream("go") as stream:
            await scene.until(moment, lambda: anext(stream))
            inside.set_result(stream)
            await asyncio.Event().wait()

    watching = asyncio.create_task(watch())
    await inside
    watching.cancel()
    await asyncio.wait({watching})
    return inside.result()


async def out_of_time(scene: Scene, moment: str) -> object:
    stream = scene.agent.stream("go")
    try:
        async with asyncio.timeout(None) as limit, stream:
            await scene.until(moment, lambda: anext(stream))
            limit.reschedule(0)
            await asyncio.Event().wait()
    except TimeoutError:
        return stream
    return None


async def closed_twice(scene: Scene, moment: str) -> object:
    stream = await scene.agent.stream("go").__aenter__()
    await scene.until(moment, lambda: anext(stream))
    await stream.aclose()
    await stream.aclose()
    return stream


async def its_task_is_cancelled(scene: Scene, moment: str) -> object:
    """As `asyncio.run` does with all tasks that are left."""
    stream = await scene.agent.stream("go").__aenter__()
    await scene.until(moment, lambda: anext(stream))
    for task in asyncio.all_tasks():
        if task.get_name() == "mcpagent-stream":
            task.cancel()
            await asyncio.wait({task})
    return stream


async def collected(scene: Scene, moment: str) -> object:
    stream = await scene.agent.stream("go").__aenter__()
    await scene.until(moment, stream.__anext__)
    del stream
    gc.collect()
    return None


async def a_break(scene: Scene, moment: str) -> object:
    async for event in scene.agent.stream("go"):
        if await is_here(scene, moment, event):
            break
    return None


async def a_break_with_the_stream_in_a_variable(scene: Scene, moment: str) -> object:
    stream = scene.agent.stream("go")
    async for event in stream:
        if await is_here(scene, moment, event):
            break
    return stream


async def an_error_with_the_stream_in_a_variable(scene: Scene, moment: str) -> object:
    stream = scene.agent.stream("go")
    try:
        async for event in stream:
            if await is_here(scene, moment, event):
                raise ConnectionError
    except ConnectionError:
        return stream
    return None


async def is_here(scene: Scene, moment: str, event: events.Event) -> bool:
    """Whether a plain loop is at that moment: it has no earlier one than its first event."""
    if moment == "at the end":
        return isinstance(event, events.RunFinished)
    if moment == "in a tool":
        await scene.in_tool.wait()
    return True


WAYS = (
    end_of_the_block,
    an_error,
    cancelled,
    out_of_time,
    closed_twice,
    its_task_is_cancelled,
    collected,
    a_break,
    a_break_with_the_stream_in_a_variable,
    an_error_with_the_stream_in_a_variable,
)


async def asks(agent: Agent) -> None:
    assert await agent.ask("again") == "free"


async def streams(agent: Agent) -> None:
    assert [event async for event in agent.stream("again")][-1]


async def rewinds(agent: Agent) -> None:
    agent._runtime.own_session.rewind(0)
    assert agent.messages == ()


async def rewinds_nothing(agent: Agent) -> None:
    agent._runtime.own_session.rewind(len(agent.messages))


async def changes_the_model(agent: Agent) -> None:
    await agent.use_model(ScriptedModel([]))
    await agent.use_model(ScriptedModel(["free"] * 9))


async def begins_anew(agent: Agent) -> None:
    agent.new_conversation()
    assert agent.messages == ()


async def asks_with_a_history(agent: Agent) -> None:
    answer, history = await agent.ask_with_history([{"role": "user", "content": "other"}])
    assert (answer, len(history)) == ("free", 2)


THEN = (asks, streams, rewinds, rewinds_nothing, changes_the_model, begins_anew, asks_with_a_history)


TransportChoice = Callable[[Scene, str], Awaitable[object]]


@each_row("way", WAYS)
@each_row("moment", MOMENTS)
async def test_no_way_of_leaving_keeps_the_session_busy(way: TransportChoice, moment: str) -> None:
    await leaves_it_free(way, moment, asks)


@pytest.mark.slow
@each_row("way", WAYS)
@each_row("moment", MOMENTS)
@each_row("then", THEN[1:])
async def test_whatever_is_done_then_finds_it_free(
    way: TransportChoice, moment: str, then: Callable[[Agent], Awaitable[None]]
) -> None:
    await leaves_it_free(way, moment, then)


async def leaves_it_free(way: TransportChoice, moment: str, then: Callable[[Agent], Awaitable[None]]) -> None:
    scene = Scene(ends=moment == "at the end")
    async with asyncio.timeout(SECONDS), scene.agent as agent:
        stream = await way(scene, moment)  # may be held on to
        await then(agent)
        assert await agent.ask("once more") == "free"
        assert "answering" not in repr(agent.session())
        assert not agent._runtime._subscribers  # nobody would see it, but it would grow with every stream
        calls = [call.id for message in agent.messages for call in message.tool_calls]
        assert [result.call_id for message in agent.messages for result in message.tool_results] == calls
        del stream


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("tidy", [True, False])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # asyncio's own, of tasks left for good
def test_a_stream_that_its_loop_does_not_outlive_leaves_the_session_free(moment: str, tidy: bool) -> None:
    """`asyncio.run` cancels what is left; a loop that is just closed lets it never go on."""
    scene = Scene(ends=moment == "at the end")

    async def begin() -> EventStream:
        agent = await scene.agent.__aenter__()
        stream = await agent.stream("go").__aenter__()
        await scene.until(moment, lambda: anext(stream))
        return stream

    async def go_on() -> None:
        async with asyncio.timeout(SECONDS):
            await scene.agent.aclose()
            async with scene.agent as agent:
                assert await agent.ask("again") == "free"

    if tidy:
        stream = asyncio.run(begin())
    else:
        loop = asyncio.new_event_loop()
        stream = loop.run_until_complete(begin())
        loop.close()
    session = scene.agent._runtime.own_session
    del stream
    gc.collect()
    assert not session.is_answering
    assert not scene.agent._runtime._subscribers
    asyncio.run(go_on())


async def test_within_async_with_a_break_leaves_only_the_loop() -> None:
    async with Agent(ScriptedModel(["one", "two"])) as agent:
        async with agent.stream("count") as stream:
            async for event in stream:
                if isinstance(event, events.RequestSent):
                    break
            *_, last = [event async for event in stream]
        assert isinstance(last, events.RunFinished)
        stream = agent.stream("count")
        async for event in stream:
            if isinstance(event, events.RequestSent):
                break
        assert [event async for event in stream] == []


async def test_what_a_run_does_after_it_was_left_is_no_part_of_what_follows() -> None:
    """A tool that goes on after its cancellation finds another conversation in the session's place."""
    released, entered = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Takes its time to end."""
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await released.wait()
        return "survived"

    async with (
        asyncio.timeout(SECONDS),
        Agent(ScriptedModel([ToolCall("", "stubborn", {}), "new"]), tools=[stubborn]) as agent,
    ):
        session = agent.session()
        async for _ in session.stream("go"):
            await entered.wait()
            break
        assert "answering" in repr(session)
        session.rewind(len(session.messages))
        asked = asyncio.create_task(session.ask("again"))
        released.set()
        assert await asked == "new"
        assert not session.is_answering
        [kept] = session.messages[2].tool_results
        assert (kept.error, [message.role for message in session.messages]) == (
            "cancelled",
            ["user", "assistant", "tool", "user", "assistant"],
        )


async def test_a_tool_that_asks_the_session_it_is_left_in_is_told_that_it_is_busy() -> None:
    """It would wait for its own end."""
    told: list[str] = []

    async def clean_up() -> str:
        """Asks once more when it is cancelled."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises(AgentStateError, match="answering already") as caught:
                await session.ask("one more thing")
            told.append(str(caught.value))
        return "never"

    entered = asyncio.Event()
    model = ScriptedModel([ToolCall("", "clean_up", {}), "free"])
    async with asyncio.timeout(SECONDS), Agent(model, tools=[clean_up]) as agent:
        session = agent.session()
        async for _ in session.stream("go"):
            await entered.wait()
            break
        assert await session.ask("again") == "free"
    assert len(told) == 1
