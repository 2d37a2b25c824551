"""Trains the word vectors of `mcpagent[semantic]` further on tools, and tells whether that helps on others.

    python benchmarks/search_train.py FOLDER ... [--steps 300] [--out vectors.npy]

FOLDER is as for `search_probes.py` and `search.py`. Each step takes pairs of a text and its tool, with the other tools
of the batch as wrong answers (InfoNCE), and moves the vectors of their tokens (Adagrad): queries with a tool they mean,
and pieces of a tool with its rest. A third of the servers (of the tools, where a catalogue is one server) and all their
queries are left out, and asked in the end, with the vectors as they come and as they are then. NumPy only.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.pop(0)  # this folder: its file names would hide packages
sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search_data import Row, read_rows
from benchmarks.search_probes import load_tools
from mcpagent.search import ToolIndex
from mcpagent.search.semantic.embedding import StaticEmbedder
from mcpagent.search.semantic.vectors import tool_parts
from mcpagent.values.messages import ToolDefinition

Vectors = NDArray[np.float32]
Tokens = list[list[int]]

BATCH = 160
MAX_TOKENS = 32
PARTS = {"name": 1.0, "description": 1.0, "server": 0.6, "parameters": 0.6}
TEMPERATURE = 0.05
_CATALOGUE_EVERY = 3
"""One batch of catalogue pairs to so many of queries."""


@dataclass(frozen=True)
class Material:
    """Tools by their parts' tokens, and queries by source: their tokens and the place of a tool they mean."""

    parts: dict[str, Tokens]
    queries: list[list[tuple[list[int], int]]]


class Trained(StaticEmbedder):
    """The installed vectors with another table."""

    def use(self, table: Vectors) -> None:
        self._table = table
        self.name = "trained"

    @property
    def table(self) -> Vectors:
        table = self._mapped.matrix() if self._table is None else self._table
        return table.astype(np.float32, copy=False)

    def tokens(self, texts: Sequence[str]) -> Tokens:
        return [self._tokens(text)[:MAX_TOKENS] for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument(
        "--cap",
        type=int,
        default=150,
        help="queries of each source that are asked in the end (150)",
    )
    parser.add_argument("--out", type=Path, help="where the trained table goes (NumPy)")
    options = parser.parse_args()
    embedder = Trained()
    before = embedder.table.copy()
    catalogues = {folder: load_tools(folder) for folder in options.folders}
    after = train(
        before.copy(), material(catalogues, embedder), options.steps, options.rate
    )
    if options.out:
        np.save(options.out, after)
    print(
        "| recall@5 of what was left out | as they come | trained |\n| --- | --- | --- |"
    )
    found = [
        asked(catalogues, embedder, table, options.cap) for table in (before, after)
    ]
    for source in found[0]:
        print(f"| {source} | {found[0][source]:.3f} | {found[1][source]:.3f} |")
    print(
        f"| mean | {statistics.fmean(found[0].values()):.4f} | {statistics.fmean(found[1].values()):.4f} |"
    )


def is_left_out(folder: Path, tool: ToolDefinition, servers: int) -> bool:
    """Whether the tool is of the third that is only asked for in the end; `servers` is how many the catalogue has."""
    key = f"{folder.name}/{tool.name if servers < 10 else tool.server}"
    return hashlib.sha256(b"left out" + key.encode()).digest()[0] % 3 == 0


def _left_out(folder: Path, tools: Sequence[ToolDefinition]) -> set[str]:
    servers = len({tool.server for tool in tools})
    return {tool.name for tool in tools if is_left_out(folder, tool, servers)}


def material(
    catalogues: dict[Path, list[ToolDefinition]], embedder: Trained
) -> Material:
    tools: list[ToolDefinition] = []
    queries: list[list[tuple[list[int], int]]] = []
    for folder, catalogue in catalogues.items():
        left_out = _left_out(folder, catalogue)
        places: dict[str, int] = {}
        for tool in catalogue:
            if tool.name not in left_out:
                places[tool.name] = len(tools)
                tools.append(tool)
        sources: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row in read_rows(folder / "queries.jsonl"):
            if all(name in places for name in row["relevant"]):
                needs = row.get("groups") or [[name] for name in row["relevant"]]
                sources[row["source"]] += [
                    (row["query"], places[need[0]]) for need in needs
                ]
        for pairs in sources.values():
            tokens = embedder.tokens([text for text, _ in pairs])
            queries.append(
                [
                    (found, place)
                    for found, (_, place) in zip(tokens, pairs, strict=True)
                    if found
                ]
            )
    parts = [tool_parts(tool) for tool in tools]
    return Material(
        {name: embedder.tokens([part[name] for part in parts]) for name in PARTS},
        queries,
    )


def train(table: Vectors, material: Material, steps: int, rate: float) -> Vectors:
    """The table after so many steps; it is changed in place."""
    random_ = random.Random(1)
    squares = np.full(len(table), 1e-6, np.float32)
    scale = float(np.abs(table).mean())
    for step in range(steps):
        size = rate * scale * (1 - step / steps)
        chosen = [
            random_.choice(random_.choice(material.queries)) for _ in range(BATCH)
        ]
        none: list[str] = [""] * BATCH
        loss = _step(
            table,
            squares,
            material,
            [text for text, _ in chosen],
            [at for _, at in chosen],
            none,
            size,
        )
        if step % _CATALOGUE_EVERY == 0:
            _step(table, squares, material, *_catalogue_batch(material, random_), size)
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.3f}", file=sys.stderr, flush=True)
    return table


