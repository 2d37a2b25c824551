"""Learn from earlier searches (opt-in, stored locally): which tools were found, added and successfully called after a
query.

`UsagePrior` computes from these records which tools rank higher for a similar query.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcpagent.search.constants import FITTED
from mcpagent.search.words import terms, written_words
from mcpagent.utilities.filesystem.bounded_files import check_own
from mcpagent.utilities.filesystem.file_changes import make_private
from mcpagent.values.messages import (
    Part,
    Text,
    ToolCall,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS uses (
    words TEXT NOT NULL, tool TEXT NOT NULL, query TEXT NOT NULL,
    added INTEGER NOT NULL, called INTEGER NOT NULL, last_seconds REAL NOT NULL,
    PRIMARY KEY (words, tool)
) WITHOUT ROWID
"""
_MAX_QUERY = 500
_MAX_ROWS = 5_000
_IS_A_USE = (
    "typeof(query) = 'text' AND typeof(tool) = 'text' AND length(query) <= 500 AND length(tool) <= 500"
    " AND typeof(added) = 'integer' AND typeof(called) = 'integer' AND added >= 0 AND called >= 0"
    " AND last_seconds BETWEEN 0 AND 1e11"
)
"""An SQL condition for valid rows: SQLite stores any type in any column, and another program may have written the
file.
"""

_MAX_STEPS = 20_000_000
"""Maximum steps of SQLite's virtual machine for one statement, about a hundred times the cost of reading all rows: a
view in a hostile file could run for ever.
"""

_LOCKED_SECONDS = 0.2
"""Timeout for a lock on the file by another process. After it, the record is not written."""

_CALLED, _ADDED = 1.0, 0.2

HALF_LIFE_SECONDS = 90 * 24 * 3600.0
"""Half-life of a record: after this time it has half the weight."""


MOST_RAISED = 3
"""Maximum number of tools that one search raises. So of five results, at least two do not depend on the history."""

_ONCE = FITTED["learned"]["once"]
"""The weight of uses that gives half of the maximum. So a tool used a hundred times ranks hardly higher than one used
ten times.
"""

_SAME = FITTED["learned"]["same words"]
"""Minimum similarity of two queries that count as the same."""


@dataclass(frozen=True, slots=True)
class UsageCounts:
    """How often a tool was added and successfully called after a query; `last_seconds` is Unix time."""

    query: str
    tool: ToolKey
    added: int
    called: int
    last_seconds: float

    def worth(self, now_seconds: float) -> float:
        """Return the weight at the time `now_seconds`: 1 for a call just made, 0.2 for a tool that was only added."""
        age = max(now_seconds - self.last_seconds, 0.0)
        return float(
            (self.called * _CALLED + self.added * _ADDED)
            * 0.5 ** (age / HALF_LIFE_SECONDS)
        )


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The outcome of one query: the found tools that were added, and those that were called without an error."""

    added: dict[ToolKey, None] = field(default_factory=dict[ToolKey, None])
    called: dict[ToolKey, None] = field(default_factory=dict[ToolKey, None])


def served_queries(parts: Iterable[Part], since: int = 0) -> dict[str, QueryOutcome]:
    """Return the outcome of each query in a conversation's parts; only adds and calls from part `since` on are counted.

    A tool belongs to the last search that found it.
    """
    asked: dict[str, str] = {}
    found_by: dict[str, tuple[str, ToolKey]] = {}
    queries: dict[str, QueryOutcome] = {}
    result: ToolResult | None = None
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            result = None  # tools announced from here on were not found by the search
        elif isinstance(part, ToolCall) and part.name == "search_tools":
            asked[part.id] = _query_of(part)
        elif isinstance(part, ToolResult):
            result = part
            found = found_by.get(part.name)
            if found is not None and part.error is None and place >= since:
                query, tool = found
                queries.setdefault(query, QueryOutcome()).called[tool] = None
        elif isinstance(part, ToolsShown | ToolsChanged) and result is not None:
            named = part.tools
            if query := asked.get(result.call_id, ""):
                found_by.update((name, (query, tool)) for name, tool in named.items())
            elif result.name == "add_tool" and place >= since:
                for name in filter(found_by.__contains__, named):
                    query, tool = found_by[name]
                    queries.setdefault(query, QueryOutcome()).added[tool] = None
    return queries


def _query_of(call: ToolCall) -> str:
    given = [call.arguments.get(name) or [] for name in ("query", "queries")]
    return " ".join(
        str(text) for one in given for text in (one if isinstance(one, list) else [one])
    )


class SearchHistory:
    """A SQLite file of queries with the tools added and called after them, readable by its user only.

    `clock` returns Unix time. Raises `sqlite3.Error` or `OSError` if the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self.changes = 0
        """Number of times that this object changed the file."""

    def record(
        self, query: str, added: Iterable[ToolKey], called: Iterable[ToolKey]
    ) -> None:
        """Record the tools added after the query, and those called without an error."""
        words = remembered_words(query)
        added, called = set(added), set(called)
        if not words or not added | called:
            return
        rows = [
            (
                " ".join(sorted(words)),
                json.dumps(tool),
                query[:_MAX_QUERY],
                tool in added,
                tool in called,
                self.clock(),
            )
            for tool in sorted(added | called, key=str)
        ]
        with closing(self._open()) as connection, connection:
            connection.executemany(
                "INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (words, tool) DO UPDATE SET"
                " query = excluded.query, added = added + excluded.added,"
                " called = called + excluded.called, last_seconds = excluded.last_seconds",
                rows,
            )
            connection.execute(
                "DELETE FROM uses WHERE (words, tool) IN"
                " (SELECT words, tool FROM uses ORDER BY last_seconds DESC LIMIT -1 OFFSET ?)",
                (_MAX_ROWS,),
            )
        self.changes += 1

    def uses(self) -> list[UsageCounts]:
        """Return all records, the latest first."""
        if not self.path.is_file():
            return []
        with closing(self._open()) as connection:
            rows = connection.execute(
                "SELECT query, tool, added, called, last_seconds FROM uses"  # noqa: S608 - our own words
                f" WHERE {_IS_A_USE} ORDER BY last_seconds DESC, tool LIMIT ?",
                (_MAX_ROWS,),
            )
            return [
                UsageCounts(query, _read(tool), *counts)
                for query, tool, *counts in rows
            ]

    def forget(self, tool: ToolKey, queries: Iterable[str]) -> None:
        """Delete the records of a tool after these queries."""
        rows = [(json.dumps(tool), query) for query in queries]
        with closing(self._open()) as connection, connection:
            connection.executemany(
                "DELETE FROM uses WHERE tool = ? AND query = ?", rows
            )
        self.changes += 1

    def clear(self) -> int:
        """Delete all records; return their number."""
        count = len(self.uses())
        if count:
            with closing(self._open()) as connection, connection:
                connection.execute("DELETE FROM uses")
        self.changes += 1
        return count

    def _open(self) -> sqlite3.Connection:
        make_private(self.path.parent)
        check_own(self.path)
        self.path.touch(mode=0o600)
        connection = sqlite3.connect(self.path, timeout=_LOCKED_SECONDS)
        connection.set_progress_handler(lambda: True, _MAX_STEPS)
        try:
            connection.execute(_SCHEMA)
        except BaseException:  # an invalid or locked database: close it here
            connection.close()
            raise
        return connection


