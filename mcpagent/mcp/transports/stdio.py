"""Run a local server as a child process: pipes, limits, and a shutdown that leaves no process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

import anyio
from mcp_types import JSONRPCRequest, RequestId

from mcpagent.config import ServerConfig
from mcpagent.history.intake.json_steps import Bytes
from mcpagent.mcp.sdk import SessionMessage
from mcpagent.mcp.transports.bytes_to_messages import (
    ByteObserver,
    Decoded,
    InvalidOutput,
    Line,
    MessageReader,
    OversizedLine,
    decoded,
    dumped,
    unheard,
)
from mcpagent.mcp.transports.server_log import ServerLog
from mcpagent.mcp.transports.stdin_pipe import Stdin, new_stdin
from mcpagent.permissions.trust.launches import Launch, launch_of, start_error
from mcpagent.utilities.processes.child_watcher import wait_without_threads
from mcpagent.utilities.processes.process_tree import (
    Allocated,
    Process,
    allocated,
    command_of,
    descendants,
    end_marked,
    kill_all,
    session_id_of,
    with_mark,
)
from mcpagent.utilities.processes.watchdog import KEEPER, ProcessGuard, ProcessMark
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets

_STDERR_BYTES = 64 * 1024
_PAUSE_BYTES = 4 * 1024 * 1024
_LINES_AT_ONCE, _LINE_BYTES = 50, 2_000
"""Number of lines that are decoded before other tasks run; and the bytes from which a longer line counts as several."""

_LAST_OUTPUT_SECONDS = 0.5
_START_SECONDS = 2.0

_ENDING: set[asyncio.Future[None]] = set()
"""Servers that are shutting down, until none of their processes is left."""


async def _to_the_end(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the work to its end, even if the caller is cancelled; a second cancellation ends only the waiting.

    Work that is cancelled itself, as all work is when an event loop ends, is started again.
    """
    ending = asyncio.ensure_future(work())
    _ENDING.add(ending)
    ending.add_done_callback(_ENDING.discard)
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait((ending,))
        if ending.cancelled():
            await work()
        raise


async def _made(making: Coroutine[Any, Any, Any]) -> None:
    """Start a process with asyncio. When an event loop ends, the start must be cancelled several times."""
    made = asyncio.ensure_future(making)
    try:
        await asyncio.shield(made)
    except asyncio.CancelledError:
        until = time.monotonic() + _START_SECONDS
        while not made.done() and time.monotonic() < until:
            made.cancel()
            await asyncio.wait((made,), timeout=0.05)
        raise


def _lines_in(line: Bytes | OversizedLine) -> int:
    """Return the number of short lines that take as long to decode as this line."""
    if isinstance(line, OversizedLine):
        return 1
    return 1 + len(line) // _LINE_BYTES


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The exit of a child process. `code` is negative for a signal."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exited with code {self.code}"
        try:
            return (
                f"was ended by signal {-self.code} ({signal.Signals(-self.code).name})"
            )
        except ValueError:
            return f"was ended by signal {-self.code}"


