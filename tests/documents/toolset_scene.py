"""Calls of document tools by an agent with a scripted model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall, ToolContext, ToolResult, prepare_context
from mcpagent.documents import AgentDeps, Chunk, DocumentStore, LanceDocuments, SqliteDocuments, StoredDocument
from mcpagent.values.events import Event
from tests.documents.memory_store import MemoryStore


def prepared(*features: str, state_key: str | None = None) -> ToolContext:
    """A context with the state of these features."""
    return prepare_context(ToolContext(), list(features), state_key)


OPEN: dict[str, Callable[[Path], Any]] = {
    "memory": lambda _: MemoryStore(),
    "sqlite": lambda folder: SqliteDocuments(folder / "documents.db", embedder=None),
}
if find_spec("lancedb") is not None:
    OPEN["lancedb"] = lambda folder: LanceDocuments(folder / "lance", embedder=None)
STORES = [pytest.param(name, marks=pytest.mark.slow) if name == "lancedb" else name for name in OPEN]


@asynccontextmanager
async def opened(
    kind: str, folder: Path, documents: Iterable[tuple[StoredDocument, list[Chunk]]]
) -> AsyncIterator[DocumentStore]:
    """Open a store of this kind with the documents."""
    folder.mkdir(exist_ok=True)
    async with OPEN[kind](folder) as store:
        for document, chunks in documents:
            await store.save(document, chunks)
        yield store


async def called(
    toolset: Any,
    *calls: tuple[str, dict[str, Any]],
    store: Any,
    context: ToolContext | None = None,
    model: Sequence[Any] = (),
    events: list[Event] | None = None,
) -> list[ToolResult]:
    """Return the results of the calls, one after another; `model` are replies to requests that the tools make."""
    before: list[Any] = [ToolCall("", name, arguments) for name, arguments in calls]
    scripted = ScriptedModel([*before[:1], *model, *before[1:], "done"])
    deps = AgentDeps(client=store, tool_context=context)
    heard = events if events is not None else []
    async with Agent(scripted, tools=[toolset], on_event=heard.append) as agent:
        session = agent.session(deps=deps, tool_context=context)
        await session.ask("go")
        return [result for message in session.messages for result in message.tool_results]
