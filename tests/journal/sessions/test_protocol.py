"""What a `SessionStore` has to do: those that are built in, one of forty lines in Redis, and one in memory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, InputError, ScriptedModel, SessionBusyError, Sessions, SessionStoreError, ToolCall
from mcpagent.journal.sessions import Entry, Hit, Holder, SessionStore, StoredSession
from mcpagent.journal.sessions.sqlite import SqliteStore
from tests.journal.sessions.postgres_server import postgres_server
from tests.journal.sessions.redis_server import redis_server
from tests.terminal.process import ROOT

ME, OTHER = Holder(os.getpid(), "here", 1.0, "0" * 32), Holder(os.getpid(), "here", 2.0, "1" * 32)


@dataclass
class InMemory:
    """The least that a store can be."""

    where: str = "memory"
    renew_seconds: float | None = 10.0
    kept: dict[str, dict[str, Entry]] = field(default_factory=dict)
    leases: dict[str, Holder] = field(default_factory=dict)

    def append(self, session: str, entries: Sequence[Entry], owner: Holder | None) -> bool:
        if owner is not None and self.leases.get(session) != owner:
            return False
        kept = self.kept.setdefault(session, {}) | {entry.key: entry for entry in entries}
        self.kept[session] = {key: entry for key, entry in kept.items() if entry.data is not None}
        return True

    def read(self, session: str, *prefixes: str) -> StoredSession | None:
        now = time.time()
        living = [entry for entry in self.kept.get(session, {}).values() if not 0 < entry.expires <= now]
        entries = [entry for entry in living if entry.key.startswith(prefixes)]
        return StoredSession(session, entries, self.leases.get(session)) if entries else None

    def list(self) -> Sequence[StoredSession]:
        return [stored for session in self.kept if (stored := self.read(session, "info/")) is not None]

    def search(self, words: Sequence[str], limit: int) -> Sequence[Hit]:
        hits = []
        for session, entries in self.kept.items():
            for entry in entries.values():
                if all(word in entry.words for word in words):
                    hits.append(Hit(session, entry.key, entry.words))
        return hits[:limit]

    def lease(self, session: str, owner: Holder) -> Holder | None:
        holder = self.leases.setdefault(session, owner)
        return holder if holder != owner else None

    def release(self, session: str, owner: Holder) -> None:
        if self.leases.get(session) == owner:
            del self.leases[session]

    def delete(self, session: str) -> None:
        self.kept.pop(session, None)
        self.leases.pop(session, None)

    def close(self) -> None:
        pass


Make = Callable[[], SessionStore]
"""Opens the store as another process would."""


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    if request.param == "memory":
        one = InMemory()
        yield lambda: one
    elif request.param == "sqlite":
        yield lambda: SqliteStore(tmp_path / "s.db", "normal")
    elif request.param == "postgres":
        from mcpagent.journal.sessions.postgres import PostgresStore

        server = postgres_server()
        database = server.new_database()
        yield lambda: PostgresStore(server.address(database), "normal")
        server.run(f"DROP DATABASE {database} WITH (FORCE)")
    else:
        sys.path.insert(0, str(ROOT / "examples" / "redis_sessions"))
        try:
            import redis_store  # type: ignore[import-not-found]  # the example, as its reader imports it
        finally:
            del sys.path[0]
        with redis_server(tmp_path) as url:
            yield lambda: redis_store.RedisStore(url)


def entry(key: str, data: str | None = "1", **more: Any) -> Entry:
    return Entry(key, "value", data, 5.5, **more)


def keys(stored: StoredSession | None) -> list[str]:
    return sorted(one.key for one in stored.entries) if stored is not None else []


def test_the_last_entry_of_a_key_counts(make: Make) -> None:
    store = make()
    assert isinstance(store, SessionStore)
    assert store.read("a", "s/") is None
    assert store.lease("a", ME) is None
    whole = Entry("s/x", "call", '{"é": "\\ud800 \'"}', 5.5, run="r", call="c")
    assert store.append("a", [entry("s/x"), entry("s/y"), whole, entry("t/z"), entry("info/summary")], ME)
    found = store.read("a", "s/")
    assert found is not None
    assert [one for one in found.entries if one.key == "s/x"] == [whole]
    assert keys(found) == ["s/x", "s/y"]
    assert found.holder == ME
    assert store.append("a", [entry("s/x", None), entry("never", None)], ME)
    assert keys(store.read("a", "s/", "t/")) == ["s/y", "t/z"]
    assert keys(store.read("a", "")) == ["info/summary", "s/y", "t/z"]
    assert store.read("b", "s/") is None
    store.close()


def test_without_a_lease_nothing_is_written(make: Make) -> None:
    store = make()
    assert not store.append("a", [entry("s/x")], ME)
    assert store.read("a", "s/") is None
    assert store.append("a", [entry("run/1/cancelled")], None)
    assert store.lease("a", ME) is None
    assert store.lease("a", ME) is None  # renewed
    assert store.append("a", [entry("s/x")], ME)
    assert not store.append("a", [entry("s/x", "2")], OTHER)
    store.release("a", OTHER)
    assert store.append("a", [entry("s/x", "3")], ME)
    store.release("a", ME)
    assert not store.append("a", [entry("s/x", "4")], ME)
    found = store.read("a", "s/")
    assert found is not None
    assert [one.data for one in found.entries] == ["3"]
    assert found.holder is None
    store.close()


def test_a_lease_is_one_processs(make: Make) -> None:
    one, other = make(), make()
    assert one.lease("a", ME) is None
    assert one.append("a", [entry("info/summary")], ME)
    assert other.lease("a", OTHER) == ME
    [listed] = other.list()
    assert (listed.id, listed.holder) == ("a", ME)
    one.release("a", ME)
    assert other.lease("a", OTHER) is None
    assert not one.append("a", [entry("s/x")], ME)
    one.close()
    other.close()


def test_entries_expire_and_sessions_are_deleted(make: Make) -> None:
    store = make()
    now = time.time()
    for session in ("a", "b"):
        assert store.lease(session, ME) is None
        gone, there = entry("output/1", expires=now - 1), entry("output/2", expires=now + 900)
        assert store.append(session, [gone, there, entry("info/summary")], ME)
    assert keys(store.read("a", "output/")) == ["output/2"]
    store.delete("a")
    store.delete("never")
    assert store.read("a", "") is None
    assert [stored.id for stored in store.list()] == ["b"]
    assert not store.append("a", [entry("s/x")], ME)
    store.close()


def test_words_are_found(make: Make) -> None:
    store = make()
    assert store.lease("a", ME) is None
    first, other = (
        replace(entry("s/message/000000"), words="quince jam"),
        replace(entry("s/message/000001"), words="jam"),
    )
    assert store.append("a", [first, other, entry("info/summary")], ME)
    assert [hit.key for hit in store.search(["quince", "jam"], 5)] == ["s/message/000000"]
    assert len(store.search(["jam"], 5)) == 2
    assert len(store.search(["jam"], 1)) == 1
    assert store.append("a", [replace(first, data=None)], ME)
    assert store.search(["quince"], 5) == []
    store.close()


async def test_an_agents_sessions_are_kept(make: Make) -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    def model() -> ScriptedModel:
        return ScriptedModel([ToolCall("", "add", {"a": 2, "b": 3}), "It is 5.", "Yes.", "No."])

    store = Sessions(make())
    async with Agent(model(), tools=[add], sessions=store) as agent:
        session = agent.session("sum")
        assert await session.ask("How much is 2 + 3?") == "It is 5."
        session.rewind(0)
        assert await session.ask("And now?") == "Yes."
        said = session.messages
        with pytest.raises(SessionBusyError):
            Sessions(make()).open("sum")
    assert [(info.id, info.title, info.messages) for info in store.sessions()] == [("sum", "How much is 2 + 3?", 2)]
    async with Agent(model(), tools=[add], sessions=store) as agent:
        session = agent.session("sum")
        assert session.messages == said
        assert await session.ask("And 3 + 4?") == "It is 5."
    copy = store.fork("sum", "copy", length=2)
    store.rename(copy, "The copy")
    assert [info.title for info in store.match("copy")] == ["The copy"]
    assert [found.session.id for found in store.search("3 + 4?")] == ["sum"]
    store.delete("sum")
    assert [info.id for info in store.sessions()] == ["copy"]
    with pytest.raises(InputError, match="no session"):
        store.read("sum")
    store.close()


def test_any_error_of_a_store_is_one_line() -> None:
    @dataclass
    class Broken(InMemory):
        def read(self, session: str, *prefixes: str) -> StoredSession | None:
            raise ConnectionError("no\nroute")

    with pytest.raises(SessionStoreError, match=r"^memory: ConnectionError: no route$"):
        Sessions(Broken()).read("a")


def test_a_lease_is_renewed_while_a_session_is_used() -> None:
    renewed: list[str] = []

    @dataclass
    class Watched(InMemory):
        renew_seconds: float | None = 0.01

        def lease(self, session: str, owner: Holder) -> Holder | None:
            renewed.append(session)
            return super().lease(session, owner)

    inside = Watched()
    inside.kept["a"] = {"info/summary": Entry("info/summary", "summary", '{"title": ""}', 1.0)}
    store = Sessions(inside)
    store._do(lambda: store._hold("a")).result(30)
    until = time.monotonic() + 30
    while len(renewed) < 4:
        assert time.monotonic() < until
        time.sleep(0.001)
    store.close()
