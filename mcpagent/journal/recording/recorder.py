"""`Recorder`: write the runs of an agent line by line, so that the file of a killed run is readable."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from mcpagent.errors import ConfigError, CredentialsError, ModelError, RunCancelledError
from mcpagent.history.conversation import call_digest
from mcpagent.journal.recording.recorded_entries import (
    TYPES,
    CallEnded,
    ModelReported,
    ModelResponded,
    Piece,
    RequestEntries,
    RunEndEntry,
    RunStarted,
    agent_started,
    digest_of,
    line_data,
    tools_listed,
)
from mcpagent.journal.sessions.run_ended import (
    DurableResult,
    RunEnded,
    ended_to_json,
    error_to_json,
)
from mcpagent.models.base import (
    Model,
    ModelSettings,
    WrappedModel,
    is_small,
    search_cost,
    search_problem,
    tool_limits,
)
from mcpagent.run.agent_run import AgentRun, Middleware, current_run
from mcpagent.run.run_parts import CallBatch, CallState, StepState
from mcpagent.tool_search.catalog import Listing
from mcpagent.toolsets.definition import Definition
from mcpagent.toolsets.sources import AgentSources, OnChange, WrappedSources
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide, hide_environment, without_secrets
from mcpagent.values.events import (
    CustomEvent,
    Emit,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolsSearched,
)
from mcpagent.values.messages import Spent, ToolDefinition, ToolResult

logger = logging.getLogger("mcpagent")

MAX_PROGRESS = 100
"""Maximum number of progress notifications of one call that are written, the last ones."""


class Recorder(Middleware):
    """A recorder for `RunOptions(wrappers=[Recorder("run.jsonl")])`: it writes requests, answers and results of calls.

    The file is new, and readable by its user only. Secrets are replaced: those of the environment and of the servers'
    configurations, `secrets`, and text in the format of issuers' keys. A full disk ends the recording with a line in
    the log, not the run. When the agent starts, it raises `ConfigError` if the file cannot be written.
    """

    @checked()
    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._ended = ""
        hide_environment(os.environ)
        hide(*secrets)
        self._definition: Definition | None = None
        self._first: Model | None = None
        self._requests = 0
        self._asked = RequestEntries(without_secrets)
        self.sources: AgentSources | None = None
        self._listing: Listing | None = None
        self._listings: dict[str, int] = {}
        self._current = 0
        self._runs: dict[str, int] = {}
        self._ran: Counter[tuple[int, str]] = Counter()
        """Recorded calls whose message is not complete yet, by run and call ID."""
        self._progress: dict[tuple[str, str], list[ToolProgress]] = {}

    @checked()
    def __call__(self, definition: Definition) -> Definition:
        """Return the definition with recording of its model and tools. Raises `ConfigError` if another `Recorder`
        writes the file.
        """
        inner = definition.sources
        while isinstance(inner, _RecordedSources):
            if inner.path.resolve() == self.path.resolve():
                raise ConfigError(
                    f"wrappers: recording {safe_line(str(self.path), 120)} would be written twice; keep one"
                )
            inner = inner.inside
        return replace(
            definition,
            resolve=lambda choice: self.recorded(
                definition.resolve(choice), definition
            ),
            sources=_RecordedSources(definition.sources, self),
            hears=(*definition.hears, self._hear),
            middleware=(*definition.middleware, self),
        )

    def recorded(self, model: Model, definition: Definition | None = None) -> Model:
        """Return a model that records its capabilities; the pipeline records its requests.

        The file is opened now, or when the agent starts if it has not started yet. Raises `ConfigError` if the file
        cannot be written, or if this recorder already belongs to another agent.
        """
        if self._definition is not None and self._definition is not definition:
            shown = safe_line(str(self.path), 120)
            raise ConfigError(
                f"recording {shown}: it is another agent's already; make a Recorder for each agent"
            )
        self._definition = definition
        if definition is None or self.sources is not None:
            self._start(model)
        else:  # if the agent could not start, the file would stay open
            self._first = model
        return _RecordedModel(model, self)

    def begin(self, sources: AgentSources) -> None:
        """Begin the file when the agent starts, or continue it. Raises `ConfigError` if it cannot be written."""
        if self._first is not None:
            self._start(self._first)
        else:
            self._reopen()
        self._first, self.sources = None, sources

    def close(self) -> None:
        """End the recording, as closing the agent does. A second call has no effect."""
        self.sources = None
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            logger.warning("recording %s is not complete: %s", self.path, error)

    def _start(self, model: Model) -> None:
        """Begin the file; if it is already open, write the name of another model."""
        if self._file is not None:
            self._reopen()
            self.write(ModelReported(model.name))
            return
        self._open(os.O_TRUNC)
        if (definition := self._definition) is not None:
            self.write(
                agent_started(
                    definition, model.name, search_cost(model), tool_limits(model)
                )
            )

    def _reopen(self) -> None:
        """Continue a file that was closed with its agent, which has started again."""
        if self._file is not None and self._file.closed:
            self._open(os.O_APPEND)

    def _open(self, how: int) -> None:
        try:
            descriptor = opened_alone(self.path, how)
        except OSError as error:
            shown = safe_line(str(self.path), 120)
            why = error.strerror or str(error)
            fix = "; name a file of your own, in a folder that is there"
            if ";" in why:
                fix = ""
            raise ConfigError(
                f"recording {shown}: cannot be written: {why}{fix}"
            ) from None
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    # -- Events --------------------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        if isinstance(event, ToolProgress):
            progress = self._progress.setdefault((event.server, event.tool), [])
            progress.append(event)
            del progress[:-MAX_PROGRESS]

    # -- Middleware ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def around_run(self, run: AgentRun) -> AsyncIterator[None]:
        """Record the end of a run, as a session stores it."""
        try:
            yield
        except asyncio.CancelledError:
            self._end(
                run, lambda number: RunEnded(number, error=RunCancelledError(number))
            )
            raise
        except Exception as error:
            failure = error
            self._end(run, lambda number: RunEnded.failed(number, failure))
            raise
        if (finished := run.tally.finished) is not None:
            self._end(
                run,
                lambda number: RunEnded(
                    number, DurableResult.of(finished, finished.spent)
                ),
            )

    def _end(self, run: AgentRun, end: Callable[[str], RunEnded]) -> None:
        if (number := self._runs.get(run.context.run_id)) is not None:
            self.write(RunEndEntry(number, ended_to_json(end(str(number)))))

    @asynccontextmanager
    async def around_step(self, run: AgentRun, step: StepState) -> AsyncIterator[None]:
        """Record a request, and its answer or failure; or the part of an answer that arrived before the run ended."""
        number, started = self._request(run, step), time.monotonic()
        responded = ModelResponded(number)
        try:
            yield
        except (ModelError, CredentialsError) as error:
            responded = replace(responded, failure=error_to_json(error))
            raise
        finally:
            seconds = round(time.monotonic() - started, 3)
            deltas = self.whole_deltas(
                step.under_way.deltas if step.under_way is not None else ()
            )
            self.write(
                replace(
                    responded, response=step.response, deltas=deltas, seconds=seconds
                )
            )

    @asynccontextmanager
    async def around_calls(
        self, run: AgentRun, batch: CallBatch
    ) -> AsyncIterator[None]:
        """Record the results of refused calls, which `around_call` does not see."""
        yield
        number = self._run_number(run)
        arguments = {call.id: call.arguments for call in batch.calls}
        for result in batch.results:
            given = arguments[result.call_id]
            if self._ran[number, result.call_id]:
                self._ran[number, result.call_id] -= 1
            else:
                self.write(CallEnded(result, arguments=given, ran=False, run=number))

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Record a permitted call with the output of its tool, or with its failure."""
        started = time.monotonic()
        yield
        output, tool, spent = call.output, call.tool, call.tally.spent
        if output is None or tool is None:
            return
        if not call.parent and not output.pending:
            self._ran[self._run_number(run), call.call.id] += 1
        definition = tool.definition
        seconds = round(time.monotonic() - started - call.tally.asked_seconds, 3)
        digest = call_digest(
            definition.key, with_texts(call.call.arguments, without_secrets)
        )
        line = CallEnded(
            ToolResult(
                call.call.id, definition.name, output.content, output.error, seconds
            ),
            definition.key,
            digest,
            call.arguments or {},
            definition.server,
            changes=output.changes,
            progress=tuple(
                self._progress.pop(
                    (definition.server or "", definition.original_name), ()
                )
            ),
            events=tuple(
                it
                for it in output.events
                if isinstance(it, CustomEvent | ToolsSearched)
            ),
            blocks=output.blocks,
            waits=output.pending,
            agents=spent if spent != Spent() else None,
            run=self._run_number(run),
        )
        self.write(line)

    # -- Lines ---------------------------------------------------------------------------------------------------------

    def _request(self, run: AgentRun, step: StepState) -> int:
        """Write a request with the messages that the previous one lacks, and return its number.

        If they are new, the tools of its session and the prompt of its run are written first.
        """
        request, offer = step.prepared()
        listing = self._written_listing(run.tools.listing)
        is_new = run.context.run_id not in self._runs
        number = self._run_number(run)
        if is_new and run.answers is None:
            self.write(RunStarted(run.context.prompt, number))
        self._requests += 1
        line = replace(
            self._asked.entry(request),
            number=self._requests,
            run=number,
            listing=listing,
        )
        if not step.is_summary:
            line = replace(
                line, known_tools=offer.known_tools, saved_tokens=offer.saved_tokens
            )
        self.write(line)
        return self._requests

    def _run_number(self, run: AgentRun) -> int:
        return self._runs.setdefault(run.context.run_id, len(self._runs) + 1)

    def _written_listing(self, listing: Listing) -> int:
        """Write the tools that the session can have, if they are new; return the number of their entry."""
        if self.sources is None or listing is self._listing:
            return self._current
        self._listing = listing
        line = tools_listed(0, listing, self.sources.statuses)
        before = len(self._listings)
        number = self._listings.setdefault(
            digest_of(line_data(line, without_secrets)), before + 1
        )
        if number > before:
            self.write(replace(line, number=number))
        self._current = number
        return number

    def write(self, entry: Any) -> None:
        """Write one entry with secrets replaced. A full disk ends the recording."""
        if self._file is None or self._file.closed:
            self._report_end()
            return
        envelope = {"type": TYPES[type(entry)], "time": round(time.time(), 3)}
        line = json.dumps(envelope | line_data(entry, without_secrets) | envelope)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._ended = f"recording {safe_line(str(self.path), 120)} ends here: {error.strerror or error}"
            logger.warning(self._ended)
            self.close()
            self._report_end()

    def _report_end(self) -> None:
        """Report once, in this run or the next one, that the recording ended early."""
        run = current_run()
        if self._ended and run is not None:
            text, self._ended = self._ended, ""
            run.emit(Notice(text, "warning"))

    def whole_deltas(
        self, deltas: Sequence[TextDelta | ThinkingDelta]
    ) -> tuple[Piece, ...]:
        """Return the pieces of a stream. Pieces of one kind are joined if they would divide a secret."""
        pieces: list[Piece] = [
            ("thinking" if isinstance(it, ThinkingDelta) else "text", it.text)
            for it in deltas
        ]
        for kind in ("text", "thinking"):
            whole = "".join(text for of, text in pieces if of == kind)
            if without_secrets(whole) != whole:
                others = [piece for piece in pieces if piece[0] != kind]
                if kind == "text":
                    pieces = [*others, ("text", whole)]
                else:
                    pieces = [("thinking", whole), *others]
        return tuple(pieces)


