"""A chain of models: who answers when one cannot, what the user is told, and that the conversation goes on."""

from __future__ import annotations

import pytest

from mcpagent import Agent
from mcpagent.errors import ConfigError, ContextOverflowError, CredentialsError, ModelError
from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIResponsesModel, ScriptedModel
from mcpagent.models.resolve import resolve_model
from mcpagent.values.events import Event, Notice, ignore
from mcpagent.values.messages import Message, Text, ToolCall, ToolResult, ToolsChanged, user_message
from tests.tables import each_row
from tests.wire.life import numbered
from tests.wire.provider import (
    PlayedProvider,
    Waits,
    anthropic_stream,
    failed,
    message_item,
    responses_stream,
    text_block,
    tool_block,
)
from tests.wire.scene import SEARCH

HELLO = ModelRequest("", (user_message("hello"),))
DOWN = ModelError("first: some-model failed (HTTP 529); try again later", provider="first", status=529, retryable=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@each_row(
    "trouble",
    [
        DOWN,
        ModelError("quota", provider="first", status=429),
        ContextOverflowError("over the tokens of a minute", provider="first", status=429),
        ModelError("gone", provider="first"),
        CredentialsError("the key was refused"),
        "",
    ],
)
async def test_the_next_model_answers(trouble: Exception | str) -> None:
    first, second = ScriptedModel([trouble], name="first:m"), ScriptedModel(["hi"], name="second:m")
    events: list[Event] = []
    answer = await FallbackModel([first, second]).respond(HELLO, events.append)
    assert answer.message.text == "hi"
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told[0] == (str(trouble) or "first:m gave an empty answer")
    assert told[1] == "second:m answers instead"
    assert first.requests == second.requests == [HELLO]


async def test_what_is_over_the_minute_of_all_accounts_is_too_long() -> None:
    models = [ScriptedModel([ContextOverflowError("too large", provider=name, status=429)]) for name in ("a", "b")]
    with pytest.raises(ContextOverflowError, match="too large"):
        await FallbackModel(models).respond(HELLO, ignore)
    assert all(model.requests for model in models)


async def test_an_overfull_conversation_is_not_handed_on() -> None:
    first = ScriptedModel([ContextOverflowError("too long", provider="first", status=400)])
    second = ScriptedModel([])
    with pytest.raises(ContextOverflowError):
        await FallbackModel([first, second]).respond(HELLO, ignore)
    assert second.requests == []


async def test_when_nobody_answers_the_error_says_what_was_tried() -> None:
    slow = ModelError("second: slow down", provider="second", status=429, retryable=True, retry_after_seconds=90)
    with pytest.raises(ModelError) as caught:
        await FallbackModel([ScriptedModel([DOWN]), ScriptedModel([slow])]).respond(HELLO, ignore)
    assert str(caught.value) == f"none of 2 models answered: 1. {DOWN}; 2. second: slow down"
    assert (caught.value.retryable, caught.value.retry_after_seconds) == (True, 90)


async def test_the_last_empty_answer_is_given_as_it_is() -> None:
    answer = await FallbackModel([ScriptedModel([""]), ScriptedModel([DOWN])]).respond(HELLO, ignore)
    assert answer.message.text == ""


async def test_a_model_that_failed_rests_and_comes_back() -> None:
    clock = Clock()
    first, second = ScriptedModel([DOWN, "first again"]), ScriptedModel(["a", "b"])
    chain = FallbackModel([first, second], clock=clock)
    assert (await chain.respond(HELLO, ignore)).message.text == "a"
    clock.now += 59
    assert (await chain.respond(HELLO, ignore)).message.text == "b"
    clock.now += 2
    assert (await chain.respond(HELLO, ignore)).message.text == "first again"
    assert len(first.requests) == 2


async def test_a_resting_model_is_asked_when_nobody_else_is_left() -> None:
    first, second = ScriptedModel([DOWN, "first again"]), ScriptedModel(["a", DOWN])
    chain = FallbackModel([first, second], clock=Clock())
    await chain.respond(HELLO, ignore)
    assert (await chain.respond(HELLO, ignore)).message.text == "first again"


async def test_a_conversation_goes_from_anthropic_to_openai_and_back_with_its_tools_and_its_items() -> None:
    """Found with one provider, offered by the other; each gets its own items back byte for byte."""
    thinking = [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "sig=="},
    ]
    claude = PlayedProvider(
        anthropic_stream(thinking, tool_block("toolu_1", "add_tool", "{}"), stop="tool_use"),
        failed(529),
        anthropic_stream(text_block("Back.")),
    )
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    gpt = PlayedProvider(responses_stream(reasoning, message_item("Here.")))
    clock = Clock()
    chain = FallbackModel(
        [
            AnthropicModel("claude-opus-5", api_key="k", http_client=claude.http_client, max_retries=0, sleep=Waits()),
            OpenAIResponsesModel("gpt-5.4", api_key="k", http_client=gpt.http_client),
        ],
        clock=clock,
    )
    new = numbered(1)
    tools = (SEARCH, new)
    first = await chain.respond(ModelRequest("", (user_message("go"),), (SEARCH,)), ignore)
    result = Message("tool", (ToolResult("toolu_1", "add_tool", (Text("Added."),)), ToolsChanged(added=(new,))))
    messages: tuple[Message, ...] = (user_message("go"), first.message, result)
    second = await chain.respond(ModelRequest("", messages, tools), ignore)
    clock.now += 61
    messages = (*messages, second.message, user_message("and now?"))
    await chain.respond(ModelRequest("", messages, tools), ignore)

    [to_gpt] = gpt.bodies
    assert [item.get("type", item.get("role")) for item in to_gpt["input"]] == [
        "user",
        "function_call",
        "function_call_output",
        "additional_tools",
    ]
    assert to_gpt["input"][3]["tools"][0]["name"] == "tool_1"
    back = claude.bodies[2]
    assert back["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "sig=="}
    assert back["messages"][: len(claude.bodies[1]["messages"])] == claude.bodies[1]["messages"]
    assert back["messages"][3]["content"] == [{"type": "text", "text": "Here."}]
    assert back["tools"] == claude.bodies[1]["tools"]


async def test_a_list_is_a_chain_that_closes_what_it_made() -> None:
    mine = ScriptedModel(["hi"])
    chain = resolve_model([mine, "ollama:qwen3"], environ={})
    assert chain.name == "scripted:test, ollama:qwen3"
    assert (await chain.respond(HELLO, ignore)).message.text == "hi"
    await chain.aclose()
    assert not mine.closed
    with pytest.raises(ConfigError, match="list of models is empty"):
        resolve_model([], environ={})
    with pytest.raises(ConfigError, match="no provider"):
        resolve_model(["ollama:x", "nonsense"], environ={})


async def test_a_model_without_its_key_is_passed_over_where_another_one_can_answer() -> None:
    chain = resolve_model(["anthropic:claude-opus-5", ScriptedModel(["hi"])], environ={})
    events: list[Event] = []
    assert (await chain.respond(HELLO, events.append)).message.text == "hi"
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told[0].startswith("ANTHROPIC_API_KEY is not set")
    with pytest.raises(CredentialsError, match="ANTHROPIC_API_KEY is not set"):
        resolve_model(["anthropic:claude-opus-5", "openai:gpt-5.5"], environ={})


async def test_an_agents_chain_goes_on_with_the_tools_that_were_found() -> None:
    """The first model finds and adds, then is overloaded; the second is offered the same and is told of by an event."""
    first = ScriptedModel([ToolCall("", "add_tool", {"tool_names": ["double"]}), DOWN], name="first:m")
    second = ScriptedModel([ToolCall("", "double", {"n": 4}), "8"], name="second:m")
    events: list[Event] = []

    def double(n: int) -> int:
        """Twice the number."""
        return 2 * n

    async with Agent([first, second], tools=[double], with_tool_search_mode=True, on_event=events.append) as agent:
        assert await agent.ask("Twice four?") == "8"
        assert agent._runtime.model.name == "first:m, second:m"
    assert [tool.name for tool in second.requests[0].tools] == ["search_tools", "add_tool", "double"]
    assert second.requests[0].messages == first.requests[1].messages
    assert [event.text for event in events if isinstance(event, Notice)] == [str(DOWN), "second:m answers instead"]


@each_row("text", ["ollama:a,vllm:b", " ollama:a , vllm:b, ", "ollama:a?temperature=0,vllm:b"])
async def test_a_text_with_commas_is_a_chain(text: str) -> None:
    chain = resolve_model(text, environ={})
    assert isinstance(chain, FallbackModel)
    assert chain.name == "ollama:a, vllm:b"
    by_environment = resolve_model(None, environ={"MCPAGENT_MODEL": text})
    assert by_environment.name == resolve_model(chain.name, environ={}).name == chain.name
