"""A program that queries one output with SQL: `python -m mcpagent.run.large_results.sql_worker REQUEST`.

REQUEST is JSON with `sql`, `offset` and `limit`; stdin is the text of the output, stdout the answer as JSON: `rows` and
`left`, or `error`. The tables are in the memory of this process, which has limits of CPU time and memory. The query
may only read them: SQLite asks `_permitted` about each action of a statement.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from mcpagent.history.intake.file_worker import limit_process
from mcpagent.run.large_results.parsed_outputs import ParsedOutput, read_data
from mcpagent.utilities.text.safe_text import without_halves

SECONDS = 5.0
"""CPU time of one query, without the time for reading the output."""

MOST_COLUMNS = 500
_MOST_CHARACTERS = 10_000_000
_STEPS = 10_000
_MOST_SHOWN, _MOST_ANSWERED = 2_000, 200_000
_LARGEST = 1 << 63
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?")
_READING = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)


def tables_of(data: ParsedOutput) -> dict[str, list[Any]]:
    """Return the rows of each table: `data`, and one for each field of an object that is a list of objects."""
    if isinstance(data.value, list):
        return {"data": data.value}
    tables: dict[str, list[Any]] = {"data": [data.value]}
    if isinstance(data.value, Mapping):
        tables |= {
            name: rows
            for name, rows in data.value.items()
            if isinstance(rows, list) and rows and isinstance(rows[0], Mapping)
        }
    return tables


def load(database: sqlite3.Connection, tables: Mapping[str, list[Any]]) -> None:
    """Create the tables. Raises `ValueError` for a table with too many columns."""
    known: set[str] = set()
    for name, rows in tables.items():
        objects = [row if isinstance(row, Mapping) else {"value": row} for row in rows]
        _load_table(database, _unique(name, known), objects)
    database.commit()


def _load_table(
    database: sqlite3.Connection, table: str, objects: Sequence[Mapping[str, Any]]
) -> None:
    keys = list(dict.fromkeys(key for row in objects for key in row)) or ["value"]
    if len(keys) > MOST_COLUMNS:
        raise ValueError(f"it has over {MOST_COLUMNS} columns; use a path instead")
    known: set[str] = set()
    columns: list[str] = []
    numeric: list[bool] = []
    for key in keys:
        is_number = _is_numeric(row.get(key) for row in objects)
        kind = " NUMERIC" if is_number else ""
        columns.append(f"{_unique(key, known)}{kind}")
        numeric.append(is_number)
    database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
    places = ", ".join("?" * len(keys))
    fields = list(zip(keys, numeric, strict=True))
    values = (
        [_stored(row.get(key), is_number) for key, is_number in fields]
        for row in objects
    )
    database.executemany(f"INSERT INTO {table} VALUES ({places})", values)  # noqa: S608 - quoted names alone


def _unique(name: object, known: set[str]) -> str:
    """Return the name as a quoted identifier that no other one equals; SQLite ignores the case of ASCII letters."""
    plain = without_halves(str(name)).replace("\0", "")[:200] or "column"
    unique, number = plain, 1
    while unique.casefold() in known:
        number += 1
        unique = f"{plain} {number}"
    known.add(unique.casefold())
    quoted = unique.replace('"', '""')
    return f'"{quoted}"'


def _is_numeric(values: Iterable[Any]) -> bool:
    """Return whether all texts are numbers without leading zeros, such as in a column of CSV."""
    texts = [value for value in values if isinstance(value, str) and value]
    return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def _stored(value: Any, is_number: bool) -> Any:
    """Return the value as SQLite stores it; an empty cell in a column of numbers is missing."""
    match value:
        case "" if is_number:
            return None
        case None | bool() | float():
            return value
        case int():
            return value if -_LARGEST <= value < _LARGEST else str(value)
        case str():
            return without_halves(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _permitted(action: int, _first: str | None, second: str | None, *_: Any) -> int:
    if action in _READING and second != "load_extension":
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def answer_sql(
    text: str, request: Mapping[str, Any], seconds: float = SECONDS
) -> dict[str, Any]:
    """Return the rows from `offset` on, at most `limit`, as objects, or `error` as text for the model."""
    data = read_data(text)
    if data.value is None:
        return {"error": f"It cannot be queried: {data.why or f'it is {data.kind}'}."}
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA temp_store = MEMORY")  # sorting writes no file
        return _answer(database, tables_of(data), request, seconds)


def _answer(
    database: sqlite3.Connection,
    tables: Mapping[str, list[Any]],
    request: Mapping[str, Any],
    seconds: float,
) -> dict[str, Any]:
    try:
        load(database, tables)
    except (ValueError, sqlite3.Error) as error:
        return {"error": f"It cannot be queried with SQL: {error}."}
    end = time.process_time() + seconds
    database.set_progress_handler(lambda: time.process_time() > end, _STEPS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CHARACTERS)
    database.set_authorizer(_permitted)
    try:
        return _rows(database.execute(request["sql"]), request)
    except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
        return {"error": f"sql: {_reason(error)}. {_described(database, tables)}"}


def _rows(cursor: sqlite3.Cursor, request: Mapping[str, Any]) -> dict[str, Any]:
    names: list[str] = []
    for column in cursor.description or ():
        names.append(
            column[0] if column[0] not in names else f"{column[0]} {len(names) + 1}"
        )
    for _ in range(request["offset"]):
        if cursor.fetchone() is None:
            break
    rows: list[dict[str, Any]] = []
    characters = 0
    for row in cursor:
        if len(rows) == request["limit"] or characters > _MOST_ANSWERED:
            return {"rows": rows, "left": "more"}
        shown = list(map(_shown, row))
        characters += sum(len(str(value)) for value in shown)
        rows.append(dict(zip(names, shown, strict=True)))
    return {"rows": rows, "left": ""}


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]}... ({len(value):,} characters)"
    return value


def _reason(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, MemoryError):
        return "it needs too much memory; make it simpler"
    if text == "interrupted":
        return "it takes too long; make it simpler"
    if text in ("not authorized", "authorization denied") or "prohibited" in text:
        return "only SELECT is possible here"
    return text or type(error).__name__


def _described(
    database: sqlite3.Connection, tables: Mapping[str, Sequence[Any]]
) -> str:
    """Return the names of the tables and columns, for the next try."""
    database.set_authorizer(None)
    database.set_progress_handler(None, 0)
    described: list[str] = []
    for name, _ in zip(tables, range(5), strict=False):
        quoted = _unique(name, set())
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({quoted})")]
        described.append(f"{name} ({', '.join(columns[:50])})")
    return f"Tables: {'; '.join(described)}"


def main(request: str) -> int:
    """Answer one request. Returns the exit status."""
    limit_process()
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        answer = answer_sql(text, json.loads(request))
    except MemoryError:
        answer = {"error": "It cannot be queried with SQL: it needs too much memory."}
    sys.stdout.buffer.write(json.dumps(answer).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
