"""Tables of one rule as one test: every row is tried, and each row that fails is reported.

    @each_row("text, words", [("a b", 2), ("", 0)])
    def test_words_are_counted(text: str, words: int) -> None:
        assert count(text) == words

pytest collects, sets up and reports one test; `pytest.mark.parametrize` would make one for each row. Use the latter if
a row takes seconds, so that several workers share the rows, or if a fixture has to be new for each row.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

FIRST_ROWS_ONLY = False
"""Set by `pytest --first-rows`: each table is tried with its first row, for a quick look with another Python."""


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the decorated test once for each row of a table.

    Args:
        names: The names of the row's values, with commas between them, as for `pytest.mark.parametrize`.
        rows: A tuple of values for each row; the value itself if there is one name.

    A row gets its own subfolder of `tmp_path`, its own `monkeypatch`, and an empty `capsys` or `capfd`. Other fixtures
    are shared by all rows.
    Decorators can be stacked: the test is called for each combination.

    Raises:
        BaseExceptionGroup: From the test, with the failure of each row that failed.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]

        @functools.wraps(test)
        def try_rows(**given: Any) -> None:
            failures: list[BaseException] = []
            for number, row in _rows_to_try(table):
                with _row(number, row, given, failures) as arguments:
                    test(**arguments)
            _report(failures, len(table))

        @functools.wraps(test)
        async def try_rows_async(**given: Any) -> None:
            failures: list[BaseException] = []
            for number, row in _rows_to_try(table):
                with _row(number, row, given, failures) as arguments:
                    await test(**arguments)
            _report(failures, len(table))

        chosen: Callable[..., Any] = try_rows_async if inspect.iscoroutinefunction(test) else try_rows
        # pytest finds the fixtures of a test by its signature.
        chosen.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return chosen

    return decorate


def _rows_to_try(table: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(table):
        yield number, row
        if FIRST_ROWS_ONLY:
            return


@contextmanager
def _row(
    number: int, row: Mapping[str, Any], given: Mapping[str, Any], failures: list[BaseException]
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of one row, and note its failure with the row's values."""
    arguments = {**given, **row}
    with pytest.MonkeyPatch.context() as monkeypatch:
        if "monkeypatch" in given:
            arguments["monkeypatch"] = monkeypatch
        if "tmp_path" in given:
            arguments["tmp_path"] = given["tmp_path"] / str(number)
            arguments["tmp_path"].mkdir()
        for captured in given.keys() & {"capsys", "capfd"}:
            given[captured].readouterr()
        try:
            yield arguments
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001, every row is reported
            error.add_note(f"row {number}: {reprlib.repr(dict(row))}")
            failures.append(error)


def _report(failures: list[BaseException], rows: int) -> None:
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {rows} rows", failures)
