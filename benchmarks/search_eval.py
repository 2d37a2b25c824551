"""Measures one search over one catalogue: recall, rank, time and memory. Standard library only."""

from __future__ import annotations

import gc
import hashlib
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.search_data import Row, read_rows

Search = Callable[[str, int], Sequence[str]]
Factory = Callable[[list[Row]], Search]

DEPTHS = (1, 3, 5, 10)


def queries_of(folder: Path, cap: int) -> list[Row]:
    """At most `cap` queries of each source, always the same ones: those with the lowest hashes."""
    rows = read_rows(folder / "queries.jsonl")
    rows.sort(key=lambda row: hashlib.sha256(b"cap" + row["query"].encode()).digest())
    taken: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if len(taken[row["source"]]) < cap:
            taken[row["source"]].append(row)
    return [row for source in sorted(taken) for row in taken[source]]


def measure(factory: Factory, folder: Path, cap: int) -> dict[str, Any]:
    """Figures for the catalogue in `folder`: build seconds of CPU, bytes a tool, milliseconds of CPU a query, and per
    source the mean recall at 1, 3, 5 and 10 and the mean reciprocal rank."""
    catalog = read_rows(folder / "catalog.jsonl")
    gc.collect()
    memory, start = _resident_bytes(), time.process_time()
    search = factory(catalog)
    build = time.process_time() - start
    queries = queries_of(folder, cap)
    for query in queries[:3]:
        search(query["query"], DEPTHS[-1])
    gc.collect()
    memory = _resident_bytes() - memory
    times: list[float] = []
    scores: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    for query in queries:
        start = time.process_time()
        found = search(query["query"], DEPTHS[-1])
        times.append((time.process_time() - start) * 1e3)
        scores[query["source"]].append(_score(found, query))
    sources = {
        source: {key: statistics.fmean(row[key] for row in rows) for key in rows[0]}
        for source, rows in scores.items()
    }
    result = {
        "tools": len(catalog),
        "build_s": build,
        "bytes_per_tool": memory / len(catalog),
        "sources": sources,
    }
    if times:
        times.sort()
        result |= {
            "p50_ms": times[len(times) // 2],
            "p95_ms": times[int(len(times) * 0.95)],
        }
    return result


def _score(found: Sequence[str], query: Row) -> dict[str, float]:
    needs = query.get("groups") or [[name] for name in query["relevant"]]
    rank = {name: place for place, name in reversed(list(enumerate(found)))}
    best = [
        min((rank[name] for name in need if name in rank), default=10**9)
        for need in needs
    ]
    scores = {
        f"recall@{depth}": sum(place < depth for place in best) / len(best)
        for depth in DEPTHS
    }
    return scores | {"mrr": 1 / (min(best) + 1) if min(best) < DEPTHS[-1] else 0.0}


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
