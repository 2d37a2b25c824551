"""`create_analysis_toolset`: a tool that answers tasks about documents by programs, within what may be seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, RunOptions, ScriptedModel, ToolCall
from mcpagent.agents.analysis import Passage, create_analysis_toolset
from mcpagent.values.events import Event, SubagentEvent, ToolCallFinished
from mcpagent.values.limits.run_limits import Limits
from tests.tables import each_row

pytestmark = pytest.mark.anyio

TEXTS = {
    "Report 2024": "Sales were 10 in May.\n\nSales were 20 in June.\n\nCosts were 5.",
    "Report 2025": "Sales were 30 in May.\n\n[not, json",
    "secret/Board": "Sales were 1000.",
}
COUNT = """import re
from tools.functions import get_document, list_documents
total = 0
for name in await list_documents():
    total += sum(int(n) for n in re.findall(r"Sales were (\\d+)", await get_document(name=name)))
total"""


def analyst(*replies: Any, **options: Any) -> Any:
    seen = {"base_filter": lambda name: not name.startswith("secret/"), **options}
    return create_analysis_toolset(seen.pop("documents", TEXTS), model=ScriptedModel([*replies]), **seen)


def run_code(code: str) -> ToolCall:
    return ToolCall("", "run_code", {"code": code})


async def analysed(toolset: Any, **arguments: str) -> tuple[Any, list[Event]]:
    events: list[Event] = []
    model = ScriptedModel([ToolCall("", "analyze", arguments), "done"])
    async with Agent(model, tools=[toolset], on_event=events.append) as agent:
        await agent.ask("go")
        (result,) = [one for message in agent.messages for one in message.tool_results]
    return result, events


async def test_a_task_is_answered_by_a_program_over_what_may_be_seen() -> None:
    result, events = await analysed(analyst(run_code("1/0"), run_code(COUNT), "60 in all."), task="All sales?")
    assert json.loads(result.text) == {"answer": "60 in all.", "programs": [COUNT]}
    inner = [event.event for event in events if isinstance(event, SubagentEvent)]
    told = [event.result.text for event in inner if isinstance(event, ToolCallFinished) and not event.parent]
    assert told[-1] == "60"


async def test_one_document_alone() -> None:
    program = (
        "from tools.functions import get_document, list_documents, search_documents\n"
        "print(await list_documents(), [p['document'] for p in await search_documents(query='Sales')])\n"
        "try:\n    await get_document(name='Report 2024')\nexcept ValueError as error:\n    print(error)\n"
        "await get_document(name='Report 2025')"
    )
    result, events = await analysed(analyst(run_code(program), "ok"), task="?", document_name="report2025")
    assert json.loads(result.text)["answer"] == "ok"
    told = [
        e.event.result.text for e in events if isinstance(e, SubagentEvent) and isinstance(e.event, ToolCallFinished)
    ]
    assert told[-1].splitlines()[:2] == [
        "['Report 2025'] ['Report 2025']",
        'There is no document "Report 2024". Near: Report 2025.',
    ]
    assert "\n[not, json\n" in told[-1]


@each_row(
    "name, words",
    [("Report", "may be 2 documents: Report 2024, Report 2025"), ("secret/Board", "There is no document"), ("x", "no")],
)
async def test_a_name_that_means_no_document_or_several_is_told(name: str, words: str) -> None:
    result, _ = await analysed(analyst("never"), task="?", document_name=name)
    assert result.error == "invalid_arguments"
    assert words in result.text


async def test_a_store_is_not_taken_at_its_word() -> None:
    class Store:
        async def names(self) -> Sequence[str]:
            return list(TEXTS)

        async def text(self, name: str) -> str:
            return TEXTS[name]

        async def search(self, query: str, limit: int, among: Sequence[str]) -> Sequence[Passage]:
            return [Passage(name, f"{query} {limit}") for name in TEXTS]

    program = "from tools.functions import search_documents\nawait search_documents(query='q', limit=3)"
    result, events = await analysed(analyst(run_code(program), "ok", documents=Store()), task="?")
    told = [
        e.event.result.text for e in events if isinstance(e, SubagentEvent) and isinstance(e.event, ToolCallFinished)
    ]
    assert result.error is None
    assert "q 3" in told[-1]
    assert "secret" not in told[-1]


async def test_in_code_mode_it_is_a_function_with_a_type() -> None:
    program = "from tools.functions import analyze\nfound = await analyze(task='?')\nprint(found['answer'])"
    wrong = "from tools.functions import analyze\nfound = await analyze(task='?')\nprint(found['anser'])"
    search = ToolCall("", "search_tools", {"query": "analyze documents"})
    model = ScriptedModel([search, run_code(wrong), run_code(program), "done"])
    async with Agent(model, tools=[analyst("sixty")], code_mode=True) as agent:
        await agent.ask("go")
        results = [one.text for message in agent.messages for one in message.tool_results]
    assert "was not run" in results[1]
    assert results[2] == "sixty"


async def test_limits_of_the_run_that_calls_count() -> None:
    toolset = analyst(*[run_code("1")] * 20)
    model = ScriptedModel([ToolCall("", "analyze", {"task": "?"}), "done"])
    async with Agent(model, tools=[toolset], options=RunOptions(limits=Limits(turns=4))) as agent:
        await agent.ask("go")
    assert len(model.requests) <= 4


def test_what_is_no_store_is_told() -> None:
    with pytest.raises(ConfigError, match="documents: expected texts by name"):
        create_analysis_toolset(3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="base_filter"):
        create_analysis_toolset({}, base_filter="x")  # type: ignore[arg-type]
