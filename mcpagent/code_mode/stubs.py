"""Write a tool's definition as a Python stub, and convert a call's keyword arguments to JSON for the tool.

All text of servers is data here: names become identifiers, values `repr`, descriptions one escaped line.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagent.code_mode.identifiers import TYPE_WORDS, identifier, identifiers
from mcpagent.search.signature import first_sentences
from mcpagent.utilities.json_schema.parts import (
    dereferenced,
    properties_of,
    referred,
    required_of,
)
from mcpagent.utilities.text.for_model import for_model
from mcpagent.values.messages import ToolDefinition

HEADER = "from typing import Any, Literal, NotRequired, TypedDict\n"

MAX_DESCRIPTION = 200
_MAX_CLASSES, _MAX_DEPTH, _MAX_BRANCHES, _MAX_VALUES, _MAX_FIELDS = 24, 6, 8, 40, 60
_MAX_VALUE_CHARACTERS = 60
_MAX_INTEGER = 2**63
_MAX_SCHEMAS = 2_000
"""Maximum number of schemas visited for one tool: a short schema may expand to very many."""

_BRANCHES = ("allOf", "anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else")
_NESTING = (*_BRANCHES, "patternProperties", "$ref")
_SCALARS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}


@dataclass(frozen=True, slots=True)
class Stub:
    """The stub of a function for the type checker, and the JSON name of each keyword.

    `classes` are the TypedDicts that `signature` uses. `droppable` are keywords that a call omits if they are None.
    `description` is one printable line that is safe in a docstring.
    """

    function: str
    classes: tuple[str, ...]
    signature: str
    keywords: Mapping[str, str]
    droppable: frozenset[str]
    description: str
    class_names: tuple[str, ...] = ()

    @property
    def declared(self) -> str:
        """The declaration for a stub file."""
        return "\n".join((*self.classes, f"{self.signature}: ..."))

    def shown(self, note: str = "") -> str:
        """Return the declaration for the model, with the description and `note` as docstring."""
        words = "\n".join(filter(None, (self.description, note)))
        doc = "    ..."
        if words:
            doc = f'    """{words}"""'
        return "\n".join((*self.classes, f"{self.signature}:", doc))

    def wire_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON arguments of a call that follows the stub; unknown keywords stay unchanged."""
        return {
            self.keywords.get(name, name): value
            for name, value in arguments.items()
            if value is not None or name not in self.droppable
        }


def stub_of(
    definition: ToolDefinition,
    function: str,
    output_schema: Mapping[str, Any] | None = None,
    taken: frozenset[str] = frozenset(),
) -> Stub:
    """Return the stub of a tool as a function of this valid name; its class names are not in `taken`."""
    parameters = _merged(definition.parameters)
    properties = properties_of(parameters)
    undescribed = sorted(set(required_of(parameters)) - properties.keys())
    keywords = identifiers([*properties, *undescribed])
    types = _Types(parameters, prefix=_class_name(function), taken=taken)
    needed, optional, droppable = _written_parameters(types, parameters, keywords)
    needed += [f"{keywords[name]}: Any" for name in undescribed]
    optional += _further_parameters(types, parameters, keywords)
    result = _result_type(types, output_schema)
    arguments = ", ".join((*needed, *optional))
    star = "*, "
    if not arguments or arguments.startswith("**"):
        star = ""
    signature = f"async def {function}({star}{arguments}) -> {result}"
    named = {keyword_: name for name, keyword_ in keywords.items()}
    return Stub(
        function,
        tuple(types.classes.values()),
        signature,
        named,
        droppable=frozenset(droppable),
        description=_docstring(definition, named),
        class_names=tuple(types.classes),
    )


def _written_parameters(
    types: _Types, parameters: Mapping[str, Any], keywords: Mapping[str, str]
) -> tuple[list[str], list[str], set[str]]:
    """Return the required and the optional parameters, and the keywords that are omitted if they are None."""
    required = set(required_of(parameters))
    needed, optional = list[str](), list[str]()
    droppable = set[str]()
    for name, schema in properties_of(parameters).items():
        kind, keyword_ = types.of(schema, name), keywords[name]
        if name in required:
            needed.append(f"{keyword_}: {kind}")
            continue
        default = _default(schema, kind)
        if default:
            optional.append(f"{keyword_}: {kind} = {default}")
        elif _takes_none(kind):
            optional.append(f"{keyword_}: {kind} = ...")
        else:
            optional.append(f"{keyword_}: {kind} | None = None")
            droppable.add(keyword_)
    return needed, optional, droppable


