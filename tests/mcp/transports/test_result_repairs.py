"""A flaw costs what it is in, and nothing else; what is whole passes unchanged."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import methods
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from mcpagent.mcp.transports.result_repairs import repair_result
from tests.tables import each_row

OLD, NEW = "2025-11-25", "2026-07-28"
TOOL = {"name": "a", "inputSchema": {"type": "object"}}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "data", "name", "uri"]), inner)
    ),
    max_leaves=8,
)
FIELDS = [
    "tools",
    "content",
    "structuredContent",
    "isError",
    "messages",
    "contents",
    "nextCursor",
    "prompts",
    "resources",
]

TEXT = st.fixed_dictionaries(
    {"type": st.just("text") | JSON, "text": st.text(max_size=4) | JSON}, optional={"annotations": JSON}
)
NEARLY_TEXTS = st.fixed_dictionaries(
    {"content": st.just([{"type": "text", "text": "a"}]) | st.lists(TEXT, max_size=2) | JSON},
    optional={"isError": st.booleans() | JSON, "resultType": st.just("complete") | JSON, "_meta": JSON},
)


@settings(max_examples=50)
@given(
    st.sampled_from(["tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read"]),
    st.sampled_from(KNOWN_PROTOCOL_VERSIONS),
    st.dictionaries(st.sampled_from(FIELDS), JSON),
)
def test_whatever_comes_is_accepted_afterwards_or_refused_in_words(
    method: str, version: str, result: dict[str, Any]
) -> None:
    repaired, changes = repair_result(method, version, result)
    assert all(change.isprintable() for change in changes)
    if isinstance(repaired, str):
        assert repaired.startswith("its result is malformed: ")
    else:
        methods.parse_server_result(method, version, repaired)


@settings(max_examples=50)
@given(st.sampled_from(KNOWN_PROTOCOL_VERSIONS), NEARLY_TEXTS)
def test_so_is_a_call_that_is_nearly_plain_text(version: str, result: dict[str, Any]) -> None:
    repaired, _ = repair_result("tools/call", version, result)
    assert isinstance(repaired, dict)
    methods.parse_server_result("tools/call", version, repaired)


@each_row("version", [OLD, NEW])
def test_a_whole_result_is_the_same_object(version: str) -> None:
    result = {"tools": [TOOL | {"x-unknown": 1}], "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
    repaired, changes = repair_result("tools/list", version, result)
    assert repaired is result
    assert changes == ()


@each_row("version", [OLD, NEW])
def test_schemas_of_good_tools_are_untouched_beside_a_bad_one(version: str) -> None:
    schema = {"type": "object", "properties": {"b": {"$ref": "#/$defs/x"}, "a": {}}, "$defs": {"x": {"type": "string"}}}
    good = {"name": "good", "inputSchema": schema, "description": "d"}
    repaired, changes = repair_result("tools/list", version, {"tools": [{"name": 1}, good], "nextCursor": "next"})
    assert isinstance(repaired, dict)
    assert repaired["tools"] == [good]
    assert list(repaired["tools"][0]["inputSchema"]["properties"]) == ["b", "a"]
    assert repaired["nextCursor"] == "next"
    assert len(changes) == 1


def test_an_illegal_cursor_is_dropped() -> None:
    repaired, _ = repair_result("tools/list", OLD, {"tools": [TOOL], "nextCursor": 5})
    assert isinstance(repaired, dict)
    assert "nextCursor" not in repaired


@each_row("version", [OLD, NEW])
def test_text_beside_a_bad_block_is_delivered(version: str) -> None:
    result = {"content": [{"type": "text"}, {"type": "text", "text": "here"}, 7], "isError": True}
    repaired, changes = repair_result("tools/call", version, result)
    assert isinstance(repaired, dict)
    assert [block["text"] for block in repaired["content"]] == ['{"type": "text"}', "here", "7"]
    assert repaired["isError"] is True
    assert len(changes) == 2


def test_structured_content_that_is_no_object_becomes_text() -> None:
    repaired, _ = repair_result("tools/call", OLD, {"structuredContent": [1, 2]})
    assert isinstance(repaired, dict)
    assert repaired["content"] == [{"type": "text", "text": "[1, 2]"}]


def test_a_malformed_prompt_message_is_kept_as_text() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "good"}}
    repaired, changes = repair_result("prompts/get", OLD, {"messages": [message, {"role": "system", "content": "no"}]})
    assert isinstance(repaired, dict)
    assert repaired["messages"] == [message, {"role": "user", "content": {"type": "text", "text": "no"}}]
    assert len(changes) == 1


def test_only_the_protocol_version_is_needed_to_connect() -> None:
    repaired, changes = repair_result(
        "initialize", OLD, {"protocolVersion": OLD, "serverInfo": "x", "capabilities": {"tools": {}}}
    )
    assert isinstance(repaired, dict)
    assert repaired["capabilities"] == {"tools": {}}
    assert changes == ("serverInfo is missing or malformed",)
    assert isinstance(repair_result("initialize", OLD, {})[0], str)
