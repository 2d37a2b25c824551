"""Arguments are written as OpenAPI demands; an independent validator reads them back."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.openapi.api_client import ApiClient
from mcpagent.openapi.http_calls import ArgumentError, file_content, http_call
from tests.openapi.arguments import arguments, environ
from tests.openapi.documents import BASE, INTEGERS, POINT, api_of, operation, parameter, rich, tool_of

OBJECT = {"type": "object", "additionalProperties": {"type": "string"}}
TEXTS = {"type": "array", "items": {"type": "string"}}


def url_of(path: str, value: Any, *parameters: Any) -> str:
    """The path and query of a request with this value for its only argument."""
    tool = tool_of(path, "get", operation(*parameters))
    call = http_call(tool, {tool.arguments[0].name: value})
    return "?".join(filter(None, (call.url.removeprefix(BASE), "&".join(call.query))))


def test_parameters_are_written_in_their_styles() -> None:
    words, point = ["a b", "c,d"], {"x": 1, "y": "a&b"}
    cases: list[tuple[str, Any, Any, str]] = [
        ("/a", words, parameter("q", "query", TEXTS), "/a?q=a%20b&q=c%2Cd"),
        ("/a", words, parameter("q", "query", TEXTS, explode=False), "/a?q=a%20b,c%2Cd"),
        ("/a", words, parameter("q", "query", TEXTS, style="spaceDelimited", explode=False), "/a?q=a%20b%20c%2Cd"),
        ("/a", words, parameter("q", "query", TEXTS, style="pipeDelimited", explode=False), "/a?q=a%20b%7Cc%2Cd"),
        ("/a", point, parameter("q", "query", OBJECT), "/a?x=1&y=a%26b"),
        ("/a", {"x": "1,2"}, parameter("q", "query", OBJECT, explode=False), "/a?q=x,1%2C2"),
        ("/a", point, parameter("q", "query", OBJECT, style="deepObject"), "/a?q%5Bx%5D=1&q%5By%5D=a%26b"),
        ("/a", {"a": {"b": [1, 2]}}, parameter("q", "query", OBJECT, style="deepObject"),
         "/a?q%5Ba%5D%5Bb%5D=1&q%5Ba%5D%5Bb%5D=2"),
        ("/a", [1, "&"], {"name": "q", "in": "query", "content": {"application/json": {}}},
         "/a?q=%5B1%2C%20%22%26%22%5D"),
        ("/a", "x/y?z", parameter("q", "query", allowReserved=True), "/a?q=x/y?z"),
        ("/a", "x&y=z#", parameter("q", "query", allowReserved=True), "/a?q=x%26y%3Dz%23"),
        ("/a", "", parameter("q", "query"), "/a?q="),
        ("/a", None, parameter("q", "query"), "/a"),
        ("/a", [], parameter("q", "query", TEXTS), "/a"),
        ("/a", True, parameter("q", "query"), "/a?q=true"),
        ("/a", 3.0, parameter("q", "query"), "/a?q=3"),
        ("/a", "ä", parameter("sör", "query"), "/a?s%C3%B6r=%C3%A4"),
        ("/a/{q}/b", "x/y z", parameter("q", "path"), "/a/x%2Fy%20z/b"),
        ("/a/{q}/b", "x/y z", parameter("q", "path", **{"x-multi-segment": True}), "/a/x/y%20z/b"),
        ("/a/{q}", words, parameter("q", "path", TEXTS), "/a/a%20b,c%2Cd"),
        ("/a/{q}", point, parameter("q", "path", OBJECT), "/a/x,1,y,a%26b"),
        ("/a/{q}", point, parameter("q", "path", OBJECT, explode=True), "/a/x=1,y=a%26b"),
        ("/a/{q}", words, parameter("q", "path", TEXTS, style="label"), "/a/.a%20b,c%2Cd"),
        ("/a/{q}", words, parameter("q", "path", TEXTS, style="label", explode=True), "/a/.a%20b.c%2Cd"),
        ("/a/{q}", "x", parameter("q", "path", style="matrix"), "/a/;q=x"),
        ("/a/{q}", words, parameter("q", "path", TEXTS, style="matrix", explode=True), "/a/;q=a%20b;q=c%2Cd"),
        ("/a/{q}", point, parameter("q", "path", OBJECT, style="matrix", explode=True), "/a/;x=1;y=a%26b"),
        ("/a/{q}", "{p}", parameter("q", "path"), "/a/%7Bp%7D"),
        ("/a?fixed=1", "x", parameter("q", "query"), "/a?fixed=1&q=x"),
    ]  # fmt: skip
    wrong = [(case, found) for case in cases if (found := url_of(*case[:2], case[2])) != case[3]]
    assert wrong == []


def test_a_value_cannot_lead_to_another_path_or_header() -> None:
    for value in ("..", ".", "", "\ud800", "a/../b", "..%2fadmin", "..%252fadmin", "..\\admin", "%2e%2e", "a/."):
        with pytest.raises(ArgumentError):
            url_of("/a/{q}", value, parameter("q", "path"))
    with pytest.raises(ArgumentError):
        url_of("/a/{q}", "x/../y", parameter("q", "path", **{"x-multi-segment": True}))
    for value in ("a\r\nX: y", "a\0"):
        with pytest.raises(ArgumentError):
            url_of("/a", value, parameter("X-Head", "header"))
    with pytest.raises(ArgumentError, match="required"):
        http_call(tool_of("/a/{q}", "get", operation()), {})


def test_reserved_characters_stay_where_the_document_may_allow_them() -> None:
    """Elsewhere they would end the path, or begin another cookie."""
    value, allowed = "x?a=1;b/c", {"allowReserved": True}
    assert url_of("/a", value, parameter("q", "query", **allowed)) == "/a?q=x?a%3D1;b/c"
    assert url_of("/a/{q}", value, parameter("q", "path", **allowed)) == "/a/x%3Fa%3D1%3Bb%2Fc"
    assert url_of("/a/{q}", value, parameter("q", "path", **{"x-multi-segment": True})) == "/a/x%3Fa%3D1;b/c"
    tool = tool_of("/a", "get", operation(parameter("q", "cookie", **allowed)))
    assert http_call(tool, {"q": value}).cookies == ("q=x%3Fa%3D1%3Bb%2Fc",)


def body_of(media_type: str, schema: Any, given: Any, encoding: Any = None) -> tuple[str | None, bytes | None]:
    """The type and content of the body that is sent for these arguments."""
    content = {media_type: {"schema": schema, "encoding": encoding or {}}}
    call = http_call(tool_of("/a", "post", operation(body=content)), given)
    return call.headers.get("Content-Type"), call.content


def test_bodies_are_written_by_their_type() -> None:
    form, fields = (
        "application/x-www-form-urlencoded",
        {"properties": {"a": TEXTS, "b": POINT, "c": {"type": "string"}}},
    )
    deep = {"b": {"style": "deepObject", "explode": True}, "a": {"style": "spaceDelimited", "explode": False}}
    cases: list[tuple[Any, Any]] = [
        (("application/json", POINT, {"x": 1, "y": "ä"}), ("application/json", b'{"x": 1, "y": "\\u00e4"}')),
        (("application/json", POINT, {}), ("application/json", b"{}")),
        (("application/vnd.x+json", INTEGERS, {"body": [1]}), ("application/vnd.x+json", b"[1]")),
        (("*/*", POINT, {"x": 1}), ("application/json", b'{"x": 1}')),
        ((form, fields, {"a": ["x y", "z"], "c": "&="}), (form, b"a=x%20y&a=z&c=%26%3D")),
        ((form, fields, {"b": {"x": 1}}), (form, b"b=%7B%22x%22%3A%201%7D")),
        ((form, fields, {"a": ["x", "y"], "b": {"x": 1}}, deep), (form, b"a=x%20y&b%5Bx%5D=1")),
        (("text/plain", {"type": "string"}, {"body": "ä"}), ("text/plain", "ä".encode())),
        (("application/xml", {}, {"body": "<a/>"}), ("application/xml", b"<a/>")),
        (("image/png", {}, {"body": "data:image/png;base64,AAE="}), ("image/png", b"\x00\x01")),
        (("application/octet-stream", {}, {}), (None, None)),
    ]
    wrong = [(given, found) for given, expected in cases if (found := body_of(*given)) != expected]
    assert wrong == []


def test_files_are_parts_with_a_name() -> None:
    schema = {
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
            "about": POINT,
            "count": {"type": "integer"},
        }
    }
    tool = tool_of("/a", "post", operation(body={"multipart/form-data": {"schema": schema}}))
    given = {"file": "data:image/png;base64,AAE=", "more": ["one", "two"], "about": {"x": 1, "y": "a"}, "count": 3}
    parts = http_call(tool, given).parts
    assert [(part.name, part.content, part.media_type, part.filename) for part in parts] == [
        ("file", b"\x00\x01", "image/png", "file.png"),
        ("more", b"one", "application/octet-stream", "more.bin"),
        ("more", b"two", "application/octet-stream", "more.bin"),
        ("about", b'{"x": 1, "y": "a"}', "application/json", None),
        ("count", b"3", "text/plain", None),
    ]
    assert "data: URI" in tool.schema["properties"]["file"]["description"]
    assert file_content("data:,a%20b") == (b"a b", "")
    with pytest.raises(ArgumentError, match="Base64"):
        file_content("data:;base64,?")


def test_a_file_of_the_working_folder_is_sent_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    (work / ".hidden").mkdir(parents=True)
    for name in ("report.pdf", ".env", ".hidden/key", "../outside"):
        (work / name).write_text(name)
    (work / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(work)
    schema = {"properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}}}
    tool = tool_of("/a", "post", operation(body={"multipart/form-data": {"schema": schema}}))
    parts = http_call(tool, {"file": "file:report.pdf", "note": "file:report.pdf"}).parts
    assert [(part.content, part.media_type, part.filename) for part in parts] == [
        (b"report.pdf", "application/pdf", "report.pdf"),
        (b"file:report.pdf", "text/plain", None),
    ]
    assert file_content(f"file:{work / 'report.pdf'}")[0] == b"report.pdf"
    assert body_of("text/plain", {}, {"body": "file:report.pdf"})[1] == b"file:report.pdf"
    for path in (".env", ".hidden/key", "../outside", "/etc/passwd", "link", "none", ".", "", "a\0b", "~/x"):
        with pytest.raises(ArgumentError, match=r"(is a hidden file|there is no file)"):
            file_content(f"file:{path}")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_an_independent_validator_accepts_every_request(seed: int) -> None:
    """The validator, openapi-core, reads the request by the same document, and knows no code of ours."""
    chance = random.Random(seed)
    tool = chance.choice(list(TOOLS.values()))
    sent = arguments(tool, chance)
    request = CLIENT.request(tool, sent)
    found = read_by_validator(request)
    body = tool.operation.body
    if body is None or body.media_type != "application/json":
        return
    expected = sent.get("body", sent)
    assert json.loads(json.dumps(found)) == expected


API, TOOLS = api_of(rich())
CLIENT = ApiClient(API, TOOLS, httpx2.AsyncClient(), {}, 1_000)


def read_by_validator(request: httpx2.Request) -> Any:
    """The body as the validator unmarshals it. It raises for a request that breaks the document."""
    from openapi_core import Config, OpenAPI
    from openapi_core.contrib.werkzeug import WerkzeugOpenAPIRequest
    from werkzeug.wrappers import Request

    core = OpenAPI.from_dict(rich(), config=Config(spec_validator_cls=None))  # type: ignore[arg-type]
    return core.unmarshal_request(WerkzeugOpenAPIRequest(Request(environ(request)))).body
