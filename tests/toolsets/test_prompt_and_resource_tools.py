"""`get_prompt` and `get_resource` while servers come and go."""

from __future__ import annotations

import json
from typing import Any

from mcpagent import Agent, RunOptions, ToolSearch
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.messages import ToolCall, ToolResult
from tests.scenes import results
from tests.servers.everyday import everyday
from tests.tables import each_row

PATIENT = ServerOptions(startup_seconds=None)


def prompt(identity: str, server: str) -> ToolCall:
    return ToolCall(identity, "get_prompt", {"server": server, "name": "review", "arguments": {"code": "x"}})


def resource(identity: str, server: Any) -> ToolCall:
    return ToolCall(identity, "get_resource", {"server": server, "uri": "notes://today"})


def said(result: ToolResult) -> tuple[str, str | None]:
    return result.text, result.error


async def test_what_a_lost_server_offered_is_told_as_lost_and_comes_back() -> None:
    model = ScriptedModel(
        [
            [prompt("p1", "one"), resource("r1", "two")],
            "both",
            [prompt("p2", "one"), resource("r2", "one"), prompt("p3", "two"), resource("r3", "three")],
            "one is off",
            [prompt("p4", "one"), resource("r4", "one")],
            "back",
        ]
    )
    async with everyday("http") as url:
        servers = [ServerConfig("one", url=url), ServerConfig("two", url=url)]
        async with Agent(model, mcp_config=servers, options=RunOptions(servers=PATIENT)) as agent:
            await agent.ask("Both.")
            await agent.mcp.turn_off("one")
            await agent.ask("One is off.")
            await agent.mcp.restart("one")
            await agent.ask("One is back.")
            got = {result.call_id: said(result) for result in results(agent.messages)}
    review, today = ("[user]\nReview this in a kind way: x", None), ("buy milk", None)
    off = ('server "one" is not connected: it is turned off', "server_down")
    assert got == {
        "p1": review,
        "r1": today,
        "p2": off,
        "r2": off,
        "p3": review,
        "r3": ('no server "three"; try "two"', "invalid_arguments"),
        "p4": review,
        "r4": today,
    }
    offered = [{tool.name: tool.description for tool in request.tools} for request in model.requests]
    assert "- one: review" in offered[0]["get_prompt"]
    assert "- one: review" not in offered[2]["get_prompt"]
    assert "- one: review" in offered[4]["get_prompt"]


async def test_a_prompt_is_found_beside_tools() -> None:
    for load in ("add_tool", "search"):
        search = ToolCall("s", "search_tools", {"query": "review code kindly"})
        model = ScriptedModel([search, prompt("p", "one"), "done"])
        async with (
            everyday("http") as url,
            Agent(
                model,
                mcp_config=[ServerConfig("one", url=url)],
                options=RunOptions(servers=PATIENT),
                tool_search=ToolSearch(load=load),
            ) as agent,
        ):
            await agent.ask("Go.")
            found, got = results(agent.messages)
        [shown] = [tool for tool in json.loads(found.text)["tools"] if tool.get("kind") == "prompt"]
        assert shown["call"] == {"server": "one", "name": "review", "arguments": {"code": "...", "style": "..."}}
        assert said(got) == ("[user]\nReview this in a kind way: x", None)


async def test_without_any_server_that_has_content_the_tools_are_withdrawn() -> None:
    model = ScriptedModel(["with", resource("r", "one"), "without"])
    async with (
        everyday("http") as url,
        Agent(model, mcp_config=[ServerConfig("one", url=url)], options=RunOptions(servers=PATIENT)) as agent,
    ):
        await agent.ask("Go.")
        await agent.mcp.turn_off("one")
        await agent.ask("Go on.")
        [result] = results(agent.messages)
    assert result.error == "unknown_tool"
    assert not {"get_prompt", "get_resource"} & {tool.name for tool in model.requests[1].tools}


@each_row(
    "tool, arguments, words",
    [
        ("get_prompt", {"name": "review"}, "the arguments do not fit: 'server' is a required property"),
        ("get_resource", {"server": ["one"], "uri": "a://b"}, "the arguments do not fit: server: ['one'] is not"),
        ("get_prompt", {"server": "one", "name": "review", "arguments": "x"}, "arguments: 'x' is not of type 'object'"),
        ("get_prompt", {"server": "one", "name": "review", "arguments": {}}, 'needs code; give them in "arguments"'),
    ],
)
async def test_arguments_that_do_not_fit(tool: str, arguments: dict[str, Any], words: str) -> None:
    model = ScriptedModel([ToolCall("c", tool, arguments), "ok"])
    async with (
        everyday("http") as url,
        Agent(model, mcp_config=[ServerConfig("one", url=url)], options=RunOptions(servers=PATIENT)) as agent,
    ):
        await agent.ask("Go.")
        [result] = results(agent.messages)
    assert words in result.text
    assert result.error == "invalid_arguments"
