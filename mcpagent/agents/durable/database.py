"""The database of the DBOS engine, a SQLite file or PostgreSQL; its errors are converted to one line."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions.locations import file_meant, is_address
from mcpagent.utilities.filesystem.file_changes import make_private
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide

_ITS_TABLE = "workflow_status"
_NAME_ANOTHER = "name another one: --database FILE, or DurableRuns(FILE)"


@dataclass(frozen=True, slots=True)
class EngineDatabase:
    """`address` is for the engine; `where` is for messages, without a password. `file` is None for PostgreSQL."""

    address: str
    where: str
    file: Path | None = None

    @classmethod
    def of(cls, database: str | Path | None) -> EngineDatabase:
        """Return the database for the argument (None: the default file).

        Raises `ConfigError` if the argument is neither a file nor an address of PostgreSQL.
        """
        if is_address(database):
            rest = database.partition("://")[2]
            with contextlib.suppress(
                ValueError
            ):  # an invalid address is reported when connecting
                hide(urlsplit(database).password)
            return cls(
                f"postgresql://{rest}",
                f"postgresql://{safe_line(rest.rpartition('@')[2], 200)}",
            )
        file = file_meant(database, "runs.db", os.environ)
        return cls(f"sqlite:///{file}", safe_line(str(file), 200), file)

    def make_ready(self) -> None:
        """Create the file, readable by its user only, if it is missing.

        Raises `SessionStoreError` if the file is unusable or belongs to another program.
        """
        if self.file is None:
            return
        try:
            make_private(self.file.parent)
            if not self.file.exists():
                os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
            if not os.access(self.file, os.R_OK | os.W_OK) or self.file.is_dir():
                why = "cannot be written"
                if self.file.is_dir():
                    why = "is a folder"
                raise SessionStoreError(f"{self.where}: {why}; {_NAME_ANOTHER}")
            with contextlib.closing(
                sqlite3.connect(self.file, timeout=10)
            ) as connection:
                tables = {
                    str(row[0])
                    for row in connection.execute("SELECT name FROM sqlite_master")
                }
        except (OSError, sqlite3.Error) as error:
            raise self.problem(error) from None
        if tables and _ITS_TABLE not in tables:
            raise SessionStoreError(
                f"{self.where}: is another program's database; {_NAME_ANOTHER}"
            )

    def problem(self, error: BaseException) -> SessionStoreError:
        """Convert an error of the engine or its database into one line with the database, the cause and the fix."""
        cause = getattr(error, "orig", None) or error
        if self.file is None and not hasattr(
            cause, "sqlstate"
        ):  # the error text quotes the unreadable part
            form = "postgresql://user:password@host:port/database"
            return SessionStoreError(
                f"durable runs: the address cannot be read; write {form}, special ones as %40"
            )
        said = safe_line(str(cause).partition("\n")[0], 200)
        if isinstance(cause, OSError):
            said = safe_line(cause.strerror or said, 120)
        return SessionStoreError(
            f"{self.where}: durable runs cannot be kept there ({said}); {self._advice(cause)}"
        )

    def _advice(self, cause: BaseException) -> str:
        if self.file is None:
            from mcpagent.journal.sessions.postgres import advice

            code = getattr(cause, "sqlstate", None)
            if str(code) == "42501":
                return "its owner has to say: GRANT CREATE ON DATABASE ... TO this user"
            return (
                advice(code, str(cause))
                or "is the server running there, and may this user make tables in it?"
            )
        text = str(cause)
        if "full" in text or "disk I/O" in text:
            return "make room on the disk and go on"
        if "locked" in text:
            return "another program has it locked; end that one"
        if "not a database" in text or "malformed" in text:
            return f"it is no database of runs, or a damaged one; move it away, or {_NAME_ANOTHER}"
        return _NAME_ANOTHER


class EngineConnection(sqlite3.Connection):
    """A connection to SQLite that provides `unixepoch('subsec')`, which SQLite itself supports since 3.42.

    With Python 3.12 or newer the engine uses this function in its tables, with any SQLite version. Before 3.42 the
    value is null; every process that opens the file needs the function.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if sqlite3.sqlite_version_info < (3, 42):
            self.create_function("unixepoch", 1, _now)


def _now(_: str) -> float:
    return time.time()
