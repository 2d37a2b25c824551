"""What use teaches: recorded searches lift the tools that served them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent.messages import ToolDefinition
from mcpagent.search import SearchHistory, ToolIndex

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
