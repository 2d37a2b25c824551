"""Two stages of vectors: a prompt is ranked by the quick ones, a search by the better ones, whatever the clock says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mcpagent.search.indexed import Indexed
from mcpagent.search.meaning.vectors import Vectors, VectorsOfSome
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

np = pytest.importorskip("numpy")


class Embedder:
    """Puts texts that hold its word near one another, and counts the texts that it was given."""

    def __init__(self, word: str) -> None:
        self.word, self.texts = word, 0

    def __call__(self, texts: Sequence[str]) -> object:
        self.texts += len(texts)
        return [[1.0, 0.0] if self.word in text or text == "asked" else [0.0, 1.0] for text in texts]


def held(count: int) -> tuple[Indexed, Vectors, Embedder]:
    later = Embedder("better")
    vectors = Vectors(Embedder("quick"), None, Vectors(later))
    indexed = Indexed(vectors, None, None, lambda _tool: ())
    tools = [ToolDefinition("a", "quick", {}, "s"), ToolDefinition("b", "better", {}, "s")]
    tools += [ToolDefinition(f"other_{number}", "else", {}, "s") for number in range(count - len(tools))]
    indexed.replace("s", tools)
    indexed.settle()
    return indexed, vectors, later


@each_row("count, is_prompt, found", [(3, True, "a"), (3, False, "b"), (100, False, "b"), (101, False, "a")])
def test_a_prompt_takes_the_quick_vectors_and_so_do_too_many_tools(count: int, is_prompt: bool, found: str) -> None:
    indexed, _, later = held(count)
    ranking = indexed.ranker.rank("asked", 5, is_prompt=is_prompt)
    best = max(ranking.likeness, key=ranking.likeness.__getitem__)
    assert indexed.tools[best].name == found
    assert (later.texts > 0) == (found == "b")


def test_a_removed_tool_is_gone_from_both() -> None:
    indexed, _, _ = held(3)
    indexed.ranker.rank("asked", 5)
    indexed.replace("s", [ToolDefinition("a", "quick", {}, "s")])
    indexed.settle()
    for is_prompt in (True, False):
        likeness = indexed.ranker.rank("asked", 5, is_prompt=is_prompt).likeness
        assert [indexed.tools[number].name for number in likeness] == ["a"]


def test_of_many_tools_only_those_of_the_session_are_embedded() -> None:
    indexed, vectors, later = held(300)
    some = VectorsOfSome(vectors, [1, 5, 7]).best()
    assert some is not None
    asked = some.of(["asked"])[0]
    assert later.texts == 3 + 1
    assert sorted(some.closest(asked, 3)) == [1, 5, 7]
    assert VectorsOfSome(vectors, list(indexed.tools)).best() is None
