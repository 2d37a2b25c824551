"""The adapters and the official SDKs against simulated providers over real HTTP: rules, cache, faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import Message, Text, ToolResult, ToolsChanged, user_message
from tests.simulator.server import PROTOCOLS, Fault, Simulator
from tests.simulator.values import Refusal, Said, View
from tests.tables import each_row
from tests.wire.life import Life, numbered
from tests.wire.provider import Waits
from tests.wire.scene import SEARCH

INLINE = Capabilities("additional_tools", allowed_tools=True)
Maker = Callable[..., HttpModel]


def makers() -> dict[str, Maker]:
    return {
        "anthropic": lambda url, **more: AnthropicModel("claude-opus-5-5", base_url=url, **more),
        "anthropic-references": lambda url, **more: AnthropicModel("claude-sonnet-4-6", base_url=url, **more),
        "openai": lambda url, **more: OpenAIResponsesModel("m", base_url=f"{url}/v1", capabilities=INLINE, **more),
        "chat": lambda url, **more: OpenAIChatModel("m", base_url=f"{url}/v1", provider="vllm", **more),
        "chat-proxy": lambda url, **more: OpenAIChatModel(
            "m", base_url=f"{url}/v1", provider="vllm", capabilities=Capabilities("call_tool"), **more
        ),
    }


def made(name: str, simulator: Simulator, **more: Any) -> HttpModel:
    return makers()[name](simulator.url, api_key="k", sleep=Waits(), **more)


ALL = each_row("name", list(makers()))


def discovers(view: View) -> Sequence[Said]:
    """Searches and adds a new tool every other turn, and calls what it has; "proxied" tools through the proxy."""
    if view.must_answer or view.answered == 8:
        return ["Done."]
    number = view.answered // 2
    if view.answered % 2 == 0:
        return ["Adding.", ("add_tool", {"tool_names": [f"tool_{number}"]})]
    name = f"tool_{number}"
    if "call_tool" in view.shown:
        return [("call_tool", {"tool_name": name, "arguments": {"v0": "x"}})]
    return [(name, {"v0": "x"})]


ADD = numbered(99)
SYSTEM = "You help. " * 500


async def talk(model: HttpModel, turns: int) -> list[Message]:
    """Runs the loop's part of a conversation: calls are answered, added tools become known."""
    messages = [user_message("Use five tools.")]
    found: list[Any] = []
    for _ in range(turns):
        request = ModelRequest(SYSTEM, tuple(messages), (SEARCH, _add_tool(), *found))
        answer = await model.respond(request, ignore)
        messages.append(answer.message)
        if not answer.message.tool_calls:
            return messages
        parts: list[ToolResult | ToolsChanged] = []
        for call in answer.message.tool_calls:
            parts.append(ToolResult(call.id, call.name, (Text(f"Result of {call.name}."),)))
            if call.name == "add_tool":
                new = numbered(int(call.arguments["tool_names"][0].removeprefix("tool_")))
                found.append(new)
                parts.append(ToolsChanged(added=(new,)))
        messages.append(Message("tool", tuple(parts)))
    return messages


def _add_tool() -> Any:
    return type(SEARCH)("add_tool", "Adds.", {"type": "object", "properties": {"tool_names": {"type": "array"}}})


@ALL
async def test_a_conversation_with_discovery_breaks_no_rule_and_reads_the_cache(name: str) -> None:
    async with Simulator(discovers) as simulator:
        model = made(name, simulator)
        messages = await talk(model, 12)
        await model.aclose()
    log = simulator.log
    assert messages[-1].text == "Done."
    assert log.refused == []
    assert log.blind_calls == []
    late = log.counted[4:]  # after the second search: the tools of two may cost the cached messages
    share = sum(count.read for count in late) / sum(count.total for count in late)
    assert share > 0.9, share


async def test_growing_the_tools_array_is_what_a_bound_thought_does_not_survive() -> None:
    """The newest Claude models refuse replayed thinking when `tools` was rebuilt: discovery must not do that.

    Where it happens all the same, the conversation goes on without the thoughts that were refused.
    """
    async with Simulator(discovers) as simulator:
        model = AnthropicModel(
            "claude-opus-5-5", api_key="k", base_url=simulator.url, capabilities=Capabilities("append")
        )
        messages = await talk(model, 12)
        await model.aclose()
    assert messages[-1].text == "Done."
    assert simulator.log.refused
    assert all("Invalid `signature` in `thinking` block" in why for why in map(str, simulator.log.refused))
    assert len(simulator.log.refused) <= 5  # once for each rebuilt list of tools, never for the same thoughts again


