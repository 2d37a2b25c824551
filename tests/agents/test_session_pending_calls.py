"""Calls that wait for an answer, over sessions: handed over, rewound, cancelled, answered wrongly."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CallAnswer,
    InputError,
    PendingCall,
    RunContext,
    Text,
    Tool,
    ToolDefinition,
    ToolOutput,
    approval_required,
    dump_messages,
    external,
    filtered,
)
from mcpagent.agents.session import Session
from mcpagent.models.scripted import ScriptedModel
from tests.scenes import call, results
from tests.tables import each_row

SECONDS = 30


class Scene:
    """An agent whose first answer calls these; `act` waits for approval, `free` does not. `slow` acts never end."""

    def __init__(self, *names: str, slow: tuple[int, ...] = ()) -> None:
        self.ran: list[str] = []
        self.slow, self.acting = slow, asyncio.Event()
        calls = [call(name, str(place), number=place) for place, name in enumerate(names)]
        self.agent = Agent(
            ScriptedModel([*([calls] if calls else []), *["done"] * 4]),
            tools=[self.free, approval_required([self.act])],
        )

    async def act(self, number: int) -> str:
        """Acts."""
        self.ran.append(f"act{number}")
        if number in self.slow:
            self.acting.set()
            await asyncio.Event().wait()
        return f"acted{number}"

    def free(self, number: int) -> str:
        """Is free."""
        self.ran.append(f"free{number}")
        return f"freed{number}"


def words(session: Session[Any]) -> list[str]:
    return [result.text for result in results(session.messages)]


async def test_a_session_goes_on_with_the_open_calls_of_its_history() -> None:
    first, other = Scene("act", "free"), Scene()
    async with first.agent:
        session = first.agent.session()
        [request] = (await session.run("go")).pending
        history = json.loads(json.dumps(dump_messages(session.messages)))
    async with other.agent:
        session = other.agent.session(request.session, messages=history)
        assert words(session) == ["freed1"]
        with pytest.raises(InputError, match=r'missing: "act" \(0\)'):
            await session.resume([])
        await session.resume([request.approve()])
        assert words(session) == ["acted0", "freed1"]
        closing = other.agent.session(messages=history)
        await closing.ask("something else")
        assert [result.error for result in results(closing.messages)] == ["cancelled", None]
    assert (first.ran, other.ran) == (["free1"], ["act0"])


async def test_an_answer_is_good_for_one_call_of_one_session() -> None:
    """Also where calls have the same id and say the same."""
    again = [call("act", "0", number=0)]
    scene = Scene()
    async with Agent(ScriptedModel([again, "done"] * 2), tools=[approval_required([scene.act])]) as agent:
        session = agent.session()
        [first] = (await session.run("go")).pending
        assert await session.resume([first.approve()]) == "done"
        [second] = (await session.run("go")).pending
        assert (first.call_id, first.tool, first.arguments) == (second.call_id, second.tool, second.arguments)
        assert await session.resume([first.approve()]) == "done"
        assert results(session.messages)[-1].error == "denied"
    assert scene.ran == ["act0"]
    async with Agent(ScriptedModel([again, again, "done", "done"]), tools=[approval_required([scene.act])]) as agent:
        mine, others = agent.session(), agent.session()
        [asked] = (await mine.run("go")).pending
        [own] = (await others.run("go")).pending
        with pytest.raises(InputError, match="an answer is of another session"):
            await others.resume([CallAnswer.from_json(asked.approve().to_json())])
        assert others.pending == (own,)
        assert await others.resume([own.approve()]) == "done"
        assert await mine.resume([asked.deny()]) == "done"
    assert scene.ran == ["act0", "act0"]


async def test_approvals_that_wait_outlast_another_model_and_a_rewind_to_the_same_place() -> None:
    scene = Scene("act")
    async with scene.agent as agent:
        session = agent.session()
        [request] = (await session.run("go")).pending
        await agent.use_model(ScriptedModel(["done"]))
        session.rewind(len(session.messages))
        assert list(session.pending) == [request]
        assert "1 pending" in repr(session)
        assert await session.resume([request.approve()]) == "done"
        assert list(session.pending) == []
    assert scene.ran == ["act0"]


async def test_approvals_that_are_rewound_wait_no_longer() -> None:
    scene = Scene("act")
    async with scene.agent as agent:
        session = agent.session()
        [request] = (await session.run("go")).pending
        session.rewind(1)
        assert session.pending == ()
        with pytest.raises(InputError, match=r'no call "0" waits for an answer; see session\.pending'):
            await session.resume([request.approve()])


async def test_after_a_cancelled_resume_nothing_is_said_to_wait_that_cannot_be_answered() -> None:
    scene = Scene("act", "act", "act", slow=(1,))
    async with asyncio.timeout(SECONDS), scene.agent as agent:
        session = agent.session()
        requests = (await session.run("go")).pending
        assert len(requests) == 3
        resuming = asyncio.create_task(session.resume([request.approve() for request in reversed(requests)]))
        await scene.acting.wait()
        resuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await resuming
        assert session.pending == ()
        assert [result.call_id for result in results(session.messages)] == ["0", "1", "2"]
        with pytest.raises(InputError, match='no call "0" waits'):
            await session.resume([requests[0].approve()])
        assert session.is_unfinished
        assert await session.ask("next") == "done"


@each_row(
    "answers, said",
    [
        ([], r'answer every call that waits; missing: "act" \(0\)'),
        (None, "expected a list of CallAnswer.*NoneType"),
        ("yes", "expected a list of CallAnswer.*str"),
        ([True], "expected a list of CallAnswer.*bool"),
        ([Text("yes")], "expected a list of CallAnswer.*Text"),
        ({"0": True}, "expected a list of CallAnswer.*dict"),
    ],
)
async def test_what_is_no_answer_is_told_and_changes_nothing(answers: Any, said: str) -> None:
    scene = Scene("act")
    async with scene.agent as agent:
        session = agent.session()
        [request] = (await session.run("go")).pending
        with pytest.raises(InputError, match=said):
            await session.resume(answers)
        assert session.pending == (request,)
        with pytest.raises(InputError, match=r'two answers for call "0"'):
            await session.resume([request.approve(), request.deny()])
        with pytest.raises(InputError, match=r"expected a list of CallAnswer.*Text"):
            async with session.stream([request.approve(), Text("and now?")]):
                pass
        with pytest.raises(InputError, match="got CallAnswer in it"):
            await session.ask([request.approve()])  # type: ignore[list-item]
        assert scene.ran == []
        assert await session.resume([request.approve()]) == "done"
    assert scene.ran == ["act0"]


async def test_results_of_answered_calls_stand_between_those_of_the_others() -> None:
    scene = Scene("act", "free", "act", "free")
    async with scene.agent as agent:
        session = agent.session()
        requests = (await session.run("go")).pending
        await session.resume([request.approve() for request in requests])
        assert words(session) == ["acted0", "freed1", "acted2", "freed3"]
        assert [message.role for message in session.messages] == ["user", "assistant", "tool", "assistant"]


async def test_results_of_calls_that_are_given_up_stand_between_those_of_the_others() -> None:
    scene = Scene("act", "free", "act", "free")
    async with scene.agent as agent:
        session = agent.session()
        await session.run("go")
        result = await session.run("never mind")
        assert [part.call_id for part in results(session.messages)] == ["0", "1", "2", "3"]
        assert [message.role for message in result.messages] == ["user", "assistant"]


@each_row("length, left", [(0, 0), (1, 1), (2, 1), (3, 3), (4, 4)])
async def test_a_rewind_never_parts_calls_from_their_results(length: int, left: int) -> None:
    scene = Scene("free", "free")
    async with scene.agent as agent:
        session = agent.session()
        await session.ask("go")
        before = session.messages
        session.rewind(length)
        assert session.messages == before[:left]
        await session.ask("again")
        assert words(session) == (["freed0", "freed1"] if left > 1 else [])


@each_row("length", [-1, 3, "1", 1.0, True, None])
async def test_a_length_that_is_none_is_told(length: Any) -> None:
    async with Agent(ScriptedModel(["one"])) as agent:
        await agent.ask("go")
        with pytest.raises(InputError, match="rewind:"):
            agent._runtime.own_session.rewind(length)
        assert len(agent.messages) == 2


# -- what waited is answered, whatever became of it meanwhile ---------------------------------------------------------


@dataclass
class Changing:
    """Two tools of a toolset; what the approval of `pay` says, and which tools there are, changes while they wait."""

    ran: list[str] = field(default_factory=list[str])
    hidden: set[str] = field(default_factory=set[str])
    asks: int = 0
    rule: str = ""

    def pay(self, amount: int) -> str:
        """Pays."""
        self.ran.append(f"pay {amount}")
        return "paid"

    def wipe(self, amount: int) -> str:
        """Wipes."""
        self.ran.append(f"wipe {amount}")
        return "wiped"

    def needs(self, context: RunContext[Any], definition: ToolDefinition, _arguments: dict[str, Any]) -> bool:
        self.asks += 1
        if definition.name == "wipe" or self.asks <= 2:
            return True
        if self.rule == "raises":
            raise ConnectionError("the policy is down")
        holds = {"prompt": "prod" in context.prompt, "deps": bool(context.deps != "admin"), "time": False}
        return holds.get(self.rule, True)

    def agent(self) -> Agent:
        calls = [call("pay", "1", amount=900), call("wipe", "2", amount=1)]
        tools = filtered([self.pay, self.wipe], lambda _, definition: definition.name not in self.hidden)
        return Agent(ScriptedModel([calls, "done", "done"]), tools=[tools], approval=self.needs)


CHANGES = ["prompt", "deps", "time", "raises", "pay is gone", "both are gone", "nothing"]


@each_row("change", CHANGES)
@each_row("said", ["deny", "approve"])
async def test_what_waits_is_answered_and_never_runs_unanswered(change: str, said: str) -> None:
    scene = Changing(rule=change)
    async with scene.agent() as agent:
        session = agent.session(deps="ann")
        first = (await session.run("do it on prod")).pending
        scene.hidden = {"pay is gone": {"pay"}, "both are gone": {"pay", "wipe"}}.get(change, set())
        assert session.pending == first
        with pytest.raises(InputError, match=r'missing: "pay" \(1\)'):
            await session.resume([first[1].deny()])
        assert scene.ran == []
        answers = [getattr(request, said)() for request in session.pending]
        assert await session.resume(answers, deps="admin") == "done"
        told = results(session.messages)
    assert session.pending == ()
    if said == "deny":
        assert [result.error for result in told] == ["denied", "denied"]
        assert "declined" in told[0].text
        assert scene.ran == []
    else:
        there = [name for name in ("pay 900", "wipe 1") if name.split()[0] not in scene.hidden]
        assert scene.ran == there
        assert [result.error for result in told] == [
            "unknown_tool" if name in scene.hidden else None for name in ("pay", "wipe")
        ]


async def test_what_a_run_was_asked_is_known_when_it_is_resumed() -> None:
    prompts: list[str] = []

    def act(context: RunContext[Any]) -> str:
        """Acts."""
        prompts.append(context.prompt)
        return "done"

    async with Agent(ScriptedModel([call("act"), "ok"]), tools=[approval_required([act])]) as agent:
        session = agent.session()
        await session.run("on prod")
        saved = dump_messages(session.messages)
        await session.resume([request.approve() for request in session.pending])
    async with Agent(ScriptedModel(["ok"]), tools=[approval_required([act])]) as agent:
        later = agent.session(messages=saved)
        await later.resume([request.approve() for request in later.pending])
    assert prompts == ["on prod", "on prod"]


async def test_an_answer_of_the_other_kind_is_an_error_and_runs_nothing() -> None:
    definition = ToolDefinition("measure", "Measures.", {"type": "object"})
    scene = Scene("act")
    async with scene.agent as agent:
        session = agent.session()
        [waits] = (await session.run("go")).pending
        with pytest.raises(InputError, match='"act" waits for approval, not for a result'):
            waits.result("done by hand")
        for wrong in ("not a dict", 5, ["x"]):
            with pytest.raises(InputError, match="approve: expected arguments as a dict"):
                waits.approve(wrong)  # type: ignore[arg-type]
        forged = CallAnswer.from_json({**waits.approve().to_json(), "kind": "external", "value": "by hand"})
        assert await session.resume([forged]) == "done"
        assert results(session.messages)[0].error == "denied"
    assert scene.ran == []
    async with Agent(ScriptedModel([call("measure"), "done"]), tools=[external([definition])]) as agent:
        session = agent.session()
        [waits] = (await session.run("go")).pending
        with pytest.raises(InputError, match='"measure" is run by you; give what it gave'):
            waits.approve()
        assert await session.resume([waits.result({"cm": 5})]) == "done"
        assert words(session) == ['{"cm": 5}']


async def test_a_history_from_elsewhere_says_what_waits_in_it() -> None:
    first, other = Scene("act", "free"), Scene()
    async with first.agent:
        session = first.agent.session()
        there = (await session.run("go")).pending
        history = json.loads(json.dumps(dump_messages(session.messages)))
        kept = json.loads(json.dumps([request.to_json() for request in there]))
    async with other.agent:
        session = other.agent.session(messages=history)
        assert there == tuple(map(PendingCall.from_json, kept))
        assert [(one.tool, one.arguments, one.session) for one in session.pending] == [
            ("act", {"number": 0}, session.id)
        ]
        assert "1 pending" in repr(session)
        assert await session.resume([request.approve() for request in session.pending]) == "done"
        assert session.pending == ()
    async with Agent(ScriptedModel(["done"])) as without:
        session = without.session(messages=history)
        assert [request.tool for request in session.pending] == ["act"]
        assert await session.resume([request.approve() for request in session.pending]) == "done"
        assert [result.error for result in results(session.messages)] == ["unknown_tool", None]
    assert other.ran == ["act0"]


@each_row(
    "change",
    [{"kind": "maybe"}, {"call_id": 5}, {"arguments": []}, {"more": 1}, {"server": 5}, {"fingerprint": None}],
)
async def test_what_is_no_pending_call_is_told(change: dict[str, Any]) -> None:
    scene = Scene("act")
    async with scene.agent as agent:
        [request] = (await agent.session().run("go")).pending
    with pytest.raises(InputError, match=f"pending call: wrong or missing {next(iter(change))}"):
        PendingCall.from_json({**request.to_json(), **change})
    data = request.to_json()
    del data["tool"]
    with pytest.raises(InputError, match="pending call: wrong or missing tool"):
        PendingCall.from_json(data)


async def test_a_call_that_was_cancelled_while_it_waited_for_a_person_is_told_not_to_have_run() -> None:
    asked = asyncio.Event()

    async def decide(_request: PendingCall) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async def free() -> str:
        """Is free."""
        freed.set()
        return "freed"

    scene, freed = Scene("act"), asyncio.Event()
    agent = Agent(
        ScriptedModel([[call("act", "0", number=0), call("free", "1")], "done"]),
        tools=[free, approval_required([scene.act])],
        approval=ApprovalPolicy(decide=decide),
    )
    async with asyncio.timeout(SECONDS), agent:
        session = agent.session()
        running = asyncio.create_task(session.ask("go"))
        await asked.wait()
        await freed.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert "was not run" in words(session)[0]
    assert scene.ran == []


@each_row("edited", ["notes:///b", "notes:///secret"])
async def test_arguments_edited_into_a_request_for_something_else_are_judged_anew(edited: str) -> None:
    read: list[str] = []

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        read.append(arguments["uri"])
        return ToolOutput.of_text("read")

    def asks(definition: ToolDefinition, arguments: dict[str, Any]) -> ToolDefinition:
        return replace(definition, original_name=str(arguments.get("uri")))

    shown: list[str] = []

    def decide(request: PendingCall) -> CallAnswer | bool:
        shown.append(request.arguments["uri"])
        if request.arguments["uri"] == "notes:///a":
            return request.approve({"uri": edited})
        return bool(request.arguments["uri"] != "notes:///secret")

    schema = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    tool = Tool(ToolDefinition("get_resource", "", schema), run, asks=asks)
    model = ScriptedModel([call("get_resource", uri="notes:///a"), "done"])
    async with Agent(model, tools=[tool], approval=ApprovalPolicy(required=True, decide=decide)) as agent:
        assert await agent.ask("go") == "done"
        [result] = results(agent.messages)
    assert shown == ["notes:///a", edited]
    assert (read, result.error) == (([edited], None) if edited == "notes:///b" else ([], "denied"))
