"""What a store says when it cannot be used: one line, where, what, what to do; and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Sessions, SessionStoreError
from mcpagent.journal.sessions.postgres import _MIGRATING, advice
from tests.journal.sessions.conftest import Place
from tests.journal.sessions.journal import journal
from tests.journal.sessions.postgres_server import PostgresServer, postgres_server
from tests.tables import each_row
from tests.terminal.process import ROOT


def write(store: Sessions, session: str, text: str, keep: int = 0) -> None:
    store.write(session, journal(text, keep=keep)).result(30)


def told(work: Callable[[], Any]) -> str:
    """The error's text, which is one line."""
    with pytest.raises(SessionStoreError) as caught:
        work()
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 500
    return line


# -- SQLite ------------------------------------------------------------------------------------------------------------


def in_a_child(code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def filled(store: Sessions) -> tuple[int, str]:
    """Messages that were written until one was refused, each of 50,000 characters, and what was told then."""
    for place in range(100):
        try:
            write(store, "a", f"{place} " + "x" * 50_000, place)
        except SessionStoreError as error:
            assert [message.text.split()[0] for message in store.read("a").messages] == [str(n) for n in range(place)]
            return place, str(error)
    raise AssertionError("nothing was refused")


LIMITED = """
import resource, sys
from mcpagent import Sessions
from tests.journal.sessions.test_store_errors import filled, write
store = Sessions(sys.argv[1])
write(store, "a", "0")
resource.setrlimit(resource.RLIMIT_FSIZE, (650_000, resource.RLIM_INFINITY))
place, told = filled(store)
print(place, told)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(store, "a", "more", place)
assert len(store.read("a").messages) == place + 1
store.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    count, _, line = in_a_child(LIMITED, path).partition(" ")
    assert int(count) > 1
    assert line.startswith(f"{path}: ")
    assert "make room" in line
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    path = small_disk / "s.db"
    store = Sessions(path)
    count, line = filled(store)
    store.close()
    assert count > 1
    assert line == f"{path}: the disk is full; make room and go on"
    store = Sessions(path)
    assert len(store.read("a").messages) == count
    store.close()


AS_NOBODY = """
import os, sys, tempfile
from mcpagent import *
with tempfile.TemporaryDirectory() as other:  # imports what it needs, which others may not read
    Sessions(other + "/s.db").sessions()
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    store = Sessions(path)
    for work in (store.sessions, lambda: store.read("a"), lambda: store.open("new")):
        try:
            work()
        except SessionStoreError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
def test_a_place_that_cannot_be_written() -> None:
    """A folder and its file that are read only, and a folder in which none can be made."""
    folder = Path(tempfile.mkdtemp())  # others come to it, unlike pytest's
    try:
        there, missing = folder / "kept" / "s.db", folder / "missing" / "s.db"
        store = Sessions(there)
        write(store, "a", "x")
        store.close()
        there.chmod(0o444)
        there.parent.chmod(0o555)
        folder.chmod(0o555)
        lines = in_a_child(AS_NOBODY, there, missing).splitlines()
        assert len(lines) == 6
        for path, line in zip([there] * 3 + [missing] * 3, lines, strict=True):
            assert line.startswith(f"{path}: cannot be ")
            assert "Permission denied" in line or "readonly" in line or "unable to open" in line
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder, onerror=lambda *_: None)


