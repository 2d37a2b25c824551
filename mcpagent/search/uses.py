"""Score tools by earlier use: compare the queries after which a tool was called with the current query."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from mcpagent.search.learning import SearchHistory, remembered_words
from mcpagent.search.meaning.embedding import EmbeddingError, unit_rows
from mcpagent.values.messages import ToolKey

if TYPE_CHECKING:
    from mcpagent.search.meaning.embedding import Matrix
    from mcpagent.search.meaning.vectors import Vectors

MOST_RAISED = 3
"""Tools that one search raises: among five shown, two places at least stay as they were without any history."""

_MOST_EMBEDDED, _MOST_EMBEDDED_SLOWLY = 2_000, 200
"""Queries, the latest ones, that are compared by meaning: with word vectors, and with a model that takes longer."""

_ONCE = 0.6
"""Worth of uses that counts half: a tool used a hundred times is not raised higher than one used ten times."""


_BY_WORDS, _BY_BOTH = 0.6, 0.8
"""Likeness of words alone, and mean of that and of meaning, from which a query counts as the same."""

_UNLIKE, _ALIKE = 0.25, 0.75
"""Cosines at which meaning says nothing, and all."""


class _Use(NamedTuple):
    words: frozenset[str]
    query: str
    tool: ToolKey
    worth: float


class Uses:
    """The searches of a history, compared by words and, if there are vectors, by meaning."""

    def __init__(self, history: SearchHistory) -> None:
        self._history = history
        self._read_at = -1
        self._uses: tuple[_Use, ...] = ()
        self._worth: dict[str, dict[ToolKey, float]] = {}
        self._embedded: dict[str, Matrix] = {}
        self._centred_at = -1
        self._centres: tuple[list[ToolKey], Matrix] | None = None
        self._lock = threading.Lock()

    def scores(
        self, text: str, rarity: Callable[[str], float], vectors: Vectors | None
    ) -> dict[ToolKey, float]:
        """Return a score by tool, above 0 to 1, the highest first: the share of similar queries that led to its call.

        `rarity` returns the rarity of a term. Raises `sqlite3.Error` or `OSError` if the history cannot be read.
        """
        with self._lock:
            self._read()
            words = self._by_words(text, rarity)
            meaning = None
            if vectors is not None and self._uses:
                meaning = self._by_meaning(text, vectors)
        if meaning is None:
            found = {tool: min(share / _BY_WORDS, 1.0) for tool, share in words.items()}
        else:
            both = {
                tool: (words.get(tool, 0.0) + meaning.get(tool, 0.0)) / 2
                for tool in words.keys() | meaning.keys()
            }
            found = {tool: min(share / _BY_BOTH, 1.0) for tool, share in both.items()}
        return dict(sorted(found.items(), key=lambda one: (-one[1], str(one[0]))))

    def _read(self) -> None:
        if self._read_at == self._history.changes:
            return
        now = self._history.clock()
        self._uses = tuple(
            _Use(remembered_words(use.query), use.query, use.tool, use.worth(now))
            for use in self._history.uses()
        )
        self._read_at = self._history.changes
        worth: defaultdict[str, defaultdict[ToolKey, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        for use in self._uses:
            for word in use.words:
                worth[word][use.tool] += use.worth
        self._worth = {word: dict(tools) for word, tools in worth.items()}

    def _by_words(
        self, text: str, rarity: Callable[[str], float]
    ) -> dict[ToolKey, float]:
        """Return the share of the text's words, by rarity, that were searched before each tool was called."""
        rarities = {word: rarity(word) for word in sorted(remembered_words(text))}
        whole = sum(rarities.values()) or 1.0
        found: defaultdict[ToolKey, float] = defaultdict(float)
        for word, rare in rarities.items():
            for tool, worth in self._worth.get(word, {}).items():
                found[tool] += rare / whole * worth / (worth + _ONCE)
        return found

    def _by_meaning(
        self, text: str, vectors: Vectors
    ) -> Mapping[ToolKey, float] | None:
        """Return the similarity of the text to the mean query before each tool's calls; None without vectors."""
        import numpy as np

        try:
            if self._centred_at != self._read_at:
                self._centre(vectors)
            asked = vectors.query_vectors([text])[0]
        except EmbeddingError:
            return None
        if self._centres is None:
            return None
        tools, centres = self._centres
        near = (
            np.clip(
                (np.vecdot(centres[:, :-1], asked) - _UNLIKE) / (_ALIKE - _UNLIKE),
                0.0,
                1.0,
            )
            * centres[:, -1]
        )
        return {
            tool: share
            for tool, share in zip(tools, near.tolist(), strict=True)
            if share > 0
        }

    def _centre(self, vectors: Vectors) -> None:
        """Compute the mean of each tool's queries as a unit vector, and their total weight, at most 1."""
        import numpy as np

        uses = self._uses[
            : _MOST_EMBEDDED if vectors.are_of_words else _MOST_EMBEDDED_SLOWLY
        ]
        known = self._embedded
        new = list(dict.fromkeys(use.query for use in uses if use.query not in known))
        if new:
            known |= zip(new, vectors.query_vectors(new), strict=True)
        else:
            known |= ()
        self._embedded = {use.query: known[use.query] for use in uses}
        rows: dict[ToolKey, Matrix] = {}
        worths: defaultdict[ToolKey, float] = defaultdict(float)
        for use in uses:
            rows[use.tool] = rows.get(use.tool, np.float32(0)) + known[
                use.query
            ] * np.float32(use.worth)
            worths[use.tool] += use.worth
        lasting = [tool for tool in rows if worths[tool] > 0]
        held = [
            [*unit_rows(rows[tool][None])[0], min(worths[tool], 1.0)]
            for tool in lasting
        ]
        if held:
            self._centres = lasting, np.asarray(held, dtype=np.float32)
        else:
            self._centres = None
        self._centred_at = self._read_at
