"""Operations as tools: names, one flat schema, hints, and words to find them by."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.openapi.documents import INTEGERS, POINT, api_of, document, operation, parameter, rich, tool_of
from tests.reference_work import reference_seconds


def test_names_are_legal_unique_and_do_not_depend_on_the_order() -> None:
    long = "a" * 80
    paths: dict[str, Any] = {
        "/pets/{id}": {
            "get": operation(operationId="pets/get pet"),
            "put": operation(),
            "delete": operation(operationId="same"),
        },
        "/pets": {"get": operation(operationId="Same"), "post": operation(operationId="ünï")},
        "/p-e/ts": {"get": operation(operationId=long + "1")},
        "/p/e/ts": {"get": operation(operationId=long + "2")},
        "/x/{a}": {"get": operation()},
        "/x/a": {"get": operation()},
    }
    _, tools = api_of(document(paths))
    _, turned = api_of(document(dict(reversed(paths.items()))))
    by_request = {(tool.operation.method, tool.operation.path): name for name, tool in tools.items()}
    assert by_request == {(tool.operation.method, tool.operation.path): name for name, tool in turned.items()}
    assert len({name.lower() for name in tools}) == 9
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in tools)
    assert by_request["GET", "/pets/{id}"] == "pets_get_pet"
    assert by_request["PUT", "/pets/{id}"] == "put_pets_id"
    assert (by_request["DELETE", "/pets/{id}"], by_request["GET", "/pets"]) == ("delete_pets_id", "get_pets")


def test_parameters_and_body_become_one_flat_schema() -> None:
    body = {"allOf": [POINT, {"properties": {"z": INTEGERS, "id_": {"type": "string"}}, "required": ["z"]}]}
    tool = tool_of(
        "/a/{id}",
        "post",
        operation(
            parameter("id", "path"),
            parameter("id", "query", description="Another one."),
            parameter("filter[name]", "query"),
            body={"application/json": {"schema": body}},
        ),
    )
    assert list(tool.schema["properties"]) == ["id", "id_query", "filter_name", "x", "y", "z", "id_"]
    assert tool.schema["required"] == ["id", "x", "y", "z"]
    assert tool.schema["properties"]["id_query"]["description"] == "Another one."


def test_a_body_stays_one_argument_where_flattening_would_be_ambiguous() -> None:
    bodies: dict[str, Any] = {
        "a field named like a parameter": {"properties": {"id": {"type": "string"}}},
        "alternatives": {"oneOf": [POINT, {"properties": {"a": {}}}]},
        "a list": INTEGERS,
        "free fields": {"type": "object", "additionalProperties": {"type": "string"}, "properties": {"a": {}}},
        "fields that differ in a character": {"properties": {"a b": {}, "a.b": {}}},
        "anything": {},
    }
    kept = {
        name: list(
            tool_of(
                "/a/{id}", "post", operation(parameter("id", "path"), body={"application/json": {"schema": schema}})
            ).schema["properties"]
        )
        for name, schema in bodies.items()
    }
    assert kept == {name: ["id", "body"] for name in bodies}


def test_fields_that_the_server_sets_are_no_arguments() -> None:
    schema = {
        "properties": {"id": {"type": "integer", "readOnly": True}, "name": {"type": "string"}},
        "required": ["id", "name"],
    }
    tool = tool_of("/a", "post", operation(body={"application/json": {"schema": schema}}))
    assert (list(tool.schema["properties"]), tool.schema["required"]) == (["name"], ["name"])


def test_hints_come_from_the_method() -> None:
    hints = {}
    for method in ("get", "head", "post", "put", "patch", "delete"):
        listed = tool_of("/a", method, operation()).listed()["annotations"]
        hints[method] = "".join(name[0] for name, told in listed.items() if told)
    assert hints == {"get": "ri", "head": "ri", "post": "", "put": "i", "patch": "", "delete": "di"}


def test_descriptions_are_short_and_plain() -> None:
    tool = tool_of(
        "/a/{b}/list-all",
        "get",
        operation(
            summary="List <b>all</b>.",
            description="See [the guide](https://example.com/x). " + "More words here. " * 200,
            tags=["things", "more"],
            deprecated=True,
        ),
    )
    assert tool.description.startswith("List all.\nSee the guide. More words here.")
    assert tool.description.endswith("More words here.\nDeprecated. GET /a/{b}/list-all")
    assert len(tool.description) < 1_100
    assert (tool.title, tool.category, tool.words) == (
        "List all. (https://api.example/v1)",
        "things",
        ("more", "list-all"),
    )


def test_a_sentence_that_many_operations_share_is_left_out() -> None:
    about = "It needs the scope `admin`."
    paths = {f"/a{number}": {"get": operation(description=f"Own words {number}. {about}")} for number in range(12)}
    descriptions = {tool.description for tool in api_of(document(paths))[1].values()}
    assert descriptions == {f"Own words {number}.\nGET /a{number}" for number in range(12)}
    few = dict(list(paths.items())[:9])
    assert all(about in tool.description for tool in api_of(document(few))[1].values())


def test_results_are_typed_if_they_are_objects_or_lists() -> None:
    def typed(schema: Any) -> Any:
        response = {"200": {"description": "", "content": {"application/json": {"schema": schema}}}}
        tool = tool_of("/a", "get", operation() | {"responses": response})
        return tool.wraps, tool.output_schema

    xy = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}}
    assert typed(POINT) == (False, xy)
    assert typed({"type": "array", "items": POINT}) == (
        True,
        {"type": "object", "properties": {"items": {"type": "array", "items": xy}}, "required": ["items"]},
    )
    assert typed({"type": "string"}) == (False, None)
    assert typed({"oneOf": [POINT]}) == (False, None)


@pytest.mark.slow
def test_a_thousand_operations_take_less_than_a_second() -> None:
    """As GitHub's do: each with some parameters, a body and a response of components that refer to others.

    A second on a machine that does the reference work in 5 ms.
    """
    schemas: dict[str, Any] = {
        f"S{number}": {
            "type": "object",
            "properties": {
                "next": {"$ref": f"#/components/schemas/S{(number + 1) % 300}"},
                **{f"field{place}": {"type": "string", "description": "A field. " * 10} for place in range(20)},
            },
        }
        for number in range(300)
    }
    parameters = [parameter(f"p{number}", "query", description="A parameter. " * 5) for number in range(6)]
    response = {
        "200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/S9"}}}}
    }
    paths = {
        f"/things/{number}/{{id}}": {
            "post": operation(
                *parameters,
                body={"application/json": {"schema": {"$ref": f"#/components/schemas/S{number % 300}"}}},
                description=f"Do the thing number {number}. " + "It does more than that. " * 20,
            )
            | {"responses": response}
        }
        for number in range(1_000)
    }
    root = document(paths, components={"schemas": schemas})
    started = time.process_time()
    _, tools = api_of(root)
    listed = [tool.listed() for tool in tools.values()]
    assert time.process_time() - started < 200 * reference_seconds()
    assert len(listed) == 1_000


def test_every_definition_is_valid_json_schema() -> None:
    _, tools = api_of(rich())
    for tool in tools.values():
        Draft202012Validator.check_schema(tool.listed()["inputSchema"])
    assert len(tools) == 17
