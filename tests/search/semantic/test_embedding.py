"""The hybrid ranking: word vectors from the installed package, any embedder, vectors kept on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from mcpagent.errors import ConfigError
from mcpagent.search import EmbeddingsEndpoint, ToolIndex
from mcpagent.search.semantic.embedding import EmbeddingError, static_model_folder
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

pytest.importorskip("numpy", reason="needs mcpagent[semantic]")

TOOLS = [
    ToolDefinition("book_flight", "Reserve a seat on an aeroplane", {}, "travel"),
    ToolDefinition("cook_dinner", "Prepare a meal from a recipe", {}, "home"),
    ToolDefinition("paint_wall", "Put colour on a wall", {}, "home"),
]


class CountingEmbedder:
    """A vector per text: which of three subjects it is about."""

    name = "three subjects"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        subjects = ({"aeroplane", "jet"}, {"meal", "soup"}, {"wall", "fence"})
        return [[float(bool(words & set(text.split()))) + 0.01 for words in subjects] for text in texts]


def index_with(embedder: object, folder: Path | None = None) -> ToolIndex:
    index = ToolIndex("hybrid", embedder=embedder, cache_folder=folder)  # type: ignore[arg-type]
    for server in ("travel", "home"):
        index.replace(server, [tool for tool in TOOLS if tool.server == server])
    return index


def test_meaning_finds_what_no_word_does() -> None:
    result = index_with(CountingEmbedder()).search("jet")
    assert result.names[:1] == ("book_flight",)
    assert result.matches[0].reasons[0].field == "meaning"


def test_only_new_tools_are_embedded_and_removed_ones_are_forgotten() -> None:
    embedder = CountingEmbedder()
    index = index_with(embedder)
    index.search("jet")
    embedder.texts.clear()
    index.replace("home", [TOOLS[2], ToolDefinition("stir_soup", "Stir a pot of soup", {}, "home")])
    assert index.search("soup").names[:1] == ("stir_soup",)
    assert sum("Stir" in text for text in embedder.texts) == 1
    assert not any("wall" in text for text in embedder.texts)
    assert "cook_dinner" not in index.search("meal").names


def test_vectors_are_kept_on_disk_by_content(tmp_path: Path) -> None:
    first, second = CountingEmbedder(), CountingEmbedder()
    index_with(first, tmp_path).search("jet")
    assert index_with(second, tmp_path).search("jet").names[:1] == ("book_flight",)
    assert second.texts == ["jet"]


def test_a_model_changed_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    index_with(CountingEmbedder(), tmp_path).search("jet")

    class Other(CountingEmbedder):
        def __call__(self, texts: Sequence[str]) -> list[list[float]]:
            return [[*reversed(row), 5.0] for row in super().__call__(texts)]

    index = index_with(Other(), tmp_path)
    index.replace("new", [ToolDefinition("mend_fence", "Mend a fence", {}, "new")])
    assert index.search("mend fence").names[:1] == ("mend_fence",)


def test_a_broken_cache_file_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "vectors.sqlite3").write_bytes(b"garbage" * 1000)
    assert index_with(CountingEmbedder(), tmp_path).search("jet").names[:1] == ("book_flight",)


@each_row("wrong", [[[1.0]], "nonsense", [[float("nan")] * 3] * 9, None])
def test_wrong_vectors_leave_the_words(wrong: object) -> None:
    result = index_with(lambda texts: wrong).search("paint wall")
    assert result.names[:1] == ("paint_wall",)
    assert "searched without embeddings" in result.notes[0]


def test_half_a_surrogate_pair_in_one_text_leaves_the_others_their_meaning(tmp_path: Path) -> None:
    """As in a file of example requests: JSON may hold such, and no tokenizer takes it."""

    def strict(texts: Sequence[str]) -> list[list[float]]:
        return CountingEmbedder()([text.encode().decode() for text in texts])

    for folder in (None, tmp_path):
        index = ToolIndex("hybrid", embedder=strict, cache_folder=folder, examples=lambda _tool: ("\ud800 there",))
        index.replace("travel", TOOLS)
        result = index.search("jet \udc00")
        assert (result.names[:1], result.notes) == (("book_flight",), ())


def test_a_failing_embedder_leaves_the_words() -> None:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        raise RuntimeError("no model today")

    result = index_with(embed).search("paint wall")
    assert result.names[:1] == ("paint_wall",)
    assert "no model today" in result.notes[0]


def endpoint(answer: httpx2.Response | None = None, seen: list[httpx2.Request] | None = None) -> EmbeddingsEndpoint:
    def respond(request: httpx2.Request) -> httpx2.Response:
        if seen is not None:
            seen.append(request)
        if answer is not None:
            return answer
        texts = json.loads(request.content)["input"]
        rows = [{"index": place, "embedding": vector} for place, vector in enumerate(CountingEmbedder()(texts))]
        return httpx2.Response(200, json={"data": rows[::-1]})

    client = httpx2.Client(transport=httpx2.MockTransport(respond))
    return EmbeddingsEndpoint("small", base_url="http://127.0.0.1:9/v1", api_key="k", batch_size=2, client=client)


def test_an_endpoint_is_asked_in_batches_and_its_order_kept() -> None:
    seen: list[httpx2.Request] = []
    assert index_with(endpoint(seen=seen)).search("jet").names[:1] == ("book_flight",)
    assert [len(json.loads(request.content)["input"]) for request in seen] == [2, 1, 1]
    assert (seen[0].url.path, seen[0].headers["authorization"]) == ("/v1/embeddings", "Bearer k")
    assert json.loads(seen[0].content)["model"] == "small"


@each_row(
    "answer",
    [httpx2.Response(500), httpx2.Response(200, text="no json"), httpx2.Response(200, json={"data": []})],
)
def test_an_endpoint_that_fails_says_how(answer: httpx2.Response) -> None:
    with pytest.raises(EmbeddingError, match="/v1/embeddings"):
        endpoint(answer)(["a text"])


@pytest.mark.skipif(static_model_folder() is None, reason="needs mcpagent[semantic]")
def test_installed_word_vectors_work_offline_and_auto_takes_them() -> None:
    index = ToolIndex("auto", min_strength=0)
    index.replace("all", [ToolDefinition(tool.name, tool.description, {}, "all") for tool in TOOLS])
    assert index.search("airline ticket").names[:1] == ("book_flight",)
    assert index.search("kitchen food").names[:1] == ("cook_dinner",)


def test_without_vectors_hybrid_says_what_to_install() -> None:
    if static_model_folder() is not None:
        pytest.skip("the word vectors are installed here")
    with pytest.raises(ConfigError, match="semantic"):
        ToolIndex("hybrid")


def test_the_vectors_of_a_large_catalogue_are_kept_too(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    tools = [
        ToolDefinition(f"{verb}_{thing}_{number}", f"{verb} one {thing}", {}, "main")
        for verb in ("get", "send", "move")
        for thing in ("invoice", "picture", "letter")
        for number in range(40)
    ]

    def scores(folder: Path | None) -> list[tuple[str, float]]:
        index = ToolIndex("hybrid", cache_folder=folder, min_strength=0)
        index.replace("main", tools)
        return [(match.tool.name, match.score) for match in index.search("post a photo").matches]

    fresh = scores(None)
    assert fresh
    assert scores(tmp_path) == fresh
    (path,) = tmp_path.glob("vectors*")
    size = path.stat().st_size
    assert size > 4 * 256 * len(tools)
    assert scores(tmp_path) == fresh
    assert path.stat().st_size == size


def test_a_request_of_several_needs_is_embedded_in_one_call() -> None:
    calls: list[Sequence[str]] = []

    class Noting(CountingEmbedder):
        def __call__(self, texts: Sequence[str]) -> list[list[float]]:
            calls.append(texts)
            return super().__call__(texts)

    index = index_with(Noting())
    others = [ToolDefinition(f"filler_{number}", f"Of no use {number}", {}, "others") for number in range(100)]
    index.replace("others", others)  # among many tools the words of the three say enough to be needs
    needs = ("Reserve a seat on an aeroplane.", "Prepare a meal from a recipe.", "Put colour on a wall.")
    index.search("jet")
    calls.clear()
    assert set(index.search(" ".join(needs)).names[:3]) == {tool.name for tool in TOOLS}
    assert [len(texts) for texts in calls] == [1 + len(needs)]
