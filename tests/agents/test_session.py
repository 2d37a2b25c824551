"""Sessions: many conversations over one agent, side by side, told of what changes, sharing what does not differ."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from mcpagent import (
    Agent,
    AgentStateError,
    ConfigError,
    InputError,
    LimitError,
    Limits,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    Tool,
    ToolDefinition,
    ToolOutput,
    ToolSearch,
    Usage,
    dump_messages,
)
from mcpagent.agents.event_stream import EventStream
from mcpagent.agents.session import Session
from mcpagent.models.base import ToolLimits
from mcpagent.models.scripted import Reply, ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.composition import filtered, prefixed
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.events import Emit, Event, Notice, RunFinished, TextDelta, ToolCallStarted
from mcpagent.values.messages import File, Image, ToolCall, ToolsChanged
from tests.many_tools import Many, many_tools
from tests.scenes import call, offered, results
from tests.tables import each_row

WAIT_SECONDS = 20


class Fixed:
    """A toolset with tools of a server, which may change."""

    def __init__(self, server: str, *names: str) -> None:
        self.server, self.names = server, list(names)
        self.ran: list[str] = []

    def tool(self, name: str) -> Tool:
        async def run(_arguments: dict[str, Any]) -> ToolOutput:
            self.ran.append(name)
            return ToolOutput.of_text(f"{self.server} {name}")

        definition = ToolDefinition(
            name, f"{name} of {self.server}.", {"type": "object", "properties": {}}, self.server, name
        )
        return Tool(definition, run)

    async def tools(self) -> list[Tool]:
        return [self.tool(name) for name in self.names]

    async def __aenter__(self) -> Fixed:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Meeting:
    """A model that answers only when so many requests are under way at once."""

    name = "meeting:test"

    def __init__(self, parties: int) -> None:
        self.barrier = asyncio.Barrier(parties)
        self.asked = asyncio.Event()

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.asked.set()
        await asyncio.wait_for(self.barrier.wait(), WAIT_SECONDS)
        words = f"answer to {request.messages[-1].text}"
        emit(TextDelta(words))
        return ModelResponse(Message("assistant", (Text(words),)), Usage(3, 1, requests=1), "end", 0.5)

    async def aclose(self) -> None:
        return None


async def test_sessions_run_side_by_side_and_keep_apart() -> None:
    model = Meeting(3)
    async with Agent(model) as agent:
        sessions = [agent.session(id=name) for name in ("ann", "bob", "cem")]
        answers = await asyncio.gather(*(session.ask(f"I am {session.id}") for session in sessions))
        assert answers == [f"answer to I am {name}" for name in ("ann", "bob", "cem")]
        for session in sessions:
            assert [message.text for message in session.messages] == [
                f"I am {session.id}",
                f"answer to I am {session.id}",
            ]
            assert session.spent.dollars == 0.5
        assert agent.messages == ()
        assert agent.spent.dollars == 1.5


async def test_two_runs_at_once_on_one_session_are_an_error_and_harm_nothing() -> None:
    model = Meeting(2)
    async with Agent(model) as agent:
        session, other = agent.session(), agent.session()
        first = asyncio.create_task(session.ask("one"))
        await asyncio.wait_for(model.asked.wait(), WAIT_SECONDS)
        for attempt in (session.ask("two"), session.run("two"), session.resume([])):
            with pytest.raises(AgentStateError, match=r"answering already.*agent\.session\(\)"):
                await attempt
        with pytest.raises(AgentStateError, match="answering already"):
            session.rewind(0)
        with pytest.raises(AgentStateError, match="1 session"):
            await agent.use_model(ScriptedModel([]))
        assert "answering" in repr(session)
        assert await other.ask("meanwhile") == "answer to meanwhile"
        assert await first == "answer to one"


async def test_what_a_run_came_to() -> None:
    model = ScriptedModel([call("look", "a"), "done"])

    def look() -> str:
        """Looks."""
        return "seen"

    async with Agent(model, tools=[look]) as agent:
        session = agent.session()
        result = await session.run("go")
        assert (result.answer, result.stop, result.pending) == ("done", "answered", ())
        assert result.messages == session.messages
        assert result.usage == result.spent.usage == session.spent.usage
    async with Agent(ScriptedModel([call("look", "a"), "done"]), tools=[look], approval=True) as agent:
        result = await agent.run("go")
        assert (result.stop, [request.tool for request in result.pending]) == ("calls_pending", ["look"])
        assert await agent.resume([result.pending[0].approve()]) == "done"


async def test_a_session_goes_on_with_a_history_of_values_or_plain_data() -> None:
    model = ScriptedModel(["one", "two", "three"])
    async with Agent(model) as agent:
        first = agent.session()
        await first.ask("hello")
        for history in (first.messages, dump_messages(first.messages)):
            following = agent.session(messages=history)
            await following.ask("again")
            assert [message.text for message in following.messages][:2] == ["hello", "one"]
        assert len(first.messages) == 2
    with pytest.raises(AgentStateError, match="not started"):
        agent.session()


# -- streams ----------------------------------------------------------------------------------------------------------


class Slow:
    """A tool that waits for ever, and tells when it is called and when it is cancelled."""

    def __init__(self) -> None:
        self.entered, self.cancelled = asyncio.Event(), asyncio.Event()

    async def wait(self) -> str:
        """Waits."""
        self.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        return "never"


LEAVING = ("end of the block", "an error", "cancelled", "closed", "dropped")


@each_row("how", LEAVING)
async def test_leaving_a_stream_in_any_way_cancels_the_run_and_frees_the_session(how: str) -> None:
    slow = Slow()
    async with Agent(ScriptedModel([call("wait"), "free again"]), tools=[slow.wait]) as agent:
        session = agent.session()
        await asyncio.wait_for(_leave(session, how), WAIT_SECONDS)
        assert await asyncio.wait_for(session.ask("go on"), WAIT_SECONDS) == "free again"
        assert slow.cancelled.is_set()
        assert results(session.messages)[0].error == "cancelled"


async def _until_called(events: EventStream) -> None:
    async for event in events:
        if isinstance(event, ToolCallStarted):
            break


async def _leave(session: Session[Any], how: str) -> None:
    if how == "dropped":
        await _until_called(session.stream("go"))
        return
    if how == "closed":
        stream = session.stream("go")
        while not isinstance(await anext(stream), ToolCallStarted):
            pass
        with pytest.raises(AgentStateError, match="answering already"):
            await session.ask("too soon")
        await stream.aclose()
        await stream.aclose()
        return
    inside = asyncio.Event()

    async def watch() -> None:
        async with session.stream("go") as events:
            await _until_called(events)
            inside.set()
            if how == "an error":
                raise RuntimeError("mine")
            if how == "cancelled":
                await asyncio.Event().wait()

    watching = asyncio.create_task(watch())
    await inside.wait()
    if how == "cancelled":
        watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_stream_that_is_read_to_its_end_gives_all_events_and_frees_the_session() -> None:
    async with Agent(ScriptedModel(["one", "two", "three"])) as agent:
        session = agent.session()
        async with session.stream([Text("go")]) as events:
            told = [event async for event in events]
        assert isinstance(told[-1], RunFinished)
        assert isinstance([event async for event in session.stream("on")][-1], RunFinished)
        assert await session.ask("more") == "three"


async def test_a_stream_tells_a_bad_prompt_to_whoever_enters_it() -> None:
    async with Agent(ScriptedModel(["fine"])) as agent:
        session = agent.session()
        with pytest.raises(InputError, match="empty"):
            async with session.stream("  "):
                pass
        assert await session.ask("x") == "fine"


async def test_streams_of_two_sessions_hold_their_own_events() -> None:
    async with Agent(Meeting(2)) as agent:

        async def words(name: str) -> str:
            async with agent.session().stream(name) as events:
                return "".join([event.text async for event in events if isinstance(event, TextDelta)])

        assert [*await asyncio.gather(words("ann"), words("bob"))] == ["answer to ann", "answer to bob"]


# -- what changes -----------------------------------------------------------------------------------------------------


async def test_every_live_session_is_told_of_tools_that_come_change_and_go() -> None:
    tools = Fixed("notes", "read", "write")
    model = ScriptedModel(["a", "b", "c", "d", "e", "f"])
    async with Agent(model, tools=[tools]) as agent:
        one, two, idle = agent.session(), agent.session(), agent.session()
        await one.ask("1")
        await two.ask("2")
        tools.names = ["read", "delete"]
        await one.ask("3")
        await two.ask("4")
        await idle.ask("5")
    for request in model.requests[2:4]:
        [told] = [message for message in request.messages if any(isinstance(p, ToolsChanged) for p in message.parts)]
        assert "delete" in told.text
        assert offered(request) == ["read", "delete"]
    # Nothing was said in the last one yet: it begins with what there is.
    assert not any(isinstance(p, ToolsChanged) for message in model.requests[4].messages for p in message.parts)


async def test_a_tool_that_was_lost_is_offered_again_when_it_is_back() -> None:
    tools = Fixed("notes", "read", "write")
    script: list[Reply] = [call("add_tool", tool_names=["read"]), "added", "lost", call("read"), "back"]
    model = ScriptedModel(script)
    async with Agent(model, tools=[tools], tool_search=ToolSearch()) as agent:
        session = agent.session()
        await session.ask("add")
        tools.names = ["write"]
        await session.ask("without")
        assert list(session.discovered_tools) == []
        tools.names = ["read", "write"]
        assert await session.ask("with") == "back"
        assert list(session.discovered_tools) == ["read"]
        assert tools.ran == ["read"]


async def test_a_tool_that_was_removed_stays_removed_when_its_toolset_comes_back() -> None:
    tools = Fixed("notes", "read", "write")
    script: list[Reply] = [
        call("add_tool", tool_names=["read"]),
        call("remove_tool", tool_names=["read"]),
        *("removed", "gone", "back"),
    ]
    async with Agent(
        ScriptedModel(script), tools=[tools], tool_search=ToolSearch(extra_tools=("remove_tool",))
    ) as agent:
        await agent.ask("add and remove")
        tools.names = ["write"]
        await agent.ask("x")
        tools.names = ["read", "write"]
        await agent.ask("y")
        assert list(agent.discovered_tools) == []


async def test_tools_that_differ_by_session_stay_apart() -> None:
    def everyone() -> str:
        """For everyone."""
        return "e"

    def admin() -> str:
        """For admins."""
        return "a"

    def may(context: RunContext[str], definition: ToolDefinition) -> bool:
        return definition.name == "everyone" or context.deps == "root"

    model = ScriptedModel(["1", "2", "3", "4"])
    async with Agent(model, tools=[filtered([everyone, admin], may)]) as agent:
        guest, root = agent.session(deps="guest"), agent.session(deps="root")
        for session in (guest, root, guest, root):
            await session.ask("x")
    assert [offered(request) for request in model.requests] == [
        ["everyone"],
        ["admin", "everyone"],
        ["everyone"],
        ["admin", "everyone"],
    ]


# -- discovery is about a server's tool, not about a name -------------------------------------------------------------


async def discovered_history() -> tuple[Message, ...]:
    """A conversation in which server A's `search` was added and called."""
    script: list[Reply] = [call("add_tool", tool_names=["search"]), call("search"), "found"]
    async with Agent(ScriptedModel(script), tools=[Fixed("A", "search", "other")], tool_search=ToolSearch()) as agent:
        await agent.ask("find it")
        return agent.messages


