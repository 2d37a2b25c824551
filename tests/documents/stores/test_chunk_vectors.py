"""Vectors of chunks: those of other encoders, other processes and removed chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mcpagent.documents.stores.chunk_vectors import installed_embedder
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from tests.documents.sample_documents import chunks, document, letters


async def test_chunks_that_no_encoder_has_seen_are_encoded_later(tmp_path: Path) -> None:
    one = document("file:///one.md")
    parts = chunks(one, ["aaa", "bbb", "ccc"])
    async with SqliteDocuments(tmp_path / "documents.db", embedder=None) as store:
        await store.save(one, parts)
        assert await store.count_chunks() == (3, 0)
        assert await store.add_missing_vectors() == 0
    async with SqliteDocuments(tmp_path / "documents.db", embedder=letters) as store:
        assert not await store.search("bb")
        assert [await store.add_missing_vectors(2) for _ in range(3)] == [2, 1, 0]
        hit = (await store.search("bb"))[0]
        assert (hit.chunk.text, hit.ranks) == ("bbb", {"embeddings": 1})


async def test_only_new_chunks_of_a_changed_document_are_encoded(tmp_path: Path) -> None:
    seen: list[str] = []

    def noting(texts: Sequence[str]) -> list[list[float]]:
        seen.extend(texts)
        return letters(texts)

    one = document("file:///one.md", "One")
    async with SqliteDocuments(tmp_path / "documents.db", embedder=noting) as store:
        await store.save(one, chunks(one, ["aaa", "bbb"]))
        seen.clear()
        await store.save(replace(one, digest="x"), chunks(one, ["aaa", "ccc"]))
        assert [text.splitlines()[-1] for text in seen] == ["ccc", "1"]
        assert (await store.search("aa"))[0].chunk.text == "aaa"


async def test_a_search_sees_the_vectors_that_another_connection_added_and_removed(tmp_path: Path) -> None:
    file = tmp_path / "documents.db"
    one, two = document("file:///one.md"), document("file:///two.md")
    async with SqliteDocuments(file, embedder=letters) as store, SqliteDocuments(file, embedder=letters) as other:
        await store.save(one, chunks(one, ["aaa", "zzz"]))
        assert (await other.search("aa"))[0].chunk.text == "aaa"
        await store.save(two, chunks(two, ["aab", "yyy"]))
        await store.remove(one.uri)
        assert (await other.search("aa"))[0].chunk.text == "aab"
        assert {hit.chunk.document.uri for hit in await other.search("zz yy")} == {two.uri}


@pytest.mark.slow
async def test_the_installed_encoder_finds_other_words_of_the_same_meaning(tmp_path: Path) -> None:
    if installed_embedder() is None:
        pytest.skip("neither `semantic` nor `multilingual` is installed")
    one = document("file:///one.md", "Notes")
    texts = ["The automobile needs fuel.", "Flowers grow in the garden.", "The court decided on the appeal."]
    async with SqliteDocuments(tmp_path / "documents.db") as store:
        await store.save(one, chunks(one, texts))
        for query, place in (("petrol for my car", 0), ("plants outside", 1), ("what did the judge rule", 2)):
            hit = (await store.search(query))[0]
            assert hit.chunk.text == texts[place]
            assert hit.ranks["embeddings"] == 1
