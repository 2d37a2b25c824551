"""Calls that run as tasks, in both forms of the protocol, against a server whose tasks end in every way."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcpagent.config import ServerConfig
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.events import Event, ToolProgress
from mcpagent.values.messages import Text
from tests.servers.everyday import serving
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "task_server.py"
ERAS = ["legacy", "modern"]


class Running:
    """The toolset of one server, with what it logs and what we tell."""

    toolset: ServerLink

    def __init__(self, log: Path) -> None:
        self.log = log
        self.events: list[Event] = []
        self.progress = asyncio.Event()

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, ToolProgress):
            self.progress.set()

    def heard(self, method: str) -> int:
        return self.log.read_text().splitlines().count(method)

    async def call(self, way: str, tool: str = "only") -> tuple[str | None, str]:
        (found,) = [item for item in self.toolset.bound_tools() if item.name == tool]
        output = await found.run({"text": way})
        return output.error, "\n".join(part.text for part in output.content if isinstance(part, Text))


@asynccontextmanager
async def running(
    era: str,
    tmp_path: Path,
    *flags: str,
    handlers: Handlers | None = None,
    cache: ListCache | None = None,
    **settings: Any,
) -> AsyncIterator[Running]:
    server = Running(tmp_path / "log")
    args = (str(SERVER), era, "--log", str(server.log), *flags)
    config = ServerConfig("jobs", command=sys.executable, args=args, **settings)
    async with nothing_left(), ServerLink(config, emit=server.emit, handlers=handlers, cache=cache) as server.toolset:
        yield server


async def elicit(_server: str, _message: str, _schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "Ada"}


@each_row("era", ERAS)
async def test_a_task_is_followed_to_its_result(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path) as server:
        assert await server.call("") == (None, "all done")
        assert server.heard("tasks/get") == 2
        assert server.heard("tasks/result") == (1 if era == "legacy" else 0)
        assert server.heard("tasks/cancel") == 0
        steps = [event.message for event in server.events if isinstance(event, ToolProgress)]
        assert steps[0] == "step 1"
        if era == "legacy":
            assert server.heard("ttl 300000") == 1  # kept for as long as the call may take
        else:
            assert server.heard("extensions ['io.modelcontextprotocol/tasks']") == 1


WAYS: dict[str, tuple[str | None, str]] = {
    "plain": (None, "a plain result"),
    "done": (None, "all done"),
    "tool-error": ("failed", "it went wrong"),
    "bad-result": (None, "good\n"),
    "fail": ("failed", "out of paper"),
    "cancel": ("failed", "it cancelled the task: by the operator; the call may have run"),
    "lost": ("failed", "no longer knows the task: Failed to retrieve task: Task not found; the call may have run"),
    "wrong-id": ("failed", "asked after one task, it answers about another"),
    "unknown-status": ("failed", 'has the status "frobnicating[31m", which the protocol does not know'),
    "no-status": ("failed", "no id or no status"),
    "no-id": ("failed", "no id or no status"),
    "not-a-task": ("failed", "invalid answer"),
    "no-result": ("failed", "invalid answer"),
    "poll-none": (None, "all done"),
    "poll-0": (None, "all done"),
    "poll-negative": (None, "all done"),
    "poll-text": (None, "all done"),
    "poll-late": (None, "all done"),
    "storm": (None, "all done"),
}


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_however_a_task_ends_the_call_ends_and_the_next_works(era: str, tmp_path: Path) -> None:
    """All at once, so that no task's answer is taken for another's."""
    async with running(era, tmp_path, timeout_seconds=3.0) as server:
        answers = dict(zip(WAYS, await asyncio.gather(*map(server.call, WAYS)), strict=True))
        for way, (error, text) in WAYS.items():
            found, words = answers[way]
            assert (way, found, text in words) == (way, error, True), words
            assert "\x1b" not in words
        assert await server.call("") == (None, "all done")
        assert server.heard("initialize" if era == "legacy" else "server/discover") == 1  # the session lived on


async def test_a_storm_of_news_makes_no_storm_of_questions(tmp_path: Path) -> None:
    async with running("legacy", tmp_path) as server:
        assert await server.call("storm") == (None, "all done")
        assert server.heard("tasks/get") <= 3


async def test_a_result_of_a_failed_task_is_a_failure(tmp_path: Path) -> None:
    async with running("legacy", tmp_path) as server:
        assert await server.call("fail-result") == ("failed", "half a page")


@each_row("era", ERAS)
async def test_a_server_that_dies_of_a_task_is_named_and_the_call_not_repeated(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path) as server:
        error, text = await server.call("die")
        assert error == "server_down"
        assert 'server "jobs" exited with code 9 during tools/call "only": out of memory' in text
        assert "the call may have run: check before you repeat it" in text
        assert server.heard("tools/call") == 1
        assert await server.call("") == (None, "all done")


@each_row("era", ERAS)
async def test_a_call_whose_task_has_begun_is_not_repeated_though_the_server_dies_unasked(
    era: str, tmp_path: Path
) -> None:
    """The server never read that it was asked after the task, and carries it out all the same."""
    async with running(era, tmp_path) as server:
        error, text = await server.call("gone")
        assert (error, "the call may have run: check before you repeat it" in text) == ("server_down", True), text
        assert server.heard("tools/call") == 1


@each_row("era", ERAS)
async def test_a_task_that_never_ends_is_cancelled_at_the_limit(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path, timeout_seconds=30.0, total_timeout_seconds=2.0) as server:
        error, text = await server.call("never")
        assert error == "timeout"
        assert 'did not finish tools/call "only" within 2 s' in text
        assert "may have run" in text
        assert await server.call("") == (None, "all done")
        assert server.heard("tasks/cancel") == 1


async def test_a_task_in_which_nothing_changes_is_silent_however_often_it_is_asked_after(tmp_path: Path) -> None:
    async with running("legacy", tmp_path, timeout_seconds=0.6) as server:
        error, text = await server.call("silent")
        assert (error, "sent other things and nothing of an answer for 0.6 s" in text) == ("timeout", True), text
        assert await server.call("plain") == (None, "a plain result")
        assert server.heard("tasks/cancel") == 1


@each_row("era", ERAS)
async def test_a_cancelled_call_cancels_its_task(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path) as server:
        call = asyncio.create_task(server.call("never"))
        async with asyncio.timeout(10):
            await server.progress.wait()
        call.cancel()
        async with asyncio.timeout(1):
            await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        assert await server.call("") == (None, "all done")
        assert server.heard("tasks/cancel") == 1


async def test_a_server_that_takes_no_cancelling_is_not_asked_to(tmp_path: Path) -> None:
    async with running("legacy", tmp_path, "--no-cancel", total_timeout_seconds=2.0) as server:
        error, _ = await server.call("never")
        assert error == "timeout"
        assert await server.call("") == (None, "all done")
        assert server.heard("tasks/cancel") == 0


@each_row("era", ERAS)
async def test_news_of_a_task_is_a_reason_to_ask_at_once(era: str, tmp_path: Path) -> None:
    """Its server asks to be left alone for a minute, and says so when there is something to see."""
    async with running(era, tmp_path, timeout_seconds=45.0, total_timeout_seconds=45.0) as server:
        async with asyncio.timeout(10):
            assert await server.call("notified") == (None, "all done")


async def test_progress_of_a_task_is_told_though_its_request_was_answered(tmp_path: Path) -> None:
    async with running("legacy", tmp_path) as server:
        assert await server.call("progress") == (None, "all done")
        told = [event for event in server.events if isinstance(event, ToolProgress)]
        assert next((event.tool, event.progress, event.total) for event in told) == ("only", 3.0, 4.0)


@each_row("era", ERAS)
async def test_a_task_may_ask_a_person_and_asks_once(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path, handlers=Handlers(elicit=elicit)) as server:
        assert await server.call("ask") == (None, "all done for {'name': 'Ada'}")
        if era == "modern":
            assert server.heard("update ['who']") == 1


@each_row("era", ERAS)
async def test_a_task_that_wants_what_is_not_allowed_is_cancelled(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path) as server:
        error, text = await server.call("ask")
        wants = "wants input, and nothing that a server may ask" if era == "legacy" else "it wants elicitation/create"
        assert (error, wants in text) == ("failed", True), text
        assert await server.call("") == (None, "all done")
        assert server.heard("tasks/cancel") == 1


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_task_that_outlives_its_time_is_given_up(era: str, tmp_path: Path) -> None:
    async with running(era, tmp_path, timeout_seconds=30.0) as server:
        error, text = await server.call("short")
        assert (error, "keeps the task for 0.001 s only" in text) == ("failed", True), text


async def test_a_tool_that_may_run_as_a_task_does_so_where_calls_take_long(tmp_path: Path) -> None:
    async with running("legacy", tmp_path) as server:
        assert await server.call("", "able") == (None, "a plain result")
        assert await server.call("", "never") == (None, "a plain result")
    async with running("legacy", tmp_path, total_timeout_seconds=3600.0) as server:
        assert await server.call("", "able") == (None, "all done")
        assert await server.call("", "never") == (None, "a plain result")


async def test_a_server_without_the_capability_is_not_asked_for_tasks(tmp_path: Path) -> None:
    async with running("legacy", tmp_path, "--no-tasks") as server:
        assert await server.call("") == ("failed", "only as a task")


async def test_what_runs_as_a_task_is_known_from_the_cache(tmp_path: Path) -> None:
    cache = ListCache(tmp_path / "cache")
    for _ in range(2):
        async with running("legacy", tmp_path, cache=cache) as server:
            assert await server.call("") == (None, "all done")
    assert server.toolset.config.name == "jobs"


class TaskApp:
    """A server of the 2026 era over HTTP, one task for every call; `fails` are the status codes of the next polls."""

    def __init__(self, *fails: int) -> None:
        self.fails = list(fails)
        self.seen: list[tuple[str, str | None]] = []

    async def answer(self, request: Request) -> Response:
        message = await request.json()
        method = message["method"]
        self.seen.append((method, request.headers.get("mcp-name")))
        task = {
            "taskId": "t-1",
            "status": "working",
            "ttlMs": None,
            "pollIntervalMs": 50,
            "createdAt": "",
            "lastUpdatedAt": "",
        }
        hints = {"ttlMs": 0, "cacheScope": "private"}
        schema = {"type": "object", "properties": {}}
        if method == "tasks/get" and self.fails:
            return Response("not now", self.fails.pop(0))
        results: dict[str, Any] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}} | hints,
            "tools/list": {"tools": [{"name": "only", "inputSchema": schema}]} | hints,
            "tools/call": task | {"resultType": "task"},
            "tasks/get": task | {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}},
            "tasks/cancel": {},
        }
        result = {"resultType": "complete"} | results[method]
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def asgi(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.answer, methods=["POST"])])


async def called_over_http(app: TaskApp) -> tuple[str | None, str]:
    async with (
        serving(lambda _: app.asgi()) as address,
        ServerLink(ServerConfig("jobs", url=f"{address}/mcp")) as toolset,
    ):
        output = await toolset.bound_tools()[0].run({})
    return output.error, "\n".join(part.text for part in output.content if isinstance(part, Text))


async def test_over_http_a_task_is_named_in_the_header_and_a_failed_poll_made_again() -> None:
    app = TaskApp(503, 502)
    assert await called_over_http(app) == (None, "done")
    assert {name for method, name in app.seen if method == "tasks/get"} == {"t-1"}
    assert [method for method, _ in app.seen].count("tools/call") == 1


async def test_a_task_that_cannot_be_asked_after_is_given_up_and_its_call_not_repeated() -> None:
    app = TaskApp(*[500] * 20)
    error, text = await called_over_http(app)
    assert (error, "cannot be asked after the task: answered HTTP 500" in text) == ("failed", True), text
    assert "may have run" in text
    assert [method for method, _ in app.seen].count("tools/call") == 1
    assert ("tasks/cancel", "t-1") in app.seen
