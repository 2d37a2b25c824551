"""The calls that run right now: what the moving line says of them, and which of them began together."""

from __future__ import annotations

from dataclasses import dataclass, field

from mcpagent.cli.lines import progress_words
from mcpagent.events import ToolCallFinished, ToolCallStarted, ToolProgress
from mcpagent.safe_text import safe_line

SHOWN = 3
"""Running calls that the moving line names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a finished call stands: in a group that `opens` with so many calls, or is_last of one; else alone."""

    in_group: bool = False
    opens: int = 0
    is_last: bool = False


@dataclass(slots=True)
class RunningCalls:
    """Calls are in one group where they were all running when the first of them ended."""

    _labels: dict[str, str] = field(default_factory=dict[str, str])
    _started: dict[str, ToolCallStarted] = field(default_factory=dict[str, ToolCallStarted])
    _group: set[str] = field(default_factory=set[str])

    def start(self, event: ToolCallStarted) -> None:
        self._started[event.call.id] = event
        self._labels[event.call.id] = safe_line(event.call.name, 64)

    def progress(self, event: ToolProgress) -> None:
        """A server reports by its own name for the tool; the offered one ends with it."""
        for call_id, started in self._started.items():
            name = started.call.name
            if started.server == event.server and (name == event.tool or name.endswith(f"_{event.tool}")):
                self._labels[call_id] = progress_words(event)

    def finish(self, event: ToolCallFinished) -> Place:
        call_id = event.call.id
        opens = len(self._started) if not self._group and len(self._started) > 1 and call_id in self._started else 0
        if opens:
            self._group = set(self._started)
        self._started.pop(call_id, None)
        self._labels.pop(call_id, None)
        if call_id not in self._group:
            return Place()
        self._group.discard(call_id)
        return Place(in_group=True, opens=opens, is_last=not self._group)

    @property
    def label(self) -> str:
        """`index: reading (3 of 10), fetch, 2 more`; empty where nothing runs."""
        labels = list(self._labels.values())
        more = f", {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
        return ", ".join(labels[:SHOWN]) + more
