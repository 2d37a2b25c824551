"""SQL over offloaded outputs: sums, groups and sorts of JSON, NDJSON and CSV, in a process that can only read them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpagent.errors import InputError
from mcpagent.run.large_results import sql_worker
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.querying import query
from mcpagent.run.large_results.sql_worker import answer_sql
from tests.tables import each_row

SALES = [{"city": city, "price": price} for city, price in (("Rome", 3), ("Oslo", 4), ("Rome", 5.5))]
CSV = "city;code;price\nRome;007;3\nOslo;010;4\nRome;011;\nBern;012;12\n"
TOTALS = "SELECT city, sum(price) AS total FROM data GROUP BY city ORDER BY total DESC"


def rows(text: str, sql: str, offset: int = 0, limit: int = 20) -> Any:
    answer = answer_sql(text, {"sql": sql, "offset": offset, "limit": limit})
    return answer.get("rows", answer)


@each_row(
    "text, sql, expected",
    [
        (json.dumps(SALES), TOTALS, [{"city": "Rome", "total": 8.5}, {"city": "Oslo", "total": 4}]),
        ("\n".join(map(json.dumps, SALES)), "SELECT count(*) AS n FROM data", [{"n": 3}]),
        (CSV, "SELECT max(price) AS most, avg(price) AS mean FROM data", [{"most": 12, "mean": 19 / 3}]),
        (CSV, "SELECT code FROM data ORDER BY code LIMIT 1", [{"code": "007"}]),
        (json.dumps({"sales": SALES, "year": 24}), "SELECT count(*) AS n FROM sales", [{"n": 3}]),
        (json.dumps({"sales": SALES, "year": 24}), "SELECT year FROM data", [{"year": 24}]),
        ('[{"a": {"b": [1, 2]}}]', "SELECT json_extract(a, '$.b[1]') AS x FROM data", [{"x": 2}]),
        ("[1, 2, 3]", "SELECT sum(value) AS s FROM data", [{"s": 6}]),
        ('[{"A": 1, "a": 2, "a\\"; DROP": 3, "": 4}]', 'SELECT "a 2" x, "a""; DROP" y FROM data', [{"x": 2, "y": 3}]),
        ('[{"big": 99999999999999999999}]', "SELECT big FROM data", [{"big": "99999999999999999999"}]),
        ('[{"ok": true, "no": null}]', "SELECT ok, no, x'00' b FROM data", [{"ok": 1, "no": None, "b": "1 bytes"}]),
        (json.dumps(SALES), "SELECT price, price FROM data LIMIT 1", [{"price": 3, "price 2": 3}]),
        (json.dumps(SALES), "WITH t AS (SELECT * FROM data) SELECT count(*) AS n FROM t", [{"n": 3}]),
    ],
)  # fmt: skip
def test_a_query_over_rows(text: str, sql: str, expected: list[dict[str, Any]]) -> None:
    assert rows(text, sql) == expected


@each_row(
    "sql, words",
    [
        ("DELETE FROM data", "only SELECT is possible here"),
        ("INSERT INTO data VALUES (1, 2)", "only SELECT"),
        ("DROP TABLE data", "only SELECT"),
        ("CREATE TABLE x (y)", "only SELECT"),
        ("ATTACH 'stolen.db' AS x", "only SELECT"),
        ("VACUUM INTO 'stolen.db'", "only SELECT"),
        ("PRAGMA database_list", "only SELECT"),
        ("SELECT load_extension('x')", "sql: "),
        ("SELECT 1; DELETE FROM data", "one statement"),
        ("SELECT nothing FROM data", "Tables: data (city, price)"),
        ("SELECT * FROM \ud800", "sql: "),
        ("SELECT '\0'", "sql: "),
        ("SELECT zeroblob(1000000000)", "sql: "),
    ],
)
def test_a_query_can_only_read(sql: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = rows(json.dumps(SALES), sql)
    assert words in answer["error"]
    assert list(tmp_path.iterdir()) == []


def test_a_query_without_an_end_is_stopped() -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    answer = answer_sql("[1, 2]", {"sql": endless, "offset": 0, "limit": 1}, seconds=0.05)
    assert "it takes too long" in answer["error"]


def test_an_answer_is_bounded() -> None:
    text = json.dumps([{"t": "x" * 5_000}] * 300)
    first = answer_sql(text, {"sql": "SELECT t FROM data", "offset": 0, "limit": 200})
    assert first["left"] == "more"
    assert 90 < len(first["rows"]) < 110
    assert first["rows"][0]["t"] == f"{'x' * 2_000}... (5,000 characters)"
    last = answer_sql(text, {"sql": "SELECT t FROM data", "offset": 290, "limit": 200})
    assert (len(last["rows"]), last["left"]) == (10, "")


def test_too_many_columns_are_refused() -> None:
    wide = json.dumps([{f"c{number}": number for number in range(501)}])
    assert "over 500 columns" in rows(wide, "SELECT 1")["error"]
    assert "It cannot be queried: it is text" in rows("plain", "SELECT 1")["error"]


def test_the_reader_answers_in_pages() -> None:
    output = LargeOutput(json.dumps([{"n": number, "word": "x" * 100} for number in range(1_000)]))
    first = query(output, {"sql": "SELECT n FROM data ORDER BY n DESC", "limit": 2})
    assert first == 'Rows 1 to 2; there are more, go on with offset=2:\n```json\n{"n": 999}\n{"n": 998}\n```'
    last = query(output, {"sql": "SELECT n FROM data", "offset": 999})
    assert last.startswith("Rows 1,000 to 1,000:\n")
    assert query(output, {"sql": "SELECT n FROM data WHERE n < 0"}) == "0 rows."
    assert "data" not in output.__dict__, "this process has not parsed it"


@each_row(
    "arguments, words",
    [
        ({"sql": "SELECT 1", "path": "$"}, "not both"),
        ({"sql": "x" * 5_001}, "at most 5,000"),
        ({"sql": "SELECT 1", "offset": 10**7}, "offset: expected at most"),
        ({"sql": "UPDATE data SET n = 1"}, "only SELECT is possible here"),
    ],
)
def test_what_cannot_be_queried_is_told(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        query(LargeOutput('[{"n": 1}, {"n": 2}]'), arguments)


def test_sqlite_can_compile_what_we_forbid() -> None:
    """Without the authorizer, the statements above would run: the test of them is one of the authorizer."""
    with closing(sqlite3.connect(":memory:")) as database:
        sql_worker.load(database, {"data": SALES})
        database.execute("DELETE FROM data")
        assert database.execute("SELECT count(*) FROM data").fetchone() == (0,)
