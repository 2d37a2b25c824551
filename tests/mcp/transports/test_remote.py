"""A remote server that goes wrong: each failure is an answer, never a cancellation, and the session lives on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.history.intake.admission_of_content import judged
from mcpagent.mcp.server_link import ServerLink
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.servers.everyday import everyday
from tests.servers.faulty_http import RESUMED, FaultyHttp, bomb, faulty_http
from tests.servers.leftovers import nothing_left
from tests.tables import each_row


def config(url: str, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 40.0, "timeout_seconds": 40.0, "total_timeout_seconds": 50.0}
    return ServerConfig(name="remote", url=url, **(limits | settings))


def text_of(output: ToolOutput) -> str:
    content = judged(output.content, accepts=frozenset({"image"})).content
    return "\n".join(part.text if isinstance(part, Text) else "[image]" for part in content)


@asynccontextmanager
async def connected(mode: str, **settings: Any) -> AsyncIterator[tuple[FaultyHttp, dict[str, Tool]]]:
    async with (
        nothing_left(),
        faulty_http(mode) as server,
        ServerLink(config(server.url, **settings)) as toolset,
    ):
        yield server, {tool.name: tool for tool in await toolset.tools()}


@each_row("kind", ["http", "sse"])
async def test_a_call_that_cannot_be_written_fails_alone(kind: Literal["http", "sse"]) -> None:
    async with everyday(kind) as url, ServerLink(config(url, transport=kind)) as toolset, asyncio.timeout(30):
        tools = {tool.name: tool for tool in await toolset.tools()}
        others = asyncio.ensure_future(tools["wait"].run({"seconds": 0.2}))
        output = await tools["weather"].run({"city": "half a pair: \ud83d"})
        assert output.error == "failed"
        assert "was not sent, since it is not valid Unicode text: " in text_of(output)
        assert text_of(output).isprintable()
        assert (await others).error is None
        assert (await tools["weather"].run({"city": "Oslo"})).error is None


@each_row("mode", ["cancel-reset", "cancel-hang"])
async def test_a_server_that_takes_no_cancellation_answers_other_calls(mode: str) -> None:
    async with connected(mode) as (server, tools), asyncio.timeout(30):
        others = asyncio.ensure_future(tools["trouble"].run({"text": "x"}))
        call = asyncio.ensure_future(tools["trouble"].run({"text": "x"}))
        await server.until(lambda: server.troubles == 2)
        call.cancel()
        await server.until(lambda: server.count("notifications/cancelled") > 0)
        for number in range(3):
            assert text_of(await tools["echo"].run({"text": f"{number}"})) == f"{number}"
        assert server.session == 1
        assert not others.done()
        others.cancel()
        await asyncio.wait({others, call})


FAILURES = [
    ("reset", "connection lost: ", "server_down"),
    ("length-lie", "answer cut off: ", "server_down"),
    ("sse-drop", "", "server_down"),
    ("500", "answered HTTP 500 Reason: the database[31m is on fire", "server_down"),
    ("401", "answered HTTP 401 Reason: who are you", "server_down"),
    ("403", "answered HTTP 403 Reason: not you", "server_down"),
    ("429-long", "answered HTTP 429 Reason: slow down (retry after 3600 s)", "server_down"),
    ("503-2098", "later (it wants no request before 2098-01-24, which nobody waits for) during", "server_down"),
    (
        "503-aeons",
        "later (it wants no request before the year 10000, which nobody waits for) during",
        "server_down",
    ),
    ("html", "answered with text/html instead of JSON-RPC: <html>Please log in</html>", "server_down"),
    ("empty", "answered with what is no answer instead of JSON-RPC: nothing", "server_down"),
    ("bad-json", "sent an invalid answer", "failed"),
    ("sse-bad-json", "it is not valid JSON (Unterminated string", "failed"),
    ("202", "answered HTTP 202 Reason, which is no answer", "server_down"),
    ("gzip-bomb", "answer is larger than 32 MiB", "server_down"),
    ("redirect-cross", "Redirect to http://127.0.0.2:9/elsewhere not followed", "server_down"),
    ("redirect-loop", "redirects more than 5 times, last to http://127.0.0.1:", "server_down"),
]
MAY_HAVE_RUN = {"reset": True, "length-lie": True, "500": True, "403": False, "429-long": False}


async def test_a_failed_request_is_a_named_error_and_the_next_works(
    subtests: pytest.Subtests, capfd: pytest.CaptureFixture[str]
) -> None:
    bomb()  # making it takes a while, which is no lag of ours
    async with connected("ok") as (server, tools):
        for mode, expected, error in FAILURES:
            with subtests.test(mode):
                server.mode, before = mode, server.troubles
                async with asyncio.timeout(30):
                    output = await tools["trouble"].run({"text": "x"})
                assert expected in text_of(output)
                assert "\x1b" not in text_of(output)
                assert output.error == error
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                assert text_of(await tools["echo"].run({"text": "next"})) == "next"
                assert server.troubles - before == (6 if mode == "redirect-loop" else 1)
                assert mode not in MAY_HAVE_RUN or MAY_HAVE_RUN[mode] == ("may have run" in text_of(output))
        assert server.session == 1
    assert capfd.readouterr() == ("", "")


@each_row(
    "mode, expected, troubles",
    [
        ("429-once", "the second time", 2),
        ("session-lost", "in a new session", 2),
        ("session-invalid", "in a new session", 2),
        ("no-content-type", "untyped", 1),
        ("gzip", "zipped", 1),
    ],
)
async def test_what_can_be_mended_is_mended(mode: str, expected: str, troubles: int) -> None:
    async with connected(mode) as (server, tools):
        output = await tools["trouble"].run({"text": "x"})
        assert (text_of(output), output.error) == (expected, None)
        assert server.troubles == troubles


async def test_a_forgotten_session_is_opened_anew_once() -> None:
    async with connected("session-lost") as (server, tools):
        await tools["trouble"].run({"text": "x"})
        assert server.count("initialize") == 2
        assert text_of(await tools["echo"].run({"text": "next"})) == "next"
        assert server.count("initialize") == 2


async def test_a_session_forgotten_twice_is_an_error() -> None:
    async with connected("session-always-lost") as (server, tools):
        output = await tools["trouble"].run({"text": "x"})
        assert "forgot the session" in text_of(output)
        assert output.error == "server_down"
        assert server.troubles == 2


async def test_a_large_event_is_delivered() -> None:
    async with connected("sse-huge") as (_, tools):
        assert len(text_of(await tools["trouble"].run({"text": "x"}))) == 1_500_000


async def test_a_silent_request_ends_at_its_limit() -> None:
    async with connected("hang", timeout_seconds=0.6) as (_, tools):
        output = await tools["trouble"].run({"text": "x"})
        assert output.error == "timeout"
        assert text_of(await tools["echo"].run({"text": "next"})) == "next"


async def test_a_stream_that_closes_at_once_is_not_hammered() -> None:
    async with connected("get-storm") as (server, tools):

        def opened() -> int:
            return sum(seen.method == "GET" for seen in server.seen)

        await server.until(lambda: opened() >= 4)
        for number in range(20):  # each takes longer than to open a stream
            assert text_of(await tools["echo"].run({"text": f"{number}"})) == f"{number}"
        assert opened() == 4


async def test_an_answer_in_a_resumed_stream_is_judged_as_any_other() -> None:
    """By its ID, its size and its form: the SDK would take any answer there as that of the call."""
    expected: dict[str, tuple[str | None, str]] = {
        "resumed": (None, "fine"),
        "resumed-large": (None, "x" * 4_000_000),
        "resumed-other-id": ("server_down", "sent no answer: its stream answers request 999999, not "),
        "resumed-other-id-first": (None, "fine"),
        "resumed-error-null-id": ("failed", "it broke"),
        "resumed-bad-utf-8": (None, "f\ufffd\ufffdne"),
    }
    assert expected.keys() == RESUMED.keys()
    wrong: dict[str, tuple[str | None, str]] = {}
    for mode, (error, text) in expected.items():
        async with connected(mode) as (server, tools):
            output = await tools["trouble"].run({"text": "x"})
            assert server.troubles == 1
            if output.error != error or text not in text_of(output):
                wrong[mode] = (output.error, text_of(output)[:300])
    assert wrong == {}


@each_row("mode", ["session-evil"])
async def test_an_illegal_session_id_is_refused(mode: str) -> None:
    async with nothing_left(), faulty_http(mode) as server:
        with pytest.raises(ServerError, match="Mcp-Session-Id"):
            await ServerLink(config(server.url, transport="http")).__aenter__()


async def test_a_greeting_that_is_never_answered_is_reported_and_the_server_is_used() -> None:
    async with faulty_http("initialized-hangs") as server:
        link = ServerLink(config(server.url, transport="http", connect_timeout_seconds=1.0))
        async with link as toolset:
            assert [tool.name for tool in await toolset.tools()] == ["echo", "trouble"]
            assert link.status.warnings == ('server "remote": did not answer notifications/initialized within 0.5 s',)


async def test_nobody_at_the_address() -> None:
    async with faulty_http("ok") as server:
        url = server.url
    async with nothing_left():
        with pytest.raises(ServerError, match='server "remote" cannot be reached: ConnectError') as caught:
            await ServerLink(config(url)).__aenter__()
    assert "\n" not in str(caught.value)


async def test_a_server_that_went_away_and_came_back() -> None:
    async with connected("ok") as (server, tools):
        server.mode = "reset"
        assert (await tools["trouble"].run({"text": "x"})).error == "server_down"
        server.mode = "ok"
        assert text_of(await tools["trouble"].run({"text": "back"})) == "back"


async def test_configured_headers_go_with_every_request() -> None:
    async with connected("ok", headers={"Authorization": "Bearer abc"}) as (server, tools):
        await tools["echo"].run({"text": "x"})
    assert server.seen
    assert {seen.headers.get("authorization") for seen in server.seen} == {"Bearer abc"}


async def test_a_configured_secret_is_not_repeated() -> None:
    async with connected("echo-header", headers={"Authorization": "Bearer hunter2-hunter2"}) as (_, tools):
        text = text_of(await tools["trouble"].run({"text": "x"}))
    assert "bad header: Bearer [redacted]" in text
    assert "hunter2" not in text


@each_row("kind", ["http", "sse"])
async def test_a_url_alone_finds_its_transport(kind: Any) -> None:
    async with everyday(kind) as url, nothing_left(task_names="mcp-"), ServerLink(config(url)) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        assert text_of(await tools["add"].run({"a": 2, "b": 3})) == "5"


@each_row(
    "value, expected",
    [
        ("0", 0.0),
        ("120", 120.0),
        ("1.5", 1.5),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("soon", None),
        ("-1", None),
        ("", None),
    ],
)
def test_retry_after(value: str, expected: float | None) -> None:
    assert retry_after_seconds({"retry-after": value}, now=100.0) == expected


@settings(max_examples=50)
@given(st.text(max_size=50))
def test_retry_after_never_raises(value: str) -> None:
    seconds = retry_after_seconds({"retry-after": value}, now=100.0)
    assert seconds is None or seconds >= 0
