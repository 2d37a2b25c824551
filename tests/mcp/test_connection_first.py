"""The first connection of a process: what has to be loaded for it is loaded in a thread, so the event loop goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "servers" / "faulty_server.py"

pytestmark = pytest.mark.slow

START = """
import asyncio, importlib.abc, json, sys, threading
from pathlib import Path

HEAVY = {"mcp", "mcp_types", "httpx2", "pydantic", "opentelemetry"}
on_loop = []

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in HEAVY and threading.current_thread() is threading.main_thread():
            on_loop.append(name)

sys.meta_path.insert(0, Watch())
SERVER, LOG, FOLDER = sys.argv[1:]

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.lists.list_cache import ListCache

config = ServerConfig(name="first", command=sys.executable, args=(SERVER, "ok", "--log", LOG))

async def connect():
    async with ServerLink(config, cache=ListCache(Path(FOLDER))) as link:
        tools = {tool.name: tool for tool in await link.tools()}
        output = await tools["echo"].run({"text": "here"})
        return [link.status.state, "mcp_types" in sys.modules, output.content[0].text, on_loop]

async def close_meanwhile():
    link = ServerLink(config)
    entering = asyncio.create_task(link.__aenter__())
    while link.status.state != "connecting":
        await asyncio.sleep(0)
    await link.__aexit__(None, None, None)
    try:
        await entering
    except ServerError as error:
        return [link.status.state, str(error)]
"""


def run(tmp_path: Path, what: str) -> Any:
    code = f"{START}\nprint(json.dumps(asyncio.run({what}())))"
    command = [sys.executable, "-c", code, str(SERVER), str(tmp_path / "log"), str(tmp_path / "cache")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def lives(tmp_path: Path) -> int:
    log = tmp_path / "log"
    return log.read_text().splitlines().count("life") if log.exists() else 0


def test_nothing_heavy_is_loaded_on_the_event_loop_by_a_connect_or_by_the_first_call_of_a_known_server(
    tmp_path: Path,
) -> None:
    assert run(tmp_path, "connect") == ["ready", True, "here", []]
    assert run(tmp_path, "connect") == ["ready", True, "here", []]  # from the cache: its first call connects
    assert lives(tmp_path) == 2


def test_a_link_that_is_closed_while_its_packages_load_starts_no_server(tmp_path: Path) -> None:
    state, error = run(tmp_path, "close_meanwhile")
    assert state == "closed"
    assert error == 'server "first" was closed while it connected'
    assert lives(tmp_path) == 0
