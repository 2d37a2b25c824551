"""Citation numbers are stable, histories are bounded, and each feature has its namespaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpagent import InputError
from mcpagent.documents import (
    QA_SESSION_NAMESPACE,
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentCitation,
    QAHistoryEntry,
    QASessionState,
    SearchState,
    SessionState,
    ToolContext,
    prepare_context,
)
from tests.documents.memory_store import climate
from tests.documents.toolset_scene import prepared
from tests.tables import each_row


def citation(index: int) -> DocumentCitation:
    return DocumentCitation(index=index, document_id="d", chunk_id=f"c{index}", document_uri="u", document_title="t")


def test_numbers_are_stable_and_continue_after_a_restore() -> None:
    state = SessionState()
    assert [state.get_or_assign_index(chunk) for chunk in ("a", "b", "a")] == [1, 2, 1]
    restored = SessionState.model_validate(json.loads(state.model_dump_json()))
    assert [restored.get_or_assign_index(chunk) for chunk in ("b", "c")] == [2, 3]
    with_gap = SessionState(citation_registry={"z": 7})
    assert with_gap.get_or_assign_index("y") == 8


def test_a_number_has_one_citation_and_old_ones_are_dropped() -> None:
    state = SessionState()
    state.remember([citation(number) for number in range(1, 600)])
    state.remember([citation(599).model_copy(update={"content": "new"})])
    assert [one.index for one in state.citations] == list(range(400, 600))
    assert state.citations[-1].content == "new"


def test_histories_are_bounded() -> None:
    answers, searches = QASessionState(), SearchState()
    for number in range(60):
        answers.add(QAHistoryEntry(question=f"q{number}", answer="a", question_embedding=[1.0]))
        searches.add([citation(number)] * 20)
    assert [one.question for one in answers.qa_history] == [f"q{number}" for number in range(10, 60)]
    assert len(searches.results) == 200
    assert "embedding" not in answers.model_dump_json()


@each_row(
    "features, namespaces",
    [
        (["search"], [SESSION_NAMESPACE]),
        (["documents"], []),
        (["analysis"], [SESSION_NAMESPACE]),
        (["search", "documents", "qa"], [SESSION_NAMESPACE, QA_SESSION_NAMESPACE]),
    ],
)
def test_each_feature_has_its_namespaces(features: list[str], namespaces: list[str]) -> None:
    context = prepared(*features)
    assert prepare_context(context, features).namespaces == namespaces


def test_the_flat_state_is_that_of_the_seed() -> None:
    state = prepared("search", "qa", state_key="app").state
    empty: dict[str, Any] = {
        "document_filter": [],
        "citation_registry": {},
        "citations": [],
        "qa_history": [],
        "session_context": None,
    }
    assert state == {"app": empty}


def test_a_client_sets_the_document_filter_alone() -> None:
    """Citations or answers from a client would be forged sources."""
    deps = AgentDeps(climate(), prepared("search", "qa"), state_key="app")
    forged = [citation(1).model_dump()]
    deps.state = {"app": {"document_filter": ["sea"], "citations": forged, "session_context": "x"}, "other": 1}
    shown = deps.state["app"]
    assert (shown["document_filter"], shown["citations"], shown["session_context"]) == (["sea"], [], None)
    with pytest.raises(InputError, match="document_filter"):
        deps.state = {"app": {"document_filter": 3}}


def test_deps_without_a_context_have_no_state() -> None:
    deps = AgentDeps(climate())
    deps.state = {"document_filter": ["sea"]}
    assert deps.state == {}
    assert ToolContext().get(SESSION_NAMESPACE) is None
