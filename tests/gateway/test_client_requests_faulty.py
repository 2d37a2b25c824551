"""A faulty server behind the gateway: the client gets an answer to each call, and keeps the other server."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp import MCPError
from mcpagent.config import ServerConfig
from tests.gateway.behind import gateway, text_of
from tests.servers.everyday import everyday
from tests.servers.leftovers import nothing_left

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVER = Path(__file__).resolve().parents[1] / "servers" / "faulty_server.py"
TABLES = {"AT_START", "LISTS", "RAW_ANSWERS", "RESULTS", "DEEDS", "ASKED"}


def modes_of(path: Path) -> list[str]:
    """The modes of the faulty server: the keys of its tables."""
    found = {"ok"}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in TABLES:
            assert isinstance(node.value, ast.Dict)
            found |= {key.value for key in node.value.keys if isinstance(key, ast.Constant)}  # type: ignore[misc]
    return sorted(found)


MODES = modes_of(SERVER)
AT_ONCE = 6
GROUPS = [MODES[start : start + AT_ONCE] for start in range(0, len(MODES), AT_ONCE)]


async def outcome(call: Any) -> str:
    """What a call came to: its text, or the error that the protocol has for it."""
    try:
        return text_of(await call)
    except MCPError as error:
        return error.error.message


@pytest.mark.parametrize("modes", GROUPS, ids=lambda modes: modes[0])
async def test_a_faulty_server_costs_the_client_nothing_else(modes: list[str], tmp_path: Path) -> None:
    limits: dict[str, Any] = {"connect_timeout_seconds": 6, "timeout_seconds": 3, "total_timeout_seconds": 6}
    faulty = [
        ServerConfig(f"f{number}", command=sys.executable, args=(str(SERVER), mode), shutdown_seconds=1, **limits)
        for number, mode in enumerate(modes)
    ]
    slack: dict[str, Any] = {"most_lag_seconds": 30, "most_process_seconds": 60, "most_wall_seconds": 200}
    async with everyday("http") as url, nothing_left(**slack, task_names="mcp-"):
        servers = [*faulty, ServerConfig("every", url=url)]
        async with gateway(*servers, mode="all") as scene, scene.client("legacy") as client:
            async with asyncio.timeout(200):
                listed = {tool.name for tool in (await client.list_tools()).tools}
                assert "every__add" in listed
                calls = [
                    outcome(client.call_tool(f"f{number}__{tool}", {"text": "hi"}))
                    for number in range(len(modes))
                    for tool in ("trouble", "echo")
                    if f"f{number}__{tool}" in listed
                ]
                answers = await asyncio.gather(*calls)
                assert len(answers) == len(calls)
                assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
                await client.list_tools()
