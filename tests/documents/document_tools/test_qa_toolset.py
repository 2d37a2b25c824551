"""`create_qa_toolset` and `run_qa_core`: answers with citations that exist, recall of earlier answers, callbacks."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mcpagent import Agent, InputError, ModelRequest, OutputError, ScriptedModel, ToolCall, ToolContext
from mcpagent.documents import (
    QA_SESSION_NAMESPACE,
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentConfig,
    QAResult,
    QASessionState,
    SessionState,
    UriPrefix,
    create_qa_toolset,
    run_qa_core,
)
from tests.documents.memory_store import MemoryStore, climate, made
from tests.documents.toolset_scene import called, prepared
from tests.tables import each_row

pytestmark = pytest.mark.anyio

CONFIG = DocumentConfig()
QUESTION = "How fast does the sea rise?"


def answer(text: str, *citations: int, confidence: float = 0.9) -> str:
    return json.dumps({"answer": text, "confidence": confidence, "citations": citations})


async def core(*replies: Any, question: str = QUESTION, store: MemoryStore | None = None, **options: Any) -> QAResult:
    config = DocumentConfig(model=ScriptedModel([*replies]))
    return await run_qa_core(client=store or climate(), config=config, question=question, **options)


def history_of(context: ToolContext) -> QASessionState:
    state = context.get(QA_SESSION_NAMESPACE, QASessionState)
    assert state is not None
    return state


async def test_an_answer_has_its_sources() -> None:
    context = prepared("qa")
    search = ToolCall("", "search", {"query": "storms"})
    toolset = create_qa_toolset(CONFIG)
    model = [search, answer("4 mm a year [1], and storms grow [3].", 1)]
    call = ("ask", {"question": "sea rises", "document_name": ""})
    [result] = await called(toolset, call, store=climate(), context=context, model=model)
    assert result.text.splitlines() == [
        "4 mm a year [1], and storms grow [3].",
        "",
        "Sources:",
        "[1] **Sea** > Sea level (p. 3)",
        "[3] **Sea** > Storms (p. 3)",
    ]
    session = context.get(SESSION_NAMESPACE, SessionState)
    assert session is not None
    assert [one.content for one in history_of(context).qa_history[0].citations] == [
        "The sea rises 4 mm a year.\n\nTides hide the rise.",
        "Storms grow.",
    ]


@each_row(
    "given, citations, text, cited",
    [
        ("Yes [1].", [], "Yes [1].", [1]),
        ("Yes [77].", [88], "Yes.", []),
        ("Yes [1, 77].", [], "Yes [1].", [1]),
        ("Yes [77][1].", [1, 1, 2], "Yes[1].", [1, 2]),
        ("`x[9]` and\n```\ny[8]\n```", [], "`x[9]` and\n```\ny[8]\n```", []),
        ("No.", [-1, 0, 10**30], "No.", []),
    ],
)
async def test_a_citation_that_does_not_exist_is_dropped(
    given: str, citations: list[int], text: str, cited: list[int]
) -> None:
    result = await core(answer(given, *citations))
    assert (result.answer, [one.index for one in result.citations]) == (text, cited)


async def test_a_passage_that_was_removed_meanwhile_is_not_cited() -> None:
    store = climate()

    def removing(_: ModelRequest) -> str:
        store.stored.pop("climate/sea.md")
        return answer("4 mm [1], 9 million [3].")

    result = await core(removing, store=store)
    assert (result.answer, [one.document_title for one in result.citations]) == ("4 mm, 9 million [3].", ["Secret"])


async def test_similar_questions_recall_earlier_answers_within_the_filter() -> None:
    context, requests = prepared("qa"), list[str]()

    def reply(request: ModelRequest) -> str:
        requests.append(request.messages[-1].text)
        return answer("4 mm a year [1].")

    for _ in range(2):
        await core(reply, context=context)
    await core(reply, context=context, base_filter=UriPrefix("board/"))
    assert ["Earlier question and answer" in text for text in requests] == [False, True, False]
    assert "4 mm a year [1]." in requests[1]
    assert "4 mm" not in requests[2]


async def test_numbers_are_unique_without_session_state() -> None:
    """A recalled passage and a found one must not share a number."""
    context = ToolContext()
    context.register(QA_SESSION_NAMESPACE, QASessionState())
    await core(answer("4 mm a year [1]."), context=context)
    store = MemoryStore(
        [*climate().stored.values(), made("new", "How fast does the sea rise? Fast does the sea rise.")]
    )
    [cited] = (await core(answer("4 mm a year [1]."), context=context, store=store)).citations
    assert cited.content == "The sea rises 4 mm a year."


async def test_fifty_answers_are_stored_and_the_callback_gets_them() -> None:
    context, seen = prepared("qa"), list[int]()

    def note(state: QASessionState, config: DocumentConfig) -> None:
        assert isinstance(config, DocumentConfig)
        seen.append(len(state.qa_history))

    for number in range(52):
        await core(answer(f"a{number}"), question=f"question{number}", context=context, on_qa_complete=note)
    assert seen == [*range(1, 51), 50, 50]
    assert history_of(context).qa_history[0].answer == "a2"
    await core(answer("a"), on_qa_complete=note)
    assert seen[-1] == 1


async def test_an_asynchronous_callback_is_awaited_and_a_failing_one_logged(caplog: pytest.LogCaptureFixture) -> None:
    context = prepared("qa")

    async def summarise(state: QASessionState, _: DocumentConfig) -> None:
        state.session_context = f"{len(state.qa_history)} answers"
        raise ValueError("no disk")

    with caplog.at_level(logging.ERROR, "mcpagent"):
        assert (await core(answer("yes"), context=context, on_qa_complete=summarise)).answer == "yes"
    assert context.state["session_context"] == "1 answers"
    assert "on_ask_complete failed" in caplog.text


async def test_the_model_is_told_about_the_session_and_the_document() -> None:
    texts: list[str] = []

    def reply(request: ModelRequest) -> str:
        texts.append(request.messages[-1].text)
        return answer("0.2 [1]", confidence=7)

    context = prepared("qa")
    history_of(context).session_context = "A student asks."
    result = await core(reply, question="sea or air?", document_name="AIR", context=context)
    await core(reply, session_context="A builder asks.", context=context)
    assert "A student asks." in texts[0]
    assert "The sea" not in texts[0]
    assert "A builder asks." in texts[1]
    assert "A student" not in texts[1]
    assert (result.confidence, result.citations[0].document_uri) == (1.0, "climate/air.md")


@each_row(
    "arguments, words",
    [
        ({"question": " "}, "question: it is empty"),
        ({"question": "?", "document_name": "secret"}, 'Document not found: "secret".'),
    ],
)
async def test_an_unusable_question_is_a_result(arguments: dict[str, Any], words: str) -> None:
    store = MemoryStore()
    [result] = await called(create_qa_toolset(CONFIG, UriPrefix("climate/")), ("ask", arguments), store=store)
    assert result.error == "invalid_arguments"
    assert words in result.text


async def test_an_answer_that_does_not_fit_raises() -> None:
    with pytest.raises(OutputError):
        await core("no JSON", "still none")
    with pytest.raises(InputError, match="it is empty"):
        await core(question="")


async def test_usage_counts_for_the_run_that_asks() -> None:
    model = ScriptedModel([ToolCall("", "ask", {"question": QUESTION}), answer("4 mm [1]."), "done"])
    async with Agent(model, tools=[create_qa_toolset(CONFIG)]) as agent:
        result = await agent.session(deps=AgentDeps(climate())).run("go")
    assert (result.answer, result.usage.requests) == ("done", 3)
