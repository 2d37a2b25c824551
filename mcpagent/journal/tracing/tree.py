"""Draw runs as trees of steps for people: `mcpagent trace show`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Spent

MOST_NAMES = 8
DEEPEST = 40


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A run, a request, a call or a search, with the steps below it. None and "" mean unknown or missing.

    `begun` is in seconds since 1970. `error` is the type of error, `note` a text about it. A run has a `prompt` and
    `turns`; a request the names of the tools that it `offered`; a call its `server` and the `rank` of its tool in the
    search that found it; a search its `query`, the number `found`, and the shown `matches`.
    """

    name: str
    begun: float | None = None
    seconds: float | None = None
    error: str = ""
    note: str = ""
    prompt: str = ""
    turns: int | None = None
    spent: Spent | None = None
    offered: tuple[str, ...] | None = None
    known_tools: int | None = None
    server: str = ""
    arguments: Mapping[str, Any] | None = None
    rank: int | None = None
    query: str = ""
    found: int | None = None
    matches: tuple[str, ...] | None = None
    steps: tuple[TraceStep, ...] = ()

    @property
    def ended(self) -> float | None:
        """The time at which the step ended; None if unknown."""
        if self.begun is not None and self.seconds is not None:
            return self.begun + self.seconds
        return None

    def walk(self) -> Iterator[TraceStep]:
        """Yield this step and all steps below it, in the order of the tree."""
        waiting = [self]
        while waiting:
            step = waiting.pop()
            yield step
            waiting += reversed(step.steps)


@dataclass(frozen=True, slots=True)
class Branches:
    """The characters for drawing a tree."""

    between: str = "├─ "
    last: str = "└─ "
    line: str = "│  "
    dot: str = "·"


ASCII_BRANCHES = Branches("|- ", "`- ", "|  ", "-")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the tree: the branches with the name, the duration, and the facts. All texts are printable."""

    name: str
    took: str
    about: str
    failed: bool = False


def trace_rows(
    runs: Sequence[TraceStep], branches: Branches
) -> list[tuple[str, list[Row]]]:
    """Return the heading and the rows of each run."""
    return [
        (_heading(run, number), [*_rows(run, branches)])
        for number, run in enumerate(runs, 1)
    ]


def trace_document(step: TraceStep) -> dict[str, Any]:
    """Return a step as JSON data, without unknown fields."""
    document = asdict(replace(step, steps=()))
    known = {
        name: value for name, value in document.items() if value not in (None, "", ())
    }
    return known | (
        {"steps": [trace_document(below) for below in step.steps]} if step.steps else {}
    )


def _heading(run: TraceStep, number: int) -> str:
    steps = [*run.walk()]
    failed = sum(bool(step.error) for step in steps)
    facts = [
        _moment(run.begun),
        took(run.seconds),
        f"{len(steps)} steps",
        f"{failed} failed" if failed else "",
    ]
    return (
        f"run {number}: {safe_line(run.prompt, 60)}  {', '.join(filter(None, facts))}"
    )


def _moment(begun: float | None) -> str:
    try:
        if begun:
            return datetime.fromtimestamp(begun, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return ""
    except (ValueError, OverflowError, OSError):
        return ""


def _rows(run: TraceStep, branches: Branches) -> Iterator[Row]:
    waiting = [(run, "", "")]
    while waiting:
        step, before, branch = waiting.pop()
        about = f" {branches.dot} ".join(_about(step))
        yield Row(
            f"{before}{branch}{safe_line(step.name, 80)}",
            took(step.seconds),
            about,
            bool(step.error),
        )
        if branch:
            if branch == branches.last:
                before += "   "
            else:
                before += branches.line
        before = before[: DEEPEST * len(branches.line)]
        for below in reversed(step.steps):
            waiting.append(
                (
                    below,
                    before,
                    branches.last if below is step.steps[-1] else branches.between,
                )
            )


def took(seconds: float | None) -> str:
    """Return a duration such as `12 ms`, `1.42 s`, `3 min 2 s`; "" if it is unknown."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60):,} min {seconds % 60:.0f} s"


def _about(step: TraceStep) -> Iterator[str]:
    if step.error:
        yield f"failed: {safe_line(step.error, 80)}"
    if step.note:
        yield safe_line(step.note, 120)
    if step.server:
        yield safe_line(step.server, 64)
    if step.spent is not None:
        yield from _cost(step.spent)
    yield from _of_tools(step)
    if step.rank is not None:
        yield f"rank {step.rank:,} of its search"
    if step.query:
        yield f'"{safe_line(step.query, 80)}"'
    if step.arguments:
        yield safe_line(
            json.dumps(step.arguments, ensure_ascii=False, default=str), 120
        )


def _of_tools(step: TraceStep) -> Iterator[str]:
    if step.turns is not None:
        yield f"{step.turns:,} {'turn' if step.turns == 1 else 'turns'}"
    if step.offered is not None:
        known = ""
        if step.known_tools is not None:
            known = f"; {step.known_tools:,} known"
        yield f"offered {len(step.offered)}{_names(step.offered)}{known}"
    if step.spent is not None and step.spent.saved_tokens > 0:
        yield f"saves {step.spent.saved_tokens:,} tokens"
    if step.matches is not None:
        yield _found(step.matches, step.found)


def _found(matches: Sequence[str], count: int | None) -> str:
    """Return a text about the tools that a search showed, with weak matches separate. Without a count, all count as
    found.
    """
    if count is None:
        return f"found{_names(matches)}"
    weak = ""
    if matches[count:]:
        weak = f"; weak{_names(matches[count:])}"
    return f"found {count:,}{_names(matches[:count])}{weak}"


def _cost(spent: Spent) -> Iterator[str]:
    usage = spent.usage
    cached = ""
    if usage.cache_read_tokens:
        cached = f" ({usage.cache_read_tokens:,} cached)"
    yield f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"
    if spent.dollars:
        yield (
            f"${spent.dollars:.4f}"
            if spent.cost_known
            else f"${spent.dollars:.4f} and more"
        )


def _names(names: Sequence[str]) -> str:
    more = ""
    if len(names) > MOST_NAMES:
        more = f" and {len(names) - MOST_NAMES} more"
    shown = ", ".join(safe_line(name, 64) for name in names[:MOST_NAMES])
    if shown:
        return f": {shown}{more}"
    return ""
