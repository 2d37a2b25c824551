"""How well and how fast documents are searched: 24 questions over the documentation of FastMCP, which its sdist brings.

    pip download --no-deps --no-binary :all: fastmcp==4.2.3 && tar xzf fastmcp-4.2.3.tar.gz
    python benchmarks/documents.py fastmcp-4.2.3/docs [--words] [--store sqlite|lancedb]

The pages of older versions, generated ones and the changelog are left out. The questions are in other words than the
pages, and were written before the first run. doc@5: the share of questions whose page is among the first five chunks.
section MRR: the mean reciprocal rank, among ten chunks, of the first chunk below the expected heading. CPU seconds are
those of the process; `--words` leaves out the embeddings.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mcpagent.documents.document_recall import DocumentQuestion, measure_recall
from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.indexing import index_documents
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments

QUESTIONS = Path(__file__).parent / "data" / "documents_questions.jsonl"
LEFT_OUT = ("v2", "v3", "python-sdk", "snippets")
RUNS = 5


def pages_of(docs: Path) -> list[Path]:
    """Return the pages of the current version."""
    found = sorted(docs.rglob("*.mdx"))
    return [
        path
        for path in found
        if path.relative_to(docs).parts[0]
        not in (*LEFT_OUT, "changelog.mdx", "updates.mdx")
    ]


def questions_of(docs: Path) -> list[DocumentQuestion]:
    """Return the questions with the addresses of their pages."""
    lines = QUESTIONS.read_text("utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return [
        DocumentQuestion(
            entry["question"],
            (docs / entry["uri"]).absolute().as_uri(),
            entry["section"],
        )
        for entry in entries
    ]


def opened(kind: str, folder: Path, *, words: bool) -> DocumentStore:
    """Return an empty store."""
    if kind == "lancedb":
        from mcpagent.documents.stores.lancedb_documents import LanceDocuments

        return (
            LanceDocuments(folder / "lance", embedder=None)
            if words
            else LanceDocuments(folder / "lance")
        )
    file = folder / "documents.db"
    return SqliteDocuments(file, embedder=None) if words else SqliteDocuments(file)


async def seconds_of(
    store: DocumentStore, questions: Sequence[DocumentQuestion]
) -> list[float]:
    """Return the CPU seconds of each search, over several runs."""
    spent: list[float] = []
    for _ in range(RUNS):
        for asked in questions:
            before = time.process_time()
            await store.search(asked.question)
            spent.append(time.process_time() - before)
    return spent


async def main() -> None:
    """Index the pages, ask the questions, print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("docs", type=Path)
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--store", choices=("sqlite", "lancedb"), default="sqlite")
    options = parser.parse_args()
    docs = options.docs.absolute()
    with tempfile.TemporaryDirectory() as folder:
        store = opened(options.store, Path(folder), words=options.words)
        before = time.process_time()
        report = await index_documents(store, pages_of(docs))
        indexing = time.process_time() - before
        before = time.process_time()
        await index_documents(store, pages_of(docs))
        again = time.process_time() - before
        recall = await measure_recall(store, questions_of(docs))
        spent = sorted(await seconds_of(store, questions_of(docs)))
        await store.close()
    print(
        f"{report.added} pages, {report.chunks:,} chunks; indexing {indexing:.1f} CPU s, again {again:.2f} CPU s"
    )
    print(f"chunks per CPU second  {report.chunks / indexing:,.0f}")
    print(
        f"doc@1 {recall.document_recall(1):.3f}  doc@5 {recall.document_recall(5):.3f}"
    )
    print(f"section MRR            {recall.section_rank():.3f}")
    print(
        f"CPU of a query         p50 {statistics.median(spent) * 1e3:.1f} ms, p95 {spent[-6] * 1e3:.1f} ms"
    )
    print(
        f"largest memory         {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    for one in recall.ranks:
        if one.document is None or one.document > 5:
            print(
                f"  missed: {one.asked.question} (first: {one.first.rpartition('docs/')[2]})"
            )


if __name__ == "__main__":
    asyncio.run(main())
