"""Discovery on the wire: each adapter's way, and that no earlier byte ever changes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ConfigError
from mcpagent.models import (
    AnthropicModel,
    ModelRequest,
    OpenAIChatModel,
    OpenAIResponsesModel,
    resolve_model,
)
from mcpagent.models.capabilities import SAFE, Capabilities, anthropic_capabilities, openai_capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import (
    Message,
    Origin,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolsChanged,
    user_message,
)
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.life import KINDS, Life, Step, numbered
from tests.wire.provider import (
    PlayedProvider,
    anthropic_stream,
    call_item,
    chat_stream,
    responses_stream,
    text_block,
)
from tests.wire.scene import SEARCH

ADAPTERS: dict[str, HttpModel] = {
    "anthropic-references": AnthropicModel("claude-sonnet-4-6"),
    "anthropic-by-reference": AnthropicModel(
        "claude-opus-4-8", capabilities=Capabilities("references", "by_reference")
    ),
    "anthropic-changes": AnthropicModel("claude-opus-4-8"),
    "anthropic-safe": AnthropicModel("claude-3-opus"),
    "openai-inline": OpenAIResponsesModel("gpt-5.4"),
    "openai-safe": OpenAIResponsesModel("anything"),
    "openai-proxy": OpenAIResponsesModel("o3"),
    "chat": OpenAIChatModel("m"),
    "chat-proxy": OpenAIChatModel("m", capabilities=Capabilities("call_tool")),
}
CHANGING_THE_TOOLS_ARRAY = ("anthropic-safe", "openai-safe", "chat")
"""Found tools stand at its end there; elsewhere what Anthropic counts as `tools` are those that are not deferred."""

steps = st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple))


def history(body: dict[str, Any]) -> list[Any]:
    return list(body["messages"] if "messages" in body else body["input"])


def text(value: object) -> str:
    return json.dumps(value)


@pytest.mark.slow
@given(life=st.lists(steps, max_size=10))
@bounded
def test_every_request_begins_with_the_bytes_of_the_one_before(life: list[Step]) -> None:
    for adapter in ADAPTERS:
        earlier_requests_are_kept(adapter, life)


def earlier_requests_are_kept(adapter: str, life: list[Step]) -> None:
    model = ADAPTERS[adapter]
    lived = Life(model.origin)
    before = model.request_body(lived.request())
    for step in life:
        lived.live(step)
        after = model.request_body(lived.request())
        assert text(after.get("system", after.get("instructions"))) == text(
            before.get("system", before.get("instructions"))
        )
        assert text(after["tools"][: len(before["tools"])]) == text(before["tools"])
        assert text(history(after)[: len(history(before))]) == text(history(before))
        # A tool that joins by itself has no result that could refer to it where a model knows no tool changes.
        joins = adapter == "anthropic-references" and step[0] == "attach"
        if adapter not in CHANGING_THE_TOOLS_ARRAY and not joins:
            assert text(undeferred(after)) == text(undeferred(before))
        before = after


def undeferred(body: dict[str, Any]) -> list[Any]:
    return [tool for tool in body["tools"] if not tool.get("defer_loading")]


@given(life=st.lists(steps, max_size=10))
@bounded
def test_what_anthropic_demands_holds_in_every_life(life: list[Step]) -> None:
    for adapter in ("anthropic-references", "anthropic-by-reference", "anthropic-changes"):
        lived = Life(Origin("anthropic"))
        for step in life:
            lived.live(step)
            body = ADAPTERS[adapter].request_body(lived.request())
            defined = [tool["name"] for tool in body["tools"]]
            assert len(defined) == len(set(defined))
            assert not body["tools"][0].get("defer_loading")
            assert all("cache_control" not in tool for tool in body["tools"] if tool.get("defer_loading"))
            referred = references(body)
            assert set(referred) <= set(defined)
            assert len(referred) == len(set(referred))  # expanded once
            deferred = {tool["name"] for tool in body["tools"] if tool.get("defer_loading")}
            assert deferred <= set(referred)  # nothing is deferred that the model was never shown
            turns = body["messages"]
            assert turns[0]["role"] == "user"
            for earlier, later in pairwise(turns):
                assert earlier["role"] != later["role"]
                assert (later["role"] == "system") <= (earlier["role"] == "user")
                assert (earlier["role"] == "system") <= (later["role"] == "assistant")
            for turn in turns:
                kinds = [block["type"] for block in turn["content"]]
                assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result") or turn["role"] != "user"


@given(life=st.lists(steps, max_size=10))
@bounded
def test_the_model_is_never_allowed_a_tool_it_was_not_shown_nor_denied_one_it_has(life: list[Step]) -> None:
    lived = Life(Origin("openai"))
    model = ADAPTERS["openai-inline"]
    for step in life:
        lived.live(step)
        request = lived.request()
        body = model.request_body(request)
        shown = [tool["name"] for tool in body["tools"]]
        for item in body["input"]:
            if item.get("type") == "additional_tools":
                shown += [tool["name"] for tool in item["tools"]]
        assert len(shown) == len(set(shown))
        choice = body.get("tool_choice")
        allowed = [tool["name"] for tool in choice["tools"]] if choice else shown
        assert set(allowed) == {tool.name for tool in request.tools}
        assert set(allowed) <= set(shown)


def references(body: dict[str, Any]) -> list[str]:
    names = []
    for turn in body["messages"]:
        for block in turn["content"]:
            inner = block["content"] if block["type"] == "tool_result" else []
            names += [piece["tool_name"] for piece in inner if piece["type"] == "tool_reference"]
            if block["type"] == "tool_addition" and block["tool"]["type"] == "tool_reference":
                names += [] if block["tool"]["name"] in names else [block["tool"]["name"]]
    return names


NEW = numbered(1)
CHANGED = numbered(1, 1)


def found(*changes: ToolsChanged, tools: tuple[ToolDefinition, ...], origin: Origin | None = None) -> ModelRequest:
    """One turn per change: a call to add_tool with a result and that change."""
    messages = [user_message("go")]
    for turn, change in enumerate(changes):
        messages.append(Message("assistant", (ToolCall(f"c{turn}", "add_tool", {}),), origin=origin))
        messages.append(Message("tool", (ToolResult(f"c{turn}", "add_tool", (Text("Added."),)), change)))
    return ModelRequest("", tuple(messages), (SEARCH, *tools))


ADDED = found(ToolsChanged(added=(NEW,)), tools=(NEW,))
SEARCH_TOOL = {"name": "search_tools", "description": "Finds tools.", "input_schema": SEARCH.parameters}
NEW_TOOL = {"name": "tool_1", "description": NEW.description, "input_schema": NEW.parameters}


def test_anthropic_refers_to_a_found_tool_in_the_result_that_found_it() -> None:
    body = ADAPTERS["anthropic-references"].request_body(ADDED)
    assert body["tools"] == [
        {**SEARCH_TOOL, "cache_control": {"type": "ephemeral"}},
        {**NEW_TOOL, "defer_loading": True},
    ]
    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c0",
                "content": [{"type": "tool_reference", "tool_name": "tool_1"}],
            },
            {"type": "text", "text": "add_tool: Added."},
        ],
    }


def test_anthropic_withdraws_restores_and_redefines_by_system_messages_where_the_model_knows_them() -> None:
    removed, again = ToolsChanged(removed=("tool_1",)), ToolsChanged(added=(NEW,))
    request = found(again, removed, again, ToolsChanged(added=(CHANGED,)), tools=(CHANGED,))
    body = ADAPTERS["anthropic-changes"].request_body(request)
    reference = {"type": "tool_reference", "name": "tool_1"}
    definition = {"name": "tool_1", "description": CHANGED.description, "input_schema": CHANGED.parameters}
    assert [turn["content"] for turn in body["messages"] if turn["role"] == "system"] == [
        [{"type": "tool_removal", "tool": reference}],
        [{"type": "tool_addition", "tool": reference}],
        [{"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}],
    ]
    assert body["tools"][1] == {**NEW_TOOL, "defer_loading": True}

    body = ADAPTERS["anthropic-references"].request_body(request)
    assert [turn["role"] for turn in body["messages"]] == ["user"] + ["assistant", "user"] * 4
    result, note = body["messages"][-1]["content"][0]["content"]
    assert result["text"] == "Added."
    assert note["text"].startswith("The tool tool_1 changed; from now on it is: {")
    assert json.loads(note["text"].partition(": ")[2])["parameters"] == CHANGED.parameters


async def test_the_betas_a_request_needs_are_sent_and_no_others() -> None:
    removal = ToolsChanged(removed=("tool_1",))
    add = ToolsChanged(added=(NEW,))
    for request, beta in (
        (ADDED, None),
        (found(add, removal, tools=()), "mid-conversation-tool-changes-2026-07-01"),
        (found(add, ToolsChanged(added=(CHANGED,)), tools=(CHANGED,)), "inline-tools-2026-09-15"),
    ):
        played = PlayedProvider(anthropic_stream(text_block("ok")))
        model = AnthropicModel("claude-opus-4-8", api_key="k", http_client=played.http_client)
        await model.respond(request, ignore)
        assert played.requests[0].headers.get("anthropic-beta") == beta


def test_openai_shows_a_found_tool_where_it_was_found_and_withdraws_it_by_tool_choice() -> None:
    model = ADAPTERS["openai-inline"]
    body = model.request_body(ADDED)
    assert [tool["name"] for tool in body["tools"]] == ["search_tools"]
    assert body["input"][-2:] == [
        {"type": "function_call_output", "call_id": "c0", "output": "Added."},
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [
                {
                    "type": "function",
                    "name": "tool_1",
                    "description": NEW.description,
                    "parameters": NEW.parameters,
                    "strict": False,
                }
            ],
        },
    ]
    assert "tool_choice" not in body
    body = model.request_body(found(ToolsChanged(added=(NEW,)), ToolsChanged(removed=("tool_1",)), tools=()))
    allowed = [{"type": "function", "name": "search_tools"}]
    assert body["tool_choice"] == {"type": "allowed_tools", "mode": "auto", "tools": allowed}


def test_the_safe_way_is_the_order_of_discovery() -> None:
    for adapter in CHANGING_THE_TOOLS_ARRAY:
        body = ADAPTERS[adapter].request_body(ADDED)
        names = [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
        assert names == ["search_tools", "tool_1"]
        assert "defer_loading" not in text(body)
        assert "additional_tools" not in text(body)


async def test_one_proxy_tool_calls_what_was_found() -> None:
    arguments = json.dumps({"tool_name": "tool_1", "arguments": {"v0": "x"}})
    call = {"id": "c1", "type": "function", "function": {"name": "call_tool", "arguments": arguments}}
    broken = {"id": "c2", "type": "function", "function": {"name": "call_tool", "arguments": '{"tool_name": 5}'}}
    played = PlayedProvider(chat_stream({"tool_calls": [{"index": 0, **call}, {"index": 1, **broken}]}))
    model = OpenAIChatModel(
        "m", api_key="k", http_client=played.http_client, capabilities=Capabilities("call_tool"), provider="vllm"
    )
    answer = await model.respond(ADDED, ignore)
    [body] = played.bodies
    assert [tool["function"]["name"] for tool in body["tools"]] == ["search_tools", "call_tool"]
    shown = body["messages"][-1]["content"].splitlines()
    assert shown[0] == "Added."
    assert json.loads(shown[1].partition(": ")[2])["parameters"] == NEW.parameters
    first, second = answer.message.tool_calls
    assert (first.name, first.arguments, first.malformed) == ("tool_1", {"v0": "x"}, "")
    assert second.malformed == '{"tool_name":5}'
    after = model.request_body(ModelRequest("", (*ADDED.messages, answer.message), ADDED.tools))
    assert after["messages"][-1]["tool_calls"][0] == call
    foreign = Message("assistant", (ToolCall("c9", "tool_1", {"v0": "y"}),), origin=Origin("anthropic"))
    after = model.request_body(ModelRequest("", (*ADDED.messages, foreign), ADDED.tools))
    assert json.loads(after["messages"][-1]["tool_calls"][0]["function"]["arguments"]) == {
        "tool_name": "tool_1",
        "arguments": {"v0": "y"},
    }


@each_row("adapter", list(ADAPTERS))
def test_a_history_reveals_only_what_is_configured(adapter: str) -> None:
    """A tool that the history added and the agent no longer has is dropped quietly."""
    body = ADAPTERS[adapter].request_body(found(ToolsChanged(added=(NEW,)), tools=()))
    assert "tool_1" not in text(body)


@each_row("adapter", list(ADAPTERS))
def test_a_tool_that_changed_meanwhile_is_shown_as_it_is_now(adapter: str) -> None:
    body = ADAPTERS[adapter].request_body(found(ToolsChanged(added=(NEW,)), tools=(CHANGED,)))
    assert "version 1" in text(body)
    assert "version 0" not in text(body)


@each_row(
    "name, discovery, changes",
    [
        ("claude-sonnet-4-5", "references", "none"),
        ("claude-sonnet-4-5-20250929", "references", "none"),
        ("claude-sonnet-5", "references", "none"),
        ("claude-opus-4-7", "references", "none"),
        ("claude-haiku-4-5-20251001", "references", "none"),
        ("claude-opus-4-8", "references", "by_value"),
        ("claude-opus-5", "references", "by_value"),
        ("claude-sonnet-5-5", "references", "by_value"),
        ("claude-haiku-5-5", "references", "by_value"),
        ("claude-fable-5-2", "references", "by_value"),
        ("claude-opus-4-1", "batches", "none"),
        ("claude-opus-4-20250514", "batches", "none"),
        ("claude-3-5-sonnet-20241022", "batches", "none"),
        ("claude-mythos-preview", "batches", "none"),
        ("claude-sonnet-7", "batches", "none"),
        ("anything", "batches", "none"),
    ],
)
def test_what_is_known_of_claude_models(name: str, discovery: str, changes: str) -> None:
    known = anthropic_capabilities(name)
    assert (known.discovery, known.tool_changes) == (discovery, changes)
    assert known.source


@each_row(
    "name, discovery",
    [
        ("gpt-4o", "additional_tools"),
        ("gpt-4o-mini-2024-07-18", "additional_tools"),
        ("gpt-4.1-nano", "additional_tools"),
        ("gpt-5", "additional_tools"),
        ("gpt-5.4-mini-2026-03-17", "additional_tools"),
        ("gpt-5.6-sol", "additional_tools"),
        ("gpt-6.2-astra", "additional_tools"),
        ("gpt-4", "call_tool"),
        ("gpt-3.5-turbo", "call_tool"),
        ("gpt-7", "call_tool"),
        ("anything", "batches"),
        ("gpt-4o-audio-preview", "call_tool"),
        ("o3-mini", "call_tool"),
    ],
)
def test_what_is_known_of_openai_models(name: str, discovery: str) -> None:
    assert openai_capabilities(name).discovery == discovery


@each_row(
    "spec, discovery",
    [
        ("openai-chat:gpt-5.5", "call_tool"),
        ("openai-chat:gpt-4o", "call_tool"),
        ("openai-chat:unheard-of", "batches"),
        ("openai-chat:gpt-5.5?base_url=http://localhost:1/v1", "batches"),
        ("openai-chat:gpt-5.5?discovery=append", "append"),
        ("openai:o3?discovery=append", "append"),
        ("openai:gpt-5.5?discovery=call_tool", "call_tool"),
        ("deepseek:deepseek-v4.1", "call_tool"),
        ("xai:grok-5", "call_tool"),
        ("gemini:gemini-2.5-flash", "batches"),
        ("groq:llama-4", "batches"),
        ("mistral:mistral-large", "batches"),
        ("openrouter:deepseek/deepseek-v4.1-flash", "batches"),
        ("ollama:qwen3:70b", "batches"),
    ],
)
def test_found_tools_keep_the_beginning_where_its_cache_counts(spec: str, discovery: str) -> None:
    providers = ("OPENAI", "DEEPSEEK", "XAI", "GEMINI", "GROQ", "MISTRAL", "OPENROUTER")
    model = resolve_model(spec, environ={f"{name}_API_KEY": "k" for name in providers})
    assert isinstance(model, HttpModel)
    assert model.capabilities.discovery == discovery


async def test_a_call_through_another_tool_is_one_of_the_tool_meant_in_responses_too() -> None:
    arguments = json.dumps({"tool_name": "tool_1", "arguments": {"v0": "x"}})
    call = call_item("c1", "call_tool", arguments)
    played = PlayedProvider(responses_stream(call))
    model = OpenAIResponsesModel("o3", api_key="k", http_client=played.http_client)
    answer = await model.respond(ADDED, ignore)
    [body] = played.bodies
    assert [tool["name"] for tool in body["tools"]] == ["search_tools", "call_tool"]
    assert "Call it as call_tool(tool_name, arguments)" in text(body["input"])
    [made] = answer.message.tool_calls
    assert (made.name, made.arguments) == ("tool_1", {"v0": "x"})
    result = ToolResult(made.id, made.name, (Text("Done."),))
    then = replace(ADDED, messages=(*ADDED.messages, answer.message, Message("tool", (result,))))
    items = model.request_body(then)["input"]
    [again] = [item for item in items if item.get("type") == "function_call" and item["call_id"] == "c1"]
    assert (again["name"], json.loads(again["arguments"])) == ("call_tool", json.loads(arguments))
    assert items[: len(body["input"])] == body["input"]


async def test_a_call_made_before_tools_were_found_so_stays_as_it_was() -> None:
    played = PlayedProvider(responses_stream(call_item("c1", "tool_1", '{"v0":"x"}')))
    before = OpenAIResponsesModel("o3", api_key="k", http_client=played.http_client, capabilities=SAFE)
    answer = await before.respond(ADDED, ignore)
    [made] = answer.message.tool_calls
    result = ToolResult(made.id, made.name, (Text("Done."),))
    then = replace(ADDED, messages=(*ADDED.messages, answer.message, Message("tool", (result,))))
    for model in (before, OpenAIResponsesModel("o3", api_key="k")):
        items = model.request_body(then)["input"]
        [again] = [item for item in items if item.get("type") == "function_call" and item["call_id"] == "c1"]
        assert (again["name"], again["arguments"]) == ("tool_1", '{"v0":"x"}')


def test_what_is_known_can_be_overruled() -> None:
    assert OpenAIResponsesModel("gpt-5.4", base_url="http://proxy.example/v1").capabilities == SAFE
    assert OpenAIResponsesModel("gpt-5.4", capabilities=SAFE).capabilities == SAFE
    environ = {"ANTHROPIC_API_KEY": "k"}
    safe = resolve_model("anthropic:claude-opus-5?discovery=append", environ=environ)
    assert isinstance(safe, AnthropicModel)
    assert safe.capabilities.discovery == "append"
    proxied = resolve_model("ollama:qwen3?discovery=call_tool", environ={})
    assert isinstance(proxied, OpenAIChatModel)
    assert proxied.capabilities.discovery == "call_tool"
    with pytest.raises(ConfigError, match='option discovery is "magic"; write references or append'):
        resolve_model("anthropic:x?discovery=magic", environ=environ)
