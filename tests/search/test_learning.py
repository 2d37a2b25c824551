"""What use teaches: recorded searches lift the tools that served them, and nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcpagent.models.scripted import ScriptedModel
from mcpagent.search import SearchHistory, ToolIndex
from mcpagent.search.learning import HALF_LIFE_SECONDS, MOST_RAISED, UsagePrior, served_queries
from mcpagent.search.result import RankingName
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import Part, Text, ToolCall, ToolDefinition, ToolKey, ToolResult, ToolsChanged, ToolsShown
from tests.scenes import CountedTools, call, searching_agent
from tests.tables import each_row

KINDS = ("invoice", "customer", "ticket", "parcel", "contract", "branch")
VERBS = ("create", "list", "delete", "update", "close")


def catalogue() -> list[ToolDefinition]:
    return [
        ToolDefinition(f"{verb}_{kind}", f"{verb.title()} one {kind} of the company", {}, "main")
        for kind in KINDS
        for verb in VERBS
    ]


def keys(*names: str) -> list[ToolKey]:
    """The tools of these names in the catalogue."""
    return [ToolKey("main", name) for name in names]


def index_with(history: SearchHistory | None, strategy: RankingName = "bm25") -> ToolIndex:
    index = ToolIndex(strategy, history=history)
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
        history.record(need, added=keys(tool), called=keys(tool))
    after = index_with(history)
    first_after = sum(after.search(need + " please").names[:1] == (tool,) for need, tool in needs.items())
    assert first_before < first_after == len(needs)
    for query, names in others.items():
        found = after.search(query).names
        assert (found[0], set(found)) == (names[0], set(names))


def favoured(history: SearchHistory, text: str) -> dict[str, float]:
    scores = UsagePrior(history).scores(text, lambda _term: 1.0)
    return {key.name: score for key, score in scores.items()}


def test_a_tool_only_added_counts_less_than_one_called(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of paper", added=keys("delete_invoice", "list_invoice"), called=keys("delete_invoice"))
    favours = favoured(history, "rid of paper")
    assert favours["delete_invoice"] > favours["list_invoice"] > 0


def test_unlike_queries_are_not_touched(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of paper", added=[], called=keys("delete_invoice"))
    history.record("tear up the contract", added=[], called=keys("close_contract"))
    assert favoured(history, "photos of the town at night") == favoured(history, "") == {}
    faint = favoured(history, "paper aeroplanes over the town at night")
    meant = favoured(history, "get rid of the paper")
    assert faint["delete_invoice"] < 0.5 < meant["delete_invoice"]


def test_reasons_say_that_it_was_learned(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of old paper", added=[], called=keys("delete_invoice"))
    (first, *_) = index_with(history).search("rid of old paper").matches
    assert first.tool.name == "delete_invoice"
    assert any(reason.field == "history" for reason in first.reasons)


def test_uses_are_shown_counted_and_cleared(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "deep" / "history.sqlite3")
    assert history.uses() == []
    history.record("rid of old paper", added=keys("delete_invoice"), called=[])
    history.record("old paper, rid of", added=keys("delete_invoice"), called=keys("delete_invoice"))
    (use,) = SearchHistory(tmp_path / "deep" / "history.sqlite3").uses()
    assert (use.tool, use.added, use.called) == (ToolKey("main", "delete_invoice"), 2, 1)
    assert history.clear() == 1
    assert (history.uses(), favoured(history, "rid of old paper")) == ([], {})


def test_a_broken_file_costs_nothing_but_a_note(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    path.write_bytes(b"not a database at all" * 100)
    result = index_with(SearchHistory(path)).search("create invoice")
    assert result.names[0] == "create_invoice"
    assert any("history" in note for note in result.notes)


def test_a_query_too_long_to_be_ours_is_not_read(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of old paper", [], keys("close_ticket"))
    with closing(sqlite3.connect(history.path)) as connection, connection:
        connection.execute("UPDATE uses SET query = ?", ("rid of old paper " * 1000,))
    assert history.uses() == []


def test_a_forgotten_tool_is_not_found_again(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("rid of old paper", added=[], called=keys("no_such_tool"))
    assert "no_such_tool" not in index_with(history).search("rid of old paper").names


@each_row("query", ["", "the of and", "\0" * 50, "x" * 10_000])
def test_any_query_can_be_recorded(tmp_path: Path, query: str) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record(query, added=keys("a"), called=keys("a"))
    assert isinstance(favoured(history, query), dict)


class Clock:
    """Unix time that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1_000_000_000.0

    def __call__(self) -> float:
        return self.seconds