@each_row("plain", [False, True])
async def test_another_servers_tool_of_that_name_is_neither_offered_nor_run(plain: bool) -> None:
    history: Sequence[Any] = await discovered_history()
    history = json.loads(json.dumps(dump_messages(history))) if plain else history
    other = Fixed("B", "search", "other")
    model = ScriptedModel([call("search"), "no", call("add_tool", tool_names=["B__search"]), call("B__search"), "ok"])
    async with Agent(model, tools=[other], tool_search=ToolSearch()) as agent:
        session = agent.session(messages=history)
        await session.ask("again")
        assert "search" not in offered(model.requests[0])
        refused = results(session.messages)[-1]
        assert refused.error == "unknown_tool"
        assert 'its source "A" no longer has it' in refused.text
        assert other.ran == []
        # Under its own name it can be found and used.
        await session.ask("B's then")
        assert other.ran == ["search"]
        assert list(session.discovered_tools) == ["B__search"]
        # A new conversation knows nothing of the old name.
        assert "search" in agent.session()._runtime.tools.known


async def test_with_both_servers_nothing_that_was_discovered_is_lost() -> None:
    history = await discovered_history()
    ours, other = Fixed("A", "search", "other"), Fixed("B", "search", "other")
    model = ScriptedModel([call("search"), "ok", call("search_tools", query="search"), "seen"])
    async with Agent(model, tools=[ours, other], tool_search=ToolSearch()) as agent:
        assert set(agent._runtime.tools.known) == {"A__search", "A__other", "B__search", "B__other"}
        session = agent.session(messages=history)
        assert list(session.discovered_tools) == ["search"]
        await session.ask("again")
        assert (ours.ran, other.ran) == (["search"], [])
        assert offered(model.requests[0])[-1] == "search"
        await session.ask("what is there?")
        found = json.loads(results(session.messages)[-1].text)["tools"]
        names = {item["name"] for item in found}
        assert {"search", "B__search"} <= names
        assert "A__search" not in names


