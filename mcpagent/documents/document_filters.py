"""The meaning of filters, as a pure function. Stores that cannot compile a filter call it for each document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeAlias, assert_never

from mcpagent.documents.document_values import (
    AllOf,
    AnyOf,
    Filter,
    MetadataAfter,
    MetadataBefore,
    MetadataEquals,
    MetadataIn,
    MetadataValue,
    NameContains,
    StoredDocument,
    UriPrefix,
)
from mcpagent.utilities.text.safe_text import without_halves

Kind: TypeAlias = str
"""`bool`, `number` or `text`: values of different kinds are never equal, and have no order."""

_LARGEST = 1 << 63


def comparable(value: MetadataValue) -> tuple[Kind, str | int | float]:
    """Return the kind of a value, and the value as a database stores it: integers of more than 64 bits as floats."""
    if isinstance(value, bool):
        return "bool", int(value)
    if isinstance(value, str):
        return "text", without_halves(value)
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        try:
            return "number", float(value)
        except OverflowError:
            return "number", math.copysign(math.inf, value)
    return "number", value


def identity(value: MetadataValue) -> str:
    """Return a text that is the same for equal values, such as 1 and 1.0."""
    kind, stored = comparable(value)
    if isinstance(stored, float) and stored.is_integer():
        stored = int(stored)
    return f"{kind} {json.dumps(stored)}"


def folded_name(name: str) -> str:
    """Return the name without spaces and without differences of case."""
    return "".join(without_halves(name).casefold().split())


def matches(document: StoredDocument, where: Filter | None) -> bool:
    """Return whether the filter matches the document; a missing filter matches every document."""
    match where:
        case None:
            return True
        case AllOf(filters):
            return all(matches(document, one) for one in filters)
        case AnyOf(filters):
            return any(matches(document, one) for one in filters)
        case NameContains(name):
            wanted = folded_name(name)
            return wanted in folded_name(document.uri) or wanted in folded_name(
                document.title
            )
        case UriPrefix(prefix):
            return without_halves(document.uri).startswith(without_halves(prefix))
        case _:
            return _metadata_matches(document.metadata, where)


def _metadata_matches(
    metadata: Mapping[str, MetadataValue],
    where: MetadataEquals | MetadataIn | MetadataBefore | MetadataAfter,
) -> bool:
    if where.key not in metadata:
        return False
    found = metadata[where.key]
    match where:
        case MetadataEquals(_, value):
            return _is_same(found, value)
        case MetadataIn(_, values):
            return any(_is_same(found, value) for value in values)
        case MetadataBefore(_, value):
            return _is_less(found, value)
        case MetadataAfter(_, value):
            return _is_less(value, found)
    assert_never(where)


def _is_same(one: MetadataValue, other: MetadataValue) -> bool:
    return one == one and identity(one) == identity(other)  # NaN is equal to nothing


def _is_less(one: MetadataValue, other: MetadataValue) -> bool:
    (kind, less), (other_kind, more) = comparable(one), comparable(other)
    if kind != other_kind or kind == "bool":
        return False
    if isinstance(less, str):
        return less < str(more)
    return less < more  # type: ignore[operator]
