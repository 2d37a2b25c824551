"""Answers as data through runs: a second try, calls that wait, another process, recordings, agents within agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CallsPendingError,
    InputError,
    LimitError,
    Limits,
    Message,
    ModelError,
    OutputError,
    Recorder,
    RecordingError,
    Replay,
    RunOptions,
    ScriptedModel,
    Sessions,
    Text,
    ToolCall,
    ToolSearch,
    Usage,
    deferred,
)
from mcpagent.errors import AgentStateError
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.prompt.builder import is_misfit_note
from mcpagent.values.events import AnswerRestarted, Event, RunFinished, SubagentEvent, TextDelta
from tests.journal.sessions.test_session_writer_after_a_kill import copy_of
from tests.run.output.used_types import City, Even, Trip
from tests.tables import each_row

GOOD = '{"name": "Rome", "people": 5}'
BAD = '{"name": "Rome"}'
ROME = City(name="Rome", people=5)
PAY = ToolCall("1", "pay", {"amount": 3})


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def notes(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "user" and is_misfit_note(message.text)]


async def test_what_does_not_fit_is_asked_for_once_more_and_told_by_field() -> None:
    model = ScriptedModel([BAD, GOOD])
    async with Agent(model) as agent:
        assert await agent.ask("Where?", output_type=City) == ROME
    first, second = model.requests
    assert first.output == second.output
    assert "must fit this JSON Schema" in first.system
    assert [m.role for m in second.messages] == ["user", "assistant", "user"]
    assert notes(second.messages) == [
        "That answer is not valid:\n- people: Field required\n"
        "Send the whole answer again in the required format, and nothing else."
    ]


async def test_validators_count() -> None:
    model = ScriptedModel(['{"number": 3}', '{"number": 4}'])
    async with Agent(model) as agent:
        assert await agent.ask("A number?", output_type=Even) == Even(number=4)
    assert "number: Value error, must be even, got 3" in model.requests[1].messages[-1].text


async def test_after_the_second_try_the_error_says_what_did_not_fit() -> None:
    model = ScriptedModel([BAD, '{"name": 1, "people": 2}', "In words."])
    async with Agent(model) as agent:
        with pytest.raises(OutputError) as told:
            await agent.ask("Where?", output_type=City)
        assert str(told.value).startswith("the answer does not fit output_type: name: Input should be a valid string")
        assert [problem.path for problem in told.value.problems] == ["name"]
        assert told.value.answer == '{"name": 1, "people": 2}'
        assert await agent.ask("And?") == "In words."
    assert model.requests[2].output is None


async def test_a_run_tells_and_raises_only_when_its_output_is_asked_for() -> None:
    async with Agent(ScriptedModel([BAD, BAD, GOOD, "In words."])) as agent:
        result = await agent.run("Where?", output_type=City)
        assert (result.stop, [problem.path for problem in result.problems]) == ("misfit", ["people"])
        with pytest.raises(OutputError, match="people: Field required"):
            _ = result.output
        fitting = await agent.run("Where?", output_type=City)
        assert (fitting.stop, fitting.output, fitting.problems) == ("answered", ROME, ())
        assert json.loads(fitting.answer) == json.loads(GOOD)
        assert (await agent.run("Where?")).output == "In words."


@each_row("stop, said", [("length", "cut off"), ("refusal", "refused")])
async def test_an_answer_that_is_cut_or_refused_is_not_asked_for_again(stop: Any, said: str) -> None:
    message = Message("assistant", (Text('{"name": "Ro'),))
    model = ScriptedModel([ModelResponse(message, Usage(), stop)])
    async with Agent(model) as agent:
        with pytest.raises(OutputError, match=said) as told:
            await agent.ask("Where?", output_type=City)
    assert (told.value.problems, told.value.answer) == ((), '{"name": "Ro')
    assert len(model.requests) == 1


async def test_text_beside_calls_is_no_answer_yet() -> None:
    both = Message("assistant", (Text(GOOD), PAY))
    async with Agent(ScriptedModel([both, '{"name": "Paris", "people": 2}']), tools=[pay]) as agent:
        assert (await agent.ask("Where?", output_type=City)).name == "Paris"


async def test_calls_in_the_second_try_are_run_and_there_is_no_third() -> None:
    model = ScriptedModel([BAD, PAY, BAD])
    async with Agent(model, tools=[pay]) as agent:
        result = await agent.run("Where?", output_type=City)
    assert result.stop == "misfit"
    assert len(notes(model.requests[-1].messages)) == 1


async def test_a_forced_answer_has_its_second_try() -> None:
    model = ScriptedModel([PAY, "I paid.", GOOD])
    async with Agent(model, tools=[pay], options=RunOptions(limits=Limits(turns=1))) as agent:
        result = await agent.run("Where?", output_type=City)
    assert (result.stop, result.output) == ("max_turns", ROME)
    assert [request.tool_choice for request in model.requests] == ["auto", "none", "none"]
    assert all(request.output is not None for request in model.requests)


@each_row("answers_without_type", [True, False])
async def test_calls_that_wait_keep_what_the_answer_is_to_be(answers_without_type: bool) -> None:
    model = ScriptedModel([PAY, BAD, GOOD, "In words."])
    async with Agent(model, tools=[pay], approval=True) as agent:
        session = agent.session()
        with pytest.raises(CallsPendingError):
            await session.ask("Pay.", output_type=City)
        assert "people" in (session.output_schema or {})["properties"]
        answers = [call.approve() for call in session.pending]
        if answers_without_type:
            assert json.loads(await session.resume(answers)) == json.loads(GOOD)
        else:
            assert await session.resume(answers, output_type=City) == ROME
        assert not session.output_schema
        assert await session.ask("And?") == "In words."
    assert [request.output is not None for request in model.requests] == [True, True, True, False]


async def test_answers_that_cannot_be_used_change_nothing_of_the_form() -> None:
    async with Agent(ScriptedModel([PAY, GOOD]), tools=[pay], approval=True) as agent:
        session = agent.session()
        with pytest.raises(CallsPendingError):
            await session.ask("Pay.", output_type=City)
        schema = session.output_schema
        with pytest.raises(InputError, match="missing"):
            await session.resume(output_type=Trip)
        assert session.output_schema == schema
        assert json.loads(await session.resume([call.approve() for call in session.pending])) == json.loads(GOOD)


async def test_a_new_question_is_not_asked_in_the_form_of_the_one_before() -> None:
    model = ScriptedModel([PAY, ModelError("down", provider="x"), "In words."])
    async with Agent(model, tools=[pay], approval=True) as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("Pay.", output_type=City)
        with pytest.raises(ModelError):
            await agent.ask("Where?", output_type=Trip)
        assert await agent.ask("And?") == "In words."
    assert model.requests[1].output is not None
    assert model.requests[1].output.name == "Trip"
    assert model.requests[2].output is None


async def test_a_run_that_a_limit_ended_goes_on_to_its_form() -> None:
    used = Usage(60, 0, requests=1)
    model = ScriptedModel([ModelResponse(Message("assistant", (PAY,)), used, "tool_calls"), BAD, GOOD])
    async with Agent(model, tools=[pay]) as agent:
        session = agent.session()
        with pytest.raises(LimitError):
            await session.ask("Pay.", output_type=City, limits=Limits(tokens=50))
        assert session.is_unfinished
        assert "people" in (session.output_schema or {})["properties"]
        assert json.loads(await session.resume()) == json.loads(GOOD)
        assert session.output_schema is None


async def test_a_run_that_is_not_finished_keeps_its_form_when_it_is_compacted() -> None:
    model = ScriptedModel(["one", "two", PAY, ModelError("down", provider="x"), "a summary", GOOD])
    async with Agent(model, tools=[pay]) as agent:
        session = agent.session()
        await session.ask("first")
        await session.ask("second")
        with pytest.raises(ModelError):
            await session.ask("Pay.", output_type=City)
        assert await session.compact()
        assert session.is_unfinished
        assert json.loads(await session.resume()) == json.loads(GOOD)


async def test_another_process_goes_on_to_the_same_form(tmp_path: Path) -> None:
    where = tmp_path / "s.db"
    model = ScriptedModel([PAY])
    async with Agent(model, tools=[pay], approval=True, sessions=Sessions(where)) as agent:
        with pytest.raises(CallsPendingError):
            await agent.session("ann").ask("Pay.", output_type=City)
    model = ScriptedModel([BAD, ModelError("down", provider="x")])
    async with Agent(model, tools=[pay], approval=True, sessions=Sessions(where)) as agent:
        session = agent.session("ann")
        with pytest.raises(ModelError):
            await session.resume([call.approve() for call in session.pending])
        assert model.requests[0].output is not None
        assert model.requests[0].output.name == "City"
    model = ScriptedModel([BAD])
    async with Agent(model, tools=[pay], sessions=Sessions(where)) as agent:
        session = agent.session("ann")
        assert session.is_unfinished
        with pytest.raises(OutputError, match="people"):  # the second try was made before
            await session.resume(output_type=City)
        assert session.output_schema is None
    async with Agent(ScriptedModel(["In words."]), sessions=Sessions(where)) as agent:
        session = agent.session("ann")
        assert session.output_schema is None
        assert await session.ask("And?") == "In words."


async def test_each_state_that_a_kill_leaves_goes_on_to_the_form(tmp_path: Path) -> None:
    def replies(request: ModelRequest) -> Any:
        assert request.output is not None
        if not any(message.tool_results for message in request.messages):
            return PAY
        return GOOD if notes(request.messages) else BAD

    taken: list[Path] = []
    (tmp_path / "first").mkdir()
    store = Sessions(tmp_path / "first" / "s.db")
    inside: Any = store._store
    append = inside.append

    def appending(session: str, entries: Any, owner: Any) -> bool:
        is_written = append(session, entries, owner)
        to = tmp_path / f"state{len(taken)}"
        copy_of(tmp_path / "first" / "s.db", to)
        taken.append(to / "s.db")
        return bool(is_written)

    inside.append = appending
    async with Agent(ScriptedModel([replies] * 3), tools=[pay], sessions=store) as agent:
        assert await agent.session("ann").ask("Pay.", output_type=City) == ROME
    ended = 0
    for path in taken:
        async with Agent(ScriptedModel([replies] * 3), tools=[pay], sessions=Sessions(path)) as agent:
            session = agent.session("ann")
            if not session.is_unfinished:
                ended += 1
                assert session.output_schema is None
                continue
            assert await session.resume(output_type=City) == ROME
            assert len(notes(session.messages)) == 1
    assert 0 < ended < len(taken)


async def test_calls_that_wait_after_a_misfit_are_no_misfit() -> None:
    async with Agent(ScriptedModel([BAD, PAY, GOOD]), tools=[pay], approval=True) as agent:
        result = await agent.run("Pay.", output_type=City)
        assert (result.stop, result.problems) == ("calls_pending", ())
        with pytest.raises(OutputError, match="calls wait"):
            _ = result.output
        again = await agent.run([call.approve() for call in result.pending], output_type=City)
        assert again.output == ROME


async def test_a_replay_gives_the_same_and_parts_where_another_form_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with Agent(ScriptedModel([BAD, GOOD]), options=RunOptions(wrappers=[Recorder(path)])) as agent:
        assert await agent.ask("Where?", output_type=City) == ROME
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
        assert await agent.ask("Where?", output_type=City) == ROME
    for other in (Trip, None):
        async with Agent(options=RunOptions(wrappers=[Replay(path)])) as agent:
            with pytest.raises(RecordingError, match=r"another form of the answer \(output_type\)"):
                await agent.ask("Where?", output_type=other)


async def test_an_agent_as_a_tool_gives_the_json_of_its_type() -> None:
    call = ToolCall("", "where", {"prompt": "Where?"})
    outer = ScriptedModel([[call, call], "Done."])
    helper = Agent(ScriptedModel([BAD, GOOD, BAD, BAD]), on_event=lambda _: None)
    heard: list[Event] = []
    tool = helper.as_tool("where", "Finds a city.", output_type=City)
    async with Agent(outer, tools=[tool], on_event=heard.append) as agent:
        await agent.ask("Go.")
    results = {result.error: result.text for result in outer.requests[1].messages[-1].tool_results}
    assert json.loads(results[None]) == json.loads(GOOD)
    assert results["failed"].startswith("the answer does not fit output_type: people: Field required")
    ends = [event.event for event in heard if isinstance(event, SubagentEvent)]
    stops = [event.stop for event in ends if isinstance(event, RunFinished)]
    assert sorted(stops) == ["answered", "misfit"]


async def test_a_stream_shows_what_has_come_and_forgets_what_is_dropped() -> None:
    def pieces(request: ModelRequest) -> str:
        return GOOD

    class InPieces(ScriptedModel):
        async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
            response = await super().respond(request, lambda _: None)
            emit(TextDelta('{"na'))
            emit(AnswerRestarted("again"))
            for start in range(0, len(GOOD), 11):
                emit(TextDelta(GOOD[start : start + 11]))
            return response

    async with Agent(InPieces([pieces])) as agent:
        async with agent.stream("Where?", output_type=City) as events:
            with pytest.raises(AgentStateError, match="not at its end"):
                _ = events.output
            shown = TextDelta | AnswerRestarted
            seen = [events.partial_output() async for event in events if isinstance(event, shown)]
        assert events.output == ROME
        assert seen[:4] == [{}, None, {"name": "R"}, {"name": "Rome"}]
        assert seen[-1] == json.loads(GOOD)
        plain = agent.stream("Where?")
        assert plain.partial_output() is None
        await plain.aclose()


async def test_a_type_that_is_none_is_told_before_anything_is_asked_or_said() -> None:
    model = ScriptedModel([])
    async with Agent(model) as agent:
        with pytest.raises(InputError, match=r"^output_type: "):
            await agent.ask("Where?", output_type=5)  # type: ignore[call-overload]
        with pytest.raises(InputError, match=r"^output_type: "):
            agent.stream("Where?", output_type=[int])  # type: ignore[call-overload]
        assert agent.messages == ()


async def test_sessions_at_once_have_types_of_their_own() -> None:
    def reply(request: ModelRequest) -> str:
        assert request.output is not None
        return GOOD if request.output.name == "City" else '{"to": "Rome"}'

    async with Agent(ScriptedModel([reply] * 6)) as agent:
        asked = [agent.session().ask("?", output_type=kind) for kind in (City, Trip) * 3]
        assert await asyncio.gather(*asked) == [ROME, Trip("Rome")] * 3


def test_code_without_an_event_loop_has_it_too() -> None:
    with Agent(ScriptedModel([GOOD, '{"result": [1, 2]}'])) as agent:
        assert agent.ask_sync("Where?", output_type=City) == ROME
        assert agent.session().ask_sync("Which?", output_type=list[int]) == [1, 2]


async def test_a_decision_at_once_and_several_calls_change_nothing() -> None:
    two = [ToolCall("", "pay", {"amount": 1}), ToolCall("", "pay", {"amount": 2})]
    approval = ApprovalPolicy(required=True, decide=lambda call: call.arguments["amount"] == 1)
    async with Agent(ScriptedModel([two, GOOD]), tools=[pay], approval=approval) as agent:
        result = await agent.run("Pay.", output_type=City)
    assert result.output == ROME
    assert [one.error for message in result.messages for one in message.tool_results] == [None, "denied"]


async def test_a_small_model_that_only_talks_of_a_tool_is_reminded_first() -> None:
    model = ScriptedModel(["I would use the tool `pay`.", PAY, BAD, GOOD], name="ollama:small-1b")
    model.is_small = lambda _: True  # type: ignore[attr-defined]
    async with Agent(model, tools=[pay]) as agent:
        assert await agent.ask("Pay.", output_type=City) == ROME
    assert "Call it now" in model.requests[1].messages[-1].text
    assert len(notes(model.requests[-1].messages)) == 1


async def test_a_large_answer_is_read_beside_the_loop() -> None:
    names = [f"city {number}" for number in range(10_000)]
    async with Agent(ScriptedModel([json.dumps({"result": names})])) as agent:
        assert await agent.ask("All?", output_type=list[str]) == names


async def test_what_the_question_finds_beforehand_changes_nothing() -> None:
    model = ScriptedModel([ToolCall("", "pay", {"amount": 3}), GOOD])
    search = ToolSearch(prefetch=3)
    async with Agent(model, tools=[deferred([pay])], tool_search=search) as agent:
        assert await agent.ask("Pay.", output_type=City) == ROME
    assert "pay" in [tool.name for tool in model.requests[0].tools]
    assert all(request.output is not None for request in model.requests)
