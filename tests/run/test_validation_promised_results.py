"""What a server promises of its results: held against them, told to the model, kept, and part of what is pinned."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent
from mcpagent.config import ServerConfig
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.pins import PinStore, ToolChange
from mcpagent.mcp.server_link import ServerLink
from mcpagent.models import ScriptedModel
from mcpagent.run.validation import fitted, held_to_promise
from mcpagent.values.messages import Text, ToolCall, ToolResult
from mcpagent.values.tools import Tool, ToolOutput
from tests.servers.endings import PROMISED
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "endings.py"
BREAKS = "breaks the output schema that its own server gives for the tool"


def answer(structured: Any, text: str = "seven", **more: Any) -> str:
    result = {"content": [{"type": "text", "text": text}], **more}
    result |= {} if structured is None else {"structuredContent": structured}
    return '{"jsonrpc":"2.0","id":THIS,"result":' + json.dumps(result) + "}"


async def results_of(tmp_path: Path, *bodies: str) -> list[ToolResult]:
    calls = [ToolCall(f"c{n}", "book", {"key": str(n), "body": body}) for n, body in enumerate(bodies)]
    server = ServerConfig("b", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    async with Agent(ScriptedModel([calls, "ok"]), mcp_config=[server]) as agent:
        assert await asyncio.wait_for(agent.ask("go"), 60) == "ok"
        parts = [part for message in agent.messages for part in message.parts]
    return [part for part in parts if isinstance(part, ToolResult)]


async def test_a_result_that_breaks_it_is_told_to_the_model_and_one_that_keeps_it_is_not(tmp_path: Path) -> None:
    kept, broken, missing, failed = await results_of(
        tmp_path, answer({"n": 7}), answer({"n": "seven"}), answer(None), answer(None, isError=True)
    )
    assert kept.text == "seven"
    assert broken.text.startswith("seven")
    assert f"[This result {BREAKS}: n: " in broken.text
    assert f"[This result {BREAKS}: it has no structured content]" in missing.text
    assert (failed.error, failed.text) == ("failed", "seven")
    assert (kept.error, broken.error, missing.error) == (None, None, None)


@each_row(
    "schema, structured",
    [
        ({"$ref": "https://example.com/away"}, {"n": 1}),  # nothing is fetched, so nothing is known
        ({"type": "object"}, {"deep": {}}),
        (PROMISED, {"n": 1, "more": [None] * 300_000}),
    ],
)
async def test_what_cannot_be_known_holds_nothing_up(schema: dict[str, Any], structured: Any) -> None:
    async def run(_: dict[str, Any]) -> ToolOutput:
        raise AssertionError

    output = ToolOutput((Text("x"),), structured=structured)
    (tool,) = [await bound(schema, run)]
    assert await held_to_promise(tool, output) is output


async def bound(schema: dict[str, Any], run: Any) -> Tool:
    from mcpagent.values.messages import ToolDefinition

    return Tool(ToolDefinition("t", "", {"type": "object"}), run, output_schema=schema)


@asynccontextmanager
async def listed(config: ServerConfig, cache: ListCache, pins: PinStore | None = None) -> AsyncIterator[ServerLink]:
    async def refuse(change: ToolChange) -> bool:
        changes.append(change)
        return False

    changes.clear()
    async with ServerLink(config, cache=cache, pins=pins, allow_change=refuse) as link:
        yield link


changes: list[ToolChange] = []


async def test_it_is_kept_with_the_lists(tmp_path: Path) -> None:
    config = ServerConfig("b", command=sys.executable, args=(str(SERVER), "legacy", str(tmp_path / "log")))
    for state in ("ready", "cached"):
        async with listed(config, ListCache(tmp_path / "cache")) as link:
            assert link.status.state == state
            (tool,) = await link.tools()
            assert tool.output_schema == PROMISED


async def test_a_promise_that_changes_is_a_change_of_the_tool(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    source = "import sys\nfrom pathlib import Path\nsys.path.insert(0, {!r})\nfrom tests.servers import endings\n{}\n"
    config = ServerConfig("b", command=sys.executable, args=(str(script),))
    root = str(SERVER.parents[2])
    start = f"endings.main('legacy', Path({str(tmp_path / 'log')!r}))"
    pins = PinStore(tmp_path / "pins")
    for promise, error in (("pass", None), ("endings.PROMISED['required'] = []", "denied")):
        script.write_text(source.format(root, f"{promise}\n{start}"))
        async with listed(config, ListCache(tmp_path / "cache"), pins) as link:
            (tool,) = await link.tools()
            output = await tool.run({"key": "k", "body": answer({"n": 7})})
            assert output.error == error
    (change,) = changes
    assert change.lines == ('output_schema.required: ["n"] -> []',)


# --- lists ---


@pytest.mark.parametrize(("count", "page"), [(10_003, 20_000), (10_003, 500), (10_000, 20_000), (10_000, 5_000)])
@pytest.mark.slow
async def test_a_list_of_ten_thousand_tools_and_more_ends(count: int, page: int, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        f"""
import json, sys
sys.path.insert(0, {str(SERVER.parents[2])!r})
from tests.servers.endings import usual_answer
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = usual_answer(message, is_modern=False)
    if message["method"] == "tools/list":
        start = int((message.get("params") or {{}}).get("cursor") or 0)
        end = min(start + {page}, {count})
        tools = [{{"name": f"t{{n}}", "inputSchema": {{"type": "object"}}}} for n in range(start, end)]
        answer["result"] = {{"tools": tools}} | ({{"nextCursor": str(end)}} if end < {count} else {{}})
    print(json.dumps(answer), flush=True)
