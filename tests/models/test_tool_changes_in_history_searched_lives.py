"""Whole agents whose provider searches, over random lives: no request rewrites the one before it, none is refused.

Servers are lost, come back, join and change their tools, before and after the provider found them; tools are called
without having been found, removed, and found again; and a conversation moves from one provider to another and back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcpagent import Agent, ToolSearch
from mcpagent.models import AnthropicModel, ModelRequest, ModelResponse, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import Emit
from mcpagent.values.messages import ToolDefinition, dump_messages, load_messages
from mcpagent.values.tools import Tool, ToolOutput
from tests.simulator.openai_rules import namespaces, responses_functions
from tests.simulator.server import PROTOCOLS
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.life import numbered

EAGER, LATE_PIN, LOCAL, ELSEWHERE = 99, 8, 7, 6
"""Offered from the start; offered as soon as it joins; no server's; of a server that joins late."""

AT_FIRST = (0, 1, 2, EAGER)


def models() -> dict[str, HttpModel]:
    return {
        "opus": AnthropicModel("claude-opus-4-8"),
        "sonnet": AnthropicModel("claude-sonnet-4-6"),
        "gpt": OpenAIResponsesModel("gpt-5.4"),
    }


PATHS = {"opus": "/v1/messages", "sonnet": "/v1/messages", "gpt": "/v1/responses"}


class Changing:
    """A toolset whose tools come, go and change; each call says which version it met."""

    def __init__(self) -> None:
        self.versions = dict.fromkeys(AT_FIRST, 0)

    async def __aenter__(self) -> Changing:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def tools(self) -> list[Tool]:
        return [Tool(_definition(number, version), _run) for number, version in self.versions.items()]


def _definition(number: int, version: int) -> ToolDefinition:
    server = {LOCAL: None, ELSEWHERE: "t"}.get(number, "s")
    return replace(numbered(number, version), server=server, original_name=f"tool_{number}")


