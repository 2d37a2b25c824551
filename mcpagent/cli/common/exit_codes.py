"""Exit codes: their meanings, the code of each error, and the codes of signals and timeouts."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from enum import IntEnum
from typing import Any, TypeVar

from mcpagent.errors import (
    ConfigError,
    CredentialsError,
    InputError,
    LimitError,
    ModelError,
    OutputError,
    ServerError,
    SessionStoreError,
)
from mcpagent.values.events import LIMIT_STOPS, StopReason


class ExitCode(IntEnum):
    """Codes up to 9 are mcpagent's; 124 is that of timeout(1); higher codes are the shell's: 128 plus the signal's
    number.
    """

    meaning: str

    def __new__(cls, code: int, meaning: str = "") -> ExitCode:
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made

    OK = 0, "answered, nothing denied, no limit hit"
    ERROR = (
        1,
        "the model or the runtime failed, or the answer is empty; `tools search`: nothing found",
    )
    USAGE = (
        2,
        "wrong usage: an unknown command, flag, tool or server, or nothing to ask",
    )
    CONFIG = 3, "a configuration is wrong: a file, its syntax, a model's name"
    CREDENTIALS = 4, "a key is missing or was refused"
    SERVERS = 5, "a required server, or every server, failed; `mcp test`: one failed"
    DENIED = (
        6,
        "answered, but a tool call was denied; `--set denied_ok=true` makes it 0",
    )
    LIMIT = (
        7,
        "a limit ended it: turns, calls, tokens, money, time, the length of the answer, repeated calls",
    )
    SESSION = 8, "a conversation cannot be read or written, or another process has it"
    WITHOUT_SERVER = (
        9,
        "answered without a configured server: it failed, was still connecting, or you did not agree to it",
    )
    TIMEOUT = 124, "`--timeout` ended it"
    HUNG_UP = 129, "the terminal was closed"
    INTERRUPTED = 130, "Ctrl-C"
    BROKEN_PIPE = 141, "whoever read stdout went away"
    TERMINATED = 143, "SIGTERM; everything was closed first"


_ERRORS: Mapping[type[BaseException], tuple[str, ExitCode]] = {
    CredentialsError: ("credentials", ExitCode.CREDENTIALS),
    ConfigError: ("config", ExitCode.CONFIG),
    InputError: ("input", ExitCode.USAGE),
    ModelError: ("model", ExitCode.ERROR),
    ServerError: ("server", ExitCode.SERVERS),
    SessionStoreError: ("session", ExitCode.SESSION),
    LimitError: ("limit", ExitCode.LIMIT),
    OutputError: ("answer", ExitCode.ERROR),
    TimeoutError: ("timeout", ExitCode.TIMEOUT),
    KeyboardInterrupt: ("interrupted", ExitCode.INTERRUPTED),
    SystemExit: ("terminated", ExitCode.ERROR),
    BrokenPipeError: ("internal", ExitCode.BROKEN_PIPE),
    BaseException: ("internal", ExitCode.ERROR),
}
"""Kind of error in JSON documents, and exit code, by type of exception; the first match counts."""

ERROR_KINDS = tuple(dict.fromkeys(kind for kind, _ in _ERRORS.values()))


def kind_of_error(error: BaseException) -> str:
    """Return the error's kind in a document of `--output json`: "config", "model", ..., else "internal"."""
    return _found(error)[0]


def code_of_error(error: BaseException) -> ExitCode:
    """Return the code with which the process ends when this error reaches the top."""
    if isinstance(error, SystemExit) and error.code in (
        ExitCode.HUNG_UP,
        ExitCode.TERMINATED,
    ):
        return ExitCode(error.code)
    return _found(error)[1]


def _found(error: BaseException) -> tuple[str, ExitCode]:
    return next(found for kind, found in _ERRORS.items() if isinstance(error, kind))


def code_of_stop(stop: StopReason) -> ExitCode:
    """Return the code for a run that ended with an answer; an answer that a limit cut off is not a success."""
    if stop == "answered":
        return ExitCode.OK
    if stop in _LIMITED:
        return ExitCode.LIMIT
    return ExitCode.ERROR


_LIMITED = frozenset({*LIMIT_STOPS.values(), "repeated_calls", "truncated"})


Result = TypeVar("Result")

# Windows has neither signal, and `asyncio` cannot handle signals there.
SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@asynccontextmanager
async def within(seconds: float | None, what: str = "no answer") -> AsyncIterator[None]:
    """Raise `TimeoutError`, `no answer within 5 s (--timeout)`, if the block takes longer."""
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"{what} within {seconds:g} s (--timeout)") from None


def run_to_end(main: Coroutine[Any, Any, Result]) -> Result:
    """Run the coroutine like `asyncio.run`; SIGTERM and SIGHUP cancel it, so that `main` closes its resources.

    After a signal, raises `SystemExit` with 128 + the signal, as in shells: 143 or 129.
    """
    import asyncio  # help and completion do not need asyncio

    return asyncio.run(_ended_by_signals(main))


async def _ended_by_signals(main: Coroutine[Any, Any, Result]) -> Result:
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]

    def end(number: int) -> None:
        received.append(number)
        for descriptor in terminals:
            if not os.isatty(
                descriptor
            ):  # the terminal is closed, so further output has no destination
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        task.cancel()

    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, end, number)
    except (
        NotImplementedError,
        RuntimeError,
        ValueError,
    ):  # Windows, and threads other than the main thread, cannot set signal handlers
        pass
    try:
        return await main
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
