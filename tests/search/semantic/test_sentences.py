"""The sentence encoder in numpy, with a small model made here: what it computes, and what it says of other folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpagent.errors import ConfigError
from mcpagent.search import ToolIndex
from mcpagent.search.semantic.sentences import SentenceEmbedder
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row

np = pytest.importorskip("numpy")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "weather", "for", "##cast", "rain", "cafe", "!", "_", "日", "a", "##b"]
WIDTH, INNER, LAYERS = 8, 16, 2


def model_folder(folder: Path, words: list[str] = WORDS) -> Path:
    """A folder as sentence-transformers writes it, with weights that are always the same."""
    random = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(words), WIDTH),
        "embeddings.position_embeddings.weight": (6, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        pairs: dict[str, tuple[int, int]] = {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (INNER, WIDTH),
            "output.dense": (WIDTH, INNER),
        }
        for part, pair in pairs.items():
            shapes |= {f"{name}.{part}.weight": pair, f"{name}.{part}.bias": pair[:1]}
        for part in ("attention.output", "output"):
            shapes |= {f"{name}.{part}.LayerNorm.weight": (WIDTH,), f"{name}.{part}.LayerNorm.bias": (WIDTH,)}
    header: dict[str, object] = {}
    content = b""
    for name, shape in shapes.items():
        data = random.normal(size=shape).astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(content), len(content) + len(data)]}
        content += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + content)
    (folder / "vocab.txt").write_text("\n".join(words), "utf-8")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 2, "layer_norm_eps": 1e-12}))
    return folder


def test_vectors_have_length_one_and_do_not_depend_on_what_else_is_embedded(tmp_path: Path) -> None:
    embed = SentenceEmbedder(model_folder(tmp_path / "model"))
    rows = embed(["weather", "rain forecast", "  ", "weather"])
    assert rows.shape == (4, WIDTH)
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 1, 0, 1], atol=1e-6)
    assert rows[0].tobytes() == rows[3].tobytes() == embed(["weather"])[0].tobytes()
    assert not np.array_equal(rows[0], rows[1])


@each_row(
    "text, same",
    [
        ("forecast", "FORECAST"),
        ("Café", "cafe"),
        ("rain!", "rain !"),
        ("rain_rain", "rain _ rain"),
        ("日rain", "日 rain"),
        ("unknown", "strange"),
        ("ab", "a" + "b"),
        ("a" * 101, "unknown"),
        ("rain rain rain rain rain rain", "rain rain rain rain"),
    ],
)
def test_texts_of_the_same_tokens_have_the_same_vector(text: str, same: str, tmp_path: Path) -> None:
    embed = SentenceEmbedder(model_folder(tmp_path / "model"))
    one, other = embed([text, same])
    assert one.tobytes() == other.tobytes()


def test_the_order_of_words_matters(tmp_path: Path) -> None:
    one, other = SentenceEmbedder(model_folder(tmp_path / "model"))(["rain weather", "weather rain"])
    assert not np.array_equal(one, other)


def test_a_search_ranks_with_the_model_of_a_folder(tmp_path: Path) -> None:
    index = ToolIndex("hybrid", embedder=SentenceEmbedder(model_folder(tmp_path / "model")), cache_folder=tmp_path)
    index.replace(
        "sky", [ToolDefinition("report", "rain forecast", {}, "sky"), ToolDefinition("other", "!", {}, "sky")]
    )
    result = index.search("rain forecast")
    assert (result.names[0], result.notes) == ("report", ())
    assert any(reason.field == "meaning" for reason in result.matches[0].reasons)


@each_row("words, file", [(WORDS[4:], "vocab.txt"), (WORDS, "config.json"), (WORDS, "model.safetensors")])
def test_another_kind_of_folder_is_told_in_one_line(words: list[str], file: str, tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model", words)
    if file != "vocab.txt":
        (folder / file).write_text("{}")
    with pytest.raises(ConfigError, match="no sentence encoder that is known here") as problem:
        SentenceEmbedder(folder)(["rain"])
    assert "\n" not in str(problem.value)
