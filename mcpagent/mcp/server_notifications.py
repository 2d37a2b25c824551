"""A server's notifications: as values, and emitted at a rate that users and programs can follow."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.events import (
    Emit,
    Notice,
    ResourceUpdated,
    ServerLogged,
    ToolProgress,
)

MAX_WARNINGS = 50
KEPT_LOG_LINES = 200
LOG_EVENTS_A_SECOND = 20
UPDATE_SECONDS = 0.25
PROGRESS_SECONDS = 0.1
_MAX_UPDATES = 100


@dataclass(frozen=True, slots=True)
class ServerNews:
    """A notification of a server, or an observation about it.

    `text` depends on the kind: the message of a "warning" (mcpagent's own observation) or of a "log" entry, the URI of
    a changed "resource", or the name of a changed "list": "tools", "prompts" or "resources". For "silence", a process
    has written nothing since its start; `text` then describes it with its command. `level` is that of a log message.
    `params` are those of the notification, unchanged.
    """

    kind: Literal["warning", "log", "list", "resource", "silence"]
    text: str
    level: str = ""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)


ReportNews: TypeAlias = Callable[[ServerNews], None]


class NotificationLimiter:
    """Emits each warning once, a limited number of log messages per second, and updates of one resource together.

    `warnings` and `log` have the latest ones, including those that exceeded the limit.
    """

    def __init__(self, server: str, emit: Emit) -> None:
        self._server = server
        self._emit = emit
        self._warnings: dict[str, None] = {}
        self._log: deque[ServerLogged] = deque(maxlen=KEPT_LOG_LINES)
        self._emitted: deque[float] = deque(maxlen=LOG_EVENTS_A_SECOND)
        self._updates: dict[str, asyncio.TimerHandle] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings as printable lines that name the server, in order of arrival."""
        return tuple(self._warnings)

    @property
    def log(self) -> tuple[ServerLogged, ...]:
        """The last `KEPT_LOG_LINES` log messages of the server."""
        return tuple(self._log)

    def report(self, news: ServerNews) -> None:
        """Process a notification. Changes of the server's lists emit nothing."""
        if news.kind == "warning":
            self.warn(news.text)
        elif (
            news.kind == "silence"
        ):  # unlike a warning, it is only true at this moment, so it is not stored
            self._emit(Notice(f'server "{self._server}": {news.text}', "warning"))
        elif news.kind == "log":
            self._add_to_log(ServerLogged(self._server, news.level, news.text))
        elif (
            news.kind == "resource"
            and news.text not in self._updates
            and len(self._updates) < _MAX_UPDATES
        ):
            loop = asyncio.get_running_loop()
            self._updates[news.text] = loop.call_later(
                UPDATE_SECONDS, self._emit_update, news.text
            )

    def warn(self, text: str) -> None:
        """Emit a warning about the server, unless it was emitted before, or there were too many."""
        line = f'server "{self._server}": {safe_line(text, 300)}'
        if line not in self._warnings and len(self._warnings) < MAX_WARNINGS:
            self._warnings[line] = None
            self._emit(Notice(line, "warning"))

    def progress_of(self, tool: str) -> Callable[[float, float | None, str], None]:
        """Return a function that emits the progress of one call, redacted and at a limited rate."""
        emitted = 0.0

        def report(progress: float, total: float | None, message: str) -> None:
            nonlocal emitted
            if (now := time.monotonic()) - emitted >= PROGRESS_SECONDS:
                emitted = now
                self._emit(
                    ToolProgress(
                        self._server,
                        tool,
                        progress,
                        total,
                        safe_line(without_secrets(message)),
                    )
                )

        return report

    def close(self) -> None:
        """Discard pending events."""
        for timer in self._updates.values():
            timer.cancel()
        self._updates.clear()

    def _add_to_log(self, event: ServerLogged) -> None:
        self._log.append(event)
        now = time.monotonic()
        if len(self._emitted) < LOG_EVENTS_A_SECOND or now - self._emitted[0] >= 1.0:
            self._emitted.append(now)
            self._emit(event)

    def _emit_update(self, uri: str) -> None:
        self._updates.pop(uri, None)
        self._emit(ResourceUpdated(self._server, uri))
