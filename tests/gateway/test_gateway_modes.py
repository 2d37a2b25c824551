"""The modes: what a client is offered, and how tools join its list."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mcp import MCPError
from tests.gateway.behind import everyday_gateway, text_of
from tests.gateway.test_asking_client import Answering

ADDED = {"tool_names": ["every__add", "no such tool"]}


async def test_a_client_that_follows_its_list_gets_added_tools(tmp_path: Path) -> None:
    person = Answering()
    async with (
        everyday_gateway(tmp_path, mode="add") as scene,
        scene.client("legacy", message_handler=person.hear) as client,
    ):
        assert "every__add" not in [tool.name for tool in (await client.list_tools()).tools]
        added = text_of(await client.call_tool("add_tool", ADDED))
        assert added == "added: every__add (or call_read_tool)\nnot found: no such tool"
        await person.until("notifications/tools/list_changed")
        assert [tool.name for tool in (await client.list_tools()).tools][-1] == "every__add"
        assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"


async def test_a_client_that_does_not_follow_its_list_calls_added_tools_by_name(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path, mode="add") as scene, scene.client("legacy") as client:
        await client.list_tools()
        await client.call_tool("add_tool", ADDED)
        called = {"name": "every__add", "arguments": {"a": 1}}
        assert text_of(await client.call_tool("call_read_tool", called)) == "2"


async def test_a_subscription_to_the_list_chooses_the_mode_with_added_tools(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path) as scene, scene.client() as client:
        assert "add_tool" not in [tool.name for tool in (await client.list_tools()).tools]
        async with client.listen(tools_list_changed=True) as changes:
            assert "add_tool" in [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("add_tool", {"tool_names": ["every__add"]})
            async with asyncio.timeout(20):
                async for _ in changes:
                    break
            assert "every__add" in [tool.name for tool in (await client.list_tools()).tools]


async def test_pinned_tools_are_listed_in_every_mode(tmp_path: Path) -> None:
    for mode in ("search", "add", "code", "all"):
        pinned = ("every.ad?",)
        async with everyday_gateway(tmp_path, mode=mode, pinned=pinned) as scene, scene.client() as client:
            assert "every__add" in [tool.name for tool in (await client.list_tools()).tools], mode
            assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"


async def test_a_mode_can_be_chosen_by_the_name_of_a_client(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path, modes={"mcp": "all"}) as scene, scene.client("legacy") as client:
        assert "every__add" in [tool.name for tool in (await client.list_tools()).tools]


async def test_in_code_mode_clients_call_the_tools_that_programs_may_not(tmp_path: Path) -> None:
    direct = everyday_gateway(tmp_path / "direct", ("direct",), mode="code")
    async with direct as scene, scene.client() as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "every__add" in listed
        assert "statistics" in str(listed["run_code"].description)
        assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
    code = everyday_gateway(tmp_path / "code", ("code",), mode="code", pinned=("every.ad?",))
    async with code as scene, scene.client() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools", "run_code"]
        with pytest.raises(MCPError, match="no tool"):
            await client.call_tool("every__add", {"a": 1})


async def test_a_program_of_a_client_calls_tools(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty")
    async with everyday_gateway(tmp_path, mode="code") as scene, scene.client() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search_tools", "run_code"]
        found = text_of(await client.call_tool("search_tools", {"query": "add two numbers"}))
        assert "from tools.every import add" in found
        code = "from tools.every import add\ntotal = await add(a=1, b=2)\nprint(total)"
        assert "3" in text_of(await client.call_tool("run_code", {"code": code}))
        assert "3" in text_of(await client.call_tool("run_code", {"code": "print(total)"}))
        assert scene.gateway.log.counts.calls["every__add", "answered"] == 1


async def test_the_definitions_of_a_search_are_short(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path) as scene, scene.client() as client:
        listed = [
            tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools
        ]
        assert len(json.dumps(listed)) / 4 <= 600
