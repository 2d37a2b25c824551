"""Sessions in a PostgreSQL database, for many machines: extra `mcpagent[postgres]`, psycopg 3.

All tables are in the schema `mcpagent`. A process holds its sessions by an advisory lock of its connection, which the
server releases when the connection ends in any way. So the address must be that of the server itself, or of a pooler
that keeps one connection for each client.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions.protocol import Hit
from mcpagent.journal.sessions.sealed_keys import new_sealed_key, opened_key
from mcpagent.journal.sessions.sql_store import BUSY_SECONDS, SqlStore
from mcpagent.journal.sessions.sql_tables import Migrations, tables
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import REDACTED, hide

if TYPE_CHECKING:
    import psycopg

_T = TypeVar("_T")

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 30

PIP = 'pip install "psycopg[binary]>=3.2,<4"'

_DEFAULTS = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "mcpagent",
    # A server that disappeared is noticed within a minute; the next settings do the same for the server's side.
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": STATEMENT_SECONDS * 1000,
}
"""Defaults for parameters that the address does not set
(https://www.postgresql.org/docs/current/libpq-connect.html)."""

_SETTINGS = (
    f"SET statement_timeout = '{STATEMENT_SECONDS}s'",
    f"SET lock_timeout = '{STATEMENT_SECONDS}s'",
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET client_min_messages = 'error'",
    "SET search_path = mcpagent, pg_catalog",
)

_DIALECT = {"real": "DOUBLE PRECISION", "rowless": "", "bytes": 'COLLATE "C"'}

MIGRATIONS: Migrations = (
    tables(
        _DIALECT,
        """CREATE TABLE words(
            session TEXT NOT NULL, key TEXT COLLATE "C" NOT NULL, words TEXT NOT NULL, searched TSVECTOR NOT NULL,
            PRIMARY KEY(session, key))""",
        "CREATE INDEX words_searched ON words USING GIN(searched)",
        "CREATE TABLE keys(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ),
)
"""The statements that create the tables. `words` are the texts for searches, `keys` the signing keys of the store."""

_MIGRATING = 0x6D637061
"""The number of the advisory lock for creating and migrating tables; it also identifies the SQLite files."""

MAX_SEARCHED = 100_000
"""Maximum number of characters of a message for a search: the server refuses a message with more than 1 MB of different
words.
"""

EXCERPT_WORDS, MAX_EXCERPT = 16, 400

_WORD = re.compile(r"[^\W_]+")

_of_other_processes: list[object] = []
"""Connections that this process inherited by a fork."""


class _ConnectionLostError(SessionStoreError):
    """Raised if the connection has ended."""


class PostgresStore(SqlStore):
    """A session store in a PostgreSQL database.

    `where` is a libpq connection string. With `durability` "full", the server confirms a write only after it is on
    disk.
    """

    for_update = " FOR UPDATE"

    def __init__(
        self,
        where: str,
        durability: Literal["normal", "full"],
        migrations: Migrations = MIGRATIONS,
    ) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:
            said = "PostgreSQL needs the extra, pip install 'mcpagent[postgres]'"
            raise SessionStoreError(f"sessions: {said}; from a clone: {PIP}") from None
        try:
            self._address: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(where)}
        except (
            psycopg.Error
        ):  # the error's text quotes the invalid part, which may be the password
            form = "postgresql://user:password@host:port/database"
            raise SessionStoreError(
                f"sessions: the address cannot be read; write {form}, special ones as %40"
            ) from None
        super().__init__(_named(self._address), migrations)
        self._password = str(self._address.get("password") or "")
        hide(self._password)
        self._durability = durability
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def signing_key(self) -> bytes | None:
        """Return the signing key, stored encrypted in the database; None without a password to encrypt it with.

        Each user of the database has a key. After a change of the password, there is a new one.
        """
        if not self._password:
            return None
        name = f"signing key of {self._address.get('user', '')}"
        known = "SELECT value FROM keys WHERE name = ?"
        with self.transaction():
            for (value,) in self.execute(f"{known} FOR UPDATE", (name,)):
                if (key := opened_key(value, self._password)) is not None:
                    return key
                self.execute("DELETE FROM keys WHERE name = ?", (name,))
            self.execute(
                "INSERT INTO keys(name, value) VALUES(?, ?) ON CONFLICT DO NOTHING",
                (name, new_sealed_key(self._password)),
            )
            [(value,)] = self.execute(
                known, (name,)
            )  # another worker may have created it first
        return opened_key(value, self._password)

    @property
    def is_open(self) -> bool:
        """Return whether the connection is open."""
        return self._connection is not None

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SQL statement, and return its rows."""
        assert self._connection is not None
        cursor = self._connection.execute(_with_percents(sql), values or None)
        if cursor.description is not None:
            return cursor.fetchall()
        return []

    @contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[None]:
        """Run the block as a transaction: all or nothing."""
        import psycopg

        try:
            connection = self._opened()
            # All reads see the state at one moment.
            connection.execute(
                "BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            )
            try:
                if writes:
                    self._require_known()
                yield
                connection.execute("COMMIT")
            except BaseException:
                self._known = ""
                with contextlib.suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
                raise
        except psycopg.Error as error:
            is_lost = self._connection is None or self._connection.closed
            if is_lost and self._connection is not None:
                self._connection, self._known = None, ""
                raise _ConnectionLostError(
                    f"{self.where}: the connection was lost; {self._told(error)}"
                ) from None
            raise SessionStoreError(f"{self.where}: {self._told(error)}") from None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send the statements inside the block without waiting for each response, which takes long if the server is far
        away.
        """
        assert self._connection is not None
        with self._connection.pipeline():
            yield

    def attempt(self, work: Callable[[], _T], until: float) -> _T:
        """Do the work; if the connection was lost, once more over a new one.

        Raises `SessionStoreError` if the time `until` has already passed, because earlier work waited too long.
        """
        if time.monotonic() > until:
            raise SessionStoreError(
                f"{self.where}: gave no answer within {BUSY_SECONDS:g} seconds; try again"
            )
        try:
            return work()
        except _ConnectionLostError:
            return work()

    # -- Connection and tables -----------------------------------------------------------------------------------------

    def _opened(self) -> psycopg.Connection[tuple[Any, ...]]:
        import psycopg

        if self._connection is not None and self._connection.closed:
            self._connection, self._known = None, ""
        if self._connection is None:
            connection = psycopg.connect(**self._address, autocommit=True)
            self._connection = connection
            try:
                connection.execute("; ".join(_SETTINGS))
                if self._durability == "full":
                    connection.execute(
                        "SELECT set_config('synchronous_commit', 'on', false)"
                        " WHERE current_setting('synchronous_commit') = 'off'"
                    )
                with connection.transaction():
                    # Prevent migrations meanwhile: new tables become visible shortly before other connections can use
                    # them.
                    self.execute(
                        "SELECT pg_advisory_xact_lock_shared(?)", (_MIGRATING,)
                    )
                    found = self._require_known()
                if found < self.version:
                    self._migrate()
                    self._require_known()
            except BaseException:
                self._connection = None
                connection.close()
                raise
        return self._connection

    def _found_version(self) -> int:
        """Return the version of the tables; 0 without tables.

        Raises `SessionStoreError` if this user may not read them.
        """
        # Read the system tables: the result of `to_regclass` may be older than the lock that was just acquired.
        schema = self.execute(
            "SELECT has_schema_privilege(n.oid, 'USAGE'), EXISTS (SELECT 1 FROM pg_class c"
            " WHERE c.relnamespace = n.oid AND c.relname = 'store_version')"
            " FROM pg_namespace n WHERE n.nspname = 'mcpagent'"
        )
        if schema:
            may_use, has_tables = schema[0]
        else:
            may_use, has_tables = True, False
        if not may_use:
            raise SessionStoreError(f"{self.where}: {_grant(self._user)}")
        if not has_tables:
            return 0
        found = self.execute("SELECT version FROM store_version")
        if found:
            return int(found[0][0])
        return 0

    def _require_known(self) -> int:
        if not self._known:
            found = self._found_version()
        else:
            found = self._version()
        self.require_version(found, "another database")
        return found

    def _version(self) -> int:
        return int(self.execute("SELECT version FROM store_version")[0][0])

    def _migrate(self) -> None:
        """Migrate the tables to this version in one transaction, so that other processes see either the old or the new
        version.
        """
        assert self._connection is not None
        with self._connection.transaction():
            self.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATING,))
            if not self.execute(
                "SELECT 1 FROM pg_namespace WHERE nspname = 'mcpagent'"
            ):
                self.execute("CREATE SCHEMA mcpagent")
            found = (
                self._found_version()
            )  # another process may have migrated them first
            if found == 0:
                self.execute(
                    "CREATE TABLE IF NOT EXISTS store_version(version INTEGER NOT NULL)"
                )
                self.execute("INSERT INTO store_version(version) VALUES(0)")
            for statement in self.statements(found):
                self.execute(statement)
            if found < self.version:
                self.execute("UPDATE store_version SET version = ?", (self.version,))

    @property
    def _user(self) -> str:
        assert self._connection is not None
        return self._connection.info.user

    def close(self) -> None:
        """Release the leases, and close the connection."""
        if self._connection is not None:
            with contextlib.suppress(SessionStoreError):
                self.leave()
        if self._connection is not None:
            self._connection.close()
        self._connection, self._known = None, ""

    def disown(self) -> None:
        """Drop a connection inherited by a fork, without a message to the server.

        The parent process still uses the connection, so only this process's copy of the socket is closed.
        """
        if self._connection is not None:
            with contextlib.suppress(OSError, Exception):
                os.close(self._connection.fileno())
            _of_other_processes.append(self._connection)
            self._connection = None
        self._known = ""

    # -- Which processes are alive -------------------------------------------------------------------------------------

    def be_alive(self, token: str) -> None:
        """Take a lock whose number derives from the token, until the connection ends."""
        self.execute("SELECT pg_advisory_lock(?)", (_number(token),))

    def is_alive(self, token: str) -> bool:
        """Return whether another connection has the token's lock; concurrent checks do not disturb each other."""
        return not self.execute(
            "SELECT pg_try_advisory_xact_lock_shared(?)", (_number(token),)
        )[0][0]

    # -- Searches and checks -------------------------------------------------------------------------------------------

    def add_words(self, session: str, key: str, words: str) -> None:
        """Make the words of an entry searchable. They are folded as in SQLite, independent of the database's
        language.
        """
        self.execute(
            "INSERT INTO words(session, key, words, searched) VALUES(?, ?, ?, to_tsvector('simple', ?))",
            (session, key, words, " ".join(_folded_words(words))),
        )

    def search(self, words: Sequence[str], limit: int) -> list[Hit]:
        """Search by a tsvector of the words, which have only letters and digits, so that none is an operator."""
        folded = [folded for word in words for folded in _folded_words(word)]
        if not folded:
            return []
        wanted = " & ".join(f"'{word}'" for word in folded)
        with self.transaction(writes=False):
            rows = self.execute(
                "SELECT w.session, w.key, w.words FROM words w, to_tsquery('simple', ?) q WHERE w.searched @@ q"
                " ORDER BY ts_rank_cd(w.searched, q, 1) DESC, w.session, w.key LIMIT ?",
                (f"{wanted}:*", limit),
            )
        return [
            Hit(str(session), str(key), _excerpt(str(text), folded))
            for session, key, text in rows
        ]

    def check(self) -> list[str]:
        """Return problems: words that belong to no entry. The server checks its files itself."""
        with self.transaction(writes=False):
            [[count]] = self.execute(
                "SELECT count(*) FROM words w WHERE NOT EXISTS"
                " (SELECT 1 FROM entries e WHERE e.session = w.session AND e.key = w.key)"
            )
        if count:
            return [f"{count} rows of words belong to no entry"]
        return []

    def _told(self, error: psycopg.Error) -> str:
        """Return the error and its fix, without the password, which a server or a library may quote."""
        text = " ".join(str(error).split()).removeprefix("connection failed: ")
        if self._password:
            text = text.replace(self._password, REDACTED)
        text = safe_line(text, 200)
        todo = advice(error.sqlstate, text).format(
            user=safe_line(str(self._address.get("user") or "this user"), 60)
        )
        if todo:
            return f"{text}; {todo}"
        return text


