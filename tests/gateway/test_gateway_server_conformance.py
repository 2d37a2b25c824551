"""The server scenarios of the MCP project's conformance suites, against a gateway with three servers behind it.

`.ci/conformance` installs the suites, as in tests/mcp/test_conformance.py. Skipped without.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.config.server_config import Era
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.http_gateway import HttpAccess, OwnRequests, http_server
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import ignore
from tests.gateway.behind import folders
from tests.mcp.test_conformance import NODE, SUITES, run_suite
from tests.servers import conformance_parts
from tests.servers.everyday import serving

PARTS: list[tuple[Any, Era]] = [
    (conformance_parts.tools, "auto"),
    (conformance_parts.questions, "legacy"),
    (conformance_parts.the_rest, "legacy"),
    (conformance_parts.rounds, "auto"),
]

SCENARIOS = {("0.1.16", "2025-11-25"): 32, ("0.2.0-alpha.12", "2025-11-25"): 33, ("0.2.0-alpha.12", "2026-07-28"): 40}
"""(version of the suite, revision) -> scenarios of servers."""

KNOWN_FAILURES: dict[tuple[str, str], dict[str, str]] = {}
"""(version of the suite, revision) -> the scenarios that do not pass, and why."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.conformance,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
    pytest.mark.skipif(
        not SUITES or not NODE, reason='no suite is installed; eval "$(.ci/conformance FOLDER)" does it'
    ),
]


@contextlib.asynccontextmanager
async def open_gateway(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a gateway without tokens, which the suites cannot send; all else is the gateway's own."""
    async with contextlib.AsyncExitStack() as stack:
        servers = []
        for build, era in PARTS:
            app = build().streamable_http_app()
            address = await stack.enter_async_context(serving(lambda _, app=app: app))  # type: ignore[misc]
            servers.append(ServerConfig(build.__name__, url=f"{address}/mcp", era=era))
        options = GatewayOptions(mode="all", is_prefixed=False)
        stored = ServerOptions.stored(folders(tmp_path))
        served = http_server(ServersConfig(tuple(servers)), stored, options, emit=ignore)
        served._principal_of = lambda _: ""
        manager = StreamableHTTPSessionManager(served.server)

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with served.gateway, manager.run():
                yield

        def app_at(address: str) -> Starlette:
            port = address.rpartition(":")[2]
            origins = (address, f"http://localhost:{port}")
            own = Middleware(OwnRequests, access=HttpAccess(token="unused", origins=origins))
            routes = [Route("/mcp", endpoint=manager.asgi_app)]
            return Starlette(routes=routes, middleware=[own], lifespan=lifespan)

        address = await stack.enter_async_context(serving(app_at))
        await served.gateway._common.settled()
        yield f"{address}/mcp"


async def scenarios_at(url: str, entry: str, words: list[str], folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(NODE, entry, "server", "--url", url, *words, "-o", str(folder)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(200):
            output, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return output.decode()


@pytest.mark.parametrize(("version", "revision"), SCENARIOS)
async def test_the_server_scenarios_pass_through_the_gateway(version: str, revision: str, tmp_path: Path) -> None:
    [entry] = [entry for entry in SUITES if run_suite(entry, "--version").strip() == version]
    async with open_gateway(tmp_path) as url:
        output = await scenarios_at(url, entry, ["--suite", "all", "--spec-version", revision], tmp_path)
    rows = re.findall(r"^([✓✗]) ([\w-]+): (\d+) passed, (\d+) failed", output, re.MULTILINE)
    failed = {name for mark, name, _, _ in rows if mark == "✗"}
    assert failed == set(KNOWN_FAILURES.get((version, revision), ())), output[-6000:]
    assert len(rows) >= SCENARIOS[version, revision]
