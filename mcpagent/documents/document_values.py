"""Documents, their chunks, and filters, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

MetadataValue: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document in a store. `id` is a digest of `uri`; `digest` is the SHA-256 of its content, as hex."""

    id: str
    uri: str
    title: str
    digest: str
    indexed_at: float
    """Seconds since 1970, UTC."""
    metadata: Mapping[str, MetadataValue] = field(
        default_factory=dict[str, MetadataValue]
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document. `section` has its headings, the outermost first. Pages count from 1, positions from 0.

    `id` is computed from the document, the headings and the text, so an unchanged part of a changed document keeps its
    ID.
    """

    id: str
    document: StoredDocument
    text: str
    section: tuple[str, ...] = ()
    page: int | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A chunk that a search found; a higher `score` is better. `ranks` has its rank (from 1) in each ranking, by the
    ranking's name.
    """

    chunk: Chunk
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of the documents that match a filter. `total` is the number of all matching documents."""

    documents: tuple[StoredDocument, ...]
    total: int


# -- filters ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameContains:
    """Match documents whose address or title contains the name, without regard to case and spaces. No character is a
    wildcard.
    """

    name: str


@dataclass(frozen=True, slots=True)
class UriPrefix:
    """Match documents whose address begins with the prefix."""

    prefix: str


@dataclass(frozen=True, slots=True)
class MetadataEquals:
    """Match documents whose metadata has this value under the key."""

    key: str
    value: MetadataValue


@dataclass(frozen=True, slots=True)
class MetadataIn:
    """Match documents whose metadata has one of these values under the key."""

    key: str
    values: tuple[MetadataValue, ...]


@dataclass(frozen=True, slots=True)
class MetadataBefore:
    """Match documents whose metadata is less than the value: numbers as numbers, texts (ISO dates too) as texts."""

    key: str
    value: MetadataValue


@dataclass(frozen=True, slots=True)
class MetadataAfter:
    """Match documents whose metadata is greater than the value: numbers as numbers, texts as texts."""

    key: str
    value: MetadataValue


@dataclass(frozen=True, slots=True)
class AllOf:
    """Match documents that all filters match; without filters, every document."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Match documents that one of the filters matches; without filters, no document."""

    filters: tuple[Filter, ...]


Filter: TypeAlias = (
    NameContains
    | UriPrefix
    | MetadataEquals
    | MetadataIn
    | MetadataBefore
    | MetadataAfter
    | AllOf
    | AnyOf
)
