"""How a query's words are read: typos, abbreviations, and several needs in one text."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from mcpagent.search import ToolIndex
from mcpagent.search.query_terms import Spelling
from mcpagent.search.ranking import CLAUSE_END, JOINT
from mcpagent.search.result import RankingName
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

TOOLS = {
    "resize_image": "Change the width and height of an image",
    "delete_record": "Delete one record of a table",
    "start_timer": "Start a timer",
    "current_weather": "Current weather of a city",
    "translate_text": "Translate a text into another language",
    "book_restaurant": "Reserve a table in a restaurant",
    "month_calendar": "Show the calendar of a month",
    "send_invoice": "Send an invoice to a customer",
    "list_branches": "List the branches of a repository",
}


@cache
def index(strategy: RankingName = "bm25") -> ToolIndex:
    """Only searched by tests."""
    found = ToolIndex(strategy, examples=lambda _tool: ())
    found.replace("main", [ToolDefinition(name, said, {}, "main") for name, said in TOOLS.items()])
    return found


@each_row(
    "query, name",
    [
        ("curernt waehter", "current_weather"),
        ("trasnlaet a txet", "translate_text"),
        ("restarants nearby", "book_restaurant"),
        ("calender", "month_calendar"),
        ("cutsomr invocie", "send_invoice"),
        ("brnachse", "list_branches"),
    ],
)
@each_row("strategy", ["bm25", "hybrid"])
def test_one_or_two_typos_a_word_are_understood(query: str, name: str, strategy: RankingName) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    assert index(strategy).search(query).names[:1] == (name,)


def test_guesses_of_one_word_make_no_match_sure() -> None:
    """`cheers` and `onions` stand two letters from words of tools: that is no reason to be sure of them."""
    tools = [
        ToolDefinition("clear_cells", "Clear the cells of a range", {}, "main"),
        ToolDefinition("set_option", "Set an option of the editor", {}, "main"),
        *(ToolDefinition(f"tool_{number}", f"Something else {number}", {}, "main") for number in range(30)),
    ]
    found = ToolIndex("bm25")
    found.replace("main", tools)
    for query in ("why do onions make you cry?", "cheers, you saved my day"):
        assert found.search(query).confidence != "high", query


@cache
def with_customers(strategy: RankingName) -> ToolIndex:
    found = ToolIndex(strategy, examples=lambda _tool: ())
    found.replace("main", [ToolDefinition(name, said, {}, "main") for name, said in TOOLS.items()])
    nouns = ("orders", "addresses", "contacts", "contracts", "notes", "visits", "prices", "offers")
    about = "List the {} of the customers of a repository"
    found.replace("other", [ToolDefinition(f"list_customer_{noun}", about.format(noun), {}, "other") for noun in nouns])
    return found


@each_row("joint", [", ", " and ", " or ", " + ", " / ", "; ", " and then ", "\n"])
@each_row("strategy", ["bm25", "hybrid"])
def test_each_of_several_needs_is_found_however_they_are_joined(joint: str, strategy: RankingName) -> None:
    if strategy == "hybrid":
        pytest.importorskip("wordllama")
    many = with_customers(strategy)
    asked = joint.join(["current weather", "translate a text", "list the notes of the customers"])
    assert {"current_weather", "translate_text", "list_customer_notes"} <= set(many.search(asked).names)


def test_a_list_inside_one_need_does_not_part_it() -> None:
    found = index().search("change the width and height of an image, in pixels and percent")
    assert found.names[0] == "resize_image"


JOINTS = (
    "and",
    "or",
    "then",
    "and then",
    "also",
    "plus",
    "AND",
    " ",
    "  ",
    "\n",
    ",",
    ".",
    "?",
    ";",
    "+",
    "/",
    "a",
    "b)",
)
PLAIN_CLAUSE_END = r"(?<=[\w\"')])[.!?;]+\s+|\n+|,?\s+(?:and then|then|and also|also)\s+|,\s+and\s+"
PLAIN_JOINT = r"(?<=[\w\"')])[.!?;]+\s+|\n+|,?\s+(?:and then|then|and also|also|and|or|plus)\s+|,\s+|\s+[+&/]\s+"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(JOINTS), max_size=14).map("".join))
def test_a_text_is_parted_as_by_the_patterns_that_are_easier_to_read(text: str) -> None:
    assert CLAUSE_END.split(text) == re.split(PLAIN_CLAUSE_END, text, flags=re.IGNORECASE)
    assert JOINT.split(text) == re.split(PLAIN_JOINT, text, flags=re.IGNORECASE)


SPELLED = st.text("abc", min_size=3, max_size=9)


@settings(max_examples=80, deadline=None)
@given(st.lists(SPELLED, max_size=30, unique=True), st.text("abcd", min_size=4, max_size=9))
def test_a_typo_is_looked_for_among_all_words_with_its_first_or_its_last_letter(known: list[str], word: str) -> None:
    spelling = Spelling()
    spelling.add(known[::2])
    spelling.nearest(word)
    spelling.add(known[1::2])  # what was found of the first ones must not be all that is ever found

    def within(most: int, words: list[str]) -> list[tuple[str, int]]:
        distances = [(one, OSA.distance(word, one)) for one in words]
        least = min((distance for _, distance in distances), default=most + 1)
        return sorted((one, distance) for one, distance in distances if distance == least <= most)

    most = 2 if len(word) >= 8 else 1
    expected = within(most, [one for one in known if one[0] == word[0]])
    expected = expected or within(most, [one for one in known if one[-1] == word[-1]])
    found = sorted((one, round((1 - likeness) * len(word))) for one, likeness in spelling.nearest(word))
    assert found == expected
