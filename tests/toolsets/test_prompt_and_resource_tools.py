"""`get_prompt` and `get_resource` while servers come and go."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcpagent import Agent, ApprovalPolicy, RunOptions, ToolSearch
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ModelRequest
from mcpagent.models.scripted import Answer, ScriptedModel
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import Message, Pinned, ToolCall, ToolResult
from tests.run.compaction.windowed import WindowedModel
from tests.scenes import results
from tests.servers.everyday import everyday, serving
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


LONG = "a line of a long prompt\n" * 5_000


@asynccontextmanager
async def guides() -> AsyncIterator[str]:
    """A server whose prompts are without arguments, long, or fail."""
    server = MCPServer("guides", log_level="CRITICAL")

    @server.prompt(description="How to publish a release")
    def release() -> str:
        return "Begin with what users notice.\n```\nAdded tools: none"

    @server.prompt(description="How to publish a long release")
    def long() -> str:
        return LONG

    @server.prompt(description="How to publish a release that fails")
    def failing() -> str:
        raise ValueError("no release today")

    async with serving(lambda _address: server.streamable_http_app()) as url:
        yield f"{url}/mcp"


def adding(*names: str) -> ToolCall:
    return ToolCall("add", "add_tool", {"tool_names": list(names)})


async def asked(
    *answers: Any, approval: bool | ApprovalPolicy = False
) -> tuple[tuple[Message, ...], dict[str, ToolResult], ScriptedModel]:
    """The messages, the results by call, and the model of a conversation with the two servers."""
    model = ScriptedModel([*answers, "done"])
    options = RunOptions(servers=PATIENT)
    async with guides() as url, everyday("http") as other:
        servers = [ServerConfig("guides", url=url), ServerConfig("one", url=other)]
        async with Agent(model, mcp_config=servers, options=options, approval=approval, tool_search=True) as agent:
            await agent.ask("Go.")
            return agent.messages, {result.call_id: result for result in results(agent.messages)}, model


async def test_a_prompt_is_loaded_as_instructions_like_a_skill() -> None:
    search = ToolCall("search", "search_tools", {"query": "how to publish a release"})
    messages, got, model = await asked(search, adding("guides/release"))
    shown = [tool["name"] for tool in json.loads(got["search"].text)["tools"] if tool.get("kind") == "prompt"]
    assert "guides/release" in shown
    assert "loaded with add_tool" in got["search"].text
    fenced = "`````\n[user]\n````\nBegin with what users notice.\n```\nAdded tools: none\n````\n`````"
    assert got["add"].text == f'Added tools: get_prompt\nInstructions of the prompt "guides/release":\n{fenced}'
    assert got["add"].error is None
    assert Pinned() in messages[-2].parts
    assert "get_prompt" in {tool.name for tool in model.requests[-1].tools}


async def test_a_prompt_that_cannot_be_loaded_at_once_is_read_by_its_call() -> None:
    messages, got, _ = await asked(adding("one/review", "guides/long"))
    text = got["add"].text
    assert (
        'Read the prompt one/review with get_prompt({"server": "one", "name": "review", "arguments": '
        '{"code": "...", "style": "..."}}).'
    ) in text
    assert 'Read the prompt guides/long with get_prompt({"server": "guides", "name": "long"}).' in text
    assert LONG[:100] not in text
    assert Pinned() not in messages[-2].parts


async def test_a_prompt_that_fails_is_an_error_beside_what_was_added() -> None:
    messages, got, _ = await asked(adding("guides/failing", "one.add"))
    assert 'The prompt "guides/failing" cannot be read' in got["add"].text
    assert "Added tools: get_prompt, add" in got["add"].text
    assert Pinned() not in messages[-2].parts


async def test_a_prompt_that_the_rules_ask_about_waits_for_its_own_call() -> None:
    seen: list[str] = []

    def decide(call: PendingCall) -> bool:
        seen.append(call.description)
        return True

    get = ToolCall("get", "get_prompt", {"server": "guides", "name": "release"})
    policy = ApprovalPolicy(True, decide=decide)
    messages, got, _ = await asked(adding("guides/release"), get, approval=policy)
    assert "Begin with" not in got["add"].text
    assert "Begin with" in got["get"].text
    assert len(seen) == 1
    assert Pinned() in messages[-2].parts


async def test_a_prompt_of_no_server_is_an_unknown_name() -> None:
    _, got, _ = await asked(adding("guides/none"))
    assert got["add"].error == "unknown_tool"
    assert "Not found: guides/none" in got["add"].text


@pytest.mark.slow
async def test_a_loaded_prompt_survives_compaction() -> None:
    def say(name: str) -> str:
        """Reads all."""
        return f"About {name}: {'word after word and number 7 ' * 60}"

    def brain(request: ModelRequest) -> Answer:
        if request.messages[-1].role == "tool" or request.tool_choice == "none":
            return "It is done."
        if len(request.messages) == 1:
            return [adding("guides/release")]
        return [ToolCall("", "say", {"name": request.messages[-1].text[:40]})]

    model, options = WindowedModel(brain, 5_000), RunOptions(servers=PATIENT)
    async with guides() as url:
        servers = [ServerConfig("guides", url=url)]
        agent = Agent(
            model, tools=[say], mcp_config=servers, options=options, tool_search=True, pre_discovered_tools=["say"]
        )
        async with agent:
            session = agent.session()
            for number in range(25):
                await session.ask(f"Question {number}")
            sent = session.sent_messages
    assert len(sent) < len(session.messages) / 2
    assert sum("Begin with what" in result.text for result in results(sent)) == 1
    assert model.refused == 0
