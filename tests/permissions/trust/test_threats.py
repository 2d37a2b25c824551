"""Each threat T1 to T29 and each bad input B1 to B44 of the reliability design has a test that carries its number.

The numbers are in the names: `test_t5_...`, or `test_b24_...` and the rows of `test_bad_inputs.py`. Inputs that cannot
be tried are listed there, and threats here, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.permissions.trust import test_bad_inputs

TESTS = Path(__file__).parents[2]
THREATS, BAD_INPUTS = range(1, 30), range(1, 45)

PARTLY = {
    10: "sign-ins and session IDs are tried; sessions of an HTTP server are not, since there is none of ours",
    11: "the page of a sign-in is all that listens; there is no HTTP server of ours whose hosts could be forged",
    23: "a package without a version is named; what a registry serves tomorrow cannot be tried",
    24: "sessions of one agent are tried; connections keyed by an owner need an HTTP server of ours",
}
"""Threats of which only a part can be tried, and why."""


def numbered() -> Iterator[tuple[str, int]]:
    """The numbers in the names of tests, such as ("t", 24) and ("t", 25) for `test_t24_t25_...`."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = re.match(r"test((?:_[tb]\d+)+)_[a-z]", node.name)
                for kind, number in re.findall(r"_([tb])(\d+)", name[1]) if name is not None else ():
                    yield kind, int(number)


def test_every_threat_and_every_bad_input_has_a_test_of_its_number() -> None:
    found = set(numbered()) | {("b", row[0]) for row in test_bad_inputs.ROWS}
    missing = [f"T{number}" for number in THREATS if ("t", number) not in found]
    missing += [
        f"B{number}" for number in BAD_INPUTS if ("b", number) not in found and number not in test_bad_inputs.NOT_TRIED
    ]
    assert missing == []


def test_what_is_not_tried_is_no_more_than_that() -> None:
    found = set(numbered())
    assert not [number for number in test_bad_inputs.NOT_TRIED if ("b", number) in found]
    assert set(PARTLY) <= set(THREATS)
