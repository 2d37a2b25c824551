"""Results as content: text as text, images as images, other files as files, links in words."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.mcp.result_content import output_of_call, output_of_prompt, output_of_resource
from mcpagent.values.messages import Audio, Content, Document, Image, Text
from tests.tables import each_row

DATA = base64.b64encode(b"12345").decode()


@each_row(
    "block, expected",
    [
        ({"type": "text", "text": "a\nb"}, Text("a\nb")),
        ({"type": "image", "mimeType": "image/png", "data": DATA}, Image("image/png", DATA)),
        (
            {"type": "image", "mimeType": "text/html", "data": DATA},
            Image("text/html", DATA),
        ),
        ({"type": "audio", "mimeType": "audio/wav", "data": DATA}, Audio("audio/wav", DATA)),
        (
            {
                "type": "resource_link",
                "uri": "file:///a",
                "name": "a",
                "mimeType": "text/plain",
                "description": "the a",
            },
            Text("[resource link: a <file:///a> (text/plain): the a]"),
        ),
        ({"type": "resource", "resource": {"uri": "n://1", "text": "hi"}}, Text("[resource n://1]\nhi")),
        (
            {"type": "resource", "resource": {"uri": "n://1", "mimeType": "application/pdf", "blob": DATA}},
            Document("application/pdf", DATA, "n://1"),
        ),
        ({"type": "audio", "mimeType": "audio/wav"}, Text("[audio: audio/wav, without data; not shown]")),
    ],
)
def test_each_kind_of_block(block: dict[str, Any], expected: Content) -> None:
    assert output_of_call({"content": [block]}).content == (expected,)


def test_errors_are_marked() -> None:
    assert output_of_call({"content": [], "isError": True}).error == "failed"
    assert output_of_call({"content": []}).error is None


def test_structured_content_speaks_where_there_is_no_text() -> None:
    structured = {"content": [], "structuredContent": {"é": 1}}
    assert output_of_call(structured).content == (Text('{"é": 1}'),)
    assert output_of_call({**structured, "content": [{"type": "text", "text": "said"}]}).content == (Text("said"),)
    image = {"type": "image", "mimeType": "image/png", "data": DATA}
    assert output_of_call({**structured, "content": [image]}).content == (Image("image/png", DATA), Text('{"é": 1}'))


def test_a_prompt_names_its_roles() -> None:
    messages = [
        {"role": "user", "content": {"type": "text", "text": "hello"}},
        {"role": "assistant", "content": {"type": "image", "mimeType": "image/png", "data": DATA}},
    ]
    assert output_of_prompt({"messages": messages}).content == (
        Text("[user]\nhello\n[assistant]"),
        Image("image/png", DATA),
    )


def test_resource_contents() -> None:
    contents = [
        {"uri": "a://1", "text": "one"},
        {"uri": "a://2", "mimeType": "image/png", "blob": DATA},
        {"uri": "a://3", "blob": "!"},
    ]
    assert output_of_resource({"contents": contents}).content == (
        Text("one"),
        Image("image/png", DATA),
        Document("application/octet-stream", "!", "a://3"),
    )


@settings(max_examples=60)
@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.dictionaries(st.text(max_size=5), inner), max_leaves=5
    )
)
def test_any_block_becomes_some_content(block: Any) -> None:
    assert len(output_of_call({"content": [block]}).content) == 1