_ADVICE: Sequence[tuple[tuple[str, ...], tuple[str, ...], str]] = (
    (
        ("28",),
        ("authentication failed", "no password supplied", "pg_hba.conf"),
        "check user and password",
    ),
    (
        ("3D000",),
        ("does not exist",),
        "make it, `createdb`, or name another one in the address",
    ),
    (
        ("42501",),
        ("permission denied",),
        "its owner has to say: CREATE SCHEMA mcpagent AUTHORIZATION {user}",
    ),
    (
        ("25006",),
        ("read-only",),
        "it takes no writes: use the address of the primary server",
    ),
    (("53100",), ("No space left",), "its disk is full; make room there and go on"),
    (
        ("53300",),
        ("too many clients", "remaining connection slots"),
        "close some, or raise its max_connections",
    ),
    (
        ("57014", "55P03"),
        (),
        "the server, or whoever has it locked, took too long; try again",
    ),
    (("57P03",), ("starting up", "shutting down", "recovery"), "try again in a moment"),
    (
        (),
        (
            "timeout expired",
            "Connection refused",
            "No such file",
            "could not translate",
            "resolve",
            "unreachable",
        ),
        "is the server running there, and the address right?",
    ),
)
"""The advice by prefix of an error's code (https://www.postgresql.org/docs/current/errcodes-appendix.html). A failed
connection has no code, so a phrase in the text decides; numbers in it could be a port.
"""


