"""A tool that says everything, or the same over and over, does not push others away, and is not loaded unasked."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.search_everyday import load_tools
from benchmarks.search_probes import index_of
from benchmarks.search_stuffed import STUFFED, everyday, ways

from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


@cache
def real_tools() -> tuple[ToolDefinition, ...]:
    return tuple(load_tools())


@pytest.mark.slow
@each_row("way", sorted(ways([])))
def test_t29_a_stuffed_tool_is_hardly_ever_the_first_sure_match(way: str) -> None:
    index = index_of(real_tools(), "bm25")
    index.replace("ultra", [ways(real_tools())[way]])
    asked = everyday()
    results = [index.search(one.request) for one in asked]
    loaded = [result for result in results if result.names[:1] == (STUFFED,) and result.is_likely]
    assert len(loaded) <= 0.05 * len(asked)


def test_a_word_said_a_hundred_times_counts_no_more_than_a_name() -> None:
    index = ToolIndex("bm25")
    spam = ToolDefinition("do_it", "invoice " * 100, {}, "a", "do_it")
    index.replace("a", [spam])
    index.replace("b", [ToolDefinition("send_invoice", "Sends it.", {}, "b", "send_invoice")])
    assert index.search("invoice").names[0] == "send_invoice"
