"""An HTTP API as a server: listed, cached, called and closed like any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

from mcpagent import Agent, McpServer, RunOptions, ScriptedModel, openapi_toolset
from mcpagent.agents.cards.agent_cards import agent_from_card
from mcpagent.agents.cards.teams import read_team
from mcpagent.config.secret_store import key_store, with_stored_keys
from mcpagent.errors import ServerError
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import Text, ToolCall
from mcpagent.values.tools import ToolOutput
from tests.config.test_secret_store import Ring, ring_of
from tests.servers.everyday import serving

HEADERS = {"Authorization": "entry-secret"}


class Item(BaseModel):
    name: str
    price: float = 1.0


class Shop:
    """A service of FastAPI; `calls` are the requests that reached a function."""

    def __init__(self) -> None:
        self.app = FastAPI(title="Shop")
        self.items: dict[int, Item] = {1: Item(name="lamp")}
        self.calls: list[str] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

        @self.app.get("/items", tags=["stock"], operation_id="list_items")
        async def list_items(authorization: str = Header("")) -> list[Item]:
            self.calls.append(f"list {authorization}")
            return list(self.items.values())

        @self.app.put("/items/{number}", tags=["stock"], operation_id="put_item")
        async def put_item(number: int, item: Item) -> Item:
            self.items[number] = item
            return item

        @self.app.delete("/items/{number}", tags=["stock", "danger"], operation_id="delete_item", status_code=204)
        async def delete_item(number: int) -> None:
            if self.items.pop(number, None) is None:
                raise HTTPException(404, "no such item")

        @self.app.post("/wait", tags=["odd"], operation_id="wait")
        async def wait() -> None:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()


@asynccontextmanager
async def shop(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Shop, McpServer]]:
    service = Shop()
    async with serving(lambda _: service.app) as address:
        file = tmp_path / "shop.json"
        file.write_text(json.dumps(service.app.openapi()))
        yield service, openapi_toolset(file, base_url=address, name="shop", **options)


async def run(link: ServerLink, operation: str, **arguments: Any) -> ToolOutput:
    [tool] = [tool for tool in link.bound_tools() if tool.name == operation]
    return await tool.run(arguments)


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


@pytest.mark.anyio
async def test_operations_are_tools_of_a_server(tmp_path: Path) -> None:
    async with shop(tmp_path, auth="secret") as (service, config), ServerLink(config) as link:
        found = {tool.name: tool.definition for tool in link.bound_tools()}
        assert {name: (one.category, one.read_only) for name, one in found.items()} == {
            "list_items": ("stock", True),
            "put_item": ("stock", False),
            "delete_item": ("stock", False),
            "wait": ("odd", False),
        }
        assert found["delete_item"].tags == ("danger", "items")
        put = await run(link, "put_item", number=2, name="desk")
        assert (put.error, put.structured) == (None, {"name": "desk", "price": 1.0})
        listed = await run(link, "list_items")
        assert [item["name"] for item in json.loads(text_of(listed))] == ["lamp", "desk"]
        assert listed.structured == {"items": json.loads(text_of(listed))}
        assert service.calls == ["list Bearer secret"]
        gone = await run(link, "delete_item", number=9)
        assert (gone.error, text_of(gone)) == ("failed", "HTTP 404 Not Found: no such item")


@pytest.mark.anyio
async def test_a_cancelled_call_ends_its_request(tmp_path: Path) -> None:
    async with shop(tmp_path) as (service, config), ServerLink(config) as link:
        call = asyncio.create_task(run(link, "wait"))
        await asyncio.wait_for(service.waiting.wait(), 10)
        call.cancel()
        await asyncio.wait({call}, timeout=10)
        assert call.cancelled()
        assert (await run(link, "list_items")).error is None


@pytest.mark.anyio
async def test_lists_are_cached_until_the_document_changes(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "cache")
    async with shop(tmp_path) as (_, config):
        async with ServerLink(config, cache=cache) as link:
            first = link.bound_tools()
        document = Path(str(config.openapi))
        content = document.read_text()
        async with ServerLink(config, cache=cache) as link:
            assert link.status.state == "cached"
            assert [tool.definition for tool in link.bound_tools()] == [tool.definition for tool in first]
            assert (await run(link, "list_items")).error is None
        document.write_text(content.replace("list_items", "all_items"))
        async with ServerLink(config, cache=cache) as link:
            assert "all_items" in [tool.name for tool in link.bound_tools()]


@pytest.mark.anyio
async def test_a_document_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("openapi: 3.0.0\npaths: {a")
    for source, said in {
        str(broken): 'server "it": its OpenAPI document is not YAML in line',
        str(tmp_path / "none.json"): "no such file",
        "http://127.0.0.1:1/openapi.json": "could not be loaded",
    }.items():
        with pytest.raises(ServerError, match=said) as caught:
            async with ServerLink(openapi_toolset(source, name="it")):
                pass
        assert "\n" not in str(caught.value)


@pytest.mark.anyio
async def test_what_is_left_out_is_a_warning(tmp_path: Path) -> None:
    events: list[Event] = []
    root = {
        "openapi": "3.1.0",
        "paths": {"/a": {"get": {}}, "/b": {"get": {"servers": [{"url": "https://two.example"}]}}},
    }
    async with ServerLink(openapi_toolset(root, base_url="https://one.example", name="it"), emit=events.append) as link:
        assert [tool.name for tool in link.bound_tools()] == ["get_a"]
    assert [event.text for event in events if isinstance(event, Notice)] == [
        'server "it": left out GET /b: its requests go elsewhere, to https://two.example'
    ]


@pytest.mark.anyio
async def test_an_agent_names_the_groups_and_finds_operations_by_path_and_tag(tmp_path: Path) -> None:
    model = ScriptedModel(["Items."])
    async with (
        shop(tmp_path, only=["*_item*"]) as (_, config),
        Agent(model, tools=[config], with_tool_search_mode=True) as agent,
    ):
        await agent.ask("What is there?")
        assert "- shop (stock), 3 tools" in model.requests[0].system
        assert set(agent.known_tools) >= {"list_items", "put_item", "delete_item"}
        assert "wait" not in agent.known_tools
        assert [match.tool.name for match in (await agent.search("danger")).matches][:1] == ["delete_item"]


async def test_a_further_origin_gets_its_own_credentials_and_no_others(tmp_path: Path) -> None:
    uploads = Shop()
    async with serving(lambda _: uploads.app) as address, shop(tmp_path) as (service, config):
        document = json.loads((tmp_path / "shop.json").read_text())
        document["paths"]["/items"]["get"]["servers"] = [{"url": address}]
        secret = {"*": "first-secret-1", address: "other-secret-2"}
        calls: dict[str, list[str]] = {}
        cases = {"none": {"*": "first-secret-1"}, "own": secret, "empty": {"*": "x", address: ""}}
        for name, credentials in cases.items():
            both = openapi_toolset(document, base_url=config.address, name="shop", auth=credentials, headers=HEADERS)
            warned: list[str] = []
            model = ScriptedModel([ToolCall("1", "list_items", {}), "done"])
            async with Agent(model, tools=[both], on_event=lambda event: warned.append(str(event))) as agent:  # noqa: B023
                if name == "none":
                    assert "list_items" not in agent.known_tools
                    assert any("its requests go elsewhere" in line for line in warned)
                    continue
                await agent.ask("List.")
            calls[name] = uploads.calls.copy()
            uploads.calls.clear()
        assert calls == {"own": ["list Bearer other-secret-2"], "empty": ["list "]}
        assert service.calls == []


async def test_a_large_result_of_an_api_is_set_aside(tmp_path: Path) -> None:
    async with shop(tmp_path) as (service, config):
        service.items = {number: Item(name=f"lamp {number}") for number in range(500)}
        model = ScriptedModel([ToolCall("1", "list_items", {}), "done"])
        options = RunOptions(large_result_tokens=200)
        async with Agent(model, tools=[config], options=options) as agent:
            await agent.ask("List.")
            [result] = [result for message in agent.messages for result in message.tool_results]
            assert result.set_aside is not None
            assert result.set_aside.tokens > 2_000
            assert len(result.text) < 4_000
            assert "read_large_output" in " ".join(tool.name for tool in agent.offered_tools())


async def test_a_card_names_an_api_whose_key_is_in_the_keyring(tmp_path: Path) -> None:
    environ = {"MCPAGENT_HOME": str(tmp_path / "home")}
    keyring = ring_of(Ring())
    key_store(environ, keyring=keyring).set("SHOP_KEY", "kept-in-the-ring-1")
    async with shop(tmp_path) as (service, config):
        card = tmp_path / "clerk.md"
        api = {"openapi": "shop.json", "url": config.address, "credentials": "${keyring:SHOP_KEY}"}
        card.write_text(f"---\nname: clerk\nmodel: offline\nmcp_servers: {json.dumps({'shop': api})}\n---\nYou sell.\n")
        team = read_team(card, with_stored_keys(environ, keyring=keyring))
        model = ScriptedModel([ToolCall("1", "list_items", {}), "done"])
        async with agent_from_card(Agent, team, model=model) as agent:
            await agent.ask("List.")
        assert service.calls == ["list Bearer kept-in-the-ring-1"]


async def test_a_document_that_sends_calls_elsewhere_at_the_next_start_is_asked_about(tmp_path: Path) -> None:
    """The key of the entry would go there: the address is part of what was agreed to at the first call."""
    other = Shop()
    async with serving(lambda _: other.app) as elsewhere, shop(tmp_path) as (service, config):
        moved = {"/wait": {"get": service.app.openapi()["paths"]["/items"]["get"]}}
        changes: dict[str, Any] = {"same": {}, "server": {"servers": [{"url": elsewhere}]}, "path": {"paths": moved}}
        file, results = tmp_path / "shop.json", dict[str, str | None]()
        whole = {**json.loads(file.read_text()), "servers": [{"url": config.address}]}
        for name, change in changes.items():
            file.write_text(json.dumps(whole | change))
            mine = openapi_toolset(file, name="shop", auth="first-secret-1")
            options = RunOptions(servers=ServerOptions(pins=PinStore(tmp_path / "pins")))
            model = ScriptedModel([ToolCall("1", "list_items", {}), "done"])
            async with Agent(model, tools=[mine], options=options) as agent:
                await agent.ask("List.")
                [result] = [result for message in agent.messages for result in message.tool_results]
                results[name] = result.error
        assert results == {"same": None, "server": "denied", "path": "denied"}
        assert (len(service.calls), other.calls) == (1, [])
