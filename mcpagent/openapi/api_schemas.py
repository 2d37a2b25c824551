"""Convert schemas of OpenAPI documents to JSON Schema: self-contained, valid, and of limited size."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcpagent.openapi.api_documents import ApiDocument, DocumentError, Node
from mcpagent.utilities.json_schema.schema_form import COUNTS, TYPES
from mcpagent.utilities.text.foreign_patterns import PatternError, compiled

Direction: TypeAlias = Literal["request", "response"]
_Schema: TypeAlias = dict[str, Any]

MAX_SCHEMA_CHARACTERS = 30_000
"""Maximum size of one schema as JSON; a larger one omits the components that are referred to last."""

MAX_OUTLINES = 20_000
"""Maximum total size of omitted components whose required properties are still named."""

_MOST_OUTLINED = 10
_DEEPEST = 24
_MOST_NODES = 5_000
"""Maximum number of subschemas of one component; further ones, as from multiplied YAML aliases, accept anything."""

_TEXT_CHARACTERS = 400
_MOST_VALUES = 200
_LONGEST_PATTERN = 300
_OWN_ESCAPE = re.compile(r"\\[^bBdDfnrsStuvwWx\W]|\\[dDsSwW]-[^\]]|\(\?[^:=!]")
_ESCAPED = re.compile(r"\\(\\|_)")
_SENTENCE_END = re.compile(r"[.!?:](?=\s)|\n\n")


def cut_at_sentence(text: str, limit: int) -> str:
    """Return the text up to the last sentence that ends within the limit; cut with an ellipsis if no sentence does."""
    text = text.strip()
    if len(text) <= limit:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, limit)]
    if ends and ends[-1] > limit // 4:
        return text[: ends[-1]].strip()
    return text[: limit - 1].rsplit(None, 1)[0] + "…"


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_pattern(value: Any) -> bool:
    r"""Return whether all regex dialects read this pattern alike; few know `\p{L}`, `\z` or `[\w-_]`."""
    if (
        not isinstance(value, str)
        or len(value) > _LONGEST_PATTERN
        or _OWN_ESCAPE.search(value)
    ):
        return False
    try:
        compiled(value)
    except PatternError:
        return False
    return True


def _bare(escape: re.Match[str]) -> str:
    """Return an underscore without a backslash, which some dialects refuse before it; other escapes unchanged."""
    return "_" if escape[1] == "_" else escape[0]


def _is_small(value: Any) -> bool:
    return not isinstance(value, dict | list) or len(value) <= 20


_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(COUNTS, _is_count),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number
    ),
    **dict.fromkeys(("format", "contentEncoding", "contentMediaType"), _is_text),
    "pattern": _is_pattern,
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    "enum": lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_VALUES,
    "const": lambda _: True,
    "default": _is_small,
}
"""Keywords whose value is copied if it has the form that JSON Schema requires."""

_OF_RESPONSES = frozenset({"format", "const"})
"""Keywords copied for responses, besides types: responses often violate narrower keywords, and a reader needs only the
types.
"""

_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not")


@dataclass(slots=True)
class _Component:
    """A converted schema that references lead to, with the names of the components that it refers to."""

    schema: _Schema
    uses: list[str]
    size: int


@dataclass(slots=True)
class SchemaConverter:
    """Converts the schemas of a document for one direction.

    A request omits `readOnly` properties; a response omits `writeOnly` ones, and limits. Each component is converted
    once, and the schemas of all operations share it.
    """

    document: ApiDocument
    direction: Direction
    most_nodes: int = _MOST_NODES
    _names: dict[tuple[str, str], str] = field(
        default_factory=dict[tuple[str, str], str]
    )
    _places: dict[str, Node] = field(default_factory=dict[str, Node])
    _components: dict[str, _Component] = field(default_factory=dict[str, _Component])
    _nodes: int = 0

    def converted(self, place: Node) -> _Schema:
        """Return the schema at a place, with references to components as `#/$defs/NAME`."""
        self._nodes = 0
        return self._schema(place, 0)

    def whole(self, schema: _Schema, limit: int = MAX_SCHEMA_CHARACTERS) -> _Schema:
        """Return a converted schema with the components that it refers to, within the limit.

        Nearer components come first. Components that do not fit are reduced to the type and the required properties.
        """
        depth = _DEEPEST
        while _size(schema) > limit and depth > 1:
            depth //= 2
            schema = _shallow(schema, depth)
        left = limit - _size(schema)
        waiting = list(_uses(schema))
        found: dict[str, Any] = {}
        for name in waiting:  # the list grows during the loop
            if name in found:
                continue
            component = self._component(name)
            left -= component.size
            if left < 0:
                found[name] = _outline(component.schema, left > -MAX_OUTLINES)
                continue
            found[name] = component.schema
            waiting += component.uses
        if not found:
            return schema
        return {**schema, "$defs": found}

    def _component(self, name: str) -> _Component:
        if name not in self._components:
            schema = self.converted(self._places[name])
            self._components[name] = _Component(
                schema, list(_uses(schema)), _size(schema)
            )
        return self._components[name]

    def _schema(self, place: Node, depth: int) -> _Schema:
        self._nodes += 1
        value = place.value
        if (
            not isinstance(value, dict)
            or depth > _DEEPEST
            or self._nodes > self.most_nodes
        ):
            return {}
        if isinstance(value.get("$ref"), str):
            return self._reference(place)
        if isinstance(value.get("pattern"), str):
            value = {**value, "pattern": _ESCAPED.sub(_bare, value["pattern"])}
        made = {
            key: value[key]
            for key, fits in _PLAIN.items()
            if key in value and fits(value[key])
        }
        made |= _types(value)
        if self.direction == "response":
            made = {
                key: rule
                for key, rule in made.items()
                if key == "type" or key in _OF_RESPONSES
            }
        _set_exclusive_limits(made, value)
        text = value.get("description")
        if isinstance(text, str) and text.strip():
            made["description"] = cut_at_sentence(text, _TEXT_CHARACTERS)
        for key in _LISTS:
            parts = value.get(key)
            if isinstance(parts, list) and parts:
                made[key] = [
                    self._schema(Node(part, place.file), depth + 1) for part in parts
                ]
        for key in _SINGLE:
            rule = value.get(key)
            if isinstance(rule, dict):
                made[key] = self._schema(Node(rule, place.file), depth + 1)
            elif isinstance(rule, bool) and key == "additionalProperties":
                made[key] = rule
        self._add_properties(made, place, depth)
        return made

    def _add_properties(self, made: _Schema, place: Node, depth: int) -> None:
        properties = place.value.get("properties")
        required = place.value.get("required")
        names = (
            [name for name in required if isinstance(name, str)]
            if isinstance(required, list)
            else []
        )
        if isinstance(properties, dict):
            hidden = {
                str(name)
                for name, part in properties.items()
                if self.is_hidden(Node(part, place.file))
            }
            made["properties"] = {
                str(name): self._schema(Node(part, place.file), depth + 1)
                for name, part in properties.items()
                if str(name) not in hidden
            }
            names = [name for name in names if name not in hidden]
        if names and self.direction == "request":
            made["required"] = list(dict.fromkeys(names))

    def is_hidden(self, place: Node) -> bool:
        """Return whether a property never occurs in this direction."""
        word = "readOnly" if self.direction == "request" else "writeOnly"
        if isinstance(place.value, dict) and place.value.get(word) is True:
            return True
        try:
            value = self.document.resolved(place).value
        except DocumentError:
            return False
        return isinstance(value, dict) and value.get(word) is True

    def _reference(self, place: Node) -> _Schema:
        try:
            target = self.document.resolved(place)
        except DocumentError:
            return {}
        key = (target.file, target.pointer)
        if key not in self._names:
            self._names[key] = self._new_name(target.pointer)
            self._places[self._names[key]] = target
        made: _Schema = {"$ref": f"#/$defs/{self._names[key]}"}
        text = place.value.get("description")
        if isinstance(text, str) and text.strip():
            made["description"] = cut_at_sentence(text, _TEXT_CHARACTERS)
        return made

    def _new_name(self, pointer: str) -> str:
        last = (
            re.sub(r"[^A-Za-z0-9_]", "_", pointer.rpartition("/")[2])[:60] or "schema"
        )
        name, number = last, 1
        while name in self._places:
            number += 1
            name = f"{last}_{number}"
        return name


def _types(value: Mapping[str, Any]) -> _Schema:
    """Return the types, and the enum, both with null if the schema is nullable."""
    given = value.get("type")
    named = given if isinstance(given, list) else [given]
    if "file" in named:  # Swagger 2.0
        return {"type": "string", "format": "binary"}
    types = list(
        dict.fromkeys(name for name in named if isinstance(name, str) and name in TYPES)
    )
    made: _Schema = {}
    if value.get("nullable") is True and types:
        types = list(dict.fromkeys([*types, "null"]))
        enum = value.get("enum")
        if (
            isinstance(enum, list)
            and 0 < len(enum) <= _MOST_VALUES
            and None not in enum
        ):
            made["enum"] = [*enum, None]
    if len(types) == 1:
        made["type"] = types[0]
    elif types:
        made["type"] = types
    return made


def _set_exclusive_limits(made: _Schema, value: Mapping[str, Any]) -> None:
    """Convert the exclusive limits of OpenAPI 3.0, which are flags, to those of JSON Schema, which are numbers."""
    for limit, flag in (
        ("minimum", "exclusiveMinimum"),
        ("maximum", "exclusiveMaximum"),
    ):
        if value.get(flag) is True and limit in made:
            made[flag] = made.pop(limit)


def _uses(value: Any) -> Iterable[str]:
    """Yield the names of the components that a converted schema refers to, the nearest first."""
    waiting = [value]
    for node in waiting:  # the list grows during the loop
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                yield reference.rpartition("/")[2]
            for key, part in node.items():
                if key == "properties":
                    waiting += part.values()
                elif key in _LISTS or key in _SINGLE:
                    waiting.append(part)


def _shallow(schema: Any, depth: int) -> Any:
    """Return the schema cut at `depth`; schemas at that depth have only type and description."""
    if isinstance(schema, list):
        return [_shallow(part, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if depth == 0:
        return {key: schema[key] for key in ("type", "description") if key in schema}
    made = dict(schema)
    for key in (*_LISTS, *_SINGLE):
        if key in made:
            made[key] = _shallow(made[key], depth - 1)
    if "properties" in made:
        made["properties"] = {
            name: _shallow(part, depth - 1) for name, part in made["properties"].items()
        }
    return made


def _outline(schema: _Schema, with_required: bool) -> _Schema:
    """Return the type of a schema, and, if `with_required`, the required properties with their types."""
    made: _Schema = {"description": "Its other parts are not described here."}
    made |= {key: schema[key] for key in ("type", "enum") if key in schema}
    required = schema.get("required", ())
    if with_required and 0 < len(required) <= _MOST_OUTLINED:
        properties = schema.get("properties", {})
        made["required"] = required
        made["properties"] = {
            name: {
                key: rule
                for key, rule in properties.get(name, {}).items()
                if key in ("type", "enum", "format")
            }
            for name in required
        }
    return made


def _size(schema: _Schema) -> int:
    return len(json.dumps(schema, default=str))
