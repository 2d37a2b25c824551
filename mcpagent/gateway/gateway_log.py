"""The log of a gateway: one JSON line per call, search and client, for `status`, `logs` and metrics."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import make_private
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.secrets import without_secrets

MOST_BYTES = 4_000_000
"""Maximum size of the log; a larger log becomes `calls.old.jsonl`, replacing the previous one."""
_MOST_SAMPLES = 1_000
NEXT_CALL_SECONDS = 300.0
"""A call within this time after a search that found nothing may show which tool was meant."""


def log_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the log of the user's gateways."""
    return state_folder(environ) / "gateway"


@dataclass(frozen=True, slots=True)
class GatewayEvent:
    """An event of a gateway. A "list" event has the estimated tokens of all definitions, and of those listed for the
    client.
    """

    kind: Literal["call", "search", "list", "start", "end"]
    client: str = ""
    tool: str = ""
    query: str = ""
    outcome: str = ""
    seconds: float = 0.0
    known_tokens: int = 0
    listed_tokens: int = 0
    pid: int = field(default_factory=os.getpid)
    time: float = field(default_factory=time.time)


class GatewayLog:
    """The log file of the user's gateways in `folder` (None: no file), and the counts of this gateway."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / "calls.jsonl"
        self._handle: int | None = None
        self.counts = Counts()

    def add(self, event: GatewayEvent) -> None:
        """Count an event and append it to the log; a failed write does not stop the gateway."""
        self.counts.add(event)
        if self._path is None:
            return
        values = {name: getattr(event, name) for name in GatewayEvent.__slots__}
        line = without_secrets(json.dumps(values, ensure_ascii=False))
        with contextlib.suppress(OSError):
            handle = self._opened(self._path)
            os.write(handle, f"{line}\n".encode(errors="surrogateescape"))

    def _opened(self, path: Path) -> int:
        """Return the open file; another one if it is too long, or if it was deleted."""
        if self._handle is not None:
            found = os.fstat(self._handle)
            if found.st_nlink and found.st_size <= MOST_BYTES:
                return self._handle
        self.close()
        make_private(path.parent)
        if path.exists() and path.stat().st_size > MOST_BYTES:
            path.replace(path.with_suffix(".old.jsonl"))
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._handle

    def close(self) -> None:
        """Close the file; the next event opens it again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_events(folder: Path) -> Iterator[GatewayEvent]:
    """Yield the events of the user's log, oldest first; unreadable lines are skipped."""
    for name in ("calls.old.jsonl", "calls.jsonl"):
        try:
            lines = read_own(folder / name).splitlines()
        except OSError:
            continue
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                yield GatewayEvent(**json.loads(line))


@dataclass(frozen=True, slots=True)
class FailedSearch:
    """A query that found nothing, how often, and the tool that its clients called next most often, or ""."""

    query: str
    times: int
    called: str = ""


def failed_searches(
    events: Iterable[GatewayEvent], most: int = 10
) -> list[FailedSearch]:
    """Return the most frequent queries that found nothing, with the tools that were called soon after."""
    times: Counter[str] = Counter()
    called: dict[str, Counter[str]] = defaultdict(Counter)
    waiting: dict[tuple[int, str], list[GatewayEvent]] = defaultdict(list)
    for event in events:
        sender = event.pid, event.client
        if event.kind == "search" and event.outcome == "nothing":
            times[event.query] += 1
            waiting[sender].append(event)
        elif event.kind == "call" and event.outcome == "answered":
            for search in waiting.pop(sender, ()):
                if event.time - search.time <= NEXT_CALL_SECONDS:
                    called[search.query][event.tool] += 1
    found = []
    for query, number in times.most_common(most):
        [(tool, _)] = called[query].most_common(1) or [("", 0)]
        found.append(FailedSearch(query, number, tool))
    return found


class Counts:
    """The totals of a gateway's events."""

    def __init__(self, events: Iterable[GatewayEvent] = ()) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.seconds: dict[str, deque[float]] = {}
        self.searches: Counter[str] = Counter()
        self.failed_searches: Counter[str] = Counter()
        self.saved: dict[str, int] = {}
        self.running: set[int] = set()
        for event in events:
            self.add(event)

    def add(self, event: GatewayEvent) -> None:
        """Count one event."""
        match event.kind:
            case "call":
                self.calls[event.tool, event.outcome] += 1
                samples = self.seconds.setdefault(
                    event.tool, deque(maxlen=_MOST_SAMPLES)
                )
                samples.append(event.seconds)
            case "search":
                self.searches[event.client] += 1
                if event.outcome == "nothing":
                    self.failed_searches[event.query] += 1
            case "list":
                saved = event.known_tokens - event.listed_tokens
                self.saved[event.client] = self.saved.get(event.client, 0) + saved
            case "start":
                self.running.add(event.pid)
            case "end":
                self.running.discard(event.pid)

    def slowest(self, most: int = 5) -> list[tuple[str, float, int]]:
        """Return the tools with the highest median duration of calls: name, median seconds, number of calls."""
        rows = [
            (tool, sorted(samples)[len(samples) // 2], len(samples))
            for tool, samples in self.seconds.items()
        ]
        return sorted(rows, key=lambda row: row[1], reverse=True)[:most]

    def document(self) -> dict[str, Any]:
        """Return the totals as JSON."""
        calls = [
            {"tool": tool, "outcome": outcome, "calls": number}
            for (tool, outcome), number in sorted(self.calls.items())
        ]
        slowest = [
            {"tool": tool, "median_seconds": round(median, 4), "calls": number}
            for tool, median, number in self.slowest()
        ]
        failed = [
            {"query": query, "searches": number}
            for query, number in self.failed_searches.most_common(10)
        ]
        return {
            "running": sorted(filter(_is_alive, self.running)),
            "tokens_saved": self.saved,
            "calls": calls,
            "slowest": slowest,
            "failed_searches": failed,
        }

    def metrics(self) -> str:
        """Return the totals in the text format of Prometheus."""
        lines = [*self._call_metrics()]
        for name, values in (
            ("searches", self.searches),
            ("tokens_saved", self.saved),
        ):
            lines.append(f"# TYPE mcpagent_gateway_{name}_total counter")
            for client, number in sorted(values.items()):
                label = f'client="{_label(client)}"'
                lines.append(f"mcpagent_gateway_{name}_total{{{label}}} {number}")
        return "\n".join(lines) + "\n"

    def _call_metrics(self) -> Iterator[str]:
        yield "# TYPE mcpagent_gateway_calls_total counter"
        for (tool, outcome), number in sorted(self.calls.items()):
            labels = f'tool="{_label(tool)}",outcome="{_label(outcome)}"'
            yield f"mcpagent_gateway_calls_total{{{labels}}} {number}"
        yield "# TYPE mcpagent_gateway_call_seconds summary"
        for tool, samples in sorted(self.seconds.items()):
            label = f'tool="{_label(tool)}"'
            yield f"mcpagent_gateway_call_seconds_sum{{{label}}} {sum(samples):.6f}"
            yield f"mcpagent_gateway_call_seconds_count{{{label}}} {len(samples)}"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
