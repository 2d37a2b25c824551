"""A connection to SQLite that has what the engine of durable runs asks for, with an older library of SQLite too."""

from __future__ import annotations

import sqlite3
import time
from typing import Any


class SqliteConnection(sqlite3.Connection):
    """With `unixepoch('subsec')`, which SQLite has from 3.42 on.

    The engine writes it into its tables where Python is 3.12 or newer, whatever SQLite that Python has; it is null
    there before 3.42, and every process that opens the file needs it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if sqlite3.sqlite_version_info < (3, 42):
            self.create_function("unixepoch", 1, _now)


def _now(_: str) -> float:
    return time.time()
