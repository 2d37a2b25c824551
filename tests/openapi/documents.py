"""Documents of the tests: one that uses every way to write a parameter and a body, and helpers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagent.openapi.api_documents import load_document
from mcpagent.openapi.api_tools import ApiTool, all_api_tools
from mcpagent.openapi.operations import Api, read_api

BASE = "https://api.example/v1"
INTEGERS = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "string", "minLength": 1}},
    "required": ["x", "y"],
}


def document(paths: Mapping[str, Any], **root: Any) -> dict[str, Any]:
    """A document of OpenAPI 3.0 with these paths."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": BASE}],
        "paths": dict(paths),
        **root,
    }


def operation(*parameters: Mapping[str, Any], body: Any = None, **more: Any) -> dict[str, Any]:
    """An operation with these parameters, and a body of these media types."""
    found: dict[str, Any] = {"parameters": list(parameters), "responses": {"200": {"description": "ok"}}, **more}
    if body is not None:
        found["requestBody"] = {"content": body, "required": True}
    return found


def parameter(name: str, position: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    """A parameter; one of the path is required."""
    return {
        "name": name,
        "in": position,
        "schema": schema or {"type": "string"},
        "required": position == "path",
        **more,
    }


def api_of(root: Mapping[str, Any], base_url: str = "") -> tuple[Api, dict[str, ApiTool]]:
    """The operations of a document, and its tools by name."""
    loaded = load_document(root)
    api = read_api(loaded, base_url)
    return api, {tool.name: tool for tool in all_api_tools(loaded, api)}


def tool_of(path: str, method: str, given: Mapping[str, Any], **root: Any) -> ApiTool:
    """The one tool of a document with one operation."""
    [tool] = api_of(document({path: {method: given}}, **root))[1].values()
    return tool


def rich() -> dict[str, Any]:
    """A document whose operations have every style of parameter and every kind of body that a validator can read."""
    style = {
        "form": parameter("form", "query", INTEGERS),
        "plain": parameter("plain", "query", INTEGERS, explode=False),
        "spaced": parameter("spaced", "query", INTEGERS, style="spaceDelimited", explode=False),
        "piped": parameter("piped", "query", INTEGERS, style="pipeDelimited", explode=False),
        "deep": parameter("deep", "query", POINT, style="deepObject", explode=True),
        "json": {"name": "json", "in": "query", "content": {"application/json": {"schema": POINT}}},
    }
    paths: dict[str, Any] = {
        f"/query/{name}": {"get": operation({**one, "required": True})} for name, one in style.items()
    }
    for name, text in {
        "text": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "flag": {"type": "boolean"},
    }.items():
        paths[f"/plain/{name}/{{id}}"] = {
            "get": operation(
                parameter("id", "path"), parameter("q", "query", text), parameter("X-Head", "header", text)
            )
        }
    paths["/path/{ids}"] = {"get": operation(parameter("ids", "path", INTEGERS))}
    paths["/label/{ids}"] = {"get": operation(parameter("ids", "path", INTEGERS, style="label"))}
    paths["/head"] = {
        "get": operation(parameter("X-Ids", "header", INTEGERS), parameter("seen", "cookie", {"type": "integer"}))
    }
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "point": POINT},
        "required": ["name"],
    }
    paths["/json"] = {"post": operation(body={"application/json": {"schema": schema}})}
    paths["/list"] = {"put": operation(body={"application/json": {"schema": {"type": "array", "items": POINT}}})}
    flat = {**schema, "properties": {"name": {"type": "string"}, "n": {"type": "integer"}, "ids": INTEGERS}}
    paths["/form"] = {"post": operation(body={"application/x-www-form-urlencoded": {"schema": flat}})}
    filed = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "file": {"type": "string", "format": "binary"}},
        "required": ["file"],
    }
    paths["/files"] = {"post": operation(body={"multipart/form-data": {"schema": filed}})}
    paths["/text"] = {"post": operation(body={"text/plain": {"schema": {"type": "string"}}})}
    return document(paths)
