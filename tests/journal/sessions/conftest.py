"""The two kinds of places where sessions are kept, so that one test holds both."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Sessions
from mcpagent.journal.sessions.sql_store import SqlStore
from mcpagent.journal.sessions.sql_tables import Migrations
from tests.journal.sessions.postgres_server import PostgresServer, postgres_server


@dataclass
class Place:
    """One place that is empty at first; each `open` is as another process would open it."""

    where: str
    server: PostgresServer | None = None
    database: str = ""
    opened: list[Sessions] = field(default_factory=list[Sessions])

    def open(self, **options: Any) -> Sessions:
        store = Sessions(self.where, **options)
        self.opened.append(store)
        return store

    def backend(self, migrations: Migrations | None = None) -> SqlStore:
        if self.server is not None:
            from mcpagent.journal.sessions import postgres

            return postgres.PostgresStore(self.where, "normal", migrations or postgres.MIGRATIONS)
        from mcpagent.journal.sessions import sqlite

        return sqlite.SqliteStore(Path(self.where), "normal", migrations or sqlite.MIGRATIONS)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """One statement, past the store."""
        if self.server is not None:
            return self.server.run(sql, self.database)
        with closing(sqlite3.connect(self.where, timeout=10)) as connection, connection:
            return connection.execute(sql).fetchall()

    def lose_hold(self, store: Sessions) -> None:
        """As if the process of this store had ended, which it does not know."""
        backend: Any = store._store
        if self.server is None:
            backend.disown()
            return
        self.server.run(f"SELECT pg_terminate_backend({backend._connection.info.backend_pid}, 5000)", self.database)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "postgres":
        server = postgres_server()
        database = server.new_database()
        place = Place(server.address(database), server, database)
    else:
        place = Place(str(tmp_path / "kept" / "sessions.db"))
    yield place
    for store in place.opened:
        store.close()
    if place.server is not None:
        place.server.run(f"DROP DATABASE {place.database} WITH (FORCE)")


async def settled() -> None:
    """Lets what was asked for by `call_soon` happen."""
    for _ in range(5):
        await asyncio.sleep(0)
