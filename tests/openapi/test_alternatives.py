"""The kinds of an object that a discriminator tells apart are alternatives in its definition."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator

from mcpagent.openapi.alternatives import with_alternatives
from tests.openapi.documents import document, operation, tool_of

PET: dict[str, Any] = {
    "type": "object",
    "description": "A pet.",
    "discriminator": {"propertyName": "kind", "mapping": {"cat": "#/components/schemas/Cat"}},
    "properties": {"kind": {"type": "string"}, "name": {"type": "string"}},
    "required": ["kind", "name"],
}


def kind(**properties: Any) -> dict[str, Any]:
    return {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": properties, "required": [*properties]}]}


SCHEMAS = {"Pet": PET, "Cat": kind(lives={"type": "integer"}), "Dog": kind(bark={"type": "string"})}
BODY = {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}


def test_a_request_for_a_base_is_one_of_its_kinds() -> None:
    tool = tool_of("/pets", "post", operation(body=BODY), components={"schemas": SCHEMAS})
    Draft202012Validator.check_schema(tool.schema)
    fits = Draft202012Validator(tool.schema).is_valid
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"kind": "cat", "name": "Tom", "lives": 9}, True),
        ({"kind": "Dog", "name": "Rex", "bark": "loud"}, True),
        ({"kind": "cat", "name": "Tom"}, False),
        ({"kind": "Dog", "name": "Rex", "lives": 9}, False),
        ({"kind": "Dog", "bark": "loud"}, False),
        ({"kind": "bird", "name": "Tweety"}, False),
        ({"name": "Tom", "lives": 9}, False),
    ]
    assert [(body, fits({"body": body})) for body, _ in cases] == cases
    assert tool.schema["$defs"]["Pet"]["description"] == "A pet."


def test_swagger_names_the_property_alone() -> None:
    base = {"discriminator": "kind", "properties": {"kind": {"type": "string"}}}
    cat = {"allOf": [{"$ref": "#/definitions/Pet"}], "x-ms-discriminator-value": "#cat"}
    found = with_alternatives({"swagger": "2.0", "definitions": {"Pet": base, "Cat": cat}})["definitions"]
    [alternative] = found["Pet"]["anyOf"]
    assert alternative["allOf"][0] == {"$ref": "#/definitions/Cat"}
    assert alternative["allOf"][1]["properties"] == {"kind": {"type": "string", "enum": ["#cat"]}}
    assert found["Cat"]["allOf"] == [{"$ref": "#/definitions/Pet_base"}]
    assert found["Pet_base"] == base


def test_other_documents_stay_the_same_value() -> None:
    odd: list[Any] = [
        document({}),
        document({}, components={"schemas": {"Pet": PET}}),
        document(
            {}, components={"schemas": {"A": {"allOf": [{"$ref": "#/components/schemas/A"}, 3], "discriminator": 3}}}
        ),
        document({}, components={"schemas": [1], "definitions": 3}),
        document({}, components=3),
        document({}, components={"schemas": {f"C{number}": kind() for number in range(61)} | {"Pet": PET}}),
    ]
    assert [root for root in odd if with_alternatives(root) is not root] == []
