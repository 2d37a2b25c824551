"""What a client sends to the gateway, and what it gets: each request direct and through."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcp import Client, MCPError
from mcpagent.config import ServerConfig
from tests.gateway.behind import everyday_gateway, gateway, text_of, until
from tests.servers.everyday import everyday
from tests.tables import each_row

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1, "b": 2}),
    ("picture", {}),
    ("fail", {"reason": "out of paper"}),
    ("weather", {"city": "Rome"}),
    ("link", {}),
    ("add", {"a": "no number"}),
]
VERSIONS = ["legacy", "auto"]


def plain(result: Any) -> dict[str, Any]:
    """A result as JSON, without the mark of the server that sent it."""
    shown: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown.pop("_meta", None)
    return shown


@each_row("version", VERSIONS)
async def test_a_call_through_the_gateway_has_the_same_result(version: str, tmp_path: Path) -> None:
    async with (
        everyday("http") as url,
        Client(url, mode=version) as direct,
        everyday_gateway(tmp_path, mode="all") as scene,
        scene.client(version) as client,
    ):
        for tool, arguments in CALLS:
            through = await client.call_tool(f"every__{tool}", arguments)
            assert plain(through) == plain(await direct.call_tool(tool, arguments)), tool


async def test_a_definition_keeps_all_its_fields(tmp_path: Path) -> None:
    async with everyday("http") as url, Client(url) as direct:
        listed = {tool.name: plain(tool) for tool in (await direct.list_tools()).tools}
    async with everyday_gateway(tmp_path, mode="all") as scene, scene.client() as client:
        through = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}
    assert through == {f"every__{name}": {**tool, "name": f"every__{name}"} for name, tool in listed.items()}
    assert listed["add"]["annotations"] == {"readOnlyHint": True}
    assert listed["add"]["outputSchema"]
    assert listed["add"]["title"] == "Add numbers"


@each_row("version", VERSIONS)
async def test_prompts_and_resources_pass_through(version: str, tmp_path: Path) -> None:
    async with (
        everyday("http") as url,
        Client(url, mode=version) as direct,
        everyday_gateway(tmp_path) as scene,
        scene.client(version) as client,
    ):
        [prompt] = (await client.list_prompts()).prompts
        [own] = (await direct.list_prompts()).prompts
        assert plain(prompt) == {**plain(own), "name": "every__review"}
        wanted = {"code": "x = 1"}
        through = await client.get_prompt("every__review", wanted)
        assert plain(through) == plain(await direct.get_prompt("review", wanted))
        assert plain(await client.list_resources())["resources"] == plain(await direct.list_resources())["resources"]
        templates = plain(await client.list_resource_templates())["resourceTemplates"]
        assert templates == plain(await direct.list_resource_templates())["resourceTemplates"]
        for uri in ("notes://today", "notes://monday"):
            through_it = await client.read_resource(uri)
            assert plain(through_it)["contents"] == plain(await direct.read_resource(uri))["contents"]
        for uri in ("file:///none", "mcpagent://nobody/x"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)


@each_row("version", VERSIONS)
async def test_progress_reaches_the_client_in_order_and_before_the_result(version: str, tmp_path: Path) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    async with everyday_gateway(tmp_path, mode="all") as scene, scene.client(version) as client:
        result = await client.call_tool("every__steps", {"count": 3}, progress_callback=note)
        assert text_of(result) == "3 steps"
        assert reports == [(step, 3, f"step {step}") for step in (1, 2, 3)]


async def test_a_cancelled_call_is_cancelled_at_its_server(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path, mode="all") as scene, scene.client("legacy") as client:
        call = asyncio.create_task(client.call_tool("every__wait", {"seconds": 600}))
        calls = scene.gateway._common.calls
        await until(lambda: calls.callers("every"))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: not calls.callers("every"))
        assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"


async def test_a_search_names_the_tool_that_calls_what_it_found(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path) as scene, scene.client() as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool"]
        found = json.loads(text_of(await client.call_tool("search_tools", {"query": "add two numbers"})))
        assert found["tools"][0]["name"] == "every__add"
        assert found["tools"][0]["call"] == "call_read_tool"
        called = {"name": "every__add", "arguments": {"a": 1, "b": 2}}
        assert text_of(await client.call_tool("call_read_tool", called)) == "3"


@each_row(
    "by, called, words",
    [
        ("call_read_tool", {"name": "every__fail"}, "call it with call_destructive_tool"),
        ("call_write_tool", {"name": "every__fail"}, "call it with call_destructive_tool"),
        ("call_read_tool", {"name": "nothing"}, "no tool"),
        ("call_read_tool", {"name": "every__add", "arguments": {"b": 1}}, "schema"),
        ("call_read_tool", {"name": "every__add", "arguments": "[1]"}, "pass"),
        ("call_read_tool", {}, "pass"),
    ],
)
async def test_a_call_by_the_wrong_tool_is_not_sent(by: str, called: Any, words: str, tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path) as scene, scene.client("legacy") as client:
        result = await client.call_tool(by, called)
        assert result.is_error
        assert words in text_of(result)
        assert (result.meta or {})["mcpagent/outcome"] == "not_sent"


async def test_a_tool_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path) as scene, scene.client("legacy") as client:
        with pytest.raises(MCPError, match="ask for the list again"):
            await client.call_tool("every__add", {"a": 1})


@each_row("mode, by", [("all", "every__add"), ("search", "call_read_tool"), ("add", "add_tool")])
async def test_a_request_waits_for_a_server_whose_lists_are_not_known(mode: str, by: str, tmp_path: Path) -> None:
    calls: dict[str, dict[str, Any]] = {
        "every__add": {"a": 1},
        "call_read_tool": {"name": "every__add", "arguments": {"a": 1}},
        "add_tool": {"tool_names": ["every__add"]},
    }
    async with (
        everyday("http") as url,
        gateway(ServerConfig("every", url=url), mode=mode) as scene,
        scene.client("legacy") as client,
    ):
        assert text_of(await client.call_tool(by, calls[by])) in ("2", "added: every__add (or call_read_tool)")


@each_row("what", ["prompt", "resource"])
async def test_a_prompt_or_resource_waits_for_its_server_too(what: str, tmp_path: Path) -> None:
    async with everyday("http") as url, gateway(ServerConfig("every", url=url)) as scene, scene.client() as client:
        if what == "prompt":
            assert (await client.get_prompt("every__review", {"code": "x"})).messages
        else:
            [content] = (await client.read_resource("notes://monday")).contents
            assert content.text == "notes of monday"  # type: ignore[union-attr]
