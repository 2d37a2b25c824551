"""`create_analysis_toolset`: a tool that answers tasks about documents by programs, within what may be seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ScriptedModel, ToolCall
from mcpagent.documents import (
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentConfig,
    SessionState,
    UriPrefix,
    create_analysis_toolset,
)
from mcpagent.values.events import Event, SubagentEvent, ToolCallFinished
from mcpagent.values.limits.run_limits import Limits
from tests.documents.memory_store import MemoryStore, made
from tests.documents.toolset_scene import called, prepared
from tests.tables import each_row

pytestmark = pytest.mark.anyio

TEXTS = {
    "open/2024": ("Report 2024", "Sales were 10 in May.\n\nSales were 20 in June.\n\nCosts were 5."),
    "open/2025": ("Report 2025", "Sales were 30 in May.\n\n[not, json"),
    "secret/board": ("Board", "Sales were 1000."),
}
CONFIG = DocumentConfig()
OPEN = UriPrefix("open/")
COUNT = """import re
from tools.functions import get_document, list_documents
total = 0
for document in await list_documents():
    text = await get_document(query=document["uri"])
    total += sum(int(n) for n in re.findall(r"Sales were (\\d+)", text))
total"""
LOOK = """from tools.functions import get_document, list_documents, search_documents
print([d["title"] for d in await list_documents()], {p["title"] for p in await search_documents(query="Sales")})
try:
    print(await get_document(query="secret/board"))
except ValueError as error:
    print(error)
print((await get_document(query="open/2025")).splitlines()[-1])"""


def reports() -> MemoryStore:
    return MemoryStore(made(uri, text, title) for uri, (title, text) in TEXTS.items())


def run_code(code: str) -> ToolCall:
    return ToolCall("", "run_code", {"code": code})


async def analysed(*model: Any, **options: Any) -> tuple[Any, list[str]]:
    """The result of a call, and the results of the programs."""
    events: list[Event] = []
    toolset = create_analysis_toolset(CONFIG, OPEN)
    arguments = {"task": "All sales?", **options.pop("arguments", {})}
    call = ("analyze", arguments)
    [result] = await called(toolset, call, store=reports(), model=model, events=events, **options)
    inner = [event.event for event in events if isinstance(event, SubagentEvent)]
    ended = [event for event in inner if isinstance(event, ToolCallFinished) and not event.parent]
    return result, [event.result.text for event in ended]


async def test_a_task_is_answered_by_a_program_over_what_may_be_seen() -> None:
    result, outputs = await analysed(run_code("1/0"), run_code(COUNT), "60 in all.")
    assert json.loads(result.text) == {"answer": "60 in all.", "programs": [COUNT]}
    assert outputs[-1] == "60"


async def test_one_document_alone() -> None:
    result, outputs = await analysed(run_code(LOOK), "ok", arguments={"document_name": "report2025"})
    assert json.loads(result.text)["answer"] == "ok"
    assert outputs[-1].splitlines()[:3] == [
        "['Report 2025'] {'Report 2025'}",
        'Document not found: "secret/board".',
        "[not, json",
    ]


async def test_the_filter_of_the_session_holds_in_programs() -> None:
    context = prepared("analysis")
    state = context.get(SESSION_NAMESPACE, SessionState)
    assert state is not None
    state.document_filter = ["2025", "board"]
    _, outputs = await analysed(run_code(LOOK), "ok", context=context)
    assert outputs[-1].splitlines()[0] == "['Report 2025'] {'Report 2025'}"


@each_row(
    "arguments, words", [({"document_name": "Board"}, 'not found: "Board"'), ({"task": " "}, "task: it is empty")]
)
async def test_an_unusable_call_is_told(arguments: dict[str, str], words: str) -> None:
    result, _ = await analysed(arguments=arguments)
    assert result.error == "invalid_arguments"
    assert words in result.text


async def test_in_code_mode_it_is_a_function_with_a_type() -> None:
    program = "from tools.functions import analyze\nfound = await analyze(task='?')\nprint(found['answer'])"
    wrong = "from tools.functions import analyze\nfound = await analyze(task='?')\nprint(found['anser'])"
    search = ToolCall("", "search_tools", {"query": "analyze documents"})
    model = ScriptedModel([search, run_code(wrong), run_code(program), "sixty", "done"])
    async with Agent(model, tools=[create_analysis_toolset(CONFIG)], code_mode=True) as agent:
        session = agent.session(deps=AgentDeps(reports()))
        await session.ask("go")
        results = [one.text for message in session.messages for one in message.tool_results]
    assert "was not run" in results[1]
    assert results[2] == "sixty"


async def test_limits_of_the_run_that_calls_count() -> None:
    model = ScriptedModel([ToolCall("", "analyze", {"task": "?"}), *[run_code("1")] * 20])
    options = RunOptions(limits=Limits(turns=4))
    async with Agent(model, tools=[create_analysis_toolset(CONFIG)], options=options) as agent:
        await agent.session(deps=AgentDeps(reports())).run("go")
    assert len(model.requests) <= 4 + 2, "each of the two agents may answer once more without calls"
