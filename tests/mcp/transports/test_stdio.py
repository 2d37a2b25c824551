"""A local server that goes wrong costs one call, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.history.intake.admission_of_content import judged
from mcpagent.mcp.lists.listing import MAX_TOOLS
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.transports.stdio import StdioTransport
from mcpagent.values.events import Event, ServerConnected, ServerConnecting, ServerFailed
from mcpagent.values.messages import Text
from mcpagent.values.tools import Tool, ToolOutput
from tests.loop_holds import Turns, counted_turns
from tests.mcp.at_once import at_once
from tests.servers.leftovers import nothing_left, processes
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[2] / "servers" / "faulty_server.py"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def config(mode: str, log: Path, *arguments: str, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 40.0, "timeout_seconds": 40.0, "total_timeout_seconds": 50.0}
    return ServerConfig(
        name="faulty",
        command=sys.executable,
        args=(str(SERVER), mode, "--log", str(log), *arguments),
        **(limits | settings),
    )


class Connected:
    def __init__(self, toolset: ServerLink, tools: dict[str, Tool]) -> None:
        self.toolset = toolset
        self.tools = tools

    async def call(self, name: str, **arguments: Any) -> ToolOutput:
        return await self.tools[name].run(arguments)

    async def trouble(self) -> tuple[ToolOutput, float]:
        """What `trouble` gives, and the seconds it took; it has to end before the limits of `config`."""
        started = time.monotonic()
        async with asyncio.timeout(30):
            output = await self.call("trouble", text="x")
        return output, time.monotonic() - started


@asynccontextmanager
async def linked(mode: str, log: Path, *arguments: str, **settings: Any) -> AsyncIterator[Connected]:
    async with ServerLink(config(mode, log, *arguments, **settings)) as toolset:
        yield Connected(toolset, {tool.name: tool for tool in await toolset.tools()})


@asynccontextmanager
async def connected(mode: str, log: Path, *arguments: str, **settings: Any) -> AsyncIterator[Connected]:
    async with nothing_left(str(log)), linked(mode, log, *arguments, **settings) as server:
        yield server


def text_of(output: ToolOutput) -> str:
    content = judged(output.content, accepts=frozenset({"image"})).content
    return "\n".join(part.text if isinstance(part, Text) else "[image]" for part in content)


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def count(log: Path, line: str) -> int:
    return lines(log).count(line)


async def logged(log: Path, line: str) -> None:
    """Waits until the server has written a line to its log."""
    async with asyncio.timeout(30):
        while line not in lines(log):  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.01)


async def failure(mode: str, log: Path, **settings: Any) -> tuple[ServerError, float]:
    """The error of connecting, and the seconds it took to come: less than the limits of `config`."""
    started = time.monotonic()
    with pytest.raises(ServerError) as caught:
        async with asyncio.timeout(30), ServerLink(config(mode, log, **settings)):
            pass
    return caught.value, time.monotonic() - started


# --- start ---


FAILING_STARTS = [
    ("exit-at-start", "exited with code 3 during initialize: KeyError: GITHUB_TOKEN is required", 3, 1),
    ("exit0-at-start", "exited with code 0 during initialize", 0, 1),
    ("stderr-ansi", "cannot start", 4, 1),
    ("die-on-init", "exited with code 7 during initialize: fatal: no database", 7, None),
    ("init-error", "refused initialize: the license expired", None, None),
    ("init-bad-version", "Unsupported protocol version from the server: 1999-01-01", None, None),
    ("list-error", "failed tools/list: the backend is down", None, None),
    ("list-not-a-list", "sent an invalid answer to tools/list", None, None),
]
"""The mode, the reason, the exit code, and how often a server is started that dies before it reads the era probe: only
Linux tells that it did not."""


async def test_a_server_that_fails_at_start_is_named_with_its_cause(tmp_path: Path) -> None:
    async def failed(mode: str, expected: str, exit_code: int | None, lives: int | None) -> None:
        error, _ = await failure(mode, tmp_path / mode)
        assert str(error).startswith('server "faulty" ')
        assert expected in str(error)
        assert str(error).isprintable()
        assert error.exit_code == exit_code
        assert lives is None or sys.platform != "linux" or count(tmp_path / mode, "life") == lives

    async with nothing_left(str(tmp_path)):
        await at_once(failed, FAILING_STARTS)


async def test_a_declared_secret_is_not_repeated(log: Path) -> None:
    events: list[Event] = []
    server = config("tell-secrets", log, env={"API_TOKEN": "hunter2-hunter2", "PROJECT": "plain-project"})
    toolset = ServerLink(server, emit=events.append)
    with pytest.raises(ServerError) as caught:
        await toolset.__aenter__()
    assert "cannot sign in with [redacted]" in str(caught.value)
    assert "hunter2" not in str([str(caught.value), caught.value.stderr_tail, events, toolset.status, repr(server)])


async def test_a_server_that_never_answers_ends_at_the_connect_limit(tmp_path: Path) -> None:
    async def failed(mode: str) -> None:
        error, seconds = await failure(mode, tmp_path / mode, connect_timeout_seconds=1.0)
        assert " 1 s" in str(error)
        assert seconds > 0.9

    async with nothing_left(str(tmp_path)):
        await at_once(failed, ["hang-at-start", "hang-init", "hang-list"])


@each_row(
    "settings, expected",
    [
        ({"command": "pythonn3"}, '"pythonn3" is not on PATH'),
        ({"command": "/does/not/exist"}, '"/does/not/exist" does not exist'),
        ({"command": "/"}, '"/" is a directory'),
        ({"command": str(SERVER.with_name("catalog_server.py"))}, "is not executable"),
        ({"cwd": "/does/not/exist"}, 'the folder "/does/not/exist" does not exist; fix "cwd"'),
        ({"args": ("a\0b",)}, "null byte"),
    ],
)
async def test_a_command_that_cannot_run_says_why(settings: dict[str, Any], expected: str) -> None:
    async with nothing_left():
        toolset = ServerLink(ServerConfig(**({"name": "git", "command": sys.executable} | settings)))
        with pytest.raises(ServerError) as caught:
            await toolset.__aenter__()
    assert str(caught.value).startswith('server "git" could not start: ')
    assert expected in str(caught.value)
    assert caught.value.phase == "start"
    assert toolset.status.state == "failed"
    assert toolset.status.reason == str(caught.value)


async def test_a_command_with_a_typo_gets_the_near_name(tmp_path: Path) -> None:
    program = tmp_path / "npx"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    server = ServerConfig(name="git", command="npxx", env={"PATH": str(tmp_path)})
    with pytest.raises(ServerError, match='"npxx" is not on PATH; did you mean "npx"'):
        await ServerLink(server).__aenter__()


async def test_an_odd_start_still_connects(tmp_path: Path) -> None:
    async def works(mode: str) -> None:
        async with linked(mode, tmp_path / mode) as server:
            assert list(server.tools) == ["echo", "trouble"]
            assert text_of(await server.call("echo", text="hello")) == "hello"

    async with nothing_left(str(tmp_path)):
        await at_once(works, ["slow-start", "init-banner", "init-bom", "init-missing-fields", "fatal-discover"])


async def test_text_before_the_protocol_is_quoted_once_and_harmless(log: Path) -> None:
    async with connected("init-banner", log) as server:
        (warning,) = server.toolset.status.warnings
    assert "writes to stdout what is not MCP, first: Welcome to" in warning
    assert warning.isprintable()


async def test_a_server_that_dies_of_the_probe_is_started_again_without_it(log: Path) -> None:
    async with connected("fatal-discover", log) as server:
        assert server.toolset.status.protocol_version == "2025-11-25"
    assert count(log, "life") == 2


async def test_a_server_that_ignores_the_probe_is_greeted_after_two_seconds(log: Path) -> None:
    async with asyncio.timeout(30), connected("silent-discover", log) as server:
        assert text_of(await server.call("echo", text="hello")) == "hello"
    assert count(log, "life") == 1


async def test_a_server_without_tools_has_none(log: Path) -> None:
    async with connected("no-tools-capability", log) as server:
        assert server.tools == {}
        assert server.toolset.status.state == "ready"


async def test_connecting_is_told_as_it_happens(log: Path) -> None:
    events: list[Event] = []
    async with ServerLink(config("ok", log), emit=events.append) as toolset:
        assert toolset.status.tool_count == 2
        assert toolset.status.title == "faulty"
    assert toolset.status.state == "closed"
    assert events[0] == ServerConnecting("faulty")
    assert isinstance(events[1], ServerConnected)
    assert events[1].tools == 2


async def test_failing_to_connect_is_told(log: Path) -> None:
    events: list[Event] = []
    with pytest.raises(ServerError):
        await ServerLink(config("exit-at-start", log), emit=events.append).__aenter__()
    assert isinstance(events[-1], ServerFailed)
    assert "GITHUB_TOKEN" in events[-1].reason


# --- lists ---


async def test_one_malformed_tool_costs_only_itself(log: Path) -> None:
    async with connected("list-one-bad", log) as server:
        assert list(server.tools) == ["echo", "trouble", "odd_title"]
        warnings = "\n".join(server.toolset.status.warnings)
        assert text_of(await server.call("odd_title", text="x")) == "unknown tool odd_title"
    assert 'tool "no_schema" dropped: ' in warnings
    assert 'tool "string_schema" dropped: ' in warnings
    assert "tool number 3 dropped: " in warnings
    assert "tool number 5 dropped: it is not an object" in warnings
    assert 'tool "odd_title" used without its malformed title, annotations' in warnings


async def test_endless_pages_stop(tmp_path: Path) -> None:
    async def stop(mode: str, tools: int, lists: int) -> None:
        async with linked(mode, tmp_path / mode) as server:
            assert len(server.tools) == tools
            assert any("does not end" in warning for warning in server.toolset.status.warnings)
        assert count(tmp_path / mode, "list") == lists

    async with nothing_left(str(tmp_path)):
        await at_once(stop, [("list-endless-cursor", 2, 2), ("list-fresh-cursor", 101, 100)])


async def test_a_second_page_that_fails_leaves_the_first(tmp_path: Path) -> None:
    async def list_tools(mode: str, why: str) -> None:
        async with linked(mode, tmp_path / mode, connect_timeout_seconds=4.0) as server:
            assert list(server.tools) == ["echo", "trouble"]
            (warning,) = server.toolset.status.warnings
            assert "its tool list could not be read to its end (" in warning, warning
            assert why in warning
            assert warning.endswith("; the first 2 tools are used")

    async with nothing_left(str(tmp_path)):
        wrong = [
            ("list-second-error", "the backend is down"),
            ("list-second-hangs", "did not finish tools/list within 2 s"),
            ("list-second-odd", ""),
        ]
        await at_once(list_tools, wrong)


@pytest.mark.slow
async def test_no_more_tools_than_the_limit(log: Path) -> None:
    async with connected("list-huge", log) as server:
        assert len(server.tools) == MAX_TOOLS


async def test_a_name_listed_twice_is_one_tool(log: Path) -> None:
    async with connected("list-dup-names", log) as server:
        assert list(server.tools) == ["echo", "trouble"]
        assert server.tools["echo"].definition.description == "Give the text back"
        assert 'lists the tool "echo" twice' in server.toolset.status.warnings[0]


async def test_t8_a_remote_reference_in_a_schema_is_never_fetched(log: Path) -> None:
    visits: list[object] = []
    listener = await asyncio.start_server(lambda *streams: visits.append(streams), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener, connected("list-remote-ref", log, "--port", str(port)) as server:
        assert server.tools["remote"].definition.parameters["properties"]["a"] == {
            "$ref": f"http://127.0.0.1:{port}/schema"
        }
        await server.call("remote", text="x")
    assert visits == []


# --- one call ---


ODD_ANSWERS = [
    ("deep-json", "[" * 99_999 + "]" * 99_999),
    ("no-version", "unversioned"),
    ("batch", "batched"),
    ("lone-surrogate", "a\ufffdb"),
    ("invalid-utf8", "a\ufffd\ufffdb"),
    ("nul-bytes", "a\N{REPLACEMENT CHARACTER}b"),
    ("string-id", "ok"),
    ("garbage-then-answer", "answered"),
    ("crlf", "crlf"),
    ("pretty-json", "pretty"),
    ("wrong-id", "mine"),
    ("dup-answer", "first"),
    ("content-string", "just text"),
    ("content-missing", ""),
    ("content-unknown-type", '{"type": "hologram", "depth": 3}\nbeside it'),
    ("bad-base64-image", "[image: image/png, 2 bytes; its data is not valid Base64]\nbeside it"),
    ("image-without-data", '{"type": "image"}\nbeside it'),
    ("structured-mismatch", "plain"),
    ("structured-only", '{"n": 1}'),
    ("huge-int", '{"n": "' + "9" * 9000 + '"}'),
    ("flood-stderr", "no trouble"),
    ("flood-notifications", "no trouble"),
    ("flood-requests", "no trouble"),
    ("list-changed-storm", "no trouble"),
    ("slow-call", "no trouble"),
]


@pytest.mark.slow
async def test_odd_answers_are_delivered(
    log: Path, capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    async with connected("any", log) as server:
        for mode, expected in ODD_ANSWERS:
            with subtests.test(mode):
                output = await server.call("trouble", text=mode)
                assert text_of(output) == expected
                assert output.error is None
                assert text_of(await server.call("echo", text="next")) == "next"
    assert count(log, "life") == 1
    assert capfd.readouterr() == ("", "")


async def test_a_result_that_does_not_fit_its_schema_is_delivered(log: Path) -> None:
    async with connected("structured-mismatch", log) as server:
        output, _ = await server.trouble()
        assert (text_of(output), output.error) == ("plain", None)


NO_ANSWERS = [
    ("truncated-json", "it is not valid JSON"),
    ("not-jsonrpc", 'it has no "result"'),
    ("no-result", 'it has no "result"'),
    ("result-null", 'its "result" is null, not an object'),
    ("result-array", 'its "result" is a list, not an object'),
    ("big-output", 'it is 5 MiB long, the limit is 4 MiB; raise "max_message_bytes" if it needs more'),
]


async def test_an_answer_that_is_none_ends_its_call_at_once(log: Path, subtests: pytest.Subtests) -> None:
    async with connected("any", log, "--size", str(5 * 2**20), max_message_bytes=4 * 2**20) as server:
        for mode, expected in NO_ANSWERS:
            with subtests.test(mode):
                async with asyncio.timeout(30):
                    output = await server.call("trouble", text=mode)
                assert text_of(output).startswith('server "faulty" sent an invalid answer to tools/call "trouble": ')
                assert expected in text_of(output)
                assert output.error == "failed"
                assert text_of(await server.call("echo", text="next")) == "next"
    assert count(log, "life") == 1


async def test_an_error_of_the_tool_is_its_text(tmp_path: Path) -> None:
    async with connected("any", tmp_path / "log") as server:
        for mode, expected in [
            ("tool-error", "no such file"),
            ("error-string-code", "no such table"),
            ("null-id-error", "cannot parse that"),
        ]:
            output = await server.call("trouble", text=mode)
            assert (text_of(output), output.error) == (expected, "failed")


DEATHS = [
    ("kill-on-call", "was ended by signal 9 (SIGKILL) during"),
    ("segv-on-call", "was ended by signal 11 (SIGSEGV) during"),
    ("exit-on-call", "exited with code 9 during"),
    ("kill-mid-line", "was ended by signal 9 (SIGKILL) during"),
    ("close-stdout", "closed the connection during"),
    ("crash-once", "exited with code 1 during"),
]


async def test_a_server_that_dies_in_a_call_is_replaced_and_the_call_not_repeated(tmp_path: Path) -> None:
    async def replaced(mode: str, expected: str) -> None:
        log = tmp_path / mode
        async with linked(mode, log) as server:
            output, _ = await server.trouble()
            assert f'{expected} tools/call "trouble"' in text_of(output)
            assert "may have run" in text_of(output)
            assert mode != "exit-on-call" or "panic: out of cheese" in text_of(output)  # its last words
            assert output.error == "server_down"
            assert count(log, "call trouble") == 1
            assert text_of(await server.call("echo", text="next")) == "next"
        assert count(log, "life") == 2

    async with nothing_left(str(tmp_path)):
        await at_once(replaced, DEATHS)


async def test_twenty_calls_on_a_dying_server_all_end_and_one_new_process_comes(log: Path) -> None:
    async with connected("crash-once", log) as server:
        outputs = await asyncio.gather(*(server.call("trouble", text="x") for _ in range(20)))
        assert all(output.error in (None, "server_down") for output in outputs)
        assert text_of(await server.call("echo", text="next")) == "next"
    assert count(log, "life") == 2


async def test_a_silent_call_ends_at_the_idle_limit_and_tells_the_server(log: Path) -> None:
    async with connected("hang-on-call", log, timeout_seconds=0.8) as server:
        output, seconds = await server.trouble()
        assert "was silent for 0.8 s" in text_of(output)
        assert output.error == "timeout"
        assert seconds > 0.4
        assert text_of(await server.call("echo", text="next")) == "next"
    assert count(log, "cancelled") == 1
    assert count(log, "life") == 1


async def test_progress_keeps_a_call_alive(log: Path) -> None:
    async with connected("progress-then-answer", log, timeout_seconds=0.8) as server:
        output, seconds = await server.trouble()
    assert text_of(output) == "no trouble"
    assert seconds > 0.8


@pytest.mark.slow
async def test_progress_does_not_keep_a_call_alive_for_ever(log: Path) -> None:
    async with connected("progress-forever", log, timeout_seconds=0.3, total_timeout_seconds=0.6) as server:
        output, seconds = await server.trouble()
    assert "did not finish" in text_of(output)
    assert output.error == "timeout"
    assert seconds > 0.5


async def test_a_frozen_server_is_replaced(tmp_path: Path) -> None:
    async def replaced(mode: str) -> None:
        async with linked(mode, tmp_path / mode, timeout_seconds=0.8) as server:
            output, _ = await server.trouble()
            assert output.error == "timeout"
            assert text_of(await server.call("echo", text="next")) == "next"
        assert count(tmp_path / mode, "life") == 2

    async with nothing_left(str(tmp_path)):
        await at_once(replaced, ["freeze-on-call", "stop-on-call"])


async def test_half_a_line_does_not_swallow_the_next_answer(log: Path) -> None:
    async with connected("half-line", log, timeout_seconds=0.8) as server:
        output, _ = await server.trouble()
        assert output.error == "timeout"
        assert text_of(await server.call("echo", text="next")) == "next"


async def test_a_cancelled_call_returns_at_once_and_tells_the_server(log: Path) -> None:
    async with connected("hang-on-call", log) as server:
        call = asyncio.create_task(server.call("trouble", text="x"))
        await logged(log, "call trouble")
        call.cancel()
        await asyncio.wait({call}, timeout=20)
        assert call.cancelled()
        assert text_of(await server.call("echo", text="next")) == "next"
    assert count(log, "cancelled") == 1


async def test_calls_run_at_the_same_time_and_answers_find_their_callers(log: Path) -> None:
    async with connected("any-order", log) as server:
        outputs = await asyncio.gather(*(server.call("echo", text=str(number)) for number in range(200)))
    assert [text_of(output) for output in outputs] == [str(number) for number in range(200)]


async def test_what_a_server_asks_of_us_is_refused_at_once(log: Path) -> None:
    modes = ["ask-sampling", "ask-elicit", "ask-roots", "ask-unknown"]
    async with connected("any", log) as server:
        for number, mode in enumerate(modes, 1):
            assert text_of(await server.call("trouble", text=mode)) == "no trouble"
            assert count(log, "answered -32601") == number


async def test_a_large_answer_does_not_hold_the_loop(log: Path) -> None:
    async with connected("big-output", log, "--size", str(4 * 1024 * 1024)) as server:
        output, _ = await server.trouble()
        assert len(text_of(output)) == 4 * 1024 * 1024


# --- environment and end ---


async def test_a_server_sees_the_allowed_and_declared_environment_only(log: Path) -> None:
    secrets = {f"SECRET_{number}": f"secret-{number}" for number in range(40)}
    environ = {**secrets, "PATH": os.environ["PATH"], "HOME": "/home/me", "MCP_API_KEY": "planted"}
    server = config("env-dump", log, env={"DECLARED": "yes"})
    async with ServerLink(server, environ=environ) as toolset:
        output = await {tool.name: tool for tool in await toolset.tools()}["trouble"].run({})
    seen = json.loads(text_of(output))
    assert seen["DECLARED"] == "yes"
    assert seen["HOME"] == "/home/me"
    assert not seen.keys() & (secrets.keys() | {"MCP_API_KEY"})


async def test_closing_leaves_nothing(tmp_path: Path) -> None:
    async def closed(mode: str) -> None:
        log = tmp_path / mode
        toolset = await ServerLink(config(mode, log, shutdown_seconds=1.0)).__aenter__()
        if mode in ("grandchild", "daemon-child"):
            sleeping = [text for text in processes(str(log)).values() if "time.sleep(600)" in text]
            # The daemon has its log in its command.
            mine = [text for text in sleeping if (f"# {tmp_path}" in text) == (mode == "daemon-child")]
            assert len(mine) == 1
        async with asyncio.timeout(20):
            await toolset.__aexit__(None, None, None)

    async with nothing_left(str(tmp_path)):
        await at_once(closed, ["ok", "ignore-eof", "flood-at-exit", "grandchild", "daemon-child"])


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc to see what is left")
async def test_what_a_server_started_stays_if_it_may_and_the_server_exits_by_itself(tmp_path: Path) -> None:
    """A daemon of its own session; of one that ignores the end of its input nothing stays."""

    async def left(mode: str, *, keeps_running: bool) -> bool:
        log = tmp_path / f"{mode}-{keeps_running}"
        server = config(mode, log, shutdown_seconds=1.0, keeps_running=keeps_running)
        async with ServerLink(server):
            pass
        daemons = [pid for pid, text in processes(str(log)).items() if f"# {log}" in text]
        for pid in daemons:
            os.kill(pid, signal.SIGKILL)
        return daemons != []

    async with nothing_left(str(tmp_path)):
        kept = await asyncio.gather(
            left("daemon-child", keeps_running=True),
            left("daemon-child", keeps_running=False),
            left("stubborn-daemon-child", keeps_running=True),
        )
    assert list(kept) == [True, False, False]


async def test_closing_while_a_call_runs_ends_the_call(log: Path) -> None:
    async with nothing_left(str(log)):
        toolset = await ServerLink(config("hang-on-call", log)).__aenter__()
        tools = {tool.name: tool for tool in await toolset.tools()}
        call = asyncio.ensure_future(tools["trouble"].run({}))
        await logged(log, "call trouble")
        await toolset.__aexit__(None, None, None)
        output = await call
        assert output.error == "server_down"
        after = await tools["echo"].run({"text": "x"})
        assert (after.error, text_of(after)) == ("server_down", 'server "faulty" is closed')


async def test_cancelling_a_connect_leaves_nothing(log: Path) -> None:
    async with nothing_left(str(log)):
        task = asyncio.create_task(ServerLink(config("hang-init", log)).__aenter__())
        await logged(log, "life")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@each_row("steps", range(4, 10))
async def test_cancelling_while_the_process_starts_leaves_nothing_that_it_started(tmp_path: Path, steps: int) -> None:
    log = tmp_path / "log"
    log.touch()
    started = log.with_name("started")
    script = f"tail -f '{log}' & echo > '{started}'; wait"
    transport = StdioTransport(ServerConfig("shell", command="/bin/sh", args=("-c", script)), print, os.environ)
    async with nothing_left(str(log)):
        task = asyncio.create_task(transport.__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        end = time.monotonic() + 30
        while not started.exists() and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251 - the loop has to stand still
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_entered_in_one_task_and_left_in_another(log: Path) -> None:
    async with nothing_left(str(log)):
        toolset = await asyncio.create_task(ServerLink(config("ok", log)).__aenter__())
        tools = {tool.name: tool for tool in await toolset.tools()}
        assert text_of(await tools["echo"].run({"text": "here"})) == "here"
        await asyncio.create_task(toolset.__aexit__(None, None, None))


async def test_a_program_that_is_none_says_so(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)
    with pytest.raises(ServerError, match="Exec format error"):
        await ServerLink(ServerConfig(name="git", command=str(program))).__aenter__()


async def test_servers_have_no_thread_each(log: Path) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(linked("good", log))
        with_one = threading.active_count()
        for _ in range(4):
            await stack.enter_async_context(linked("good", log))
        assert threading.active_count() <= with_one + 1  # a pool of worker threads may grow


@pytest.mark.skipif(sys.platform == "win32", reason="needs cat")
async def test_lines_leave_the_loop_between_them_by_their_number_and_their_size(tmp_path: Path) -> None:
    """What is no message counts too. Each line of the three kinds takes as long as one of 2,000 bytes at most."""
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": ""}}
    long = note | {"params": {"level": "info", "data": "x" * 50_000}}
    lines = [json.dumps(line) for line in (note, {"of": "others"}, long) for _ in range(400)]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n")
    count, size = Turns(), Turns()
    others: list[str] = []

    def on_junk(text: str) -> None:
        others.append(text)
        count.add()

    server = ServerConfig(name="lines", command="cat", args=(str(tmp_path / "lines"),))
    received = 0
    async with StdioTransport(server, on_junk, os.environ) as (messages, _), counted_turns(count, size):
        async for item in messages:
            assert not isinstance(item, Exception)
            received += 1
            count.add()
            size.add(len(item.message.model_dump_json()))
    assert (received, len(others)) == (800, 400)
    assert 1 < count.most <= 50
    assert 50_000 < size.most <= 50 * 2_000 + 51_000
