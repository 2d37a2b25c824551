"""Published servers, as they come from their registries: each connects, lists and answers a call.

They are installed once for all tests, the Python ones into an environment of their own.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.events import Event, ToolProgress
from mcpagent.values.messages import Text
from tests.servers.leftovers import nothing_left

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

INSTALL_SECONDS = 400


@dataclass(frozen=True)
class Published:
    """A server's package, how it is started in `{folder}`, and a call with a part of what it answers.

    `error` is how the call ends: what would need a network fails, and says so.
    """

    package: str
    start: tuple[str, ...]
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    answer: str = ""
    env: dict[str, str] = field(default_factory=dict)
    error: str | None = None


PYTHON = [
    Published(
        "mcp-server-time==2026.10.19",
        ("mcp-server-time",),
        "get_current_time",
        {"timezone": "Asia/Tokyo"},
        "Asia/Tokyo",
    ),
    Published(
        "mcp-server-git==2026.10.19", ("mcp-server-git",), "git_status", {"repo_path": "{folder}"}, "No commits yet"
    ),
    Published(
        "mcp-server-fetch==2026.10.24",
        ("mcp-server-fetch",),
        "fetch",
        {"url": "http://127.0.0.1:9/"},
        "127.0.0.1",
        error="failed",
    ),
    Published(
        "excel-mcp-server==2.2.2",
        ("excel-mcp-server", "stdio"),
        "create_workbook",
        {"path": "{folder}/a.xlsx"},
        "a.xlsx",
    ),
    Published(
        "office-word-mcp-server==1.1.11",
        ("word_mcp_server",),
        "create_document",
        {"filename": "{folder}/a.docx"},
        "a.docx",
    ),
    Published(
        "mcp-alchemy==2026.10.15.202659", ("mcp-alchemy",), "all_table_names", env={"DB_URL": "sqlite:///{folder}/a.db"}
    ),
]
OLD_PYTHON = [
    Published("office-powerpoint-mcp-server==2.0.7", ("ppt_mcp_server",), "create_presentation", {}, "presentation"),
]
"""Servers that still need the SDK of before 2.0."""

NODE = [
    Published(
        "@modelcontextprotocol/server-everything@2026.8.31",
        ("mcp-server-everything",),
        "echo",
        {"message": "hello"},
        "hello",
    ),
    Published(
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        ("mcp-server-filesystem", "{folder}"),
        "list_directory",
        {"path": "{folder}"},
        ".git",
    ),
    Published(
        "@modelcontextprotocol/server-memory@2026.8.31",
        ("mcp-server-memory",),
        "read_graph",
        {},
        "entities",
        {"MEMORY_FILE_PATH": "{folder}/memory.json"},
    ),
    Published(
        "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
        ("mcp-server-sequential-thinking",),
        "sequentialthinking",
        {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtNumber",
    ),
    Published("@wonderwhy-er/desktop-commander@0.2.52", ("desktop-commander",), "get_config", {}, "blockedCommands"),
]


def install(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=INSTALL_SECONDS, text=True)
    except (OSError, subprocess.SubprocessError) as error:
        last = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1:]
        pytest.skip(f"{command[0]} cannot install the servers here: {''.join(last)[:200]}")


def installed_once(factory: pytest.TempPathFactory, name: str, *commands: list[str]) -> Path:
    """The folder that the commands have filled, for all workers of pytest together: the first of them runs them.

    In a command, `{folder}` is the folder.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "is-installed").exists():
            for command in commands:
                install([word.replace("{folder}", str(folder)) for word in command], folder)
            (folder / "is-installed").touch()
    return folder


def python_environment(factory: pytest.TempPathFactory, name: str, *packages: str) -> Path:
    venv = [sys.executable, "-m", "venv", "{folder}"]
    pip = ["{folder}/bin/python", "-m", "pip", "install", "-q", *packages]
    return installed_once(factory, name, venv, pip) / "bin"


@pytest.fixture(scope="session")
def python_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return python_environment(tmp_path_factory, "published-python", *(server.package for server in PYTHON))


@pytest.fixture(scope="session")
def old_python_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packages = (server.package for server in OLD_PYTHON)
    return python_environment(tmp_path_factory, "published-old-python", "mcp<2", *packages)


@pytest.fixture(scope="session")
def node_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not here")
    packages = [server.package for server in NODE]
    npm = ["npm", "install", "--prefix", "{folder}", "--ignore-scripts", "--no-audit", *packages]
    return installed_once(tmp_path_factory, "published-node", npm) / "node_modules" / ".bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not here")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def filled(value: str, folder: Path) -> str:
    return value.replace("{folder}", str(folder))


async def works(server: Published, programs: Path, folder: Path) -> None:
    program, *arguments = server.start
    config = ServerConfig(
        name="published",
        command=str(programs / program),
        args=tuple(filled(argument, folder) for argument in arguments),
        env={name: filled(value, folder) for name, value in server.env.items()} | {"PATH": os.environ["PATH"]},
        cwd=str(folder),
        connect_timeout_seconds=60,
    )
    given = {
        name: filled(value, folder) if isinstance(value, str) else value for name, value in server.arguments.items()
    }
    async with nothing_left(str(folder)), ServerLink(config) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        output = await tools[server.tool].run(given)
        text = "\n".join(part.text for part in output.content if isinstance(part, Text))
        assert server.answer in text, text
        assert output.error == server.error, text
        assert len(tools) > 0
        assert toolset.status.state == "ready"


@pytest.mark.parametrize("server", PYTHON, ids=lambda server: server.package.partition("==")[0])
async def test_a_published_python_server(server: Published, python_programs: Path, folder: Path) -> None:
    await works(server, python_programs, folder)


@pytest.mark.parametrize("server", OLD_PYTHON, ids=lambda server: server.package.partition("==")[0])
async def test_a_published_server_of_the_older_sdk(server: Published, old_python_programs: Path, folder: Path) -> None:
    await works(server, old_python_programs, folder)


@pytest.mark.parametrize("server", NODE, ids=lambda server: server.package.rpartition("/")[2].partition("@")[0])
async def test_a_published_node_server(server: Published, node_programs: Path, folder: Path) -> None:
    await works(server, node_programs, folder)


async def test_a_published_server_runs_a_task_that_asks_in_the_middle(node_programs: Path, folder: Path) -> None:
    """The protocol's own example server, in the form of 2025-11-25."""
    asked: list[str] = []
    events: list[Event] = []

    async def elicit(server: str, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        asked.append(f"{server}: {message}")
        return {"interpretation": "programming"} if "interpretation" in schema["properties"] else {}

    config = ServerConfig(
        "every", command=str(node_programs / "mcp-server-everything"), env={"PATH": os.environ["PATH"]}
    )
    handlers = Handlers(elicit=elicit)
    async with nothing_left(str(folder)), ServerLink(config, emit=events.append, handlers=handlers) as toolset:
        (research,) = [tool for tool in await toolset.tools() if tool.name == "simulate-research-query"]
        output = await research.run({"topic": "python", "ambiguous": True})
    assert output.error is None
    assert "Topic**: python" in "\n".join(part.text for part in output.content if isinstance(part, Text))
    assert len(asked) == 1
    assert "Generating report..." in [event.message for event in events if isinstance(event, ToolProgress)]
