"""An answer of 40 MB: what it costs the model, and that a question about its middle is answered."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.models.scripted import Reply
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.querying import query
from mcpagent.run.large_results.reading_ranges import read_range
from mcpagent.run.large_results.searching import search
from tests.reference_work import reference_seconds
from tests.run.large_results.test_offloaded_results import READERS, call, last_result, names
from tests.terminal.process import ROOT


def orders() -> list[dict[str, object]]:
    text = "as it was ordered, with all that belongs to it " * 5
    return [
        {
            "id": number,
            "customer": f"customer {number % 9_973}",
            "total": number / 8,
            "note": text,
            "paid": number % 3 > 0,
        }
        for number in range(130_000)
    ]


@pytest.fixture(scope="module")
def forty() -> str:
    text = json.dumps(orders())
    assert 40_000_000 < len(text) < 60_000_000
    return text


@pytest.mark.slow
async def test_a_question_about_the_middle(forty: str, tmp_path: Path) -> None:
    """By each reader, from a store, also by a process that has none of it in memory."""

    def get_orders() -> str:
        """Gives all orders."""
        return forty

    store = Sessions(tmp_path / "s.db")
    first = ScriptedModel([ToolCall("", "get_orders", {}), "there are many"])
    async with Agent(first, tools=[get_orders], sessions=store) as agent:
        await agent.session("a").ask("What are the orders?")
    said = sum(len(part.text) for message in first.requests[-1].messages for part in message.tool_results)
    assert said < 4_000  # about 800 tokens
    store.close()

    at = forty.index('"id": 65432')
    replies: list[Reply] = [
        call("query_large_output", path="$[?@.id == 65432].total"),
        call("search_large_output", words='"id": 65432'),
        call("read_large_output", start_char=at + 1, end_char=at + 60),
        "8179.0",
    ]
    second, store = ScriptedModel(replies), Sessions(tmp_path / "s.db")
    async with Agent(second, tools=[get_orders], sessions=store) as agent:
        session = agent.session("a")
        assert await session.ask("What is the total of order 65432?") == "8179.0"
        answers = [result.text for message in session.messages[-7:] for result in message.tool_results]
    store.close()
    assert names(second.requests[0]) == ["get_orders", *READERS]
    assert "8179.0" in answers[0]
    assert '"id": 65432, "customer": "customer 5594", "total": 8179.0' in answers[1]
    assert '"id": 65432, "customer": "customer 5594"' in answers[2]
    assert last_result(second).error is None


@pytest.mark.slow
def test_each_reader_takes_little(forty: str) -> None:
    """Bounds of a busy machine; `python -m benchmarks.context` prints what it takes."""
    output = LargeOutput(forty)
    query(output, {"path": "$[0]"})  # loads the library
    assert output.lines == 1
    for reader, arguments in (
        (read_range, {"start_char": 20_000_000}),
        (search, {"words": "customer 5594 8179.0"}),
        (search, {"pattern": r'"id": 6543\d,'}),
        (query, {"path": "$[65432]"}),
        (query, {"path": "$[?@.id == 65432]"}),
        (query, {"path": "$..nothing"}),
    ):
        before = time.process_time()
        answer = reader(output, arguments)
        assert time.process_time() - before < 600 * reference_seconds()
        assert len(str(answer)) < 20_000
    assert sys.getsizeof(output._ends_before) < 100_000


@pytest.mark.slow
async def test_a_server_gives_it(tmp_path: Path) -> None:
    """A real server over stdio, with a line of its own in the configuration."""
    server = tmp_path / "plant.py"
    server.write_text(
        "from mcp.server.mcpserver import MCPServer\n"
        "server = MCPServer('plant')\n"
        "@server.tool()\n"
        "def get_log() -> str:\n"
        "    lines = [f'{n}: nothing happened' for n in range(400_000)]\n"
        "    lines[321_000] = 'the pump of hall 7 failed'\n"
        "    return chr(10).join(lines)\n"
        "@server.tool()\n"
        "def get_page() -> str:\n"
        "    return 'page ' * 2_000\n"
        "server.run()\n"
    )
    entry = {"command": sys.executable, "args": [str(server)], "largeResultTokens": {"get_*": 100, "get_page": 0}}
    config = tmp_path / "mcp_servers.json"
    config.write_text(json.dumps({"mcpServers": {"plant": {**entry, "env": {"PYTHONPATH": str(ROOT)}}}}))
    model = ScriptedModel(
        [
            ToolCall("", "get_page", {}),
            ToolCall("", "get_log", {}),
            call("search_large_output", words="pump failed"),
            "hall 7",
        ]
    )
    async with Agent(model, mcp_config=str(config)) as agent:
        assert await agent.ask("What failed?") == "hall 7"
        page, log, found = (result for message in agent.messages for result in message.tool_results)
    assert page.set_aside is None
    assert log.set_aside is not None
    assert log.set_aside.tokens > 1_000_000
    assert "321001: the pump of hall 7 failed" in found.text
