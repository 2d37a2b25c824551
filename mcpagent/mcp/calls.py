"""Requests to one server, and what to tell a model of how they end: a result, or an error it can do something with."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.events import Emit, ToolProgress
from mcpagent.mcp.beside_loop import beside_loop, is_large
from mcpagent.mcp.failures import (
    CallTimeoutError,
    InvalidAnswerError,
    Limits,
    LostError,
    RefusedError,
    TaskError,
)
from mcpagent.mcp.known_lists import KnownLists, matches
from mcpagent.mcp.reconnecting import Reconnecting
from mcpagent.mcp.redaction import Redactor
from mcpagent.mcp.refreshing import Refreshing
from mcpagent.messages import Text
from mcpagent.safe_text import safe_line, safe_text
from mcpagent.tools import ToolOutput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import mcp_types as types

    from mcpagent.mcp.connection import McpConnection, Progress

_HEADER_MISMATCH = -32020

PROGRESS_SECONDS = 0.1
LONG_CALL_SECONDS = 10.0
"""A tool whose calls take longer is called as a task from then on, where its server lets us choose."""

_USUAL_TOTAL_SECONDS = ServerConfig("").total_timeout_seconds


class Calls:
    """Sends requests over the connection that there is, or a new one; `reread` reads the lists over it."""

    def __init__(
        self,
        config: ServerConfig,
        line: Reconnecting,
        lists: KnownLists,
        refreshing: Refreshing,
        *,
        emit: Emit,
        reread: Callable[[McpConnection], Awaitable[None]],
    ) -> None:
        self._config = config
        self._line = line
        self._lists = lists
        self._refreshing = refreshing
        self._emit = emit
        self._reread = reread
        self._redact = Redactor(config)
        self._long: set[str] = set()

    @property
    def limits(self) -> Limits:
        return Limits(self._config.timeout_seconds, self._config.total_timeout_seconds)

    @property
    def outer_seconds(self) -> float | None:
        """Where a call may take longer here than anywhere else, the agent's own limit must let it."""
        longer = self._config.total_timeout_seconds > _USUAL_TOTAL_SECONDS
        return self._config.total_timeout_seconds + self._config.shutdown_seconds if longer else None

    async def call(self, tool: str, arguments: dict[str, Any]) -> ToolOutput:
        """Calls a tool by the server's own name for it."""
        import mcp_types as types

        from mcpagent.mcp.content import output_of_call

        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        started = time.monotonic()
        result = await self.outcome(
            types.CallToolRequest(params=params),
            tool,
            is_repeatable=self._is_safe_to_repeat(tool),
            may_be_task=self._may_be_task(tool),
        )
        if time.monotonic() - started > LONG_CALL_SECONDS:
            self._long.add(tool)
        return await self.shown(output_of_call, result) if isinstance(result, dict) else result

    async def outcome(
        self, request: types.Request[Any, Any], target: str, *, is_repeatable: bool, may_be_task: bool = False
    ) -> dict[str, Any] | ToolOutput:
        """The raw result, or an output that says what went wrong.

        A request is sent a second time only where it is known not to have run, or does no harm when it runs twice.
        """
        for attempt in (1, 2):
            try:
                connection = await self._line.get()
                result = await connection.request(
                    request,
                    target=target,
                    limits=self.limits,
                    on_progress=self._teller(target),
                    may_be_task=may_be_task,
                )
                await self._refreshing.settled()
                return result
            except RefusedError as error:
                self._lists.forget()
                if error.code == _HEADER_MISMATCH and attempt == 1:
                    # Refused unseen: a parameter's header is not what the server has come to want (2026-07-28).
                    await self._reread(connection)
                    continue
                self._refreshing.soon()
                return ToolOutput.of_text(safe_text(error.message) or f"error {error.code}", error="failed")
            except CallTimeoutError as error:
                return ToolOutput.of_text(str(error), error="timeout")
            except LostError as error:
                self._lists.forget()
                if error.session_lost:
                    await self._line.drop(connection)
                may_repeat = error.outcome == "not_sent" or error.session_lost or is_repeatable
                if attempt == 2 or not may_repeat:
                    return ToolOutput.of_text(f"{error}{_may_have_run(error)}", error="server_down")
            except (InvalidAnswerError, TaskError) as error:
                return ToolOutput.of_text(str(error), error="failed")
            except ServerError as error:
                return ToolOutput.of_text(str(error), error="server_down")
        raise AssertionError("unreachable")

    async def shown(self, output_of: Callable[[dict[str, Any]], ToolOutput], result: dict[str, Any]) -> ToolOutput:
        """A result as output, without the secrets of this server's configuration, which it may give back."""
        return await beside_loop(lambda: self._without_secrets(output_of(result)), is_much=is_large(result))

    def _without_secrets(self, output: ToolOutput) -> ToolOutput:
        clean = {part.text: self._redact.result(part.text) for part in output.content if isinstance(part, Text)}
        if all(text == shown for text, shown in clean.items()):
            return output
        parts = (replace(part, text=clean[part.text]) if isinstance(part, Text) else part for part in output.content)
        return replace(output, content=tuple(parts))

    def _is_safe_to_repeat(self, tool: str) -> bool:
        """By the user's own mark; by the server's word only where the user trusts it."""
        by_hint = self._config.trust_hints and tool in self._lists.current.safe_by_hint
        return by_hint or matches(tool, self._config.safe_to_repeat)

    def _may_be_task(self, tool: str) -> bool:
        """A tool that may run as a task or not does so where its calls take long."""
        if tool in self._lists.current.task_only:
            return True
        is_long = tool in self._long or self.outer_seconds is not None
        return is_long and tool in self._lists.current.task_able

    def _teller(self, tool: str) -> Progress:
        """Tells the progress of one call, not faster than a person reads."""
        told = 0.0

        def tell(progress: float, total: float | None, message: str) -> None:
            nonlocal told
            if (now := time.monotonic()) - told >= PROGRESS_SECONDS:
                told = now
                text = self._redact(safe_line(message))
                self._emit(ToolProgress(self._config.name, tool, progress, total, text))

        return tell


def _may_have_run(error: LostError) -> str:
    return "" if error.outcome != "unknown" else "; the call may have run: check before you repeat it"
