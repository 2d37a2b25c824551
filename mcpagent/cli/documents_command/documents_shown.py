"""`mcpagent docs search|list|show|stats|eval`: they create no store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.common.options import Options
from mcpagent.cli.documents_command.store_of_documents import (
    documents_file,
    existing_store,
    the_document,
)
from mcpagent.cli.screen.lines import Cell, table
from mcpagent.cli.screen.terminal import open_terminal, put
from mcpagent.documents.document_recall import (
    DocumentRecall,
    QuestionRanks,
    measure_recall,
    read_document_questions,
)
from mcpagent.documents.document_values import (
    Chunk,
    NameContains,
    SearchHit,
    StoredDocument,
)
from mcpagent.utilities.text.safe_text import safe_line, safe_text

_EXCERPT = 240


def search_documents(
    options: Options, query: str, limit: int, *, explain: bool
) -> ExitCode:
    """Run `mcpagent docs search`."""
    terminal = open_terminal(options.color)

    async def search() -> Sequence[SearchHit]:
        async with existing_store(options) as store:
            return await store.search(query, limit=limit)

    hits = run_to_end(search())
    lines: list[Text | str] = []
    for number, hit in enumerate(hits, 1):
        lines += _hit_lines(number, hit, explain=explain)
    nothing = Text("no document has these words", "dim")
    terminal.report(
        options, [_hit_document(hit) for hit in hits], *(lines or [nothing])
    )
    return ExitCode.OK if hits else ExitCode.ERROR


def _hit_lines(number: int, hit: SearchHit, *, explain: bool) -> list[Text | str]:
    chunk = hit.chunk
    title = [chunk.document.title]
    if chunk.section[:1] == (chunk.document.title,):
        title = []
    place = " > ".join([*title, *chunk.section])
    lines: list[Text | str] = [
        Text.assemble(f"{number}  ", (safe_line(place, 160), "user"), _page(chunk)),
        Text(f"   {safe_line(chunk.document.uri, 200)}", "dim"),
        f"   {safe_line(chunk.text, _EXCERPT)}",
    ]
    if explain:
        ranks = ", ".join(f"{name} {rank}" for name, rank in hit.ranks.items())
        lines.append(Text(f"   score {hit.score:.4f}: {ranks}", "dim"))
    return lines


def _page(chunk: Chunk) -> str:
    return "" if chunk.page is None else f", page {chunk.page}"


def _hit_document(hit: SearchHit) -> dict[str, Any]:
    found = _chunk_document(hit.chunk)
    about = {"uri": hit.chunk.document.uri, "title": hit.chunk.document.title}
    return about | found | {"score": hit.score, "ranks": dict(hit.ranks)}


def _chunk_document(chunk: Chunk) -> dict[str, Any]:
    place = {"id": chunk.id, "section": list(chunk.section), "page": chunk.page}
    return place | {"position": chunk.position, "text": chunk.text}


def list_documents(options: Options, name: str | None, limit: int) -> ExitCode:
    """Run `mcpagent docs list`."""
    terminal = open_terminal(options.color)
    where = None if name is None else NameContains(name)

    async def read() -> tuple[Sequence[StoredDocument], int]:
        async with existing_store(options) as store:
            page = await store.documents(limit=limit, where=where)
            return page.documents, page.total

    documents, total = run_to_end(read())
    rows = _document_rows(documents)
    nothing = [Text("no document has this in its name", "dim")]
    found = [_document(one) for one in documents]
    terminal.report(options, found, *(table(rows) if rows else nothing))
    if total > len(documents) and options.output == "text":
        more = f"{total - len(documents):,} more; -k {total} shows all"
        put(terminal.err, more, style="dim")
    return ExitCode.OK


def _document_rows(documents: Sequence[StoredDocument]) -> list[list[Cell]]:
    return [
        [
            (safe_line(one.title, 60), "user"),
            safe_line(str(one.metadata.get("kind", "")), 20),
            (safe_line(one.uri, 200), "dim"),
        ]
        for one in documents
    ]


def _document(one: StoredDocument) -> dict[str, Any]:
    found = {"id": one.id, "uri": one.uri, "title": one.title, "digest": one.digest}
    return found | {"indexed_at": one.indexed_at, "metadata": dict(one.metadata)}


def show_document(options: Options, name: str) -> ExitCode:
    """Run `mcpagent docs show`. Raises `InputError` if there is no such document."""
    terminal = open_terminal(options.color)

    async def read() -> tuple[StoredDocument, Sequence[Chunk]]:
        async with existing_store(options) as store:
            document = await the_document(store, name)
            return document, await store.chunks(document.id)

    document, chunks = run_to_end(read())
    lines = [*_fact_lines(document, len(chunks)), *_text_lines(chunks)]
    shown = _document(document) | {"chunks": [_chunk_document(one) for one in chunks]}
    terminal.report(options, shown, *lines)
    return ExitCode.OK


def _fact_lines(document: StoredDocument, chunks: int) -> list[Text | str]:
    facts = [("address", document.uri), ("chunks", f"{chunks:,}")]
    facts += [(key, str(value)) for key, value in document.metadata.items()]
    rows: list[list[Cell]] = [
        [(safe_line(key, 40), "dim"), safe_line(value, 300)] for key, value in facts
    ]
    return [Text(safe_line(document.title, 200), "user"), *table(rows)]


def _text_lines(chunks: Sequence[Chunk]) -> list[Text | str]:
    lines: list[Text | str] = []
    before: tuple[tuple[str, ...], int | None] = ((), None)
    for chunk in chunks:
        place = (chunk.section, chunk.page)
        if place != before:
            heading = f"{' > '.join(chunk.section)}{_page(chunk)}".removeprefix(", ")
            lines += ["", Text(safe_line(heading, 200), "user")]
        lines += ["", safe_text(chunk.text)]
        before = place
    return lines


def show_statistics(options: Options) -> ExitCode:
    """Run `mcpagent docs stats`."""
    terminal, file = open_terminal(options.color), documents_file(options)

    async def count() -> tuple[int, int, int]:
        async with existing_store(options) as store:
            page = await store.documents(limit=0)
            return page.total, *await store.count_chunks()

    documents, chunks, vectors = run_to_end(count())
    size = file.stat().st_size
    found = {"file": str(file), "documents": documents, "chunks": chunks}
    rows = [
        ("file", str(file)),
        ("documents", f"{documents:,}"),
        ("chunks", f"{chunks:,}, {vectors:,} with a vector"),
        ("size", f"{size / 1e6:,.1f} MB"),
    ]
    lines = table([[(name, "dim"), safe_line(value, 300)] for name, value in rows])
    terminal.report(options, found | {"vectors": vectors, "bytes": size}, *lines)
    return ExitCode.OK


def evaluate_documents(
    options: Options, file: Path, limit: int, least: float
) -> ExitCode:
    """Run `mcpagent docs eval`. Raises `InputError` for an invalid line of the file, with its number."""
    terminal = open_terminal(options.color)
    questions = read_document_questions(file)

    async def measure() -> DocumentRecall:
        async with existing_store(options) as store:
            return await measure_recall(store, questions, limit=limit)

    recall = run_to_end(measure())
    lines = _missed_lines(recall, terminal.glyphs.failed)
    depths = sorted({1, limit})
    figures = [
        f"recall@{depth} {recall.document_recall(depth):.3f}" for depth in depths
    ]
    over = counted(len(recall.ranks), "question")
    lines.append(
        f"{'  '.join(figures)}  section MRR {recall.section_rank():.3f}  over {over}"
    )
    terminal.report(options, _recall_document(recall, depths), *lines)
    return ExitCode.OK if recall.document_recall(limit) >= least else ExitCode.ERROR


def _missed_lines(recall: DocumentRecall, mark: str) -> list[Text | str]:
    lines: list[Text | str] = []
    for one in recall.ranks:
        if one.document is None:
            question = (safe_line(one.asked.question, 80), "user")
            instead = safe_line(one.first or "nothing", 120)
            failed = (f"{mark} ", "error")
            about = (
                f"  not found: {safe_line(one.asked.uri, 120)}; first is {instead}",
                "dim",
            )
            lines.append(Text.assemble(failed, question, about))
    return lines


def _recall_document(recall: DocumentRecall, depths: Sequence[int]) -> dict[str, Any]:
    shares = {f"at_{depth}": recall.document_recall(depth) for depth in depths}
    questions = [_ranks_document(one) for one in recall.ranks]
    return {
        "recall": shares,
        "section_mrr": recall.section_rank(),
        "questions": questions,
    }


def _ranks_document(one: QuestionRanks) -> dict[str, Any]:
    asked = {"question": one.asked.question, "uri": one.asked.uri}
    return asked | {"document_rank": one.document, "section_rank": one.section}
