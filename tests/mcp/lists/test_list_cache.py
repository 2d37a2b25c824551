"""Lists that change, are kept on disk and come back."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcpagent.config import Era, ServerConfig, ServersConfig
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.lists.list_cache import CachedServer, ListCache, config_fingerprint
from mcpagent.mcp.lists.server_lists import (
    PromptArgument,
    PromptInfo,
    ResourceInfo,
    ServerLists,
    ToolsDifference,
    difference,
)
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import Event, Notice, ServerConnected
from mcpagent.values.messages import Text, ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.mcp.at_once import rows_at_once
from tests.servers.everyday import build, serving
from tests.servers.leftovers import nothing_left, processes
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[2] / "servers" / "faulty_server.py"


def config(mode: str, log: Path, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 10.0, "timeout_seconds": 10.0}
    command = {"command": sys.executable, "args": (str(SERVER), mode, "--log", str(log))}
    return ServerConfig(**({"name": "faulty"} | command | limits | settings))


async def by_name(toolset: ServerLink) -> dict[str, Tool]:
    return {tool.name: tool for tool in await toolset.tools()}


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


def forget(log: Path) -> None:
    log.unlink()


def state(toolset: ServerLink) -> str:
    return toolset.status.state


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def cache(tmp_path: Path) -> ListCache:
    return ListCache(tmp_path / "cache")


# --- changes ---


async def test_a_change_made_by_a_call_is_known_when_the_call_returns(log: Path) -> None:
    events: list[Event] = []
    changes: list[ToolsDifference] = []
    async with nothing_left(str(log)):
        toolset = ServerLink(config("list-changes", log), emit=events.append, on_tools_changed=changes.append)
        async with toolset:
            assert list(await by_name(toolset)) == ["echo", "trouble"]
            await (await by_name(toolset))["trouble"].run({})
            tools = await by_name(toolset)
            assert list(tools) == ["echo", "trouble", "new_one"]
            assert toolset.status.tool_count == 3
            assert text_of(await tools["new_one"].run({})) == "unknown tool new_one"
    assert changes == [ToolsDifference("faulty", ("new_one",), (), ())]
    assert Notice('server "faulty" changed its tools: 1 added (new_one)') in events


@pytest.mark.slow
async def test_a_storm_of_changes_is_read_a_few_times_only(log: Path) -> None:
    async with nothing_left(str(log)), ServerLink(config("list-changed-storm", log)) as toolset:
        await (await by_name(toolset))["trouble"].run({})
    assert 2 <= lines(log).count("list") <= 4


async def test_a_server_of_the_2026_era_tells_of_changes_by_subscription() -> None:
    server = build()

    @server.tool(structured_output=False)
    async def grow(context: Context) -> str:
        """Adds a tool."""
        server.add_tool(lambda: "new", name="grown", description="New", structured_output=False)
        await context.notify_tools_changed()
        return "grown"

    changed = asyncio.Event()
    async with serving(lambda _: server.streamable_http_app()) as address:
        every = ServerConfig(name="every", url=f"{address}/mcp")
        async with ServerLink(every, on_tools_changed=lambda _: changed.set()) as toolset:
            assert toolset.status.protocol_version == "2026-07-28"
            await (await by_name(toolset))["grow"].run({})
            async with asyncio.timeout(5):
                await changed.wait()
            assert "grown" in await by_name(toolset)


@rows_at_once("era", ["auto", "legacy"])
async def test_prompts_and_resources_that_come_later_are_known_too(era: Era) -> None:
    server = build()

    @server.tool(structured_output=False)
    async def grow(context: Context) -> str:
        """Adds a prompt and a resource."""
        server.prompt("later")(lambda: "hello")
        server.resource("later://x", name="later")(lambda: "there")
        if era == "legacy":
            await context.session.send_prompt_list_changed()
        else:
            await context.notify_prompts_changed()
        return "grown"

    async with serving(lambda _: server.streamable_http_app()) as address:
        every = ServerConfig(name="every", url=f"{address}/mcp", era=era)
        async with ServerLink(every) as toolset:
            assert "later" not in {prompt.name for prompt in toolset.lists.prompts}
            tools = await by_name(toolset)
            await tools["grow"].run({})
            async with asyncio.timeout(5):
                while "later" not in {prompt.name for prompt in toolset.lists.prompts}:
                    await tools["add"].run({"a": 1})
            assert "later://x" in {resource.uri for resource in toolset.lists.resources}


async def test_a_list_is_read_again_when_the_time_is_over_for_which_its_server_vouches() -> None:
    """Only where it is used: nothing is asked of a server that nobody calls."""
    lists = 0

    async def short_lived(request: Request) -> Response:
        nonlocal lists
        message = await request.json()
        tools = [{"name": f"tool_{min(lists, 1)}", "inputSchema": {"type": "object"}}]
        lists += message["method"] == "tools/list"
        results: dict[str, Any] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0},
            "tools/list": {"tools": tools, "ttlMs": 1},
            "tools/call": {"content": []},
        }
        result = {"resultType": "complete", "cacheScope": "private"} | results[message["method"]]
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    app = Starlette(routes=[Route("/mcp", short_lived, methods=["POST"])])
    changed = asyncio.Event()
    async with serving(lambda _: app) as address:
        config = ServerConfig(name="short", url=f"{address}/mcp")
        async with ServerLink(config, on_tools_changed=lambda _: changed.set()) as toolset:
            (tool,) = toolset.bound_tools()
            assert (tool.name, lists) == ("tool_0", 1)
            await tool.run({})
            async with asyncio.timeout(5):
                await changed.wait()
            assert [tool.name for tool in toolset.bound_tools()] == ["tool_1"]


async def test_a_call_that_fails_makes_the_next_start_ask_the_server(log: Path, cache: ListCache) -> None:
    failing = config("kill-on-call", log)
    async with ServerLink(failing, cache=cache) as toolset:
        assert cache.load(failing) is not None
        output = await (await by_name(toolset))["trouble"].run({})
        assert output.error == "server_down"
        assert cache.load(failing) is None


def tool(name: str, description: str = "") -> ToolDefinition:
    return ToolDefinition(name, description, {"type": "object"}, server="s", original_name=name)


def test_the_difference_of_two_lists() -> None:
    before, after = [tool("a"), tool("b"), tool("c")], [tool("c", "new words"), tool("d"), tool("a")]
    change = difference("s", before, after)
    assert (change.added, change.removed, change.changed) == (("d",), ("b",), ("c",))
    assert str(change) == 'server "s" changed its tools: 1 added (d); 1 removed (b); 1 changed (c)'
    assert not difference("s", before, list(reversed(before)))


# --- the cache ---


async def test_a_known_server_is_started_by_its_first_call(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("ok", log), cache=cache):
        pass
    forget(log)
    events: list[Event] = []
    async with nothing_left(str(log)), ServerLink(config("ok", log), cache=cache, emit=events.append) as toolset:
        assert state(toolset) == "cached"
        assert (toolset.status.tool_count, toolset.status.title) == (2, "faulty")
        tools = await by_name(toolset)
        assert list(tools) == ["echo", "trouble"]
        assert lines(log) == []
        assert events == []
        assert text_of(await tools["echo"].run({"text": "hello"})) == "hello"
        assert state(toolset) == "ready"
    assert lines(log) == ["life", "list", "call echo"]
    assert isinstance(events[-1], ServerConnected)


async def test_concurrent_first_calls_start_one_process(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("ok", log), cache=cache):
        pass
    forget(log)
    async with nothing_left(str(log)), ServerLink(config("ok", log), cache=cache) as toolset:
        echo = (await by_name(toolset))["echo"]
        outputs = await asyncio.gather(*(echo.run({"text": str(number)}) for number in range(20)))
    assert [text_of(output) for output in outputs] == [str(number) for number in range(20)]
    assert lines(log).count("life") == 1


@pytest.mark.slow
async def test_a_first_call_that_is_cancelled_leaves_the_server_for_the_next(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("slow-start", log), cache=cache):
        pass
    forget(log)
    async with nothing_left(str(log)), ServerLink(config("slow-start", log), cache=cache) as toolset:
        echo = (await by_name(toolset))["echo"]
        call = asyncio.ensure_future(echo.run({"text": "first"}))
        async with asyncio.timeout(10):
            while "life" not in lines(log):  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert state(toolset) == "cached"
        assert text_of(await echo.run({"text": "second"})) == "second"


async def test_an_eager_server_is_started_in_the_background(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("ok", log), cache=cache):
        pass
    connected = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, ServerConnected):
            connected.set()

    async with nothing_left(str(log)), ServerLink(config("ok", log), cache=cache, eager=True, emit=listen) as toolset:
        assert state(toolset) == "cached"
        async with asyncio.timeout(10):
            await connected.wait()
        assert state(toolset) == "ready"


async def test_what_changed_since_it_was_cached_is_told(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("list-changes", log), cache=cache):
        pass
    log.with_name("log.changed").touch()
    changes: list[ToolsDifference] = []
    toolset = ServerLink(config("list-changes", log), cache=cache, on_tools_changed=changes.append)
    async with toolset:
        assert list(await by_name(toolset)) == ["echo", "trouble"]
        await (await by_name(toolset))["echo"].run({})
        assert list(await by_name(toolset)) == ["echo", "trouble", "new_one"]
    assert [change.added for change in changes] == [("new_one",)]


async def test_a_cached_server_that_no_longer_starts_is_said_and_forgotten(log: Path, cache: ListCache) -> None:
    server = config("ok", log)
    async with ServerLink(server, cache=cache):
        pass
    script = Path(sys.executable)
    broken = ServerConfig(name="faulty", command=str(script), args=("-c", "raise SystemExit('no licence')"))
    known = cache.load(server)
    assert known is not None
    cache.save(broken, known)
    async with nothing_left(), ServerLink(broken, cache=cache) as toolset:
        output = await (await by_name(toolset))["echo"].run({})
        assert output.error == "server_down"
        assert "exited with code 1 during initialize: no licence" in text_of(output)
        assert state(toolset) == "failed"
    assert cache.load(broken) is None


async def test_the_era_of_a_known_server_is_not_probed_again(log: Path, cache: ListCache) -> None:
    async with ServerLink(config("fatal-discover", log), cache=cache):
        pass
    assert lines(log).count("life") == 2
    async with nothing_left(str(log)), ServerLink(config("fatal-discover", log), cache=cache) as toolset:
        assert text_of(await (await by_name(toolset))["echo"].run({"text": "again"})) == "again"
    assert lines(log).count("life") == 3


@pytest.mark.slow
async def test_fifty_known_servers_cost_little_and_start_nothing(tmp_path: Path, cache: ListCache) -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 40} for n in range(6)}}
    configs = [ServerConfig(f"s{n}", command=sys.executable, args=(str(tmp_path / "never"), str(n))) for n in range(50)]
    for server in configs:
        tools = tuple(ToolDefinition(f"tool_{n}", "words " * 20, schema, server=server.name) for n in range(20))
        cache.save(server, CachedServer(ServerLists(tools)))
    events: list[Event] = []

    async def opened() -> tuple[McpServers, float]:
        used = time.process_time()
        servers = McpServers(
            ServersConfig(tuple(configs)),
            configs,
            ServerOptions(cache=cache),
            emit=events.append,
            on_late=lambda _: None,
            on_lost=lambda _name, _why: None,
            on_changed=lambda _toolset, _change: None,
        )
        await servers.open(None)
        assert len(servers.all_tools()) == 1_000
        return servers, time.process_time() - used

    def parsed() -> float:
        """The CPU seconds of reading the same files as JSON: opening takes some 8 times that."""
        used = time.process_time()
        assert all(all(map(json.loads, cache.path(server).read_text("utf-8").splitlines())) for server in configs)
        return time.process_time() - used

    before = processes().keys()
    to_parse = min(parsed() for _ in range(3))  # not within what watches the event loop: this holds it
    taken: list[float] = []
    for _ in range(3):
        async with nothing_left():  # each by itself: three in a row would be three times as long on the loop
            servers, seconds = await opened()
            taken.append(seconds)
            assert {status.state for status in servers.statuses.values()} == {"cached"}
            assert processes(str(tmp_path)).keys() <= before  # a database of other tests is there
            await servers.close()
    assert min(taken) < 20 * to_parse
    assert events == []


LISTS = ServerLists(
    tools=(tool("a", "does a"),),
    prompts=(PromptInfo("p", "d", (PromptArgument("x", "", True),)),),
    resources=(ResourceInfo("a://b", "b", "", "text/plain", True),),
)


def test_a_cached_server_comes_back_as_it_was(tmp_path: Path) -> None:
    cache, server = ListCache(tmp_path / "a" / "b"), ServerConfig(name="a/b", command="x", env={"TOKEN": "hunter2"})
    cached = CachedServer(LISTS, False, "2025-11-25", "Title", "Do this")
    cache.save(server, cached)
    assert cache.load(server) == cached
    path = cache.path(server)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "hunter2" not in path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    cache.drop(server)
    assert cache.load(server) is None
    cache.drop(server)


@each_row(
    "ttl_seconds, age, is_known", [(0, 99, True), (0, 101, False), (10, 9, True), (10, 11, False), (0, -1, False)]
)
def test_entries_grow_old(ttl_seconds: float, age: float, is_known: bool, tmp_path: Path) -> None:
    clock = [1000.0]
    cache = ListCache(tmp_path, max_age_seconds=100, now=lambda: clock[0])
    server = ServerConfig(name="a", command="x")
    cache.save(server, CachedServer(ServerLists(tools=LISTS.tools, ttl_seconds=ttl_seconds)))
    clock[0] += age
    assert (cache.load(server) is not None) == is_known


@each_row(
    "change",
    [
        {"args": ("y",)},
        {"env": {"A": "1"}},
        {"url": "http://x"},
        {"headers": {"A": "1"}},
        {"cwd": "/"},
        {"command": "z"},
    ],
)
def test_another_configuration_is_another_entry(change: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"name": "a", "command": "x"}
    assert config_fingerprint(ServerConfig(**plain)) != config_fingerprint(ServerConfig(**(plain | change)))
    assert config_fingerprint(ServerConfig(**plain)) == config_fingerprint(
        ServerConfig(**(plain | {"timeout_seconds": 5.0}))
    )


@pytest.mark.slow
@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["format", "saved", "server", "lists", "tools"]), inner | st.just(1))
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_broken_entry_counts_as_none(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    cache, server = ListCache(tmp_path_factory.getbasetemp()), ServerConfig(name="broken", command="x")
    cache.path(server).write_bytes(content)
    assert cache.load(server) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ListCache(tmp_path / "file" / "cache")
    cache.save(ServerConfig(name="a", command="x"), CachedServer(LISTS))
    assert cache.load(ServerConfig(name="a", command="x")) is None
