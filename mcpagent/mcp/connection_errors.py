"""Describe a failed connection as one error: server, phase, cause, exit code, last output, and the fix."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION

from mcpagent.errors import ServerError
from mcpagent.mcp.outcomes import Outcome
from mcpagent.mcp.request_failures import (
    InvalidAnswerError,
    ProtocolVersionError,
    RefusedError,
    RequestLimits,
    RequestLostError,
    failure_of,
)
from mcpagent.mcp.transports.bytes_to_messages import INVALID_ANSWER
from mcpagent.mcp.transports.stdio import ProcessEnd, StdioTransport
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_random_secrets, without_secrets

_CLOSED_TEXTS = ("Connection closed", "SSE stream")
"""The SDK's texts for its own closing error; servers use the same error code for other errors."""

_UNREADABLE_TEXTS = ("Failed to parse", "Unexpected content type")
"""Beginnings of the SDK's texts for a response that it cannot read, which continue with a validator's report."""

_LONGEST_MESSAGE = 20_000
_KEPT_WORDS = 10

# Most programs write the reason last. npm and Node.js add further lines: the path of a log, newer versions, the stack.
_CHATTER = re.compile(
    r"npm (?:notice|warn|WARN)\b|npm (?:error|ERR!) (?:A complete log of this run|$)|npm (?:error|ERR!)$"
)
_NPM = re.compile(
    r"npm (?:error|ERR!) (?:\d{3} )?(?P<words>(?!code |errno |syscall |path |command |\d{3}$).+)"
)
_NODE_ERROR = re.compile(r"(?:Uncaught )?[A-Za-z]{0,40}(?:Error|Exception)\b")