async def test_a_server_that_joins_gets_its_name_of_the_history_back() -> None:
    history = await discovered_history()
    ours, other = Fixed("A"), Fixed("B", "search")
    model = ScriptedModel(["waiting", call("search"), "ok"])
    async with Agent(model, tools=[ours, other], tool_search=ToolSearch()) as agent:
        session = agent.session(messages=history)
        await session.ask("x")
        assert list(session.discovered_tools) == []
        ours.names = ["search"]
        await session.ask("y")
        assert list(session.discovered_tools) == ["search"]
        assert (ours.ran, other.ran) == (["search"], [])


async def test_one_server_under_two_prefixes_is_two_tools() -> None:
    tools = Fixed("A", "search")
    script: list[Reply] = [call("add_tool", tool_names=["x_search"]), "added", "again"]
    async with Agent(
        ScriptedModel(script), tools=[prefixed(tools, "x"), prefixed(tools, "y")], tool_search=ToolSearch()
    ) as agent:
        await agent.ask("add")
        session = agent.session(messages=agent.messages)
        assert list(session.discovered_tools) == ["x_search"]


async def test_a_signature_that_was_shown_is_of_that_servers_tool() -> None:
    script: list[Reply] = [call("search_tools", query="search"), "seen"]
    async with Agent(ScriptedModel(script), tools=[Fixed("A", "search")], tool_search=ToolSearch()) as agent:
        await agent.ask("look")
        history = agent.messages
    other = Fixed("B", "search")
    async with Agent(ScriptedModel([call("search"), "no"]), tools=[other], tool_search=ToolSearch()) as agent:
        session = agent.session(messages=history)
        await session.ask("call it")
        assert other.ran == []
        assert results(session.messages)[-1].error == "unknown_tool"


