"""The vectors of the indexed tools, and the search for the tools closest to a query's vector."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import zip_longest
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mcpagent.errors import ConfigError
from mcpagent.search.constants import FITTED
from mcpagent.search.fields import MAX_NAME, local_name, parameters
from mcpagent.search.odds import OF_WORDS, Cosines
from mcpagent.search.postings import ComputedCache
from mcpagent.search.semantic.embedding import (
    Embedder,
    EmbeddingError,
    MultilingualEmbedder,
    Row,
    StaticEmbedder,
    embedder_name,
    has_multilingual_model,
    static_model_folder,
    unit_row,
    unit_rows,
)
from mcpagent.search.semantic.sentences import SentenceEmbedder, sentence_model_folder
from mcpagent.search.semantic.vector_cache import VectorCache
from mcpagent.search.words import spoken
from mcpagent.utilities.text.safe_text import without_halves
from mcpagent.values.messages import ToolDefinition

if TYPE_CHECKING:
    from mcpagent.search.semantic.embedding import Matrix

Vector: TypeAlias = "Row | Matrix"
"""The vector of a text: a `Row` if numpy is not used, else a row of a matrix."""

_DESCRIPTION = 400
_PARAMETERS = 200
_PARTS: Mapping[str, float] = FITTED["vector parts"]
"""Weight of each part of a tool (name, description, ...) in the tool's vector."""

_BETWEEN = "\x1f"
_FEW_TOOLS = 128
"""Maximum number of tools without numpy: for so few tools, hundreds of searches take less time than importing it."""

_MOST_OF_SENTENCES = 100
"""Maximum number of tools for which "auto" uses a sentence encoder, which takes 10 to 60 ms once for each tool."""

_SOME = 16
_WORD = re.compile(r"[^\W_]+")


def vectors_for(
    strategy: object, embedder: Embedder | None, cache_folder: Path | None
) -> Stages:
    """Return the vectors that this strategy uses. Raises `ConfigError` if its model is not installed."""
    if strategy == "auto" and embedder is None:
        return _installed(cache_folder)
    if strategy not in ("auto", "hybrid", "multilingual", "sentences"):
        return Stages()
    if strategy == "multilingual" and embedder is None:
        embedder = MultilingualEmbedder()
    if strategy == "sentences" and embedder is None:
        embedder = SentenceEmbedder()
    if find_spec("numpy") is None:
        raise ConfigError(
            'strategy "hybrid": numpy is not installed; pip install "numpy>=2" "wordllama<0.5"'
        )
    if embedder is None and static_model_folder() is None:
        raise ConfigError(
            'strategy "hybrid": the word vectors are not installed; pip install "numpy>=2" "wordllama<0.5"'
        )
    return Stages(Vectors(embedder, cache_folder))


def _installed(cache_folder: Path | None) -> Stages:
    """Return the installed word vectors, and the vectors of the best installed sentence encoder."""
    quick = better = None
    if static_model_folder() is not None:
        quick = Vectors(None, cache_folder)
    if sentence_model_folder() is not None:
        better = Vectors(SentenceEmbedder(), cache_folder)
    elif has_multilingual_model():
        better = Vectors(MultilingualEmbedder(), cache_folder)
    return Stages(quick, better)


def tool_parts(tool: ToolDefinition, examples: Sequence[str] = ()) -> dict[str, str]:
    """Return the texts of a tool that are embedded, by the names of its parts (`_PARTS`)."""
    return {
        "name": spoken(local_name(tool)[:MAX_NAME]),
        "description": tool.description[:_DESCRIPTION],
        "server": spoken(tool.server or ""),
        "parameters": " ".join(name for name, _ in parameters(tool.parameters))[
            :_PARAMETERS
        ],
        "examples": "\n".join(examples),
    }


