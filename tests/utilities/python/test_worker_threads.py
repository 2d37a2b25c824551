"""What is large is worked on beside the event loop, and telling that it is takes no time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.utilities.python.worker_threads import beside_loop, is_large, json_in_steps
from tests.tables import each_row

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=15
)


@settings(max_examples=60)
@given(VALUES)
def test_an_ordinary_value_is_not_large_and_its_json_in_steps_is_the_same(value: Any) -> None:
    assert not is_large(value)
    assert json_in_steps(value) == json.dumps(value, ensure_ascii=False)


def test_json_in_steps_is_the_same_of_what_is_large() -> None:
    parts: list[Any] = [1.5, None, True, "x\u20ac\ud800", {"a": [], "b": {}}, float("inf"), "x" * 150]
    for value in (parts * 400, {"a": parts * 400, "b": {str(number): parts for number in range(400)}}, [parts] * 400):
        assert is_large(value)
        assert json_in_steps(value) == json.dumps(value, ensure_ascii=False)


@each_row(
    "value",
    [
        "x" * 300_000,
        {"content": [{"type": "text", "text": "x" * 300_000}]},
        [["x" * 1_000] for _ in range(300)],
        list(range(3_000)),
        {str(number): number for number in range(3_000)},
        [[[] for _ in range(60)] for _ in range(60)],
    ],
)
async def test_long_texts_and_many_parts_are(value: Any) -> None:
    assert is_large(value)
    assert await beside_loop(threading.get_ident, is_much=True) != threading.get_ident()
    assert await beside_loop(threading.get_ident, is_much=False) == threading.get_ident()


def test_the_largest_is_told_as_fast_as_any() -> None:
    value = [[{"a": [1, 2, 3]} for _ in range(1_000)] for _ in range(100)]

    def seconds(work: Callable[[Any], object]) -> float:
        started = time.thread_time()
        work(value)
        return time.thread_time() - started

    assert is_large(value)
    # The least of three: the machine may be busy with something else.
    assert min(seconds(is_large) for _ in range(3)) * 10 < min(seconds(json.dumps) for _ in range(3))
