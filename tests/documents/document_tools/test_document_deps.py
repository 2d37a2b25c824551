"""What a call may see: hostile text in every argument of every tool, and many users of one toolset at once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, Message, ModelRequest, ModelResponse, RunContext, Text, ToolCall, Usage
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.documents import (
    SEARCH_NAMESPACE,
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentConfig,
    DocumentStore,
    SearchState,
    SessionState,
    ToolContext,
    UriPrefix,
    create_analysis_toolset,
    create_document_toolset,
    create_qa_toolset,
    create_search_toolset,
)
from mcpagent.run.agent_run import AgentRun
from mcpagent.values.events import Emit
from mcpagent.values.tools import Tool
from tests.documents.memory_store import MemoryStore, made
from tests.documents.sample_documents import HOSTILE
from tests.documents.toolset_scene import STORES, opened, prepared
from tests.tables import each_row

pytestmark = pytest.mark.anyio

MARK = "zzhidden"
LIBRARY = {
    "open/guide.md": ("User guide", "The guide explains search and filters to everyone."),
    "open/other.md": ("Other", f"Search {MARK} in other text of everyone and the board."),
    "board/secret.md": ("Secret guide", f"The guide to search {MARK} of the board, 50%_x."),
}
BASE = UriPrefix("open/")
FRAGMENTS = [*HOSTILE, "board/", "secret.md", "Secret guide", "open/", "guide", "search", " ", "\n", "(", ")", "*", '"']


def hostile_texts(count: int) -> list[str]:
    """Fragments of SQL, of FTS5's language and of hidden names, alone and combined; always the same ones."""
    chance = random.Random(35)
    texts = dict.fromkeys([*HOSTILE, *LIBRARY, *(title for title, _ in LIBRARY.values())])
    while len(texts) < count:
        texts["".join(chance.choices(FRAGMENTS, k=chance.randint(1, 5)))] = None
    return list(texts)[:count]


class Witness:
    """A model that records all that it gets, and answers in the form that the request wants."""

    name = "witness:test"

    def __init__(self, reply: Callable[[ModelRequest], Text | ToolCall]) -> None:
        self.seen: list[str] = []
        self._reply = reply

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.seen += [message.text for message in request.messages]
        self.seen += [result.text for message in request.messages for result in message.tool_results]
        await asyncio.sleep(0)
        part = self._reply(request)
        stop: Any = "tool_calls" if isinstance(part, ToolCall) else "end"
        return ModelResponse(Message("assistant", (part,)), Usage(requests=1), stop, 0.0)

    async def aclose(self) -> None:
        pass


def answered(request: ModelRequest) -> Text:
    if request.output is None:
        return Text("fine")
    return Text(json.dumps({"answer": "as [1] says", "confidence": 1, "citations": [1, 2, 3]}))


def library(kind: str, folder: Path) -> AbstractAsyncContextManager[DocumentStore]:
    """Each kind of store with the same three documents."""
    documents = [made(uri, text, title, k=title) for uri, (title, text) in LIBRARY.items()]
    return opened(kind, folder, documents)


def limited() -> ToolContext:
    context = prepared("search", "qa")
    state = context.get(SESSION_NAMESPACE, SessionState)
    assert state is not None
    state.document_filter = ["guide", "secret"]
    return context


