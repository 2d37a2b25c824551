"""The proxy matrix: published servers, each definition and call direct and through the gateway, with equal results."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Implementation

from mcp import Client, MCPError
from mcpagent.config import ServerConfig
from tests.gateway.behind import gateway
from tests.gateway.test_client_requests import plain
from tests.mcp.test_server_link_published import (
    NODE,
    OLD_PYTHON,
    PYTHON,
    Published,
    filled,
    node_programs,
    old_python_programs,
    python_programs,
)

__all__ = ["node_programs", "old_python_programs", "python_programs"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CHANGING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+-]+|\b\d+\b|[0-9a-f]{8}-[0-9a-f-]{27}")
"""Times, numbers of processes and random IDs, which differ from call to call."""


async def answer(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    try:
        return plain(await client.call_tool(tool, arguments))
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


async def is_same_through(server: Published, programs: Path, tmp_path: Path) -> None:
    shown: list[Any] = []
    for way in ("direct", "through"):
        folder = tmp_path / way
        folder.mkdir()
        program, *words = server.start
        command, args = str(programs / program), [filled(word, folder) for word in words]
        env = {name: filled(value, folder) for name, value in server.env.items()} | {"PATH": os.environ["PATH"]}
        given = {
            name: filled(value, folder) if isinstance(value, str) else value for name, value in server.arguments.items()
        }
        if way == "direct":
            parameters = StdioServerParameters(command=command, args=args, env=env, cwd=str(folder))
            ours = Implementation(name="mcpagent", version="0.1.0")  # some servers return it
            async with Client(stdio_client(parameters), mode="legacy", client_info=ours) as client:
                listed = [plain(tool) for tool in (await client.list_tools()).tools]
                found = await answer(client, server.tool, given)
        else:
            config = ServerConfig(
                "own", command=command, args=tuple(args), env=env, cwd=str(folder), connect_timeout_seconds=60
            )
            async with gateway(config, mode="all", is_prefixed=False) as scene, scene.client("legacy") as client:
                await scene.gateway._common.settled(60)
                listed = [plain(tool) for tool in (await client.list_tools()).tools]
                found = await answer(client, server.tool, given)
        for tool in listed:
            tool.pop("execution", None)  # the gateway waits for tasks itself
        text = CHANGING.sub("N", repr(found).replace(str(folder), "FOLDER"))
        by_name = sorted(listed, key=lambda tool: str(tool["name"]))
        # The order of an object's keys means nothing in JSON.
        tools = json.dumps(by_name, sort_keys=True).replace(str(folder), "FOLDER")
        shown.append((tools, text))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("server", PYTHON, ids=lambda server: server.package.partition("==")[0])
async def test_a_published_python_server(server: Published, python_programs: Path, tmp_path: Path) -> None:
    await is_same_through(server, python_programs, tmp_path)


@pytest.mark.parametrize("server", OLD_PYTHON, ids=lambda server: server.package.partition("==")[0])
async def test_a_published_server_of_the_older_sdk(
    server: Published, old_python_programs: Path, tmp_path: Path
) -> None:
    await is_same_through(server, old_python_programs, tmp_path)


@pytest.mark.parametrize("server", NODE, ids=lambda server: server.package.rpartition("/")[2].partition("@")[0])
async def test_a_published_node_server(server: Published, node_programs: Path, tmp_path: Path) -> None:
    await is_same_through(server, node_programs, tmp_path)
