"""Documents are read whole, from one folder or one origin, and within bounds; each refusal is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpagent.openapi.api_documents import (
    MAX_DOCUMENT_BYTES,
    ApiDocument,
    DocumentError,
    Node,
    document_value,
    load_document,
)

EMPTY: dict[str, Any] = {"openapi": "3.1.0", "paths": {}}


def served(pages: dict[str, httpx2.Response]) -> httpx2.Client:
    """A client for whom these addresses are the whole network."""
    return httpx2.Client(
        transport=httpx2.MockTransport(lambda request: pages.get(str(request.url), httpx2.Response(404)))
    )


def test_yaml_has_the_types_of_json() -> None:
    text = b"a: 2024-01-02\nb: no\nc: true\n200: {x: &one [1.5, null]}\nd: *one\ne: 'no'\n{f: g}: 1\n"
    assert document_value(text, "d") == {
        "a": "2024-01-02",
        "b": "no",
        "c": True,
        "200": {"x": [1.5, None]},
        "d": [1.5, None],
        "e": "no",
        "": 1,
    }


def test_what_is_no_document_is_refused_in_one_line(tmp_path: Path) -> None:
    huge = tmp_path / "huge.json"
    huge.touch()
    with huge.open("r+b") as file:
        file.truncate(100 * 1024 * 1024)
    cases: dict[bytes | str, str] = {
        b"{": "is not JSON|is not YAML",
        b"[" * 5_000: "is not",
        b'{"a":' * 100_000: "is not",
        b"[1]": "no OpenAPI document",
        b'{"openapi": "3.0.0"}': "no OpenAPI document",
        b"a: [b": "is not YAML in line",
        b"a: &a {b: *a}": "is not YAML",
        b"a: !!python/object/apply:os.system [x]": "is not YAML",
        b"\xff\xfe": "is not UTF-8",
        str(huge): f"larger than {MAX_DOCUMENT_BYTES // 2**20} MB",
        str(tmp_path / "none.json"): "no such file",
        str(tmp_path): "is a directory",
    }
    wrong: dict[Any, str] = {}
    for given, expected in cases.items():
        path = str(tmp_path / "document")
        if isinstance(given, bytes):
            Path(path).write_bytes(given)
        else:
            path = given
        try:
            load_document(path)
            wrong[given[:40]] = "was read"
        except DocumentError as error:
            line = str(error)
            if not any(part in line for part in expected.split("|")) or "\n" in line or len(line) > 300:
                wrong[given[:40]] = line
    assert wrong == {}


def test_a_document_given_as_a_value_has_paths_too() -> None:
    for value in ({}, {"openapi": "3.1.0"}, {"openapi": "3.1.0", "paths": None}):
        with pytest.raises(DocumentError, match="no OpenAPI document"):
            load_document(value)


def test_references_lead_to_files_of_the_same_folder_and_no_further(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"a": "secret"}')
    folder = tmp_path / "api"
    (folder / "parts").mkdir(parents=True)
    (folder / "root.json").write_text(json.dumps(EMPTY))
    (folder / "parts" / "one.yaml").write_text("a: {b~c: {$ref: 'two.json#/x'}}")
    (folder / "parts" / "two.json").write_text('{"x": {"type": "string"}}')
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    document = load_document(str(folder / "root.json"))
    found = document.resolved(Node({"$ref": "parts/one.yaml#/a/b~0c"}, document.address))
    assert found.value == {"type": "string"}
    refused = ["../secret.json#/a", f"file://{tmp_path}/secret.json#/a", f"{tmp_path}/secret.json#/a", "link.json#/a"]
    refused += ["//example.com/a.json", "http://127.0.0.1:1/a.json", "#/paths/none", "parts/none.json"]
    read = [reference for reference in refused if leads_somewhere(document, reference)]
    assert read == []


def leads_somewhere(document: ApiDocument, reference: str) -> bool:
    try:
        document.resolved(Node({"$ref": reference}, document.address))
    except DocumentError:
        return False
    return True


def test_references_of_a_url_stay_at_its_origin() -> None:
    pages = {
        "https://one.example/a.json": httpx2.Response(200, json=EMPTY),
        "https://one.example/b.json": httpx2.Response(200, json={"x": {"type": "string"}}),
        "https://two.example/b.json": httpx2.Response(200, json={"x": "elsewhere"}),
    }
    document = load_document("https://one.example/a.json", served(pages))
    assert document.resolved(Node({"$ref": "b.json#/x"}, document.address)).value == {"type": "string"}
    for reference in ("https://two.example/b.json#/x", "http://one.example/b.json#/x", "file:///etc/hostname"):
        with pytest.raises(DocumentError, match="outside of the origin"):
            document.resolved(Node({"$ref": reference}, document.address))


def test_a_url_is_followed_within_its_origin_only() -> None:
    pages = {
        "https://one.example/a": httpx2.Response(302, headers={"location": "/b"}),
        "https://one.example/b": httpx2.Response(200, json=EMPTY),
        "https://one.example/c": httpx2.Response(302, headers={"location": "https://two.example/b"}),
        "https://two.example/b": httpx2.Response(200, json=EMPTY),
        "https://one.example/d": httpx2.Response(302, headers={"location": "/d"}),
        "https://one.example/e": httpx2.Response(500),
    }
    assert load_document("https://one.example/a", served(pages)).root == EMPTY
    for path, expected in {"c": "another origin", "d": "more than 5 times", "e": "HTTP 500", "f": "HTTP 404"}.items():
        with pytest.raises(DocumentError, match=expected):
            load_document(f"https://one.example/{path}", served(pages))


def test_references_in_a_circle_end() -> None:
    document = load_document(EMPTY | {"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}})
    with pytest.raises(DocumentError, match="in a circle"):
        document.resolved(Node({"$ref": "#/a"}, document.address))
