"""What use teaches: recorded searches lift the tools that served them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent.events import Event, Notice
from mcpagent.messages import Part, Text, ToolCall, ToolDefinition, ToolResult, ToolsChanged, ToolsShown
from mcpagent.models.scripted import ScriptedModel
from mcpagent.search import SearchHistory, ToolIndex
from mcpagent.search.learning import served_queries
from tests.scenes import CountedTools, call, searching_agent

KINDS = ("invoice", "customer", "ticket", "parcel", "contract", "branch")
VERBS = ("create", "list", "delete", "update", "close")


def catalogue() -> list[ToolDefinition]:
    return [
        ToolDefinition(f"{verb}_{kind}", f"{verb.title()} one {kind} of the company", {}, "main")
        for kind in KINDS
        for verb in VERBS
    ]


def index_with(history: SearchHistory | None) -> ToolIndex:
    index = ToolIndex("bm25", history=history)
    index.replace("main", catalogue())
    return index


def test_repeated_needs_find_their_tool_first_and_others_stay(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    before = index_with(None)
    needs = {f"get rid of the old {kind}": f"delete_{kind}" for kind in KINDS}
    other_queries = [f"{verb} {kind}" for kind in KINDS for verb in VERBS]
    others = {query: before.search(query).names for query in other_queries}
    first_before = sum(before.search(need).names[:1] == (tool,) for need, tool in needs.items())
    for need, tool in needs.items():
        history.record(need, added=[tool], called=[tool])
    after = index_with(history)
    first_after = sum(after.search(need + " please").names[:1] == (tool,) for need, tool in needs.items())
    assert first_before < first_after == len(needs)
    assert {query: after.search(query).names for query in others} == others


def test_a_tool_only_added_counts_less_than_one_called(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of paper", added=["delete_invoice", "list_invoice"], called=["delete_invoice"])
    favours = history.favour("rid of paper")
    assert favours["delete_invoice"] > favours["list_invoice"] > 0


def test_unlike_queries_are_not_touched(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of paper", added=[], called=["delete_invoice"])
    assert history.favour("paper aeroplanes over the town at night") == {}
    assert history.favour("") == {}


def test_reasons_say_that_it_was_learned(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of old paper", added=[], called=["delete_invoice"])
    (first, *_) = index_with(history).search("rid of old paper").matches
    assert first.tool.name == "delete_invoice"
    assert any(reason.field == "history" for reason in first.reasons)


def test_uses_are_shown_counted_and_cleared(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "deep" / "history.sqlite3")
    assert history.uses() == []
    history.record("rid of old paper", added=["delete_invoice"], called=[])
    history.record("old paper, rid of", added=["delete_invoice"], called=["delete_invoice"])
    (use,) = SearchHistory(tmp_path / "deep" / "history.sqlite3").uses()
    assert (use.tool, use.added, use.called) == ("delete_invoice", 2, 1)
    assert history.clear() == 1
    assert (history.uses(), history.favour("rid of old paper")) == ([], {})


def test_a_broken_file_costs_nothing_but_a_note(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    path.write_bytes(b"not a database at all" * 100)
    result = index_with(SearchHistory(path)).search("create invoice")
    assert result.names[0] == "create_invoice"
    assert any("history" in note for note in result.notes)


def test_a_forgotten_tool_is_not_found_again(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of old paper", added=[], called=["no_such_tool"])
    assert "no_such_tool" not in index_with(history).search("rid of old paper").names


@pytest.mark.parametrize("query", ["", "the of and", "\0" * 50, "x" * 10_000])
def test_any_query_can_be_recorded(tmp_path: Path, query: str) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record(query, added=["a"], called=["a"])
    assert isinstance(history.favour(query), dict)


def parts_of_a_search() -> list[Part]:
    answer = (Text("{}"),)
    return [
        ToolCall("1", "search_tools", {"query": "rid of old paper"}),
        ToolResult("1", "search_tools", answer),
        ToolsShown(("delete_invoice", "list_invoice", "close_ticket")),
        ToolCall("2", "add_tool", {"tool_names": ["delete_invoice", "close_ticket"]}),
        ToolResult("2", "add_tool", answer),
        ToolsChanged(added=tuple(tool for tool in catalogue() if tool.name in ("delete_invoice", "close_ticket"))),
        ToolCall("3", "delete_invoice", {}),
        ToolResult("3", "delete_invoice", answer),
        ToolCall("4", "close_ticket", {}),
        ToolResult("4", "close_ticket", answer, error="failed"),
        ToolCall("5", "create_branch", {}),
        ToolResult("5", "create_branch", answer),
    ]


def test_a_conversation_shows_what_a_search_led_to() -> None:
    parts = parts_of_a_search()
    (query, served), *rest = served_queries(parts).items()
    assert (query, list(served.added), list(served.called), rest) == (
        "rid of old paper",
        ["delete_invoice", "close_ticket"],
        ["delete_invoice"],
        [],
    )
    later = served_queries(parts, since=6)["rid of old paper"]
    assert (list(later.added), list(later.called)) == ([], ["delete_invoice"])
    assert served_queries(parts, since=len(parts)) == {}


async def test_an_agent_with_a_history_learns_from_each_answer_once(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    model = ScriptedModel(
        [
            call("search_tools", query="fetch the notes"),
            call("add_tool", tool_names=["open_notes"]),
            call("open_notes", path="a"),
            "done",
            "nothing to do",
        ]
    )
    tools = CountedTools("open_notes", "fetch_mail", "list_mail")
    async with searching_agent(model, tools, strategy="bm25", history=history) as agent:
        await agent.ask("go")
        await agent.ask("again")
        assert [(use.query, use.tool, use.added, use.called) for use in history.uses()] == [
            ("fetch the notes", "open_notes", 1, 1)
        ]
        assert (await agent.search("fetch the notes")).names[0] == "open_notes"


async def test_an_agent_whose_history_cannot_be_written_answers_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    events: list[Event] = []
    model = ScriptedModel([call("search_tools", query="notes"), call("open_notes", path="a"), "done"])
    history = SearchHistory(tmp_path / "file" / "history.sqlite3")
    tools = CountedTools("open_notes", "list_mail")
    async with searching_agent(model, tools, events=events, strategy="bm25", history=history) as agent:
        assert await agent.ask("go") == "done"
    assert any(isinstance(event, Notice) and "nothing was learned" in event.text for event in events)


async def test_without_a_history_nothing_is_kept(tmp_path: Path) -> None:
    model = ScriptedModel([call("search_tools", query="notes"), call("open_notes", path="a"), "done"])
    folder = tmp_path / "cache"
    async with searching_agent(model, CountedTools("open_notes"), strategy="bm25", cache_folder=folder) as agent:
        await agent.ask("go")
    assert list(tmp_path.rglob("*")) == []
