"""`query_large_output`: run JSONPath on the parsed output, with PyPI's `python-jsonpath`, or SQL in a worker process.

Of two maintained libraries, only this one can be stopped, and it queries parsed values. `jq` parses the text again for
each query, 1.1 s of CPU for 44 MB, and its C code cannot be interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from mcpagent.errors import InputError
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.parsed_outputs import ParsedOutput, shape_in_words
from mcpagent.run.large_results.reading_ranges import MAX_ANSWER, whole_number
from mcpagent.utilities.text.for_model import fenced, for_model, line_for_model
from mcpagent.utilities.text.foreign_patterns import PatternError

SECONDS = 2.0
"""Maximum CPU time of one query; most take a hundredth of it."""

USUAL_VALUES, MAX_VALUES = 20, 200
MAX_PATH = 500
MAX_SQL = 5_000
MAX_OFFSET = 1_000_000
MAX_VALUE = 2_000
"""Maximum number of characters of one value in the answer."""

_SQL_WORKER = "mcpagent.run.large_results.sql_worker"
_TIME_UP = " so far; the time for one query was over, so be more exact"


def query(output: LargeOutput, arguments: Mapping[str, Any]) -> str:
    """Return the values that the path selects. Raises `InputError` for an invalid path or an output that is no data."""
    offset, limit = (
        whole_number(arguments, "offset") or 0,
        whole_number(arguments, "limit") or USUAL_VALUES,
    )
    limit, offset = min(max(limit, 1), MAX_VALUES), max(offset, 0)
    sql = str(arguments.get("sql") or "").strip()
    path = str(arguments.get("path") or "").strip()
    if sql and path:
        raise InputError("give a path or sql, not both")
    if sql:
        return _by_sql(output, sql, offset, limit)
    data = output.data
    if data.value is None:
        why = data.why or f"it is {data.kind}"
        raise InputError(f"It cannot be queried: {why}. Read or search it instead.")
    if not path or len(path) > MAX_PATH:
        raise InputError(
            f"path: expected a JSONPath of at most {MAX_PATH} characters, such as $.items[0:5].name"
        )
    if arguments.get("count_only") is True:
        found, left = _found(path, data.value, None)
        return f"{len(found):,} values{_TIME_UP if left else ''}."
    found, left = _found(path, data.value, offset + limit)
    return _told(found, data, offset, limit, left)


def _by_sql(output: LargeOutput, sql: str, offset: int, limit: int) -> str:
    """Return the rows of the query. A separate process parses the output, so this blocks."""
    from mcpagent.history.intake.file_processing import in_worker

    if len(sql) > MAX_SQL:
        raise InputError(f"sql: expected at most {MAX_SQL:,} characters")
    if offset > MAX_OFFSET:
        raise InputError(f"offset: expected at most {MAX_OFFSET:,}; use LIMIT in sql")
    request = json.dumps({"sql": sql, "offset": offset, "limit": limit})
    data = output.text.encode("utf-8", "replace")
    worked = in_worker(request, data, program=_SQL_WORKER)
    if worked.why:
        raise InputError(f"sql: {worked.why}")
    answer = json.loads(worked.output)
    if "error" in answer:
        raise InputError(line_for_model(answer["error"], 2_000))
    return _rows_told(answer["rows"], offset, answer["left"])


def _rows_told(rows: list[dict[str, Any]], offset: int, left: str) -> str:
    if not rows:
        return f"0 rows{f' from {offset + 1:,} on' if offset else ''}."
    lines = _lines_within(map(_as_line, rows))
    last = offset + len(lines)
    more = ""
    if left or len(lines) < len(rows):
        more = f"; there are more, go on with offset={last}"
    head = f"Rows {offset + 1:,} to {last:,}{more}"
    return fenced(for_model("\n".join(lines)), head, "json")


def _lines_within(all_lines: Iterable[str]) -> list[str]:
    """Return the first lines that fit into an answer, at least one."""
    lines, room = list[str](), MAX_ANSWER
    for line in all_lines:
        if len(line) > room and lines:
            break
        lines.append(line)
        room -= len(line) + 1
    return lines


def _found(path: str, value: Any, most: int | None) -> tuple[list[Any], str]:
    """Return at most `most` values, and why there are not more: "more", "time", or "" if these are all."""
    from jsonpath import JSONPathError

    from mcpagent.run.large_results.bounded_paths import (
        Budget,
        TimeUpError,
        compiled_path,
    )

    values: list[Any] = []
    try:
        for found in compiled_path(path).values(value, Budget(SECONDS)):
            if len(values) == most:
                return values, "more"
            values.append(found)
    except TimeUpError:
        return values, "time"
    except (JSONPathError, PatternError) as error:
        said = line_for_model(str(error).partition("\n")[0], 160)
        raise InputError(
            f"path: {said}. JSONPath as in $.items[?@.price > 10].name, $[0:10], $..id"
        ) from None
    except (
        RecursionError,
        ArithmeticError,
        TypeError,
        ValueError,
        LookupError,
    ) as error:
        raise InputError(
            f"path: it cannot be followed here: {type(error).__name__}; make it simpler"
        ) from None
    return values, ""


def _told(
    found: list[Any], data: ParsedOutput, offset: int, limit: int, left: str
) -> str:
    over = ""
    if left == "time":
        over = _TIME_UP
    if len(found) <= offset:
        nothing = ""
        if not found and not over:
            nothing = f"; it is {data.kind}, {shape_in_words(data)}"
        return f"{len(found):,} values{over}{nothing}"
    lines = _lines_within(map(_as_line, islice(found, offset, offset + limit)))
    last = offset + len(lines)
    more = ""
    if left == "more" or last < len(found):
        more = f"; there are more, go on with offset={last}"
    all_of_them = ""
    if not left:
        all_of_them = f" of {len(found):,}"
    which = "1 value"
    if (offset, len(found)) != (0, 1):
        which = f"Values {offset + 1:,} to {last:,}{all_of_them}"
    return fenced(for_model("\n".join(lines)), f"{which}{over}{more}", "json")


def _as_line(value: Any) -> str:
    """Return the value as one line of JSON; a description of its structure if it is large."""
    pieces, length = list[str](), 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_VALUE:
            shape = shape_in_words(ParsedOutput("JSON", value)) or "a long text"
            return f"{''.join(pieces)[: MAX_VALUE // 4]} ... (cut: {shape})"
    return "".join(pieces)
