"""The tables of a database of sessions, in the words of SQLite or PostgreSQL, and those that earlier versions made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import TypeAlias

Migrations: TypeAlias = Sequence[Sequence[str]]
"""The statements that make each version of the tables of the one before it; the first ones make them."""

_HOLDERS = "CREATE TABLE holders(token TEXT PRIMARY KEY, pid INTEGER, host TEXT, since $real) $rowless"

_TABLES = (
    """CREATE TABLE sessions(
        number $number, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL DEFAULT '',
        is_named INTEGER NOT NULL DEFAULT 0, created $real NOT NULL, updated $real NOT NULL,
        folder TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', tokens $big NOT NULL DEFAULT 0,
        dollars $real NOT NULL DEFAULT 0, cost_known INTEGER NOT NULL DEFAULT 1, holder TEXT)""",
    "CREATE INDEX sessions_by_time ON sessions(updated)",
    "CREATE TABLE steps(session $big, place INTEGER, step TEXT NOT NULL, PRIMARY KEY(session, place)) $rowless",
    "CREATE TABLE calls(session $big, id TEXT, progress TEXT NOT NULL, PRIMARY KEY(session, id)) $rowless",
    "CREATE TABLE kept_values(session $big, name TEXT, value TEXT NOT NULL, PRIMARY KEY(session, name)) $rowless",
    _HOLDERS,
)

_OUTPUTS = (
    """CREATE TABLE outputs(
        session $big NOT NULL, handle TEXT NOT NULL, kept $real NOT NULL, tool TEXT NOT NULL, output TEXT NOT NULL,
        images TEXT NOT NULL, PRIMARY KEY(session, handle))""",
    "CREATE INDEX outputs_by_time ON outputs(kept)",
)
"""Large results (`mcpagent.run.large_results`)."""

_RUNS = (
    """CREATE TABLE runs(
        session TEXT, id TEXT, is_cancelled INTEGER NOT NULL DEFAULT 0, ended TEXT, PRIMARY KEY(session, id)
        ) $rowless""",
)
"""Durable runs, by the IDs of session and run: a run can be cancelled before its session exists."""

_ENTRIES = (
    """CREATE TABLE entries(
        session TEXT NOT NULL, key TEXT $bytes NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, size INTEGER NOT NULL,
        time $real NOT NULL, run TEXT NOT NULL DEFAULT '', call TEXT NOT NULL DEFAULT '',
        expires $real NOT NULL DEFAULT 0, PRIMARY KEY(session, key))""",
    "CREATE INDEX entries_listed ON entries(key) WHERE key >= 'info/' AND key < 'info0'",
    "CREATE INDEX entries_that_expire ON entries(expires) WHERE expires > 0",
    "CREATE TABLE leases(session TEXT PRIMARY KEY, holder TEXT) $rowless",
    "CREATE INDEX leases_by_holder ON leases(holder)",
)
"""Sessions as entries, and who has each."""

_MESSAGES = "FROM messages m JOIN sessions s ON s.number = m.session"

_FROM_TABLES = (
    f"""INSERT INTO entries(session, key, kind, data, size, time)
        SELECT s.id, $message, 'message',
            '{{"message":' || m.message || ',"step":' || coalesce(t.step, 'null') || '}}', length(m.message), s.updated
        {_MESSAGES} LEFT JOIN steps t ON t.session = m.session AND t.place = m.place""",
    f"""INSERT INTO words(session, key, words$searched)
        SELECT s.id, $message, m.words$told {_MESSAGES} WHERE m.words <> ''""",
    """INSERT INTO entries(session, key, kind, data, size, time, call)
        SELECT s.id, 's/call/' || c.id, 'call', c.progress, length(c.progress), s.updated, c.id
        FROM calls c JOIN sessions s ON s.number = c.session""",
    """INSERT INTO entries(session, key, kind, data, size, time)
        SELECT s.id, 's/value/' || v.name, 'value', v.value, length(v.value), s.updated
        FROM kept_values v JOIN sessions s ON s.number = v.session""",
    """INSERT INTO entries(session, key, kind, data, size, time)
        SELECT s.id, 'info/summary', 'summary', $object(
            'title', CASE s.is_named WHEN 0 THEN s.title ELSE '' END, 'created', s.created, 'updated', s.updated,
            'folder', s.folder, 'model', s.model, 'turns',
            (SELECT count(*) FROM messages m WHERE m.session = s.number AND m.is_answer = 1), 'messages',
            (SELECT count(*) FROM messages m WHERE m.session = s.number), 'tokens', s.tokens, 'dollars', s.dollars,
            'cost_known', s.cost_known)$text, 0, s.updated FROM sessions s""",
    """INSERT INTO entries(session, key, kind, data, size, time)
        SELECT s.id, 'info/title', 'title', $quoted(s.title)$text, 0, s.updated FROM sessions s WHERE s.is_named = 1""",
    """INSERT INTO entries(session, key, kind, data, size, time, expires)
        SELECT s.id, 'output/' || o.handle, 'output',
            $object('tool', o.tool, 'output', o.output, 'images', o.images)$text,
            length(o.output) + length(o.images), o.kept, o.kept + 604800
        FROM outputs o JOIN sessions s ON s.number = o.session""",
    """INSERT INTO entries(session, key, kind, data, size, time, run)
        SELECT session, 'run/' || id || '/cancelled', 'run_cancelled', 'true', 4, 0, id FROM runs
        WHERE is_cancelled = 1""",
    """INSERT INTO entries(session, key, kind, data, size, time, run)
        SELECT session, 'run/' || id || '/ended', 'run_ended', ended, length(ended), 0, id FROM runs
        WHERE ended IS NOT NULL""",
)
"""The tables of earlier versions as entries."""

_GONE = ("messages", "steps", "calls", "kept_values", "outputs", "runs", "sessions")


def tables(
    dialect: Mapping[str, str],
    *,
    messages: Sequence[str],
    words: Sequence[str],
    search: Sequence[str] = (),
    converting: Sequence[str] = (),
    converted: Sequence[str] = (),
) -> tuple[Migrations, Sequence[str]]:
    """Return the statements of each version, and those that make a new database.

    `messages` make the tables of messages in version 1, `words` and `search` those of words in version 4. `converting`
    run before the tables of earlier versions are dropped, `converted` at the end.
    """

    def written(statements: Sequence[str]) -> list[str]:
        return [Template(statement).substitute(dialect) for statement in statements]

    entries = [*written(_ENTRIES), *words]
    drops = [f"DROP TABLE {table}" for table in _GONE]
    fourth = [
        *entries,
        *written(_FROM_TABLES),
        *converting,
        *drops,
        *search,
        *converted,
    ]
    versions = (
        [*written(_TABLES), *messages],
        written(_OUTPUTS),
        written(_RUNS),
        fourth,
    )
    return versions, [*written([_HOLDERS]), *entries, *search]
