"""`allowed_callers`: tools that only the model calls, and tools that only programs call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ConfigError,
    ModelSettings,
    Recorder,
    Replay,
    RunOptions,
    ScriptedModel,
    ToolCall,
    ToolSearch,
    callable_from,
)
from mcpagent.config import ServerConfig, load_servers
from mcpagent.toolsets.functions import FunctionToolset, function_tool
from mcpagent.values.events import Event, Notice
from mcpagent.values.tools import ALL_CALLERS
from tests.servers.everyday import everyday
from tests.tables import each_row

pytestmark = pytest.mark.anyio

SEARCH = ToolCall("", "search_tools", {"query": "select:send,count"})


class Calls:
    """Two functions that remember how they were called."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def send(self, text: str) -> str:
        """Send a mail."""
        self.ran.append(f"send {text}")
        return "sent"

    def count(self, word: str) -> int:
        """Count the letters of a word."""
        self.ran.append(f"count {word}")
        return len(word)


def program(code: str) -> ToolCall:
    return ToolCall("", "run_code", {"code": f"from tools.functions import {code}"})


async def conversed(
    calls: Sequence[ToolCall], tools: Sequence[Any], *, code_mode: bool = True, **options: Any
) -> tuple[list[list[str]], list[str]]:
    """Return the names of the tools in each request, and the texts of the results."""
    model = ScriptedModel([*calls, "done"])
    async with Agent(model, tools=tools, code_mode=code_mode, **options) as agent:
        assert await agent.ask("go") == "done"
        texts = [result.text for message in agent.messages for result in message.tool_results]
    return [[tool.name for tool in request.tools] for request in model.requests], texts


async def test_a_tool_for_direct_calls_is_loaded_by_the_search_and_is_no_function() -> None:
    calls = Calls()
    tools = [function_tool(calls.send, allowed_callers=["direct"]), calls.count]
    asked = [SEARCH, program("send\nawait send(text='a')"), ToolCall("", "send", {"text": "b"})]
    offered, texts = await conversed(asked, tools)
    assert offered == [["search_tools", "run_code"], *[["search_tools", "run_code", "send"]] * 3]
    assert "async def count" in texts[0]
    assert "def send" not in texts[0]
    assert "Not for programs, call directly: send" in texts[0].splitlines()
    assert "send: only for direct calls, not for programs. Call it directly, without import." in texts[1]
    assert texts[2] == "sent"
    assert calls.ran == ["send b"]


async def test_an_import_of_a_tool_for_direct_calls_loads_it() -> None:
    tools = [function_tool(Calls().send, allowed_callers=["direct"])]
    offered, texts = await conversed([program("send\nsend")], tools)
    assert offered == [["search_tools", "run_code"], ["search_tools", "run_code", "send"]]
    assert "Use search_tools to find functions" not in texts[0]


async def test_a_tool_for_programs_is_neither_offered_nor_called_directly() -> None:
    calls = Calls()
    tools = [calls.send, function_tool(calls.count, allowed_callers=["code"], defer_loading=False)]
    asked = [ToolCall("", "count", {"word": "abc"}), SEARCH, program("count\nawait count(word='abc')")]
    offered, texts = await conversed(asked, tools, pre_discovered_tools=["send", "count"])
    assert offered == [["search_tools", "run_code", "send"]] * 4
    assert texts[0] == (
        '"count" can be called only from programs. '
        "Call it in a program: run_code with `from tools.functions import count`."
    )
    assert "async def count" in texts[1]
    assert texts[2] == "3"
    assert calls.ran == ["count abc"]


async def test_without_code_mode_the_model_calls_every_tool() -> None:
    calls = Calls()
    tools = [function_tool(calls.count, allowed_callers=["code"]), calls.send]
    offered, texts = await conversed([ToolCall("", "count", {"word": "ab"})], tools, code_mode=False)
    assert offered == [["count", "send"]] * 2
    assert texts == ["2"]


@each_row("options", [{"settings": ModelSettings(profile="small")}, {}])
async def test_a_small_model_gets_found_tools_directly_too_with_one_notice(options: Any) -> None:
    calls, seen = Calls(), list[Event]()
    tools = [calls.send, function_tool(calls.count, allowed_callers=["code"])]
    asked = [SEARCH, ToolCall("", "send", {"text": "a"}), program("send\nawait send(text='b')"), SEARCH]
    given = RunOptions(**options)
    offered, texts = await conversed(asked, tools, options=given, on_event=seen.append)
    notices = [event.text for event in seen if isinstance(event, Notice)]
    loaded = bool(options)
    assert ("send" in offered[1]) == loaded
    assert "async def send" in texts[0]
    assert ("Loaded, can be called directly too: send" in texts[0].splitlines()) == loaded
    assert (texts[1], texts[2]) == ("sent", "sent")
    assert all("count" not in names for names in offered)
    expected = "is a small model: in code mode, a search also loads the tools that it finds"
    assert [expected in text for text in notices] == [True] * loaded


