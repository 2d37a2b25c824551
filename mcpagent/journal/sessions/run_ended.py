"""The end of a durable run in its session: the result, or the error that ended the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, TypeAlias

from mcpagent.errors import McpAgentError, OutputProblem, RunCancelledError, error_class
from mcpagent.utilities.python.plain_data import dump_value, load_value
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import LimitReached, RunFinished, StopReason
from mcpagent.values.messages import Spent, Usage

EndState: TypeAlias = Literal["done", "failed", "cancelled"]

MAX_READ = 20_000
"""Maximum number of characters of an error's text that are checked for secrets."""

MAX_ERROR = 500
"""Maximum number of characters of the text of an error that is not mcpagent's."""


@dataclass(frozen=True, slots=True)
class DurableResult:
    """The result of a run; with the stop reason "calls_pending", the calls in `pending` wait for `DurableRuns.answer`.

    `output` is the answer as JSON data, if an `output_type` was requested; None if it does not match, and `problems`
    has the errors. `limit` is the limit that ended the run, None if no limit did.
    """

    answer: str
    stop: StopReason
    spent: Spent
    pending: tuple[PendingCall, ...] = ()
    output: Any = None
    problems: tuple[OutputProblem, ...] = ()
    limit: LimitReached | None = None

    @property
    def usage(self) -> Usage:
        """The tokens of the whole run as reported by the provider, including those of agents that it called as
        tools.
        """
        return self.spent.usage

    @classmethod
    def of(cls, finished: RunFinished, spent: Spent) -> DurableResult:
        """Return the result of a run. `spent` is the usage in all processes that worked on it."""
        about = {
            "output": finished.output,
            "problems": finished.problems,
            "limit": finished.limit,
        }
        return cls(finished.answer, finished.stop, spent, finished.pending, **about)


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The end of the run with this ID: a result or an error, never both."""

    run: str
    result: DurableResult | None = None
    error: McpAgentError | None = None

    @property
    def state(self) -> EndState:
        """The state of the ended run: "done", "cancelled" or "failed"."""
        if self.result is not None:
            return "done"
        if isinstance(self.error, RunCancelledError):
            return "cancelled"
        return "failed"

    @classmethod
    def failed(cls, run: str, error: Exception) -> RunEnded:
        """Return the end of a run that raised an error. One that is not mcpagent's is described in an `McpAgentError`.

        Secrets are replaced before a long text is cut, because half of a secret would not be recognised.
        """
        if isinstance(error, McpAgentError):
            return cls(run, error=error)
        text = without_secrets(f"{type(error).__name__}: {error}"[:MAX_READ])
        return cls(run, error=McpAgentError(safe_line(text, MAX_ERROR)))


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The state of one run in its session. `is_under_way`: a worker has begun it, and it has not ended.

    `is_cancelled`: its owner cancelled it, so it ends before its next step. `updated` is the time of the session's last
    write, in seconds since 1970.
    """

    is_under_way: bool = False
    is_cancelled: bool = False
    ended: RunEnded | None = None
    updated: float = 0.0


def ended_to_json(ended: RunEnded) -> dict[str, Any]:
    """Return the end as plain JSON data."""
    if ended.error is not None:
        return {"error": error_to_json(ended.error)}
    assert ended.result is not None
    result: dict[str, Any] = dump_value(ended.result)
    return result


def ended_from_json(run: str, data: Mapping[str, Any]) -> RunEnded:
    """Return the end that `ended_to_json` returned as `data`."""
    if (error := data.get("error")) is not None:
        return RunEnded(run, error=error_from_json(error))
    return RunEnded(run, load_value(DurableResult, data))


def _plain(value: object) -> object:
    """Return a field of an error if JSON can contain it, else None."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | int | float | NoneType):
        return value
    return None


def error_to_json(error: McpAgentError) -> dict[str, Any]:
    """Return an error as plain JSON data."""
    fields = {name: _plain(value) for name, value in error.__dict__.items()}
    return {"kind": type(error).__name__, "text": str(error), "fields": fields}


def error_from_json(data: Mapping[str, Any]) -> McpAgentError:
    """Return the error that `error_to_json` returned as `data`; for an unknown type, an `McpAgentError`."""
    kind = error_class(str(data["kind"]))
    if not (isinstance(kind, type) and issubclass(kind, McpAgentError)):
        kind = McpAgentError
    error: McpAgentError = kind.__new__(kind)
    error.args = (str(data["text"]),)
    fields = data["fields"].items()
    error.__dict__.update(
        {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields
        }
    )
    return error