def damaged(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    match kind:
        case "text":
            data = bytearray(b"not a database, but a letter\n" * 100)
        case "short":
            data = data[:5_000]
        case "torn":
            data[4096:40_000] = os.urandom(40_000 - 4096)
        case _:
            data[:16] = b"x" * 16
    path.write_bytes(data)


@each_row("kind", ["text", "short", "torn", "header"])
def test_a_damaged_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "s.db"
    store = Sessions(path)
    for number in range(20):
        write(store, f"s{number}", "words " * 500)
    store.close()
    damaged(path, kind)
    before = path.read_bytes()
    store = Sessions(path)

    def use() -> None:
        store.sessions()
        for number in range(20):
            store.read(f"s{number}")

    line = told(use)
    assert line.startswith(f"{path}: ")
    assert "damaged" in line
    with contextlib.suppress(SessionStoreError):
        assert store.check()
    store.close()
    assert path.read_bytes()[:100] == before[:100]


def test_an_index_of_words_that_is_damaged_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = Sessions(path)
    write(store, "a", "some words")
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO said(said) VALUES('delete-all')")
    store = Sessions(path)
    (line,) = store.check()
    assert line.startswith("the index of words was damaged")
    assert store.check() == []
    assert [found.session.id for found in store.search("words")] == ["a"]
    store.close()


def test_a_row_that_cannot_be_read_is_one_sessions_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = Sessions(path)
    write(store, "a", "x")
    write(store, "b", "y")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE entries SET data = '{' WHERE key LIKE 's/message/%' AND session = 'a'")
    for work in (lambda: store.read("a"), lambda: store.open("a")):
        line = told(work)
        assert line.startswith(f'{path}: session "a" cannot be read: ')
        assert line.endswith("the others can")
    assert store.read("b").messages[0].text == "y"
    store.delete("a")
    assert [info.id for info in store.sessions()] == ["b"]
    store.close()


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks(x)")
    before = path.read_bytes()
    store = Sessions(path)
    assert told(store.sessions) == f"{path}: is another program's database; use another file: --set session_db=FILE"
    store.close()
    assert path.read_bytes() == before
    folder = Sessions(tmp_path)
    assert told(folder.sessions).startswith(f"{tmp_path}: cannot be used: Is a directory")


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

SECRET = "pa55w0rd/@x"


@pytest.fixture
def server() -> PostgresServer:
    return _with_users()


@cache
def _with_users() -> PostgresServer:
    """Once for each server, whatever order its tests come in."""
    server = postgres_server()
    server.run(f"CREATE ROLE ann LOGIN PASSWORD '{SECRET}'")
    server.run("CREATE ROLE readers LOGIN PASSWORD 'readers'")
    return server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    name = server.new_database()
    yield name
    server.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_password_that_is_wrong(server: PostgresServer, database: str) -> None:
    store = Sessions(server.on_loopback("ann", "wrong-pa55", database))
    line = told(store.sessions)
    assert line.startswith(f"postgresql://127.0.0.1:{server.port}/{database}: ")
    assert line.endswith("check user and password")
    assert "wrong-pa55" not in line + repr(store) + store.where
    store.close()


def test_a_database_that_is_not_there(server: PostgresServer) -> None:
    store = Sessions(server.on_loopback("ann", SECRET, "nowhere"))
    line = told(store.sessions)
    assert 'database "nowhere" does not exist; make it' in line
    assert SECRET not in line
    store.close()


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        store = Sessions(f"postgresql://ann:{'s3cret77'}@127.0.0.1:{taken.getsockname()[1]}/chats")
        line = told(store.sessions)
    assert "is the server running there" in line
    assert "s3cret77" not in line
    store.close()


@each_row("port", [1, 28, 2801, 42501, 53100, 53300])
def test_figures_in_a_port_are_no_codes(port: int) -> None:
    """An error without a code is known by its words; those of a connection have the port in them."""
    refused = f'connection to server at "127.0.0.1", port {port} failed: Connection refused'
    assert advice(None, refused).startswith("is the server running there")
    assert advice("28P01", refused) == "check user and password"


@pytest.mark.slow
def test_somebody_listens_who_says_nothing() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = Sessions(f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/chats?connect_timeout=2")
        assert "timeout" in told(store.sessions)
        store.close()


def test_rights_that_are_missing(server: PostgresServer, database: str) -> None:
    store = Sessions(server.on_loopback("ann", SECRET, database))
    assert told(store.sessions).endswith("its owner has to say: CREATE SCHEMA mcpagent AUTHORIZATION ann")
    server.run("CREATE SCHEMA mcpagent AUTHORIZATION ann", database)
    assert store.sessions() == []
    write(store, "a", "x")
    other = Sessions(server.on_loopback("readers", "readers", database))
    assert told(other.sessions).endswith("GRANT ALL ON SCHEMA mcpagent TO readers")
    server.run("GRANT USAGE ON SCHEMA mcpagent TO readers", database)
    assert "permission denied" in told(other.sessions)
    store.close()
    other.close()


def test_a_server_that_takes_no_writes(server: PostgresServer, database: str) -> None:
    store = Sessions(server.address(database))
    write(store, "a", "x")
    store.close()
    server.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert store.read("a").messages[0].text == "x"
    assert told(lambda: store.open("a")).endswith("use the address of the primary server")
    store.close()


def test_a_connection_that_is_lost_is_opened_anew(server: PostgresServer, database: str) -> None:
    store = Sessions(server.address(database))
    write(store, "a", "0")
    backend: Any = store._store
    for number in range(1, 4):
        pid = backend._connection.info.backend_pid
        server.run(f"SELECT pg_terminate_backend({pid}, 5000)")
        write(store, "a", str(number), number)
    # In the midst of a write, and when nobody knows whether it was committed.
    for statement in ("DELETE FROM words WHERE", "COMMIT"):
        execute, connection = backend.execute, backend._connection
        number += 1

        def executing(sql: str, values: Any = (), statement: str = statement, execute: Any = execute) -> Any:
            if sql.startswith(statement) and backend._connection is connection:  # noqa: B023 - used in this round
                server.run(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 5000)")  # noqa: B023
            return execute(sql, values)

        backend.execute = executing
        write(store, "a", str(number), number)
        backend.execute = execute
    assert [message.text for message in store.read("a").messages] == [str(place) for place in range(number + 1)]
    assert store.check() == []
    store.close()


def test_a_first_use_waits_for_another_processs_tables(server: PostgresServer, database: str) -> None:
    import psycopg

    store = Sessions(server.address(database))
    with psycopg.connect(server.address(database)) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [_MIGRATING])
        first = threading.Thread(target=write, args=(store, "a", "x"))
        first.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock'"
        until = time.monotonic() + 30
        while server.run(waiting, database) != [(1,)]:
            assert time.monotonic() < until
        other.commit()
    first.join(30)
    assert [message.text for message in store.read("a").messages] == ["x"]
    store.close()


def test_a_lock_that_is_never_given_back_ends(server: PostgresServer, database: str) -> None:
    import psycopg

    store = Sessions(server.address(database))
    write(store, "a", "x")
    inside: Any = store._store
    store._result(store._do(lambda: inside.execute("SET lock_timeout = '200ms'")))
    with psycopg.connect(server.address(database)) as other:
        other.execute("LOCK TABLE mcpagent.entries")
        assert "took too long" in told(lambda: write(store, "a", "y", 1))
        other.rollback()
    write(store, "a", "y", 1)
    store.close()


@each_row("address", ["postgresql://a:geheim99@[x/y", "postgresql://h:99999999/x?nothing=geheim99"])
def test_an_address_that_cannot_be_read(server: PostgresServer, address: str) -> None:
    def use() -> None:
        Sessions(address).sessions()

    assert "geheim99" not in told(use)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setitem(sys.modules, "psycopg.conninfo", None)
    assert "pip install 'mcpagent[postgres]'" in told(lambda: Sessions("postgresql://somewhere/x"))


def test_the_end_of_a_server_is_told(place: Place) -> None:
    """A thread that waits is not left alone when a store is closed by another one."""
    store = place.open()
    write(store, "a", "x")
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert store.read("a").messages[0].text == "x"
