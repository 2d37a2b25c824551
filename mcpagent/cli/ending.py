"""Running until the end, also where that comes from outside: SIGTERM and a closed terminal close everything first."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

# Windows has neither; there `asyncio` cannot handle signals.
SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def run_to_end(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run`, cancelled by SIGTERM and SIGHUP: what `main` opened is closed. Raises `SystemExit` then.

    The exit code is 128 + the signal, as shells have it: 143 or 129.
    """
    return asyncio.run(_ended_by_signals(main))


async def _ended_by_signals(main: Coroutine[Any, Any, Result]) -> Result:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def end(number: int) -> None:
        received.append(number)
        for descriptor in terminals:
            if not os.isatty(descriptor):  # its window was closed: what is still written goes nowhere
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        task.cancel()

    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, end, number)
    except (NotImplementedError, RuntimeError, ValueError):  # Windows; a thread that is not the main one
        pass
    try:
        return await main
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