@each_row(
    "options, words",
    [
        ({}, "functions that search_tools showed.\n"),
        (
            {"tool_search": ToolSearch(load="search")},
            "It also loads them: if one call is enough, call the tool directly.\n",
        ),
        ({"pre_discovered_tools": ["send"]}, "If one call of a tool in your list is enough, call it directly.\n"),
    ],
)
async def test_the_prompt_says_when_to_call_directly(options: Any, words: str) -> None:
    model = ScriptedModel(["done"])
    async with Agent(model, tools=[Calls().send], code_mode=True, **options) as agent:
        await agent.ask("go")
    assert words in model.requests[0].system


@each_row(
    "source",
    [
        FunctionToolset([Calls().count], allowed_callers=["code"]),
        callable_from([Calls().count], ["code"]),
        callable_from(FunctionToolset([Calls().count]), ("code",)),
    ],
)
async def test_a_toolset_has_callers_of_all_its_tools(source: Any) -> None:
    async with source:
        assert [tool.allowed_callers for tool in await source.tools()] == [("code",)]


async def test_a_replay_offers_what_the_recorded_run_offered(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    tools = [function_tool(Calls().count, allowed_callers=["code"], defer_loading=False)]
    wrappers = RunOptions(wrappers=[Recorder(path)])
    offered, _ = await conversed([SEARCH, program("count\nawait count(word='abc')")], tools, options=wrappers)
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)])) as agent:
        assert await agent.ask("go") == "done"
        assert [tool.name for tool in agent.offered_tools()] == offered[-1] == ["search_tools", "run_code"]


async def test_a_decorator_takes_callers() -> None:
    model = ScriptedModel([SEARCH, "done"])
    agent = Agent(model, code_mode=True)

    @agent.tool(allowed_callers=["direct"])
    def count(word: str) -> int:
        """Count."""
        return len(word)

    async with agent:
        await agent.ask("go")
    assert [tool.name for tool in model.requests[1].tools] == ["search_tools", "run_code", "count"]


@each_row(
    "value, callers",
    [(["direct"], ("direct",)), (["code"], ("code",)), (["code", "direct"], ("code", "direct")), (None, ALL_CALLERS)],
)
def test_a_server_entry_has_callers(value: Any, callers: tuple[str, ...]) -> None:
    for key in ("allowed_callers", "allowedCallers"):
        entry = {"command": "true"} if value is None else {"command": "true", key: value}
        loaded = load_servers({"mcpServers": {"a": entry}})
        assert loaded.problems == ()
        assert loaded.servers[0].allowed_callers == callers


@each_row(
    "make, words",
    [
        (lambda: function_tool(Calls().count, allowed_callers=[]), 'function_tool: allowed_callers: expected "direct"'),
        (lambda: function_tool(Calls().count, allowed_callers="code"), 'got a text; write ["..."]'),  # type: ignore[arg-type]
        (lambda: callable_from([], ["model"]), "callable_from: allowed_callers"),  # type: ignore[list-item]
        (
            lambda: ServerConfig("a", command="true", allowed_callers=()),
            'server "a": allowed_callers: expected "direct"',
        ),
        (
            lambda: load_servers({"mcpServers": {"a": {"command": "true", "allowed_callers": ["model"]}}}),
            'expected "direct" or "code", got "model"',
        ),
    ],
)
def test_wrong_callers_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert words in str(caught.value)


async def test_the_tools_of_a_server_have_the_callers_of_its_entry() -> None:
    model = ScriptedModel([ToolCall("", "search_tools", {"query": "add two numbers"}), "done"])
    async with everyday("http") as url:
        entry = {"url": url, "allowed_callers": ["direct"]}
        async with Agent(model, mcp_config={"mcpServers": {"every": entry}}, code_mode=True) as agent:
            await agent.ask("Add 1 and 2.")
            (text,) = [result.text for message in agent.messages for result in message.tool_results]
    loaded = [tool.name for tool in model.requests[1].tools[2:]]
    assert "add" in loaded
    assert text.splitlines()[-1].startswith("Not for programs, call directly: ")
    assert set(text.rpartition(": ")[2].split(", ")) == set(loaded)
