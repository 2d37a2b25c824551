"""Filters as SQL conditions on `documents d`.

All values are parameters, so no text becomes SQL, and no character is a wildcard.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from mcpagent.documents.document_filters import comparable, folded_name, identity
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
    UriPrefix,
)
from mcpagent.utilities.text.safe_text import without_halves

SqlValue = str | int | float


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition with `?` for each of its values."""

    sql: str
    values: tuple[SqlValue, ...] = ()


EVERY = Condition("1")
"""Matches every document."""

_FIRST_HALF, _AFTER_HALVES = 0xD800, 0xE000
"""The first surrogate, and the first code point after all surrogates. Surrogates are no characters."""

_HAS = "EXISTS(SELECT 1 FROM metadata m WHERE m.document = d.number AND m.key = ?"


def sql_condition(where: Filter | None) -> Condition:
    """Return the condition of a filter. `document_filters.matches` defines its meaning."""
    match where:
        case None:
            return EVERY
        case AllOf(filters):
            return _joined([sql_condition(one) for one in filters], "AND", EVERY)
        case AnyOf(filters):
            return _joined(
                [sql_condition(one) for one in filters], "OR", Condition("0")
            )
        case NameContains(name):
            wanted = folded_name(name)
            return Condition(
                "(instr(d.folded_uri, ?) > 0 OR instr(d.folded_title, ?) > 0)",
                (wanted, wanted),
            )
        case UriPrefix(prefix):
            return _from_prefix(without_halves(prefix))
        case MetadataEquals(key, value):
            return _one_of(key, [value])
        case MetadataIn(key, values):
            return _one_of(key, values)
        case MetadataBefore(key, value):
            return _compared(key, "<", value)
        case MetadataAfter(key, value):
            return _compared(key, ">", value)
    assert_never(where)


def _from_prefix(prefix: str) -> Condition:
    """Return the condition for texts that begin with a prefix, as a range that an index can find. LIKE and `substr`
    would end at a NUL character.
    """
    beginning = prefix.rstrip(chr(sys.maxunicode))
    if not beginning:
        return Condition("d.uri >= ?", (prefix,))
    after = ord(beginning[-1]) + 1
    if after == _FIRST_HALF:
        after = _AFTER_HALVES
    return Condition(
        "(d.uri >= ? AND d.uri < ?)", (prefix, beginning[:-1] + chr(after))
    )


def _one_of(key: str, values: Sequence[MetadataValue]) -> Condition:
    # One parameter for all values: SQLite limits the number of parameters.
    identities = [identity(value) for value in values if value == value]
    return Condition(
        f"{_HAS} AND m.same IN (SELECT value FROM json_each(?)))",  # noqa: S608 - of constants
        (without_halves(key), json.dumps(identities)),
    )


def _compared(key: str, operator: str, value: MetadataValue) -> Condition:
    kind, stored = comparable(value)
    if kind == "bool":
        return Condition("0")
    return Condition(
        f"{_HAS} AND m.kind = ? AND m.value {operator} ?)",
        (without_halves(key), kind, stored),
    )


def _joined(
    conditions: Sequence[Condition], operator: str, empty: Condition
) -> Condition:
    """Join conditions as a balanced tree: SQLite limits the depth of an expression."""
    if not conditions:
        return empty
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    left = _joined(conditions[:half], operator, empty)
    right = _joined(conditions[half:], operator, empty)
    return Condition(f"({left.sql} {operator} {right.sql})", left.values + right.values)
