"""Swagger 2.0 and OpenAPI 3.x describe the same operations; what cannot be called costs only itself."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagent.openapi.api_documents import DocumentError, load_document
from mcpagent.openapi.operations import MAX_OPERATIONS, chosen_type, read_api
from tests.openapi.documents import BASE, api_of, document, operation, parameter

OLD: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "T", "version": "1"},
    "host": "api.example",
    "basePath": "/v1",
    "schemes": ["http", "https"],
    "consumes": ["application/json"],
    "produces": ["application/json"],
    "securityDefinitions": {"key": {"type": "apiKey", "name": "k", "in": "query"}},
    "parameters": {"id": {"name": "id", "in": "path", "type": "integer", "required": True}},
    "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "paths": {
        "/pets/{id}": {
            "parameters": [{"$ref": "#/parameters/id"}],
            "put": {
                "operationId": "put",
                "parameters": [
                    {"name": "tags", "in": "query", "type": "array", "items": {"type": "string"},
                     "collectionFormat": "pipes"},
                    {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}},
                ],
                "responses": {"200": {"description": "ok", "schema": {"$ref": "#/definitions/Pet"}}},
            },
            "post": {
                "operationId": "upload",
                "consumes": ["multipart/form-data"],
                "parameters": [
                    {"name": "file", "in": "formData", "type": "file", "required": True},
                    {"name": "note", "in": "formData", "type": "string"},
                ],
            },
        }
    },
}  # fmt: skip
PET = {"type": "object", "properties": {"name": {"type": "string"}}}
FILE = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}},
    "required": ["file"],
}
ID = parameter("id", "path", {"type": "integer"})
TAGS = parameter("tags", "query", {"type": "array", "items": {"type": "string"}}, style="pipeDelimited", explode=False)
NEW = document(
    {
        "/pets/{id}": {
            "parameters": [ID],
            "put": operation(TAGS, body={"application/json": {"schema": PET}}, operationId="put"),
            "post": operation(body={"multipart/form-data": {"schema": FILE}}, operationId="upload"),
        }
    }
)


def test_swagger_and_openapi_describe_the_same_tools() -> None:
    (old_api, old), (new_api, new) = api_of(OLD), api_of(NEW)
    assert old_api.base_url == new_api.base_url == BASE
    assert {name: tool.schema for name, tool in old.items()} == {name: tool.schema for name, tool in new.items()}
    assert old["put"].schema["required"] == ["id"]
    assert old["put"].output_schema == PET
    for name in old:
        [one, other] = (tool[name].operation for tool in (old, new))
        styles = [[(part.name, part.style, part.explode) for part in both.parameters] for both in (one, other)]
        assert styles[0] == styles[1]
        assert one.body is not None
        assert other.body is not None
        assert one.body.media_type == other.body.media_type


def test_requests_go_only_where_the_document_or_the_user_says() -> None:
    def base(root: dict[str, Any], address: str, given: str = "") -> str:
        loaded = load_document(root)
        loaded.address = address
        try:
            return read_api(loaded, given).base_url
        except DocumentError as error:
            return str(error)

    relative = document({}, servers=[{"url": "/v2"}])
    named = document({}, servers=[{"url": "https://{region}.example/", "variables": {"region": {"default": "eu"}}}])
    nowhere = document({}, servers=[])
    cases = [
        (relative, "https://one.example/docs/a.json", "", "https://one.example/v2"),
        (nowhere, "https://one.example/docs/a.json", "", "https://one.example"),
        (named, "/tmp/a.json", "", "https://eu.example"),
        (named, "https://eu.example/a.json", "", "https://eu.example"),
        (named, "https://one.example/a.json", "https://two.example/x/", "https://two.example/x"),
        (named, "https://one.example/a.json", "", "sends requests elsewhere, to https://eu.example/"),
        (relative, "/tmp/a.json", "", "names no server with an address"),
        (document({}, servers=[{"url": "file:///etc"}]), "/tmp/a.json", "", "names no server with an address"),
    ]
    wrong = [(case, found) for case in cases if not (found := base(*case[:3])).startswith(case[3])]
    assert wrong == []


def test_an_operation_that_cannot_be_used_costs_only_itself() -> None:
    paths: dict[str, Any] = {
        "/good": {"get": operation()},
        "/elsewhere": {"get": operation(servers=[{"url": "https://two.example"}])},
        "/same": {"get": operation(servers=[{"url": "https://api.example/v9"}])},
        "/broken": {"get": operation({"$ref": "#/components/parameters/none"})},
        "/file": {"$ref": "file:///etc/passwd"},
        "not a path": {"get": operation()},
        "/odd": {
            "get": "no operation",
            "parameters": 3,
            "post": {"parameters": "none", "tags": 3, "security": 1, "responses": []},
        },
    }
    api, tools = api_of(document(paths))
    assert [one.path for one in api.operations] == ["/good", "/same", "/odd"]
    assert tools["get_same"].operation.server == "https://api.example/v9"
    lines = "\n".join(api.left_out)
    for expected in ("GET /elsewhere: its requests go elsewhere", "GET /broken: ", "/file: "):
        assert expected in lines


def test_an_unknown_version_is_refused() -> None:
    roots: list[dict[str, Any]] = [{"paths": {}}, {"paths": {}, "swagger": "1.2"}, {"paths": {}, "openapi": "4.0.0"}]
    for root in roots:
        with pytest.raises(DocumentError, match="has the version"):
            read_api(load_document(root))


def test_the_body_is_json_if_it_may_be() -> None:
    cases = {
        ("text/xml", "application/json"): "application/json",
        ("multipart/form-data", "application/x-www-form-urlencoded"): "application/x-www-form-urlencoded",
        ("application/*+json", "application/vnd.own+json"): "application/vnd.own+json",
        ("*/*",): "*/*",
        ("image/png", "text/plain"): "text/plain",
        ("image/png",): "image/png",
    }
    assert {types: chosen_type(list(types)) for types in cases} == cases


def test_headers_of_http_itself_are_no_parameters() -> None:
    headers = [parameter(name, "header") for name in ("Authorization", "Host", "Accept", "Cookie", "X-Own")]
    _, tools = api_of(document({"/a": {"get": operation(*headers)}}))
    assert list(tools["get_a"].schema["properties"]) == ["X-Own"]


@pytest.mark.slow
def test_so_many_operations_are_used_and_no_more() -> None:
    paths: dict[str, Any] = {f"/p{number}": {"get": {}} for number in range(MAX_OPERATIONS + 5)}
    api = read_api(load_document(document(paths)))
    assert len(api.operations) == MAX_OPERATIONS
    assert api.left_out == ("only the first 10,000 operations are used",)
