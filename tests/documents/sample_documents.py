"""Documents, chunks and hostile texts for the tests of stores."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from mcpagent.documents.document_values import Chunk, MetadataValue, StoredDocument

HOSTILE = [
    "1=1) OR (1=1",
    "' OR ''='",
    "'; DROP TABLE documents; --",
    '" OR text:*',
    "%",
    "_",
    "50%_x\\",
    "\0",
    "a\0b",
    "\ud800",
    "NEAR(a b, 3)",
    "title:*",
    "*",
    "a AND NOT b",
    "(((((",
    "\u202etxt.exe",
    "x" * 5_000,
    "?1 @p :name $y",
    "\u691c\u7d22",
]


def document(uri: str, title: str = "", **metadata: MetadataValue) -> StoredDocument:
    """Return a document whose ID and digest follow from its address."""
    name = hashlib.sha256(uri.encode("utf-8", "replace")).hexdigest()
    return StoredDocument(name[:32], uri, title or uri, name, 1_000.0, metadata)


def chunks(of: StoredDocument, texts: Sequence[str], pages: Mapping[int, int] | None = None) -> list[Chunk]:
    """Return a chunk for each text, below a heading that names its place."""
    found: list[Chunk] = []
    for place, text in enumerate(texts):
        name = hashlib.sha256(f"{of.id}\n{text}\n{place}".encode("utf-8", "replace")).hexdigest()[:32]
        found.append(Chunk(name, of, text, ("Part", str(place)), (pages or {}).get(place), place))
    return found


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts by the number of each letter: a small encoder without a model."""
    return [[float(text.lower().count(chr(97 + place))) + 1e-3 for place in range(26)] for text in texts]
