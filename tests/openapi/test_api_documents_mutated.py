"""Documents with anything in any place: one line or an operation less, and no request leaves the API."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from mcpagent.openapi.api_client import ApiClient, by_name
from mcpagent.openapi.api_documents import DocumentError, load_document
from mcpagent.openapi.api_tools import all_api_tools
from mcpagent.openapi.http_calls import ArgumentError
from mcpagent.openapi.operations import read_api
from tests.openapi.documents import rich

ODD: list[Any] = [
    *(None, 0, -1, 1e400, True, "", "..", "a\r\nX: y", "#/", "#/components", "file:///etc/passwd"),
    *("http://evil.example/", "http://[", [], {}, [[]], {"$ref": "#"}, {"$ref": "#/paths"}, {"$ref": 123}),
    *({"$ref": "\ud800"}, "{a}{b}", "\x00", "é" * 3_000, {"type": ["object", 3]}, "/../x", "\ud800"),
]
VALUES: list[Any] = [
    *("..%2f", "a\r\nb", "\ud800", {"a": {"b": [1]}}, [[1], {"x": None}], None, 1e308, True, ""),
    *("file:../x", "data:x;base64,??", -1, "a/b", {"$ref": "#"}),
]


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with one part of it replaced, renamed or left out."""
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        what = chance.random()
        if what < 0.15:
            value[key] = chance.choice(ODD)
        elif what < 0.2:
            value[chance.choice([one for one in ODD if isinstance(one, str)])] = value[key]
        elif what < 0.25:
            del value[key]
        else:
            value[key] = mutated(value[key], chance)
        return value
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        value[place] = mutated(value[place], chance)
        return value
    return chance.choice(ODD)


@pytest.mark.slow
@pytest.mark.attack
def test_a_mutated_document_costs_only_its_broken_parts() -> None:
    chance, read, lines = random.Random(40), 0, list[str]()
    for _ in range(120):
        document = json.loads(json.dumps(rich()))
        for _ in range(chance.randint(1, 12)):
            if chance.random() < 0.05:
                document = mutated(document, chance)
            else:
                paths = document.get("paths") if isinstance(document, dict) else None
                mutated(paths, chance)
        try:
            loaded = load_document(document)
            api = read_api(loaded, "https://api.example/v1")
            tools = by_name(all_api_tools(loaded, api))
        except DocumentError as error:
            lines.append(str(error))
            continue
        read += 1
        client = ApiClient(api, tools, httpx2.AsyncClient(), {"*": "secret"}, 1_000)
        for tool in tools.values():
            listed = tool.listed()
            Draft202012Validator.check_schema(listed["inputSchema"])
            json.dumps(listed)
            given = {name: chance.choice(VALUES) for name in listed["inputSchema"]["properties"]}
            try:
                request = client.request(tool, given)
            except ArgumentError:
                continue
            assert (request.url.scheme, request.url.host) == ("https", "api.example")
            assert not any(b"\r" in text or b"\n" in text for pair in request.headers.raw for text in pair)
    assert read > 60
    assert not any("\n" in line for line in lines)
