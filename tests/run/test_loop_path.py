"""How many steps lie between a question and the world, looked at while it runs; docs/architecture.md shows the same.

MCPAGENT_UPDATE_DOCS=1 writes the picture into the page.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx2
import pytest

from mcpagent import Agent
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import Model
from mcpagent.models.scripted import ScriptedModel
from tests.scenes import call
from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mcpagent"

MOST = {"HTTP": 4, "Python tool": 5, "MCP server": 8}
"""Our own frames from `ask` to there, both ends counted."""


def stack_here() -> list[str]:
    """Our functions that wait for this one, the outermost first; across tasks, since calls have tasks of their own."""
    frames = [frame for frame in _frames(sys._getframe(1)) if _is_ours(frame.f_code)]
    return [*_waiting(asyncio.current_task()), *(_name(frame.f_code) for frame in reversed(frames))]


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _waiting(task: asyncio.Task[Any] | None) -> list[str]:
    """What the parents of a task wait in: found by who awaits whom."""
    if task is None or (parent := _PARENTS.get(task)) is None:
        return []
    return [*_waiting(parent), *_awaits(parent.get_coro())]


def _awaits(coroutine: Any) -> list[str]:
    names: list[str] = []
    while coroutine is not None and hasattr(coroutine, "cr_code"):
        if _is_ours(coroutine.cr_code):
            names.append(_name(coroutine.cr_code))
        coroutine = coroutine.cr_await
    return names


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(str(PACKAGE))


def _name(code: CodeType) -> str:
    module = Path(code.co_filename).relative_to(PACKAGE).as_posix()
    return f"{code.co_qualname.replace('.<locals>', '')} ({module})"


_PARENTS: dict[asyncio.Task[Any], asyncio.Task[Any] | None] = {}


def followed(looking: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    """What it gives, in a loop whose tasks know which task made them."""

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        _PARENTS[task] = asyncio.current_task(loop)
        return task

    async def run() -> list[str]:
        asyncio.get_running_loop().set_task_factory(make)
        return await looking()

    try:
        return asyncio.run(run())
    finally:
        _PARENTS.clear()


ANSWERS: dict[type, dict[str, Any]] = {
    AnthropicModel: {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    OpenAIChatModel: {
        "id": "c",
        "object": "chat.completion",
        "model": "x",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    },
    OpenAIResponsesModel: {
        "id": "r",
        "object": "response",
        "status": "completed",
        "model": "x",
        "output": [
            {
                "type": "message",
                "id": "o",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "hi", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    },
}


async def to_http(kind: type) -> list[str]:
    seen: list[list[str]] = []

    def answer(_request: httpx2.Request) -> httpx2.Response:
        seen.append(stack_here())
        return httpx2.Response(200, content=json.dumps(ANSWERS[kind]), headers={"content-type": "application/json"})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        model: Model = kind("anthropic" if kind is AnthropicModel else "openai", api_key="k", http_client=client)
        async with Agent(model) as agent:
            assert await agent.ask("hello") == "hi"
    return seen[0]


async def to_python() -> list[str]:
    seen: list[list[str]] = []

    async def look() -> str:
        """Looks."""
        seen.append(stack_here())
        return "seen"

    async with Agent(ScriptedModel([call("look"), "done"]), tools=[look]) as agent:
        await agent.ask("look")
    return seen[0]


async def to_server(monkeypatch: pytest.MonkeyPatch, file: Path) -> list[str]:
    """Up to the SDK's own function: it is watched, not replaced."""
    from mcp.client.session import ClientSession

    seen: list[list[str]] = []
    real = ClientSession.send_request

    async def watched(session: Any, request: Any, *given: Any, **options: Any) -> Any:
        if (
            type(request).__name__ == "CallToolRequest"
            or type(getattr(request, "root", None)).__name__ == "CallToolRequest"
        ):
            seen.append(stack_here())
        return await real(session, request, *given, **options)

    monkeypatch.setattr(ClientSession, "send_request", watched)
    tool = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
    file.write_text(json.dumps({"server": "small", "tools": [tool]}), encoding="utf-8")
    server = {"command": sys.executable, "args": [str(ROOT / "tests" / "servers" / "catalog_server.py"), str(file)]}
    async with Agent(ScriptedModel([call("look"), "done"]), mcp_config={"mcpServers": {"small": server}}) as agent:
        await agent.ask("look")
    return seen[0]


@each_row("kind", list(ANSWERS))
def test_from_ask_to_http(kind: type) -> None:
    assert len(followed(lambda: to_http(kind))) <= MOST["HTTP"]


def test_from_ask_to_a_python_tool() -> None:
    assert len(followed(to_python)) <= MOST["Python tool"]


def test_the_page_shows_the_path_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    to_a_server = followed(lambda: to_server(monkeypatch, tmp_path / "tools.json"))
    assert len(to_a_server) <= MOST["MCP server"]
    paths = [
        (followed(lambda: to_http(OpenAIChatModel)), "[SDK -> HTTP]"),
        (followed(to_python), "[a Python function]"),
        (to_a_server, "[MCP SDK]"),
    ]
    picture = drawn(paths)
    page = ROOT / "docs" / "architecture.md"
    text = page.read_text("utf-8")
    start = text.index("```text\n") + len("```text\n")
    written = text[:start] + picture + text[text.index("```", start) :]
    if os.environ.get("MCPAGENT_UPDATE_DOCS"):
        page.write_text(written, "utf-8")
    assert written == text, "MCPAGENT_UPDATE_DOCS=1 writes the page anew"


def drawn(paths: list[tuple[list[str], str]]) -> str:
    """The paths as one tree, each step once."""
    lines: list[str] = []
    before: list[str] = []
    for path, end in paths:
        shared = 0
        while shared < min(len(path), len(before)) and path[shared] == before[shared]:
            shared += 1
        for depth in range(shared, len(path)):
            name, _, module = path[depth].partition(" (")
            step = f"{'   ' * depth}{name}()"
            lines.append(f"{step:<52}{depth + 1}  {module.rstrip(')')}{f'  {end}' if depth == len(path) - 1 else ''}")
        before = path
    return "\n".join(lines) + "\n"