class Vectors:
    """Unit vectors by tool number. New tools are embedded together at the next search."""

    def __init__(
        self, embedder: Embedder | None = None, cache_folder: Path | None = None
    ) -> None:
        self.embedder = embedder
        self._cache_folder = cache_folder
        self._cache = VectorCache(cache_folder) if cache_folder else None
        self._few: dict[int, Row] = {}
        self._waiting: dict[int, tuple[ToolDefinition, Sequence[str]]] = {}
        self._rows: dict[int, int] = {}
        self._numbers: list[int] = []
        self._matrix: Matrix | None = None

    @property
    def cosines(self) -> Cosines:
        """The calibration of the embedder's cosines."""
        found = getattr(self._model(), "cosines", OF_WORDS)
        if isinstance(found, Cosines):
            return found
        return OF_WORDS

    def corrected(self, text: str, words: Mapping[str, str]) -> str:
        """Return the text with corrections applied to words that the model splits into more tokens than the correction.

        `words` maps words to corrections. An embedder without `pieces` leaves the text unchanged.
        """
        pieces = getattr(self._model(), "pieces", None)
        if not words or pieces is None:
            return text
        unknown = {
            word: meant for word, meant in words.items() if pieces(word) > pieces(meant)
        }
        return _WORD.sub(lambda word: unknown.get(word[0], word[0]), text)

    def add(
        self, number: int, tool: ToolDefinition, examples: Sequence[str] = ()
    ) -> None:
        """Add the tool; it is embedded at the next search."""
        self._waiting[number] = tool, examples

    def remove(self, number: int) -> None:
        """Remove the tool, even if it is not embedded yet."""
        if (
            self._waiting.pop(number, None) is not None
            or self._few.pop(number, None) is not None
        ):
            return
        if self._matrix is None:
            return
        row, last = self._rows.pop(number), self._numbers.pop()
        if last != number:
            self._numbers[row] = last
            self._rows[last] = row
            self._matrix[row] = self._matrix[len(self._numbers)]

    @property
    def are_few(self) -> bool:
        """Return whether there are few enough tools for a sentence encoder to embed them in a few seconds."""
        held = len(self._few) + len(self._numbers) + len(self._waiting)
        return held <= _MOST_OF_SENTENCES

    def of(
        self, queries: Sequence[str], numbers: Collection[int] | None = None
    ) -> Sequence[Vector]:
        """Return the vectors of the queries, which `closest` and `likeness` compare with those of tools.

        Tools that are not embedded yet are embedded first: all, or with `numbers` only these. Raises `EmbeddingError`
        if the embedder fails.
        """
        model = self._model()
        if self.few() is not None and isinstance(model, StaticEmbedder):
            return model.plain(queries)
        self._embed_waiting(numbers)
        return list(self.query_vectors(queries))

    def closest(
        self, query: Vector, limit: int, also: Iterable[int] = ()
    ) -> dict[int, float]:
        """Return cosines by tool number: of the `limit` closest tools, and of the tools in `also`."""
        if (few := self.few()) is not None:
            return _closest_of_few(few, query, limit, also)
        rows, numbers, row_of = self._all()
        if rows is None:
            return {}
        return _closest(_products(rows, query), numbers, row_of, limit, also)

    def _all(self) -> tuple[Matrix | None, Sequence[int], Callable[[int], int]]:
        """Return the vectors of all tools as rows, their tool numbers, and a function from tool number to row."""
        rows = None
        if self._matrix is not None and self._numbers:
            rows = self._matrix[: len(self._numbers)]
        return rows, self._numbers, self._rows.__getitem__

    def likeness(
        self, queries: Sequence[Vector], numbers: Sequence[int]
    ) -> list[dict[int, float]]:
        """Return, for each query, the cosines of these tools by tool number."""
        if (few := self.few()) is not None:
            some = {number: few[number] for number in numbers}
            return [_near(some, query) for query in queries]
        rows = self.rows(numbers)
        if rows is None:
            return [{} for _ in queries]
        import numpy as np

        products = _products(rows, np.stack(queries)[:, None]).tolist()
        return [dict(zip(numbers, row, strict=True)) for row in products]

    def rows(self, numbers: Sequence[int]) -> Matrix | None:
        """Return the vectors of these tools, one row each; None without tools.

        Raises `EmbeddingError` if the embedder fails.
        """
        self._embed_waiting(numbers)
        if self._matrix is None or not numbers:
            return None
        rows: Matrix = self._matrix[[self._rows[number] for number in numbers]]
        return rows

    def query_vectors(self, queries: Sequence[str]) -> Matrix:
        """Return the vectors of the queries as rows. Raises `EmbeddingError` if the embedder fails."""
        vectors = self._embed(queries)
        if self._matrix is not None and vectors.shape[1] != self._matrix.shape[1]:
            raise EmbeddingError(
                f"vectors of {vectors.shape[1]} and of {self._matrix.shape[1]} numbers"
            )
        return vectors

    def few(self) -> Mapping[int, Row] | None:
        """Return the vectors of all tools if there are so few that numpy is not needed, else None."""
        if self._matrix is not None or len(self._few) + len(self._waiting) > _FEW_TOOLS:
            return None
        model = self._model()
        if not isinstance(model, StaticEmbedder):
            return None
        if self._waiting:
            texts = [_as_parts(tool_parts(*tool)) for tool in self._waiting.values()]
            rows = self._cached(
                texts, lambda some: list(map(bytes, _mixed(model, some)))
            )
            self._few |= zip(
                self._waiting, (array("f", row) for row in rows), strict=True
            )
            self._waiting = {}
        return self._few

    def _embed_waiting(self, numbers: Collection[int] | None) -> None:
        """Embed the tools that have no vector yet; with `numbers`, only these."""
        import numpy as np

        if self._few:  # too many tools to continue without numpy
            self._matrix = np.stack(
                [np.frombuffer(row, dtype=np.float32) for row in self._few.values()]
            )
            self._numbers = list(self._few)
            self._rows = {number: row for row, number in enumerate(self._numbers)}
            self._few = {}
        wanted = set(self._waiting)
        if numbers is not None:
            wanted &= set(numbers)
        waiting = {number: self._waiting[number] for number in sorted(wanted)}
        if not waiting:
            return
        rows = self._tool_vectors([tool_parts(*tool) for tool in waiting.values()])
        used = len(self._numbers)
        if self._matrix is None or used == 0:
            self._matrix = rows
        else:
            self._matrix = np.concatenate([self._matrix[:used], rows])
        for number in waiting:
            del self._waiting[number]
            self._rows[number] = len(self._numbers)
            self._numbers.append(number)

    def _tool_vectors(self, parts: Sequence[Mapping[str, str]]) -> Matrix:
        import numpy as np

        by_parts = getattr(self._model(), "by_parts", False)
        if by_parts:
            embed = self._embed_mixed
        else:
            embed = self._embed
        texts = list(map(_as_parts if by_parts else _as_one, parts))
        rows = self._cached(texts, lambda some: [row.tobytes() for row in embed(some)])
        return (
            np.frombuffer(b"".join(rows), dtype=np.float32)
            .reshape(len(texts), -1)
            .copy()
        )

    def _cached(
        self, texts: Sequence[str], embed: Callable[[Sequence[str]], list[bytes]]
    ) -> list[bytes]:
        model = self._model()
        if getattr(model, "by_parts", False):
            name = f"{embedder_name(model)} {_PARTS}"
        else:
            name = embedder_name(model)
        return (
            embed(texts)
            if self._cache is None
            else self._cache.vectors(name, texts, embed)
        )

    def _embed_mixed(self, texts: Sequence[str]) -> Matrix:
        """Return the vectors of tools: the weighted sums of the vectors of their parts.

        A text has the parts of a tool in the order of `_PARTS`, joined by `_BETWEEN`.
        """
        parts = list(
            zip_longest(*(text.split(_BETWEEN) for text in texts), fillvalue="")
        )
        mixed = self._embed(parts[0]) * next(iter(_PARTS.values()))
        for part, weight in list(zip(parts, _PARTS.values(), strict=False))[1:]:
            mixed += self._embed(part) * weight
        return unit_rows(mixed)

    def _model(self) -> Embedder:
        if self.embedder is None:
            self.embedder = StaticEmbedder(cache=self._cache_folder)
        return self.embedder

    def _embed(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        embedder = self._model()
        try:
            rows = np.asarray(
                embedder([without_halves(text) for text in texts]), dtype=np.float32
            )
        except EmbeddingError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything; the search works without it
            raise EmbeddingError(
                f"{embedder_name(embedder)}: {type(error).__name__}: {error}"
            ) from None
        if rows.ndim != 2 or rows.shape[0] != len(texts) or not np.isfinite(rows).all():
            raise EmbeddingError(
                f"{embedder_name(embedder)}: not one vector of finite numbers per text"
            )
        return unit_rows(rows)


def _as_parts(part: Mapping[str, str]) -> str:
    return without_halves(
        _BETWEEN.join(part[key].replace(_BETWEEN, " ") for key in _PARTS)
    )


def _mixed(model: StaticEmbedder, texts: Sequence[str]) -> Iterable[Row]:
    """Yield the vectors of `_embed_mixed`, computed without numpy."""
    known: dict[str, Row] = ComputedCache(lambda text: model.plain([text])[0])
    for text in texts:
        parts = zip_longest(text.split(_BETWEEN), _PARTS.values(), fillvalue="")
        rows = [
            [float(weight) * value for value in known[part]]
            for part, weight in parts
            if weight
        ]
        yield unit_row([*map(sum, zip(*rows, strict=True))])


def _as_one(part: Mapping[str, str]) -> str:
    said = (
        f"{part['server']} {part['name']}: {part['description']} {part['parameters']}"
    )
    if part["examples"]:
        return f"{said}\n{part['examples']}"
    return said


class VectorsOfSome(Vectors):
    """A read-only view of the vectors of some tools in `whole`, by their numbers there."""

    def __init__(self, whole: Vectors, held: Sequence[int]) -> None:
        super().__init__(whole.embedder)
        self._whole, self._held = whole, held

    @property
    def are_few(self) -> bool:
        """Return whether these tools are few enough for a sentence encoder."""
        return len(self._held) <= _MOST_OF_SENTENCES

    def of(
        self, queries: Sequence[str], numbers: Collection[int] | None = None
    ) -> Sequence[Vector]:
        """Return the vectors of the queries. If tools of the whole index are not embedded yet, only the tools of this
        view, or those in `numbers`, are embedded first.
        """
        return self._whole.of(queries, self._held if numbers is None else numbers)

    def few(self) -> Mapping[int, Row] | None:
        """Return the vectors of these tools if the whole index needs no numpy, else None."""
        few = self._whole.few()
        if few is None:
            return None
        return {number: few[number] for number in self._held}

    def rows(self, numbers: Sequence[int]) -> Matrix | None:
        """Return the vectors of these tools, one row each."""
        return self._whole.rows(numbers)

    def _all(self) -> tuple[Matrix | None, Sequence[int], Callable[[int], int]]:
        return (
            self._whole.rows(self._held),
            self._held,
            lambda number: bisect_left(self._held, number),
        )


class Stages(NamedTuple):
    """The vectors of an index. `quick` ones rank first; `better` ones rank again if the best match is weak."""

    quick: Vectors | None = None
    better: Vectors | None = None

    def add(
        self, number: int, tool: ToolDefinition, examples: Sequence[str] = ()
    ) -> None:
        """Add the tool to both kinds of vectors."""
        for vectors in filter(None, self):
            vectors.add(number, tool, examples)

    def remove(self, number: int) -> None:
        """Remove the tool from both kinds of vectors."""
        for vectors in filter(None, self):
            vectors.remove(number)

    def of_some(self, held: Sequence[int]) -> Stages:
        """Return a view of these tools alone."""
        quick = better = None
        if self.quick is not None:
            quick = VectorsOfSome(self.quick, held)
        if self.better is not None:
            better = VectorsOfSome(self.better, held)
        return Stages(quick, better)


def _near(rows: Mapping[int, Row], vector: Vector) -> dict[int, float]:
    return {number: sum(map(mul, row, vector)) for number, row in rows.items()}


def _closest_of_few(
    rows: Mapping[int, Row], vector: Vector, limit: int, also: Iterable[int]
) -> dict[int, float]:
    near, wanted = _near(rows, vector), set(also)
    if limit < len(near):
        floor = sorted(near.values())[-limit]
    else:
        floor = -math.inf
    return {
        number: close
        for number, close in near.items()
        if close >= floor or number in wanted
    }


def _closest(
    likeness: Matrix,
    numbers: Sequence[int],
    row_of: Callable[[int], int],
    limit: int,
    also: Iterable[int],
) -> dict[int, float]:
    import numpy as np

    near = np.flatnonzero(likeness >= _nth_highest(likeness, limit))
    found = {
        numbers[row]: close
        for row, close in zip(near.tolist(), likeness[near].tolist(), strict=True)
    }
    others = [number for number in also if number not in found]
    found.update(
        zip(
            others,
            likeness[[row_of(number) for number in others]].tolist(),
            strict=True,
        )
    )
    return found


def _nth_highest(likeness: Matrix, rank: int) -> float:
    """Return the `rank`th highest value; the lowest one if there are fewer."""
    import numpy as np

    if rank >= len(likeness):
        return float(likeness.min())
    some = likeness[::_SOME]
    if (
        rank < len(some)
    ):  # a value that `rank` of a sample reach is not too high, and few of all values reach it
        likeness = likeness[likeness >= _nth_highest(some, rank)]
    return float(np.partition(likeness, len(likeness) - rank)[len(likeness) - rank])


def _products(matrix: Matrix, vector: Vector) -> Matrix:
    """Multiply each row by the vector, or by each of several, in this thread: a second BLAS thread would cost more."""
    import numpy as np

    products: Matrix = np.vecdot(matrix, np.asarray(vector))
    return products
