"""Filters are values: those of a developer, a session and a call are combined, and no text is part of a query."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcpagent import InputError
from mcpagent.documents import (
    AllOf,
    AnyOf,
    DocumentFilter,
    Filter,
    MetadataAfter,
    MetadataBefore,
    MetadataEquals,
    MetadataIn,
    NameContains,
    SessionState,
    ToolContext,
    UriPrefix,
    build_document_filter,
    build_multi_document_filter,
    combine_filters,
    get_session_filter,
)
from mcpagent.documents.document_tools.session_state import SESSION_NAMESPACE
from tests.documents.memory_store import made, matches
from tests.tables import each_row

BASE = UriPrefix("a/")


@each_row(
    "name, uri, title, is_found",
    [
        ("TB MED 593", "files/tbmed593.pdf", "x", True),
        ("tbmed593", "x", "TB MED 593: Cold", True),
        ("50%_x", "50%_x.md", "", True),
        ("50%_x", "50 abx.md", "", False),
        ("%", "a.md", "", False),
        ("' OR 1=1", "a.md", "", False),
    ],
)
def test_a_name_matches_address_or_title(name: str, uri: str, title: str, is_found: bool) -> None:
    document, _ = made(uri, "text", title)
    assert matches(build_document_filter(name), document) is is_found


def test_filters_combine() -> None:
    one, other = NameContains("x"), NameContains("y")
    assert combine_filters(None, None) is None
    assert combine_filters(BASE, None) == combine_filters(None, BASE) == BASE
    assert combine_filters(BASE, one) == AllOf((BASE, one))
    assert build_multi_document_filter([]) is None
    assert build_document_filter("\ud800") == NameContains("?")
    assert build_multi_document_filter(["x", "y"]) == AnyOf((one, other))


def test_the_session_filter_is_combined_with_the_developers() -> None:
    context = ToolContext()
    assert get_session_filter(context, BASE) == get_session_filter(None, BASE) == BASE
    state = context.get_or_create(SESSION_NAMESPACE, SessionState)
    assert get_session_filter(context) is None
    state.document_filter = ["x"]
    assert get_session_filter(context, BASE) == AllOf((BASE, AnyOf((NameContains("x"),))))


@each_row(
    "given, filters",
    [
        ({}, None),
        ({"name": "x"}, [NameContains("x")]),
        ({"uri_prefix": "p\0"}, [UriPrefix("p\N{REPLACEMENT CHARACTER}")]),
        (
            {"metadata": [{"key": "year", "after": 2020}, {"key": "kind", "in": ["a", "b"]}]},
            [MetadataAfter("year", 2020), MetadataIn("kind", ("a", "b"))],
        ),
        ({"metadata": [{"key": "k", "before": "2024-01-01"}]}, [MetadataBefore("k", "2024-01-01")]),
        ({"metadata": [{"key": "k", "equals": False}]}, [MetadataEquals("k", False)]),
    ],
)
def test_a_calls_filter_is_compiled(given: dict[str, Any], filters: list[Filter] | None) -> None:
    compiled = DocumentFilter.model_validate(given).compiled()
    assert compiled == (None if filters is None else AllOf(tuple(filters)))


@each_row("condition", [{"key": "k"}, {"key": "k", "equals": 1, "after": 0}])
def test_a_condition_has_one_comparison(condition: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="exactly one"):
        DocumentFilter.model_validate({"metadata": [condition]}).compiled()


@each_row(
    "given",
    [
        "uri LIKE '%'",
        {"where": "1=1"},
        {"name": "x" * 1_001},
        {"name": "\ud800"},
        {"metadata": [{"key": "k", "equals": float("nan")}]},
        {"metadata": [{"key": "k", "equals": [1]}]},
        {"metadata": [{"key": "k", "in": ["x"] * 101}]},
        {"metadata": [{"key": "k", "equals": "x"}] * 21},
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        DocumentFilter.model_validate(given)
