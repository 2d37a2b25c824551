"""The agents of documents: the code blocks of haiku.rag's page run unchanged but for their imports."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpagent import InputError, ModelRequest, ScriptedModel, ToolCall
from mcpagent.documents import (
    QA_SESSION_NAMESPACE,
    AgentDeps,
    ChatDeps,
    DocumentAgent,
    DocumentConfig,
    QASessionState,
    SqliteDocuments,
    ToolContext,
    create_chat_agent,
    prepare_chat_context,
)
from tests.documents.memory_store import CLIMATE, climate, made

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).with_name("seed_blocks.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
IMPORTS = (
    (r"from haiku\.rag\.client import HaikuRAG", "from mcpagent.documents import SqliteDocuments as HaikuRAG"),
    (r"from haiku\.rag\.[\w.]+ import|from haiku\.rag import", "from mcpagent.documents import"),
    (r"from pydantic_ai import Agent\n", ""),  # `Agent` is a `DocumentAgent` with a scripted model
)
ANSWER = json.dumps({"answer": "It rises 4 mm a year [1].", "confidence": 0.8, "citations": [1]})


def imported_from_here(block: str) -> str:
    for pattern, here in IMPORTS:
        block = re.sub(pattern, here, block)
    assert "haiku.rag" not in re.sub(r"#.*", "", block)
    return block


async def executed(block: str, names: dict[str, Any]) -> None:
    code = compile(imported_from_here(block), "seed_blocks.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = eval(code, names)
    if inspect.isawaitable(outcome):
        await outcome


def scripted(replies: list[Any]) -> Callable[..., DocumentAgent]:
    def agent(model: str, **options: Any) -> DocumentAgent:
        assert model == "openai:gpt-4o"
        return DocumentAgent(ScriptedModel(replies), **options)

    return agent


async def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("path/to").mkdir(parents=True)
    client = SqliteDocuments("path/to/db.lancedb", embedder=None)
    for uri, text in CLIMATE.items():
        await client.save(*made(uri, text, f"User Guide to {uri}"))
    search = ToolCall("", "search", {"query": "sea"})
    look = ToolCall("", "search", {"query": "how fast the sea rises"})
    listing = ToolCall("", "list_documents", {})
    names: dict[str, Any] = {
        "Agent": scripted([[search, listing], "Three documents."]),
        "client": client,
        "config": DocumentConfig(model=ScriptedModel([look, ANSWER])),
        "my_callback": lambda state, config: histories.append((state, config)),
        "thread_id": "thread",
    }
    histories: list[Any] = []
    for block in BLOCKS:
        await executed(block, names)
    assert len(BLOCKS) == 14
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["It rises 4 mm a year [1].", "0.8"]
    assert printed[2].startswith("  [1] User Guide to ")
    assert printed[3] == "Three documents."
    assert re.fullmatch("Total search results: [234]", printed[4]), "two by words, more with embeddings"
    assert len(histories) == 1
    assert {"search", "docs", "qa", "analysis"} <= names.keys()
    state = names["deps"].state["haiku.rag.chat"]
    assert set(state) == {"citations", "qa_history", "session_context", "document_filter", "citation_registry"}
    await client.close()


async def test_a_chat_searches_asks_and_keeps_a_summary() -> None:
    requests: list[ModelRequest] = []

    def seen(reply: Any) -> Any:
        def answer(request: ModelRequest) -> Any:
            requests.append(request)
            return reply

        return answer

    ask = ToolCall("", "ask", {"question": "How fast does the sea rise?"})
    model = ScriptedModel(list(map(seen, [ask, ANSWER, "About the sea.", "4 mm [1].", "Bye."])))
    config = DocumentConfig(model=model)
    context = prepare_chat_context(ToolContext())
    deps = ChatDeps(config=config, client=climate(), tool_context=context, state_key="app")
    agent = create_chat_agent(config)
    first = await agent.run("How fast?", deps=deps)
    assert first.output == "4 mm [1]."
    assert deps.state["app"]["session_context"] == "About the sea."
    assert [one["question"] for one in deps.state["app"]["qa_history"]] == ["How fast does the sea rise?"]
    second = await agent.run("Thanks.", deps=deps, messages=first.messages)
    assert second.output == "Bye."
    assert requests[-1].messages[0].text == "How fast?"


async def test_the_initial_context_counts_once() -> None:
    context = prepare_chat_context(ToolContext())
    deps = ChatDeps(climate(), context, "app")
    deps.state = {"app": {"initial_context": "I build a wall."}}
    deps.state = {"app": {"initial_context": "I build a dam.", "session_context": "x"}}
    assert context.state["app"]["session_context"] == "I build a wall."
    state = context.get(QA_SESSION_NAMESPACE, QASessionState)
    assert state is not None
    state.session_context = None
    deps.state = {"app": {"initial_context": 3}}
    with pytest.raises(InputError):
        deps.state = {"app": {"initial_context": "I build a dam.", "document_filter": 1}}
    assert state.session_context is None
    flat = ChatDeps(climate(), prepare_chat_context(ToolContext()))
    flat.state = {"initial_context": "flat"}
    assert flat.state["haiku.rag.chat"]["session_context"] == "flat"


async def test_one_agent_takes_the_deps_of_each_run() -> None:
    agent = DocumentAgent(ScriptedModel(["a", "b"]), deps_type=AgentDeps)
    run = partial(agent.run, deps=AgentDeps(climate()))
    assert [(await run(prompt)).output for prompt in ("1", "2")] == ["a", "b"]
