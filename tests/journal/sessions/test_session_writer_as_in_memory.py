"""A session that is closed and opened again, at random moments, is the same as one that never was."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from mcpagent import (
    Agent,
    Limits,
    RunOptions,
    ScriptedModel,
    Sessions,
    ToolCall,
    ToolContext,
    ToolSearch,
    dump_messages,
)
from mcpagent.agents.session import Session
from mcpagent.errors import McpAgentError
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.toolsets.functions import function_tool

SUBJECTS = ("train", "hotel", "weather", "letter", "lamp", "garden", "music", "coffee")


class Notes(BaseModel):
    """What a tool keeps in the session."""

    count: int = 0
    last: str = ""


def tool_named(subject: str, version: int) -> Any:
    def use(what: str = "") -> str:
        return f"{subject} {what}: {version}"

    use.__name__ = f"use_{subject}"
    use.__doc__ = f"Uses the {subject}, version {version}."
    return function_tool(use, read_only=subject == "weather")


def paying() -> Any:
    def pay(to: str) -> str:
        """Pays somebody."""
        return f"paid {to}"

    return function_tool(pay)


@dataclass
class World:
    """One of the two that must be the same: what there is, and all that a model was asked in it."""

    path: Path | None
    search: bool
    asked: list[str] = field(default_factory=list[str])
    tools: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SUBJECTS[:4], 1))
    script: list[Any] = field(default_factory=list[Any])
    said: list[str] = field(default_factory=list[str])
    agent: Agent[Any] | None = None
    session: Session[Any] | None = None
    store: Sessions | None = None
    notes: Notes | None = None
    id: str = "one-of-many"
    length: int = 0
    name: str = "one"
    rounds: int = 0

    async def open(self) -> None:
        store = self.store = Sessions(self.path) if self.path is not None else None
        world = self

        class Model(ScriptedModel):
            def __init__(self, name: str) -> None:
                super().__init__([], name=name)

            async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
                world.asked.append(
                    json.dumps(
                        [
                            self.name,
                            request.system,
                            [[tool.name, tool.description, tool.parameters] for tool in request.tools],
                            dump_messages(_without_times(request.messages)),
                            request.tool_choice,
                        ]
                    )
                )
                reply = world.script.pop(0) if world.script else "said"
                return await ScriptedModel([reply]).respond(request, emit)

        self.models = {"one": Model("one"), "two": Model("two")}
        search = ToolSearch(enabled=True) if self.search else None
        self.agent = Agent(
            self.models[self.name],
            instructions="Be brief.",
            tool_search=search,
            tools=[tools_of(self)],
            options=RunOptions(limits=Limits(turns=6)),
            approval=lambda context, definition, arguments: definition.name == "pay",
            sessions=store,
        )
        await self.agent.__aenter__()
        context = ToolContext()
        self.notes = Notes()
        context.register("notes", self.notes)
        self.session = self.agent.session(self.id if store is not None else None, tool_context=context)

    async def close(self) -> None:
        assert self.agent is not None
        self.session = None
        await self.agent.aclose()
        if self.store is not None:
            self.store.close()

    async def reopen(self) -> None:
        assert self.session is not None
        if self.path is not None and len(self.session.messages):  # where nobody said anything nothing is kept
            self.id = self.session.id
            await self.close()
            await self.open()


def tools_of(world: World) -> Any:
    from mcpagent import dynamic

    return dynamic(lambda _: [*(tool_named(name, version) for name, version in world.tools.items()), paying()])


def _without_times(messages: Sequence[Any]) -> list[Any]:
    """How long a call took is another in each."""
    from dataclasses import replace

    from mcpagent.values.messages import ToolResult

    return [
        replace(
            message,
            parts=tuple(replace(p, seconds=0.0) if isinstance(p, ToolResult) else p for p in message.parts),
        )
        for message in messages
    ]


# -- what may happen ---------------------------------------------------------------------------------------------------

calls = st.lists(
    st.sampled_from(
        [
            *(("search_tools", {"query": subject}) for subject in SUBJECTS),
            *(("add_tool", {"name": f"use_{subject}"}) for subject in SUBJECTS),
            *((f"use_{subject}", {"what": "x"}) for subject in SUBJECTS),
            ("pay", {"to": "ann"}),
            ("nothing", {}),
        ]
    ),
    max_size=3,
)
asks = st.tuples(st.just("ask"), st.lists(calls, max_size=3))
reopens = st.tuples(st.just("reopen"), st.none())
steps = (
    asks,
    asks,
    asks,
    reopens,
    reopens,
    st.tuples(st.just("rewind"), st.integers(0, 12)),
    st.tuples(st.just("begin_anew"), st.none()),
    st.tuples(st.just("use_model"), st.sampled_from(["one", "two"])),
    st.tuples(st.just("answer"), st.booleans()),
    st.tuples(st.just("resume"), st.none()),
    st.tuples(st.just("more"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("less"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("change"), st.sampled_from(SUBJECTS)),
    st.tuples(st.just("note"), st.text("ab\0é\U0001f600", max_size=4)),
)
leaves = (
    st.tuples(st.just("leave"), st.tuples(st.lists(calls, max_size=2), st.integers(1, 8))),
    st.tuples(st.just("cancel"), st.tuples(st.lists(calls, max_size=2), st.integers(0, 30))),
)
operations = st.lists(st.one_of(*steps), min_size=2, max_size=12)
left = st.lists(st.one_of(*steps, *leaves, *leaves), min_size=2, max_size=10)


def scripted(rounds: Sequence[Sequence[tuple[str, dict[str, Any]]]], number: int) -> list[Any]:
    """Replies with calls, which have ids of their own in the whole session."""
    replies: list[Any] = []
    for turn, made in enumerate(rounds):
        if made:
            replies.append(
                [ToolCall(f"c{number}-{turn}-{place}", name, dict(given)) for place, (name, given) in enumerate(made)]
            )
    return [*replies, f"answer {number}"]


async def happen(world: World, kind: str, value: Any, number: int) -> None:  # noqa: C901 - a case for each
    session, agent, notes = world.session, world.agent, world.notes
    assert session is not None
    assert agent is not None
    assert notes is not None
    world.script = []
    try:
        match kind:
            case "ask":
                world.script = scripted(value, number)
                world.said.append(await session.ask(f"prompt {number} about the {SUBJECTS[number % 8]}"))
            case "resume":
                world.script = [f"resumed {number}"]
                world.said.append(await session.resume())
            case "answer":
                world.script = [f"answered {number}"]
                answers = [call.approve() if value else call.deny("no") for call in session.pending]
                world.said.append(await session.resume(answers))
            case "rewind":
                session.rewind(min(value, len(session.messages)))
            case "begin_anew":
                session._runtime.begin_anew()
            case "use_model":
                world.name = value
                await agent.use_model(world.models[value])
            case "leave":
                world.script = scripted(value[0], number)
                async with session.stream(f"prompt {number}") as stream:
                    for _ in range(value[1]):
                        if await anext(stream, None) is None:
                            break
            case "cancel":
                world.script = scripted(value[0], number)
                asking = asyncio.ensure_future(session.ask(f"prompt {number}"))
                for _ in range(value[1]):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            case "more":
                world.tools.setdefault(value, 1)
            case "less":
                world.tools.pop(value, None)
            case "change":
                if value in world.tools:
                    world.tools[value] += 1
            case "note":
                notes.count += 1
                notes.last = value
            case _:
                raise AssertionError(kind)
    except McpAgentError as error:
        world.said.append(f"{type(error).__name__}: {error}".replace(session.id, "ID"))


def seen(world: World) -> dict[str, Any]:
    session, notes = world.session, world.notes
    assert session is not None
    assert notes is not None
    return {
        "messages": dump_messages(_without_times(session.messages)),
        "pending": [(call.call_id, call.tool, call.arguments, call.kind) for call in session.pending],
        "unfinished": session.is_unfinished,
        "requests": session.spent.usage.requests,
        "notes": notes.model_dump(),
        "said": world.said,
        "asked": world.asked,
    }


async def both(happening: Sequence[tuple[str, Any]], *, search: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept, memory = World(Path(folder) / "s.db", search), World(None, search)
        for world in (kept, memory):
            await world.open()
        try:
            for number, (kind, value) in enumerate(happening):
                if kind == "reopen":
                    await kept.reopen()
                else:
                    for world in (kept, memory):
                        await happen(world, kind, value, number)
                assert seen(kept) == seen(memory), (number, kind)
        finally:
            for world in (kept, memory):
                await world.close()


async def again(happening: Sequence[tuple[str, Any]], *, search: bool) -> None:
    """Where a run is left depends on what is waited for, so this one is compared with itself."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "s.db", search)
        await world.open()
        try:
            for number, (kind, value) in enumerate(happening):
                if kind == "reopen":
                    before = seen(world)
                    await world.reopen()
                    assert seen(world) == before, (number, kind)
                else:
                    await happen(world, kind, value, number)
        finally:
            await world.close()


CAME: list[tuple[str, Any]] = [("ask", []), ("more", "music"), ("reopen", None), ("ask", [])]
WENT: list[tuple[str, Any]] = [("ask", []), ("less", "train"), ("reopen", None), ("reopen", None), ("ask", [])]


@pytest.mark.slow
@settings(max_examples=6)
@given(happening=operations, search=st.booleans())
@example(happening=CAME, search=True)
@example(happening=WENT, search=True)
def test_it_is_as_it_would_be_in_memory(happening: list[tuple[str, Any]], search: bool) -> None:
    asyncio.run(both(happening, search=search))


@settings(max_examples=6)
@given(happening=left, search=st.booleans())
def test_what_a_run_that_was_left_came_to_is_there(happening: list[tuple[str, Any]], search: bool) -> None:
    asyncio.run(again(happening, search=search))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=150)
@given(happening=operations, search=st.booleans())
def test_it_is_as_it_would_be_in_memory_often(happening: list[tuple[str, Any]], search: bool) -> None:
    asyncio.run(both(happening, search=search))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=150)
@given(happening=left, search=st.booleans())
def test_what_a_run_that_was_left_came_to_is_there_often(happening: list[tuple[str, Any]], search: bool) -> None:
    asyncio.run(again(happening, search=search))
