"""One suite for all document stores: saving, finding, filters, search, several processes, hostile texts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpagent.documents.document_filters import matches
from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_values import (
    AllOf,
    AnyOf,
    Filter,
    MetadataAfter,
    MetadataBefore,
    MetadataEquals,
    MetadataIn,
    NameContains,
    StoredDocument,
    UriPrefix,
)
from mcpagent.documents.stores.lancedb_documents import LanceDocuments
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from mcpagent.errors import DocumentStoreError
from tests.documents.sample_documents import HOSTILE, chunks, document, letters

STORES: dict[str, Callable[[Path], DocumentStore]] = {
    "sqlite": lambda folder: SqliteDocuments(folder / "documents.db", embedder=None),
    "sqlite-embeddings": lambda folder: SqliteDocuments(folder / "documents.db", embedder=letters),
}
if find_spec("lancedb") is not None:
    STORES["lancedb"] = lambda folder: LanceDocuments(folder / "lance", embedder=None)
    STORES["lancedb-embeddings"] = lambda folder: LanceDocuments(folder / "lance", embedder=letters)


LANES = [pytest.param(name, marks=pytest.mark.slow) if "lancedb" in name else name for name in STORES]


@pytest.fixture(params=LANES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DocumentStore]:
    opened = STORES[request.param](tmp_path)
    yield opened
    await opened.close()


LIBRARY = [
    (document("file:///a/intro.md", "Introduction", lang="en", year=2024), ["Install the package.", "Quick start."]),
    (document("file:///a/50%_x.md", "O'Brien 50%_x", lang="de", year=2025, draft=True), ["Installieren und starten."]),
    (document("https://b.test/guide", "My Guide", lang="en", year=2026.5, day="2026-01-02"), ["Tables of the guide."]),
]


async def filled(store: DocumentStore) -> None:
    for one, texts in LIBRARY:
        await store.save(one, chunks(one, texts))


async def titles(store: DocumentStore, where: Filter | None) -> list[str]:
    return [found.title for found in (await store.documents(where=where)).documents]


async def test_a_document_is_replaced_whole_and_removed_whole(store: DocumentStore) -> None:
    one = document("file:///one.md", "One", tag="x", size=3)
    await store.save(one, chunks(one, ["apples are red", "pears are green"], {1: 7}))
    found = await store.chunks(one.id)
    assert [(chunk.text, chunk.section, chunk.page, chunk.position) for chunk in found] == [
        ("apples are red", ("Part", "0"), None, 0),
        ("pears are green", ("Part", "1"), 7, 1),
    ]
    assert found[0].document == one
    assert await store.chunk(found[1].id) == found[1]
    assert [chunk.position for chunk in await store.chunks(one.id, start=1)] == [1]
    assert [chunk.position for chunk in await store.chunks(one.id, start=-3, stop=1)] == [0]

    changed = replace(one, title="Two", digest="0" * 64)
    await store.save(changed, chunks(changed, ["pears are green", "plums are blue"]))
    assert [chunk.text for chunk in await store.chunks(one.id)] == ["pears are green", "plums are blue"]
    assert not [hit for hit in await store.search("apples") if "apples" in hit.chunk.text]
    assert (await store.search("plums"))[0].chunk.text == "plums are blue"
    assert await store.chunk(found[0].id) is None
    assert (await store.documents()).total == 1

    assert await store.remove(one.uri)
    assert not await store.remove(one.uri)
    assert (await store.documents()).documents == ()
    assert list(await store.search("plums pears")) == []
    assert list(await store.chunks(one.id)) == []


async def test_a_refused_document_changes_nothing(store: DocumentStore) -> None:
    one = document("file:///one.md")
    parts = chunks(one, ["apples"])
    await store.save(one, parts)
    with pytest.raises(DocumentStoreError):
        await store.save(one, [*chunks(one, ["pears"]), replace(parts[0], text="x"), replace(parts[0], text="y")])
    assert [chunk.text for chunk in await store.chunks(one.id)] == ["apples"]


async def test_filters_select_documents_in_every_method(store: DocumentStore) -> None:
    await filled(store)
    rows: list[tuple[Filter | None, list[str]]] = [
        (None, ["O'Brien 50%_x", "Introduction", "My Guide"]),
        (NameContains("MYG uide"), ["My Guide"]),
        (NameContains("50%_"), ["O'Brien 50%_x"]),
        (NameContains("%"), ["O'Brien 50%_x"]),
        (UriPrefix("file:///a/"), ["O'Brien 50%_x", "Introduction"]),
        (UriPrefix("file:///a/50%"), ["O'Brien 50%_x"]),
        (UriPrefix("ile"), []),
        (MetadataEquals("lang", "en"), ["Introduction", "My Guide"]),
        (MetadataEquals("draft", True), ["O'Brien 50%_x"]),
        (MetadataEquals("draft", 1), []),
        (MetadataEquals("year", 2024.0), ["Introduction"]),
        (MetadataIn("year", (2024, 2026.5, "2025")), ["Introduction", "My Guide"]),
        (MetadataIn("year", ()), []),
        (MetadataBefore("year", 2025), ["Introduction"]),
        (MetadataAfter("year", 2024), ["O'Brien 50%_x", "My Guide"]),
        (MetadataAfter("day", "2026-01-01"), ["My Guide"]),
        (MetadataAfter("day", 5), []),
        (MetadataBefore("none", 5), []),
        (AllOf(()), ["O'Brien 50%_x", "Introduction", "My Guide"]),
        (AnyOf(()), []),
        (AllOf((MetadataEquals("lang", "en"), UriPrefix("https"))), ["My Guide"]),
        (AnyOf((NameContains("intro"), NameContains("guide"))), ["Introduction", "My Guide"]),
        (AnyOf(tuple(NameContains(f"no {number}") for number in range(1_100))), []),
    ]
    for where, expected in rows:
        assert await titles(store, where) == expected, where
        assert (await store.documents(limit=0, where=where)).total == len(expected)
        hits = await store.search("install installieren guide tables start", where=where)
        assert {hit.chunk.document.title for hit in hits} == set(expected), where
        for one, texts in LIBRARY:
            is_allowed = one.title in expected
            assert (await store.find(one.uri, where=where) is not None) == is_allowed
            assert (await store.chunk(chunks(one, texts)[0].id, where=where) is not None) == is_allowed


async def test_a_document_is_found_by_address_then_by_name(store: DocumentStore) -> None:
    await filled(store)
    other = document("file:///my guide.md", "Notes")
    await store.save(other, [])
    rows = {
        "https://b.test/guide": "My Guide",
        "myguide": "Notes",
        "my guide": "Notes",
        "INTRODUCTION": "Introduction",
        "50%_x": "O'Brien 50%_x",
        "50__x": None,
        "": None,
        " ": None,
    }
    for name, title in rows.items():
        found = await store.find(name)
        assert (found.title if found else None) == title, name


async def test_documents_are_listed_in_pages(store: DocumentStore) -> None:
    for number in range(7):
        await store.save(document(f"file:///{number}.md"), [])
    page = await store.documents(offset=4, limit=2)
    assert ([one.uri for one in page.documents], page.total) == (["file:///4.md", "file:///5.md"], 7)
    assert (await store.documents(offset=9)).documents == ()


async def test_a_search_ranks_and_counts(store: DocumentStore) -> None:
    await filled(store)
    hits = await store.search("how do I install it?", limit=2)
    assert hits[0].chunk.text == "Install the package."
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert min(hits[0].ranks.values()) == 1
    assert len(await store.search("install guide tables", limit=1)) == 1
    for query, limit in (("", 5), ("  ", 5), ("install", 0), ("install", -1)):
        assert list(await store.search(query, limit=limit)) == []
    cjk = document("file:///ja.md", "\u65e5\u672c")
    await store.save(cjk, chunks(cjk, ["\u5168\u6587\u691c\u7d22\u306e\u8aac\u660e", "\u4ed6\u306e\u8a71"]))
    assert (await store.search("\u691c\u7d22"))[0].chunk.text.startswith("\u5168\u6587\u691c\u7d22")


values = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(min_value=-3, max_value=3),
    st.floats(allow_nan=False),
    st.sampled_from(["", "a", "b\0", "b", "\u00e9", "2026-01-01"]),
    st.text(max_size=4),
)
keys = st.sampled_from(["k", "k\0", "'"])
names = st.sampled_from(["", "a", "a\ud7ff", "a\U0010ffff", "B", "%", "_", "a b", "\0", "\u00df", "/"])
single: st.SearchStrategy[Filter] = st.one_of(
    st.builds(NameContains, names),
    st.builds(UriPrefix, names),
    st.builds(MetadataEquals, keys, values),
    st.builds(MetadataIn, keys, st.lists(values, max_size=3).map(tuple)),
    st.builds(MetadataBefore, keys, values),
    st.builds(MetadataAfter, keys, values),
)
filters = st.recursive(
    single,
    lambda inner: st.one_of(
        st.builds(AllOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
edges = st.sampled_from(["\ud7ff", "\ud7ffx", "\ue000", "\U0010ffff", "\U0010ffffx"])
documents = st.builds(
    lambda uri, title, metadata: document(uri, title, **metadata),
    st.one_of(st.text(max_size=4), st.sampled_from(["\ud7ff", "\ud7ffx", "\ue000", "\U0010ffff", "\U0010ffffx"])).map(
        "a{}".format
    ),
    st.text(max_size=4),
    st.dictionaries(keys, values, max_size=2),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(documents, filters), min_size=5, max_size=15))
@pytest.mark.parametrize("name", [lane for lane in LANES if lane != "sqlite-embeddings"])
def test_a_filter_means_the_same_as_its_definition(
    name: str, tmp_path: Path, rows: list[tuple[StoredDocument, Filter]]
) -> None:
    """Compare each filter, as each store applies it, with the pure function."""

    async def compare(made: Callable[[Path], DocumentStore], folder: Path) -> None:
        store = made(folder)
        kept = {one.uri.encode("utf-8", "replace").decode(): one for one, _ in rows}
        for one in kept.values():
            await store.save(one, [])
        for _, where in rows:
            found = {one.id for one in (await store.documents(limit=99, where=where)).documents}
            assert found == {one.id for one in kept.values() if matches(one, where)}, where
        for one in kept.values():
            assert await store.remove(one.uri)
        await store.close()

    asyncio.run(compare(STORES[name], tmp_path))


async def test_hostile_texts_find_only_what_the_filter_allows(store: DocumentStore) -> None:
    await filled(store)
    allowed = {"Introduction"}
    base = NameContains("intro")
    for text in HOSTILE:
        inner: list[Filter] = [NameContains(text), UriPrefix(text), MetadataEquals(text, text)]
        inner += [MetadataIn(text, (text,)), MetadataBefore("lang", text), MetadataAfter("lang", text)]
        wheres: list[Filter] = [base, *(AllOf((base, one)) for one in inner)]
        for where in wheres:
            found = await store.documents(where=where)
            hits = await store.search(f"{text} install guide", where=where)
            assert {one.title for one in found.documents} <= allowed
            assert {hit.chunk.document.title for hit in hits} <= allowed
            outside = await store.find(text, where=where)
            assert outside is None or outside.title in allowed
            assert await store.chunk(text, where=where) is None
        assert list(await store.chunks(text)) == []
        assert not await store.remove(text)
        one = document(f"file:///hostile/{text}", text, note=text)
        await store.save(one, chunks(one, [text]))
        assert await store.remove(one.uri)
    assert (await store.documents()).total == len(LIBRARY)


async def test_searches_and_saves_run_at_once(store: DocumentStore) -> None:
    async def save(number: int) -> None:
        one = document(f"file:///{number}.md", tag=number % 5)
        await store.save(one, chunks(one, [f"apples of tree {number}", "pears"]))

    async def search(number: int) -> None:
        hits = await store.search("apples", limit=20, where=MetadataEquals("tag", number % 5))
        assert {hit.chunk.document.metadata["tag"] for hit in hits} <= {number % 5}

    async with asyncio.timeout(60):
        await asyncio.gather(*(save(number) for number in range(30)), *(search(number) for number in range(50)))
    assert (await store.documents()).total == 30
    assert len(await store.search("apples", limit=50)) >= 30


async def test_a_closed_store_says_so(store: DocumentStore) -> None:
    await filled(store)
    await store.close()
    await store.close()
    calls: list[Callable[[], Any]] = [
        lambda: store.search("x"),
        lambda: store.documents(),
        lambda: store.save(LIBRARY[0][0], []),
        lambda: store.chunks("x"),
    ]
    for call in calls:
        with pytest.raises(DocumentStoreError, match="closed"):
            await call()


async def test_another_opening_of_the_store_sees_its_documents(store: DocumentStore, tmp_path: Path) -> None:
    await filled(store)
    name = type(store).__name__
    other = next(made for key, made in STORES.items() if type(made(tmp_path / "x")).__name__ == name)(tmp_path)
    hits = await other.search("install")
    assert hits[0].chunk.text == "Install the package."
    await store.remove(LIBRARY[0][0].uri)
    assert not [hit for hit in await other.search("install") if hit.chunk.document.title == "Introduction"]
    await other.close()


WRITER = """
import asyncio, sys
from pathlib import Path
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from tests.documents.sample_documents import chunks, document, letters

async def main():
    store = SqliteDocuments(Path(sys.argv[1]), embedder=letters)
    for number in range(40):
        one = document(f"file:///{number}.md")
        await store.save(one, chunks(one, [f"apples {number}", "pears"]))
    await store.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_three_processes_write_one_file(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "documents.db"
    command = [sys.executable, "-c", WRITER, str(file)]
    started = [subprocess.Popen(command, cwd=Path(__file__).parents[2]) for _ in range(3)]
    assert [process.wait(100) for process in started] == [0, 0, 0]

    async def check() -> None:
        store = SqliteDocuments(file, embedder=letters)
        assert (await store.documents()).total == 40
        assert await store.count_chunks() == (80, 80)
        hits = await store.search("apples", limit=50)
        assert ["apples" in hit.chunk.text for hit in hits[:40]] == [True] * 40
        await store.close()

    asyncio.run(check())
