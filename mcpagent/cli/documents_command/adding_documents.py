"""`mcpagent docs add|remove`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.number_formats import counted, duration
from mcpagent.cli.common.options import LARGEST, Options
from mcpagent.cli.documents_command.store_of_documents import (
    document_address,
    documents_file,
    existing_store,
)
from mcpagent.cli.screen.terminal import Terminal, agreed, open_terminal, put
from mcpagent.cli.sessions_command.sessions_changed import left_alone
from mcpagent.documents.document_values import StoredDocument, UriPrefix
from mcpagent.documents.indexing import (
    IndexProgress,
    IndexReport,
    index_documents,
    watch_documents,
)
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_SECONDS = 2.0
"""Minimum number of seconds between two progress lines if stderr is no terminal."""

_OUTCOMES = ("added", "changed", "removed", "unchanged", "skipped", "failed")


def add_documents(options: Options, named: Sequence[str], *, follow: bool) -> ExitCode:
    """Run `mcpagent docs add`. Raises `InputError` for a path that does not exist."""
    return run_to_end(_add(options, named, follow=follow))


async def _add(options: Options, named: Sequence[str], *, follow: bool) -> ExitCode:
    terminal = open_terminal(options.color)
    async with SqliteDocuments(documents_file(options)) as store:
        with progress_shown(terminal) as show:
            report = await index_documents(store, named, on_progress=show)
            while await store.add_missing_vectors():
                pass
        _show_report(options, terminal, report)
        if follow:
            put(terminal.err, "waiting for changes; Ctrl-C ends it", style="dim")
            await watch_documents(store, named, on_report=_reporter(options, terminal))
    return ExitCode.ERROR if report.failed else ExitCode.OK


def _reporter(options: Options, terminal: Terminal) -> Callable[[IndexReport], None]:
    """Return a callback that prints the reports of runs that changed something."""

    def show(report: IndexReport) -> None:
        if report.added or report.changed or report.removed:
            _show_report(options, terminal, report)

    return show


def _show_report(options: Options, terminal: Terminal, report: IndexReport) -> None:
    terminal.warn(*(str(error) for error in report.failures))
    document: dict[str, Any] = asdict(report)
    document["failures"] = [
        {"reason": error.reason, "problem": str(error)} for error in report.failures
    ]
    counts = [
        f"{count:,} {name}" for name in _OUTCOMES if (count := getattr(report, name))
    ]
    if options.output == "json":
        terminal.report(options, document)
    else:
        written = counted(report.chunks, "chunk")
        terminal.done(f"{', '.join(counts) or 'no documents'}; {written} written")


@contextlib.contextmanager
def progress_shown(terminal: Terminal) -> Iterator[Callable[[IndexProgress], None]]:
    """Yield a callback that shows progress on stderr: as a bar on a terminal, else as a line every few seconds."""
    if not terminal.err.is_interactive:
        yield progress_lines(terminal)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=None),
        TextColumn("{task.completed:,} of {task.total:,} files"),
        TextColumn("{task.fields[chunks]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    with Progress(*columns, console=terminal.err, transient=True) as progress:
        yield _bar(progress)


def _bar(progress: Progress) -> Callable[[IndexProgress], None]:
    task = progress.add_task("", total=1, chunks="")

    def show(found: IndexProgress) -> None:
        progress.update(
            task,
            completed=found.done,
            total=found.total,
            chunks=counted(found.chunks, "chunk"),
        )

    return show


def progress_lines(
    terminal: Terminal, clock: Callable[[], float] = time.monotonic
) -> Callable[[IndexProgress], None]:
    """Return a callback that prints files, chunks and the time left, at most every `LINE_SECONDS`."""
    begun = shown = clock()

    def show(found: IndexProgress) -> None:
        nonlocal shown
        now = clock()
        if now - shown < LINE_SECONDS or found.done == found.total:
            return
        shown = now
        left = duration((now - begun) / found.done * (found.total - found.done))
        files = f"{found.done:,} of {counted(found.total, 'file')}"
        chunks = counted(found.chunks, "chunk")
        put(terminal.err, f"{files}, {chunks}, about {left} left", style="dim")

    return show


def remove_documents(options: Options, names: Sequence[str], *, yes: bool) -> ExitCode:
    """Run `mcpagent docs remove`. Raises `InputError` if a name has no document."""
    return run_to_end(_remove(options, names, yes=yes))


async def _remove(options: Options, names: Sequence[str], *, yes: bool) -> ExitCode:
    terminal = open_terminal(options.color)
    async with existing_store(options) as store:
        documents: dict[str, StoredDocument] = {}
        for name in names:
            documents.update(await _meant(store, name))
        put(terminal.err, *(safe_line(uri, 200) for uri in list(documents)[:20]))
        if len(documents) > 20:
            put(terminal.err, f"{len(documents) - 20:,} more", style="dim")
        if not (yes or agreed(terminal, "remove them from the store?", "removes")):
            return left_alone(terminal)
        for uri in documents:
            await store.remove(uri)
    terminal.done(f"removed {counted(len(documents), 'document')}")
    return ExitCode.OK


async def _meant(store: SqliteDocuments, name: str) -> dict[str, StoredDocument]:
    """Return the documents, by address, that have this path or address or are in this folder."""
    uri = document_address(name, is_path=True)
    below = UriPrefix(uri.rstrip("/") + "/")
    page = await store.documents(limit=LARGEST, where=below)
    found = {one.uri: one for one in page.documents}
    exact = await store.find(uri)
    if exact is not None and exact.uri == uri:
        found[uri] = exact
    if not found:
        raise InputError(
            f'no document has the address "{safe_line(uri, 200)}"; see mcpagent docs list'
        )
    return found
