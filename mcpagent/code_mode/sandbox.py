"""Run one program in a worker process of the interpreter (`pydantic-monty`), controlled by a separate thread.

Values cross only as JSON text, which the sandbox writes and reads: a program's values, however large or nested, never
become objects in this process. This module uses the synchronous interface of `pydantic-monty`: with the asynchronous
one of 1.4.0, a process aborts at its end in four of ten runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.prelude import CALLS, prelude
from mcpagent.code_mode.program_source import TOOLS
from mcpagent.code_mode.python_table import builtins_stub, library
from mcpagent.code_mode.type_checks import Problem, reported
from mcpagent.errors import ConfigError
from mcpagent.run.validation import MAX_ARGUMENT_CHARACTERS

if TYPE_CHECKING:
    from pydantic_monty import MontySession, SyncSnapshot

_T = TypeVar("_T")

MISSING = "code mode needs the package pydantic-monty, which is not installed: pip install 'mcpagent[code]'"

MAX_PRINTED = 1_000_000
"""Maximum number of characters that a program may print."""

MAX_PATH, MAX_ASKED = 200, 16_777_216
"""Maximum number of characters of a function's path, and of the arguments of all calls that a program awaits at
once.
"""

MAX_SLEEP, MAX_SLEEPS = 10.0, 60.0
"""Maximum number of seconds that a program may sleep in one call, and in total."""


_IS_OVER = (
    "feed time limit exceeded: ",
    "turn time limit exceeded: ",
    "memory limit exceeded: ",
    "the worker exceeded its memory limit",
)
"""Prefixes of the interpreter's errors for exceeded limits; tools report their own limits in other words."""

_starting = threading.Lock()


@contextlib.contextmanager
def _without_terminal() -> Iterator[None]:
    """Keep standard error from workers that start in this block: their last output arrives as an exception."""
    with _starting, contextlib.ExitStack() as exits:
        with contextlib.suppress(OSError):  # the process has no standard error
            if os.get_inheritable(2):
                os.set_inheritable(2, False)
                exits.callback(os.set_inheritable, 2, True)
        yield


