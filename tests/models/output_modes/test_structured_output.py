"""Answers as data against simulated providers of the three protocols, which refuse what is not in their subsets."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mcpagent import Agent, Limits, ModelSettings, OutputError, RunOptions, ToolSearch
from mcpagent.models import AnthropicModel, FallbackModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import AnswerRestarted, Notice, RequestSent, RunFinished, TextDelta
from tests.run.output.held import Writer
from tests.run.output.used_types import ROME, USED, City, Trip
from tests.simulator.server import Fault, Simulator
from tests.simulator.values import Said, View
from tests.tables import each_row
from tests.wire.provider import Waits

KEPT: dict[str, Any] = {"api_key": "k", "max_retries": 0, "sleep": Waits()}
Maker = Callable[[str], HttpModel]
MODELS: dict[str, tuple[Maker, str, str]] = {
    # how it is made, the way it is asked without tools, and with some
    "claude": (lambda url: AnthropicModel("claude-sonnet-4-6", base_url=url, **KEPT), "native", "native"),
    "claude that thinks": (
        lambda url: AnthropicModel(
            "claude-opus-5-5", base_url=url, **KEPT, settings=ModelSettings(thinking="high", max_output_tokens=9000)
        ),
        "native",
        "native",
    ),
    "old claude": (lambda url: AnthropicModel("claude-sonnet-4-0", base_url=url, **KEPT), "tool", "tool"),
    "old claude that thinks": (
        lambda url: AnthropicModel("claude-sonnet-4-0", base_url=url, **KEPT, settings=ModelSettings(thinking="low")),
        "tool",
        "tool",
    ),
    "responses": (lambda url: OpenAIResponsesModel("gpt-5.5", base_url=f"{url}/v1", **KEPT), "native", "native"),
    "responses elsewhere": (lambda url: OpenAIResponsesModel("m", base_url=f"{url}/v1", **KEPT), "tool", "tool"),
    "chat": (lambda url: OpenAIChatModel("gpt-4o", base_url=f"{url}/v1", **KEPT), "native", "native"),
    "old chat": (lambda url: OpenAIChatModel("gpt-4-turbo", base_url=f"{url}/v1", **KEPT), "tool", "tool"),
    "deepseek": (lambda url: OpenAIChatModel("r", base_url=f"{url}/v1", provider="deepseek", **KEPT), "tool", "tool"),
    "vllm": (lambda url: OpenAIChatModel("m", base_url=f"{url}/v1", provider="vllm", **KEPT), "native", "tool"),
    "gemini": (
        lambda url: OpenAIChatModel("gemini-3", base_url=f"{url}/v1beta/openai", provider="gemini", **KEPT),
        "native",
        "tool",
    ),
}


def look(place: str) -> str:
    """Looks at a place."""
    return f"{place}: people live there"


def way_of(body: dict[str, Any]) -> str:
    native = "format" in body.get("output_config", {}) or "format" in body.get("text", {}) or "response_format" in body
    return "native" if native else "tool" if "submit_answer" in json.dumps(body.get("tools", [])) else "text"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
async def test_every_type_comes_back_from_every_protocol(name: str) -> None:
    made, way, _ = MODELS[name]
    for label, (output_type, document, value) in USED.items():
        writer = Writer(output_type, document)
        async with Simulator(writer) as simulator, Agent(made(simulator.url)) as agent:
            result = await agent.run("Where?", output_type=output_type)
            assert result.output == value, label
            assert result.stop == "answered"
            assert [refusal.message for refusal in simulator.log.refused] == []
            (body,) = simulator.log.bodies
            beyond = name.startswith("claude") and label in ("open", "dict", "any schema", "recursive")
            assert way_of(body) == ("tool" if beyond else way), label
            if way_of(body) == "tool":
                assert writer.seen[0].must_call == ("" if "thinks" in name else "any")
            assert json.loads(agent.messages[-1].text) is not None  # the history has words alone
            assert not agent.messages[-1].tool_calls
            assert await agent.ask("And?", output_type=output_type) == value


@each_row("name", MODELS)
async def test_with_tools_the_way_is_one_that_leaves_calls_possible(name: str) -> None:
    made, _, way = MODELS[name]
    writer = Writer(City, ROME, calls=[[("look", {"place": "Rome"}), ("look", {"place": "Paris"})]])
    async with Simulator(writer) as simulator, Agent(made(simulator.url), tools=[look]) as agent:
        result = await agent.run("Where?", output_type=City)
        assert result.output == City(**ROME)
        assert [refusal.message for refusal in simulator.log.refused] == []
        assert {way_of(body) for body in simulator.log.bodies} == {way}
        assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]


@each_row("name", MODELS)
async def test_with_tool_search_no_earlier_byte_changes(name: str) -> None:
    made, _, way = MODELS[name]
    calls: list[list[Said]] = [
        [("search_tools", {"query": "look"})],
        [("add_tool", {"tool_names": ["look"]})],
        [("look", {"place": "Rome"})],
    ]
    writer = Writer(City, ROME, calls=calls)
    async with Simulator(writer) as simulator:
        agent = Agent(made(simulator.url), tools=[look], tool_search=ToolSearch())
        async with agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
        assert [refusal.message for refusal in simulator.log.refused] == []
        for before, after in pairwise(simulator.log.bodies):
            assert way_of(before) == way
            earlier, later = (body.get("tools", []) for body in (before, after))
            assert later[: len(earlier)] == earlier
            assert before.get("system") == after.get("system")


@each_row("name", MODELS)
async def test_a_submission_beside_calls_lets_them_run_and_goes_on(name: str) -> None:
    made, _, way = MODELS[name]
    early: list[Said] = [("look", {"place": "Rome"})]
    early.insert(0, ("submit_answer", {"name": "?", "people": 0}) if way == "tool" else json.dumps(ROME))
    writer = Writer(City, {"name": "Rome", "people": 1}, calls=[early])
    async with Simulator(writer) as simulator, Agent(made(simulator.url), tools=[look]) as agent:
        assert await agent.ask("Where?", output_type=City) == City(name="Rome", people=1)
        assert [refusal.message for refusal in simulator.log.refused] == []
        assert [call.name for message in agent.messages for call in message.tool_calls] == ["look"]


@each_row("name", MODELS)
async def test_a_forced_answer_has_the_form_too(name: str) -> None:
    made, _, way = MODELS[name]
    writer = Writer(City, ROME, calls=[[("look", {"place": "Rome"})]])
    async with Simulator(writer) as simulator:
        agent = Agent(made(simulator.url), tools=[look], options=RunOptions(limits=Limits(turns=1)))
        async with agent:
            result = await agent.run("Where?", output_type=City)
    assert (result.stop, result.output) == ("max_turns", City(**ROME))
    assert [refusal.message for refusal in simulator.log.refused] == []
    last = writer.seen[-1]
    if way == "native":
        assert last.must_answer
    elif "thinks" not in name:
        assert last.must_call == "submit_answer"


@each_row("name", MODELS)
async def test_what_has_come_is_there_while_it_arrives(name: str) -> None:
    made, _, way = MODELS[name]
    writer = Writer(Trip, {"to": "Rome", "days": 3}, calls=[[("look", {"place": "Rome"})]])
    async with Simulator(writer) as simulator, Agent(made(simulator.url), tools=[look]) as agent:
        seen: list[Any] = []
        async with agent.stream("Where?", output_type=Trip) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    seen.append(events.partial_output())
                elif isinstance(event, RequestSent):
                    assert events.partial_output() is None
        assert seen[-1] == {
            "to": "Rome",
            "days": 3,
            **({"stops": None} if way == "native" and "gpt" in agent._runtime.model.name else {}),
        }
        assert events.output == Trip("Rome", 3)


def refusing(writer: Writer, error: dict[str, Any], status: int = 400) -> Simulator:
    return Simulator(writer, faults=[(status, {"error": error}, {})])


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude": (
        "claude",
        {"type": "invalid_request_error", "message": "output_config.format: Extra inputs are not permitted"},
    ),
    "responses": (
        "responses",
        {"message": "Invalid parameter: 'text.format' of type 'json_schema' is not supported with this model."},
    ),
    "chat": (
        "chat",
        {"message": "'response_format' of type 'json_schema' is not supported", "param": "response_format"},
    ),
    "schema": ("chat", {"message": "Invalid schema for response_format 'City': In context=(), too large"}),
    "gemini": ("vllm", {"message": "Unknown name \"json_schema\" at 'generation_config': Cannot find field."}),
}


@each_row("name", REFUSALS)
async def test_what_is_refused_is_asked_for_in_another_way_and_not_again(name: str) -> None:
    model, error = REFUSALS[name]
    writer = Writer(City, ROME)
    async with refusing(writer, error) as simulator, Agent(MODELS[model][0](simulator.url)) as agent:
        for _ in range(2):
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
        assert [way_of(body) for body in simulator.log.bodies] == ["tool", "tool"]
        assert simulator.requests == 3
        trip = Writer(Trip, {"to": "Rome"})
        simulator._brain = trip
        assert await agent.ask("And?", output_type=Trip) == Trip("Rome")
        assert way_of(simulator.log.bodies[-1]) == ("native" if name == "schema" else "tool")


@each_row("name", ["old claude", "responses elsewhere", "deepseek"])
@each_row("choice", ["none", "required", "look"])
async def test_a_tool_that_is_demanded_goes_first_and_none_means_none(name: str, choice: str) -> None:
    writer = Writer(City, ROME, calls=[] if choice == "none" else [[("look", {"place": "Rome"})]])
    options = RunOptions(settings=ModelSettings(tool_choice=choice))
    async with (
        Simulator(writer) as simulator,
        Agent(MODELS[name][0](simulator.url), tools=[look], options=options) as agent,
    ):
        assert await agent.ask("Where?", output_type=City) == City(**ROME)
    demands = [view.must_call for view in writer.seen]
    assert demands == {"none": ["submit_answer"], "required": ["any", "any"], "look": ["look", "any"]}[choice]


async def test_a_demand_that_is_refused_is_left_out() -> None:
    error = {"message": "tool_choice: only auto is supported", "param": "tool_choice"}
    writer = Writer(City, ROME)
    async with refusing(writer, error) as simulator, Agent(MODELS["deepseek"][0](simulator.url)) as agent:
        assert await agent.ask("Where?", output_type=City) == City(**ROME)
        assert "tool_choice" not in simulator.log.bodies[0]


async def test_a_server_that_takes_no_tools_is_asked_in_its_own_form_or_in_words() -> None:
    said = {"message": "registry.ollama.ai/library/m does not support tools"}
    writer = Writer(City, ROME)
    async with refusing(writer, said) as simulator:
        model = OpenAIChatModel("m", base_url=f"{simulator.url}/v1", provider="other", **KEPT)
        async with Agent(model) as agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
        (body,) = simulator.log.bodies
        assert way_of(body) == "text"
        assert "It must fit this JSON Schema" in body["messages"][0]["content"]


async def test_a_model_that_writes_calls_as_text_submits_as_text() -> None:
    def brain(view: View) -> list[Said]:
        return [json.dumps({"name": "submit_answer", "arguments": ROME})]

    async with Simulator(brain) as simulator:
        model = OpenAIChatModel("m", base_url=f"{simulator.url}/v1", provider="ollama", **KEPT)
        async with Agent(model, tools=[look], options=RunOptions(limits=Limits(turns=1))) as agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)


async def test_a_described_call_has_the_form_as_its_answer() -> None:
    answers = iter([{"tool": "look", "arguments": {"place": "Rome"}}, {"answer": ROME}])
    async with Simulator(lambda _: [json.dumps(next(answers))]) as simulator:
        model = OpenAIChatModel("m", base_url=f"{simulator.url}/v1", provider="vllm", calls="prompted", **KEPT)
        async with Agent(model, tools=[look]) as agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
        form = simulator.log.bodies[0]["response_format"]["json_schema"]["schema"]
        assert form["anyOf"][-1]["properties"]["answer"]["required"] == ["name", "people"]


async def test_words_instead_of_a_submission_are_asked_for_once_more() -> None:
    said: list[list[Said]] = [["It is Rome."], [("submit_answer", ROME)]]
    async with Simulator(lambda view: said[view.answered]) as simulator:
        async with Agent(MODELS["old chat"][0](simulator.url)) as agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
        assert "it is no JSON" in simulator.log.bodies[1]["messages"][-1]["content"]


async def test_a_chain_asks_each_model_in_its_own_way() -> None:
    writer = Writer(City, ROME)
    down: Fault = (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, {})
    async with Simulator(writer, faults=[down]) as simulator:
        chain = FallbackModel([MODELS["claude"][0](simulator.url), MODELS["old chat"][0](simulator.url)])
        async with Agent(chain) as agent:
            assert await agent.ask("Where?", output_type=City) == City(**ROME)
            assert way_of(simulator.log.bodies[-1]) == "tool"


async def test_the_next_question_without_a_type_is_answered_in_words_by_the_same_history() -> None:
    said: list[list[Said]] = [[("submit_answer", ROME)], ["Rome it is."]]
    async with Simulator(lambda view: said[view.answered]) as simulator:
        async with Agent(MODELS["old claude"][0](simulator.url)) as agent:
            await agent.ask("Where?", output_type=City)
            assert await agent.ask("In words?") == "Rome it is."
        assert way_of(simulator.log.bodies[-1]) == "text"
        assert "tool_choice" not in simulator.log.bodies[-1]


async def test_an_answer_that_never_fits_is_told_by_field_at_the_end_of_the_stream() -> None:
    async with Simulator(Writer(City, ROME)) as simulator:
        model = MODELS["old chat"][0](simulator.url)
        async with Agent(model) as agent:
            events: list[Any] = []
            simulator._brain = lambda _: [("submit_answer", {"name": "x", "people": "no"})]
            async with agent.stream("Where?", output_type=City) as stream:
                events += [event async for event in stream]
                with pytest.raises(OutputError, match="people: Input should be a valid integer"):
                    _ = stream.output
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert (finished.stop, [problem.path for problem in finished.problems]) == ("misfit", ["people"])
    assert not [event for event in events if isinstance(event, AnswerRestarted | Notice)]
