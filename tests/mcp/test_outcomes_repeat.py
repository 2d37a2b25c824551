"""A call is sent twice only where it cannot have run, or where running twice was said to do no harm."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.messages import Text
from tests.servers.faulty_http import faulty_http
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"


async def called(mode: str, log: Path, cache: ListCache | None = None, **settings: Any) -> tuple[str | None, str, int]:
    """The error and text of one call, and how often the server got it."""
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), mode, "--log", str(log)), **settings)
    async with nothing_left(), ServerLink(config, cache=cache) as toolset:
        (trouble,) = [tool for tool in await toolset.tools() if tool.name == "trouble"]
        output = await trouble.run({"text": "x"})
    (part,) = output.content
    assert isinstance(part, Text)
    return output.error, part.text, log.read_text().splitlines().count("call trouble")


@each_row("globs", [("trouble",), ("tr*",), ("*",)])
async def test_a_tool_marked_safe_is_called_once_more_when_its_server_dies(
    globs: tuple[str, ...], tmp_path: Path
) -> None:
    assert await called("crash-once", tmp_path / "log", safe_to_repeat=globs) == (None, "no trouble", 2)


async def test_and_no_more_than_once_more(tmp_path: Path) -> None:
    error, text, times = await called("kill-on-call", tmp_path / "log", safe_to_repeat=("*",))
    assert (error, times) == ("server_down", 2)
    assert "may have run" in text


@each_row("settings", [{}, {"safe_to_repeat": ("echo",)}, {"trust_hints": True}])
async def test_any_other_tool_is_not_and_the_model_is_told(settings: dict[str, Any], tmp_path: Path) -> None:
    error, text, times = await called("crash-once", tmp_path / "log", **settings)
    assert (error, times) == ("server_down", 1)
    assert text.endswith("; the call may have run: check before you repeat it")


@each_row("is_trusted, times", [(True, 2), (False, 1)])
@each_row("is_cached", [True, False])
async def test_the_word_of_a_server_counts_where_it_is_trusted(
    is_trusted: bool, times: int, is_cached: bool, tmp_path: Path
) -> None:
    log, cache = tmp_path / "log", ListCache(tmp_path / "cache") if is_cached else None
    settings: dict[str, Any] = {"trust_hints": is_trusted}
    if cache is not None:
        config = ServerConfig(
            "s", command=sys.executable, args=(str(SERVER), "crash-once-hinted", "--log", str(log)), **settings
        )
        async with ServerLink(config, cache=cache):
            pass
        log.unlink()
    _, _, found = await called("crash-once-hinted", log, cache, **settings)
    assert found == times


async def test_over_http_a_lost_answer_is_asked_for_again_where_that_is_safe() -> None:
    async with nothing_left(), faulty_http("reset-once") as server:
        config = ServerConfig("s", url=server.url, safe_to_repeat=("trouble",))
        async with ServerLink(config) as toolset:
            (trouble,) = [tool for tool in await toolset.tools() if tool.name == "trouble"]
            assert (await trouble.run({"text": "x"})).error is None
            assert server.troubles == 2


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is left unread in a pipe")


@linux_only
@each_row("turns", [0, 1, 5, 50, 500])
async def test_a_call_that_a_dead_server_never_got_is_sent_to_the_next(turns: int, tmp_path: Path) -> None:
    """`turns`: of the event loop between the answer after which the server ends, and the next call."""
    log = tmp_path / "log"
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), "exit-after-answer", "--log", str(log)))
    async with nothing_left(), ServerLink(config) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        assert (await tools["trouble"].run({"text": "x"})).error is None
        for _ in range(turns):
            await asyncio.sleep(0)
        outputs = await asyncio.gather(*(tools["echo"].run({"text": f"next {number}"}) for number in range(3)))
    assert [output.content for output in outputs] == [(Text(f"next {number}"),) for number in range(3)]
    lines = log.read_text().splitlines()
    assert (lines.count("life"), lines.count("call echo")) == (2, 3)


@linux_only
@each_row("mode", ["read-and-die", "read-half-and-die"])
async def test_a_call_that_it_may_have_read_is_not(mode: str, tmp_path: Path) -> None:
    """Another call is in the pipe behind it: what a process read is gone with it, what it left is not."""
    log = tmp_path / "log"
    config = ServerConfig("s", command=sys.executable, args=(str(SERVER), mode, "--log", str(log)))
    async with nothing_left(), ServerLink(config) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        first, second = await asyncio.gather(
            tools["trouble"].run({"text": "x" * 100_000}), tools["echo"].run({"text": "behind it"})
        )
    lines = log.read_text().splitlines()
    if mode == "read-and-die":
        assert "may have run" in str(first.content)
        assert lines.count("call trouble") == 1
    else:  # no server can run a call whose end it has not seen
        assert first.error is None
        assert lines.count("call trouble") == 1
    assert second.content == (Text("behind it"),)
