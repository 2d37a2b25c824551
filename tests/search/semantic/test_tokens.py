"""Word vectors without their library and without numpy: the same tokens and cosines, from files read in place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcpagent.errors import ConfigError
from mcpagent.search import ToolIndex
from mcpagent.search.semantic.embedding import StaticEmbedder, static_model_folder
from mcpagent.search.semantic.tokens import Tokens, open_tokens
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

pytest.importorskip("numpy", reason="needs mcpagent[semantic]")
tokenizers = pytest.importorskip("tokenizers")
FOLDER = static_model_folder()
if FOLDER is None:
    pytest.skip("needs mcpagent[semantic]", allow_module_level=True)
FILE = FOLDER / "tokenizers" / "l2_supercat_tokenizer_config.json"
LIBRARY = tokenizers.Tokenizer.from_file(str(FILE))
OURS = open_tokens(FILE, None)
TOOLS = [
    ToolDefinition(f"{verb}_{thing}", f"{verb} a {thing} of {place}", {"properties": {"id": {}}}, place)
    for place in ("the office", "Zürich")
    for verb in ("buy", "mend", "paint", "sell")
    for thing in ("chair", "lamp", "wall", "fence")
]


def index_of(strategy: str, folder: Path | None = None, tools: list[ToolDefinition] = TOOLS) -> ToolIndex:
    index = ToolIndex(strategy, cache_folder=folder)  # type: ignore[arg-type]
    for server in sorted({tool.server or "" for tool in tools}):
        index.replace(server, [tool for tool in tools if tool.server == server])
    return index


@pytest.mark.slow
@settings(max_examples=120)
@given(
    st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), max_size=12) | st.from_regex(r"[a-zA-Z_0-9-]{1,20}")
)
@example("<s>x</s><unk>")
@example("\u2581\u2581x<0x41>🧨é")
def test_tokens_are_those_of_the_library(word: str) -> None:
    for part in word.split():
        assert list(OURS.encode(part)) == LIBRARY.encode(part, add_special_tokens=False).ids


@given(st.text(max_size=40))
def test_any_text_has_a_vector(text: str) -> None:
    (row,) = StaticEmbedder().plain([text])
    assert len(row) == 256
    assert sum(value * value for value in row) == pytest.approx(1, abs=1e-5) or not any(row)


def test_vectors_are_the_same_with_numpy_and_without() -> None:
    embedder = StaticEmbedder()
    texts = ["", "send a message", "Zürich", "x" * 300, "list the open issues of a repository"]
    for plain, row in zip(embedder.plain(texts), embedder(texts).tolist(), strict=True):
        assert list(plain) == pytest.approx(row, abs=1e-6)


def test_results_are_the_same_for_few_tools_and_when_they_become_many(tmp_path: Path) -> None:
    index = index_of("hybrid", tmp_path)
    queries = ["repair furniture", "get rid of a light", "colour on something"]
    few = [index.search(query) for query in queries]
    more = [ToolDefinition(f"zz_{number}", f"nothing {number}", {}, "zz") for number in range(130)]
    index.replace("zz", more)
    index.search("nothing")
    index.replace("zz", [])
    for query, before in zip(queries, few, strict=True):
        after = index.search(query)
        assert after.names == before.names
        assert [one.score for one in after.matches] == pytest.approx([one.score for one in before.matches], abs=1e-5)


def test_a_small_catalogue_needs_no_numpy_and_no_library(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from mcpagent.values.messages import ToolDefinition\n"
        "from mcpagent.search import ToolIndex\n"
        "index = ToolIndex('hybrid', cache_folder=Path(sys.argv[1]))\n"
        "index.replace('a', [ToolDefinition('paint_wall', 'Put colour on a wall', {}, 'a')])\n"
        "assert index.search('redecorate the wall').names == ('paint_wall',)\n"
        "print({'numpy', 'tokenizers', 'wordllama'} & sys.modules.keys())"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60)
        assert done.stdout.splitlines()[-1:] == ["set()"], done.stderr
    assert len(list(tmp_path.glob("tokens-*.bin"))) == 1


@pytest.fixture(scope="module")
def kept_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that is kept of the library's, which takes a third of a second to make."""
    folder = tmp_path_factory.mktemp("tokens")
    open_tokens(FILE, folder)
    (kept,) = folder.iterdir()
    return kept


@each_row("damage", [b"", b"\x00" * 64, b"garbage" * 1000])
def test_a_damaged_file_is_made_again(tmp_path: Path, kept_tokens: Path, damage: bytes) -> None:
    kept = tmp_path / kept_tokens.name
    kept.write_bytes(damage)
    assert open_tokens(FILE, tmp_path).encode("message") == OURS.encode("message")
    assert Tokens(memoryview(kept.read_bytes())).encode("message") == OURS.encode("message")


def test_another_tokenizer_is_told(tmp_path: Path) -> None:
    (tmp_path / "tokenizers").mkdir()
    (tmp_path / "weights").symlink_to(FILE.parent.parent / "weights")
    (tmp_path / "tokenizers" / FILE.name).write_text('{"model": {"type": "Unigram"}}')
    with pytest.raises(ConfigError, match="not a tokenizer that is known"):
        StaticEmbedder(tmp_path)
