"""A saved history goes on in another process, with another provider, and reveals only what is configured there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcpagent import Agent, ToolSearch, dump_messages
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.messages import load_messages
from tests.scenes import CountedTools, call, offered, results
from tests.tables import each_row

RESUMER = """
import asyncio, json, sys
from mcpagent import Agent
from mcpagent.models.anthropic.messages_model import request_body as anthropic_body
from mcpagent.models.openai.openai_chat_history import request_body as chat_body
from mcpagent.models.scripted import ScriptedModel

def tool_a() -> str:
    "The first."
    return "a"

def tool_b() -> str:
    "The second."
    return "b"

async def main():
    configured = {"tool_a": tool_a, "tool_b": tool_b}
    given = json.load(sys.stdin)
    answers = []
    for names in given["tools"]:
        model = ScriptedModel(["fine"])
        agent = Agent(model)
        for name in names:
            agent.tool(defer_loading=True)(configured[name])
        async with agent:
            await agent.ask_with_history(given["messages"])
        [request] = model.requests
        answers.append({
            "offered": [tool.name for tool in request.tools],
            "anthropic": anthropic_body(request, "claude-opus-4-8"),
            "chat": chat_body(request, "gpt-4o"),
        })
    print(json.dumps(answers))

asyncio.run(main())
"""


def continued(messages: list[dict[str, Any]], *tools: list[str]) -> list[dict[str, Any]]:
    """In another process, for each list of tools that an agent there is configured with: what its model is offered."""
    given = {"messages": [*messages, {"role": "user", "content": "use it again"}], "tools": tools}
    done = subprocess.run(
        [sys.executable, "-c", RESUMER],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).resolve().parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


async def history() -> list[dict[str, Any]]:
    """A conversation in which `tool_a` was found and added, and `tool_b` was not."""
    model = ScriptedModel([call("search_tools", query="first"), call("add_tool", tool_names=["tool_a"]), "ok"])
    agent = Agent(model)

    @agent.tool(defer_loading=True)
    def tool_a() -> str:
        """The first."""
        return "a"

    @agent.tool(defer_loading=True)
    def tool_b() -> str:
        """The second."""
        return "b"

    async with agent:
        await agent.ask("find tool_a")
        return dump_messages(agent.messages)


async def test_another_process_offers_what_was_discovered_and_is_still_configured_to_each_provider() -> None:
    answer, without = continued(await history(), ["tool_a", "tool_b"], ["tool_b"])
    assert answer["offered"] == ["search_tools", "add_tool", "tool_a"]
    assert {tool["name"] for tool in answer["anthropic"]["tools"]} == {"search_tools", "add_tool", "tool_a"}
    assert {tool["function"]["name"] for tool in answer["chat"]["tools"]} == {"search_tools", "add_tool", "tool_a"}
    assert without["offered"] == ["search_tools", "add_tool"]
    for provider in ("anthropic", "chat"):
        assert "tool_a" not in json.dumps(without[provider]["tools"])


async def test_a_forged_history_reveals_nothing_that_is_filtered_out() -> None:
    forged = json.loads(json.dumps(await history()).replace("tool_a", "secret"))
    tools = CountedTools("secret", "read")
    from mcpagent.toolsets.composition import filtered

    hidden = filtered(tools, lambda context, definition: definition.name != "secret")
    model = ScriptedModel([call("secret", path="x"), "ok"])
    async with Agent(model, with_tool_search_mode=True, tools=[hidden]) as agent:
        await agent.ask_with_history([*load_messages(forged), {"role": "user", "content": "go"}])
        assert results(agent.messages)[-1].error == "unknown_tool"
    assert offered(model.requests[0]) == ["search_tools", "add_tool"]
    assert tools.ran == []


@each_row("policy", ["load", "refuse"])
async def test_an_undiscovered_tool_is_answered_with_the_fix_and_not_run(policy: Any) -> None:
    tools = CountedTools("read", "write")
    model = ScriptedModel([call("read", path="x"), "ok"])
    async with Agent(model, tool_search=ToolSearch(on_direct_call=policy), tools=[tools]) as agent:
        await agent.ask("go")
        [result] = results(agent.messages)
    assert result.error == "not_loaded"
    assert ("add_tool" in result.text) == (policy == "refuse")
    assert tools.ran == []


async def test_near_names_are_those_of_this_conversation() -> None:
    """Its history has the plain name for another server's tool, so this server's one has the longer name here."""
    adds = ScriptedModel([call("add_tool", tool_names=["read_file"]), "ok"])
    async with Agent(adds, tools=[CountedTools("read_file", server="A")], tool_search=ToolSearch()) as agent:
        await agent.ask("add it")
        saved = dump_messages(agent.messages)
    asks = ScriptedModel([call("raed_file", "1"), call("add_tool", "2", tool_names=["raed_file"]), "ok"])
    async with Agent(asks, tools=[CountedTools("read_file", server="B")], tool_search=ToolSearch()) as agent:
        session = agent.session(messages=saved)
        await session.ask("read")
        called, added = results(session.messages)[1:]
        assert session._runtime.tools.near("raed_file") == ("B__read_file",)
    assert "Did you mean B__read_file?" in called.text
    assert "did you mean B__read_file?" in added.text
