"""Saying no: what no tool serves finds nothing, what one may serve is shown as weak, and what one serves is found."""

from __future__ import annotations

from functools import cache

import pytest

from mcpagent.search import ToolIndex
from mcpagent.search.query import signs_said
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

VERBS = ("get", "list", "create", "delete", "search", "send", "update", "export", "share", "archive")
THINGS = (
    "file",
    "issue",
    "message",
    "event",
    "user",
    "invoice",
    "image",
    "table",
    "forecast",
    "branch",
    "ticket",
    "page",
    "contact",
)
TOOLS = [
    ToolDefinition(
        f"{verb}_{thing}",
        f"{verb.title()} one {thing} of the workspace",
        {"type": "object", "properties": {"account": {"type": "string", "description": f"Whose {thing} it is"}}},
        f"{thing}s",
    )
    for verb in VERBS
    for thing in THINGS
]
EVERYDAY = [
    ToolDefinition("weather__forecast", "Forecast of rain, wind and sun for the coming days", {}, "weather"),
    ToolDefinition("time__now", "Current time in a city or time zone, as its clocks show it", {}, "time"),
    ToolDefinition("calc__evaluate", "Evaluate an arithmetic expression, with root, sin and cos", {}, "calc"),
    ToolDefinition("home__set_light", "Turn a lamp in a room on or off", {}, "home"),
]
STRATEGIES = ("bm25", "hybrid")


@pytest.fixture(scope="module", params=STRATEGIES)
def index(request: pytest.FixtureRequest) -> ToolIndex:
    if request.param == "hybrid":
        pytest.importorskip("wordllama")
    index = ToolIndex(request.param)
    for thing in THINGS:
        index.replace(f"{thing}s", [tool for tool in TOOLS if tool.server == f"{thing}s"])
    return index


@each_row(
    "request_",
    [
        "what is the capital of France",
        "hello, how are you today?",
        "who wrote the Odyssey",
        "sharpen the kitchen knives",
        "why is the sky blue",
        "play some jazz",
        "thanks a lot, that helped",
    ],
)
def test_what_no_tool_serves_finds_nothing_but_what_is_near(index: ToolIndex, request_: str) -> None:
    result = index.search(request_)
    assert result.matches == ()
    assert result.how == "none"
    assert 0 <= result.strength < result.least


@each_row(
    "request_, tool",
    [
        ("share the image", "share_image"),
        ("forecast", "get_forecast"),
        ("please archive the invoice of my account", "archive_invoice"),
        ("shre the imge", "share_image"),
        ("invioce", "get_invoice"),
        ("could you export a table for me", "export_table"),
        ("create an issue called Beijing and Shanghai in the workspace", "create_issue"),
    ],
)
def test_what_a_tool_serves_is_found(index: ToolIndex, request_: str, tool: str) -> None:
    result = index.search(request_, 10)
    assert tool in result.names
    assert result.is_likely


ODD = [
    ("is it going to rain in Berlin", "weather__"),
    ("clock in Tokyo", "time__"),
    ("what time is it", "time__"),
    ("square root of 2", "calc__"),
    ("the lamp in the kitchen off", "home__"),
]


@cache
def everyday(strategy: str) -> ToolIndex:
    """Only searched by tests."""
    index = ToolIndex(strategy)  # type: ignore[arg-type]
    index.replace("all", [*TOOLS, *EVERYDAY])
    return index


@each_row("strategy", STRATEGIES)
@each_row("request_, prefix", ODD)
def test_what_is_worded_oddly_is_shown_and_marked_if_weak(strategy: str, request_: str, prefix: str) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    result = everyday(strategy).search(request_)
    assert any(name.startswith(prefix) for name in result.names), result.names
    assert result.confidence == ("high" if result.strength >= result.least else "low")
    assert all(match.score > 0 for match in result.matches)


SUMS = ("2+2", "2 ** 8", "2**8", "(3+4)*5", "1.5*2", "what is 3*4?", "10/2", "7-3", "√2", "100 / 7 =")


@cache
def everyday_and_numbers() -> ToolIndex:
    numbered = ToolDefinition("make_22", "Version 2222 of 3334, 77-34 and 105 to 10/2: makes 1.55552 of 3444", {}, "v")
    index = ToolIndex("bm25")
    index.replace("all", [*TOOLS, *EVERYDAY, numbered])
    return index


@each_row("sum_", SUMS)
def test_a_sum_is_reckoned_and_no_pattern(sum_: str) -> None:
    result = everyday_and_numbers().search(sum_)
    assert (result.names[0], result.how, result.error) == ("calc__evaluate", "ranked", "")


@each_row("said", ["2024-05-03", "3/5/2024", "24.12.", "v1.2-beta", "call 0171-555"])
def test_a_date_or_a_number_is_no_sum(said: str) -> None:
    assert signs_said(said) == ""


def test_weak_matches_are_shown_and_not_counted() -> None:
    index = everyday("bm25")
    weak = index.search("who owns the workspace of Berlin and the moon", 2)
    assert weak.confidence == "low"
    assert (weak.found, len(weak.matches)) == (0, 2)
    assert index.search("workspace", 2, server="events").confidence == "low"


def test_in_a_list_of_queries_the_weak_ones_are_named() -> None:
    index = everyday("bm25")
    weak = "who owns the workspace of Berlin and the moon"
    both = index.search(["share the image", weak])
    assert both.confidence == "high"
    assert f"only weak matches for: {weak}" in both.notes
    assert index.search([weak, weak]).confidence == "low"
    assert not index.search([weak, weak]).notes


def test_in_a_list_of_queries_only_what_fits_is_counted() -> None:
    index = everyday("bm25")
    weak, other = "who owns the workspace of Berlin and the moon", "the account of a stranger on the moon"
    neither = index.search([weak, other], 8)
    assert (neither.confidence, len(neither.matches)) == ("low", 8)
    assert "likely" not in {match.odds for match in neither.matches}
    one = index.search("turn the lamp on", 8).found
    both = index.search(["turn the lamp on", weak], 8)
    assert (both.confidence, both.found) == ("high", one)
    assert len(both.matches) == 8 > one
    assert sum(match.odds != "weak" for match in both.matches) == both.found


def test_a_threshold_of_0_gives_the_best_always() -> None:
    index = ToolIndex("bm25", min_strength=0)
    index.replace("all", TOOLS)
    assert index.search("play a message to my guitar").matches
    assert not index.search("zzz qqq").matches


def test_a_word_in_one_parameters_description_finds_its_tool(index: ToolIndex) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "The meridian to start from"}}}
    index.replace("maps", [ToolDefinition("draw", "Draws", schema, "maps")])
    assert index.search("meridian").names[:1] == ("draw",)
    index.replace("maps", [])


def test_words_without_spaces_between_them_all_count() -> None:
    index = ToolIndex("bm25")
    tools = [
        ToolDefinition("one", "查询余票信息", {}, "rail"),
        ToolDefinition("two", "查询天气预报", {}, "rail"),
        ToolDefinition("three", "查询汇率", {}, "rail"),
    ]
    index.replace("rail", tools)
    assert index.search("查询天气预报").names[:1] == ("two",)
    assert index.search("天气").names == ("two",)
