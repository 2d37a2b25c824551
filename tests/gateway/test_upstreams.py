"""Servers behind a gateway: started on demand, stopped when idle, resources found by their server."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp import MCPError
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from tests.gateway.behind import Scene, everyday_gateway, folders, gateway, text_of, until
from tests.servers.everyday import everyday


def connected(scene: Scene) -> list[str]:
    links = scene.gateway._common.servers.links
    return [name for name, link in links.items() if link.life.connection is not None]


async def test_cold_servers_are_listed_from_the_cache_and_started_by_a_call(tmp_path: Path) -> None:
    stored = ServerOptions.stored(folders(tmp_path))
    async with everyday("http") as url:
        config = ServerConfig("every", url=url)
        async with gateway(config, stored=stored, mode="all") as scene:
            await scene.gateway._common.settled()
        async with gateway(config, stored=stored, mode="all") as scene, scene.client() as client:
            assert len((await client.list_tools()).tools) == 7
            assert len((await client.list_prompts()).prompts) == 1
            assert len((await client.list_resources()).resources) == 1
            assert connected(scene) == []
            assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
            assert connected(scene) == ["every"]


async def test_an_idle_server_is_stopped_and_started_by_the_next_call(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path, mode="all", idle_seconds=0.01) as scene, scene.client() as client:
        for _ in range(2):
            assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
            await until(lambda: not connected(scene))


async def test_a_server_with_a_long_call_or_a_subscription_is_not_idle(tmp_path: Path) -> None:
    async with everyday_gateway(tmp_path, mode="all", idle_seconds=0.01) as scene, scene.client("legacy") as client:
        assert text_of(await client.call_tool("every__wait", {"seconds": 0.3})) == "waited"


async def test_a_uri_of_several_servers_is_read_from_the_one_that_is_named(tmp_path: Path) -> None:
    async with everyday("http") as one, everyday("http") as two:
        servers = [ServerConfig("one", url=one), ServerConfig("two/b", url=two)]
        async with gateway(*servers) as scene, scene.client() as client:
            await scene.gateway._common.settled()
            uris = [str(resource.uri) for resource in (await client.list_resources()).resources]
            assert uris == ["mcpagent://one/notes%3A%2F%2Ftoday", "mcpagent://two%2Fb/notes%3A%2F%2Ftoday"]
            for uri in uris:
                [content] = (await client.read_resource(uri)).contents
                assert content.text == "buy milk"  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="several servers"):
                await client.read_resource("notes://monday")


async def test_a_link_in_a_result_is_read_from_the_server_that_sent_it(tmp_path: Path) -> None:
    async with everyday("http") as one, everyday("http") as two:
        servers = [ServerConfig("one", url=one), ServerConfig("two", url=two)]
        async with gateway(*servers, mode="all") as scene, scene.client() as client:
            await client.list_tools()
            lists = scene.gateway._common.lists()
            await client.call_tool("two__link", {})
            assert scene.gateway._common.server_of("file:///notes.txt", lists) == ("two", "file:///notes.txt")
