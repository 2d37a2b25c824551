"""The three readers as functions of an output: what they give, and what they never do."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import InputError
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.querying import query
from mcpagent.run.large_results.reading_ranges import MAX_ANSWER, read_range
from mcpagent.run.large_results.searching import search
from mcpagent.values.messages import Image
from tests.hostile_patterns import COSTLY_TO_COMPILE, HOSTILE_PATTERNS
from tests.tables import each_row

LOG = LargeOutput("\n".join(f"{number} user{number} came from Room {number % 7}" for number in range(1, 5_001)))
ROWS = [
    {"id": number, "name": f"name {number}", "tags": ["a", "b"][: number % 3], "at": {"x": number / 2, "y": None}}
    for number in range(1_000)
]
JSON = LargeOutput(json.dumps(ROWS))


def reads(output: LargeOutput, **arguments: Any) -> str:
    answer = read_range(output, arguments)
    assert isinstance(answer, str)
    return answer


def inside(answer: str) -> str:
    """What stands between the fences."""
    return answer.partition("\n")[2].partition("\n")[2].rpartition("\n")[0]


@each_row(
    "arguments, told, begins, ends",
    [
        ({}, "Lines 1 to 100 of 5,000. Go on with start_line=101", "1 user1 ", "100 user100 came from Room 2"),
        ({"start_line": 4_999}, "Lines 4,999 to 5,000 of 5,000", "4999 ", "5000 user5000 came from Room 2"),
        ({"start_line": "7", "end_line": 8.0}, "Lines 7 to 8 of 5,000", "7 user7", "8 user8 came from Room 1"),
        ({"start_line": -2}, "Lines 4,999 to 5,000", "4999 ", "5000 user5000 came from Room 2"),
        ({"end_line": 3}, "Lines 1 to 3", "1 user1", "3 user3 came from Room 3"),
        ({"start_line": 0, "end_line": 10**12}, "Lines 1 to ", "1 user1", ""),
        ({"start_char": 1, "end_char": 3}, "Characters 1 to 3 of ", "1 u", "1 u"),
        ({"start_char": -6}, "Characters ", "Room 2", "Room 2"),
    ],
)
def test_ranges(arguments: dict[str, Any], told: str, begins: str, ends: str) -> None:
    answer = reads(LOG, **arguments)
    assert answer.startswith(told)
    assert inside(answer).startswith(begins)
    assert inside(answer).endswith(ends)


@each_row(
    "arguments, why",
    [
        ({"start_line": 5_001}, "it has 5,000 lines, got 5,001"),
        ({"start_line": 9, "end_line": 3}, "start_line is 9 and end_line 3: the start comes first"),
        ({"start_line": "soon"}, "start_line: expected a whole number"),
        ({"start_char": float("nan")}, "start_char: expected a whole number"),
        ({"start_char": True}, "start_char: expected a whole number"),
        ({"start_line": "9" * 400}, "start_line: expected a whole number"),
        ({"image": 1}, "it has 0 images, got 1"),
    ],
)
def test_ranges_that_are_none(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        reads(LOG, **arguments)


def test_a_line_that_is_longer_than_an_answer() -> None:
    output = LargeOutput(f"short\n{'0123456789' * 10_000}\nlast")
    assert reads(output).startswith("Lines 1 to 1 of 3. Go on with start_line=2")
    answer = reads(output, start_line=2)
    assert answer.startswith(f"Line 2 is long; its first {MAX_ANSWER:,} characters. Go on with start_char=16007")
    assert inside(reads(output, start_char=16_007, end_char=16_016)) == "0123456789"


@given(st.text(alphabet="ab\n`", min_size=1, max_size=400), st.integers(-500, 500), st.integers(-500, 500))
def test_any_range_is_what_is_there(text: str, start: int, end: int) -> None:
    output = LargeOutput(text)
    try:
        answer = reads(output, start_char=start, end_char=end)
    except InputError:
        return
    assert inside(answer) in text


def test_a_picture_comes_back() -> None:
    picture = Image("image/png", "aaaa")
    output = LargeOutput("", (picture,))
    assert read_range(output, {"image": 1}) is picture
    with pytest.raises(InputError, match="image=1"):
        reads(output)


# -- searching ---------------------------------------------------------------------------------------------------------


def searches(output: LargeOutput, **arguments: Any) -> str:
    return search(output, arguments)


def test_words_near_each_other_in_any_case_and_order() -> None:
    answer = searches(LOG, words="room USER4321", context=1)
    assert answer.startswith('1 place for "room USER4321".')
    assert inside(answer).splitlines() == [
        "4320- 4320 user4320 came from Room 1",
        "4321: 4321 user4321 came from Room 2",
        "4322- 4322 user4322 came from Room 3",
    ]


def test_more_than_asked_for_is_gone_on_with() -> None:
    answer = searches(LOG, words="room 3", limit=2, context=0)
    assert answer.startswith('2 places for "room 3", and there are more')
    assert [line.split(":")[0] for line in inside(answer).splitlines()] == ["3", "10"]
    on = int(answer.partition("start_char=")[2].partition(",")[0])
    assert inside(searches(LOG, words="room 3", limit=1, context=0, start_char=on)).startswith("17: ")
    assert inside(searches(LOG, words="room 3", limit=1, context=0, start_line=4_000)).startswith("4000: 4000")


def test_one_huge_line_is_shown_where_it_matters() -> None:
    answer = searches(JSON, words="name 777")
    assert '"name": "name 777"' in answer
    assert len(answer) < 1_000
    assert searches(JSON, words="name nobody") == 'Nothing found for "name nobody". Try fewer or other words.'


def test_letters_that_grow_when_they_get_small_move_nothing() -> None:
    output = LargeOutput("\u0130" * 10_000 + " Straße NEEDLE")
    assert "needle" in searches(output, words="needle").lower()
    assert inside(searches(output, words="needle")).endswith("NEEDLE")


@each_row("pattern", [r"user432\d ", r"^4321\s", r"Room 2$"])
def test_patterns(pattern: str) -> None:
    answer = searches(LOG, pattern=pattern, start_line=4_321, context=0, limit=1)
    assert inside(answer) == "4321: 4321 user4321 came from Room 2"


@each_row(
    "arguments, why",
    [
        ({}, "give words, or a pattern"),
        ({"words": "a", "pattern": "b"}, "give words, or a pattern"),
        ({"words": "  "}, "give words, or a pattern"),
        ({"pattern": "(a"}, "invalid regex pattern: missing closing"),
        ({"pattern": "a" * 201}, "longer than 200 characters"),
        ({"pattern": "(?R)"}, "calls itself"),
        ({"pattern": "((a{99}){99}){99}"}, "repeats too often"),
        ({"words": "a", "start_line": 6_000}, "it has 5,000 lines"),
        ({"words": "a", "limit": "many"}, "limit: expected a whole number"),
    ],
)
def test_searches_that_are_none(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        searches(LOG, **arguments)


HOSTILE = LargeOutput("a" * 40_000 + "!" + "\n" + "ab" * 20_000 + "\n" + " " * 30_000 + "x")


PATTERNS = [*(pattern for pattern, _ in HOSTILE_PATTERNS), *COSTLY_TO_COMPILE, r"(\w*)*!x"]
ALL_PATTERNS = [pytest.param(pattern, marks=pytest.mark.slow) for pattern in PATTERNS]


@each_row("pattern", ["(a+)+b", "$", *ALL_PATTERNS])
def test_no_pattern_takes_long(pattern: str) -> None:
    before = time.thread_time()
    try:
        answer = searches(HOSTILE, pattern=pattern)
    except InputError as error:
        answer = str(error)
    assert time.thread_time() - before < 2
    assert len(answer) < 2 * MAX_ANSWER


# -- queries -----------------------------------------------------------------------------------------------------------


def queries(path: Any, **arguments: Any) -> str:
    return query(JSON, {"path": path, **arguments})


def values(answer: str) -> list[Any]:
    return [json.loads(line) for line in inside(answer).splitlines()]


PATHS = [
    "$[500].name",
    "$[-1].id",
    "$[1001]",
    "$[10:13].at.x",
    "$[::-400].id",
    "$[?@.id == 5].name",
    "$[?@.id >= 998 || @.name == 'name 3'].id",
    "$[?@.at.x > 498.5 && @.id != 999].id",
    "$[?@.tags[1]].id",
    "$[?!@.tags[0]].id",
    "$[?length(@.tags) == 2].id",
    "$[?count(@.*) == 4].id",
    "$[?search(@.name, '99[0-9]')].id",
    "$[?match(@.name, 'name 12')].id",
    "$[?@.at.y == null].id",
    "$[?@.nothing].id",
    "$[?@.nothing == @.neither].id",
    "$[?@.id == $[7].id].name",
    "$..x",
    "$..*",
    "$[0,2]['id','name']",
    "$[3]..['x']",
    "$.*.tags.*",
    "$",
]


@each_row("path", PATHS)
def test_paths_mean_what_the_library_says(path: str) -> None:
    """Ours follows what the library reads; both give the same values in the same order."""
    from jsonpath import JSONPathEnvironment

    from mcpagent.run.large_results.bounded_paths import Budget, compiled_path

    theirs = JSONPathEnvironment(strict=True).findall(path, ROWS)
    assert list(compiled_path(path).values(ROWS, Budget(10))) == theirs


def test_values_are_given_page_by_page() -> None:
    first = queries("$[*].id", limit=3)
    assert first.startswith("Values 1 to 3; there are more, go on with offset=3:")
    assert values(first) == [0, 1, 2]
    assert values(queries("$[*].id", limit=3, offset=998)) == [998, 999]
    assert queries("$[*].id", offset=998).startswith("Values 999 to 1,000 of 1,000:")
    assert queries("$[*]", count_only=True) == "1,000 values."
    assert queries("$[?@.id == 3].name").startswith("1 value:")
    assert queries("$.nothing").startswith("0 values; it is JSON, array of 1,000")


def test_a_large_value_is_shown_by_its_beginning_and_shape() -> None:
    answer = queries("$")
    assert len(answer) < 2_000
    assert "(cut: array of 1,000 × {" in answer


@each_row(
    "path, why",
    [
        ("", "expected a JSONPath"),
        (None, "expected a JSONPath"),
        ("$" * 501, "expected a JSONPath"),
        ("$[", "path: "),
        ("id", "path: "),
        ("$[?@.name =~ /(a+)+$/]", "path: "),
        ("$[?keys(@)]", "path: "),
        ("_.budget", "path: "),
        ("$[?search(@.name, '(a')]", "path: invalid regex pattern"),
        ("$[?" + "(" * 400 + "1==1", "path: "),
        ("$[99999999999999999999999999]", "path: "),
    ],
)
def test_paths_that_are_none(path: Any, why: str) -> None:
    with pytest.raises(InputError, match=why.replace("(", r"\(")):
        queries(path)


def test_what_is_no_data_cannot_be_queried() -> None:
    with pytest.raises(InputError, match=r"cannot be queried: it is text\. Read or search it"):
        query(LOG, {"path": "$"})
    with pytest.raises(InputError, match="begins as JSON and is none"):
        query(LargeOutput('{"a": '), {"path": "$"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    ["$..*..*..*..nothing", "$[?@..nothing]..zzz", "$[?search(@.name, '(n|na|a|m|e| )+$x')]", "$..[?@..[?@..q]]"],
)
def test_no_query_takes_long(path: str) -> None:
    many = [{"id": 1, "name": "name name name name name name", "in": [[[[[[{"x": 1}]]]]]]}] * 30_000
    output = LargeOutput(json.dumps(many))
    assert output.data.kind == "JSON"
    before = time.thread_time()
    try:
        answer = query(output, {"path": path, "count_only": True})
    except InputError as error:
        answer = str(error)
    assert time.thread_time() - before < 4
    assert "time for one query was over" in answer or "took over" in answer or answer == "0 values."


def test_tables_and_lines_are_queried() -> None:
    table = "id,name\n" + "\n".join(f"{number},name {number}" for number in range(100))
    assert values(query(LargeOutput(table), {"path": "$[?@.id == '42'].name"})) == ["name 42"]
    lines = "\n".join(map(json.dumps, ROWS))
    assert values(query(LargeOutput(lines), {"path": "$[999].name"})) == ["name 999"]