# -- limits, prompts, histories ---------------------------------------------------------------------------------------


class Costly:
    """A model that calls a tool for ever, at a price."""

    name = "costly:test"

    def __init__(self, dollars: float | None = 0.5) -> None:
        self.asked, self.dollars = 0, dollars

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.asked += 1
        parts = (ToolCall(f"c{self.asked}", "count", {"number": self.asked}),)
        return ModelResponse(Message("assistant", parts), Usage(90, 10, requests=1), "tool_calls", self.dollars)

    async def aclose(self) -> None:
        return None


def count(number: int) -> int:
    """Counts."""
    return number


@each_row(
    "options, dollars, asked, said",
    [
        (RunOptions(limits=Limits(tokens=250)), 0.5, 3, "300 tokens without an answer (Limits(tokens=250) of a run)"),
        (RunOptions(limits=Limits(dollars=1.0)), 0.5, 2, "without an answer (Limits(dollars=1.0) of a run)"),
        (
            RunOptions(limits=Limits(dollars=1.0)),
            None,
            1,
            "the price of this model, or of a tool that its provider ran, is not known",
        ),
    ],
)
async def test_a_budget_ends_the_run_before_the_next_request(
    options: RunOptions, dollars: float | None, asked: int, said: str
) -> None:
    model = Costly(dollars)
    async with Agent(model, tools=[count], options=options) as agent:
        session = agent.session()
        with pytest.raises(LimitError) as caught:
            await session.ask("count")
        assert said in str(caught.value)
        assert model.asked == asked
        assert session.spent.usage.requests == asked
        # Each run has the budget anew, and the history is valid.
        with pytest.raises(LimitError):
            await session.ask("again")
        assert model.asked == 2 * asked


