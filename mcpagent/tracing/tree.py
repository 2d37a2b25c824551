"""Spans as a tree for people: `mcpagent trace show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mcpagent.text.safe_text import safe_line
from mcpagent.tracing.spans import AttributeValue, TraceSpan

MOST_NAMES = 8
DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Branches:
    """How the tree is drawn."""

    between: str = "├─ "
    last: str = "└─ "
    line: str = "│  "
    dot: str = "·"


ASCII_BRANCHES = Branches("|- ", "`- ", "|  ", "-")


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the branches and the name, how long it took, and what there is to say of it. All of it is printable."""

    name: str
    took: str
    about: str
    failed: bool = False


def trace_rows(spans: Sequence[TraceSpan], branches: Branches) -> list[tuple[str, list[Row]]]:
    """Each trace with its heading, in the order in which they began."""
    traces: dict[str, list[TraceSpan]] = {}
    for span in sorted(spans, key=lambda span: (span.begun, -span.ended, span.span_id)):
        traces.setdefault(span.trace_id, []).append(span)
    return [(_heading(trace_id, found), [*_rows(found, branches)]) for trace_id, found in traces.items()]


def _heading(trace_id: str, spans: Sequence[TraceSpan]) -> str:
    begun, ended = min(span.begun for span in spans), max(span.ended for span in spans)
    try:
        at = datetime.fromtimestamp(begun / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        at = "at an unknown time"
    failed = sum(span.failed for span in spans)
    errors = f", {failed} failed" if failed else ""
    return f"trace {safe_line(trace_id, 32)}  {at}  {took((ended - begun) / 1e9)}, {len(spans)} spans{errors}"


def _rows(spans: Sequence[TraceSpan], branches: Branches) -> Iterator[Row]:
    known = {span.span_id for span in spans}
    below: dict[str, list[TraceSpan]] = {}
    for span in spans:
        above = span.parent_id if span.parent_id in known and span.parent_id != span.span_id else ""
        below.setdefault(above, []).append(span)
    shown: set[int] = set()
    # What stands below itself stands below nothing: it is shown after all else.
    waiting = [(span, "", "") for span in reversed(below.get("", []))]
    rest = iter(spans)
    while True:
        while waiting:
            span, before, branch = waiting.pop()
            if id(span) in shown:
                continue
            shown.add(id(span))
            yield Row(
                f"{before}{branch}{safe_line(span.name, 80)}", took(span.seconds), _about(span, branches), span.failed
            )
            inner = before
            if branch:
                inner += "   " if branch == branches.last else branches.line
            children = below.get(span.span_id, [])
            inner = inner[: DEEPEST * len(branches.line)]
            waiting += [
                (child, inner, branches.last if place == 0 else branches.between)
                for place, child in enumerate(reversed(children))
            ]
        left = next((span for span in rest if id(span) not in shown), None)
        if left is None:
            return
        waiting.append((left, "", ""))


def took(seconds: float) -> str:
    """`12 ms`, `1.42 s`, `3 min 2 s`."""
    if seconds < 0.9995:
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60):,} min {seconds % 60:.0f} s"


def _about(span: TraceSpan, branches: Branches) -> str:
    """What there is to say of a span, of those attributes that a reader looks for first."""
    links = ", ".join(safe_line(trace_id, 8) for trace_id, _ in span.links if trace_id != span.trace_id)
    said = [*_of_end(span), *_of_cost(span.attributes), *_of_search(span.attributes), *_of_words(span.attributes)]
    if links:
        said.append(f"after {links}")
    return f" {branches.dot} ".join(said)


def _of_end(span: TraceSpan) -> Iterator[str]:
    found = span.attributes
    words = f" ({safe_line(span.failure, 120)})" if span.failure else ""
    if span.failed:
        yield f"failed: {_shown(found.get('error.type', 'error'))}{words}"
    if found.get("mcpagent.purpose") == "summary":
        yield "a summary, to save room"
    stop = found.get("mcpagent.stop", "answered")
    if stop != "answered":
        yield f"stopped: {_shown(stop)}"
    if "mcpagent.server" in found and found.get("mcp.method.name") != "initialize":
        yield _shown(found["mcpagent.server"])


def _of_cost(found: Mapping[str, AttributeValue]) -> Iterator[str]:
    if "gen_ai.usage.input_tokens" in found:
        cached = found.get("gen_ai.usage.cache_read.input_tokens")
        kept = f" ({_shown(cached)} cached)" if cached else ""
        given = found.get("gen_ai.usage.output_tokens", 0)
        yield f"{_shown(found['gen_ai.usage.input_tokens'])} in{kept}, {_shown(given)} out"
    if isinstance(cost := found.get("mcpagent.cost.usd"), float) and cost:
        yield f"${cost:.4f}"
    if isinstance(turns := found.get("mcpagent.turns"), int):
        yield f"{turns} {'turn' if turns == 1 else 'turns'}"


def _of_words(found: Mapping[str, AttributeValue]) -> Iterator[str]:
    if (query := found.get("gen_ai.retrieval.query.text")) is not None:
        yield f'"{safe_line(str(query), 80)}"'
    if (arguments := found.get("gen_ai.tool.call.arguments")) is not None:
        yield safe_line(str(arguments), 120)


def _of_search(found: Mapping[str, AttributeValue]) -> Iterator[str]:
    if isinstance(offered := found.get("mcpagent.tools.offered"), tuple):
        names = ", ".join(safe_line(name, 64) for name in offered[:MOST_NAMES])
        more = f" and {len(offered) - MOST_NAMES} more" if len(offered) > MOST_NAMES else ""
        known = found.get("mcpagent.tools.known_count", len(offered))
        yield f"offered {len(offered)}{f': {names}{more}' if names else ''}; {_shown(known)} known"
    saved = found.get("mcpagent.tools.saved_tokens")
    if isinstance(saved, int) and saved > 0:
        yield f"saves {saved:,} tokens"
    if "mcpagent.search.found" in found:
        matches = found.get("mcpagent.search.matches")
        names = ", ".join(safe_line(name, 64) for name in matches[:MOST_NAMES]) if isinstance(matches, tuple) else ""
        yield f"found {_shown(found['mcpagent.search.found'])}{f': {names}' if names else ''}"
    if (count := found.get("mcpagent.tools.count")) is not None:
        yield f"{_shown(count)} tools"
    if (rank := found.get("mcpagent.search.rank")) is not None:
        yield f"rank {_shown(rank)} of its search"


def _shown(value: AttributeValue) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else safe_line(str(value), 80)
