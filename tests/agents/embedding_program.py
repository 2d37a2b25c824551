"""A whole session of an agent over a real server, for the frameworks and event loops that run it in their own way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mcpagent import Agent, ScriptedModel, ToolCall, events

SERVER = Path(__file__).resolve().parents[1] / "terminal" / "small_server.py"
EXPECTED = ["It is sunny.", "You are welcome.", "Bye."]


def agent() -> Agent[Any]:
    """Return an agent whose model searches, adds a tool of a stdio server, calls it, and answers."""
    model = ScriptedModel(
        [
            ToolCall("1", "search_tools", {"query": "weather"}),
            ToolCall("2", "add_tool", {"tool_names": ["get_weather"]}),
            ToolCall("3", "get_weather", {"city": "Rome"}),
            "It is sunny.",
            "You are welcome.",
            "Bye.",
        ]
    )
    servers = {"mcpServers": {"small": {"command": sys.executable, "args": [str(SERVER), "good"]}}}
    return Agent(model, mcp_config=servers, with_tool_search_mode=True)


async def session() -> list[str]:
    """Run three questions, one of them streamed; return the words of the answers."""
    words: list[str] = []
    async with agent() as one:
        words.append(await one.ask("What is the weather in Rome?"))
        results = [result for message in one.messages for result in message.tool_results]
        assert [result.error for result in results] == [None, None, None], results
        assert "get_weather" in one.discovered_tools
        async with one.stream("Thank you.") as stream:
            pieces = [event.text async for event in stream if isinstance(event, events.TextDelta)]
        words.append("".join(pieces))
        words.append(await one.ask("Goodbye."))
    return words
