"""A server as a toolset: the same over each transport; what configuration says about its tools holds."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.server_link import ServerLink
from mcpagent.toolsets.prompt_and_resource_tools import server_content_tools
from mcpagent.values.events import Emit, Event, ToolProgress, ignore
from mcpagent.values.messages import Image, Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.servers.everyday import PNG, everyday
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVERS = Path(__file__).resolve().parents[1] / "servers"


@asynccontextmanager
async def toolset_over(kind: Any, *, emit: Emit = ignore, **settings: Any) -> AsyncIterator[ServerLink]:
    """The everyday server over one transport."""
    if kind == "stdio":
        command = ServerConfig(
            name="every", command=sys.executable, args=(str(SERVERS / "everyday.py"), "stdio"), **settings
        )
        async with nothing_left(), ServerLink(command, emit=emit) as toolset:
            yield toolset
        return
    async with (
        everyday(kind) as url,
        ServerLink(ServerConfig(name="every", url=url, **settings), emit=emit) as toolset,
    ):
        yield toolset


@asynccontextmanager
async def catalogue(tmp_path: Path, tools: list[dict[str, Any]], **settings: Any) -> AsyncIterator[ServerLink]:
    file = tmp_path / "catalogue.json"
    file.write_text(json.dumps({"server": "cat", "tools": tools}))
    script = str(SERVERS / "catalog_server.py")
    async with ServerLink(
        ServerConfig(name="cat", command=sys.executable, args=(script, str(file)), **settings)
    ) as toolset:
        yield toolset


async def by_name(toolset: ServerLink) -> dict[str, Tool]:
    return {tool.name: tool for tool in await toolset.tools()}


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


@each_row("kind", ["stdio", "http", "sse"])
async def test_results_over_each_transport(kind: str) -> None:
    async with toolset_over(kind) as toolset:
        tools = await by_name(toolset)
        assert list(tools) == ["add", "picture", "fail", "weather", "link", "steps", "wait"]
        assert text_of(await tools["add"].run({"a": 2, "b": 3})) == "5"
        (picture,) = (await tools["picture"].run({})).content
        assert isinstance(picture, Image)
        assert picture.media_type == "image/png"
        assert len(picture.data) > len(PNG)
        failed = await tools["fail"].run({"reason": "no"})
        assert failed.error == "failed"
        assert "fail" in text_of(failed)
        assert json.loads(text_of(await tools["weather"].run({"city": "Oslo"}))) == {"city": "Oslo", "degrees": 21}
        assert text_of(await tools["link"].run({})) == "[resource link: notes <file:///notes.txt>]\nsee it"
        assert text_of(await tools["steps"].run({"count": 3})) == "3 steps"
        status = toolset.status
        assert (status.name, status.state, status.tool_count) == ("every", "ready", 7)
        assert (status.title, status.instructions) == ("Everyday Things", "Ask for the weather first.")
        assert status.protocol_version == ("2025-11-25" if kind == "sse" else "2026-07-28")
        assert status.warnings == ()


@each_row("kind", ["http", "sse"])
async def test_progress_is_told(kind: str) -> None:
    events: list[Event] = []
    async with toolset_over(kind, emit=events.append) as toolset:
        await (await by_name(toolset))["steps"].run({"count": 3})
    told = [event for event in events if isinstance(event, ToolProgress)]
    assert told[0] == ToolProgress("every", "steps", 1.0, 3.0, "step 1")


async def test_a_longer_limit_of_a_server_outlasts_the_agents_own(tmp_path: Path) -> None:
    tools = [{"name": "a", "inputSchema": {"type": "object"}}]
    async with catalogue(tmp_path, tools) as toolset:
        assert (await by_name(toolset))["a"].timeout_seconds is None
    async with catalogue(tmp_path, tools, total_timeout_seconds=1000.0) as toolset:
        assert (await by_name(toolset))["a"].timeout_seconds == 1005.0


@each_row("kind", ["http", "sse"])
async def test_a_cancelled_call_leaves_a_remote_session_usable(kind: str) -> None:
    async with toolset_over(kind) as toolset:
        tools = await by_name(toolset)
        call = asyncio.ensure_future(tools["wait"].run({"seconds": 30}))
        assert text_of(await tools["add"].run({"a": 1})) == "2"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert text_of(await tools["add"].run({"a": 2})) == "3"


async def test_definitions_carry_the_servers_own_words(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"$ref": "#/$defs/point"}, "a": {"enum": ["x", 1, None]}},
        "required": ["z"],
        "additionalProperties": False,
        "$defs": {"point": {"type": "array", "prefixItems": [{"type": "number"}]}},
        "x-own": {"b": 1, "a": 2},
    }
    tool = {
        "name": "draw.it",
        "title": "Draw",
        "description": "Draws\u202e it",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": False},
    }
    async with catalogue(tmp_path, [tool]) as toolset:
        (found,) = await toolset.tools()
    definition = found.definition
    assert (definition.name, definition.original_name, definition.server) == ("draw.it", "draw.it", "cat")
    assert (definition.title, definition.description, definition.read_only) == ("Draw", "Draws it", False)
    assert json.dumps(definition.parameters) == json.dumps(schema)


@each_row(
    "settings, names",
    [
        ({}, ["read_file", "read_dir", "write_file"]),
        ({"enabled_tools": ("read_*",)}, ["read_file", "read_dir"]),
        ({"disabled_tools": ("*_file",)}, ["read_dir"]),
        ({"enabled_tools": ("read_*",), "disabled_tools": ("read_dir",)}, ["read_file"]),
    ],
)
async def test_globs_choose_the_tools(settings: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read_file", "read_dir", "write_file")]
    async with catalogue(tmp_path, tools, **settings) as toolset:
        assert list(await by_name(toolset)) == names
        assert toolset.status.tool_count == len(names)


async def test_always_load_keeps_tools_offered(tmp_path: Path) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read_file", "write_file")]
    async with catalogue(tmp_path, tools, always_load=("read_*",)) as toolset:
        assert {name: tool.deferred for name, tool in (await by_name(toolset)).items()} == {
            "read_file": False,
            "write_file": None,
        }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_prompts_and_resources_as_tools(kind: str) -> None:
    async with toolset_over(kind) as toolset:
        tools = {tool.name: tool for tool in server_content_tools([toolset])}
        assert list(tools) == ["get_prompt", "get_resource"]
        prompt, resource = tools["get_prompt"], tools["get_resource"]
        assert "- every: review(code, style?) - Ask for a review" in prompt.definition.description
        assert "- every: notes://today - today; notes://{day} - of a day" in resource.definition.description
        got = await prompt.run({"server": "every", "name": "review", "arguments": {"code": "x = 1"}})
        assert text_of(got) == "[user]\nReview this in a kind way: x = 1"
        assert text_of(await resource.run({"server": "every", "uri": "notes://today"})) == "buy milk"
        assert text_of(await resource.run({"server": "every", "uri": "notes://monday"})) == "notes of monday"


WRONG_ARGUMENTS: list[tuple[str, dict[str, Any], str]] = [
    ("get_prompt", {"server": "evry", "name": "review"}, 'no server "evry"; try "every"'),
    ("get_prompt", {"server": "every", "name": "reviw"}, 'no prompt "reviw"; try "review"'),
    ("get_prompt", {"server": "every", "name": "review"}, 'prompt "review" needs code; give them in "arguments"'),
    ("get_resource", {"server": "no", "uri": "a://b"}, 'no server "no"; try "every"'),
]


async def test_wrong_arguments_of_the_virtual_tools_are_explained() -> None:
    async with toolset_over("http") as toolset:
        tools = {tool.name: tool for tool in server_content_tools([toolset])}
        outputs = [await tools[tool].run(arguments) for tool, arguments, _ in WRONG_ARGUMENTS]
    told = [(text_of(output), output.error) for output in outputs]
    assert told == [(expected, "invalid_arguments") for _, _, expected in WRONG_ARGUMENTS]


async def test_no_virtual_tools_where_no_server_has_content(tmp_path: Path) -> None:
    async with catalogue(tmp_path, []) as toolset:
        assert server_content_tools([toolset]) == []
        assert await toolset.tools() == []