def calls_with(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The text in every argument of every tool that is no number."""
    yield "search", {"query": text}
    for condition in ("equals", "before", "after"):
        yield "search", {"query": "search guide", "filter": {"metadata": [{"key": "k", condition: text}]}}
    yield "search", {"query": "search guide", "filter": {"metadata": [{"key": "k", "in": [text, "User guide"]}]}}
    yield "search", {"query": "search guide", "filter": {"metadata": [{"key": text, "equals": "x"}]}}
    yield "search", {"query": "search guide", "filter": {"name": text}}
    yield "search", {"query": "search guide", "filter": {"uri_prefix": text}}
    yield "get_document", {"query": text}
    yield "summarize_document", {"query": text}
    yield "ask", {"question": text}
    yield "ask", {"question": "search guide", "document_name": text}
    yield "analyze", {"task": "count", "document_name": text}


async def tools_of(config: DocumentConfig) -> dict[str, Tool]:
    toolsets = (
        create_search_toolset(config, base_filter=BASE),
        create_document_toolset(config, BASE),
        create_qa_toolset(config, BASE),
    )
    return {tool.name: tool for toolset in toolsets for tool in await toolset.tools()}


async def attacked(store: DocumentStore, texts: list[str]) -> list[str]:
    """Make each call with each text; return the results and all that the model got."""
    model = Witness(answered)
    tools = await tools_of(DocumentConfig(model=model))
    context = limited()
    results: list[str] = []
    run = AgentRun(RunContext(AgentDeps(store, context)))
    with run.entered():
        for text in texts:
            for name, arguments in calls_with(text):
                if name in tools:
                    results.append(str(await tools[name].run(arguments)))
    found = context.get(SEARCH_NAMESPACE, SearchState)
    session = context.get(SESSION_NAMESPACE, SessionState)
    assert found is not None
    assert session is not None
    cited = {one.document_uri for one in [*found.results, *session.citations]}
    assert cited == {"open/guide.md"}
    return [*results, *model.seen]


@pytest.mark.parametrize("kind", STORES)
async def test_hostile_text_reaches_no_hidden_document(kind: str, tmp_path: Path) -> None:
    async with library(kind, tmp_path) as store:
        seen = await attacked(store, hostile_texts(8))
    assert any("explains search" in text for text in seen)
    assert not any(MARK in text for text in seen)


@pytest.mark.slow
@pytest.mark.attack
@pytest.mark.parametrize("kind", STORES)
async def test_300_hostile_texts_reach_no_hidden_document(kind: str, tmp_path: Path) -> None:
    async with library(kind, tmp_path) as store:
        seen = await attacked(store, hostile_texts(300))
    assert len(seen) > 3_000
    assert not any(MARK in text for text in seen)


PROGRAM = """from tools.functions import get_document, list_documents, search_documents
print(await list_documents())
count = 0
for text in {texts}:
    for function in (get_document, search_documents):
        try:
            print(await function(query=text))
        except ValueError:
            count += 1
count"""


@pytest.mark.parametrize(("kind", "count"), [("memory", 20), pytest.param("sqlite", 300, marks=pytest.mark.slow)])
async def test_programs_reach_no_hidden_document(kind: str, count: int, tmp_path: Path) -> None:
    texts = [text for text in hostile_texts(count) if text.isprintable() and len(text) < 200]
    model = Witness(
        lambda request: (
            Text("done")
            if request.messages[-1].tool_results
            else ToolCall("1", "run_code", {"code": PROGRAM.format(texts=texts)})
        )
    )
    mode = CodeMode(calls=2_000, output_tokens=0)
    [analyze] = await create_analysis_toolset(DocumentConfig(model=model), BASE, code_mode=mode).tools()
    async with library(kind, tmp_path) as store:
        with AgentRun(RunContext(AgentDeps(store, limited()))).entered():
            output = await analyze.run({"task": "count"})
    assert output.error is None
    assert any("explains search" in text for text in model.seen)
    assert not any(MARK in text for text in model.seen)
    assert not any("'open/other.md'" in text or "'board/secret.md', 'title'" in text for text in model.seen)


async def test_fifty_users_of_one_toolset_see_their_own_documents(tmp_path: Path) -> None:
    """Each user has a store of their own; the words of all stores are the same."""
    ask = ToolCall("2", "ask", {"question": "What does the note say?"})
    search = ToolCall("1", "search", {"query": "note"})
    read = ToolCall("3", "get_document", {"query": "note"})

    def reply(request: ModelRequest) -> Text | ToolCall:
        if request.output is not None:
            return answered(request)
        done = [result.call_id for message in request.messages for result in message.tool_results]
        return next((call for call in (search, ask, read) if call.id not in done), Text("done"))

    config = DocumentConfig()
    toolsets = [create_search_toolset(config), create_document_toolset(config), create_qa_toolset(config)]
    async with Agent(Witness(reply), tools=toolsets) as agent:

        async def results_of(user: int) -> str:
            store = MemoryStore([made(f"u{user}/note", f"The note says user{user}x.", f"Note {user}")])
            context = prepared("search", "qa")
            session = agent.session(deps=AgentDeps(store, context), tool_context=context)
            await session.ask("go")
            texts = [result.text for message in session.messages for result in message.tool_results]
            assert len(texts) == 3
            return "\n".join([*texts, json.dumps(context.dump_namespaces())])

        found = await asyncio.gather(*map(results_of, range(50)))
    for user, text in enumerate(found):
        assert f"user{user}x" in text
        assert not [other for other in range(50) if other != user and f"user{other}x" in text]


@each_row("limit", [0, 51, True, "5"])
def test_an_unusable_option_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match=r"DocumentConfig\.limit"):
        DocumentConfig(limit=limit)


@each_row("create", [create_search_toolset, create_document_toolset, create_qa_toolset, create_analysis_toolset])
def test_what_is_no_filter_or_config_is_refused_at_once(create: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="base_filter"):
        create(DocumentConfig(), base_filter="uri LIKE 'open/%'")
    with pytest.raises(ConfigError, match="config"):
        create("openai:gpt-4o")
