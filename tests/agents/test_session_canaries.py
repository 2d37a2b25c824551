"""Two users over one agent: nothing of one is in a request, a stub, an error or an export of the other.

Each has a canary in the question, in keys and values of results, in a variable, in the tool context, in a file, in a
large result, in an error and in what is searched.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from mcpagent import Agent, RunContext, RunOptions, ScriptedModel, Sessions, ToolCall, ToolContext
from mcpagent.agents.session import Session
from mcpagent.journal.sessions import exported
from mcpagent.models.base import ModelRequest
from mcpagent.search import SearchHistory
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.values.events import Event
from tests.tables import each_row

pytestmark = pytest.mark.anyio

USERS = ("ann", "bob")
LARGE_WORDS = 4_000


class Notes(BaseModel):
    """State of one user."""

    text: str = ""


def canary(user: str, kind: str) -> str:
    return f"canary-{user}-{kind}"


def tools() -> list[Callable[..., Any]]:
    async def files(run: RunContext[str]) -> dict[str, Any]:
        """List the files of the user, by name."""
        return {f"{canary(run.deps, 'key')}.pdf": canary(run.deps, "value")}

    async def report(run: RunContext[str]) -> str:
        """Read the long report of the user."""
        return f"{canary(run.deps, 'large')} " * LARGE_WORDS

    async def remember(run: RunContext[str]) -> str:
        """Write a note into the state of the user."""
        notes = run.tool_context.get("notes")
        assert isinstance(notes, Notes)
        notes.text = canary(run.deps, "state")
        return "remembered"

    async def fails(run: RunContext[str]) -> str:
        """Fail with the name of a file."""
        raise RuntimeError(f"no such file: {canary(run.deps, 'error')}")

    return [files, report, remember, fails]


NAMES = ["files", "report", "remember", "fails"]


def direct(_: str) -> list[Any]:
    return [[ToolCall("", name, {}) for name in NAMES], "done"]


def searched(user: str) -> list[Any]:
    """Each user searches in words of its own for what the other one finds, too."""
    query = {"query": f"list files report note fail {canary(user, 'query')}"}
    found = ToolCall("", "search_tools", query)
    added = ToolCall("", "add_tool", {"tool_names": NAMES})
    return [found, added, *direct(user), found, "done"]


def program(user: str) -> list[Any]:
    search = ToolCall("", "search_tools", {"query": f"select:{','.join(NAMES)}"})
    name = canary(user, "variable").replace("-", "_")
    code = f"from tools.functions import files, report, remember\n{name} = await files()\n"
    code += "await remember()\nlong = await report()\nlong"
    failing = "from tools.functions import fails\nawait fails()"
    return [search, *(ToolCall("", "run_code", {"code": one}) for one in (code, failing, "long[:30]")), search, "done"]


def kinds(mode: str) -> set[str]:
    """What a user's own conversation has to show, so that the test looks at something."""
    own = {"question", "key", "value", "large", "error", "summary", "state"}
    return own | {"program": {"variable"}, "search": {"query"}}.get(mode, set())


class Seen:
    """What reaches each user: the scripted replies and requests, events, texts of its session."""

    def __init__(self, mode: str) -> None:
        self.script = {"direct": direct, "search": searched, "program": program}[mode]
        self.user, self.replies = "", list[Any]()
        self.texts: dict[str, list[str]] = {user: [] for user in USERS}

    def answer(self, request: ModelRequest) -> Any:
        self.texts[self.user].append(repr(request))
        return self.replies.pop(0)

    def hear(self, event: Event) -> None:
        self.texts[self.user].append(repr(event))

    async def turn(self, user: str, session: Session[Any]) -> None:
        """Ask one question, then summarise the conversation."""
        self.user, self.replies = user, self.script(user)
        await session.ask(f"{canary(user, 'question')} with words enough")
        self.replies = [f"about {canary(user, 'summary')}"]
        await session.compact()

    def look(self, user: str, session: Session[Any]) -> None:
        """Note what the session shows of itself."""
        shown = [exported(session.snapshot(), form) for form in ("md", "json", "html")]
        shown += [repr(session), repr(session.discovered_tools), session.system, repr(session.tool_context.state)]
        self.texts[user] += shown

    def of(self, user: str) -> str:
        """Return all of it; names of variables have other signs between their words."""
        return "\n".join(self.texts[user]).replace("_", "-")


def usual(mode: str, folder: Path) -> dict[str, Any]:
    """Return the options of an agent in this mode."""
    if mode == "program":
        return {"code_mode": True}
    if mode == "search":
        return {"tool_search": ToolSearch(history=SearchHistory(folder / "learned.sqlite3"))}
    return {}


@pytest.mark.slow
@each_row("mode", ["direct", "search", "program"])
async def test_t24_t25_nothing_of_one_user_reaches_the_other(tmp_path: Path, mode: str) -> None:
    folder, seen = tmp_path / mode, Seen(mode)
    folder.mkdir()
    agent = Agent(
        ScriptedModel([seen.answer] * 100),
        tools=tools(),
        sessions=Sessions(folder / "sessions.db"),
        on_event=seen.hear,
        options=RunOptions(large_result_tokens=1_000),
        **usual(mode, folder),
    )
    async with agent:
        sessions: dict[str, Session[Any]] = {}
        for user in USERS:
            context = ToolContext()
            context.register("notes", Notes())
            sessions[user] = agent.session(user, deps=user, tool_context=context)
        for user in (*USERS, *USERS, *USERS):
            await seen.turn(user, sessions[user])
        for user, session in sessions.items():
            seen.look(user, session)
    for user in USERS:
        own, [other] = seen.of(user), [name for name in USERS if name != user]
        assert f"canary-{other}" not in own, mode
        missing = [kind for kind in kinds(mode) if canary(user, kind) not in own]
        assert missing == [], mode
