"""What a model may ask of `search_tools` beside its words, what comes back, and patterns for `add_tool`."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from benchmarks.search_everyday import load_tools

from mcpagent import Agent, ToolSearch
from mcpagent.models.scripted import ScriptedModel
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN, definition_tokens
from mcpagent.tool_search.search_tools import ADD_TOOL, MAX_RESULTS, search_tools_definition
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.scenes import call, offered, results
from tests.tables import each_row

MOST_TOKENS = 120


async def done(_arguments: dict[str, Any], _run: object = None) -> ToolOutput:
    return ToolOutput.of_text("done")


def tool(server: str, name: str, about: str = "", parameters: dict[str, Any] | None = None) -> Tool:
    definition = ToolDefinition(
        f"{server}__{name}", about or name.replace("_", " "), parameters or {"type": "object"}, server, name
    )
    return Tool(definition, done)


OFFICE = [
    *(tool("github", f"{verb}_{what}") for verb in ("create", "list", "close") for what in ("issue", "branch")),
    *(tool("mail", f"{verb}_message") for verb in ("send", "read", "delete", "list")),
    tool("calendar", "create_event", "Puts an event into the calendar"),
]


async def answers(*calls: Any, tools: list[Tool] | None = None, **options: Any) -> list[Any]:
    """What the model read for each call, one after the other; `offered` after the last."""
    model = ScriptedModel([*calls, "ok"])
    search = ToolSearch(enabled=True, **{"strategy": "bm25", **options})
    agent = Agent(model, tools=tools or OFFICE, tool_search=search)
    async with asyncio.timeout(60), agent:
        await agent.ask("go")
    return [*results(model.requests[-1].messages), offered(model.requests[-1])]


async def searched(**arguments: Any) -> dict[str, Any]:
    answer, _ = await answers(call("search_tools", **arguments))
    found: dict[str, Any] = json.loads(answer.text)
    return found


def names(answer: dict[str, Any]) -> list[str]:
    return [shown["name"].partition("__")[2] for shown in answer["tools"]]


@each_row("server", ["github", "GitHub", " github ", "git-hub"])
async def test_a_server_narrows_the_search(server: str) -> None:
    answer = await searched(query="list create", server=server)
    assert {shown["server"] for shown in answer["tools"]} == {"github"}


@each_row("server, near", [("gitlab", "github"), ("GITLAB", "github"), ("mial", "mail"), ("zzz", None)])
async def test_a_server_that_is_not_there_is_one_line_with_what_is_near(server: str, near: str | None) -> None:
    answer, _ = await answers(call("search_tools", query="list", server=server))
    error = json.loads(answer.text)["error"]
    assert answer.error == "invalid_arguments"
    assert f'no server "{server}"' in error
    assert (f"did you mean {near}" in error) is (near is not None)
    assert "\n" not in error


async def test_a_limit_is_read_as_it_is_meant() -> None:
    meant: list[tuple[Any, int]] = [(1, 1), ("2", 2), (2.0, 2), (0, 1), (-3, 1), (None, 3), ("", 3), (99, 8)]
    pattern = "^(github|mail)__(create|list|send|read|delete)"
    calls = [call("search_tools", query=pattern, limit=limit) for limit, _ in meant]
    *answered, _ = await answers(calls, max_results=3)
    shown = [len(json.loads(answer.text)["tools"]) for answer in answered]
    assert [(limit, count) for (limit, _), count in zip(meant, shown, strict=True)] == meant


@each_row("arguments", [{"limit": "many"}, {"offset": [1]}, {"limit": {"a": 1}}, {"offset": "1e999"}])
async def test_what_is_no_number_is_told_in_one_line(arguments: dict[str, Any]) -> None:
    answer, _ = await answers(call("search_tools", query="list", **arguments))
    assert answer.error == "invalid_arguments"
    assert json.loads(answer.text)["error"].startswith("limit and offset are whole numbers")


async def test_pages_hold_every_match_once_and_the_last_says_so() -> None:
    seen: list[str] = []
    first = await searched(query="^(github|mail)__", limit=4)
    assert "6 more match" in first["message"]
    assert "offset=4" in first["message"]
    for offset in (0, 4, 8):
        answer = await searched(query="^(github|mail)__", limit=4, offset=offset)
        seen += names(answer)
        assert answer["found"] == 10
    assert sorted(seen) == sorted(one.definition.original_name for one in OFFICE[:10])
    beyond = await searched(query="^(github|mail)__", limit=4, offset=40)
    assert (beyond["tools"], beyond["message"]) == ([], "There are no more: 10 match in all.")


@each_row(
    "arguments",
    [
        {"query": "send a message", "queries": ["create an event", "close an issue"]},
        {"query": ["send a message", "create an event", "close an issue"]},
        {"queries": ["send a message", "create an event", "close an issue"]},
        {"query": "send a message", "queries": "create an event", "pattern": "unused"},
    ],
)
async def test_several_needs_are_searched_at_once_and_no_tool_comes_twice(arguments: dict[str, Any]) -> None:
    answer = await searched(**arguments)
    found = names(answer)
    assert {"send_message", "create_event"} <= set(found)
    assert len(found) == len(set(found)) <= MAX_RESULTS
    needs = {name: tool["query"] for name, tool in zip(found, answer["tools"], strict=True)}
    assert (needs["send_message"], needs["create_event"]) == ("send a message", "create an event")


async def test_one_query_marks_no_result_with_it() -> None:
    answer = await searched(query="send a message")
    assert all("query" not in tool for tool in answer["tools"])


@each_row("strategy", ["bm25", "hybrid"])
async def test_pages_of_words_hold_no_tool_twice(strategy: str) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    pages = [call("search_tools", query="list messages", limit=3, offset=offset) for offset in (0, 3, 6, 500)]
    *answered, _ = await answers(pages, strategy=strategy)
    found = [shown["name"] for answer in answered for shown in json.loads(answer.text)["tools"]]
    assert found[0] == "mail__list_message"
    assert len(found) == len(set(found))
    assert json.loads(answered[-1].text)["message"].startswith("There are no more")


async def test_a_name_that_is_asked_for_invites_to_no_further_search() -> None:
    answer = await searched(query="create_issue", limit=1)
    assert names(answer) == ["create_issue"]
    assert "more match" not in answer["message"]
    assert "narrow" not in answer["message"]


def test_the_definitions_name_no_tool_that_could_be_called_and_stay_short() -> None:
    both = [search_tools_definition(loads=False), ADD_TOOL]
    said = json.dumps([[one.description, one.parameters] for one in both])
    for word in ("read_file", "weather", "e.g.", "github"):
        assert word not in said
    assert sum(map(definition_tokens, both)) <= 270


async def test_each_result_takes_at_most_120_tokens_with_its_names_whole() -> None:
    """Over 495 tools of thirteen servers."""
    definitions = await asyncio.to_thread(load_tools)
    tools = [Tool(one, done) for one in definitions]
    servers = sorted({one.server or "" for one in definitions})
    calls = [
        call("search_tools", query=f"^{server}__", server=server, limit=MAX_RESULTS, offset=offset)
        for server in servers
        for offset in range(0, sum(one.server == server for one in definitions), MAX_RESULTS)
    ]
    model = ScriptedModel([calls, "ok"])
    agent = Agent(model, tools=tools, tool_search=ToolSearch(enabled=True, strategy="bm25"))
    async with asyncio.timeout(110), agent:
        await agent.ask("go")
    shown = [one for answer in results(model.requests[-1].messages) for one in json.loads(answer.text)["tools"]]
    by_name = {one.name: one for one in definitions}
    assert {one["name"] for one in shown} == set(by_name)
    for one in shown:
        length = len(json.dumps(one, ensure_ascii=False))
        assert length <= MOST_TOKENS * CHARACTERS_PER_TOKEN, one
        required = by_name[one["name"]].parameters.get("required", [])
        assert all(re.search(rf"[( ]{re.escape(name)}[:,)]", one["signature"]) for name in required), one


async def test_required_names_are_whole_even_where_they_take_more() -> None:
    required = [f"a_parameter_with_a_long_name_{number}" for number in range(40)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in required}, "required": required}
    answer, _ = await answers(call("search_tools", query="wide"), tools=[tool("big", "wide", "Wide. " * 90, schema)])
    (shown,) = json.loads(answer.text)["tools"]
    assert shown["signature"] == f"big__wide({', '.join(required)})"


@each_row(
    "asked, added",
    [
        (["github.*issue*"], ["close_issue", "create_issue", "list_issue"]),
        (["GitHub.*_Branch"], ["close_branch", "create_branch", "list_branch"]),
        (["mail__read*", "calendar.*"], ["read_message", "create_event"]),
        (["*_event", "create_event"], ["create_event"]),
        (["list_??????"], ["list_branch"]),
        ("send_*", ["send_message"]),
    ],
)
async def test_patterns_add_what_they_fit(asked: Any, added: list[str]) -> None:
    answer, now = await answers(call("add_tool", tool_names=asked))
    assert [name.partition("__")[2] or name for name in now[2:]] == added
    assert answer.text.startswith("Added tools: ")


async def test_a_pattern_that_fits_nothing_is_not_found() -> None:
    answer, now = await answers(call("add_tool", tool_names=["jira.*", "*"]), tools=OFFICE[:2])
    assert "Not found: jira.*" in answer.text
    assert len(now) == 4


async def test_a_pattern_that_fits_too_many_adds_none_and_says_how_many() -> None:
    many = [tool("big", f"tool_{number}") for number in range(60)]
    answer, now = await answers(call("add_tool", tool_names=["big.*"]), tools=many)
    assert '"big.*" fits 60 tools' in answer.text
    assert "nothing was added" in answer.text
    assert answer.error == "invalid_arguments"
    assert now == ["search_tools", "add_tool"]
