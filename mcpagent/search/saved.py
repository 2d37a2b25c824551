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
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mcpagent.messages import ToolDefinition
from mcpagent.search.bm25 import K1, Postings
from mcpagent.search.fields import WEIGHTS
from mcpagent.whole_files import write_whole

logger = logging.getLogger("mcpagent")

FEWEST_TOOLS = 300
"""Tools from which a file is worth its writing."""

_FORMAT = 2
_KEPT_FILES = 8


def catalogue_key(tools: Iterable[ToolDefinition], server_descriptions: Mapping[str, str]) -> str:
    """A hash of the tools, in their order, and of the rules by which they are indexed."""
    rules = [_FORMAT, sys.byteorder, K1, repr(WEIGHTS), sorted(server_descriptions.items())]
    key = hashlib.sha256(json.dumps(rules).encode())
    for tool in tools:
        fields = [tool.name, tool.description, tool.parameters, tool.server, tool.original_name, tool.title]
        key.update(json.dumps([*fields, tool.category, tool.tags], default=repr).encode())
    return key.hexdigest()[:32]


def load_postings(folder: Path, key: str, size: int) -> Postings | None:
    """The postings saved under the key; None where there are none or the file is damaged."""
    path = _path(folder, key)
    try:
        data = memoryview(path.read_bytes())
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
        postings.tools = list(_arrays("I", data[start:middle], counts))
        postings.weights = list(_arrays("f", data[middle:end], counts))
        numbers = _arrays("I", data[end:], list(shared.values()))
        postings.from_server = {int(term): tools for term, tools in zip(shared, numbers, strict=True)}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        logger.debug("%s: not read, the tools are indexed anew: %s", path, error)
        return None
    return postings


def save_postings(folder: Path, key: str, postings: Postings) -> None:
    """Saves them; a folder that cannot be written is left alone. Only the last few files are kept."""
    header = {
        "size": postings.size,
        "terms": list(postings.ids),
        "words": postings.words,
        "names": list(postings.names.values()),
        "counts": [len(tools) for tools in postings.tools],
        "from_server": {term: len(tools) for term, tools in postings.from_server.items()},
    }
    text = json.dumps(header).encode()
    content = len(text).to_bytes(8, "little") + text
    content += b"".join(postings.tools) + b"".join(postings.weights) + b"".join(postings.from_server.values())
    with contextlib.suppress(OSError):
        write_whole(_path(folder, key), content)
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
