"""Indexing reads what is new or changed, keeps the rest, and loses at most one document when it is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from mcpagent.documents.indexing import IndexProgress, IndexReport, index_documents, watch_documents
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from mcpagent.errors import InputError
from tests.documents.document_reading import sample_files
from tests.documents.sample_documents import letters

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteDocuments]:
    opened = SqliteDocuments(tmp_path / "documents.db", embedder=letters)
    yield opened
    await opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "some docs"
    (made / "sub").mkdir(parents=True)
    (made / ".git").mkdir()
    (made / ".git" / "notes.md").write_text("# Hidden")
    (made / "a.md").write_text("# Apples\n\nThey are red.\n\n## Taste\n\nSweet.")
    (made / "sub" / "b.txt").write_text("Pears are green.")
    (made / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    return made


def counts(report: IndexReport) -> dict[str, int]:
    names = ("added", "changed", "unchanged", "skipped", "failed", "removed", "chunks")
    return {name: found for name in names if (found := getattr(report, name))}


async def texts(store: SqliteDocuments) -> list[str]:
    found: list[str] = []
    for one in (await store.documents()).documents:
        found += [chunk.text for chunk in await store.chunks(one.id)]
    return found


async def test_only_new_and_changed_files_are_read(store: SqliteDocuments, folder: Path) -> None:
    seen: list[IndexProgress] = []
    report = await index_documents(store, [folder], on_progress=seen.append)
    assert counts(report) == {"added": 2, "skipped": 1, "chunks": 3}
    assert [(one.done, one.total, one.chunks) for one in seen] == [(1, 3, 2), (2, 3, 2), (3, 3, 3)]
    document = await store.find((folder / "a.md").as_uri())
    assert document is not None
    assert (document.title, document.metadata["kind"]) == ("Apples", "markdown")
    before = {chunk.text: chunk.id for chunk in await store.chunks(document.id)}

    # The content that this file now has is never read: size and time are those of before.
    state = (folder / "sub" / "b.txt").stat()
    (folder / "sub" / "b.txt").write_text("Plums are violet")
    os.utime(folder / "sub" / "b.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert counts(await index_documents(store, [folder])) == {"unchanged": 2, "skipped": 1}
    assert "Pears are green." in await texts(store)

    (folder / "a.md").write_text("# Apples\n\nThey are green.\n\n## Taste\n\nSweet.")
    os.utime(folder / "sub" / "b.txt", (1, 1))
    assert counts(await index_documents(store, [folder])) == {"changed": 2, "skipped": 1, "chunks": 3}
    after = {chunk.text: chunk.id for chunk in await store.chunks(document.id)}
    assert after["Sweet."] == before["Sweet."]
    assert await texts(store) == ["They are green.", "Sweet.", "Plums are violet"]


async def test_another_time_of_the_same_content_is_stored(store: SqliteDocuments, folder: Path) -> None:
    await index_documents(store, [folder])
    before = await texts(store)
    os.utime(folder / "a.md", (1, 1))
    assert counts(await index_documents(store, [folder])) == {"unchanged": 2, "skipped": 1}
    found = await store.find((folder / "a.md").as_uri())
    assert found is not None
    assert found.metadata["modified"] == "1970-01-01T00:00:01+00:00"
    assert await texts(store) == before


async def test_documents_of_removed_files_are_removed(store: SqliteDocuments, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# Other")
    await index_documents(store, [folder, other])
    other.unlink()
    (folder / "a.md").unlink()
    assert counts(await index_documents(store, [folder])) == {"unchanged": 1, "skipped": 1, "removed": 1}
    assert await texts(store) == ["Other", "Pears are green."]


async def test_files_that_cannot_be_read_are_reported_and_the_others_indexed(
    store: SqliteDocuments, folder: Path
) -> None:
    (folder / "0.md").write_text(" ")
    os.mkfifo(folder / "pipe.md")
    report = await index_documents(store, [folder, folder / "picture.png", folder / "pipe.md"])
    assert counts(report) == {"added": 2, "skipped": 1, "failed": 3, "chunks": 3}
    assert [error.reason for error in report.failures] == ["no-text", "unknown-kind", "unreachable"]
    with pytest.raises(InputError, match="not found"):
        await index_documents(store, [folder / "missing"])


async def test_a_page_is_fetched_and_fetched_again_only_if_it_changed(store: SqliteDocuments) -> None:
    asked: list[str | None] = []
    content = b"# One\n\nFirst."

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * (1 << 20)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers.get("if-none-match"))
        if request.url.path == "/endless":
            return httpx2.Response(200, content=endless())
        if request.url.path == "/missing":
            return httpx2.Response(404)
        if request.url.path == "/dead":
            raise httpx2.ConnectError("refused")
        if asked[-1] == '"1"' and content.endswith(b"First."):
            return httpx2.Response(304)
        return httpx2.Response(200, content=content, headers={"etag": '"1"'})

    url = "https://user:secret@docs.test/guide.md#part"
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
        assert counts(await index_documents(store, [url], client=client)) == {"added": 1, "chunks": 1}
        assert counts(await index_documents(store, [url], client=client)) == {"unchanged": 1}
        content = b"# One\n\nSecond."
        assert counts(await index_documents(store, [url], client=client)) == {"changed": 1, "chunks": 1}
        assert asked == [None, '"1"', '"1"']
        assert [one.uri for one in (await store.documents()).documents] == ["https://docs.test/guide.md"]
        wrong = [f"https://docs.test/{name}" for name in ("endless", "missing", "dead")]
        report = await index_documents(store, wrong, client=client)
    assert [error.reason for error in report.failures] == ["too-large", "unreachable", "unreachable"]
    assert "HTTP status 404" in str(report.failures[1])


async def test_watching_indexes_changes_until_it_is_cancelled(store: SqliteDocuments, folder: Path) -> None:
    reports: asyncio.Queue[IndexReport] = asyncio.Queue()
    watching = asyncio.create_task(watch_documents(store, [folder], on_report=reports.put_nowait, seconds=0.01))
    async with asyncio.timeout(60):
        assert (await reports.get()).added == 2
        (folder / "new.md").write_text("# New")
        while not (await reports.get()).added:
            pass
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert "New" in await texts(store)


INDEXER = """
import asyncio, sys
from pathlib import Path
from mcpagent.documents.indexing import index_documents
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments

