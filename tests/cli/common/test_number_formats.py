"""Counts, durations and savings as short words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpagent.cli.common.number_formats import duration, saving, tokens


def test_numbers_are_short() -> None:
    assert [tokens(count) for count in (0, 950, 4100, 99_956, 1_234_567)] == ["0", "950", "4.1k", "100k", "1.2M"]
    assert [duration(seconds) for seconds in (0.0611, 2.94, 125.2)] == ["61 ms", "2.9 s", "2 min 5 s"]
    assert [saving(3, 100), saving(100, 100), saving(1, 100_000), saving(0, 0)] == ["-97%", "", "-99%", ""]


@given(st.integers(0, 10**9))
def test_a_figure_never_takes_more_than_seven_columns(count: int) -> None:
    assert len(tokens(count)) <= 7
