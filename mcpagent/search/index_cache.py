"""Store postings on disk: reading a large catalogue back takes a tenth of the time of indexing it.

A file is named after a hash of the indexed texts and the indexing method. It contains the length of its JSON header (8
bytes, little endian), the header, the tool numbers of all terms (uint32), their weights (float32), and the terms of
each tool's name (uint32). These are read in place, from memory that all processes with the same catalogue share.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Literal

from mcpagent.search.examples import Examples, shipped_examples
from mcpagent.search.fields import WEIGHTS
from mcpagent.search.postings import K1, ComputedCache, Postings
from mcpagent.utilities.filesystem.bounded_files import map_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.values.messages import ToolDefinition

logger = logging.getLogger("mcpagent")

FEWEST_TOOLS = 300
"""Minimum number of tools for which a cache file is written."""

_FORMAT = 6
_KEPT_FILES = 8


def catalogue_key(
    tools: Iterable[ToolDefinition],
    server_descriptions: Mapping[str, str],
    examples: Examples = shipped_examples,
) -> str:
    """Return a hash of the tools in their order, and of the indexing rules."""
    rules = [
        _FORMAT,
        sys.byteorder,
        K1,
        repr(WEIGHTS),
        sorted(server_descriptions.items()),
    ]
    key = hashlib.sha256(json.dumps(rules).encode())
    for tool in tools:
        fields = [
            tool.name,
            tool.description,
            tool.parameters,
            tool.server,
            tool.original_name,
            tool.title,
        ]
        key.update(
            json.dumps(
                [*fields, tool.category, tool.tags, list(examples(tool))], default=repr
            ).encode()
        )
    return key.hexdigest()[:32]


def load_postings(folder: Path, key: str, size: int) -> Postings | None:
    """Return the postings saved under the key, for `size` tools; None if the file is missing or damaged."""
    path = _path(folder, key)
    try:
        data = map_own(path)
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:start]))
        counts: list[int] = header["counts"]
        terms = {term: number for number, term in enumerate(header["terms"])}
        sizes = [counts, counts, header["names"]]
        ends = list(accumulate((4 * sum(one) for one in sizes), initial=start))
        if (header["size"], len(counts), len(sizes[-1]), ends[-1]) != (
            size,
            len(terms),
            size,
            len(data),
        ):
            raise ValueError("the sizes in it do not fit")
        kinds: tuple[Literal["I", "f"], ...] = ("I", "f", "I")
        parts = [
            data[at:end].cast(kind)
            for at, end, kind in zip(ends, ends[1:], kinds, strict=False)
        ]
        words = {word: tuple(ids) for word, ids in header["words"].items()}
        _check(list(chain.from_iterable(words.values())), parts, len(terms), size)
        tools, weights, names = (_Lists(*one) for one in zip(parts, sizes, strict=True))
        postings = Postings()
        postings.size = size
        postings.ids.update(terms)
        postings.words.update(words)
        postings.spelled = list(terms)
        postings.placed = ComputedCache(lambda term: (tools.at(term), weights.at(term)))
        postings.names = ComputedCache(names.at)
    except FileNotFoundError:
        return None
    except (OSError, *MALFORMED) as error:
        logger.debug("%s: not read, the tools are indexed again: %s", path, error)
        return None
    return postings


def _check(
    terms: Sequence[int], parts: Sequence[memoryview[Any]], known: int, size: int
) -> None:
    """Raise `ValueError` if a term or tool number is out of range, because lookups do not check them."""
    tools, weights, names = parts
    if (
        set(map(type, terms)) - {int}
        or min(terms, default=0) < 0
        or max(chain(terms, names), default=-1) >= known
    ):
        raise ValueError("a term in it does not fit")
    if max(tools, default=-1) >= size:
        raise ValueError("a tool in it does not fit")
    if not math.isfinite(sum(weights)):
        raise ValueError("a weight in it does not fit")


_NONE = memoryview(b"")


class _Lists:
    """Many lists of numbers, stored one after the other in a file and read in place."""

    def __init__(self, numbers: memoryview[Any], counts: Sequence[int]) -> None:
        self._numbers = numbers
        self._ends = array("I", accumulate(counts, initial=0))

    def at(self, place: int) -> memoryview[Any]:
        """Return the list at this index; empty after the last one."""
        if place + 1 < len(self._ends):
            return self._numbers[self._ends[place] : self._ends[place + 1]]
        return _NONE


def save_postings(folder: Path, key: str, postings: Postings) -> None:
    """Save the postings, and delete all but the newest cache files. A folder that is not writable is ignored."""
    terms = range(len(postings.spelled))
    lists: list[Any] = [postings.lists(term)[1] for term in terms]
    header = {
        "size": postings.size,
        "terms": postings.spelled,
        "words": postings.words,
        "names": [len(terms) for terms in postings.names.values()],
        "counts": [len(tools) for tools, _ in lists],
    }
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text
    names = array("I", chain.from_iterable(postings.names.values()))
    content += b"".join(
        [*(tools for tools, _ in lists), *(weights for _, weights in lists), names]
    )
    with contextlib.suppress(OSError):
        write_whole(_path(folder, key), content, is_cache=True)
        for old in sorted(
            folder.glob("index-*.bin"), key=lambda one: -one.stat().st_mtime
        )[_KEPT_FILES:]:
            old.unlink()


def _path(folder: Path, key: str) -> Path:
    return folder / f"index-{key}.bin"