def require_installed() -> None:
    """Raise `ConfigError` if the interpreter is not installed."""
    with contextlib.suppress(ValueError):  # the module is set to None
        if importlib.util.find_spec("pydantic_monty") is not None:
            return
    raise ConfigError(MISSING)


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call that a program waits for: a tool by its path, with arguments as JSON text; or a sleep of `seconds`."""

    id: int
    path: str
    arguments: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A program that continues when one of these calls is answered; `asked` are all its unanswered calls."""

    asked: tuple[AskedCall, ...]
    snapshot: bytes = b""


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended program, with the number of calls that it never awaited."""

    unawaited: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """A program that ended with an exception, at these lines of the program, outermost first.

    `is_lost`: the variables that the program changed are lost.
    """

    kind: str
    message: str
    lines: tuple[int, ...] = ()
    is_lost: bool = False


Step = Waiting | Ended | Failed


class Sandbox:
    """A worker process for one program. Use it as `async with`; each method runs in the sandbox's own thread."""

    def __init__(self, options: CodeMode, *, takes_snapshots: bool = False) -> None:
        require_installed()
        self._options = options
        self._takes_snapshots = takes_snapshots
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mcpagent-code")
        self._exits = ExitStack()
        self._pool: Any = None
        self._session: MontySession | None = None
        self._snapshot: SyncSnapshot | None = None
        self._printed: Any = None
        self._asked: dict[int, AskedCall] = {}
        self._slept = 0.0
        self._left = threading.Event()
        self._pid: int | None = None

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._left.set()
        done = self._executor.submit(self._exits.close)
        if self._pid is not None and not done.done():
            # Do not wait for a program that is still computing.
            with contextlib.suppress(OSError):
                os.kill(self._pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self._executor.shutdown(wait=False)

    async def _do(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    @property
    def worker(self) -> int | None:
        """The process ID of the worker; None before it starts."""
        return self._pid

    @property
    def printed(self) -> str:
        """The text that the program has printed so far."""
        return self._printed.output if self._printed is not None else ""

    # -- Type check ----------------------------------------------------------------------------------------------------

    async def check(self, source: str, stubs: Mapping[str, str]) -> list[Problem]:
        """Return the type checker's problems with the source, using the stub of each module of `tools`. Nothing is
        run.
        """
        return await self._do(lambda: self._check(source, stubs))

    def _check(self, source: str, stubs: Mapping[str, str]) -> list[Problem]:
        import pydantic_monty as monty

        def never(*_: Any) -> None: ...

        modules = {
            module: monty.ExternalModule({}, stubs=stub)
            for module, stub in stubs.items()
        }
        stop = monty.ExternalModule(
            {"begin": never},
            stubs=f"{builtins_stub()}def show(*images: Any) -> None: ...\n",
        )
        given = {
            TOOLS: monty.ExternalModule(modules, stubs=""),
            CALLS: stop,
            **_library_stubs(),
        }
        with ExitStack() as exits:
            session = self._checkout(
                exits, given, type_check=True, type_check_format="json"
            )
            try:
                # An import of mcpagent's own precedes the program. The sandbox asks for that import after it has
                # checked the whole program and before it runs a statement, so the check can stop there.
                snapshot: Any = session.feed_start(f"import {CALLS}\n{source}")
                while (
                    isinstance(snapshot, monty.FunctionSnapshot)
                    and snapshot.function_name == "import_stubs"
                ):
                    snapshot = snapshot.resume_auto()
            except monty.MontyTypingError as error:
                return reported(error.display())
            except monty.MontyRuntimeError:
                return []  # the statement will be rewritten before it runs
            except monty.MontyError as error:
                return [Problem(0, "not-supported", str(error))]
        return []

    # -- Execution -----------------------------------------------------------------------------------------------------

    async def begin(self, state: bytes = b"", library: str = "") -> None:
        """Load the dumped variables of earlier programs, if any, and run the code of library modules.

        Raises `ValueError` if the variables are unreadable.
        """
        await self._do(lambda: self._begin(state, library))

    def _begin(self, state: bytes, library: str) -> None:
        import pydantic_monty as monty

        self._open()
        assert self._session is not None
        if state:
            try:
                self._session.load_session(state)
            except monty.MontyError as error:
                raise ValueError(str(error)) from None
        else:
            self._advanced(self._session.feed_start(prelude()))
        if library:
            self._advanced(self._session.feed_start(library))

    def _open(self) -> None:
        import pydantic_monty as monty

        calls = monty.ExternalModule({"call": lambda *_: None})
        self._session = self._checkout(
            self._exits, {CALLS: calls}, os_policy={"sleep": "call_host"}
        )
        self._pid = self._session.worker_pid
        self._printed = monty.CollectString(max_bytes=MAX_PRINTED)

    def _checkout(
        self, exits: ExitStack, modules: dict[str, Any], **more: Any
    ) -> MontySession:
        """Return the process that checks and then runs the program; a new process if the old one has ended."""
        import pydantic_monty as monty

        with _without_terminal():
            if self._pool is None:
                pool = monty.Monty(
                    min_processes=1,
                    max_processes=1,
                    request_timeout=self._options.seconds + 10.0,
                )
                self._pool = self._exits.enter_context(pool)
            given = {
                "script_name": "program.py",
                "external_modules": modules,
                "limits": self._limits(),
                **more,
            }
            session: MontySession = exits.enter_context(self._pool.checkout(**given))
            return session

    def _limits(self) -> Any:
        return {
            "max_feed_duration_secs": float(self._options.seconds),
            "max_memory": self._options.memory_mb * 2**20,
            "max_suspensions": 1_000 + 10 * self._options.calls,
            "max_recursion_depth": 500,
        }

    async def feed(self, source: str) -> Step:
        """Run a program until it ends or waits for a call."""
        return await self._do(
            lambda: self._stepped(
                lambda session: session.feed_start(source, print_callback=self._printed)
            )
        )

    async def go_on(self, answers: Mapping[int, dict[str, Any]]) -> Step:
        """Continue a waiting program with the results of some of its calls."""

        def resumed(_: MontySession) -> Any:
            for asked in answers:
                self._asked.pop(asked, None)
            return self._snapshot.resume(dict(answers))  # type: ignore[union-attr, arg-type, call-arg]

        return await self._do(lambda: self._stepped(resumed))

    async def snapshot(self) -> bytes:
        """Return the state of the waiting program, for `restore`."""
        return await self._do(lambda: self._snapshot.dump())  # type: ignore[union-attr]

    async def restore(self, snapshot: bytes, asked: Sequence[AskedCall]) -> None:
        """Load a program that waited for these calls in another process. Raises `ValueError` for an unreadable
        snapshot.
        """

        def load() -> None:
            import pydantic_monty as monty

            self._open()
            assert self._session is not None
            try:
                self._snapshot = self._session.load_snapshot(
                    snapshot, print_callback=self._printed
                )
            except monty.MontyError as error:
                raise ValueError(str(error)) from None
            self._asked = {call.id: call for call in asked}

        await self._do(load)

    async def value_of(self, expression: str) -> Any:
        """Return the value of an expression as JSON data; None if it fails."""

        def fed() -> Any:
            import pydantic_monty as monty

            assert self._session is not None
            try:
                snapshot = self._session.feed_start(expression)
                while not isinstance(snapshot, monty.MontyComplete):
                    if isinstance(snapshot, monty.NameLookupSnapshot):
                        snapshot = snapshot.resume()
                    else:
                        snapshot = snapshot.resume_auto()
                return snapshot.output
            except (
                monty.MontyError,
                RuntimeError,
            ):  # RuntimeError if the worker has ended
                return None

        return await self._do(fed)

    async def dumped(self) -> bytes:
        """Return the dumped variables for the next program; b"" if they are lost."""

        def dump() -> bytes:
            import pydantic_monty as monty

            assert self._session is not None
            try:
                return self._session.dump()
            except (monty.MontyError, RuntimeError):
                return b""

        return await self._do(dump)

    def _stepped(self, begin: Callable[[MontySession], Any]) -> Step:
        import pydantic_monty as monty

        assert self._session is not None
        try:
            return self._advanced(begin(self._session))
        except monty.MontyRuntimeError as error:
            kind, _, message = error.display("type-msg").partition(": ")
            if len(self.printed) > MAX_PRINTED * 0.9 and message.endswith(
                f"> {MAX_PRINTED} bytes"
            ):
                message = f"the program printed more than {MAX_PRINTED:,} characters"
                return Failed(kind, message, is_lost=True)
            own = self._file()
            lines = tuple(
                int(frame.line) for frame in error.traceback() if frame.filename == own
            )
            is_lost = kind in ("TimeoutError", "MemoryError") and message.startswith(
                _IS_OVER
            )
            return Failed(kind, message, lines, is_lost)
        except monty.MontySyntaxError as error:
            return Failed("SyntaxError", error.display("msg"), is_lost=True)
        except monty.MontyCrashedError as error:
            return Failed("SystemError", f"the sandbox ended: {error}", is_lost=True)
        except monty.MontyError as error:
            return Failed(type(error).__name__, str(error), is_lost=True)

    def _file(self) -> str:
        """Return the file name of the program in tracebacks.

        The interpreter numbers every source that it runs, including the prelude and earlier programs.
        """
        import pydantic_monty as monty

        assert self._session is not None
        try:
            self._session.feed_start("raise ValueError")
        except monty.MontyRuntimeError as error:
            name, _, number = str(error.traceback()[0].filename).rpartition("-")
            return f"{name}-{int(number.rstrip('>')) - 1}>"
        except (monty.MontyError, RuntimeError):
            pass
        return ""

    def _advanced(self, snapshot: Any) -> Step:
        """Run until the program ends or needs answers to continue."""
        import pydantic_monty as monty

        while not isinstance(snapshot, monty.MontyComplete):
            if isinstance(snapshot, monty.FutureSnapshot):
                self._snapshot = snapshot
                return Waiting(
                    tuple(self._asked.values()),
                    snapshot.dump() if self._takes_snapshots else b"",
                )
            is_name = isinstance(snapshot, monty.NameLookupSnapshot)
            if is_name:
                snapshot = snapshot.resume()
            else:
                snapshot = self._answered(snapshot)
        unawaited, self._asked = (
            sum(1 for asked in self._asked.values() if asked.path),
            {},
        )
        return Ended(unawaited)

    def _answered(self, snapshot: Any) -> Any:
        """Answer a request of the program immediately, if that is possible."""
        name = str(snapshot.function_name)
        if snapshot.is_os_function:
            if name in ("import", "import_stubs"):
                return snapshot.resume_auto()
            if name not in ("asyncio.sleep", "time.sleep"):
                return snapshot.resume_not_handled()
            return self._asleep(snapshot, name)
        if name != f"{CALLS}.call":
            shown = ascii(name[:80])[1:-1]
            return snapshot.resume(
                {"exc_type": "NameError", "message": f"name '{shown}' is not defined"}
            )
        arguments = snapshot.args
        if (
            len(arguments) != 2
            or not all(isinstance(one, str) for one in arguments)
            or len(arguments[0]) > MAX_PATH
        ):
            return snapshot.resume(
                {"exc_type": "TypeError", "message": "call a tool by its function"}
            )
        size, at_once = (
            len(arguments[1]),
            sum(len(asked.arguments) for asked in self._asked.values()),
        )
        if size > MAX_ARGUMENT_CHARACTERS or size + at_once > MAX_ASKED:
            most = f"the limit is {MAX_ARGUMENT_CHARACTERS:,}, and {MAX_ASKED:,} for calls at the same time"
            return snapshot.resume(
                {
                    "exc_type": "ValueError",
                    "message": f"arguments of {size:,} characters: {most}",
                }
            )
        self._asked[snapshot.call_id] = AskedCall(snapshot.call_id, *arguments)
        return snapshot.resume({"future": ...})

    def _asleep(self, snapshot: Any, name: str) -> Any:
        given = 0.0
        if snapshot.args:
            given = snapshot.args[0]
        seconds = 0.0
        if isinstance(given, int | float):
            seconds = min(max(float(given), 0.0), MAX_SLEEP)
        self._slept += seconds
        if self._slept > MAX_SLEEPS:
            text = f"a program may sleep {MAX_SLEEPS:g} seconds in all"
            return snapshot.resume({"exc_type": "TimeoutError", "message": text})
        if name == "time.sleep":
            self._left.wait(seconds)
            return snapshot.resume({"return_value": None})
        self._asked[snapshot.call_id] = AskedCall(snapshot.call_id, "", seconds=seconds)
        return snapshot.resume({"future": ...})


def _library_stubs() -> dict[str, Any]:
    """Return the library's modules for the type checker; a module in a package also has its own name there."""
    import pydantic_monty as monty

    made: dict[str, Any] = {}
    for name, module in library().items():
        one = monty.ExternalModule({}, stubs=module.stub)
        for path in (name, module.checked):
            package, _, inner = path.partition(".")
            made[package] = (
                monty.ExternalModule({inner: one}, stubs="") if inner else one
            )
    return made
