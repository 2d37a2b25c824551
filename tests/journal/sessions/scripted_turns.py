"""A conversation of five turns with three tools each, whose model answers by what the history has alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall, function_tool
from mcpagent.agents.session import Session
from mcpagent.models.base import ModelRequest, ModelResponse
from tests.journal.sessions.provider_rules import require_valid

TURNS = 5
LAST = f"answer {TURNS}"


def prompt(turn: int) -> str:
    return f"question {turn}"


def reply(request: ModelRequest) -> list[ToolCall] | str:
    """Two calls at once, a third one, and the answer."""
    asked = [place for place, message in enumerate(request.messages) if message.role == "user"]
    turn = sum(request.messages[place].text.startswith("question") for place in asked)
    since = request.messages[asked[-1] :]
    match sum(len(message.tool_results) for message in since):
        case 0:
            return [ToolCall(f"{turn}a", "book", {"turn": turn}), ToolCall(f"{turn}b", "look", {"turn": turn})]
        case 2:
            return [ToolCall(f"{turn}c", "write", {"turn": turn})]
        case _:
            return f"answer {turn}"


class Outside:
    """What the tools did, in a file that no kill takes back. `at` hears where the run is."""

    def __init__(self, path: Path, at: Callable[[str], None] = lambda _: None) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._path, self._at = path, at

    def do(self, what: str) -> str:
        self._at("sent")
        os.write(self._file, f"{what}\n".encode())
        self._at("done")
        return f"{what}: ok"

    def done(self) -> list[str]:
        return self._path.read_text().splitlines()

    def close(self) -> None:
        os.close(self._file)

    def tools(self) -> list[Any]:
        def book(turn: int) -> str:
            """Books a place."""
            return self.do(f"book {turn}")

        def look(turn: int) -> str:
            """Looks at a place."""
            return self.do(f"look {turn}")

        def write(turn: int) -> str:
            """Writes a letter."""
            return self.do(f"write {turn}")

        return [function_tool(book), function_tool(look, read_only=True), function_tool(write)]


class Model(ScriptedModel):
    """As `reply` says; `at` hears of each request. With `checks`, what no provider would take is an error."""

    def __init__(self, at: Callable[[str], None] = lambda _: None, *, checks: bool = False) -> None:
        super().__init__([reply] * 40)
        self._at, self._checks = at, checks

    async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
        self._at("asked")
        if self._checks:
            require_valid(request)
        response = await super().respond(request, emit)
        self._at("answered")
        return response


async def go_on(session: Session[Any], acknowledge: Callable[[str], None] = lambda _: None) -> None:
    """All that is left of the five turns."""
    if session.is_unfinished:
        acknowledge(await session.resume())
    turn = sum(message.role == "user" for message in session.messages) + 1
    for turn in range(turn, TURNS + 1):  # noqa: B020 - from there on
        acknowledge(await session.ask(prompt(turn)))


def agent(
    store: Sessions, outside: Outside, at: Callable[[str], None] = lambda _: None, *, checks: bool = False
) -> Agent[Any]:
    return Agent(Model(at, checks=checks), tools=outside.tools(), sessions=store)
