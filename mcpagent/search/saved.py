"""Postings on disk: a large catalogue that was indexed once is read back in a tenth of the time.

A file is named after a hash of everything that was indexed and of how. It holds the length of its JSON header (8
bytes, little endian), the header, the tool numbers of all terms (uint32), their weights (float32), and the numbers of
the tools that hold a term only through their server (uint32).
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
from itertools import chain
from pathlib import Path

from mcpagent.config.bounded_files import read_own
from mcpagent.config.file_changes import write_whole
from mcpagent.messages import ToolDefinition
from mcpagent.search.bm25 import K1, Postings
from mcpagent.search.examples import Examples, shipped_examples
from mcpagent.search.fields import WEIGHTS

logger = logging.getLogger("mcpagent")

FEWEST_TOOLS = 300
"""Tools from which a file is worth its writing."""

_FORMAT = 2
_KEPT_FILES = 8


def catalogue_key(
    tools: Iterable[ToolDefinition], server_descriptions: Mapping[str, str], examples: Examples = shipped_examples
) -> str:
    """A hash of the tools, in their order, and of the rules by which they are indexed."""
    rules = [_FORMAT, sys.byteorder, K1, repr(WEIGHTS), sorted(server_descriptions.items())]
    key = hashlib.sha256(json.dumps(rules).encode())
    for tool in tools:
        fields = [tool.name, tool.description, tool.parameters, tool.server, tool.original_name, tool.title]
        key.update(json.dumps([*fields, tool.category, tool.tags, list(examples(tool))], default=repr).encode())
    return key.hexdigest()[:32]


def load_postings(folder: Path, key: str, size: int) -> Postings | None:
    """The postings saved under the key; None if there are none or the file is damaged."""
    path = _path(folder, key)
    try:
        data = memoryview(read_own(path))
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:start]))
        counts: list[int] = header["counts"]
        shared: dict[str, int] = header["from_server"]
        end = start + 8 * sum(counts)
        if header["size"] != size or len(data) != end + 4 * sum(shared.values()) or len(counts) != len(header["terms"]):
            raise ValueError("the sizes in it do not fit")
        postings = Postings()
        postings.size = size
        postings.ids.update((term, number) for number, term in enumerate(header["terms"]))
        postings.words.update((word, tuple(ids)) for word, ids in header["words"].items())
        postings.names = dict(enumerate(tuple(ids) for ids in header["names"]))
        middle = start + 4 * sum(counts)
        postings.spelled = list(header["terms"])
        postings.tools = dict(enumerate(_arrays("I", data[start:middle], counts)))
        postings.weights = dict(enumerate(_arrays("f", data[middle:end], counts)))
        numbers = _arrays("I", data[end:], list(shared.values()))
        postings.from_server.update((int(term), tools) for term, tools in zip(shared, numbers, strict=True))
        _check(postings)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        logger.debug("%s: not read, the tools are indexed again: %s", path, error)
        return None
    return postings


def _check(postings: Postings) -> None:
    """Raises `ValueError` for a number that is none of a term's or a tool's: those are looked up without a question."""
    terms = [*chain.from_iterable([*postings.words.values(), *postings.names.values()]), *postings.from_server]
    if set(map(type, terms)) - {int} or not -1 < min(terms, default=0) <= max(terms, default=-1) < len(postings.ids):
        raise ValueError("a term in it does not fit")
    if len(postings.names) != postings.size:
        raise ValueError("a name in it is missing")
    numbers = chain(postings.tools.values(), postings.from_server.values())
    if any(max(tools, default=0) >= postings.size for tools in numbers):
        raise ValueError("a tool in it does not fit")
    if not all(math.isfinite(sum(weights)) for weights in postings.weights.values()):
        raise ValueError("a weight in it does not fit")


def save_postings(folder: Path, key: str, postings: Postings) -> None:
    """Saves them; a folder that cannot be written is left alone. Only the last few files are kept."""
    shared = {term: tools for term, tools in postings.from_server.items() if tools}
    header = {
        "size": postings.size,
        "terms": list(postings.ids),
        "words": postings.words,
        "names": list(postings.names.values()),
        "counts": [len(tools) for tools in postings.tools.values()],
        "from_server": {term: len(tools) for term, tools in shared.items()},
    }
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text
    content += b"".join(chain(postings.tools.values(), postings.weights.values(), shared.values()))
    with contextlib.suppress(OSError):
        write_whole(_path(folder, key), content, is_cache=True)
        for old in sorted(folder.glob("index-*.bin"), key=lambda one: -one.stat().st_mtime)[_KEPT_FILES:]:
            old.unlink()


def _path(folder: Path, key: str) -> Path:
    return folder / f"index-{key}.bin"


def _arrays(kind: str, data: memoryview, counts: Sequence[int]) -> Iterable[array]:  # type: ignore[type-arg]
    at = 0
    for count in counts:
        numbers = array(kind)
        numbers.frombytes(data[at : at + 4 * count])
        at += 4 * count
        yield numbers
