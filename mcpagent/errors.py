"""Every exception that mcpagent raises on purpose.

    McpAgentError
     +- ConfigError          a configuration mistake that its author can fix: place, problem, fix
     |   +- CredentialsError a key is missing or was refused
     |   +- CardError        an agent card is unusable (agents/cards/card.py)
     +- InputError           a prompt or an argument is unusable
     +- AgentStateError      the agent is not started, already closed, or used twice at once
     |   +- RunCancelledError a durable run was cancelled
     +- ModelError           the provider failed: provider, status, whether a retry helps
     |   +- ContextOverflowError  the conversation no longer fits into the model's context
     +- ServerError          an MCP server failed: server, phase, cause
     +- LimitError           a limit that the user set was reached
     +- OutputError          an answer does not match `output_type`, field by field
     +- CallsPendingError    a run ended because tool calls wait for an answer (approval.py)
     +- SessionStoreError    a session cannot be stored: full disk, damaged file, unreachable database
     |   +- SessionBusyError another process uses the session, or an unfinished durable run
     +- DocumentStoreError   documents cannot be read or written: full disk, damaged file, closed store
     +- DocumentReadError    a file or page cannot be read as a document: its address, the reason

Errors that a *model* should read and react to are never raised: these are `ToolResult`s with an error kind. Each
message is one line: the place, the problem, the fix.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class McpAgentError(Exception):
    """Base class of all errors that mcpagent raises on purpose; the text is one line for the user."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Some errors are created with keyword arguments, which pickle would omit.
        return _made_again, (type(self), self.args, self.__dict__)


def _shown(name: str) -> str:
    """Return an ID for the text of an error: printable, at most 60 characters."""
    if name.isprintable() and len(name) <= 60:
        return name
    return f"{name[:60]!r}"


def _made_again(
    kind: type[McpAgentError], args: tuple[object, ...], fields: dict[str, Any]
) -> McpAgentError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class ConfigError(McpAgentError):
    """A file, key or argument is wrong; the text names the place and the fix."""


class CredentialsError(ConfigError):
    """The key of a provider is missing or unusable, or the provider refused it."""


class InputError(McpAgentError):
    """A prompt or argument is unusable (empty, too large, unknown name)."""


class AgentStateError(McpAgentError):
    """The agent was used before it was started, after it was closed, or twice at once."""


class RunCancelledError(AgentStateError):
    """A durable run was cancelled. The results that it had so far are in its session."""

    def __init__(self, run: str) -> None:
        super().__init__(f'run "{_shown(run)}" was cancelled')


class LimitError(McpAgentError):
    """A limit (`Limits`) was reached before the requested result existed.

    `stop` is the name of the limit (`events.StopReason`); `answer` is the text so far, or "".
    """

    def __init__(self, message: str, *, stop: str = "", answer: str = "") -> None:
        super().__init__(message)
        self.stop = stop
        self.answer = answer


class OutputProblem(NamedTuple):
    """A mismatch in an answer: `path` is its position, such as `items.0.price` ("" for the whole answer), and `text`
    describes it.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path or 'the answer'}: {self.text}"


class OutputError(McpAgentError):
    """An answer does not match `output_type`, even after a second request, or there is no answer.

    `problems` are the mismatches by field; () if the run ended without an answer. `stop` is the reason for the end
    (`events.StopReason`). `answer` is the unchanged text.
    """

    def __init__(
        self,
        message: str,
        *,
        problems: tuple[OutputProblem, ...] = (),
        answer: str = "",
        stop: str = "misfit",
    ) -> None:
        super().__init__(message)
        self.problems = problems
        self.answer = answer
        self.stop = stop


class SessionStoreError(McpAgentError):
    """A session cannot be read or written; the text names the file or database, and the fix.

    Earlier acknowledged writes are safe, and the session can continue in memory: `Session.stop_keeping`.
    """


class SessionBusyError(SessionStoreError):
    """The session is in use. `session` is its ID, `holder` the process that uses it: `pid`, `host`, `since`.

    With `run`, that durable run uses the session until it ends; a worker answers it.
    """

    def __init__(self, session: str, holder: Any = None, run: str = "") -> None:
        text = f"is held by {holder}; end that one, or go on in a copy: mcpagent sessions fork"
        if run:
            text = f'belongs to durable run "{_shown(run)}"; wait for its end, or end it: mcpagent runs cancel'
        super().__init__(f'session "{_shown(session)}" {text}')
        self.session, self.holder, self.run = session, holder, run

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.session, self.holder, self.run)


class DocumentStoreError(McpAgentError):
    """A store of documents cannot be read or written; the text names the file or table, and the fix."""


class DocumentReadError(McpAgentError):
    """A file or page cannot be read as a document; the text names it, and the fix.

    `reason` is one of `too-large`, `unpacks-too-large`, `too-deep`, `too-slow`, `too-much-memory`, `locked`, `damaged`,
    `no-text`, `unknown-kind`, `not-installed` and `unreachable`.
    """

    def __init__(self, where: str, problem: str, *, reason: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.reason = reason


class ModelError(McpAgentError):
    """A model provider failed.

    `status` is the HTTP status, None without a response. `retryable`: the same request may succeed later; the adapter's
    own retries are used up. `retry_after_seconds` is the wait that the provider requested. `code` is the provider's
    name of the error, `request_id` its ID of the request, which its support asks for.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str,
        status: int | None = None,
        retryable: bool = False,
        retry_after_seconds: float | None = None,
        code: str = "",
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retryable = retryable
        self.retry_after_seconds = retry_after_seconds
        self.code = code
        self.request_id = request_id


class ContextOverflowError(ModelError):
    """The conversation exceeds the model's context window: the same request fails again until the conversation is
    shortened.
    """


class ServerError(McpAgentError):
    """An MCP server failed in one phase.

    `phase` is "config", "start", "connect", "tools/list", "tools/call" or another MCP method. `exit_code` is that of
    the server's process (negative: the signal that ended it). `stderr_tail` contains its last lines of output, made
    printable.
    """

    def __init__(
        self,
        message: str,
        *,
        server: str,
        phase: str,
        exit_code: int | None = None,
        stderr_tail: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.server = server
        self.phase = phase
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail


def error_class(name: str) -> Any:
    """Return the class of this name in this module, or None."""
    return globals().get(name)
