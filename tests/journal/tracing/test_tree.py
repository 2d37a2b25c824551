"""Runs drawn as trees, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.journal.tracing.tree import ASCII_BRANCHES, Branches, TraceStep, took, trace_document, trace_rows
from mcpagent.values.messages import Spent, Usage
from tests.tables import each_row

NUMBERS = st.none() | st.integers(-(2**63), 2**63)
TIMES = st.none() | st.floats()
STEPS = st.recursive(
    st.builds(
        TraceStep,
        name=st.text(max_size=12),
        begun=TIMES,
        seconds=st.none() | st.floats(0, 1e12),
        error=st.text(max_size=8),
        note=st.text(max_size=8),
        prompt=st.text(max_size=8),
        turns=NUMBERS,
        spent=st.none() | st.just(Spent(Usage(1, 2, 3), 0.5, cost_known=False, saved_tokens=7)),
        offered=st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple),
        known_tools=NUMBERS,
        server=st.text(max_size=8),
        arguments=st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=2),
        rank=NUMBERS,
        query=st.text(max_size=8),
        found=NUMBERS,
        matches=st.none() | st.lists(st.text(max_size=5), max_size=3).map(tuple),
    ),
    lambda below: st.builds(TraceStep, name=st.text(max_size=12), steps=st.lists(below, max_size=3).map(tuple)),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.lists(STEPS, max_size=4))
def test_every_step_is_once_in_the_tree_in_printable_lines(runs: list[TraceStep]) -> None:
    traces = trace_rows(runs, Branches())
    assert sum(len(rows) for _, rows in traces) == sum(len([*run.walk()]) for run in runs)
    lines = [f"{heading}{row.name}{row.about}" for heading, rows in traces for row in rows]
    assert all(line.isprintable() for line in lines)
    for run in runs:
        trace_document(run)


def test_a_chain_of_thousands_is_shown_in_a_moment() -> None:
    step = TraceStep("s")
    for _ in range(20_000):
        step = TraceStep("s", steps=(step,))
    ((_, rows),) = trace_rows([step], Branches())
    assert len(rows) == 20_001
    assert max(len(row.name) for row in rows) < 200


def test_hostile_words_do_nothing_to_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\nfake line\u202e"
    about: dict[str, Any] = dict.fromkeys(("name", "error", "note", "prompt", "server", "query"), evil)
    step = TraceStep(**about, offered=(evil,), matches=(evil,), arguments={evil: evil})
    ((heading, (row,)),) = trace_rows([step], ASCII_BRANCHES)
    assert f"{heading}{row.name}{row.took}{row.about}".isprintable()


@each_row(
    "seconds, text",
    [(None, ""), (0, "0 ms"), (0.0124, "12 ms"), (0.9996, "1.00 s"), (1.416, "1.42 s"), (182, "3 min 2 s")],
)
def test_times_are_as_people_read_them(seconds: float | None, text: str) -> None:
    assert took(seconds) == text


@pytest.mark.parametrize("begun", [float("inf"), float("nan"), 1e300, -1e300])
def test_a_time_that_is_none_is_left_out(begun: float) -> None:
    ((heading, _),) = trace_rows([TraceStep("run", begun=begun, seconds=1.0)], Branches())
    assert "UTC" not in heading