async def _run(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("ok")


@dataclass
class Step:
    """One question: what becomes of these tools before it, or what the model does about them, and which one answers."""

    kind: str
    numbers: tuple[int, ...]
    model: str = ""


class Switched:
    """Answers by script, each time as the model of that name would; keeps what it would have been sent."""

    name = "test:switched"

    def __init__(self) -> None:
        self.models = models()
        self.step = Step("talk", (), "gpt")
        self.asked = False
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def search_problem(self, _strategy: str, _deferred: Sequence[ToolDefinition]) -> str:
        return ""

    async def respond(self, request: ModelRequest, _emit: Emit) -> ModelResponse:
        name, model = self.step.model, self.models[self.step.model]
        saved = tuple(load_messages(json.loads(json.dumps(dump_messages(request.messages)))))
        body = json.loads(json.dumps(model.request_body(replace(request, messages=saved))))
        PROTOCOLS[PATHS[name]].check(body, model.request_options(body).get("headers", {}))
        self.sent.append((name, body))
        script, self.asked = ("answer" if self.asked else self.step.kind), True
        answer = (_gpt_answer if name == "gpt" else _claude_answer)(script, self.step.numbers, body, len(self.sent))
        return model.read_answer(answer, request)

    async def aclose(self) -> None:
        pass


def _claude_answer(script: str, numbers: Sequence[int], body: dict[str, Any], turn: int) -> dict[str, Any]:
    deferred = {tool["name"] for tool in body["tools"] if tool.get("defer_loading")}
    names = [name for number in numbers if (name := f"tool_{number}") in deferred]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": f"Turn {turn}."}]
    if script == "search":
        references = [{"type": "tool_reference", "tool_name": name} for name in names]
        ident = f"srvtoolu_{turn}"
        result = {"type": "tool_search_tool_search_result", "tool_references": references}
        blocks += [
            {"type": "server_tool_use", "id": ident, "name": "tool_search_tool_bm25", "input": {"query": "x"}},
            {"type": "tool_search_tool_result", "tool_use_id": ident, "content": result},
        ]
    calls = [
        {"type": "tool_use", "id": f"toolu_{turn}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(_calls(script, names))
    ]
    return {"content": [*blocks, *calls], "stop_reason": "tool_use" if calls else "end_turn"}


def _gpt_answer(script: str, numbers: Sequence[int], body: dict[str, Any], turn: int) -> dict[str, Any]:
    spaces = namespaces(body)
    names = [name for number in numbers if (name := f"tool_{number}") in spaces]
    text = {"type": "output_text", "text": f"Turn {turn}.", "annotations": []}
    items: list[dict[str, Any]] = [
        {"type": "message", "id": f"msg_{turn}", "role": "assistant", "status": "completed", "content": [text]}
    ]
    if script == "search":
        functions = {function["name"]: function for function in responses_functions(body)}
        loaded = [{"type": "namespace", "name": spaces[name], "tools": [functions[name]]} for name in names]
        head = {"call_id": None, "execution": "server", "status": "completed"}
        items += [
            {"type": "tool_search_call", "id": f"tsc_{turn}", **head, "arguments": {"paths": []}},
            {"type": "tool_search_output", "id": f"tso_{turn}", **head, "tools": loaded},
        ]
    for place, (name, arguments) in enumerate(_calls(script, names)):
        item = {"type": "function_call", "id": f"fc_{turn}_{place}", "call_id": f"call_{turn}_{place}", "name": name}
        spaced = {"namespace": spaces[name]} if name in spaces else {}
        items.append({**item, **spaced, "arguments": json.dumps(arguments)})
    return {"output": items, "status": "completed"}


def _calls(script: str, names: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    match script:
        case "search" | "call":
            return [(name, {"v0": "x"}) for name in names]
        case "remove":
            return [("remove_tool", {"tool_names": list(names)})] if names else []
        case _:
            return []


async def live(steps: Sequence[Step], only: str = "") -> tuple[list[tuple[str, dict[str, Any]]], set[str]]:
    """What each model was sent, and which tools were offered in the end."""
    model, toolset = Switched(), Changing()
    search = ToolSearch(execution="provider", extra_tools=("remove_tool",))
    pins = [f"tool_{EAGER}", f"tool_{LATE_PIN}"]
    agent = Agent(model, tool_search=search, pre_discovered_tools=pins, instructions="You help.", tools=[toolset])
    async with agent:
        for place, step in enumerate((Step("talk", ()), *steps)):
            match step.kind:
                case "lose":
                    toolset.versions = {n: v for n, v in toolset.versions.items() if n not in step.numbers}
                case "join":
                    toolset.versions |= {n: 0 for n in step.numbers if n not in toolset.versions}
                case "change":
                    toolset.versions = {n: v + (n in step.numbers) for n, v in toolset.versions.items()}
                case "use_model":
                    await agent.use_model(model)
                case _:
                    pass
            model.step, model.asked = replace(step, model=only or step.model or "gpt"), False
            await agent.ask(f"Question {place}?")
        return model.sent, {tool.name for tool in agent.offered_tools()}


def as_read(name: str, body: dict[str, Any]) -> list[str]:
    """The prompt as the provider puts it together: what its cache and the signatures of thoughts stand on."""
    return [unit.text for unit in PROTOCOLS[PATHS[name]].units(body)]


def history(body: dict[str, Any]) -> list[Any]:
    return list(body["messages"] if "messages" in body else body["input"])


KINDS = ("search", "search", "call", "remove", "lose", "join", "change", "talk", "use_model")
numbers = st.lists(
    st.sampled_from((0, 1, 2, 3, ELSEWHERE, LOCAL, LATE_PIN, EAGER)), min_size=1, max_size=3, unique=True
)
made = st.builds(Step, st.sampled_from(KINDS), numbers.map(tuple))
moving = st.builds(Step, st.sampled_from(KINDS), numbers.map(tuple), st.sampled_from(("opus", "sonnet", "gpt")))


LIVES: dict[str, list[tuple[Any, ...]]] = {
    "lost before it was found": [("lose", 1), ("search", 1, 0), ("call", 1), ("join", 1), ("search", 1)],
    "lost after it was found": [("search", 1), ("lose", 1), ("call", 1), ("join", 1), ("call", 1)],
    "joins late": [("join", 3, ELSEWHERE, LOCAL), ("search", 3, ELSEWHERE), ("lose", ELSEWHERE), ("join", LATE_PIN)],
    "changes before it is found": [("change", 1), ("search", 1), ("change", 1), ("call", 1)],
    "lost, and the model was chosen again": [("lose", 1), ("use_model",), ("search", 0), ("use_model",), ("call", 0)],
    "called without being found": [("change", 0), ("call", 0), ("remove", 0), ("search", 0), ("change", 0)],
}


@pytest.mark.slow
@each_row("name", list(PATHS))
@each_row("life", list(LIVES))
def test_no_request_rewrites_the_one_before(name: str, life: str) -> None:
    only_grows(name, [Step(kind, tuple(numbers)) for kind, *numbers in LIVES[life]])


@each_row("name", list(PATHS))
def test_the_call_of_a_lost_servers_tool_is_answered(name: str) -> None:
    sent, _ = asyncio.run(live([Step("lose", (1,)), Step("search", (1,))], only=name))
    answered = json.dumps(history(sent[-1][1])[-2:])
    assert 'There is no tool \\"tool_1\\" any more: its source \\"s\\" no longer has it.' in answered
    assert "Your tools have changed; gone: tool_1." in answered


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PATHS))
@given(steps=st.lists(made, max_size=8))
@settings(bounded, max_examples=25)
def test_in_any_life_every_request_begins_with_the_bytes_of_the_one_before(name: str, steps: list[Step]) -> None:
    only_grows(name, steps)


def only_grows(name: str, steps: list[Step]) -> None:
    sent, _ = asyncio.run(live(steps, only=name))
    for (_, before), (_, after) in pairwise(sent):
        assert after.get("system", after.get("instructions")) == before.get("system", before.get("instructions"))
        assert after["tools"][: len(before["tools"])] == before["tools"]
        assert history(after)[: len(history(before))] == history(before)
        joined = name == "sonnet" and any(step.kind == "join" and LATE_PIN in step.numbers for step in steps)
        if not joined:  # that model knows no way to offer a tool without a call that found it
            assert as_read(name, after)[: len(as_read(name, before))] == as_read(name, before)


@pytest.mark.slow
@given(steps=st.lists(moving, max_size=8))
@example([Step("search", (0,), "gpt"), Step("search", (1,), "sonnet"), Step("call", (0, 1), "gpt")])
@settings(bounded, max_examples=25)
def test_a_conversation_moves_between_providers(steps: list[Step]) -> None:
    sent, offered = asyncio.run(live([*steps, *(Step("talk", (), name) for name in PATHS)]))
    for name in PATHS:
        for before, after in pairwise(body for sender, body in sent if sender == name):
            assert history(after)[: len(history(before))] == history(before)
            if name != "sonnet":
                assert as_read(name, after)[: len(as_read(name, before))] == as_read(name, before)
    for name, body in sent[-len(PATHS) :]:
        assert offered <= PROTOCOLS[PATHS[name]].view(body).shown.keys()