def advice(code: str | None, text: str) -> str:
    """Return the fix for a server's error code, or for a connection error with this text; "" if unknown."""
    for codes, pieces, words in _ADVICE:
        if (
            code.startswith(codes)
            if code is not None
            else any(piece in text for piece in pieces)
        ):
            return words
    return ""


def _grant(user: str) -> str:
    shown = safe_line(user, 60)
    grant = f"GRANT ALL ON SCHEMA mcpagent TO {shown}"
    return (
        f"user {shown} may not use its schema mcpagent; its owner has to say: {grant}"
    )


def _named(address: Mapping[str, Any]) -> str:
    """Return the name of the database in errors."""
    host = (
        address.get("host")
        or address.get("hostaddr")
        or os.environ.get("PGHOST")
        or "localhost"
    )
    port = address.get("port") or os.environ.get("PGPORT")
    user = address.get("user") or os.environ.get("PGUSER") or ""
    name = address.get("dbname") or os.environ.get("PGDATABASE") or user
    return safe_line(f"postgresql://{host}{f':{port}' if port else ''}/{name}", 200)


@cache
def _with_percents(sql: str) -> Any:
    return sql.replace("?", "%s")


def _number(token: str) -> int:
    """Return the token's first half as a signed 64-bit number."""
    return int.from_bytes(bytes.fromhex(token[:16]), "big", signed=True)


def _folded_words(text: str) -> list[str]:
    """Return the words in lower case without accents; the end of a long text is ignored."""
    plain = unicodedata.normalize("NFKD", text[:MAX_SEARCHED]).casefold()
    return _WORD.findall(
        "".join(letter for letter in plain if not unicodedata.combining(letter))
    )


def _excerpt(text: str, folded: Sequence[str]) -> str:
    """Return some words around the first match in the text."""
    words = list(_WORD.finditer(text[:MAX_SEARCHED]))
    wanted = (
        place
        for place, word in enumerate(words)
        if any(w.startswith(folded[-1]) or w in folded for w in _folded_words(word[0]))
    )
    first = max(0, next(wanted, 0) - EXCERPT_WORDS // 4)
    shown = words[first : first + EXCERPT_WORDS]
    if not shown:
        return ""
    before = ""
    if first:
        before = "... "
    after = ""
    if first + EXCERPT_WORDS < len(words):
        after = " ..."
    begin = 0
    if first:
        begin = shown[0].start()
    if after:
        end = shown[-1].end()
    else:
        end = len(text)
    return f"{before}{text[begin:end][:MAX_EXCERPT]}{after}"
