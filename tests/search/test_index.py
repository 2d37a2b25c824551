"""ToolIndex: forms of queries, names, patterns, what it says when nothing fits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mcpagent.errors import ConfigError, InputError
from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


def tool(name: str, description: str = "", server: str | None = "main", **more: object) -> ToolDefinition:
    parameters = more.pop("parameters", {"type": "object", "properties": {}})
    assert isinstance(parameters, dict)
    return ToolDefinition(name, description, parameters, server, **more)  # type: ignore[arg-type]


WEATHER = [
    tool("get_weather", "Get current weather for a location", "weather"),
    tool("weather_forecast", "Get weather forecast for the next 7 days", "weather"),
]
CHAT = [
    tool("send_message", "Send a message to a channel", "slack"),
    tool("list_channels", "List the channels of a workspace", "slack"),
]
FILES = [
    tool("read_file", "Read the contents of a file", "files"),
    tool("create_folder", "Create a new folder", "files"),
    tool("searchDocs", "Full text search", "files"),
]
ISSUES = [
    tool("create_issue", "Open a new issue in a repository", "github"),
    tool("gitlab__create_issue", "Open a new issue in a project", "gitlab", original_name="create_issue"),
]


def index_of(*groups: Sequence[ToolDefinition]) -> ToolIndex:
    index = ToolIndex("bm25")
    for group in groups or (WEATHER, CHAT, FILES, ISSUES):
        by_server: dict[str | None, list[ToolDefinition]] = {}
        for one in group:
            by_server.setdefault(one.server, []).append(one)
        for server, tools in by_server.items():
            index.replace(server, tools)
    return index


@each_row("query", ["weather", "WEATHER", "(?i)weather"])
def test_a_word_or_pattern_finds_both_weather_tools(query: str) -> None:
    result = index_of().search(query)
    assert set(result.names) == {"get_weather", "weather_forecast"}
    assert result.found == 2


@each_row(
    "query, expected",
    [
        ("notes", {"read_note", "list_notes", "add_note"}),
        ("list notes", {"list_notes"}),
        ("shopping notes", None),
    ],
)
def test_a_tool_whose_name_has_every_word_of_a_query_matches(query: str, expected: set[str] | None) -> None:
    """None: no tool is a certain match."""
    notes = [tool("read_note", "Read one note."), tool("list_notes", "List notes."), tool("add_note", "Write a note.")]
    result = index_of(notes, *(WEATHER, CHAT, FILES)).search(query)
    assert {match.tool.name for match in result.matches if match.odds != "weak"} == (expected or set())
    assert result.found == len(expected or ())


@each_row(
    "query, expected",
    [
        ("get_.*", {"get_weather"}),
        ("file|folder", {"read_file", "create_folder"}),
        ("forecast.*days", {"weather_forecast"}),
        ("^create_", {"create_issue", "gitlab__create_issue", "create_folder"}),
    ],
)
def test_the_seeds_patterns(query: str, expected: set[str]) -> None:
    result = index_of().search(query)
    assert set(result.names) == expected
    assert (result.how, result.found) == ("regex", len(expected))


def test_an_invalid_pattern_is_named_and_its_words_are_searched() -> None:
    result = index_of().search("(weather")
    assert result.error == "invalid regex pattern: missing closing )"
    assert "get_weather" in result.names


def test_a_pattern_over_200_characters_is_searched_as_words() -> None:
    result = index_of().search("weather.*" + "x?" * 100)
    assert "get_weather" in result.names
    assert "longer than 200 characters" in result.notes[0]


def test_a_long_query_has_a_budget_of_words_and_says_so() -> None:
    result = index_of().search("tomorrow " * 200 + "weather")
    assert result.names[0] in {"get_weather", "weather_forecast"}
    assert not result.notes
    result = index_of().search("weather " + "tomorrow " * 300)
    assert result.names[0] in {"get_weather", "weather_forecast"}
    assert "only the first 256 words were searched" in result.notes


def test_an_empty_query_is_an_error() -> None:
    assert index_of().search("  ").error.startswith("empty query")


@each_row(
    "query",
    ["get_weather", "GetWeather", "get-weather", "GET WEATHER", "weather.get_weather", "weather__get_weather"],
)
def test_an_exact_name_in_any_style_comes_first(query: str) -> None:
    result = index_of().search(query)
    assert (result.names[0], result.how) == ("get_weather", "exact")


def test_a_name_that_two_servers_share_gives_both() -> None:
    assert index_of().search("create_issue").names[:2] == ("create_issue", "gitlab__create_issue")
    assert index_of().search("gitlab.create_issue").names[0] == "gitlab__create_issue"


def test_six_names_at_once_are_the_first_six() -> None:
    index = index_of()
    names = ["get_weather", "send_message", "read_file", "searchDocs", "list_channels", "create_folder"]
    for separator in (", ", " ", "|", "\n", " and ", " or ", " + ", "; "):
        assert index.search(separator.join(names)).names[:6] == tuple(names)


@each_row("query", ["get weather and send message", "get weather, and send message", "Get Weather + send message"])
def test_names_that_are_written_as_words_may_be_joined_in_any_way(query: str) -> None:
    result = index_of().search(query)
    assert (result.names[:2], result.how) == (("get_weather", "send_message"), "exact")


def test_a_name_inside_a_sentence_comes_first() -> None:
    assert index_of().search("use list_channels to see the weather channels").names[0] == "list_channels"


def test_select_gives_just_these_and_tells_what_is_missing() -> None:
    result = index_of().search("select: get_weather,SendMessage, read_fil")
    assert result.names == ("get_weather", "send_message")
    assert "read_fil" in result.notes[0]
    assert result.nearest[0] == "read_file"


def test_a_limit_bounds_what_select_gives_and_found_tells_how_many_there_are() -> None:
    names = [tool.name for tool in index_of().tools if "create_issue" not in tool.name][:6]  # that is two servers'
    assert len(names) == 6
    chosen = "select:" + ",".join(names)
    assert index_of().search(chosen).names == tuple(names)
    result = index_of().search(chosen, 2)
    assert (result.names, result.found, result.how) == (tuple(names[:2]), 6, "exact")


def test_a_server_prefix_restricts() -> None:
    assert index_of().search("gitlab: new issue").names == ("gitlab__create_issue",)
    assert index_of().search("new issue", server="github").names == ("create_issue",)


def test_a_list_of_queries_takes_turns() -> None:
    assert set(index_of().search(["read a file", "send a message", "forecast"], limit=3).names) == {
        "read_file",
        "send_message",
        "weather_forecast",
    }


@each_row(
    "query, expected",
    [
        ("wether", "get_weather"),
        ("send msg", "send_message"),
        ("forcast", "weather_forecast"),
        ("repo isue", "create_issue"),
    ],
)
def test_typos_and_abbreviations(query: str, expected: str) -> None:
    assert expected in index_of().search(query).names[:2]


def test_only_corrected_words_are_told_as_fuzzy() -> None:
    assert index_of().search("wether").how == "fuzzy"
    assert index_of().search("weather").how == "ranked"


def test_words_in_no_tool_are_named() -> None:
    assert index_of().search("weather in Timbuktu").unmatched_words == ("timbuktu",)


def test_reasons_name_field_and_word() -> None:
    (first, *_) = index_of().search("forecast").matches
    assert [(reason.field, reason.word) for reason in first.reasons] == [
        ("name, description", "forecast"),
        ("name", "words of the name"),
    ]
    assert sum(reason.score for reason in first.reasons) == pytest.approx(first.score, abs=0.002)


def test_every_field_finds_its_tool() -> None:
    schema = {
        "type": "object",
        "properties": {
            "flurb": {"type": "string", "description": "the quibbleworth of it"},
            "deep": {
                "type": "array",
                "items": {"type": "object", "properties": {"zanzibarId": {"enum": ["xylophone"]}}},
            },
        },
    }
    index = ToolIndex("bm25", server_descriptions={"odd": "marmalade logistics"})
    index.replace(
        "odd", [tool("doPlexAlpha", "Does it.", "odd", parameters=schema, title="Gargoyle", tags=("kumquat",))]
    )
    index.replace("files", FILES)
    for word in ("flurb", "quibbleworth", "zanzibar", "xylophone", "gargoyle", "kumquat", "marmalade", "odd", "plex"):
        assert index.search(word).names[:1] == ("doPlexAlpha",), word


def test_a_tool_with_more_of_the_words_than_its_server_has_is_first() -> None:
    zones = [tool(f"convert_{zone}", f"Convert to {zone}", "time") for zone in ("utc", "cet", "est", "gmt")]
    index = ToolIndex("bm25", server_descriptions={"time": "Clock and calendar"})
    index.replace("time", [tool("get_now", "Get the current moment", "time"), *zones])
    index.replace("files", FILES)
    for query in ("time current", "current calendar"):
        assert index.search(query).names[0] == "get_now", query
    for query in ("time", "calendar", "time clock"):
        assert len(index.search(query).matches) == 5, query


def test_nothing_fitting_gives_nothing_and_the_nearest_names() -> None:
    result = index_of().search("zzzz qqqq")
    assert (result.names, result.found, result.how) == ((), 0, "none")
    assert index_of().names_near("get_wether")[0] == "get_weather"


def test_replacing_a_server_forgets_its_old_tools() -> None:
    index = index_of()
    index.replace("weather", [tool("tides", "Tide tables of a harbour", "weather")])
    assert index.search("weather_forecast").names[:1] != ("weather_forecast",)
    assert index.search("harbour").names == ("tides",)
    index.replace("weather", [])
    assert index.search("harbour").names == ()


def test_the_order_in_which_servers_came_changes_nothing() -> None:
    one, other = index_of(WEATHER, CHAT, FILES, ISSUES), index_of(ISSUES, FILES, CHAT, WEATHER)
    other.replace("slack", [])
    other.replace("slack", CHAT)
    for query in ("create", "get the weather", "list files and channels", ".*"):
        first, second = one.search(query), other.search(query)
        assert [(match.tool.name, match.score) for match in first.matches] == [
            (match.tool.name, match.score) for match in second.matches
        ]


def test_an_own_ranking_is_used() -> None:
    index = ToolIndex(lambda query, tools: [tool.name for tool in tools if query in tool.description])
    index.replace("slack", CHAT)
    assert index.search("workspace").names == ("list_channels",)


async def test_an_own_async_ranking_is_awaited() -> None:
    async def ranking(query: str, tools: Sequence[ToolDefinition]) -> list[str]:
        await asyncio.sleep(0)
        return ["read_file", "no_such_tool"]

    index = ToolIndex(ranking)
    index.replace("files", FILES)
    assert (await index.find("anything")).names == ("read_file",)
    with pytest.raises(InputError, match="find"):
        index.search("anything")


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigError, match="bm52"):
        ToolIndex("bm52")  # type: ignore[arg-type]
