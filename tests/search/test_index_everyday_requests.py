"""Requests as people write them: the set, and what the search makes of it.

NOW is what `python benchmarks/search_everyday.py` gives, of 181 needs in 160 served requests and of 40 that no tool
serves: a measure of the search, not a promise. At first 69 and 77 needs were met, and 40 and 39 served requests got
nothing, since weak matches were not shown. Without the requests that are shipped for these tools 78 and 92 are met.
`benchmarks/data/everyday_requests.json` says how the set was written: before any search was run on it.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from benchmarks.search_everyday import DATA, STRATEGIES, UNSERVED, ask, figures_of, load_requests, load_tools

NOW = {
    "bm25": {"met": 135, "first_right": 96, "false_silence": 3, "sure_and_false": 6},
    "hybrid": {"met": 147, "first_right": 99, "false_silence": 2, "sure_and_false": 6},
    "sentences": {"met": 157, "first_right": 113, "false_silence": 2, "sure_and_false": 7},
    "multilingual": {"met": 158, "first_right": 115, "false_silence": 0, "sure_and_false": 8},
}
ALLOWANCE = 3
"""Requests that may come out otherwise: the demo tools' descriptions change, and so do the word vectors."""

KINDS = {
    "order": 42,
    "question": 36,
    "indirect": 27,
    "follow-up": 12,
    "typos": 15,
    "joined": 21,
    "other language": 7,
    "near miss": 24,
    "nothing to do with the tools": 16,
}


def test_the_set_holds_two_hundred_different_requests_of_the_kinds_it_tells() -> None:
    requests = load_requests()
    told = json.loads((DATA / "everyday_requests.json").read_text("utf-8"))["form"]["kind"]

    assert len({request.text.casefold() for request in requests}) == len(requests) == 200
    assert Counter(request.kind for request in requests) == KINDS
    assert all(kind in told for kind in KINDS)
    assert {request.language for request in requests} == {"en", "de", "fr", "es", "zh", "ja", "ar"}


def test_needs_are_told_for_each_request_that_a_tool_serves_and_for_no_other() -> None:
    for request in load_requests():
        needs = 0 if request.kind in UNSERVED else 2 if request.kind == "joined" else 1
        assert len(request.needs) == needs, request.text
        assert all(request.needs), request.text


def test_every_tool_that_a_request_names_exists_and_no_two_are_one() -> None:
    names = [f"{tool.server}.{tool.original_name}" for tool in load_tools()]
    wanted = {name for request in load_requests() for need in request.needs for name in need}

    assert len(set(names)) == len(names)
    assert wanted <= set(names)
    assert {name.partition(".")[0] for name in wanted} == {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("sentences", "multilingual") else ())
        for name in STRATEGIES
    ],
)
def test_everyday_requests_are_answered_no_worse_than_they_were(strategy: str) -> None:
    for package in STRATEGIES[strategy]:
        pytest.importorskip(package)
    before = NOW[strategy]
    now = figures_of(ask(load_requests(), load_tools(), strategy))

    assert (now.requests, now.served, now.needs) == (200, 160, 181)
    assert now.met >= before["met"] - ALLOWANCE
    assert now.first_right >= before["first_right"] - ALLOWANCE
    assert now.false_silence <= before["false_silence"]
    assert now.sure_and_false <= before["sure_and_false"] + ALLOWANCE
