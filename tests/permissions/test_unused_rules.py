"""A rule that fits no tool is reported once by the library too, when everything is listed."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcpagent import Agent, ApprovalPolicy, McpServer, ScriptedModel
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.permissions.decision import Rules
from mcpagent.toolsets.composition import dynamic
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.events import Event, Notice, ServerConnected

SERVER = Path(__file__).resolve().parents[1] / "terminal" / "small_server.py"


def push() -> str:
    """Push."""
    return "done"


async def warnings_of(rules: Any, *, tools: Any = (push,), asks: int = 1, **more: Any) -> list[str]:
    """Return the warnings of an agent that starts and answers."""
    events: list[Event] = []
    policy = ApprovalPolicy(rules=rules)
    model = ScriptedModel(["done"] * asks)
    async with Agent(model, tools=list(tools), approval=policy, on_event=events.append, **more) as agent:
        for _ in range(asks):
            await agent.ask("go")
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


async def test_a_mistyped_rule_is_one_warning_with_the_name_that_may_be_meant() -> None:
    rules = {"pusj": "deny", "push": "ask", "p*": "ask", "search_tools": "deny", "nothing_like_it": "ask"}
    found = await warnings_of(rules, asks=2, tool_search=True)
    assert found == [
        "ApprovalPolicy.rules: pusj: nothing of that name is known; did you mean push?",
        "ApprovalPolicy.rules: nothing_like_it: nothing of that name is known; known_tools has the names",
    ]


async def test_nothing_is_said_of_rules_that_may_fit_later_or_whose_owner_reports_them() -> None:
    rules = {"pusj": "deny"}
    assert await warnings_of(rules, tools=[dynamic(lambda _: [push])]) == []
    assert await warnings_of(lambda: Rules(named={"pusj": "deny"})) == []
    broken = McpServer("git", command=sys.executable, args=["-c", "raise SystemExit(3)"])
    assert not [line for line in await warnings_of(rules, tools=[push, broken]) if "pusj" in line]


async def test_the_rules_of_an_entry_are_judged_when_the_last_server_is_listed() -> None:
    events: list[Event] = []
    connected = asyncio.Event()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, ServerConnected):
            connected.set()

    good = McpServer("good", command=sys.executable, args=[str(SERVER), "good"])
    good = replace(good, approval=(("fail_alwys", "deny"), ("wait_*", "ask")))
    options = RunOptions(servers=ServerOptions(startup_seconds=0))
    async with Agent(ScriptedModel([]), tools=[good], on_event=listen, options=options):
        assert not any(isinstance(event, Notice) for event in events)
        async with asyncio.timeout(60):
            await connected.wait()
    [said] = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert said.endswith("approval of good fail_alwys: nothing of that name is known; did you mean good.fail_always?")