def test_what_was_not_used_for_long_fades(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "history.sqlite3"
    SearchHistory(path, clock=clock).record("rid of old paper", added=[], called=keys("delete_invoice"))
    strengths = []
    for _ in range(6):
        strengths.append(favoured(SearchHistory(path, clock=clock), "rid of old paper")["delete_invoice"])
        clock.seconds += HALF_LIFE_SECONDS
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[-1] < 0.1 < 0.9 < strengths[0]


def test_much_use_is_capped(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    for _ in range(50):
        history.record("paper stuff", added=[], called=keys("delete_invoice"))
    assert favoured(history, "paper stuff") == {"delete_invoice": 1.0}
    assert favoured(history, "paper in the drawer upstairs")["delete_invoice"] < 1


@each_row("strategy", ["bm25", "hybrid"])
def test_at_most_three_tools_are_raised_by_one_search(tmp_path: Path, strategy: RankingName) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    history = SearchHistory(tmp_path / "history.sqlite3")
    for kind in KINDS:
        history.record("tidy up the office", added=[], called=keys(f"close_{kind}"))
    matches = index_with(history, strategy).search("tidy up the office").matches
    learned = [match for match in matches if any(reason.field == "history" for reason in match.reasons)]
    assert len(learned) == MOST_RAISED
    assert matches[:MOST_RAISED] == tuple(learned)


@each_row("strategy", ["bm25", "hybrid"])
@each_row(
    "query", ["create_invoice", "create invoice", "createInvoice", "main.create_invoice", "select:create_invoice"]
)
def test_no_use_stands_above_a_name(tmp_path: Path, strategy: RankingName, query: str) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    history = SearchHistory(tmp_path / "history.sqlite3")
    for _ in range(20):
        history.record(query, added=[], called=keys("delete_contract", "list_branch", "close_ticket"))
    assert index_with(history, strategy).search(query).names[0] == "create_invoice"


def test_something_like_it_does_not_make_a_weak_match_sure(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    history.record("tidy up the office before the party", added=[], called=keys("delete_invoice"))
    index = index_with(history)
    assert index.search("book a table at the office canteen").confidence != "high"
    assert index.search("tidy up the office before the party").confidence == "high"


FOUND = ("delete_invoice", "list_invoice", "close_ticket")


def parts_of_a_search() -> list[Part]:
    answer = (Text("{}"),)
    return [
        ToolCall("1", "search_tools", {"query": "rid of old paper"}),
        ToolResult("1", "search_tools", answer),
        ToolsShown(FOUND, tuple(keys(*FOUND))),
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
        keys("delete_invoice", "close_ticket"),
        keys("delete_invoice"),
        [],
    )
    later = served_queries(parts, since=6)["rid of old paper"]
    assert (list(later.added), list(later.called)) == ([], keys("delete_invoice"))
    assert served_queries(parts, since=len(parts)) == {}


def test_what_is_loaded_without_a_search_is_not_taken_for_the_answer_to_an_earlier_one() -> None:
    loaded = tuple(tool for tool in catalogue() if tool.name == "create_branch")
    parts: list[Part] = [
        ToolCall("1", "search_tools", {"query": "rid of old paper"}),
        ToolResult("1", "search_tools", (Text("{}"),)),
        Text("There is no such tool."),
        Text("Loaded for what is asked next: create_branch."),
        ToolsChanged(added=loaded),
        ToolCall("2", "create_branch", {}),
        ToolResult("2", "create_branch", (Text("{}"),)),
    ]
    assert served_queries(parts) == {}


def test_all_that_one_call_searched_is_remembered() -> None:
    search = ToolCall("1", "search_tools", {"query": "paper", "queries": ["rid of it", "a branch"]})
    (_, *rest) = parts_of_a_search()
    assert [*served_queries([search, *rest])] == ["paper rid of it a branch"]


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
            ("fetch the notes", ToolKey("files", "open_notes"), 1, 1)
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
