"""Writing down what an agent does, line by line, so that a run that is killed leaves a file that can be read."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import sys
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, TextIO

from mcpagent.definition import Definition
from mcpagent.errors import ConfigError, CredentialsError, ModelError
from mcpagent.events import AnswerRestarted, Emit, Event, Notice, RunFinished, TextDelta, ThinkingDelta, ToolProgress
from mcpagent.messages import Message, Spent, ToolDefinition, json_copy
from mcpagent.models.base import (
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    WrappedModel,
    is_small,
    search_cost,
    search_problem,
    tool_limits,
)
from mcpagent.models.output_ways.asked_output import told_form
from mcpagent.python.argument_checks import checked
from mcpagent.recording.recorded_lines import (
    Document,
    failure_line,
    listing_line,
    output_document,
    request_line,
    response_line,
    start_line,
)
from mcpagent.run import active_run, current_run
from mcpagent.text.known_secrets import known_values
from mcpagent.text.safe_text import safe_line
from mcpagent.text.secret_shapes import Redact, redacted, redactor, secrets_in, without_shapes
from mcpagent.tool_search.catalog import Listing
from mcpagent.tools import Tool, ToolOutput
from mcpagent.toolsets.sources import AgentSources, OnChange, WrappedSources

logger = logging.getLogger("mcpagent")

MAX_PROGRESS = 100
"""Progress notifications kept of one call; the last ones."""


class Recorder:
    """`RunOptions(wrappers=[Recorder("run.jsonl")])`: writes what its model was sent and said, and what its tools gave.

    The file is new, and readable by its user only. Secrets are replaced: values of environment variables whose names
    say so, those of the servers' configurations, `secrets`, and whatever looks like a key. A disk that is full ends the
    recording, not the run: it is logged. Raises `ConfigError` for a file that cannot be written, when the agent starts.
    """

    @checked()
    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._ended = ""
        self._values = {*secrets_in(os.environ), *secrets}
        self._hidden = frozenset[str]()
        self._redact: Redact = without_shapes
        self._definition: Definition | None = None
        self._first: Model | None = None
        self._requests = 0
        self._last: Sequence[Message] = ()
        self.sources: AgentSources | None = None
        self._listing: Listing | None = None
        self._listings: dict[str, int] = {}
        self._current = ""
        self._run_id = ""
        self._progress: dict[tuple[str, str], list[ToolProgress]] = {}

    @checked()
    def __call__(self, definition: Definition) -> Definition:
        """The agent with its model and all its tools recorded. Raises `ConfigError` if the file is written already."""
        inner = definition.sources
        while isinstance(inner, _RecordedSources):
            if inner.path.resolve() == self.path.resolve():
                raise ConfigError(
                    f"wrappers: recording {safe_line(str(self.path), 120)} would be written twice; keep one"
                )
            inner = inner.inside
        return replace(
            definition,
            resolve=lambda choice: self.recorded(definition.resolve(choice), definition),
            sources=_RecordedSources(definition.sources, self),
            bind=lambda tools: [self.recorded_tool(tool) for tool in definition.bind(tools)],
            hears=(*definition.hears, self._hear),
        )

    def recorded(self, model: Model, definition: Definition | None = None) -> Model:
        """The model, with everything that it is sent and says in a run written down.

        Begins the file; that of an agent which is still to be opened begins with it. Raises `ConfigError` if the file
        cannot be written, or is another agent's.
        """
        if self._definition is not None and self._definition is not definition:
            shown = safe_line(str(self.path), 120)
            raise ConfigError(f"recording {shown}: it is another agent's already; make a Recorder for each agent")
        self._definition = definition
        if definition is None or self.sources is not None:
            self._start(model)
        else:  # nobody would close it if the agent could not be opened
            self._first = model
        return _RecordedModel(model, self)

    def begin(self, sources: AgentSources) -> None:
        """Begins the file with its agent, or goes on with it. Raises `ConfigError` if it cannot be written."""
        if self._first is not None:
            self._start(self._first)
        else:
            self._reopen()
        self._first, self.sources = None, sources

    def close(self) -> None:
        """Ends the recording, as closing the agent does; a second call does nothing."""
        self.sources = None
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            logger.warning("recording %s is not complete: %s", self.path, error)

    def _start(self, model: Model) -> None:
        """Begins the file, or reports another model."""
        if self._file is not None:
            self._reopen()
            self.write("model", {"name": model.name})
            return
        self._open(os.O_TRUNC)
        if (definition := self._definition) is not None:
            line = start_line(definition, model.name, search_cost(model), tool_limits(model))
            self.write("start", asdict(line))

    def _reopen(self) -> None:
        """Goes on with a file that was closed with its agent, which is entered again."""
        if self._file is not None and self._file.closed:
            self._open(os.O_APPEND)

    def _open(self, how: int) -> None:
        try:
            descriptor = opened_alone(self.path, how)
        except OSError as error:
            shown = safe_line(str(self.path), 120)
            why = error.strerror or str(error)
            fix = "" if ";" in why else "; name a file of your own, in a folder that is there"
            raise ConfigError(f"recording {shown}: cannot be written: {why}{fix}") from None
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")

    # -- what is heard ------------------------------------------------------------------------------------------------

    def hide(self, values: Iterable[str]) -> None:
        """Takes secrets that must not be written."""
        self._values.update(values)

    def _hear(self, event: Event) -> None:
        match event:
            case ToolProgress():
                told = self._progress.setdefault((event.server, event.tool), [])
                told.append(event)
                del told[:-MAX_PROGRESS]
            case RunFinished(pending=pending):
                for call in pending:
                    self.write("call", {"id": call.call_id, "name": call.tool, "pending": call.kind})
            case _:
                pass

    def recorded_tool(self, tool: Tool) -> Tool:
        """The tool with what its calls give written down."""
        definition = tool.definition

        async def run(arguments: dict[str, Any]) -> ToolOutput:
            made = json_copy(arguments)
            output = await tool.run(arguments)
            made_in = active_run()
            call = made_in.context
            progress = self._progress.pop((definition.server or "", definition.original_name), [])
            about = {"id": call.call_id, "name": call.tool_name, "server": definition.server, "arguments": made}
            spent = made_in.of_call.spent if made_in.of_call is not None else Spent()
            inside = {"agents": asdict(spent)} if spent != Spent() else {}
            self.write("call", {**about, **output_document(output, progress), **inside})
            return output

        return replace(tool, run=run)

    # -- what is written ----------------------------------------------------------------------------------------------

    def request(self, request: ModelRequest) -> int:
        """Writes a request, its messages as those it has more than the last one; gives its number.

        Before it, if they are others: the tools that its session can have, and the question that it belongs to.
        """
        run = active_run()
        self._write_listing(run.tools.listing)
        if run.context.run_id != self._run_id and run.answers is None:
            self.write("question", {"text": run.context.prompt})
        self._run_id = run.context.run_id
        self._requests += 1
        same = (one is other or one == other for one, other in zip(self._last, request.messages, strict=False))
        kept = sum(takewhile(bool, same))
        self._last = request.messages
        self.write("request", asdict(request_line(request, self._requests, kept)))
        return self._requests

    def _write_listing(self, listing: Listing) -> None:
        """Writes what the session that asks can have, if the one before could have something else."""
        if listing is self._listing or self.sources is None:
            return
        self._listing = listing
        line = asdict(listing_line(listing, self.sources.statuses))
        digest = hashlib.sha256(json.dumps(line, default=str).encode()).hexdigest()
        if digest == self._current:
            return
        self._current = digest
        if (again := self._listings.get(digest)) is not None:
            self.write("tools", {"again": again})
            return
        self.write("tools" if self._listings else "conversation", line)
        self._listings[digest] = len(self._listings)

    def redact(self, text: str) -> str:
        """The text without secrets, those too that became known since the last line."""
        hidden = known_values() | self._values
        if hidden != self._hidden:
            self._hidden, self._redact = hidden, redactor(hidden)
        return self._redact(text)

    def write(self, kind: str, document: Document) -> None:
        """Writes one line of this type, secrets replaced; a disk that is full ends the recording."""
        if self._file is None or self._file.closed:
            self._tell()
            return
        line = json.dumps({"type": kind, **redacted(document, self.redact)}, default=str)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._ended = f"recording {safe_line(str(self.path), 120)} ends here: {error.strerror or error}"
            logger.warning(self._ended)
            self.close()
            self._tell()

    def _tell(self) -> None:
        """Says once, in the next run if there is none now, that the recording is not whole."""
        run = current_run()
        if self._ended and run is not None:
            text, self._ended = self._ended, ""
            run.emit(Notice(text, "warning"))

    def whole_deltas(self, deltas: Sequence[TextDelta | ThinkingDelta]) -> list[TextDelta | ThinkingDelta]:
        """The pieces as they came; as one if a secret would be cut in two by them."""
        for kind in (TextDelta, ThinkingDelta):
            whole = "".join(delta.text for delta in deltas if isinstance(delta, kind))
            if self.redact(whole) != whole:
                others = [delta for delta in deltas if not isinstance(delta, kind)]
                deltas = [*others, kind(whole)] if kind is TextDelta else [kind(whole), *others]
        return list(deltas)


class _RecordedSources(WrappedSources):
    """The sources, with their tools recorded."""

    def __init__(self, sources: AgentSources, recorder: Recorder) -> None:
        super().__init__(sources, recorder.recorded_tool)
        self.path = recorder.path
        self.secrets: list[str] = []
        self._recorder = recorder

    async def open(self, exits: AsyncExitStack, emit: Emit, on_change: OnChange) -> None:
        """Begins with the servers, and ends with them."""
        exits.callback(self._recorder.close)
        self._recorder.begin(self.inside)
        await self.inside.open(exits, emit, on_change)
        self.secrets = self.inside.secrets
        self._recorder.hide(self.secrets)


class _RecordedModel(WrappedModel):
    """The model, with everything it is sent and says written down."""

    def __init__(self, model: Model, recorder: Recorder) -> None:
        super().__init__(model)
        self._recorder = recorder

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        problem = search_problem(self.inside, strategy, deferred)
        self._recorder.write("provider_search", {"problem": problem})
        return problem

    def is_small(self, settings: ModelSettings) -> bool:
        if small := is_small(self.inside, settings):
            self._recorder.write("model_size", {"small": small})
        return small

    def takes_output(self) -> bool:
        return True

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        if current_run() is None:  # asked outside of every conversation
            return await self.inside.respond(told_form(self.inside, request), emit)
        recorder = self._recorder
        number = recorder.request(request)
        deltas: list[TextDelta | ThinkingDelta] = []

        def listen(event: Event) -> None:
            if isinstance(event, AnswerRestarted):
                deltas.clear()
            elif isinstance(event, TextDelta | ThinkingDelta):
                deltas.append(event)
            emit(event)

        try:
            response = await self.inside.respond(told_form(self.inside, request), listen)
        except (ModelError, CredentialsError) as error:
            recorder.write("response", asdict(failure_line(number, error)))
            raise
        recorder.write("response", asdict(response_line(number, response, recorder.whole_deltas(deltas))))
        return response


def opened_alone(path: Path, how: int) -> int:
    """The file to write into, this user's only; `how` is `O_TRUNC` or `O_APPEND`. Raises `OSError`.

    In a folder that others write into, or that somebody sent, another file could be meant than the one that is named.
    A device or a pipe is as good as a file.
    """
    is_link = path.is_symlink()
    linked = OSError(errno.ELOOP, "is a link; name the file that it leads to, or remove the link")
    if is_link and not path.exists():
        raise linked
    flags = os.O_WRONLY | how & ~os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
    flags |= 0 if is_link else os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    # A pipe that nobody reads is an error then; otherwise it would be waited for.
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
    """Keeps others from reading it, and from writing into it as well, until it is closed. Raises `OSError`."""
    if sys.platform == "win32":
        return
    import fcntl

    if found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user; name another file")
    os.fchmod(descriptor, 0o600)  # it may have been there before
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OSError(errno.EBUSY, "another program is recording into it; name another file") from None
    except OSError:  # a file system without locks
        return