def _catalogue_batch(
    material: Material, random_: random.Random
) -> tuple[Tokens, list[int], list[str]]:
    """A part of each tool as the text, and which part its tool goes without."""
    whole = [
        at
        for at, name in enumerate(material.parts["name"])
        if name and material.parts["description"][at]
    ]
    places = random_.sample(whole, BATCH)
    hidden = [
        random_.choices(("description", "name", "parameters"), (5, 3, 2))[0]
        for _ in places
    ]
    hidden = [
        part if material.parts[part][at] else "name"
        for at, part in zip(places, hidden, strict=True)
    ]
    texts = [
        material.parts[part][at][: random_.randint(4, MAX_TOKENS)]
        for at, part in zip(places, hidden, strict=True)
    ]
    return texts, places, hidden


def _step(
    table: Vectors,
    squares: Vectors,
    material: Material,
    texts: Tokens,
    places: list[int],
    hidden: list[str],
    size: float,
) -> float:
    text_ids, text_rows, text_shares = _flat(texts, 1.0)
    shown = [
        _flat(
            [parts[at] if hidden[row] != name else [] for row, at in enumerate(places)],
            PARTS[name],
        )
        for name, parts in material.parts.items()
    ]
    tool_ids, tool_rows, tool_shares = (
        np.concatenate(arrays) for arrays in zip(*shown, strict=True)
    )
    text_unit, text_length = _unit(
        _summed(table, text_ids, text_rows, text_shares, len(texts))
    )
    tool_unit, tool_length = _unit(
        _summed(table, tool_ids, tool_rows, tool_shares, len(texts))
    )
    likeness = text_unit @ tool_unit.T / TEMPERATURE
    same = np.equal.outer(places, places) & ~np.eye(len(places), dtype=bool)
    likeness[same] = -1e9
    by_text, by_tool = _shares(likeness), _shares(likeness.T)
    right = np.eye(len(texts), dtype=np.float32)
    slope: Vectors = (
        ((by_text + by_tool.T) / 2 - right) / (len(texts) * TEMPERATURE)
    ).astype(np.float32)
    text_slope = _through_unit(slope @ tool_unit, text_unit, text_length)
    tool_slope = _through_unit(slope.T @ text_unit, tool_unit, tool_length)
    ids = np.concatenate([text_ids, tool_ids])
    slopes = np.concatenate(
        [text_slope[text_rows] * text_shares, tool_slope[tool_rows] * tool_shares]
    )
    order = np.argsort(ids, kind="stable")
    distinct, starts = np.unique(ids[order], return_index=True)
    total = np.add.reduceat(slopes[order], starts, axis=0)
    squares[distinct] += (total * total).mean(axis=1)
    table[distinct] -= size * total / np.sqrt(squares[distinct])[:, None]
    return float(-np.log(np.diag(by_text) + 1e-9).mean())


def _flat(
    tokens: Tokens, weight: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vectors]:
    """Token numbers, the row each is of, and its share of that row's mean as a column."""
    lengths = np.array([len(one) for one in tokens])
    ids = np.array([token for one in tokens for token in one], dtype=np.int64)
    shares = np.repeat(weight / np.maximum(lengths, 1), lengths).astype(np.float32)
    return ids, np.repeat(np.arange(len(tokens)), lengths), shares[:, None]


def _summed(
    table: Vectors,
    ids: NDArray[np.int64],
    rows: NDArray[np.int64],
    shares: Vectors,
    count: int,
) -> Vectors:
    order = np.argsort(rows, kind="stable")
    distinct, starts = np.unique(rows[order], return_index=True)
    sums = np.zeros((count, table.shape[1]), np.float32)
    sums[distinct] = np.add.reduceat(table[ids[order]] * shares[order], starts, axis=0)
    return sums


def _unit(rows: Vectors) -> tuple[Vectors, Vectors]:
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True)) + 1e-6
    return rows / lengths, lengths


def _through_unit(slope: Vectors, unit: Vectors, length: Vectors) -> Vectors:
    through: Vectors = (
        slope - unit * (slope * unit).sum(axis=1, keepdims=True)
    ) / length
    return through


def _shares(likeness: Vectors) -> Vectors:
    powers = np.exp(likeness - likeness.max(axis=1, keepdims=True))
    shares: Vectors = powers / powers.sum(axis=1, keepdims=True)
    return shares


def asked(
    catalogues: dict[Path, list[ToolDefinition]],
    embedder: Trained,
    table: Vectors,
    cap: int,
) -> dict[str, float]:
    """Mean recall@5 by source of the queries whose tools were left out, over whole catalogues."""
    embedder.use(table)
    recalls: dict[str, list[float]] = defaultdict(list)
    for folder, tools in catalogues.items():
        left_out = _left_out(folder, tools)
        rows = [
            row
            for row in read_rows(folder / "queries.jsonl")
            if left_out.issuperset(row["relevant"])
        ]
        if not rows:
            continue
        rows.sort(key=lambda row: hashlib.sha256(row["query"].encode()).digest())
        index = ToolIndex("hybrid", embedder=embedder)
        servers: dict[str | None, list[ToolDefinition]] = defaultdict(list)
        for tool in tools:
            servers[tool.server].append(tool)
        for server, theirs in servers.items():
            index.replace(server, theirs)
        for row in rows:
            source = recalls[f"{folder.name} {row['source']}"]
            if len(source) < cap:
                source.append(_recall(index.search(row["query"]).names, row))
    return {source: statistics.fmean(values) for source, values in recalls.items()}


def _recall(names: Sequence[str], row: Row) -> float:
    needs = row.get("groups") or [[name] for name in row["relevant"]]
    return statistics.fmean(any(name in names for name in need) for need in needs)


if __name__ == "__main__":
    main()
