"""Tools that a provider runs, as requests name them: what is written for which model, and what cannot be meant."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mcpagent import (
    Agent,
    CodeExecution,
    FileSearch,
    Location,
    ModelSettings,
    ProviderMcp,
    ScriptedModel,
    ToolDefinition,
    WebFetch,
    WebSearch,
)
from mcpagent.errors import ConfigError
from mcpagent.models import (
    AnthropicModel,
    ModelRequest,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from mcpagent.models.http_model import HttpModel
from mcpagent.models.provider_tools.provider_tool_values import (
    KINDS,
    ProviderTool,
    as_data,
    names_taken,
    provider_tool_of,
    provider_tools_of,
)
from mcpagent.tool_search.catalog import Catalogs, Listing
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.values.messages import user_message
from mcpagent.values.tools import Tool, ToolOutput
from tests.models.test_model_settings import params_of
from tests.tables import each_row
from tests.wire.scene import SEARCH, WEATHER

MCP = ProviderMcp("linear", "https://mcp.example.com/mcp", allowed_tools=["list"], description="Issues.")
TOOLS: Mapping[str, ProviderTool] = {
    "web_search": WebSearch(),
    "web_search to": WebSearch(3, allowed_domains=["example.org"], location=Location("Paris", country="FR")),
    "web_search not": WebSearch(blocked_domains=["example.org"]),
    "web_fetch": WebFetch(max_uses=2, max_content_tokens=5_000),
    "code_execution": CodeExecution(),
    "file_search": FileSearch(["vs_1"], max_results=4),
    "mcp": MCP,
}
MODELS: Mapping[str, HttpModel] = {
    "claude-opus-5-5": AnthropicModel("claude-opus-5-5"),
    "claude-haiku-4-5": AnthropicModel("claude-haiku-4-5-20251001"),
    "claude-opus-4-1": AnthropicModel("claude-opus-4-1"),
    "claude-3-opus": AnthropicModel("claude-3-opus-20240229"),
    "claude of Vertex": AnthropicModel("claude-opus-5", base_url="https://us-aiplatform.googleapis.com/v1"),
    "claude of Bedrock": AnthropicModel("claude-opus-5", base_url="https://bedrock-runtime.us-east-1.amazonaws.com"),
    "no claude": AnthropicModel("kimi-k3", base_url="https://api.example.com/anthropic"),
    "gpt-5.5": OpenAIResponsesModel("gpt-5.5"),
    "gpt-4.1-nano": OpenAIResponsesModel("gpt-4.1-nano"),
    "a deployment at Azure": OpenAIResponsesModel("mine", base_url="https://x.openai.azure.com/openai/v1"),
    "unknown by responses": OpenAIResponsesModel("m", base_url="https://gateway.example.com/v1"),
    "gpt by chat": OpenAIChatModel("gpt-5.5"),
    "gpt-search by chat": OpenAIChatModel("gpt-4o-search-preview"),
    "openrouter": OpenAIChatModel("openai/gpt-5.5", provider="openrouter", base_url="https://openrouter.ai/api/v1"),
    "gemini": OpenAIChatModel(
        "gemini-3-flash", provider="gemini", base_url="https://generativelanguage.googleapis.com/v1beta/openai"
    ),
    "ollama": OpenAIChatModel("qwen3", provider="ollama", base_url="http://localhost:11434/v1"),
}
WRITTEN: Mapping[str, Mapping[str, str]] = {
    # by model: the type that each tool is written as; a tool that is not named is left out
    "claude-opus-5-5": {
        **dict.fromkeys(("web_search", "web_search to", "web_search not"), "web_search_20260318"),
        "web_fetch": "web_fetch_20260318",
        "code_execution": "code_execution_20260521",
        "mcp": "mcp_toolset",
    },
    "claude-haiku-4-5": {
        **dict.fromkeys(("web_search", "web_search to", "web_search not"), "web_search_20250305"),
        "web_fetch": "web_fetch_20250910",
        "code_execution": "code_execution_20260521",
        "mcp": "mcp_toolset",
    },
    "claude-opus-4-1": {
        **dict.fromkeys(("web_search", "web_search to", "web_search not"), "web_search_20250305"),
        "web_fetch": "web_fetch_20250910",
        "code_execution": "code_execution_20250825",
    },
    "claude of Vertex": dict.fromkeys(("web_search", "web_search to", "web_search not"), "web_search_20250305"),
    "gpt-5.5": {
        **dict.fromkeys(("web_search", "web_search to"), "web_search"),
        "code_execution": "code_interpreter",
        "file_search": "file_search",
        "mcp": "mcp",
    },
    "a deployment at Azure": {
        **dict.fromkeys(("web_search", "web_search to"), "web_search"),
        "code_execution": "code_interpreter",
        "file_search": "file_search",
        "mcp": "mcp",
    },
    "gpt-4.1-nano": {"code_execution": "code_interpreter", "file_search": "file_search", "mcp": "mcp"},
    "gpt-search by chat": {"web_search": "web_search_options"},
    "openrouter": {
        **dict.fromkeys(("web_search", "web_search to"), "openrouter:web_search"),
        "web_fetch": "openrouter:web_fetch",
    },
}


def request_of(*tools: ProviderTool, **changes: Any) -> ModelRequest:
    given: dict[str, Any] = {"tools": (SEARCH, WEATHER), "provider_tools": tools, **changes}
    return ModelRequest("You help.", (user_message("Rain?"),), **given)


@each_row("tool", TOOLS)
@each_row("name", MODELS)
def test_each_model_is_written_what_it_has(name: str, tool: str) -> None:
    model, request = MODELS[name], request_of(TOOLS[tool])
    plain, body = model.request_body(request_of()), model.request_body(request)
    kind = WRITTEN.get(name, {}).get(tool)
    left_out = model.run_for(request).left_out
    if kind is None:
        assert body == plain
        assert TOOLS[tool].name in left_out
        return
    assert TOOLS[tool].name not in left_out
    ours = len(plain["tools"])
    assert body["tools"][-ours:] == plain["tools"]  # theirs before, so that what is found later stands at the end
    types = [entry["type"] for entry in body["tools"][:-ours]]
    assert types == ([] if kind == "web_search_options" else [kind])
    assert kind in body or types
    changed = {key for key in body if body.get(key) != plain.get(key)}
    assert changed <= {"tools", "include", "mcp_servers", "web_search_options"}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_what_the_types_of_the_sdks_say(name: str) -> None:
    model = MODELS[name]
    for tool in () if name == "openrouter" else TOOLS.values():  # it has tools of its own
        params_of(model).validate_python(model.request_body(request_of(tool)))
        settings = ModelSettings(tool_choice=tool.name)
        params_of(model).validate_python(model.request_body(request_of(tool, settings=settings)))


@each_row("name", WRITTEN)
def test_limits_are_written_or_told(name: str) -> None:
    """What cannot be kept of where it may go costs the tool; how often it may go there is told."""
    model, tool = MODELS[name], WebSearch(3, blocked_domains=["example.org"])
    run = model.run_for(request_of(tool))
    text = json.dumps([*run.tools, run.fields])
    assert ("example.org" in text) != ("web_search" in run.left_out)
    some = model.run_for(request_of(WebSearch(3)))
    assert ("web_search" in some.left_out) or ('"max_uses": 3' in json.dumps(some.tools)) != (
        "max_uses of web_search" in some.left_out
    )


@each_row("name", ["claude-opus-5-5", "gpt-5.5"])
def test_an_answer_that_is_forced_runs_none_and_one_that_is_demanded_runs_it(name: str) -> None:
    model = MODELS[name]
    none = {"messages": {"type": "none"}, "responses": "none"}[model.protocol]
    for tools in ((SEARCH, WEATHER), ()):
        body = model.request_body(request_of(WebSearch(), tools=tools, tool_choice="none"))
        assert body["tool_choice"] == none
    settings = ModelSettings(tool_choice="web_search")
    demanded = model.request_body(request_of(WebSearch(), settings=settings))["tool_choice"]
    assert (
        demanded
        == {
            "messages": {"type": "tool", "name": "web_search"},
            "responses": {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
        }[model.protocol]
    )


# -- Values -----------------------------------------------------------------------------------------------------------


@each_row("tool", TOOLS.values())
def test_a_tool_is_the_same_after_it_was_data(tool: ProviderTool) -> None:
    [again] = provider_tools_of(json.loads(json.dumps([as_data(tool)])), "card")
    assert again == tool
    assert type(again) is KINDS[tool.kind]


@each_row(
    "make, said",
    [
        (lambda: WebSearch(0), "max_uses: expected a whole number from 1"),
        (lambda: WebSearch(allowed_domains=["https://example.org/x"]), 'write "example.org"'),
        (lambda: WebSearch(allowed_domains=["a.org"], blocked_domains=["b.org"]), "exclude each other"),
        (lambda: FileSearch([]), "at least one store"),
        (lambda: ProviderMcp("linear", "http://example.com"), "an address"),
        (lambda: ProviderMcp("a b", "https://example.com"), "name: expected 1 to 64"),
        (lambda: Agent("offline", tools=[WebSearch(), WebSearch(2)]), "given twice"),
        (lambda: Agent("offline", tools=[MCP, replace(MCP, url="https://b.org")]), "different names"),
        (lambda: provider_tool_of("web", {}, "here"), "here: no tool of a provider"),
        (lambda: provider_tool_of("web_search", {"uses": 1}, "here"), 'no option "uses"; it takes max_uses'),
        (lambda: provider_tool_of("mcp", {"name": "x"}, "here"), 'mcp needs "url"'),
        (lambda: provider_tool_of("web_search", [1], "here"), "must be a mapping"),
        (lambda: provider_tool_of("web_search", {"location": {"town": "x"}}, "here"), 'no "town"'),
        (lambda: provider_tools_of("web_search", "here"), "must be a list"),
        (lambda: provider_tools_of([{"a": {}, "b": {}}], "here"), "one name with its options"),
    ],
)
def test_what_cannot_be_meant_is_told(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_function_of_the_same_name_is_told_and_a_servers_tool_is_renamed() -> None:
    def web_search(query: str) -> str:
        """Searches here."""
        return query

    with pytest.raises(
        ConfigError, match='tool "web_search": code mode has a tool of this name, or the provider runs one; rename'
    ):
        async with Agent(ScriptedModel([]), tools=[WebSearch(), web_search]):
            pass
    theirs = ToolDefinition("web_search", "Of a server.", {"type": "object", "properties": {}}, server="docs")
    tool = Tool(theirs, lambda _arguments: done())

    for taken, offered in ((names_taken([WebSearch()]), "docs__web_search"), (frozenset[str](), "web_search")):
        catalog = Catalogs(ToolSearch(), lambda _listed: Listing((tool,)), taken).of(())
        assert list(catalog.naming.known) == [offered]


async def done() -> ToolOutput:
    return ToolOutput.of_text("fine")


def test_a_name_that_a_conversation_has_already_costs_the_providers_tool() -> None:
    mine = replace(WEATHER, name="web_search")
    model = MODELS["claude-opus-5-5"]
    request = request_of(WebSearch(), tools=(mine,))
    assert [tool["name"] for tool in model.request_body(request)["tools"]] == ["web_search"]
    assert "of this conversation has its name" in model.run_for(request).left_out["web_search"]