async def test_a_callers_budget_holds_for_the_agents_that_it_calls() -> None:
    helper_model = Costly()
    helper = Agent(helper_model, tools=[count])
    asking = Message("assistant", (call("helper", prompt="count"),))
    boss = ScriptedModel([ModelResponse(asking, Usage(1, 1, requests=1), "tool_calls", 0.0), "done"])
    async with Agent(
        boss, tools=[helper.as_tool("helper", "Helps.")], options=RunOptions(limits=Limits(tokens=250))
    ) as agent:
        with pytest.raises(LimitError):
            await agent.ask("go")
        assert helper_model.asked == 3


async def test_instructions_may_be_a_function_of_the_run() -> None:
    asked: list[str] = []

    async def instructions(context: RunContext[str]) -> str:
        asked.append(context.deps)
        return f"You talk to {context.deps}."

    model = ScriptedModel(["1", "2", "3"])
    async with Agent(model, instructions=instructions) as agent:
        session = agent.session(deps="ann")
        await session.ask("x")
        await session.ask("y")
        await agent.session(deps="bob").ask("z")
    assert [request.system for request in model.requests] == ["You talk to ann."] * 2 + ["You talk to bob."]
    assert asked == ["ann", "bob"]


async def test_ask_with_history_keeps_images_and_texts_apart() -> None:
    model = ScriptedModel(["seen"])
    last = Message("user", (Text("What is"), Image("image/png", "iVBORw0KGgo="), Text("this?")))
    async with Agent(model) as agent:
        answer, messages = await agent.ask_with_history([last])
    assert answer == "seen"
    assert model.requests[0].messages[-1].parts == last.parts
    assert messages[0].parts == last.parts


@each_row(
    "prompt, said",
    [
        ([], "prompt is empty"),
        ("", "prompt is empty"),
        ([Text(" ")], "prompt is empty"),
        (None, "prompt: expected text, or a list of texts and files, got NoneType"),
        (b"x", "got bytes"),
        (3, "got int"),
        ([3], "got int in it"),
        ([Image("image/png", "@")], "image/png, 0 bytes; its data is not valid Base64"),
        ([File("/no/such/file")], "cannot be read"),
        ([File(3)], "prompt: File"),  # type: ignore[arg-type]
        ({"role": "user"}, "got dict"),
    ],
)
async def test_what_is_no_prompt_is_told_in_one_line(prompt: Any, said: str) -> None:
    model = ScriptedModel(["fine"])
    async with Agent(model) as agent:
        for ask in (agent.ask, agent.run, agent.session().ask):
            with pytest.raises(InputError, match=said) as caught:
                await ask(prompt)
            assert "\n" not in str(caught.value)
        assert model.requests == []
        assert await agent.ask("x") == "fine"


