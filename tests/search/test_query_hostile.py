"""Queries that attack what reads them: compiling a pattern, long texts, long lists; load changes no answer."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from functools import cache

import pytest

from mcpagent.search import ToolIndex
from mcpagent.search.query import MAX_QUERIES, MAX_SELECTED, MAX_SELECTION
from mcpagent.search.request_detection import MAX_WORDS
from mcpagent.utilities.text.foreign_patterns import MAX_EXPANDED, PatternError, compiled, expanded
from mcpagent.values.messages import ToolDefinition
from tests.hostile_patterns import BOUNDED_BY_THEMSELVES, COSTLY_TO_COMPILE
from tests.speed import within
from tests.tables import each_row

GOOD = [
    "create.*issue",
    "(?=.*create)(?=.*issue)",
    r"^get_\w{2,64}$",
    r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
    "^[{(]?[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}[)}]?$",
    "^[{ #][a-z]{2,9}[{9 }]$",
    r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$",
    r"[\[\]a-z]{3}x{2}",
    r"\p{Lu}{3}",
    "a{1000}",
    r"^.{1,65535}$",
    "(a|b){0,500}",
]


@cache
def thousand_tools() -> ToolIndex:
    """Only searched by tests."""
    index = ToolIndex("bm25")
    tools = [ToolDefinition(f"tool_{number}", "Applies a patch to aaa", {}, "main") for number in range(1_000)]
    index.replace("main", [*tools, ToolDefinition("create_issue", "Create an issue", {}, "main")])
    index.search("warm up .* the engine")
    return index


@each_row("pattern", [*COSTLY_TO_COMPILE, *BOUNDED_BY_THEMSELVES])
def test_compiling_costs_little_whatever_the_pattern(pattern: str) -> None:
    """Tried three times before it counts as too long: something else may disturb one measurement."""
    for _ in range(3):
        compiled.cache_clear()
        compiled("warm.*up")
        started = time.thread_time()
        with contextlib.suppress(PatternError):
            compiled(pattern)
        took = time.thread_time() - started
        if is_short := within(took, 0.02):
            break
    assert is_short, took


@each_row("pattern", COSTLY_TO_COMPILE)
def test_what_would_be_written_out_too_long_is_seen_before_it_is_compiled(pattern: str) -> None:
    assert expanded(pattern) > MAX_EXPANDED


@each_row("pattern", GOOD)
def test_good_patterns_are_compiled(pattern: str) -> None:
    assert expanded(pattern) <= MAX_EXPANDED
    assert compiled(pattern)


def test_hostile_patterns_take_no_memory() -> None:
    """In a process of its own: the most that this one ever held is not known to be of these patterns."""
    script = (
        "from tests.memory import peak_megabytes\nfrom mcpagent.search.pattern import matching\n"
        "from mcpagent.utilities.text.foreign_patterns import PatternError, compiled\ncompiled('a')\n"
        "before = peak_megabytes()\n"
        f"for pattern in {[*COSTLY_TO_COMPILE, *BOUNDED_BY_THEMSELVES]!r}:\n"
        "    try:\n        matching(pattern, ['a' * 2048] * 10)\n"
        "    except PatternError:\n        pass\n"
        "print(peak_megabytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=True)
    assert float(done.stdout) < 60


@each_row("pattern", ["a{9999999}.*patch", "(patch{1000}){1000}", "(?R)?patch", "[a" * 20_000])
async def test_a_search_with_such_a_pattern_finds_by_its_words(pattern: str) -> None:
    index = thousand_tools()
    started = time.thread_time()
    result = index.search(pattern)
    assert within(time.thread_time() - started, 0.4)
    assert await index.find(pattern) == result
    assert result.error or any("searched for its words" in note for note in result.notes)
    if "patch" in pattern:
        assert result.matches


@each_row(
    "query",
    ["a b " * 2_500_000, "(" * 10_000_000, "a|" * 5_000_000, " " * 10_000_000 + "patch", "select:" + "x," * 5_000_000],
)
def test_a_long_query_is_cut_before_it_is_read(query: str) -> None:
    index = thousand_tools()
    started = time.thread_time()
    result = index.search(query)
    assert within(time.thread_time() - started, 0.2)
    assert len(result.query) <= MAX_SELECTION


def test_what_was_left_out_of_a_query_is_said() -> None:
    index = thousand_tools()
    assert f"only the first {MAX_WORDS} words were searched" in index.search("patch " * 300).notes
    many = index.search("select:" + ",".join(f"tool_{number}" for number in range(100)))
    assert (many.found, many.notes) == (MAX_SELECTED, (f"only the first {MAX_SELECTED} names were looked up",))
    queries = index.search(["create issue", *(f"tool_{number}" for number in range(100))])
    assert f"only the first {MAX_QUERIES} queries were searched" in queries.notes
    assert queries.names[0] == "create_issue"


@pytest.mark.slow
def test_a_busy_machine_changes_no_answer() -> None:
    """Every core has more to do than this, and the engine is imported by the first search: the pattern has its time."""
    script = (
        "from mcpagent.values.messages import ToolDefinition\nfrom mcpagent.search import ToolIndex\n"
        "index = ToolIndex('bm25')\n"
        "index.replace('main', [ToolDefinition(f't_{n}', 'Files ' * 200 + str(n), {}, 'm') for n in range(1000)])\n"
        "print({(found.how, found.found, found.notes) for found in (index.search('s .?9') for _ in range(5))})"
    )
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait(20)
    assert (done.stdout, done.stderr) == ("{('regex', 199, ())}\n", "")
