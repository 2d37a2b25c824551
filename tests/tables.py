"""Tables of one rule as one test: every row is tried, and each row that fails is reported.

    @each_row("text, words", [("a b", 2), ("", 0)])
    def test_words_are_counted(text: str, words: int) -> None:
        assert count(text) == words

pytest collects, sets up and reports one test; `pytest.mark.parametrize` would make one for each row. Use the latter if
a row takes seconds, so that several workers share the rows, or if a fixture has to be new for each row. A fixture that
is made of `tmp_path` has to be: `refuse_shared_folders` fails the test otherwise.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcpagent.utilities.text import secrets

FIRST_ROWS_ONLY = False
"""Set by `pytest --first-rows`: each table is tried with its first row, for a quick look with another Python."""


_SHOWN = reprlib.Repr()
_SHOWN.maxdict = _SHOWN.maxlist = _SHOWN.maxtuple = 20
_SHOWN.maxstring = _SHOWN.maxother = 200


@dataclass
class _Outcomes:
    """What became of the rows that were tried."""

    tried: int = 0
    failures: list[BaseException] = field(default_factory=list[BaseException])
    skips: list[BaseException] = field(default_factory=list[BaseException])

    def report(self) -> None:
        """Raise the failures of all rows; skip the test if every row was skipped."""
        if self.failures:
            raise BaseExceptionGroup(f"{len(self.failures)} of {self.tried} rows", self.failures)
        if self.tried and len(self.skips) == self.tried:
            raise self.skips[0]


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the decorated test once for each row of a table.

    Args:
        names: The names of the row's values, with commas between them, as for `pytest.mark.parametrize`.
        rows: A tuple of values for each row; the value itself if there is one name.

    A row gets its own subfolder of `tmp_path`, its own `monkeypatch` and an empty `capsys`, `capfd`, `caplog` or
    `recwarn`, and knows no secret of another row (`secrets.hide`). Other fixtures are shared by all rows; use
    `pytest.mark.parametrize` if a row must not find what an earlier one left there. Decorators can be stacked: the test
    is called for each combination.

    Raises:
        ValueError: At import, for a table without rows.
        BaseExceptionGroup: From the test, with the failure of each row that failed. A timeout ends the test: the plugin
            limits the test, not the row.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [dict(zip(keys, row if len(keys) > 1 else (row,), strict=True)) for row in rows]
    if not table:
        raise ValueError(f"each_row({names!r}): the table has no rows")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]

        @functools.wraps(test)
        def try_rows(**given: Any) -> None:
            outcomes = _Outcomes()
            for number, row in _rows_to_try(table):
                with _row(number, row, given, outcomes) as arguments:
                    test(**arguments)
            outcomes.report()

        @functools.wraps(test)
        async def try_rows_async(**given: Any) -> None:
            outcomes = _Outcomes()
            for number, row in _rows_to_try(table):
                with _row(number, row, given, outcomes) as arguments:
                    await test(**arguments)
            outcomes.report()

        chosen: Callable[..., Any] = try_rows_async if inspect.iscoroutinefunction(test) else try_rows
        # pytest finds the fixtures of a test by its signature.
        chosen.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return as_table(chosen)

    return decorate


def as_table(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test that tries several rows, for `refuse_shared_folders`."""
    test.is_table = True  # type: ignore[attr-defined]
    return test


def refuse_shared_folders(test: pytest.Function) -> None:
    """Fail a table if one of its fixtures, or of theirs, is made of `tmp_path`: its rows would share that folder."""
    if not getattr(test.function, "is_table", False):
        return
    fixtures = test._fixtureinfo.name2fixturedefs.items()
    if shared := [name for name, definitions in fixtures if "tmp_path" in definitions[-1].argnames]:
        pytest.fail(
            f"all rows share the folder of {', '.join(shared)}; "
            "take tmp_path, which each row has for itself, or use pytest.mark.parametrize",
            pytrace=False,
        )


def _rows_to_try(table: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in enumerate(table):
        yield number, row
        if FIRST_ROWS_ONLY:
            return


@contextmanager
def _row(
    number: int, row: Mapping[str, Any], given: Mapping[str, Any], outcomes: _Outcomes
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of one row, and note its failure with the row's values."""
    arguments = {**given, **row}
    outcomes.tried += 1
    known = secrets._values
    with pytest.MonkeyPatch.context() as monkeypatch:
        if "monkeypatch" in given:
            arguments["monkeypatch"] = monkeypatch
        if "tmp_path" in given:
            arguments["tmp_path"] = given["tmp_path"] / str(number)
            arguments["tmp_path"].mkdir()
        for captured in given.keys() & {"capsys", "capfd"}:
            given[captured].readouterr()
        for noted in given.keys() & {"caplog", "recwarn"}:
            given[noted].clear()
        try:
            yield arguments
        except pytest.skip.Exception as skip:
            outcomes.skips.append(skip)
        except (KeyboardInterrupt, GeneratorExit, pytest.exit.Exception):
            raise
        except BaseException as error:
            if _is_cancelled():
                raise
            error.add_note(f"row {number}: {_SHOWN.repr(dict(row))}")
            outcomes.failures.append(error)
            if isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout"):
                outcomes.report()
        finally:
            secrets._values = known


def _is_cancelled() -> bool:
    """Return whether somebody cancels the task that runs the test."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
