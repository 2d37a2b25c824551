"""Filters of developers, sessions and calls. They are values that a store compiles; no text becomes part of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from mcpagent.documents.document_tools.session_state import (
    SESSION_NAMESPACE,
    SessionState,
)
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
from mcpagent.errors import InputError
from mcpagent.utilities.text.safe_text import without_halves
from mcpagent.values.tool_context import ToolContext

MOST_CONDITIONS, MOST_VALUES, MOST_CHARACTERS = 20, 100, 1_000

_Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]
_Integer = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]  # what databases store
_Value = _Text | bool | _Integer | float
_STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class MetadataCondition(BaseModel):
    """A condition on one metadata field. Give exactly one of equals, in, before and after."""

    model_config = _STRICT

    key: _Text
    equals: _Value | None = None
    one_of: Annotated[list[_Value], Field(max_length=MOST_VALUES)] | None = Field(
        default=None, alias="in"
    )
    before: _Value | None = None
    """Less than this; dates as ISO text"""
    after: _Value | None = None
    """Greater than this; dates as ISO text"""


class DocumentFilter(BaseModel):
    """Only documents that meet every given condition."""

    model_config = _STRICT

    name: _Text | None = None
    """Part of the title or address"""
    uri_prefix: _Text | None = None
    """Beginning of the address"""
    metadata: Annotated[list[MetadataCondition], Field(max_length=MOST_CONDITIONS)] = []

    def compiled(self) -> Filter | None:
        """Return the filter for a store, or None if there is no condition. Raises `InputError` for a metadata condition
        without exactly one comparison.
        """
        filters: list[Filter] = []
        if self.name is not None:
            filters.append(build_document_filter(self.name))
        if self.uri_prefix is not None:
            filters.append(UriPrefix(storable(self.uri_prefix)))
        filters += [_metadata_filter(condition) for condition in self.metadata]
        if filters:
            return AllOf(tuple(filters))
        return None


def _metadata_filter(condition: MetadataCondition) -> Filter:
    given = list(_comparisons(condition))
    if len(given) != 1:
        raise InputError(
            "filter: metadata: give exactly one of equals, in, before and after for each key"
        )
    return given[0]


def _comparisons(condition: MetadataCondition) -> Iterator[Filter]:
    key = storable(condition.key)
    if condition.equals is not None:
        yield MetadataEquals(key, _value(condition.equals))
    if condition.one_of is not None:
        yield MetadataIn(key, tuple(map(_value, condition.one_of)))
    if condition.before is not None:
        yield MetadataBefore(key, _value(condition.before))
    if condition.after is not None:
        yield MetadataAfter(key, _value(condition.after))


def _value(value: MetadataValue) -> MetadataValue:
    if isinstance(value, str):
        return storable(value)
    return value


def storable(text: str) -> str:
    """Return a model's text without the characters that a database cannot store: NUL and lone surrogates."""
    return without_halves(text).replace("\0", "\N{REPLACEMENT CHARACTER}")


def build_document_filter(document_name: str) -> Filter:
    """Return a filter for documents whose address or title contains the name, without regard to case and spaces."""
    return NameContains(storable(document_name))


def build_multi_document_filter(document_names: Sequence[str]) -> Filter | None:
    """Return a filter for documents that match one of the names; None without names."""
    if not document_names:
        return None
    return AnyOf(tuple(map(build_document_filter, document_names)))


def combine_filters(filter1: Filter | None, filter2: Filter | None) -> Filter | None:
    """Return a filter for documents that match both filters; None is a filter that every document matches."""
    given = [one for one in (filter1, filter2) if one is not None]
    if len(given) == 2:
        return AllOf(tuple(given))
    return next(iter(given), None)


def get_session_filter(
    context: ToolContext | None, base_filter: Filter | None = None
) -> Filter | None:
    """Return the filter of the session's `SessionState`, together with the developer's `base_filter`."""
    state = None
    if context is not None:
        state = context.get(SESSION_NAMESPACE, SessionState)
    if state is None:
        return base_filter
    chosen = build_multi_document_filter(state.document_filter)
    return combine_filters(base_filter, chosen)