class _RecordedSources(WrappedSources):
    """The sources of a recorded agent, which begin and end the recording."""

    def __init__(self, sources: AgentSources, recorder: Recorder) -> None:
        super().__init__(sources)
        self.path = recorder.path
        self._recorder = recorder

    async def open(
        self, exits: AsyncExitStack, emit: Emit, on_change: OnChange
    ) -> None:
        """Begin the recording and open the sources; `exits` ends both."""
        exits.callback(self._recorder.close)
        self._recorder.begin(self.inside)
        await self.inside.open(exits, emit, on_change)


class _RecordedModel(WrappedModel):
    """A model whose capabilities are recorded when the agent asks for them."""

    def __init__(self, model: Model, recorder: Recorder) -> None:
        super().__init__(model)
        self._recorder = recorder

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        problem = search_problem(self.inside, strategy, deferred)
        self._recorder.write(ModelReported(search_problem=problem))
        return problem

    def is_small(self, settings: ModelSettings) -> bool:
        if small := is_small(self.inside, settings):
            self._recorder.write(ModelReported(is_small=small))
        return small

    def takes_output(self) -> bool:
        return True


def opened_alone(path: Path, how: int) -> int:
    """Open the file for writing, for this user only; `how` is `O_TRUNC` or `O_APPEND`. Raises `OSError`.

    A link is refused: in a folder that others can write to, it may lead to another file. A device or a pipe is allowed.
    """
    is_link = path.is_symlink()
    linked = OSError(
        errno.ELOOP, "is a link; name the file that it leads to, or remove the link"
    )
    if is_link and not path.exists():
        raise linked
    flags = os.O_WRONLY | how & ~os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
    if is_link:
        flags |= 0
    else:
        flags |= os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    # With this flag, a pipe without a reader is an error; otherwise the call would wait for a reader.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            if is_link:
                raise linked
            _have_alone(descriptor, found)
            if how & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        if sys.platform != "win32":
            os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _have_alone(descriptor: int, found: os.stat_result) -> None:
    """Prevent other users from reading the file, and other processes from writing to it until it is closed. Raises
    `OSError`.
    """
    if sys.platform == "win32":
        return
    import fcntl

    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user; name another file")
    os.fchmod(descriptor, 0o600)  # the file may have existed before
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(
            errno.EBUSY, "another program is recording into it; name another file"
        ) from None
    except OSError:  # a file system without locks
        return
