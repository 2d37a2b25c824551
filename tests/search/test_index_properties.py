"""Whatever the query or the tools: a search answers, in time, and the same every time."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcpagent.search import ToolIndex, call_signature, first_sentences
from mcpagent.search.result import RankingName
from mcpagent.values.messages import ToolDefinition
from tests.speed import within
from tests.tables import each_row

VERBS = ("get", "list", "create", "delete", "search", "send", "update", "convert")
THINGS = (
    "file",
    "issue",
    "message",
    "calendar event",
    "user",
    "invoice",
    "image",
    "database table",
    "weather forecast",
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": JSON,
        "properties": st.dictionaries(st.text(max_size=12), JSON, max_size=4) | JSON,
        "required": JSON,
        "$defs": JSON,
        "items": JSON,
        "anyOf": JSON,
    },
)
OPERATORS = st.text(alphabet="ab(){}[]|*+?.^$\\dw-_:;,\"' \n0123456789", max_size=120)
QUERIES = st.text(max_size=300) | OPERATORS | st.text(alphabet="aeinrst ", max_size=3000)


def tools_numbered(numbers: range) -> list[ToolDefinition]:
    return [
        ToolDefinition(
            f"{verb}_{thing.replace(' ', '_')}_{number}",
            f"{verb.title()} a {thing} in place number {number}. " * 3,
            {
                "type": "object",
                "properties": {f"{thing.split()[0]}_id": {"type": "string", "description": "aaaaaaaaaa"}},
            },
            "main",
        )
        for verb in VERBS
        for thing in THINGS
        for number in numbers
    ]


def catalogue(strategy: RankingName, numbers: range) -> ToolIndex:
    index = ToolIndex(strategy)
    index.replace("main", tools_numbered(numbers))
    return index


@cache
def five_hundred_tools() -> ToolIndex:
    return catalogue("bm25", range(7))


HOSTILE = [
    "word " * 50_000,
    "a" * 200_000,
    "a_b_" * 5000,
    "(" * 300,
    "a|" * 90 + "b",
    "select:" + "x," * 2000,
    "main: " * 100,
    "🧨" * 5000,
    "(a+)+$",
    "(.*a){20}",
    "create_(?=.*(file|issue).*)*b" * 5,
    "get the file. " * 2000,
    "gte teh flie " * 2000,
    "x" * 64,
    "\x00\ud800",
]


@settings(max_examples=60)
@given(QUERIES)
def test_no_query_raises_or_takes_over_a_second(query: str) -> None:
    index = five_hundred_tools()
    start = time.thread_time()
    result = index.search(query)
    assert within(time.thread_time() - start, 1)
    assert sum(match.odds != "weak" for match in result.matches) == min(result.found, len(result.matches))
    assert len(set(result.names)) == len(result.names)
    for match in result.matches:
        assert match.reasons


@settings(max_examples=30)
@given(st.lists(QUERIES, max_size=5))
def test_lists_of_queries_too(queries: list[str]) -> None:
    assert len(five_hundred_tools().search(queries, limit=3).matches) <= 50


@each_row("query", HOSTILE)
def test_hostile_queries_take_under_a_second(query: str) -> None:
    index = five_hundred_tools()
    start = time.thread_time()
    index.search(query)
    assert within(time.thread_time() - start, 1)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", "regex", "bm25", "hybrid"])
def test_nor_over_ten_thousand_tools_by_any_strategy(strategy: RankingName) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    index = catalogue(strategy, range(150))
    assert len(index) > 10_000
    index.search("makes the vectors, once")

    @settings(max_examples=60)
    @given(QUERIES | st.lists(QUERIES, max_size=3))
    def check(query: str | list[str]) -> None:
        start = time.thread_time()
        index.search(query)
        assert within(time.thread_time() - start, 1)

    for query in HOSTILE:
        check = example(query)(check)
    check()


@settings(max_examples=25)
@given(st.text(max_size=40), st.text(max_size=200), SCHEMAS)
def test_any_tool_can_be_indexed_found_and_removed(name: str, description: str, schema: dict[str, Any]) -> None:
    index = ToolIndex("bm25")
    strange = ToolDefinition(name, description, schema, "odd", name)
    index.replace("odd", [strange, ToolDefinition("plain_tool", "Does plain things", {}, "odd")])
    index.search(description or "x")
    assert isinstance(call_signature(strange), str)
    assert len(first_sentences(description, 100)) <= 100
    index.replace("odd", [])
    assert (len(index), index.search("plain things").matches) == (0, ())


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(range(40)), max_size=25),
    st.sampled_from(["create issue", "weather", "send a file to a user"]),
)
def test_changes_leave_no_trace(removed: list[int], query: str) -> None:
    tools = tools_numbered(range(7))[::12][:40]
    kept = [tool for number, tool in enumerate(tools) if number not in removed]
    changed, fresh = ToolIndex("bm25"), ToolIndex("bm25")
    changed.replace("main", tools)
    changed.replace("main", kept)
    fresh.replace("main", kept)
    one, other = changed.search(query), fresh.search(query)
    assert [(match.tool.name, match.score) for match in one.matches] == [
        (match.tool.name, match.score) for match in other.matches
    ]
    assert one.nearest == other.nearest
