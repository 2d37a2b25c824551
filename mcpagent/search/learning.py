"""Learn from use, opt-in and local: record the tools found, added and called successfully after each query.

`mcpagent.search.uses` computes from these records which tools rank higher for a similar query.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

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
"""SQLite keeps values of any type in any column, and a file can have been written by anybody's program."""

_MAX_STEPS = 20_000_000
"""Of SQLite's machine for one statement, some hundred times what all rows take: a view may never end."""

_LOCKED_SECONDS = 0.2
"""How long another process may hold the file: what is not learned once is learned the next time."""

_CALLED, _ADDED = 1.0, 0.2

HALF_LIFE_SECONDS = 90 * 24 * 3600.0
"""After so long without another, a use counts half."""


@dataclass(frozen=True, slots=True)
class Use:
    """Counts of the successful adds and calls of a tool after a query; `last_seconds` is Unix time."""

    query: str
    tool: ToolKey
    added: int
    called: int
    last_seconds: float

    def worth(self, now_seconds: float) -> float:
        """Return the weight at that time: 1 for a call just made, .2 for a tool that was only added."""
        age = max(now_seconds - self.last_seconds, 0.0)
        return float(
            (self.called * _CALLED + self.added * _ADDED)
            * 0.5 ** (age / HALF_LIFE_SECONDS)
        )


@dataclass(frozen=True, slots=True)
class Served:
    """The effect of one query: the found tools that were added, and those that were called without an error."""

    added: dict[ToolKey, None] = field(default_factory=dict[ToolKey, None])
    called: dict[ToolKey, None] = field(default_factory=dict[ToolKey, None])


def served_queries(parts: Iterable[Part], since: int = 0) -> dict[str, Served]:
    """Return the effect of each query in a conversation's parts; count only adds and calls from part `since` on.

    A tool counts for the last search that found it.
    """
    asked: dict[str, str] = {}
    found_by: dict[str, tuple[str, ToolKey]] = {}
    queries: dict[str, Served] = {}
    result: ToolResult | None = None
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            result = None  # what comes behind it was announced, or loaded before the model was asked
        elif isinstance(part, ToolCall) and part.name == "search_tools":
            asked[part.id] = _query_of(part)
        elif isinstance(part, ToolResult):
            result = part
            found = found_by.get(part.name)
            if found is not None and part.error is None and place >= since:
                query, tool = found
                queries.setdefault(query, Served()).called[tool] = None
        elif isinstance(part, ToolsShown | ToolsChanged) and result is not None:
            named = part.tools
            if query := asked.get(result.call_id, ""):
                found_by.update((name, (query, tool)) for name, tool in named.items())
            elif result.name == "add_tool" and place >= since:
                for name in filter(found_by.__contains__, named):
                    query, tool = found_by[name]
                    queries.setdefault(query, Served()).added[tool] = None
    return queries


def _query_of(call: ToolCall) -> str:
    given = [call.arguments.get(name) or [] for name in ("query", "queries")]
    return " ".join(
        str(text) for one in given for text in (one if isinstance(one, list) else [one])
    )


class SearchHistory:
    """A SQLite file of queries, added and called tools, readable by its user only. `clock` returns Unix time.

    Raises `sqlite3.Error` or `OSError` if the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.clock = clock
        self.changes = 0
        """How often this object has changed the file."""

    def record(
        self, query: str, added: Iterable[ToolKey], called: Iterable[ToolKey]
    ) -> None:
        """Record the tools added after the query, and the tools called without an error."""
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

    def uses(self) -> list[Use]:
        """Return all records, the latest first."""
        if not self.path.is_file():
            return []
        with closing(self._open()) as connection:
            rows = connection.execute(
                "SELECT query, tool, added, called, last_seconds FROM uses"  # noqa: S608 - our own words
                f" WHERE {_IS_A_USE} ORDER BY last_seconds DESC, tool LIMIT ?",
                (_MAX_ROWS,),
            )
            return [Use(query, _read(tool), *counts) for query, tool, *counts in rows]

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
        except BaseException:  # no database, or a locked one: nobody else will close it
            connection.close()
            raise
        return connection


def _read(text: str) -> ToolKey:
    """Read a key; a bare name was written before keys were, and can be trusted for a function of that name alone."""
    with suppress(ValueError):
        match json.loads(text):
            case [str() | None as source, str(name), str(listed)]:
                return ToolKey(source, name, listed)
    return ToolKey(None, text, text)


def remembered_words(query: str) -> frozenset[str]:
    """Return the key under which a query is recorded: its words as terms."""
    found: Sequence[str] = [
        term for word in written_words(query[:_MAX_QUERY]) for term in terms(word)
    ]
    return frozenset(found)
