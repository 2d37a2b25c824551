"""JSON in steps gives what a parser gives at once, within a budget."""

from __future__ import annotations

import json
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from mcpagent.history.intake import json_steps
from mcpagent.history.intake.json_steps import BudgetExceededError, JsonBudget, end_of, parse_in_steps, utf8_in_steps

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(max_size=30)
    | st.sampled_from(["\\" * 9, '"\\u']),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)
FILLER = "x" * 130_000
"""Makes a value longer than what is parsed at once."""


@settings(max_examples=40, deadline=None)
@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_any_value_is_what_a_parser_reads(value: Any, ascii_only: bool, indent: int | None) -> None:
    for whole in (
        value,
        [value, FILLER, {"a": [FILLER, value]}, value],
        {"a": FILLER, "b": value, "c": [FILLER, value]},
    ):
        data = json.dumps(whole, ensure_ascii=ascii_only, indent=indent).encode()
        assert parse_in_steps(data, JsonBudget()) == whole
        assert end_of(data, 0) == len(data)


@settings(max_examples=40, deadline=None)
@given(values, st.data())
def test_a_broken_value_is_refused_as_a_parser_refuses_it(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value, FILLER, [value]]).encode()
    cut = data.draw(st.integers(0, len(text) - 1))
    for broken in (text[:cut], text[:cut] + text[cut + 1 :]):
        try:
            expected: Any = from_json(broken)
        except ValueError:
            with pytest.raises(ValueError):
                parse_in_steps(broken)
        else:
            assert parse_in_steps(broken) == expected


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["é", "€😀", "\\", '"', "\ud83d\ude00"])
def test_a_long_text_is_never_cut_within_a_character(unit: str) -> None:
    text = ("a" + unit) * 600_000
    text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    for ascii_only in (True, False):
        assert parse_in_steps(json.dumps({"a": text}, ensure_ascii=ascii_only).encode()) == {"a": text}
    assert utf8_in_steps(text) == text.encode()


def test_what_is_over_the_budget_is_not_parsed() -> None:
    rows = [{"id": number, "tags": ["a", "b"]} for number in range(60_000)]
    data = json.dumps(rows).encode()
    with pytest.raises(BudgetExceededError, match="too many values"):
        parse_in_steps(data, JsonBudget(200_000))
    assert parse_in_steps(data) == rows
    commas = json.dumps({"text": "a,b,c{[" * 300_000}).encode()
    assert parse_in_steps(commas) == json.loads(commas)  # those in texts are no values
    for levels in (151, 10_000, 1_000_000):
        with pytest.raises(BudgetExceededError, match="nests too deeply"):
            parse_in_steps(b"[" * levels + b'"' + b"x" * 300_000 + b'"' + b"]" * levels)


def test_a_wrong_engine_is_replaced_by_one_that_matches_the_same() -> None:
    found = json_steps._compiled(rb"(?:[ab]++|\(a++\))*+").match(b"ab(a")
    assert found is not None
    assert found.span() == (0, 2)  # `re` of 3.11.2 matches "ab("
    data = b'"a\\"b": {"c": [1, {"d": "e,f"}], "g": [[[[[[2]]]]]]}, "h": "i'
    for pattern in (json_steps._ITEMS, json_steps._INSIDE, json_steps._TEXT, json_steps._STRING):
        engines = (json_steps._compiled(pattern), regex.compile(pattern, regex.DOTALL))
        for start in range(len(data)):
            matches = [engine.match(data, start, len(data) - 2) for engine in engines]
            assert len({match and match.span() for match in matches}) == 1, (pattern[:40], start)
