"""Rows of a test that wait for time to pass, run at the same time."""

from __future__ import annotations

import asyncio
import functools
import inspect
import reprlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tests.tables import as_table


async def at_once(work: Callable[..., Awaitable[None]], rows: Iterable[Any]) -> None:
    """Call `work` for all rows at the same time: a tuple is its arguments, anything else its one argument.

    Raises:
        BaseExceptionGroup: With the failure of each row that failed.
    """
    table = [row if isinstance(row, tuple) else (row,) for row in rows]
    _report(table, await asyncio.gather(*(work(*row) for row in table), return_exceptions=True))


async def one_by_one(work: Callable[..., Awaitable[None]], rows: Iterable[Any]) -> None:
    """Like `at_once`, one row after the other, for rows that share a server."""
    table = [row if isinstance(row, tuple) else (row,) for row in rows]
    _report(table, [(await asyncio.gather(work(*row), return_exceptions=True))[0] for row in table])


def _report(table: list[tuple[Any, ...]], outcomes: list[BaseException | None]) -> None:
    failures = []
    for row, outcome in zip(table, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            outcome.add_note(f"row {reprlib.repr(row)}")
            failures.append(outcome)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)


def rows_at_once(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Like `tests.tables.each_row`, with all rows at the same time.

    For rows that wait, for a limit of time or for a server. A test that counts processes or open files
    (`nothing_left`) has to do that around all of its rows: see `at_once`.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [row if len(keys) > 1 else (row,) for row in rows]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        async def try_rows(**given: Any) -> None:
            async def try_row(number: int, *row: Any) -> None:
                arguments = given | dict(zip(keys, row, strict=True))
                if "tmp_path" in given:
                    arguments["tmp_path"] = given["tmp_path"] / str(number)
                    arguments["tmp_path"].mkdir()
                await test(**arguments)

            await at_once(try_row, [(number, *row) for number, row in enumerate(table)])

        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        try_rows.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return as_table(try_rows)

    return decorate