@each_row(
    "options, said",
    [
        ({"tool_search": "on"}, 'Agent: tool_search: expected True or False or "auto" or ToolSearch'),
        ({"tool_search": 5}, r"tool_search: expected .* or None, got int 5"),
        ({"with_tool_search_mode": "yes"}, 'with_tool_search_mode: expected True or False or "auto", got str'),
        ({"code_mode": "yes"}, r"code_mode: expected True or False or CodeMode\(\.\.\.\), got str"),
        ({"pre_discovered_tools": "x"}, r'pre_discovered_tools: expected a list, got a text; write \["..."\]'),
        ({"pre_discovered_tools": [1]}, r"pre_discovered_tools\[0\]: expected a text, got int 1"),
        ({"tools": count}, r"tools: expected list"),
        ({"tools": [3]}, "tools: expected functions, tools and toolsets, got int"),
        ({"options": 5}, "options: expected RunOptions"),
        ({"sessions": 5}, "sessions: expected .*, got int 5"),
        ({"instructions": 5}, "instructions: expected a text or a function, got int"),
    ],
)
def test_a_wrong_type_is_told_when_the_agent_is_made(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Agent("offline", **options)
    assert "\n" not in str(caught.value)


@each_row(
    "wrong",
    [{"limits": None}, {"session_limits": {"turns": 1}}, {"limits": 5}, {"tool_timeout_seconds": 0}, {"servers": {}}],
)
def test_options_that_allow_nothing_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RunOptions(**wrong)


# -- the loop ---------------------------------------------------------------------------------------------------------


async def test_results_are_in_call_order_after_a_cancellation() -> None:
    slow, quick = Slow(), asyncio.Event()

    async def fast() -> str:
        """Is fast."""
        quick.set()
        return "done"

    calls = [call("wait", "1"), call("fast", "2"), call("wait", "3")]
    async with Agent(ScriptedModel([calls]), tools=[slow.wait, fast]) as agent:
        running = asyncio.create_task(agent.ask("go"))
        await asyncio.wait_for(quick.wait(), WAIT_SECONDS)
        await asyncio.wait_for(slow.entered.wait(), WAIT_SECONDS)
        for _ in range(5):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [(result.call_id, result.error) for result in results(agent.messages)] == [
            ("1", "cancelled"),
            ("2", None),
            ("3", "cancelled"),
        ]


async def test_texts_of_a_given_history_are_cleaned_as_a_prompt_is() -> None:
    """NUL and lone surrogates can be sent to no provider: one in an old message would end every later request."""
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "a\0b"},
        {"role": "assistant", "content": "x\ud800", "tool_calls": [TOOL_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "r\0"},
        {"role": "assistant", "content": "fine"},
    ]
    values = (Message("user", (Text("a\0b"),)), Message("assistant", (Text("fine"),)))
    async with Agent(ScriptedModel(["one", "two"])) as agent:
        session = agent.session(messages=history)
        assert [message.text for message in session.messages if message.role != "tool"] == ["a\ufffdb", "x?", "fine"]
        assert results(session.messages)[0].text == "r\ufffd"
        kept = agent.session(messages=values).messages
        assert [message.text for message in kept] == ["a\ufffdb", "fine"]
        assert kept[1] is values[1]


TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}


def test_an_agent_among_the_tools_is_told_how_to_be_one() -> None:
    with pytest.raises(ConfigError, match=r"use agent\.as_tool\(name, description\)"):
        Agent(tools=[Agent()])  # type: ignore[list-item]


# -- other doors ------------------------------------------------------------------------------------------------------


async def test_a_notebook_may_use_ask_sync_and_then_await() -> None:
    agent = Agent(ScriptedModel(["one", "two", "three"]))
    try:
        assert agent.ask_sync("1") == "one"
        assert await agent.ask("2") == "two"
        assert (await agent.run("3")).answer == "three"
        assert len(agent.messages) == 6
    finally:
        agent.close()


async def test_agents_and_sessions_say_what_they_are() -> None:
    agent = Agent(ScriptedModel(["one"]), tools=[count])
    assert repr(agent) == "<Agent model not chosen, not started>"
    async with agent:
        assert repr(agent) == "<Agent scripted:test, 0 servers, 1 tools, 1 sessions>"
        session = agent.session(id="ann")
        assert repr(session) == "<Session ann: 0 messages, 1 tools, idle>"