async def main():
    store = SqliteDocuments(Path(sys.argv[1]), embedder=None)
    show = lambda progress: print(progress.done, progress.outcome, flush=True)
    report = await index_documents(store, [sys.argv[2]], on_progress=show)
    assert not report.failures, report.failures

asyncio.run(main())
"""


def indexer(store: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INDEXER, str(store), str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def many(folder: Path, count: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04}.md").write_text(f"# Title {number}\n\n" + f"Words of {number:04}.\n\n" * 60)
    return folder


@pytest.mark.slow
@pytest.mark.attack
def test_a_killed_indexing_loses_at_most_one_document(tmp_path: Path) -> None:
    folder, file = many(tmp_path / "docs", 300), tmp_path / "documents.db"
    reported = 0
    for until in (40, 120):
        killed = indexer(file, folder)
        assert killed.stdout is not None
        for line in killed.stdout:
            reported = int(line.split()[0])
            if reported == until:
                break
        killed.send_signal(signal.SIGKILL)
        reported += len(killed.stdout.read().splitlines())
        assert killed.wait(60) == -signal.SIGKILL
        killed.stdout.close()

        async def check(reported: int) -> None:
            store = SqliteDocuments(file, embedder=None)
            page = await store.documents(limit=1_000)
            assert reported <= page.total <= reported + 1
            for one in page.documents:
                assert len(await store.chunks(one.id)) == 2
            await store.close()

        asyncio.run(check(reported))
    last = indexer(file, folder)
    written, _ = last.communicate(timeout=100)
    assert last.returncode == 0
    assert written.count("unchanged") in (reported, reported + 1)
    assert len(written.splitlines()) == 300


@pytest.mark.slow
def test_two_processes_index_one_folder(tmp_path: Path) -> None:
    folder, file = many(tmp_path / "docs", 120), tmp_path / "documents.db"
    both = [indexer(file, folder) for _ in range(2)]
    for process in both:
        process.communicate(timeout=100)
    assert [process.returncode for process in both] == [0, 0]

    async def check() -> None:
        store = SqliteDocuments(file, embedder=None)
        assert (await store.documents()).total == 120
        assert (await store.count_chunks())[0] == 240
        assert (await store.search("title 77"))[0].chunk.document.title == "Title 77"
        await store.close()

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.attack
async def test_hostile_files_do_not_keep_the_others_from_being_indexed(store: SqliteDocuments, folder: Path) -> None:
    pytest.importorskip("bs4")
    (folder / "bomb.docx").write_bytes(sample_files.zip_bomb())
    (folder / "deep.html").write_bytes(sample_files.deep_html())
    (folder / "book.epub").write_bytes(sample_files.epub())
    report = await index_documents(store, [folder])
    assert counts(report) == {"added": 3, "skipped": 1, "failed": 2, "chunks": 5}
    assert {error.reason for error in report.failures} == {"unpacks-too-large", "too-deep"}
    shutil.rmtree(folder)