class Explainer:
    """Converts exceptions of the SDK to mcpagent's errors; `stdio` is the connection's process, None for a remote
    server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self.stdio: StdioTransport | None = None
        self.last_junk = ""

    @property
    def end(self) -> ProcessEnd | None:
        """The end of the process; None if it is running or was never started."""
        if self.stdio is None:
            return None
        return self.stdio.died

    @property
    def last_words(self) -> tuple[str, ...]:
        """The last informative lines of the process's standard error."""
        if self.stdio is None:
            return ()
        return telling_lines(self.stdio.stderr_lines(40))[-_KEPT_WORDS:]

    @property
    def heard(self) -> str:
        """The invalid text that the server wrote, as the end of a message, or ""."""
        if not self.last_junk:
            return ""
        return f"; it wrote: {safe_line(without_secrets(self.last_junk), 80)}"

    @property
    def end_reason(self) -> str:
        """The reason why the connection ended."""
        return str(self.end or self._flood or "closed the connection") + after_colon(
            self.last_words
        )

    @property
    def _flood(self) -> str:
        if self.stdio is None:
            return ""
        return without_secrets(self.stdio.flood)

    def explained(
        self,
        error: BaseException,
        phase: str,
        outcome: Outcome,
        *,
        is_open: bool,
        is_usable: bool,
    ) -> Exception:
        """Return the exception as one of mcpagent's errors.

        `outcome` is that of the request, if the connection ended. `is_open`: the handshake was completed. `is_usable`:
        the connection has not ended since.
        """
        error = root_cause(error)
        if isinstance(error, ServerError | RefusedError):
            return error
        if not isinstance(error, MCPError):
            if self.end is not None or isinstance(error, asyncio.CancelledError):
                return self.lost(phase, outcome)
            return self.error(
                f"failed during {phase}: {safe_line(str(error) or type(error).__name__)}",
                phase,
            )
        if error.code == CONNECTION_CLOSED and (
            not is_usable or error.message.startswith(_CLOSED_TEXTS)
        ):
            return self.lost(phase, outcome)
        if (failure := failure_of(error.error)) is not None:
            return self._failed_request(error.message, failure, phase)
        message = safe_line(without_secrets(error.message[:_LONGEST_MESSAGE]), 500)
        if error.message.startswith(_UNREADABLE_TEXTS):
            message = error.message.partition(":")[0]
        if error.code == INVALID_ANSWER or error.message.startswith(_UNREADABLE_TEXTS):
            what = (
                f'server "{self._server}" sent an invalid answer to {phase}: {message}'
            )
            return InvalidAnswerError(what, server=self._server, phase=phase)
        if not is_open:
            kind = (
                ProtocolVersionError
                if error.code == UNSUPPORTED_PROTOCOL_VERSION
                else ServerError
            )
            what = f'server "{self._server}" refused {phase}: {message or f"error {error.code}"}'
            return kind(what, server=self._server, phase=phase)
        return RefusedError(
            error.code,
            without_random_secrets(error.message[:_LONGEST_MESSAGE]),
            error.error.data,
        )

    def lost(self, phase: str, outcome: Outcome) -> RequestLostError:
        """Return an error about the end of the connection; for a process, with its exit code and last output."""
        end, tail = self.end, self.last_words
        what = str(end or self._flood or "closed the connection")
        error = RequestLostError(
            f'server "{self._server}" {what} during {phase}{after_colon(tail)}',
            server=self._server,
            phase=phase,
            exit_code=None if end is None else end.code,
            stderr_tail=tail,
        )
        error.outcome = outcome
        return error

    def error(self, what: str, phase: str, tail: tuple[str, ...] = ()) -> ServerError:
        """Return a redacted error of this server. `what` completes the sentence, `tail` is its last output."""
        text = without_secrets(f'server "{self._server}" {what}')
        return ServerError(text, server=self._server, phase=phase, stderr_tail=tail)

    def timeout_text(
        self, phase: str, limits: RequestLimits, *, was_total: bool, was_silent: bool
    ) -> str:
        """Return the message of a timeout: `was_total` for the total limit, `was_silent` if no message at all
        arrived.
        """
        if was_total:
            what, key = (
                f"did not finish {phase} within {limits.total:g} s",
                "total_timeout_seconds",
            )
        elif was_silent:
            what, key = (
                f"was silent for {limits.idle:g} s during {phase}",
                "timeout_seconds",
            )
        else:
            what = f"sent other things and nothing of an answer for {limits.idle:g} s during {phase}"
            key = "timeout_seconds"
        return f'server "{self._server}" {what}{self.heard}; the call may have run; raise "{key}" if it needs longer'

    def _failed_request(
        self, text: str, failure: Mapping[str, Any], phase: str
    ) -> RequestLostError:
        if self.end is not None:
            lost = self.lost(phase, failure["outcome"])
        else:
            what = f'server "{self._server}" {safe_line(without_secrets(text), 400)} during {phase}'
            lost = RequestLostError(what, server=self._server, phase=phase)
            lost.outcome = failure["outcome"]
        lost.remedy = failure.get("remedy", "")
        lost.http_status = failure.get("status")
        return lost


def is_end_of_session(error: BaseException) -> bool:
    """Return whether the SDK reports the end of the session, which it does before the transport; its text is longer for
    a broken stream.
    """
    return (
        isinstance(error, MCPError)
        and error.code == CONNECTION_CLOSED
        and error.message == _CLOSED_TEXTS[0]
    )


def after_colon(tail: tuple[str, ...]) -> str:
    """Return the most informative of the last lines after a colon, to append to an error; "" without lines."""
    if tail:
        return f": {telling_line(tail)}"
    return ""


def root_cause(error: BaseException) -> BaseException:
    """Return the most informative exception in a group: mcpagent's own, else the SDK's, else the first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [root_cause(part) for part in error.exceptions]
    for kind in (ServerError, MCPError, Exception):
        for cause in causes:
            if isinstance(cause, kind):
                return cause
    return causes[0]


def telling_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the informative lines about the failure; all lines if none is."""
    return tuple(line for line in lines if not _CHATTER.match(line)) or tuple(lines)


def telling_line(lines: Sequence[str]) -> str:
    """Return the most informative line; "" without lines."""
    if not lines:
        return ""
    if (
        found := next((match for line in lines if (match := _NPM.match(line))), None)
    ) is not None:
        return found["words"]
    with_words = [line for line in lines if re.search(r"[^\W\d_]", line)] or lines
    is_dump = with_words is not lines and with_words[-1] != lines[-1]
    if is_dump or lines[-1].startswith("Node.js v"):
        errors = [line for line in with_words if _NODE_ERROR.search(line)]
        return (errors or with_words)[-1]
    return lines[-1]
