"""Every query with the syntax of a pattern is run as one: what it finds is what matches, no more and no less."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.search_everyday import load_tools
from benchmarks.search_name_patterns import figures_of, patterns_of
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


@cache
def real_tools() -> tuple[ToolDefinition, ...]:
    return tuple(load_tools())


@cache
def real_index() -> ToolIndex:
    """Only searched by tests."""
    index = ToolIndex("bm25")
    index.replace("all", real_tools())
    return index


@pytest.mark.slow
@each_row("strategy", ["bm25", "regex"])
def test_patterns_made_of_real_names_find_what_matches_and_nothing_else_unmarked(strategy: str) -> None:
    told = figures_of(real_tools()[::2], strategy)
    assert told.patterns > 300
    assert (told.not_run, told.found_differs, told.unmarked) == (0, 0, 0)


def shop(*names: str) -> ToolIndex:
    index = ToolIndex("bm25")
    index.replace("shop", [ToolDefinition(name, f"Does {name}.", {}, "shop", name) for name in names])
    return index


def test_letters_that_spell_a_name_do_not_make_a_pattern_a_name() -> None:
    result = shop("get_issue", "get_my_issue", "list_issues").search("get_.*_issue")
    assert (result.names, result.found, result.how) == (("get_my_issue",), 1, "regex")


def test_a_name_that_is_written_like_a_pattern_comes_first() -> None:
    result = shop("what.*now", "whatever_now", "what_is_now").search("what.*now")
    assert result.names == ("what.*now", "what_is_now", "whatever_now")
    assert result.found == 3


def test_alternatives_that_are_all_names_give_those_first_in_any_style() -> None:
    result = shop("send_message", "get_weather", "get_weather_alerts").search("get_weather|SendMessage")
    assert result.names == ("get_weather", "send_message", "get_weather_alerts")
    assert result.found == 3


def test_without_a_match_the_closest_by_words_are_all_marked() -> None:
    result = shop("create_issue", "close_issue", "send_mail").search("^issue.*create$")
    assert (result.how, result.found, result.confidence) == ("closest", 0, "low")
    assert result.names[0] == "create_issue"
    assert {match.odds for match in result.matches} == {"weak"}


def test_a_pattern_within_one_server_and_after_its_name() -> None:
    index = shop("create_issue", "list_issues")
    index.replace("other", [ToolDefinition("create_note", "Creates.", {}, "other", "create_note")])
    assert index.search("shop: create_.*").names == ("create_issue",)
    assert index.search("create_.*", server="other").names == ("create_note",)


PIECES = st.sampled_from([*patterns_of(real_tools())[::9], "get", "mail", "a b", "|", ".*", "^", "$", "[ab]", "(", "?"])


@settings(max_examples=60)
@given(st.lists(PIECES, min_size=1, max_size=4).map(" ".join), st.integers(1, 20))
def test_found_is_the_number_of_unmarked_entries(query: str, limit: int) -> None:
    result = real_index().search(query, limit)
    unmarked = [match.odds != "weak" for match in result.matches]
    assert unmarked == sorted(unmarked, reverse=True)
    assert sum(unmarked) == min(result.found, max(limit, len(unmarked)))
