"""Rows of a test that wait for time to pass, run at the same time."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any


async def at_once(work: Callable[..., Awaitable[None]], rows: Iterable[Any]) -> None:
    """Call `work` for all rows at the same time: a tuple is its arguments, anything else its one argument.

    Raises:
        BaseExceptionGroup: With the failure of each row that failed.
    """
    table = [row if isinstance(row, tuple) else (row,) for row in rows]
    outcomes = await asyncio.gather(*(work(*row) for row in table), return_exceptions=True)
    failures = []
    for row, outcome in zip(table, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            outcome.add_note(f"row {reprlib.repr(row)}")
            failures.append(outcome)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)
