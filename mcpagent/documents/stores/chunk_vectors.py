"""Vectors of chunks: float16 in the file, one matrix in memory, and the chunks nearest to a query."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mcpagent.documents.document_values import Chunk
from mcpagent.search.semantic.embedding import (
    Embedder,
    MultilingualEmbedder,
    StaticEmbedder,
    embedder_name,
    has_multilingual_model,
    static_model_folder,
    unit_rows,
)
from mcpagent.search.words import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    Numbers = NDArray[np.int64]


_VERSION = 1
"""The version of the computation below, part of the encoder's name."""

_HEADING_WEIGHT = 0.5
"""The weight of a chunk's last heading in its vector. It was chosen with questions about the documentation of mcpagent.
"""

_WORD = re.compile(r"\w+")


def _telling(text: str) -> str:
    """Return the text without words such as "the". In a sum of word vectors, each word has the same weight, so these
    words would hide the others.
    """
    words = [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
    return " ".join(words) or text


def installed_embedder() -> Embedder | None:
    """Return the encoder of `mcpagent[semantic]`, else that of `mcpagent[multilingual]`, else None."""
    if static_model_folder() is not None:
        return StaticEmbedder()
    if has_multilingual_model():
        return MultilingualEmbedder()
    return None


class ChunkVectors:
    """The vectors that one encoder computed. A search reads only the vectors that were added since the last search."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._state = -1

    @cached_property
    def encoder(self) -> str:
        """The name that identifies the vectors in the file."""
        return f"{embedder_name(self._embedder)} {_VERSION}"

    def encode(self, chunks: Sequence[Chunk]) -> list[bytes]:
        """Return a vector for each chunk, as the bytes of float16 numbers."""
        import numpy as np

        if not chunks:
            return []
        return [row.tobytes() for row in self.rows_of(chunks).astype(np.float16)]

    def rows_of(self, chunks: Sequence[Chunk]) -> Matrix:
        """Return unit vectors of chunks."""
        import numpy as np

        if not chunks:
            return np.empty((0, 0), np.float32)
        texts = [
            "\n".join([chunk.document.title, *chunk.section, chunk.text])
            for chunk in chunks
        ]
        headings = [
            chunk.section[-1] if chunk.section else chunk.document.title
            for chunk in chunks
        ]
        return unit_rows(self.rows(texts) + _HEADING_WEIGHT * self.rows(headings))

    def rows(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors of texts."""
        import numpy as np

        if isinstance(self._embedder, StaticEmbedder):
            texts = [_telling(text) for text in texts]
        return unit_rows(np.asarray(self._embedder(texts), dtype=np.float32))

    def nearest(
        self,
        connection: sqlite3.Connection,
        query: str,
        count: int,
        allowed: Collection[int] | None,
    ) -> list[int]:
        """Return the numbers of the nearest chunks, the nearest first. `allowed` has the numbers to choose from (None:
        all).
        """
        import numpy as np

        [asked] = self.rows([query])
        with self._lock:
            self._refresh(connection)
            numbers, matrix = self._numbers, self._matrix
        if not len(numbers) or not asked.any():
            return []
        cosines = matrix @ asked
        if allowed is not None:
            permitted = np.fromiter(allowed, np.int64, len(allowed))
            cosines = np.where(np.isin(numbers, permitted), cosines, -np.inf)
        count = min(count, len(numbers))
        best = np.argpartition(-cosines, count - 1)[:count]
        best = best[np.lexsort((numbers[best], -cosines[best]))]
        return [int(numbers[place]) for place in best if cosines[place] > 0]

    def _refresh(self, connection: sqlite3.Connection) -> None:
        """Update the matrix to the vectors in the file. The file never reuses a chunk's number, and new numbers are
        higher.
        """
        import numpy as np

        [state] = connection.execute("PRAGMA data_version").fetchone()
        if state == self._state:
            return
        if self._state == -1:
            self._numbers, self._matrix = (
                np.empty(0, np.int64),
                np.empty((0, 0), np.float32),
            )
        rows = connection.execute(
            "SELECT chunk FROM vectors WHERE encoder = ? ORDER BY chunk",
            (self.encoder,),
        )
        current = np.fromiter((number for (number,) in rows), np.int64)
        kept = np.isin(self._numbers, current)
        numbers, matrix = self._numbers[kept], self._matrix[kept]
        self._numbers, self._matrix = self._with_new(connection, numbers, matrix)
        self._state = state

    def _with_new(
        self, connection: sqlite3.Connection, numbers: Numbers, matrix: Matrix
    ) -> tuple[Numbers, Matrix]:
        """Return the numbers and the matrix, extended by the vectors in the file with higher numbers."""
        import numpy as np

        last = -1
        if len(numbers):
            last = int(numbers[-1])
        fresh = connection.execute(
            "SELECT chunk, vector FROM vectors WHERE encoder = ? AND chunk > ? ORDER BY chunk",
            (self.encoder, last),
        ).fetchall()
        if fresh:
            added = np.frombuffer(b"".join(row[1] for row in fresh), np.float16)
            added = added.reshape(len(fresh), -1).astype(np.float32)
            matrix = np.concatenate(
                [matrix.reshape(len(numbers), added.shape[1]), added]
            )
            numbers = np.concatenate(
                [numbers, np.fromiter((row[0] for row in fresh), np.int64)]
            )
        return numbers, matrix
