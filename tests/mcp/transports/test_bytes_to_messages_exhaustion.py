"""Too much of one thing, over each transport: it ends with a result or a named error, in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs the resource module")]

SERVER = Path(__file__).resolve().parents[2] / "servers" / "exhausting.py"
MOST_MEGABYTES = 300

CLIENT = """
import asyncio, json, sys
from mcpagent import Agent, ToolCall, events
from mcpagent.models.scripted import ScriptedModel
from tests.memory import peak_megabytes

server, calls = json.loads(sys.argv[1]), int(sys.argv[2])
model = ScriptedModel([[ToolCall("", "work", {}) for _ in range(calls)], "done"])
told = []

async def main():
    agent = Agent(model, mcp_config={"mcpServers": {"big": server}}, with_tool_search_mode=True,
                  pre_discovered_tools=["work"], on_event=told.append)
    async with agent, asyncio.timeout(200):
        answer = await agent.ask("work")
        found = await agent.search("large deep work_77777")
        results = [part for message in agent.messages for part in message.tool_results]
        print(json.dumps({
            "answer": answer, "known": len(agent.known_tools), "found": found.names,
            "errors": sorted({result.error for result in results if result.error}), "results": len(results),
            "characters": max(len(result.text) for result in results),
            "said": [event.text for event in told if isinstance(event, events.Notice)]
            + [f"{event.server}: {event.reason}" for event in told if isinstance(event, events.ServerFailed)],
            "text": results[0].text[:300], "aside": [result.set_aside.tokens for result in results if result.set_aside],
            "megabytes": peak_megabytes(),
        }))

asyncio.run(main())
"""


@contextmanager
def server(kind: str, transport: str) -> Iterator[dict[str, Any]]:
    if transport == "stdio":
        yield {"command": sys.executable, "args": [str(SERVER), kind]}
        return
    command = [sys.executable, str(SERVER), kind, "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield {"url": f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"}
        finally:
            process.kill()


def worked(kind: str, transport: str, calls: int = 1) -> dict[str, Any]:
    """What came of the calls, in a process of its own."""
    with server(kind, transport) as entry:
        command = [sys.executable, "-c", CLIENT, json.dumps(entry), str(calls)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@dataclass(frozen=True)
class Ends:
    """How it ends: what the call gave, begins with; what is said of it, and nothing if that is all of it."""

    gave: str = "worked"
    said: str = ""
    calls: int = 1
    error: str | None = None
    aside: int | None = None
    """So many tokens are set aside of its result."""


ENDS = {
    "tools": Ends(said="has 100001 tools; the first 10001 are used"),
    "schema": Ends(said='tool "large" dropped: it has more than 1,000,000 bytes, 20,000 values'),
    "description": Ends(said='tool "large" dropped: it has more than 1,000,000 bytes, 20,000 values'),
    "levels": Ends(said='tool "deep" dropped'),
    "deep answer": Ends(gave='{"a": [[[['),
    "parallel": Ends(calls=1_000),
    "answer": Ends(gave="[Set aside as out_", aside=2_500_000),
}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.timeout(300)
def test_it_ends_with_a_result_or_a_named_error_in_bounded_memory(kind: str, transport: str) -> None:
    ends = ENDS[kind]
    told = worked(kind, transport, ends.calls)
    assert told["answer"] == "done"
    assert told["results"] == ends.calls
    assert told["errors"] == ([ends.error] if ends.error else [])
    assert told["text"].startswith(ends.gave)
    assert told["aside"] == ([ends.aside] if ends.aside else [])
    assert told["characters"] < 25_000
    assert any(ends.said in line for line in told["said"]) if ends.said else not told["said"]
    assert told["megabytes"] <= MOST_MEGABYTES
