"""`create_search_toolset`: numbered passages, within the filters of developer, session and call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall
from mcpagent.documents import (
    SEARCH_NAMESPACE,
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentConfig,
    NameContains,
    SearchState,
    SessionState,
    ToolContext,
    UriPrefix,
    create_search_toolset,
)
from mcpagent.values.events import Event, StateDelta, StateSnapshot
from tests.documents.memory_store import MemoryStore, climate, made
from tests.documents.toolset_scene import called, prepared
from tests.tables import each_row

pytestmark = pytest.mark.anyio

CONFIG = DocumentConfig()
SEA = "[1] **Sea** > Sea level (p. 3)\n    The sea rises 4 mm a year.\n    \n    Tides hide the rise."
WALL = "[2] **Secret** > Plans\n    The sea wall costs 9 million."


def search(query: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return "search", {"query": query, **arguments}


async def test_results_are_numbered_and_keep_their_numbers() -> None:
    context = prepared("search")
    toolset = create_search_toolset(CONFIG)
    first, second = await called(toolset, search("sea rises"), search("sea wall"), store=climate(), context=context)
    assert first.text == f"Found 2 results:\n\n{SEA}\n\n{WALL}"
    assert second.text == f"Found 2 results:\n\n{WALL}\n\n{SEA}"
    restored = ToolContext()
    restored.restore_namespaces(context.dump_namespaces())
    [third] = await called(toolset, search("sea wall"), store=climate(), context=prepared_again(restored))
    assert third.text == second.text
    results = context.get(SEARCH_NAMESPACE, SearchState)
    assert results is not None
    assert [one.index for one in results.results] == [1, 2, 2, 1]


def prepared_again(context: ToolContext) -> ToolContext:
    context.get_or_create(SESSION_NAMESPACE, SessionState)
    return context


async def test_without_session_state_each_call_counts_from_one() -> None:
    results = await called(create_search_toolset(CONFIG), search("sea wall"), search("tides"), store=climate())
    assert [result.text.split("\n\n")[1][:3] for result in results] == ["[1]", "[1]"]


async def test_numbers_are_the_same_in_another_process(tmp_path: Path) -> None:
    """The state is stored with the session; a new agent with the same store of sessions restores it."""
    numbers: list[str] = []
    for query in ("sea wall", "the sea rises a year"):
        model = ScriptedModel([ToolCall("1", "search", {"query": query}), "done"])
        options: dict[str, Any] = {"tools": [create_search_toolset(CONFIG)], "sessions": tmp_path / "sessions.db"}
        async with Agent(model, **options) as agent:
            context = prepared("search")
            session = agent.session("ann", deps=AgentDeps(climate(), context), tool_context=context)
            await session.ask("go")
            text = session.messages[-2].tool_results[0].text
            numbers += [line for line in text.splitlines() if line.startswith("[")]
    assert numbers[:2] == ["[1] **Secret** > Plans", "[2] **Sea** > Sea level (p. 3)"]
    assert numbers[2] == "[2] **Sea** > Sea level (p. 3)"
    assert "[1] **Secret** > Plans" in numbers[3:]


@each_row(
    "arguments, error, text",
    [
        ({"query": "nothing of this"}, None, "No results found."),
        ({"query": " \n"}, "invalid_arguments", "query: it is empty; give the words to search for"),
        ({"query": "sea", "limit": 0}, "invalid_arguments", "limit: expected 1 to 50, got 0"),
        ({"query": "sea", "limit": 51}, "invalid_arguments", "limit: expected 1 to 50, got 51"),
    ],
)
async def test_what_cannot_be_searched_is_a_result(arguments: dict[str, Any], error: str | None, text: str) -> None:
    [result] = await called(create_search_toolset(CONFIG), ("search", arguments), store=climate())
    assert (result.error, result.text) == (error, text)


@each_row(
    "base, session, call, titles",
    [
        (None, [], {}, ["Sea", "Air", "Secret"]),
        (UriPrefix("climate/"), [], {}, ["Sea", "Air"]),
        (UriPrefix("climate/"), ["sea", "secret"], {}, ["Sea"]),
        (UriPrefix("climate/"), [], {"name": "secret"}, []),
        (None, ["secret"], {"uri_prefix": "climate/"}, []),
        (NameContains("e"), ["sea", "air"], {"uri_prefix": "climate/"}, ["Sea", "Air"]),
    ],
)
async def test_three_filters_apply_together(base: Any, session: list[str], call: Any, titles: list[str]) -> None:
    context = prepared("search")
    state = context.get(SESSION_NAMESPACE, SessionState)
    assert state is not None
    state.document_filter = session
    toolset = create_search_toolset(CONFIG, base_filter=base)
    await called(toolset, search("the sea air rises", filter=call), store=climate(), context=context)
    assert list(dict.fromkeys(one.document_title for one in state.citations)) == titles


async def test_neighbours_of_the_section_are_added_unless_they_were_found_themselves() -> None:
    store = MemoryStore([made("a", "# One\n\nfirst\n\nsecond word\n\nthird\n\n# Two\n\nother")])
    alone = create_search_toolset(CONFIG, expand_context=False, tool_name="find")
    [result] = await called(alone, ("find", {"query": "second"}), store=store)
    assert result.text.endswith("    second word")
    [result] = await called(create_search_toolset(CONFIG), search("second"), store=store)
    assert result.text.endswith("    first\n    \n    second word\n    \n    third")
    [result] = await called(create_search_toolset(CONFIG), search("second third"), store=store)
    assert result.text.count("third") == 1


async def test_a_title_or_text_cannot_imitate_another_result() -> None:
    store = MemoryStore([made("a", "word\n[9] **Board** says\n" + "long " * 1_000, "T\n[8] **Fake**")])
    [result] = await called(create_search_toolset(DocumentConfig(passage_characters=40)), search("word"), store=store)
    head, *rest = result.text.split("\n\n")[1].splitlines()
    assert head.startswith("[1] **T")
    assert all(line.startswith("    ") for line in rest)
    assert rest[-1].endswith("...")


async def test_the_client_gets_a_delta_with_the_citations() -> None:
    events: list[Event] = []
    context = prepared("search", state_key="app")
    await called(create_search_toolset(CONFIG), search("tides"), store=climate(), context=context, events=events)
    [snapshot] = [event for event in events if isinstance(event, StateSnapshot)]
    [delta] = [event for event in events if isinstance(event, StateDelta)]
    assert snapshot.state == {"app": {"document_filter": [], "citation_registry": {}, "citations": []}}
    assert [change["path"] for change in delta.patch if change["path"].startswith("/app/citations")]
    assert context.state["app"]["citations"][0]["document_uri"] == "climate/sea.md"


async def test_without_a_store_the_fix_is_named() -> None:
    [result] = await called(create_search_toolset(CONFIG), search("sea"), store=None)
    assert result.error == "failed"
    assert "deps=AgentDeps(client=store)" in result.text
