"""`OutputSpec`: the schema of an answer, and the conversion of its text to a value or to problems.

Pydantic's `TypeAdapter` handles types, including their validators and defaults. A JSON Schema is validated like
arguments of tools, in bounded time. Models are always asked for an object: any other value is in its property `result`.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from mcpagent.errors import InputError, McpAgentError, OutputProblem
from mcpagent.models.base import OutputFormat
from mcpagent.run.output.json_documents import document_in, partial_document
from mcpagent.run.validation import problems, without_nulls
from mcpagent.utilities.json_schema.parts import referred, rewritten, untitled
from mcpagent.utilities.json_schema.schema_form import UncheckedError
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

RESULT = "result"
"""The property that contains a value that is not an object."""

MOST_PROBLEMS = 20

_MODULES = re.compile(r"(?:[A-Za-z_]\w*\.|<locals>\.)+")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_NO_TYPES = (str, bytes, bool, int, float, list, tuple, set)
_TAKEN = "a type (a pydantic model, dataclass, TypedDict, enum, list, union ...) or a JSON Schema"


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The value of an answer or, if it is not valid, the problem of each field. `document` is the JSON data of the
    value.
    """

    value: Any = None
    document: Any = None
    problems: tuple[OutputProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The specification of an answer. `format` is requested from models; `schema` is that of the value itself.

    `is_wrapped`: the value is in the object's property `result`. `check` converts JSON data to the value or to
    problems, and never raises.
    """

    format: OutputFormat
    schema: dict[str, Any]
    is_wrapped: bool
    check: Callable[[Any], ParsedAnswer]

    def read(self, text: str) -> ParsedAnswer:
        """Parse a complete answer: its JSON, or the JSON in its only code block."""
        try:
            document = document_in(text)
        except (ValueError, RecursionError) as error:
            if not text.strip():
                said = "the answer is empty"
            else:
                said = f"it is no JSON: {safe_line(str(error), 120)}"
            return ParsedAnswer(problems=(OutputProblem("", said),))
        return self.of_document(document)

    def of_document(self, document: Any) -> ParsedAnswer:
        """Return the value in a JSON document, or its problems.

        If the requested format wraps the value in an object with the property `result`, the document may also be the
        value without that object.
        """
        inner = document
        if (
            self.is_wrapped
            and isinstance(document, dict)
            and document.keys() == {RESULT}
        ):
            inner = document[RESULT]
        found = self.check(inner)
        if found.problems and (fewer := without_nulls(self.schema, inner)) != inner:
            # In a strict schema no property is optional, so models write null for a missing value.
            again = self.check(fewer)
            if not again.problems:
                found = again
        if found.problems and inner is not document:
            whole = self.check(document)
            if not whole.problems:
                found = whole
        return found

    def partial(self, text: str) -> Any:
        """Return the part of the value that has arrived so far, as JSON data; None if there is nothing yet."""
        document = partial_document(text)
        if self.is_wrapped and isinstance(document, dict):
            if document.keys() <= {RESULT}:
                return document.get(RESULT)
            return document
        return document


def output_spec(output_type: Any) -> OutputSpec:
    """Return the specification of a type or a JSON Schema. Raises `InputError` for anything else, or an unusable
    type.
    """
    if isinstance(output_type, Mapping):
        return _of_schema(dict(output_type))
    if isinstance(output_type, _NO_TYPES) or inspect.isroutine(output_type):
        raise InputError(
            f"output_type: expected {_TAKEN}, got {safe_line(repr(output_type), 60)}"
        )
    return _of_type(output_type)


def spec_from_json(data: Mapping[str, Any]) -> OutputSpec:
    """Return a stored specification. It has only the schema, without the type that it was made from."""
    return _spec(
        dict(data["schema"]),
        str(data["name"]),
        str(data["description"]),
        _by_schema(dict(data["schema"])),
    )


def spec_to_json(spec: OutputSpec) -> dict[str, Any]:
    """Return the data that `spec_from_json` reads."""
    return {
        "name": spec.format.name,
        "description": spec.format.description,
        "schema": spec.schema,
    }


def _spec(
    schema: dict[str, Any],
    name: str,
    description: str,
    check: Callable[[Any], ParsedAnswer],
) -> OutputSpec:
    whole = _rooted(schema)
    is_wrapped = whole.get("type") != "object" or any(
        key in whole for key in ("anyOf", "oneOf", "allOf", "enum")
    )
    if is_wrapped:
        asked = _wrapped(schema)
    else:
        asked = whole
    legal = _NOT_IN_NAMES.sub("_", name).strip("_")[:64] or "answer"
    return OutputSpec(
        OutputFormat(legal, asked, description), schema, is_wrapped, check
    )


# -- JSON Schema -------------------------------------------------------------------------------------------------------


def _of_schema(schema: dict[str, Any]) -> OutputSpec:
    try:
        text = json.dumps(schema, allow_nan=False)
        problems(schema, None)  # validate the schema now, before an answer costs money
    except UncheckedError as error:
        raise InputError(
            f"output_type: no JSON Schema that can be used: {error}"
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"output_type: no JSON Schema, which is JSON data: {safe_line(str(error), 120)}"
        ) from None
    own: dict[str, Any] = json.loads(text)  # a copy, which is never changed afterwards
    title, described = own.get("title"), own.get("description")
    return _spec(
        own,
        title if isinstance(title, str) else "answer",
        described if isinstance(described, str) else "",
        _by_schema(own),
    )


def _by_schema(schema: dict[str, Any]) -> Callable[[Any], ParsedAnswer]:
    def check(document: Any) -> ParsedAnswer:
        try:
            found = problems(schema, document)
        except UncheckedError as error:
            return ParsedAnswer(
                problems=(OutputProblem("", f"it cannot be checked: {error}"),)
            )
        return ParsedAnswer(
            document,
            document,
            tuple(OutputProblem(place, text) for place, text in found),
        )

    return check


# -- Types -------------------------------------------------------------------------------------------------------------


def _of_type(output_type: Any) -> OutputSpec:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = untitled(adapter.json_schema())
    except (
        PydanticUserError,
        NameError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        reason = safe_line(str(error).partition("\n")[0], 200)
        raise InputError(
            f"output_type: {_shown(output_type)}: {reason}; give {_TAKEN}"
        ) from None
    described = schema.get("description")
    return _spec(
        schema,
        _shown(output_type),
        described if isinstance(described, str) else "",
        _by_type(adapter),
    )


def _shown(output_type: Any) -> str:
    """Return a name for people and models: the class name, or the source code of another type, without modules."""
    return safe_line(_MODULES.sub("", _written(output_type)), 60)


def _written(output_type: Any) -> str:
    """Return the text of a type without `Annotated`, because the address of a validator differs in each process."""
    origin, inner = get_origin(output_type), get_args(output_type)
    if origin is Annotated:
        return _written(inner[0])
    if output_type is NoneType:
        return "None"
    if isinstance(output_type, type) and not inner:
        return output_type.__name__
    if origin is Union or origin is UnionType:
        return " | ".join(map(_written, inner))
    if isinstance(origin, type) and not any(
        isinstance(one, list) for one in inner
    ):  # the arguments of a `Callable`
        return f"{origin.__name__}[{', '.join('...' if one is ... else _written(one) for one in inner)}]"
    return str(output_type)


def _by_type(adapter: TypeAdapter[Any]) -> Callable[[Any], ParsedAnswer]:
    from pydantic import ValidationError

    def check(document: Any) -> ParsedAnswer:
        try:
            # Validate as JSON: in JSON, a date is a string, which a strict type accepts only there.
            return ParsedAnswer(adapter.validate_json(json.dumps(document)), document)
        except ValidationError as error:
            return ParsedAnswer(problems=_misfits(error))
        except McpAgentError:
            raise
        except Exception as error:  # noqa: BLE001 - validators are other people's code, and see what a model wrote
            said = f"a validator raised {type(error).__name__}: {error}"
            return ParsedAnswer(problems=(OutputProblem("", safe_line(said, 200)),))

    return check


def _misfits(error: ValidationError) -> tuple[OutputProblem, ...]:
    found = error.errors(include_url=False, include_context=False, include_input=True)
    told: dict[OutputProblem, None] = {}
    for item in found[:MOST_PROBLEMS]:
        place = ".".join(safe_line(str(step), 80) for step in item["loc"])
        if item["type"] == "missing":
            given = ""
        else:
            given = f", got {safe_line(repr(item.get('input')), 80)}"
        told[OutputProblem(place, f"{safe_line(item['msg'], 200)}{given}")] = None
    return tuple(told)


# -- Conversion of a schema to that of a JSON object -------------------------------------------------------------------


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with a reference at its root resolved; a type that refers to itself has one."""
    whole, seen = schema, set[str]()
    while isinstance(reference := whole.get("$ref"), str) and reference not in seen:
        seen.add(reference)
        found = referred(schema, reference)
        if not isinstance(found, dict):
            break
        whole = {**{key: rule for key, rule in whole.items() if key != "$ref"}, **found}
    return whole


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object schema with the schema as its property `result`.

    Definitions move to the root, and all references keep their targets.
    """
    hoisted = {
        name: schema[name]
        for name in ("$defs", "definitions")
        if isinstance(schema.get(name), dict)
    }
    inner = {name: rule for name, rule in schema.items() if name not in hoisted}
    return {
        "type": "object",
        "properties": {RESULT: rewritten(inner, _moved)},
        "required": [RESULT],
        "additionalProperties": False,
        **rewritten(hoisted, _moved),
    }


def _moved(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subschema with its reference changed, so that it has the same target inside the wrapper."""
    reference = schema.get("$ref")
    stays = ("#/$defs/", "#/definitions/")
    if (
        isinstance(reference, str)
        and (f"{reference}/").startswith("#/")
        and not reference.startswith(stays)
    ):
        return {**schema, "$ref": f"#/properties/{RESULT}{reference[1:]}"}
    return dict(schema)