def _further_parameters(
    types: _Types, parameters: Mapping[str, Any], keywords: Mapping[str, str]
) -> list[str]:
    """Return `**arguments` if the schema accepts further properties, otherwise []."""
    is_free = (
        "properties" not in parameters
        and parameters.get("additionalProperties") is not False
    )
    if not is_free and not _takes_more(parameters, keywords):
        return []
    free = "further_arguments"
    if "arguments" not in keywords.values():
        free = "arguments"
    extra = "Any"
    if _only_extra(parameters):
        extra = types.of(parameters["additionalProperties"], free)
    return [f"**{free}: {extra}"]


def _merged(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one schema of all arguments, including those that only a branch of a top-level union or `allOf` describes.

    An argument is required if the schema, a part of `allOf`, or every branch of a union requires it.
    """
    branches = {
        key: [one for one in _listed(parameters, key) if properties_of(one)]
        for key in _BRANCHES
    }
    if not any(branches.values()):
        return parameters
    properties: dict[str, list[Any]] = {
        name: [schema] for name, schema in properties_of(parameters).items()
    }
    required = set(required_of(parameters))
    own = frozenset(properties)
    for key, parts in branches.items():
        for part in parts:
            for name, schema in properties_of(part).items():
                if name not in own:
                    properties.setdefault(name, []).append(schema)
        needed = [set(required_of(part)) for part in _listed(parameters, key)]
        if needed and key == "allOf":
            required |= set().union(*needed)
        elif needed:
            required |= set.intersection(*needed)
    kinds = {
        name: found[0] if len(found) == 1 else {"anyOf": found}
        for name, found in properties.items()
    }
    return {**parameters, "properties": kinds, "required": sorted(required)}


def _listed(schema: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = schema.get(key)
    return (
        [one for one in found if isinstance(one, dict)]
        if isinstance(found, list)
        else []
    )


def _result_type(types: _Types, output_schema: Mapping[str, Any] | None) -> str:
    if not output_schema:
        return "Any"
    inner = types.within(output_schema)
    return inner.of(output_schema, "result")


def _docstring(definition: ToolDefinition, keywords: Mapping[str, str]) -> str:
    """Return a one-line description of the tool, without characters that could end a docstring or begin an escape."""
    words = first_sentences(definition.description, MAX_DESCRIPTION)
    renamed = [
        f"{keyword_} is {name[:64]!a}"
        for keyword_, name in keywords.items()
        if keyword_ != name
    ]
    return plain_words("; ".join(filter(None, (words, *renamed[:8]))))


def plain_words(text: str) -> str:
    """Return the text for a docstring, with quotes and backslashes replaced."""
    line = " ".join(for_model(text).split())
    return line.replace("\\", "/").replace('"', "'")


# -- Types -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Types:
    """Python types of schemas within one root, and the classes that these need, by name, in the order of definition."""

    root: Mapping[str, Any]
    prefix: str
    taken: frozenset[str] = frozenset()
    classes: dict[str, str] = field(default_factory=dict[str, str])
    _references: dict[int, str] = field(default_factory=dict[int, str])
    _left: Iterator[int] = field(default_factory=lambda: iter(range(_MAX_SCHEMAS)))

    def within(self, root: Mapping[str, Any]) -> _Types:
        """Return the converter for another root, which adds to the same classes."""
        return _Types(root, self.prefix, self.taken, self.classes, _left=self._left)

    def of(self, schema: Any, hint: str, depth: int = 0) -> str:
        """Return the type of the schema's valid values, or a wider one if Python cannot express it."""
        kind = self._of(schema, hint, depth)
        if (
            isinstance(schema, dict)
            and schema.get("nullable") is True
            and not _takes_none(kind)
        ):
            return f"{kind} | None"  # `nullable` is from OpenAPI 3.0
        return kind

    def _of(self, schema: Any, hint: str, depth: int) -> str:
        if (
            not isinstance(schema, dict)
            or depth > _MAX_DEPTH
            or next(self._left, None) is None
        ):
            return "Any"
        if self._is_apart(schema):
            return self.within(schema).of(schema, hint, depth)
        if (reference := schema.get("$ref")) is not None and "properties" not in schema:
            return self._referred(reference, hint, depth)
        if isinstance(values := schema.get("enum"), list):
            return _literal(values)
        if "const" in schema:
            return _literal([schema["const"]])
        for key in _BRANCHES[1:]:
            if isinstance(branches := schema.get(key), list):
                if "properties" in schema or schema.get("type") == "object":
                    break  # `_of_kind` describes an object, to which branches only add
                return self._union(
                    [
                        self.of(branch, hint, depth + 1)
                        for branch in branches[: _MAX_BRANCHES + 1]
                    ]
                )
        if (
            isinstance(parts := schema.get("allOf"), list)
            and "type" not in schema
            and "properties" not in schema
        ):
            if len(parts) == 1:
                return self.of(parts[0], hint, depth + 1)
            return "Any"
        return self._of_kind(schema, hint, depth)

    def _is_apart(self, schema: dict[str, Any]) -> bool:
        """Return whether references inside the schema are relative to the schema itself."""
        return (
            schema is not self.root
            and isinstance(own := schema.get("$id"), str)
            and not own.startswith("#")
        )

    def _of_kind(self, schema: dict[str, Any], hint: str, depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [*dict.fromkeys(one for one in kind if isinstance(one, str))][
                : _MAX_BRANCHES + 1
            ]
            return self._union(
                [self.of({**schema, "type": one}, hint, depth) for one in kinds]
            )
        if kind is None:
            if "properties" in schema:
                kind = "object"
            elif "items" in schema:
                kind = "array"
            else:
                kind = None
        match kind:
            case "object":
                return self._object(schema, hint, depth)
            case "array":
                return f"list[{self._items(schema, hint, depth + 1)}]"
            case str():
                return _SCALARS.get(kind, "Any")
            case _:
                return "Any"

    def _items(self, schema: Mapping[str, Any], hint: str, depth: int) -> str:
        """Return the type of an array's items; for a tuple, a union of its items' types, since JSON only has lists."""
        items, first = schema.get("items"), schema.get("prefixItems")
        if not isinstance(first, list):
            return self.of(items, hint, depth) if isinstance(items, dict) else "Any"
        if items is not False and schema.get("maxItems") != len(first):
            return "Any"
        return self._union(
            [self.of(one, hint, depth) for one in first[: _MAX_BRANCHES + 1]]
        )

    def _union(self, kinds: list[str]) -> str:
        kinds = list(dict.fromkeys(kinds))
        if not kinds or "Any" in kinds or len(kinds) > _MAX_BRANCHES:
            return "Any"
        nothing = [kind for kind in kinds if kind == "None"]
        return " | ".join([*(kind for kind in kinds if kind != "None"), *nothing])

    def _referred(self, reference: Any, hint: str, depth: int) -> str:
        found = dereferenced(referred(self.root, reference), self.root)
        if not isinstance(found, dict) or "$ref" in found:
            return "Any"
        if (known := self._references.get(id(found))) is not None:
            return known
        last = str(reference).rpartition("/")[2] or hint
        if (
            found.get("type") == "object"
            and isinstance(found.get("properties"), dict)
            and not self._is_apart(found)
        ):
            name = self._references[id(found)] = self._free_name(last)
            kind = self._object(found, last, depth, name)
        else:
            self._references[id(found)] = "Any"  # the schema contains itself
            kind = self.of(found, last, depth + 1)
        self._references[id(found)] = kind
        return kind

    def _object(
        self, schema: Mapping[str, Any], hint: str, depth: int, name: str = ""
    ) -> str:
        properties, required = properties_of(schema), set(required_of(schema))
        has_more = _takes_more(schema, properties)
        if not properties:
            values = "Any"
            if _only_extra(schema):
                values = self.of(schema.get("additionalProperties"), hint, depth + 1)
            return f"dict[str, {values}]"
        if (
            has_more
            or len(properties) + len(required) > 2 * _MAX_FIELDS
            or len(properties) > _MAX_FIELDS
            or depth >= _MAX_DEPTH
        ):
            if name:
                self.classes.pop(name, None)
            return "dict[str, Any]"
        name = name or self._free_name(hint)
        if not name:
            return "dict[str, Any]"
        fields = {}
        for field_, inner in properties.items():
            kind = self.of(inner, str(field_), depth + 1)
            if field_ not in required and not _takes_none(kind):
                kind = f"{kind} | None"
            if field_ in required:
                fields[str(field_)] = kind
            else:
                fields[str(field_)] = f"NotRequired[{kind}]"
        fields |= dict.fromkeys(sorted(required - fields.keys()), "Any")
        self.classes.pop(
            name
        )  # after the classes of its fields: other statements are evaluated at once
        self.classes[name] = _typed_dict(name, fields)
        return name

    def _free_name(self, hint: str) -> str:
        """Return an unused class name; "" if there are too many classes."""
        if len(self.classes) >= _MAX_CLASSES:
            return ""
        base = f"{self.prefix}{_class_name(hint)}"[:50]
        name, number = base, 2
        while name in self.classes or name in self.taken or name in TYPE_WORDS:
            name, number = f"{base}{number}", number + 1
        self.classes[name] = ""
        return name


def _typed_dict(name: str, fields: Mapping[str, str]) -> str:
    if all(
        identifier(field_) == field_ and field_ not in TYPE_WORDS for field_ in fields
    ):
        lines = "".join(f"\n    {field_}: {kind}" for field_, kind in fields.items())
        return f"class {name}(TypedDict):{lines}"
    inner = ", ".join(f"{field_!a}: {kind}" for field_, kind in fields.items())
    return f'{name} = TypedDict("{name}", {{{inner}}})'


def _class_name(text: str) -> str:
    return (
        "".join(
            part[:1].upper() + part[1:]
            for part in re.split(r"[^0-9A-Za-z]+", text[:80])
            if part
        )[:30]
        or "Value"
    )


def _takes_more(schema: Mapping[str, Any], described: Collection[str]) -> bool:
    """Return whether the schema allows keys other than the described ones."""
    if schema.get("additionalProperties", False) is not False:
        return True
    if any(
        schema.get(key, False) is not False
        for key in ("patternProperties", "unevaluatedProperties", "$ref")
    ):
        return True
    parts = [
        part
        for key in _BRANCHES
        if isinstance(listed := schema.get(key), list)
        for part in listed
    ]
    parts += [schema.get(key) for key in _CONDITIONS]
    for key in ("dependentSchemas", "dependencies"):
        if isinstance(inner := schema.get(key), dict):
            parts += inner.values()
    for part in parts:
        if not isinstance(part, dict):
            continue
        if any(name not in described for name in properties_of(part)):
            return True
        if part.get("additionalProperties", False) is not False or any(
            key in part for key in _NESTING
        ):
            return True
    return False


def _only_extra(schema: Mapping[str, Any]) -> bool:
    """Return whether all undescribed keys have the type that `additionalProperties` declares."""
    rules = {**schema, "additionalProperties": False}
    return isinstance(schema.get("additionalProperties"), dict) and not _takes_more(
        rules, properties_of(schema)
    )


def _literal(values: list[Any]) -> str:
    if not 0 < len(values) <= _MAX_VALUES or not all(map(_is_plain, values)):
        return _kinds_of(values)
    return f"Literal[{', '.join(dict.fromkeys(ascii(value) for value in values))}]"


def _is_plain(value: Any) -> bool:
    """Return whether the value is short and can be in a `Literal`."""
    if isinstance(value, str):
        return len(value) <= _MAX_VALUE_CHARACTERS
    return value is None or (isinstance(value, int) and abs(value) < _MAX_INTEGER)


def _kinds_of(values: list[Any]) -> str:
    """Return a union of the types of values that cannot be in a `Literal`; "Any" if a type is unknown."""
    names = {bool: "bool", int: "int", float: "float", str: "str", type(None): "None"}
    kinds = dict.fromkeys(
        names.get(kind, "Any") for kind in dict.fromkeys(map(type, values))
    )
    if kinds and "Any" not in kinds:
        return " | ".join(kinds)
    return "Any"


def _takes_none(kind: str) -> bool:
    if kind.endswith(" | None"):
        return True
    if kind.startswith("Literal["):
        return (
            kind == "Literal[None]"
            or kind.endswith(", None]")
            or "[None, " in kind
            or ", None, " in kind
        )
    return kind in ("Any", "None")


def _default(schema: Any, kind: str) -> str:
    """Return the schema's default as source code; "" if it is missing, not representable or of another type."""
    if not isinstance(schema, dict) or "default" not in schema:
        return ""
    value = schema["default"]
    if value is None:
        if _takes_none(kind):
            return "None"
        return ""
    plain = kind.removesuffix(" | None")
    if isinstance(value, str) and len(value) > _MAX_VALUE_CHARACTERS:
        fits = False
    elif plain.startswith("Literal[") and "] | " not in plain:
        listed = ast.literal_eval(plain.removeprefix("Literal"))
        fits = any(type(one) is type(value) and one == value for one in listed)
    elif isinstance(value, bool):
        fits = plain == "bool"
    elif isinstance(value, int):
        fits = plain in ("int", "float") and abs(value) < _MAX_INTEGER
    elif isinstance(value, float):
        fits = plain == "float" and math.isfinite(value)
    else:
        fits = isinstance(value, str) and plain == "str"
    if fits:
        return ascii(value)
    return "..."