async def test_approvals_of_two_sessions_do_not_wait_for_each_other() -> None:
    barrier = asyncio.Barrier(2)

    async def decide(_request: object) -> bool:
        await asyncio.wait_for(barrier.wait(), WAIT_SECONDS)
        return True

    def model(request: ModelRequest) -> Any:
        return "done" if request.messages[-1].role == "tool" else ToolCall("c", "count", {"number": 1})

    policy = ApprovalPolicy(True, decide)
    async with Agent(ScriptedModel([model] * 4), tools=[count], approval=policy) as agent:
        assert [*await asyncio.gather(agent.session().ask("a"), agent.session().ask("b"))] == ["done", "done"]


# -- what fits the model ----------------------------------------------------------------------------------------------


class Narrow(ScriptedModel):
    """A scripted model that takes only so much."""

    def __init__(self, replies: Sequence[Reply], limits: ToolLimits) -> None:
        super().__init__(replies)
        self.limits = limits

    def tool_limits(self) -> ToolLimits:
        return self.limits


@each_row(
    "limits, said",
    [
        (ToolLimits(max_tools=128), "142 tools are more than the model takes (128)"),
        (ToolLimits(window_tokens=8_192), "more than 50% of its window of 8,192 tokens"),
    ],
)
@each_row("mode", ["auto", "normal", "off"])
async def test_more_tools_than_fit_the_model_are_searched(limits: ToolLimits, said: str, mode: str) -> None:
    modes: dict[str, Any] = {
        "auto": {"with_tool_search_mode": "auto"},
        "off": {"tool_search": ToolSearch(enabled=False)},
    }
    heard: list[Event] = []
    model = Narrow(["hello"], limits)
    agent = Agent(model, tools=[Many(many_tools(142))], on_event=heard.append, **modes.get(mode, {}))
    if mode == "off":
        with pytest.raises(ConfigError, match=re.escape(said)):
            await agent.__aenter__()
        return
    async with agent:
        await agent.ask("hi")
    assert offered(model.requests[0]) == ["search_tools", "add_tool"]
    told = [event.text for event in heard if isinstance(event, Notice)]
    assert any(said in text and "tool search is on" in text for text in told) is (mode == "normal")


async def test_as_many_tools_as_fit_are_offered() -> None:
    model = Narrow(["hello"], ToolLimits(max_tools=128))
    async with Agent(model, tools=[Many(many_tools(128))]) as agent:
        await agent.ask("hi")
    assert len(offered(model.requests[0])) == 128


async def test_no_more_tools_are_added_than_fit() -> None:
    names = [f"tool_{number}" for number in range(8)]
    script: list[Reply] = [call("add_tool", "1", tool_names=names), call("add_tool", "2", tool_names=names[:6]), "done"]
    model = Narrow(script, ToolLimits(max_tools=8))
    async with Agent(model, tools=[Many(many_tools(142))], tool_search=ToolSearch()) as agent:
        await agent.ask("hi")
        first, second = results(agent.messages)
    assert (first.error, second.error) == ("invalid_arguments", None)
    assert "takes 6 tools more" in first.text
    assert len(offered(model.requests[-1])) == 8


@each_row(
    "history",
    [
        [
            {"role": "system", "content": "Speak French."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "count", "arguments": '{"number": 1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "1"},
            {"role": "assistant", "content": "one"},
        ],
        [
            {"role": "system", "content": "Speak French."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "count", "input": {"number": 1}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "one"}]},
        ],
    ],
)
async def test_histories_of_other_apis_are_read(history: list[dict[str, Any]]) -> None:
    model = ScriptedModel(["deux", "trois"])
    async with Agent(model, tools=[count], instructions="Be brief.") as agent:
        await agent.session(messages=history, trusted=True).ask("and then?")
        answer, _ = await agent.ask_with_history([*history, {"role": "user", "content": "et puis?"}], trusted=True)
    assert answer == "trois"
    for request in model.requests:
        assert request.system == "Be brief.\n\nSpeak French."
        assert [message.role for message in request.messages] == ["user", "assistant", "tool", "assistant", "user"]
        assert request.messages[1].tool_calls[0].arguments == {"number": 1}
        assert request.messages[2].tool_results[0].text == "1"