class _Pipes(asyncio.SubprocessProtocol):
    """Collects the child's output, and records its exit."""

    def __init__(self, log: ServerLog | None) -> None:
        self._log = log
        self.transport: asyncio.SubprocessTransport | None = None
        self.chunks: deque[bytes] = deque()
        self.stderr = bytearray()
        self.exited = asyncio.Event()
        self.stderr_closed = asyncio.Event()
        self.changed = asyncio.Event()
        self.stdout_open = True
        self.is_silent = True
        self.mark: ProcessMark | None = None
        self._held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.SubprocessTransport", transport)
        if self.mark is not None:
            pid = self.transport.get_pid()
            self.mark.put_on((pid, *(process.pid for process in descendants(pid))))
        self._stdout().set_protocol(_Stdout(self, self._stdout().get_protocol()))

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if isinstance(data, bytes):
            chunk = data
        else:
            chunk = data.encode()
        self.is_silent = False
        if fd == 2:
            self.stderr += chunk
            del self.stderr[:-_STDERR_BYTES]
            if self._log is not None:
                self._log.output(chunk)
            return
        self.chunks.append(chunk)
        self._held += len(chunk)
        self.changed.set()
        if self._held > _PAUSE_BYTES:
            self._stdout().pause_reading()

    def take(self) -> bytes:
        chunk = self.chunks.popleft()
        before, self._held = self._held, self._held - len(chunk)
        if before > _PAUSE_BYTES >= self._held and self.stdout_open:
            self._stdout().resume_reading()
        return chunk

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  (asyncio's signature)
        if fd == 1:
            self.stdout_open = False
            self.changed.set()
        elif fd == 2:
            self.stderr_closed.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.changed.set()

    def _stdout(self) -> asyncio.ReadTransport:
        assert self.transport is not None
        return cast("asyncio.ReadTransport", self.transport.get_pipe_transport(1))


class _Stdout(asyncio.Protocol):
    """Receives output directly; asyncio's own protocol would deliver it one step of the event loop later."""

    def __init__(self, pipes: _Pipes, before: asyncio.BaseProtocol) -> None:
        self._pipes = pipes
        self._before = before

    def data_received(self, data: bytes) -> None:
        self._pipes.pipe_data_received(1, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._before.connection_lost(exc)


class StdioTransport:
    """Runs a server's command and returns the SDK's message streams: an async context manager for one process.

    Raises `ServerError` (phase "start") if the command cannot run. `on_junk` receives each line that is not a message.
    `died` is the exit of the process and `stderr_lines()` its last output; `log` stores all of it.
    """

    def __init__(
        self,
        config: ServerConfig,
        on_junk: Callable[[str], None],
        environ: Mapping[str, str],
        log: ServerLog | None = None,
        heard: ByteObserver = unheard,
    ) -> None:
        self._heard = heard
        self._config = config
        self._on_junk = on_junk
        self._environ = environ
        self._log = log
        self._pipes = _Pipes(log)
        self._stdin: Stdin | None = None
        self._own_answers: deque[SessionMessage] = deque()
        self._stopping = False
        self._died: ProcessEnd | None = None
        self._started: tuple[Process, ...] = ()
        self._before: Allocated | None = None
        self._guard = KEEPER
        self.keeps_running = config.keeps_running
        if config.keeps_running:
            self._guard = ProcessGuard()
        self._may_leave_processes = False
        self._is_watched = False
        self._end_job: Callable[[], None] = lambda: None
        self.spawn_seconds = 0.0
        """Duration of the process start."""
        self.flood = ""
        """The reason why reading was stopped, if the server wrote too much output that is not MCP; else ""."""
        self.is_patient = True
        """If False, the server is killed at once; otherwise mcpagent waits for its exit first."""

    @property
    def died(self) -> ProcessEnd | None:
        """The exit of the process by itself; None if it is running or mcpagent stopped it."""
        transport = self._pipes.transport
        if (
            not self._stopping
            and transport is not None
            and (code := transport.get_returncode()) is not None
        ):
            self._died = ProcessEnd(code)
        return self._died

    @property
    def pid(self) -> int | None:
        """The PID of the server or of its launcher; None before the start."""
        if self._pipes.transport is None:
            return None
        return self._pipes.transport.get_pid()

    @property
    def is_silent(self) -> bool:
        """Return whether the process has written nothing so far, neither to stdout nor to stderr."""
        return self._pipes.is_silent

    @property
    def has_unread(self) -> bool:
        """Return whether requests are certainly still unread, for instance because the server is loading its
        packages.
        """
        return self._stdin is not None and self._stdin.has_unread()

    def has_read(self, request_id: RequestId | None = None) -> bool:
        """Return whether the server may have read a request (None: any byte); False if it certainly did not."""
        return self._stdin is not None and self._stdin.has_read(request_id)

    def daemons(self) -> tuple[str, ...]:
        """Return the commands of the background processes that closing would end: those in other sessions than the
        server's.

        Call it in a thread.
        """
        mark, pid = self._pipes.mark, self.pid
        if self.keeps_running or mark is None or pid is None:
            return ()
        found = [one.pid for one in with_mark(mark, self._before)]
        return tuple(
            command_of(one) for one in found if session_id_of(one) not in (None, pid)
        )

    def stderr_lines(self, limit: int = 10) -> tuple[str, ...]:
        """Return the last lines of the server's standard error as printable text."""
        text = without_secrets(bytes(self._pipes.stderr).decode("utf-8", "replace"))
        lines = (safe_line(line) for line in text.splitlines())
        return tuple([line for line in lines if line][-limit:])

    async def __aenter__(self) -> Line:
        config = self._config
        launch = launch_of(self._config, self._environ)
        before = time.monotonic()
        starting = asyncio.ensure_future(self._spawn(launch))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # asyncio would kill only the process, not its children. Code that cancels may not wait for the end of this.
            await _to_the_end(lambda: self._end_start(starting))
            raise
        except (OSError, ValueError) as error:
            raise start_error(
                config,
                f'"{safe_line(launch.program)}" cannot be run: {safe_line(str(error))}',
            ) from None
        self.spawn_seconds = time.monotonic() - before
        self._note(f"started, process {self.pid}")
        return self._messages(), self.send

    async def _spawn(self, launch: Launch) -> None:
        """Start the process. Do not cancel this halfway, because it would be unknown what has to be closed."""
        self._stdin = new_stdin()
        mark = self._pipes.mark = self._guard.hold()
        self._before = allocated()
        self._is_watched = True
        try:
            await asyncio.sleep(
                0
            )  # a failed start may have left a process; in a thread, because the search takes some milliseconds
            wait_without_threads()
            await _made(
                asyncio.get_running_loop().subprocess_exec(
                    lambda: self._pipes,
                    *mark.command(
                        (launch.program, *launch.arguments), launch.environment
                    ),
                    stdin=self._stdin.child_end,
                    env=mark.environment(launch.environment),
                    cwd=launch.folder or None,
                    start_new_session=sys.platform != "win32",
                )
            )
        except asyncio.CancelledError:
            # The event loop ends. asyncio then knows no process, but there may be one.
            await _to_the_end(lambda: asyncio.to_thread(end_marked, mark, self._before))
            raise
        finally:
            self._stdin.has_started(self._pipes.transport)
            if self.pid is None:
                self._stdin.close()
                await self._watched_no_more()
        if sys.platform == "win32":
            from mcpagent.utilities.processes.watchdog import job_of

            assert self.pid is not None
            self._end_job = job_of(self.pid)
        else:
            self._guard.tell(f"+{self.pid}")

    async def _watched_no_more(self) -> None:
        is_watched, self._is_watched = self._is_watched, False
        if is_watched:
            self._guard.tell(f"-{self.pid}")
            await self._guard.release()

    async def _end_start(self, starting: asyncio.Future[None]) -> None:
        await asyncio.wait((starting,), timeout=_START_SECONDS)
        if (
            not starting.done()
        ):  # the event loop ends, and has cancelled asyncio's own work for the process
            starting.cancel()
            await asyncio.wait((starting,), timeout=_START_SECONDS)
        if self.pid is not None:
            self.is_patient = False
            await self.__aexit__(None, None, None)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping = self.died is None
        try:
            has_exited = await self._stop()
            keeps = self.keeps_running and self._stopping
            self._may_leave_processes = keeps and has_exited
        finally:
            if not self._may_leave_processes:
                self._kill_group(
                    signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
                )
                kill_all(self._started)
            self._end_job()
            if self._stdin is not None:
                self._stdin.close()
            if self._pipes.transport is not None:
                self._pipes.transport.close()
                await _to_the_end(self._leave_nothing)
            await asyncio.sleep(0)  # lets the callbacks of the pipes' `close` run
            self._note("stopped" if self._died is None else str(self._died))

    async def _leave_nothing(self) -> None:
        """End all processes of a stopped server, unless it may leave some; then stop watching it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._pipes.exited.wait()
        # A background process that left both its group and its parents is known only by its mark.
        if self._pipes.mark is not None and not self._may_leave_processes:
            await asyncio.to_thread(end_marked, self._pipes.mark, self._before)
        await self._watched_no_more()

    async def _messages(self) -> AsyncIterator[SessionMessage]:
        """Yield the server's messages until its output ends; then its exit is known."""
        reader = MessageReader(self._config.max_message_bytes)
        pipes, useless, lines = self._pipes, 0, 0
        while True:
            while self._own_answers:
                yield self._own_answers.popleft()
            while pipes.chunks:
                chunk = pipes.take()
                self._heard(is_answer=reader.is_in_message)
                useless += len(chunk)
                for line in reader.lines(chunk):
                    lines += _lines_in(line)
                    if lines >= _LINES_AT_ONCE:
                        lines = 0
                        await asyncio.sleep(0)
                    found = deque(self._told(await decoded(line)))
                    del line  # otherwise a large line or message would stay in memory until the next one arrives
                    while found:
                        useless = 0
                        yield found.popleft()
                if (
                    useless > self._config.max_message_bytes
                    and not reader.is_in_message
                ):
                    self._end_flood(useless)
                    return
                if pipes.chunks:  # thousands of lines may contain no complete message
                    await asyncio.sleep(0)
            if not pipes.stdout_open or not await self._has_more(reader):
                break
        for message in self._told(reader.end()):
            yield message
        # If stdout is closed but the process runs, there is nothing to wait for; if it is exiting, its exit code is
        # reported.
        await self._ended_soon()

    def _end_flood(self, size: int) -> None:
        self.flood = f"was ended, since it wrote {size / 2**20:.3g} MiB to its standard output that are not MCP"
        self.is_patient = False

    async def _has_more(self, reader: MessageReader) -> bool:
        """Wait for output; return False if the process has ended and only a child of it holds the pipe."""
        pipes = self._pipes
        pipes.changed.clear()
        if pipes.chunks or self._own_answers or not pipes.stdout_open:
            return True
        if not reader.is_in_line and not pipes.exited.is_set():
            await pipes.changed.wait()
            return True
        if await self._changed_within(_LAST_OUTPUT_SECONDS):
            return True
        self._own_answers.extend(self._told(reader.unfinished()))
        return bool(self._own_answers) or (
            not pipes.exited.is_set() and await self._changed_within(None)
        )

    async def _changed_within(self, seconds: float | None) -> bool:
        try:
            # Not `wait_for`: in Python 3.11, it loses a cancellation that arrives together with the awaited result.
            async with asyncio.timeout(seconds):
                await self._pipes.changed.wait()
        except TimeoutError:
            return False
        return True

    def _told(self, found: Iterable[Decoded]) -> Iterator[SessionMessage]:
        """Yield the messages among the decoded lines; report invalid output at once."""
        for message in found:
            if isinstance(message, InvalidOutput):
                self._on_junk(message.text)
            else:
                yield SessionMessage(message)

    async def send(self, item: SessionMessage) -> None:
        """Send one message. Raises `anyio.BrokenResourceError` if the reader is gone, and the errors of `dumped`."""
        message = item.message
        request_id = None
        if isinstance(message, JSONRPCRequest):
            request_id = message.id
        line = dumped(message) + b"\n"
        assert self._stdin is not None
        self._stdin.send(line, request_id)
        await self._stdin.drained()
        if self._stdin.is_broken:
            await self._ended_soon()
            raise anyio.BrokenResourceError

    async def _ended_soon(self) -> None:
        """Wait a short time for the exit of the process and its last output."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_OUTPUT_SECONDS):
                await self._pipes.exited.wait()
                await self._pipes.stderr_closed.wait()

    def _note(self, text: str) -> None:
        if self._log is not None:
            self._log.note(text)

    async def _stop(self) -> bool:
        """Stop the process: close stdin, then TERM, then KILL; each step has a share of the time.

        Returns whether it exited by itself.
        """
        transport = self._pipes.transport
        if transport is None:
            return False
        self._started = descendants(transport.get_pid())
        if self._stdin is not None:
            self._stdin.close()
        share = 0.1
        if self.is_patient:
            share = min(2.0, self._config.shutdown_seconds * 0.4)
        if await self._exited_within(share):
            return True
        self._kill_group(signal.SIGTERM)
        if not await self._exited_within(share):
            self._kill_group(
                signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
            )
            await self._exited_within(1.0)
        return False

    async def _exited_within(self, seconds: float) -> bool:
        # Discard the output of a stopping server, because a full pipe could prevent it from stopping.
        pipes = self._pipes
        deadline = asyncio.get_running_loop().time() + seconds
        while not pipes.exited.is_set():
            while pipes.chunks:
                pipes.take()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            pipes.changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await pipes.changed.wait()
        return True

    def _kill_group(self, number: signal.Signals) -> None:
        """Signal the server and all processes in its group, also after its own exit, for those that remain."""
        pid = self.pid
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                os.kill(pid, number)
            else:
                os.killpg(pid, number)