@each_row("name", ["anthropic", "anthropic-references", "openai", "chat", "chat-proxy"])
async def test_every_kind_of_change_is_accepted(name: str) -> None:
    async with Simulator(lambda _view: ["ok"]) as simulator:
        model = made(name, simulator, max_retries=0)
        life = Life(model.origin)
        life.messages[0] = user_message("Start.")
        for step in (
            ("add", (1, 2)),
            ("call", (3,)),
            ("remove", (1,)),
            ("add", (1,)),
            ("change", (2,)),
            ("attach", (4,)),
            ("lose", (3,)),
            ("talk", (0,)),
            ("search_loads", (0,)),
        ):
            life.live(step)
            await model.respond(life.request(), ignore)
        await model.aclose()
    assert simulator.log.refused == []


@ALL
async def test_trouble_on_the_wire_is_sat_out_or_told(name: str) -> None:
    overloaded: Fault = (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, {})
    async with Simulator(lambda _view: ["fine"], ["reset", overloaded, "cut"]) as simulator:
        model = made(name, simulator, max_retries=3)
        request = ModelRequest("", (user_message("hello"),), (SEARCH,))
        assert (await model.respond(request, ignore)).message.text == "fine"
        assert simulator.requests == 4
        await model.aclose()


async def test_a_silent_stream_ends_after_the_limit() -> None:
    async with Simulator(lambda _view: ["never"], ["silent"]) as simulator:
        model = made("openai", simulator, max_retries=0, silent_seconds=0.3)
        with pytest.raises(ModelError, match=r"sent nothing for 0\.3 s"):
            async with asyncio.timeout(10):
                await model.respond(ModelRequest("", (user_message("hello"),)), ignore)
        await model.aclose()


async def test_a_cancelled_request_ends_at_once_and_the_model_goes_on() -> None:
    async with Simulator(lambda _view: ["fine"], ["silent"]) as simulator:
        model = made("anthropic", simulator)
        request = ModelRequest("", (user_message("hello"),))
        task = asyncio.create_task(model.respond(request, ignore))
        async with asyncio.timeout(10):
            await simulator.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await task
        assert (await model.respond(request, ignore)).message.text == "fine"
        await model.aclose()


def test_one_model_serves_one_event_loop_after_another() -> None:
    async def once(model: HttpModel) -> str:
        async with Simulator(lambda _view: ["fine"]) as simulator:
            model.target = replace(model.target, base_url=simulator.url)
            return (await model.respond(ModelRequest("", (user_message("hello"),)), ignore)).message.text

    model = AnthropicModel("claude-x", api_key="k")
    assert [asyncio.run(once(model)) for _ in range(2)] == ["fine", "fine"]


async def test_nobody_listens_at_the_address() -> None:
    async with Simulator(lambda _view: ["x"]) as simulator:
        url = simulator.url
    hint = "is vLLM running there?"
    model = OpenAIChatModel("m", base_url=f"{url}/v1", provider="vllm", hint=hint, max_retries=0)
    with pytest.raises(ModelError) as caught:
        await model.respond(ModelRequest("", (user_message("hello"),)), ignore)
    assert str(caught.value).startswith(f"vllm: nothing answers at {url}/v1")
    assert str(caught.value).endswith(hint)
    await model.aclose()


async def test_a_turn_with_many_parallel_calls_keeps_the_cached_conversation() -> None:
    """Anthropic looks back over 20 blocks only; thirty calls and their results are more than that."""

    def brain(view: View) -> Sequence[Said]:
        return [("add", {"n": number}) for number in range(30)] if view.answered < 4 else ["Done."]

    async with Simulator(brain) as simulator:
        model = made("anthropic", simulator)
        messages = [user_message("Many. " * 2000)]
        while True:
            answer = await model.respond(ModelRequest("", tuple(messages), (SEARCH,)), ignore)
            messages.append(answer.message)
            if not answer.message.tool_calls:
                break
            results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in answer.message.tool_calls)
            messages.append(Message("tool", results))
        await model.aclose()
    assert simulator.log.refused == []
    for before, after in pairwise(simulator.log.counted):
        assert after.read == before.total


@ALL
async def test_a_call_without_its_result_is_sent_with_one(name: str) -> None:
    """The simulator refuses it without one."""
    broken = (user_message("x"), Message("assistant", (Text("I call."), *_calls())), user_message("y"))
    async with Simulator(lambda _view: ["x"]) as simulator:
        model = made(name, simulator, max_retries=0)
        await model.respond(ModelRequest("", broken, (SEARCH,)), ignore)
        await model.aclose()
    [body] = simulator.log.bodies
    path = "/v1/messages" if "system" in body or ("max_tokens" in body and name.startswith("anthropic")) else ""
    path = path or ("/v1/responses" if "input" in body else "/v1/chat/completions")
    turns = body.get("input") or body["messages"]
    said = json.dumps(turns)
    assert said.count("(no result: the call was not run)") == 1
    unanswered = [turn for turn in turns if "(no result" not in json.dumps(turn)]
    with pytest.raises(Refusal):
        PROTOCOLS[path].check({**body, ("input" if "input" in body else "messages"): unanswered}, {})


def _calls() -> tuple[Any, ...]:
    from mcpagent.values.messages import ToolCall

    return (ToolCall("call_1", "search_tools", json.loads('{"query": "x"}')),)