class UsagePrior:
    """Ranks tools by earlier searches with similar words."""

    def __init__(self, history: SearchHistory) -> None:
        self._history = history
        self._read_at = -1
        self._worth: dict[str, dict[ToolKey, float]] = {}
        self._lock = threading.Lock()

    def scores(self, text: str, rarity: Callable[[str], float]) -> dict[ToolKey, float]:
        """Return a score (above 0, at most 1) by tool, the highest first: the share of similar queries that led to its
        call.

        `rarity` returns the rarity of a term. Raises `sqlite3.Error` or `OSError` if the history cannot be read.
        """
        with self._lock:
            self._read()
            worths = self._worth
        rarities = {word: rarity(word) for word in sorted(remembered_words(text))}
        whole = sum(rarities.values()) or 1.0
        found: defaultdict[ToolKey, float] = defaultdict(float)
        for word, rare in rarities.items():
            for tool, worth in worths.get(word, {}).items():
                found[tool] += rare / whole * worth / (worth + _ONCE)
        ranked = sorted(found.items(), key=lambda one: (-one[1], str(one[0])))
        return {tool: min(share / _SAME, 1.0) for tool, share in ranked}

    def _read(self) -> None:
        """Read the history again if it changed: for each word, the weights of tools used after it."""
        if self._read_at == self._history.changes:
            return
        now = self._history.clock()
        worths: defaultdict[str, defaultdict[ToolKey, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for use in self._history.uses():
            for word in remembered_words(use.query):
                worths[word][use.tool] += use.worth(now)
        self._worth = {word: dict(tools) for word, tools in worths.items()}
        self._read_at = self._history.changes


def _read(text: str) -> ToolKey:
    """Return the key in a row. Older versions stored only a name, which identifies only a function."""
    with suppress(ValueError):
        match json.loads(text):
            case [str() | None as source, str(name), str(listed)]:
                return ToolKey(source, name, listed)
    return ToolKey(None, text, text)


def remembered_words(query: str) -> frozenset[str]:
    """Return the terms of a query, which are the key of its records."""
    found: Sequence[str] = [
        term for word in written_words(query[:_MAX_QUERY]) for term in terms(word)
    ]
    return frozenset(found)
