"""Hostile regular expressions: every search is answered in time and the event loop goes on."""

from __future__ import annotations

import asyncio
import time
from functools import cache

import pytest

from mcpagent.search import ToolIndex
from mcpagent.search.pattern import looks_like_pattern, required_literal
from mcpagent.values.messages import ToolDefinition
from tests.hostile_patterns import A_END, HOSTILE_PATTERNS
from tests.speed import within
from tests.tables import each_row


@cache
def tools_that_say(text: str) -> ToolIndex:
    """A thousand of them, for tests that only search."""
    index = ToolIndex("bm25")
    index.replace("main", [ToolDefinition(f"tool_{number}", text, {}, "main") for number in range(1000)])
    index.search("warm up .* the engine")
    return index


@pytest.mark.slow
@each_row("pattern, text", HOSTILE_PATTERNS)
async def test_a_hostile_pattern_is_answered_in_time_and_never_holds_the_loop(pattern: str, text: str) -> None:
    # CPU time, of the process and of the loop's thread: a machine that runs other things as well cannot fail this.
    # The promises are 150 ms and 50 ms; benchmarks/search_pattern.py prints by the clock what is reached.
    for _ in range(TRIES):
        took, longest_hold = await measured(tools_that_say(text), pattern)
        if is_short := within(took, 0.4) and within(longest_hold, 0.2):
            break
    assert is_short, (took, longest_hold)


TRIES = 3
"""Of each measurement, before it counts as too long: something else may disturb one of them."""


async def measured(index: ToolIndex, pattern: str) -> tuple[float, float]:
    """The CPU seconds that a search takes, and the longest that it holds the loop."""
    longest_hold = 0.0
    answered = False

    async def watch() -> None:
        nonlocal longest_hold
        while not answered:
            before = time.thread_time()
            await asyncio.sleep(0.002)
            longest_hold = max(longest_hold, time.thread_time() - before)

    watcher = asyncio.create_task(watch())
    start = time.process_time()
    await index.find(pattern)
    took = time.process_time() - start
    answered = True
    await watcher
    return took, longest_hold


def test_a_slow_pattern_is_searched_as_words_and_says_so() -> None:
    index = ToolIndex("bm25")
    index.replace("main", [ToolDefinition(f"tool_{number}", A_END, {}, "main") for number in range(9)])
    index.replace("other", [ToolDefinition("apply_patch", "Apply a patch", {}, "other")])
    result = index.search("(a+)+$|patch (a|aa)+$")
    assert any("searched for its words" in note for note in result.notes)
    assert result.names[:1] == ("apply_patch",)


@each_row("query", ["what is the weather?", "send mail (to a list)", "costs under $5", "use C++", "v1.2", "a-b"])
def test_prose_is_no_pattern(query: str) -> None:
    assert not looks_like_pattern(query)


@each_row("query", ["get_.*", "a|b", r"\bfile", "^get", "issue$", "[ab]c", "colou?r", "(weather", "a{2}", "(a+)+"])
def test_patterns_are_seen(query: str) -> None:
    assert looks_like_pattern(query)


@each_row(
    "pattern, literal",
    [
        ("create.*issue", "create"),
        ("^Get_", "get"),
        (r"\bfiles?\b", "file"),
        ("colou?rs", "colo"),
        ("ab*c", "a"),
        ("a|b", ""),
        ("(create)?issue", ""),
        (r"\x41bc", ""),
        ("[ab]cd", ""),
        ("K+", "k"),
    ],
)
def test_what_a_pattern_cannot_do_without(pattern: str, literal: str) -> None:
    assert required_literal(pattern) == literal


def test_only_tools_with_the_literal_are_tried_and_none_is_missed() -> None:
    index = ToolIndex("bm25")
    words = ("the", "Therapy", "breathe", "isotherm")
    tools = [ToolDefinition(f"tool_{word}", f"About {word} x.", {}, "main", f"tool_{word}") for word in words]
    index.replace("main", [*tools, ToolDefinition("main__other", "None of it", {}, "main", "other")])
    assert set(index.search("the.*x", limit=9).names) == {tool.name for tool in tools}
    assert index.search("isothe.*", limit=9).names == ("tool_isotherm",)
    assert index.search("^main__", limit=9).names == ("main__other",)


@each_row(
    "sentence",
    [
        "Please analyse the page at https://example.com/watch?v=arj7o for the keyword [keyword] and tell me",
        "How far is it from Rivermist (zip 83214) to Greenway (zip 74532)? I plan a visit",
    ],
)
def test_a_sentence_with_brackets_or_a_link_is_no_pattern(sentence: str) -> None:
    assert not looks_like_pattern(sentence)


@each_row("pattern", ["create.*issue", "(get|list)_x", "a new ticket|file a bug report|open an issue|make one"])
def test_patterns_of_any_length_are_patterns(pattern: str) -> None:
    assert looks_like_pattern(pattern)
