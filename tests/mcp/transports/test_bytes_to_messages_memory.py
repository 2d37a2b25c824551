"""How much memory a large answer takes, measured in a process that does nothing else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERVER = Path(__file__).resolve().parents[2] / "servers" / "endings.py"
ROOT = SERVER.parents[2]
MEGABYTES = 50

ASKING = """
import asyncio, json, sys
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_link import ServerLink
from tests.memory import peak_megabytes

async def main():
    async with ServerLink(ServerConfig(**json.loads(sys.argv[1]))) as link:
        (tool,) = await link.tools()
        output = await tool.run(json.loads(sys.argv[2]))
        print(json.dumps([len(output.content[0].text), peak_megabytes()]))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="figures of one system")
@pytest.mark.parametrize(("kind", "most"), [("stdio", 200), ("json", 300), ("events", 300)])
async def test_an_answer_of_50_megabytes_is_not_held_many_times(kind: str, most: int, tmp_path: Path) -> None:
    body = '{"jsonrpc":"2.0","id":THIS,"result":{"content":[{"type":"text","text":"FILL"}]}}'
    media = "text/event-stream" if kind == "events" else "application/json"
    call: dict[str, Any] = {"key": "k", "body": body, "fill": MEGABYTES * 10**6}
    if kind == "stdio":
        config = {"name": "b", "command": sys.executable, "args": [str(SERVER), "legacy", str(tmp_path / "log")]}
        length, peak = await asyncio.to_thread(asked, config, call)
    else:
        command = (sys.executable, "-m", "tests.servers.booking", "http")
        server = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        try:
            assert server.stdout is not None
            url = (await asyncio.wait_for(server.stdout.readline(), 60)).decode().strip()
            call |= {"status": 200, "headers": {"Content-Type": media}}
            call["body"] = f"data: {body}\n\n" if kind == "events" else body
            length, peak = await asyncio.to_thread(asked, {"name": "b", "url": url, "transport": "http"}, call)
        finally:
            server.kill()
            await server.wait()
    assert length == MEGABYTES * 10**6
    assert peak < most, f"{peak:.0f} MB"


def asked(config: dict[str, Any], call: dict[str, Any]) -> tuple[int, float]:
    done = subprocess.run(
        [sys.executable, "-c", ASKING, json.dumps(config), json.dumps(call)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    length, peak = json.loads(done.stdout)
    return length, peak
