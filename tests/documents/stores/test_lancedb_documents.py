"""LanceDB: an index of vectors, several processes, and a clear error without the extra."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mcpagent.documents.document_values import UriPrefix
from mcpagent.documents.stores.lancedb_documents import LanceDocuments
from mcpagent.errors import ConfigError
from tests.documents.sample_documents import chunks, document, letters

needs_lancedb = pytest.mark.skipif(find_spec("lancedb") is None, reason="LanceDB is not installed")


@pytest.mark.skipif(find_spec("lancedb") is not None, reason="LanceDB is installed")
def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pip install 'mcpagent\[lancedb\]'"):
        LanceDocuments(tmp_path)


@needs_lancedb
@pytest.mark.slow
async def test_many_vectors_have_an_index_and_are_still_found(tmp_path: Path) -> None:
    async with LanceDocuments(tmp_path / "lance", embedder=letters, index_vectors_from=500) as store:
        for number in range(24):
            one = document(f"file:///{number}.md", "Letters")
            name = chr(97 + number)
            await store.save(one, chunks(one, [name * (place + 20) for place in range(25)]))
        hits = await store.search("ccc")
        assert {hit.chunk.document.uri for hit in hits} == {"file:///2.md"}
        table = store._table()
        assert any(index.columns[0].startswith("vector_") for index in table.list_indices())
        hits = await store.search("ccc", where=UriPrefix("file:///1"))
        assert hits
        assert all(hit.chunk.document.uri.startswith("file:///1") for hit in hits)


WRITER = """
import asyncio, sys
from mcpagent.documents.stores.lancedb_documents import LanceDocuments
from tests.documents.sample_documents import chunks, document

async def main():
    async with LanceDocuments(sys.argv[1], embedder=None) as store:
        for number in range(15):
            one = document(f"file:///{number}.md")
            await store.save(one, chunks(one, [f"apples {number}", "pears"]))

asyncio.run(main())
"""


@needs_lancedb
@pytest.mark.slow
def test_two_processes_write_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lance"
    command = [sys.executable, "-c", WRITER, str(folder)]
    started = [subprocess.Popen(command, cwd=Path(__file__).parents[3]) for _ in range(2)]
    assert [process.wait(100) for process in started] == [0, 0]

    async def check() -> None:
        async with LanceDocuments(folder, embedder=None) as store:
            page = await store.documents()
            assert page.total == 15
            assert [len(await store.chunks(one.id)) for one in page.documents] == [2] * 15

    asyncio.run(check())
