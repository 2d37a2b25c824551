"""Processes that kill themselves: forked from one that has imported what they need, which takes most of a start."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from typing import Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["dbos", "psycopg", "tests.agents.durable.worker_program"])


async def exit_code_of(work: Callable[..., Any], *arguments: Any, seconds: float) -> int | None:
    """Run a function of a module in a process of its own; return how that ended, None if it goes on."""
    process = _CONTEXT.Process(target=work, args=arguments)
    process.start()
    await asyncio.to_thread(process.join, seconds)
    if process.exitcode is None:
        process.kill()
        await asyncio.to_thread(process.join, seconds)
        return None
    return process.exitcode
