"""What servers ask of us, and what they say unasked: over stdio and HTTP, in both protocol eras."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Limits, RunOptions, ScriptedModel, ServerOptions, ToolCall
from mcpagent.config import ServerConfig, load_servers
from mcpagent.errors import ServerError
from mcpagent.mcp.callbacks import ASKED_PER_MINUTE
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.prompts_and_resources import complete
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_notifications import KEPT_LOG_LINES, LOG_EVENTS_A_SECOND, NotificationLimiter, ServerNews
from mcpagent.values.events import Event, ResourceUpdated, ServerLogged
from mcpagent.values.messages import Text
from tests.servers.everyday import serving
from tests.servers.leftovers import nothing_left
from tests.servers.talkative import build

SERVER = Path(__file__).resolve().parents[1] / "servers" / "talkative.py"
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
WAYS = ["http-legacy", "http"]
SECRET = "hunter2-hunter2"


class Heard:
    """The events so far, and a way to wait for one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def talkative(way: str, heard: Heard, *, handlers: Handlers | None = None, **settings: Any) -> AsyncIterator[Any]:
    """The toolset, over one transport; `-legacy`: by the handshake of the revisions before 2026-07-28."""
    transport, _, era = way.partition("-")
    settings |= {"era": era or "auto"}
    if transport == "stdio":
        config = ServerConfig("talk", command=sys.executable, args=(str(SERVER), "stdio"), **settings)
        async with nothing_left(), ServerLink(config, emit=heard, handlers=handlers) as toolset:
            assert (toolset.status.protocol_version >= "2026") == (not era)
            yield toolset
        return
    async with (
        serving(lambda _: build().streamable_http_app()) as address,
        ServerLink(ServerConfig("talk", url=f"{address}/mcp", **settings), emit=heard, handlers=handlers) as toolset,
    ):
        assert (toolset.status.protocol_version >= "2026") == (not era)
        yield toolset


async def call(toolset: ServerLink, tool: str, **arguments: Any) -> str:
    tools = {tool.name: tool for tool in await toolset.tools()}
    output = await tools[tool].run(arguments)
    return f"{f'{output.error}: ' if output.error else ''}{output.content[0].text}"  # type: ignore[union-attr]


# --- questions ---