"""
    )
    async with ServerLink(ServerConfig("many", command=sys.executable, args=(str(script),))) as link:
        assert len(await link.tools()) == 10_000
        said = [warning for warning in link.status.warnings if "tool" in warning]
    wanted = 'server "many": its tool list has more than 10000; the first 10000 tools are used'
    assert [warning for warning in said if "tool list" in warning] == ([] if count == 10_000 else [wanted])


# --- null for what is left out ---

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "needed": {"type": "string"},
        "limit": {"type": "integer"},
        "nullable": {"type": ["string", "null"]},
        "filter": {"type": "object", "properties": {"owner": {"type": "string"}}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "unit": {"enum": ["m", None]},
        "due": {"anyOf": [{"$ref": "#/$defs/Day"}, {"type": "null"}]},
        "label": {"allOf": [{"type": ["string", "null"]}, {"type": "string"}]},
        "anything": {"description": "Any value."},
    },
    "$defs": {"Day": {"type": "string"}},
    "required": ["needed"],
    "additionalProperties": False,
}


@each_row(
    "given, sent",
    [
        ({"needed": "x", "limit": None}, {"needed": "x"}),
        ({"needed": "x", "filter": {"owner": None}}, {"needed": "x", "filter": {}}),
        ({"needed": "x", "rows": [{"a": None}, {"a": "b"}]}, {"needed": "x", "rows": [{}, {"a": "b"}]}),
        ({"needed": "x", "nullable": None}, {"needed": "x", "nullable": None}),
        ({"needed": "x", "limit": None, "nullable": None}, {"needed": "x", "nullable": None}),
        (
            {"needed": "x", "limit": None, "unit": None, "due": None, "anything": None},
            {"needed": "x", "unit": None, "due": None, "anything": None},
        ),
        ({"needed": "x", "nullable": None, "label": None}, {"needed": "x"}),
    ],
)
async def test_null_for_what_may_be_left_out_is_left_out(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert (await fitted(SCHEMA, given))[0] == sent
    assert (await fitted(SCHEMA, given))[1].problem == ""


@each_row("given", [{"needed": None}, {"needed": "x", "limit": "y"}, {"needed": "x", "unknown": None}])
async def test_any_other_null_is_none(given: dict[str, Any]) -> None:
    arguments, found = await fitted(SCHEMA, given)
    assert found.problem
    assert arguments == given


async def test_a_model_that_writes_null_is_understood() -> None:
    seen: list[Any] = []
    model = ScriptedModel([ToolCall("1", "look", {"needed": "x", "limit": None}), "ok"])

    def look(needed: str, limit: int = 5) -> str:
        """Looks."""
        seen.append((needed, limit))
        return "seen"

    async with Agent(model, tools=[look]) as agent:
        assert await asyncio.wait_for(agent.ask("go"), 60) == "ok"
    assert seen == [("x", 5)]
