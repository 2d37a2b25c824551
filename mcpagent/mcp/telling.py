"""What one server says unasked, passed on at a pace that people and programs can take."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from mcpagent.events import Emit, Notice, ResourceUpdated, ServerLogged
from mcpagent.safe_text import safe_line

MAX_WARNINGS = 50
KEPT_LOG_LINES = 200
LOG_EVENTS_A_SECOND = 20
UPDATE_SECONDS = 0.25
_MAX_UPDATES = 100


class Telling:
    """A connection's `Listener`: warnings once, log messages so many a second, updates of a resource together."""

    def __init__(self, server: str, emit: Emit, on_list_changed: Callable[[str], None]) -> None:
        self._server = server
        self._emit = emit
        self._on_list_changed = on_list_changed
        self._warnings: dict[str, None] = {}
        self._log: deque[ServerLogged] = deque(maxlen=KEPT_LOG_LINES)
        self._told: deque[float] = deque(maxlen=LOG_EVENTS_A_SECOND)
        self._updates: dict[str, asyncio.TimerHandle] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    @property
    def log(self) -> tuple[ServerLogged, ...]:
        """The last messages, also those that were too many to be told."""
        return tuple(self._log)

    def warn(self, text: str) -> None:
        line = f'server "{self._server}": {safe_line(text, 300)}'
        if line in self._warnings or len(self._warnings) >= MAX_WARNINGS:
            return
        self._warnings[line] = None
        self._emit(Notice(line, "warning"))

    def list_changed(self, what: str) -> None:
        self._on_list_changed(what)

    def logged(self, level: str, text: str) -> None:
        event = ServerLogged(self._server, level, text)
        self._log.append(event)
        now = time.monotonic()
        if len(self._told) < LOG_EVENTS_A_SECOND or now - self._told[0] >= 1.0:
            self._told.append(now)
            self._emit(event)

    def resource_updated(self, uri: str) -> None:
        if uri in self._updates or len(self._updates) >= _MAX_UPDATES:
            return
        self._updates[uri] = asyncio.get_running_loop().call_later(UPDATE_SECONDS, self._tell_update, uri)

    def close(self) -> None:
        """Drops what was still to be told."""
        for timer in self._updates.values():
            timer.cancel()
        self._updates.clear()

    def _tell_update(self, uri: str) -> None:
        self._updates.pop(uri, None)
        self._emit(ResourceUpdated(self._server, uri))
