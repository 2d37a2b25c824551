"""Writing down what an agent does, line by line, so that a run that is killed leaves a file that can be read."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TextIO

from mcpagent.errors import ConfigError, CredentialsError, ModelError
from mcpagent.events import Emit, Event, TextDelta, ThinkingDelta, ToolProgress
from mcpagent.known_secrets import known_values
from mcpagent.messages import Message, ToolCall, ToolDefinition
from mcpagent.models.base import Model, ModelRequest, ModelResponse, search_cost, search_problem
from mcpagent.pending import PendingCall
from mcpagent.recording.documents import (
    Document,
    change_document,
    error_document,
    message_documents,
    opening_document,
    output_document,
    request_document,
    response_document,
    setting_document,
)
from mcpagent.recording.tape import SCHEMA, Change, Opening, Outcome, Setting, Tape
from mcpagent.safe_text import safe_line
from mcpagent.secret_shapes import Redact, redacted, redactor, secrets_in, without_shapes
from mcpagent.tools import Tool

logger = logging.getLogger("mcpagent")

MAX_PROGRESS = 100
"""Progress notifications kept of one call; the last ones."""


class Recorder(Tape):
    """`Agent(recording=Recorder("run.jsonl"))`: writes what its model was sent and said, and what its tools gave.

    The file is new, and readable by its user only. Secrets are replaced: values of environment variables whose names
    say so, those of the servers' configurations, `secrets`, and whatever looks like a key. A disk that is full ends the
    recording, not the run: it is logged. Raises `ConfigError` for a file that cannot be written, when the agent starts.
    """

    def __init__(self, path: str | Path, *, secrets: Iterable[str] = ()) -> None:
        self.path = Path(path)
        self._file: TextIO | None = None
        self._values = {*secrets_in(os.environ), *secrets}
        self._hidden = frozenset[str]()
        self._redact: Redact = without_shapes
        self._setting: Document = {}
        self._requests = 0
        self._last: tuple[Message, ...] = ()
        self._progress: dict[tuple[str, str], list[ToolProgress]] = {}

    def close(self) -> None:
        """Ends the recording, as closing the agent does; a second call does nothing."""
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            logger.warning("recording %s is not complete: %s", self.path, error)

    # -- what is heard ------------------------------------------------------------------------------------------------

    def hide(self, values: Iterable[str]) -> None:
        self._values.update(values)

    def setting(self, live: Setting) -> Setting:
        self._setting = setting_document(live)
        return live

    def model(self, live: Callable[[], Model]) -> Model:
        return _RecordedModel(live(), self)

    def start(self, model: Model) -> None:
        from mcpagent import __version__

        """Begins the file. Raises `ConfigError` where it cannot be written."""
        if self._file is not None:
            self.write("model", {"name": model.name})
            return
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o600)
            self._file = os.fdopen(descriptor, "w", encoding="utf-8")
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                self.path.chmod(0o600)  # it may have been there before
        except OSError as error:
            shown = safe_line(str(self.path), 120)
            raise ConfigError(f"recording {shown}: cannot be written: {error.strerror or error}") from None
        about = {"model": model.name, "search_cost": search_cost(model)}
        self.write("start", {"schema": SCHEMA, "mcpagent": __version__, **about, **self._setting})

    def opening(self, live: Opening) -> Opening:
        self._last = ()
        self.write("conversation", opening_document(live))
        return live

    def asked(self, question: str) -> None:
        self.write("question", {"text": question})

    def changed(self, change: Change) -> None:
        self.write("tools", change_document(change))

    def heard(self, event: Event) -> None:
        if isinstance(event, ToolProgress):
            told = self._progress.setdefault((event.server, event.tool), [])
            told.append(event)
            del told[:-MAX_PROGRESS]

    async def outcome(self, call: ToolCall, tool: Tool, live: Callable[[], Awaitable[Outcome]]) -> Outcome:
        outcome = await live()
        definition = tool.definition
        progress = self._progress.pop((definition.server or "", definition.original_name), [])
        document: Document = {"id": call.id, "name": call.name, "server": definition.server}
        if isinstance(outcome, PendingCall):
            document["pending"] = outcome.kind
        else:
            document |= {"arguments": call.arguments, **output_document(outcome, progress)}
        self.write("call", document)
        return outcome

    # -- what is written ----------------------------------------------------------------------------------------------

    def request(self, request: ModelRequest) -> int:
        """Writes a request, its messages as those it has more than the last one; gives its number."""
        self._requests += 1
        document = request_document(request)
        kept = _common(self._last, request.messages)
        document |= {"number": self._requests, "kept": kept, "messages": message_documents(request.messages[kept:])}
        self._last = request.messages
        self.write("request", document)
        return self._requests

    def redact(self, text: str) -> str:
        """The text without secrets, those too that became known since the last line."""
        hidden = known_values() | self._values
        if hidden != self._hidden:
            self._hidden, self._redact = hidden, redactor(hidden)
        return self._redact(text)

    def write(self, kind: str, document: Document) -> None:
        if self._file is None or self._file.closed:
            return
        line = json.dumps({"type": kind, **redacted(document, self.redact)}, default=str)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            logger.warning("recording %s ends here: %s", self.path, error)
            self.close()

    def whole_deltas(self, deltas: Sequence[TextDelta | ThinkingDelta]) -> list[TextDelta | ThinkingDelta]:
        """The pieces as they came; as one where a secret would be cut in two by them."""
        for kind in (TextDelta, ThinkingDelta):
            whole = "".join(delta.text for delta in deltas if isinstance(delta, kind))
            if self.redact(whole) != whole:
                others = [delta for delta in deltas if not isinstance(delta, kind)]
                deltas = [*others, kind(whole)] if kind is TextDelta else [kind(whole), *others]
        return list(deltas)


class _RecordedModel:
    """The model, with everything it is sent and says written down."""

    def __init__(self, model: Model, recorder: Recorder) -> None:
        self._model = model
        self.unrecorded = model
        self._recorder = recorder
        recorder.start(model)

    @property
    def name(self) -> str:
        return self._model.name

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        problem = search_problem(self._model, strategy, deferred)
        self._recorder.write("provider_search", {"problem": problem})
        return problem

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        recorder = self._recorder
        number = recorder.request(request)
        deltas: list[TextDelta | ThinkingDelta] = []

        def listen(event: Event) -> None:
            if isinstance(event, TextDelta | ThinkingDelta):
                deltas.append(event)
            emit(event)

        try:
            response = await self._model.respond(request, listen)
        except (ModelError, CredentialsError) as error:
            recorder.write("response", {"number": number, "error": error_document(error)})
            raise
        document = response_document(response, recorder.whole_deltas(deltas))
        recorder.write("response", {"number": number, **document})
        return response

    async def aclose(self) -> None:
        await self._model.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _common(before: Sequence[Message], now: Sequence[Message]) -> int:
    """How many messages stand at the beginning of both."""
    count = 0
    for one, other in zip(before, now, strict=False):
        if one is not other and one != other:
            break
        count += 1
    return count
