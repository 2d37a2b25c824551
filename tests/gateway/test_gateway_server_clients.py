"""Clients of other projects, from the package index, at `mcpagent gateway`: search, call, an error, a question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp.test_server_link_published import python_environment
from tests.terminal.process import ROOT, environment

# Three environments with their packages take two minutes to install.
pytestmark = [pytest.mark.slow, pytest.mark.heavy, pytest.mark.timeout(600)]

PACKAGES = ("fastmcp==4.2.3", "openai-agents==0.24.0", "pydantic-ai-slim[mcp]==2.68.0")
CALLS = [
    ("search_tools", {"query": "add two numbers"}),
    ("call_read_tool", {"name": "every__add", "arguments": {"a": 1, "b": 2}}),
    ("call_destructive_tool", {"name": "every__fail", "arguments": {"reason": "x"}}),
    ("call_destructive_tool", {"name": "talk__ask_person"}),
    ("nothing", {}),
]
START = """
import asyncio, json, sys
command, args, env, calls = json.loads(sys.argv[1])
seen = []
async def tried(call):
    for name, arguments in calls:
        try:
            seen.append(str(await call(name, arguments)))
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
async def person(message, response_type, params, context):
    return {"name": "Ada"}
"""
CLIENTS = {
    "fastmcp": """
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
async def main():
    async with Client(StdioTransport(command, args, env=env), elicitation_handler=person) as client:
        seen.append(str([tool.name for tool in await client.list_tools()]))
        await tried(client.call_tool)
""",
    "openai-agents": """
from agents.mcp import MCPServerStdio
async def main():
    params = {"command": command, "args": args, "env": env}
    async with MCPServerStdio(params=params, client_session_timeout_seconds=60) as client:
        seen.append(str([tool.name for tool in await client.list_tools()]))
        await tried(client.call_tool)
""",
    "pydantic-ai": """
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
async def main():
    async with MCPToolset(StdioTransport(command, args, env=env), elicitation_handler=person) as client:
        seen.append(str([tool.name for tool in await client.list_tools()]))
        await tried(client.direct_call_tool)
""",
}
END = "\nasyncio.run(main())\nprint(json.dumps(seen))\n"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_environment(tmp_path_factory, "published-clients", *PACKAGES)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_published_client_searches_and_calls(name: str, programs: Path, tmp_path: Path) -> None:
    servers: dict[str, dict[str, object]] = {
        "every": {"args": ["-m", "tests.servers.everyday", "stdio"]},
        "talk": {"args": ["-m", "tests.servers.talkative", "stdio"], "era": "legacy"},
    }
    for entry in servers.values():
        entry |= {"command": sys.executable, "cwd": str(ROOT)}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    env = {**environment(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    start = [sys.executable, ["-m", "mcpagent", "gateway", "--config", str(config)], env, CALLS]
    done = subprocess.run(
        [str(programs / "python"), "-c", START + CLIENTS[name] + END, json.dumps(start)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    listed, found, added, failed, asked, unknown = json.loads(done.stdout.splitlines()[-1])
    assert listed == "['search_tools', 'call_read_tool', 'call_write_tool', 'call_destructive_tool']"
    assert "every__add" in found
    assert "3" in added
    assert "Error executing tool fail" in failed
    # The client of openai-agents answers no questions.
    assert ("not supported by this client" if name == "openai-agents" else "Ada") in asked
    assert "no tool" in unknown