class Answering:
    """A person and a model that answer, and what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def elicit(self, server: str, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((server, message, sorted(schema["properties"])))
        return {"name": "Ada"}

    async def sample(self, server: str, params: dict[str, Any]) -> str:
        self.asked.append((server, params["messages"][0]["content"]["text"], params["maxTokens"]))
        return "Because."

    async def is_asked_person(self, toolset: ServerLink) -> None:
        assert await call(toolset, "ask_person") == "accept name='Ada' nickname='none'"
        assert self.asked == [("talk", "Who are [31myou?", ["name", "nickname"])]

    async def is_asked_model(self, toolset: ServerLink) -> None:
        self.asked.clear()
        assert await call(toolset, "ask_model") == "assistant: Because."
        assert self.asked == [("talk", "Why?", 50)]


async def test_a_person_is_asked_with_the_origin_and_nothing_that_moves_the_cursor() -> None:
    person = Answering()
    async with talkative("http-legacy", Heard(), handlers=Handlers(elicit=person.elicit)) as toolset:
        await person.is_asked_person(toolset)


def test_an_entry_that_turns_a_question_off_is_obeyed_in_the_library_too() -> None:
    person = Answering()
    handlers = Handlers(elicit=person.elicit, sample=person.sample)
    for written, methods in (
        ({}, {"elicitation/create", "sampling/createMessage"}),
        ({"elicitation": False}, {"sampling/createMessage"}),
        ({"sampling": False}, {"elicitation/create"}),
        ({"elicitation": True, "sampling": True}, {"elicitation/create", "sampling/createMessage"}),
    ):
        (config,) = load_servers({"mcpServers": {"talk": {"command": "talk", **written}}}).servers
        assert handlers.within(config).methods() == methods, written


async def test_the_time_of_a_person_is_in_no_limit_of_a_run() -> None:
    """The person answers after a later run with the same limit has ended at it."""
    limit = 1.0
    options = RunOptions(limits=Limits(seconds=limit))

    async def wait() -> None:
        """Waits for nothing."""
        await asyncio.Event().wait()

    async def elicit(server: str, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        async with Agent(ScriptedModel([ToolCall("1", "wait", {}), "done"]), tools=[wait], options=options) as later:
            assert (await later.run("go")).stop == "max_seconds"
        return {"name": "Ada"}

    model = ScriptedModel([ToolCall("1", "ask_person", {}), "done"])
    async with serving(lambda _: build().streamable_http_app()) as address:
        config = {"mcpServers": {"talk": {"url": f"{address}/mcp", "era": "legacy"}}}
        servers = ServerOptions(handlers=Handlers(elicit=elicit))
        async with Agent(model, mcp_config=config, options=replace(options, servers=servers)) as agent:
            result = await agent.run("go")
            assert (result.stop, result.answer) == ("answered", "done")
            [asked] = [result.text for message in agent.messages for result in message.tool_results]
            assert asked == "accept name='Ada' nickname='none'"
            assert result.spent.seconds < limit


async def test_a_person_may_decline() -> None:
    async def elicit(_server: str, _message: str, _schema: dict[str, Any]) -> None:
        return None

    async with talkative("http-legacy", Heard(), handlers=Handlers(elicit=elicit)) as toolset:
        assert await call(toolset, "ask_person") == "decline None"


@pytest.mark.slow
async def test_a_person_may_take_longer_than_a_server_may_be_silent() -> None:
    async def elicit(_server: str, _message: str, _schema: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(2.0)
        return {"name": "Ada"}

    handlers = Handlers(elicit=elicit)
    async with talkative("stdio-legacy", Heard(), handlers=handlers, timeout_seconds=1.0) as toolset:
        assert await call(toolset, "ask_person") == "accept name='Ada' nickname='none'"


async def test_our_model_answers_a_server() -> None:
    model = Answering()
    async with talkative("http-legacy", Heard(), handlers=Handlers(sample=model.sample)) as toolset:
        await model.is_asked_model(toolset)


async def test_a_server_may_ask_so_often_a_minute() -> None:
    asked = 0

    async def sample(_server: str, _params: dict[str, Any]) -> str:
        nonlocal asked
        asked += 1
        return "Because."

    async with talkative("http-legacy", Heard(), handlers=Handlers(sample=sample)) as toolset:
        answers = [await call(toolset, "ask_model") for _ in range(ASKED_PER_MINUTE + 2)]
    assert asked == ASKED_PER_MINUTE
    assert all("more than 10 a minute" in answer for answer in answers[ASKED_PER_MINUTE:])


async def test_a_server_may_know_the_folders() -> None:
    async with talkative("http-legacy", Heard(), handlers=Handlers(roots=("file:///home/me/project",))) as toolset:
        assert await call(toolset, "ask_roots") == "file:///home/me/project"


async def test_folders_of_the_configuration_are_told_and_what_changes_of_them(tmp_path: Path) -> None:
    async with talkative("http-legacy", Heard(), roots=(str(tmp_path / "a b"),)) as toolset:
        assert await call(toolset, "ask_roots") == f"file://{tmp_path}/a%20b"
        await toolset.set_roots([tmp_path, tmp_path / "b"])
        assert await call(toolset, "ask_roots") == f"file://{tmp_path}, file://{tmp_path}/b"
        assert await call(toolset, "changes_of_folders") == "1"
        await toolset.set_roots([tmp_path, tmp_path / "b"])  # the same ones
        assert await call(toolset, "changes_of_folders") == "1"


async def test_a_server_that_knew_no_folders_is_greeted_anew_when_it_may(tmp_path: Path) -> None:
    async with talkative("http-legacy", Heard()) as toolset:
        assert "not supported" in await call(toolset, "ask_roots")
        await toolset.set_roots([tmp_path])
        assert await call(toolset, "ask_roots") == f"file://{tmp_path}"


async def test_in_the_2026_revision_the_folders_are_those_of_the_moment(tmp_path: Path) -> None:
    async with talkative("http", Heard(), roots=(str(tmp_path),)) as toolset:
        assert await call(toolset, "ask_roots_first") == f"file://{tmp_path}"
        await toolset.set_roots([tmp_path / "b"])
        assert await call(toolset, "ask_roots_first") == f"file://{tmp_path}/b"


async def test_in_the_2026_revision_a_call_is_answered_with_what_it_wants_to_know() -> None:
    async with talkative("http", Heard(), handlers=Handlers(roots=("file:///home/me/project",))) as toolset:
        assert await call(toolset, "ask_roots_first") == "file:///home/me/project"
    async with talkative("http", Heard()) as toolset:
        assert "roots/list" in await call(toolset, "ask_roots_first")


async def test_t22_nothing_is_answered_that_is_not_allowed() -> None:
    async with talkative("http-legacy", Heard()) as toolset:
        await is_refused(toolset)


async def is_refused(toolset: ServerLink) -> None:
    for tool in ("ask_person", "ask_model", "ask_roots"):
        assert "not supported" in await call(toolset, tool), tool


async def test_a_handler_that_fails_costs_its_question() -> None:
    async def sample(_server: str, _params: dict[str, Any]) -> str:
        raise ValueError("no key")

    async with talkative("http-legacy", Heard(), handlers=Handlers(sample=sample)) as toolset:
        assert (await call(toolset, "ask_model")).startswith("failed: ")
        assert await call(toolset, "work", count=0) == "done"


# --- completions ---


@pytest.mark.parametrize("way", WAYS)
async def test_arguments_are_completed(way: str) -> None:
    async with talkative(way, Heard()) as toolset:
        await completes(toolset)


async def completes(toolset: ServerLink) -> None:
    (prompt,), (template,) = toolset.lists.prompts, toolset.lists.resources
    assert await complete(toolset, prompt, "language", "F") == ("French", "Finnish")
    assert await complete(toolset, prompt, "tone", "very", {"language": "French"}) == ("very like French",)
    assert len(await complete(toolset, template, "day", "fr")) == 100
    assert await complete(toolset, prompt, "nothing", "") == ()


@pytest.mark.slow
async def test_a_server_that_completes_nothing_proposes_nothing() -> None:
    script = SERVER.with_name("everyday.py")
    config = ServerConfig("every", command=sys.executable, args=(str(script), "stdio"))
    async with nothing_left(), ServerLink(config) as toolset:
        assert await complete(toolset, toolset.lists.prompts[0], "code", "x") == ()


# --- resources ---


@pytest.mark.parametrize("way", WAYS)
async def test_a_change_of_a_resource_is_told_once_to_who_subscribed(way: str) -> None:
    heard = Heard()
    async with talkative(way, heard) as toolset:
        await tells_of_a_change(toolset, heard)


async def tells_of_a_change(toolset: ServerLink, heard: Heard) -> None:
    await call(toolset, "touch", uri="notes://monday")
    await toolset.subscription("notes://friday", wanted=True)
    await heard_after(heard, lambda: call(toolset, "touch", uri="notes://friday"))
    assert heard.of(ResourceUpdated)[0] == ResourceUpdated("talk", "notes://friday")
    await toolset.subscription("notes://friday", wanted=False)


async def heard_after(heard: Heard, touch: Callable[[], Any]) -> None:
    """Touches until it is heard: in the 2026 revision a subscription begins some time after it was asked for."""
    for _ in range(50):
        await touch()
        try:
            async with asyncio.timeout(0.5):
                await heard.until(lambda: bool(heard.of(ResourceUpdated)))
                return
        except TimeoutError:
            continue
    raise AssertionError("never told")


async def test_a_storm_of_updates_is_told_as_one() -> None:
    heard = Heard()
    news = NotificationLimiter("talk", heard)
    for number in range(1_000):
        news.report(ServerNews("resource", f"notes://{number % 2}"))
    await heard.until(lambda: len(heard.events) == 2)
    assert heard.events == [ResourceUpdated("talk", "notes://0"), ResourceUpdated("talk", "notes://1")]
    news.report(ServerNews("resource", "notes://0"))
    news.close()


@pytest.mark.slow
async def test_a_subscription_outlives_the_server() -> None:
    heard = Heard()
    async with talkative("stdio-legacy", heard) as toolset:
        await toolset.subscription("notes://friday", wanted=True)
        await toolset.restart()
        await call(toolset, "touch", uri="notes://friday")
        await heard.until(lambda: bool(heard.of(ResourceUpdated)))


@pytest.mark.slow
async def test_a_server_without_subscriptions_says_so() -> None:
    script = SERVER.with_name("everyday.py")
    config = ServerConfig("every", command=sys.executable, args=(str(script), "stdio"), era="legacy")
    async with nothing_left(), ServerLink(config) as toolset:
        with pytest.raises(
            ServerError, match='server "every" takes no subscription to notes://today: Method not found'
        ):
            await toolset.subscription("notes://today", wanted=True)


async def test_t4_a_link_in_a_result_is_named_and_not_followed() -> None:
    visits: list[object] = []
    listener = await asyncio.start_server(lambda *streams: visits.append(streams), "127.0.0.1", 0)
    async with listener, talkative("http", Heard()) as toolset:
        assert await call(toolset, "links") == "[resource link: never <http://127.0.0.1:9/never>]"
    assert visits == []


# --- what a server logs ---


@pytest.mark.parametrize("way", WAYS)
async def test_messages_of_a_server_are_told_without_its_secrets(way: str) -> None:
    heard = Heard()
    async with talkative(way, heard, log_level="info", headers={"X-Token": SECRET}) as toolset:
        await tells_no_secret(toolset, heard)


async def tells_no_secret(toolset: ServerLink, heard: Heard) -> None:
    await call(toolset, "work", count=1)
    await heard.until(lambda: bool(heard.of(ServerLogged)))
    (message,) = heard.of(ServerLogged)
    assert message == ServerLogged("talk", "info", 'worker: {"step": 0, "secret": "[redacted]"}')
    assert toolset.log == (message,)


async def test_a_flood_of_messages_is_kept_in_part_and_told_in_part() -> None:
    heard = Heard()
    async with talkative("http-legacy", heard) as toolset:
        await call(toolset, "work", count=300)
        await heard.until(lambda: any('"step": 299' in message.text for message in toolset.log))
        assert len(toolset.log) == KEPT_LOG_LINES
        assert LOG_EVENTS_A_SECOND <= len(heard.of(ServerLogged)) < 300


@pytest.mark.slow
async def test_messages_go_to_the_log_file_too(tmp_path: Path) -> None:
    config = ServerConfig("talk", command=sys.executable, args=(str(SERVER), "stdio"), era="legacy")
    async with ServerLink(config, log_folder=tmp_path) as toolset:
        await call(toolset, "work", count=1)
    assert '--- [info] worker: {"step": 0' in (tmp_path / "talk.log").read_text()


# --- over stdio: one server each, since it takes a second to start ---


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio-legacy", "stdio"])
async def test_over_stdio_all_of_it_is_the_same(way: str) -> None:
    heard, answering = Heard(), Answering()
    handlers = Handlers(elicit=answering.elicit, sample=answering.sample, roots=("file:///home/me/project",))
    settings: dict[str, Any] = {"env": {"API_TOKEN": SECRET}, "log_level": "info"}
    async with talkative(way, heard, handlers=handlers, **settings) as toolset:
        await tells_no_secret(toolset, heard)
        await completes(toolset)
        await tells_of_a_change(toolset, heard)
        if way.endswith("legacy"):
            await answering.is_asked_person(toolset)
            await answering.is_asked_model(toolset)
        roots = "ask_roots" if way.endswith("legacy") else "ask_roots_first"
        assert await call(toolset, roots) == "file:///home/me/project"
        tools = {tool.name: tool for tool in await toolset.tools()}
        assert (await tools["leak"].run({})).content == (Text("token is hunter2-hunter2"),)


@pytest.mark.slow
async def test_nor_is_anything_answered_over_stdio_that_is_not_allowed() -> None:
    async with talkative("stdio-legacy", Heard()) as toolset:
        await is_refused(toolset)
    async with talkative("stdio", Heard()) as toolset:
        assert "roots/list" in await call(toolset, "ask_roots_first")
