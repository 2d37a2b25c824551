"""The tables of a database for sessions, in the SQL of SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Template
from typing import TypeAlias

Migrations: TypeAlias = Sequence[Sequence[str]]
"""Statements that create each version of the tables from the previous one; the first ones create `FIRST_VERSION`."""

FIRST_VERSION = 4
"""The version of the first release. Versions 1 to 3 existed only during development."""

_TABLES = (
    "CREATE TABLE holders(token TEXT PRIMARY KEY, pid INTEGER, host TEXT, since $real) $rowless",
    """CREATE TABLE entries(
        session TEXT NOT NULL, key TEXT $bytes NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, size INTEGER NOT NULL,
        time $real NOT NULL, run TEXT NOT NULL DEFAULT '', call TEXT NOT NULL DEFAULT '',
        expires $real NOT NULL DEFAULT 0, PRIMARY KEY(session, key))""",
    "CREATE INDEX entries_listed ON entries(key) WHERE key >= 'info/' AND key < 'info0'",
    "CREATE INDEX entries_that_expire ON entries(expires) WHERE expires > 0",
    "CREATE TABLE leases(session TEXT PRIMARY KEY, holder TEXT) $rowless",
    "CREATE INDEX leases_by_holder ON leases(holder)",
)
"""The tables of entries, of processes that hold leases, and of leases."""


def tables(dialect: Mapping[str, str], *searched: str) -> Sequence[str]:
    """Return the statements that create the tables; `searched` are the database's own statements for searches."""
    written = [Template(statement).substitute(dialect) for statement in _TABLES]
    return [*written, *searched]
