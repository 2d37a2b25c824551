"""Convert an output schema to the subset that a provider enforces.

Rules outside the subset are described in the description of their part: the answer is validated against the whole
schema anyway. If the subset cannot express a schema, such as an object with arbitrary names, the result is None.

OpenAI: https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas; Anthropic:
https://platform.claude.com/docs/en/build-with-claude/structured-outputs and `transform_schema` of its SDK (2.13).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mcpagent.models.wire_values import json_text
from mcpagent.utilities.json_schema.parts import merged_schema, referred


@dataclass(frozen=True, slots=True)
class Subset:
    """The subset of JSON Schema that a provider enforces.

    `kept` are the supported keywords by type, in addition to `description`. `all_required`: optional properties are
    null instead of missing. `recursive`: references may form a cycle. `most_*` are the limits of one schema.
    """

    kept: Mapping[str, tuple[str, ...]]
    all_required: bool
    recursive: bool
    typed_literals: bool
    most_depth: int = 10
    most_properties: int = 5_000
    most_values: int = 1_000
    most_optional: int = 5_000
    most_unions: int = 5_000


_FORMATS = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    }
)

OPENAI = Subset(
    {
        "string": ("pattern", "format"),
        "number": (
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ),
        "integer": (
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ),
        "array": ("minItems", "maxItems"),
    },
    all_required=True,
    recursive=True,
    typed_literals=True,
)

ANTHROPIC = Subset(
    {"string": ("format",)},
    all_required=False,
    recursive=False,
    typed_literals=False,
    most_depth=32,
    most_optional=24,
    most_unions=16,
)

_NOTES = frozenset(
    {
        "title",
        "examples",
        "$comment",
        "$schema",
        "$id",
        "$anchor",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
_TYPES = frozenset(
    {"array", "boolean", "integer", "null", "number", "object", "string"}
)
_NULL: dict[str, Any] = {"type": "null"}


class _BeyondError(Exception):
    """Raised if the subset cannot express the schema."""


def strict_schema(schema: Mapping[str, Any], subset: Subset) -> dict[str, Any] | None:
    """Return the schema in the subset; None if it cannot be expressed. The same schema always gives the same result."""
    writer = _SubsetWriter(schema, subset)
    try:
        written = writer.write(schema, 0)
        definitions = writer.definitions()
    except (_BeyondError, RecursionError):
        return None
    if written.get("type") != "object":
        return None
    if definitions:
        return {**written, "$defs": definitions}
    return written


@dataclass(slots=True)
class _SubsetWriter:
    root: Mapping[str, Any]
    subset: Subset
    properties: int = 0
    values: int = 0
    optional: int = 0
    unions: int = 0
    referred: dict[str, str] = field(default_factory=dict[str, str])
    leads_to: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    writing: str = ""

    def definitions(self) -> dict[str, Any]:
        """Return all referenced definitions, including those that they refer to themselves."""
        made: dict[str, Any] = {}
        while waiting := [
            reference for reference, name in self.referred.items() if name not in made
        ]:
            for reference in waiting:
                self.writing = self.referred[reference]
                made[self.writing] = self.write(
                    self._target(reference), 1, within=reference
                )
        if not self.subset.recursive:
            try:
                TopologicalSorter(self.leads_to).prepare()
            except CycleError:
                raise _BeyondError from None
        return made

    def write(self, schema: Any, depth: int, within: str = "") -> dict[str, Any]:
        """Return the converted schema. `within` is the reference that points to it, or ""."""
        if not isinstance(schema, Mapping) or depth > self.subset.most_depth:
            raise _BeyondError
        left = {name: rule for name, rule in schema.items() if name not in _NOTES}
        left.pop("$defs", None)
        left.pop("definitions", None)
        if "$ref" in left:
            return self._referring(left, depth, within)
        if "allOf" in left:
            return self.write(merged_schema(left, self.root), depth, within)
        description = str(left.pop("description", "") or "")
        written = self._typed(left, depth)
        if left:
            beyond = ", ".join(
                f"{name}: {json_text(rule)}" for name, rule in left.items()
            )
            description = f"{description} {{{beyond}}}".strip()
        return {**written, **({"description": description} if description else {})}

    def _referring(
        self, left: dict[str, Any], depth: int, within: str
    ) -> dict[str, Any]:
        reference = str(left.pop("$ref"))
        if not left:
            name = ""
            if reference.startswith(("#/$defs/", "#/definitions/")):
                name = reference.rpartition("/")[2]
            self._target(reference)
            if name and (
                self.referred.get(reference) or name not in self.referred.values()
            ):
                self.referred[reference] = name
                self.leads_to.setdefault(self.writing, set()).add(name)
                return {"$ref": f"#/$defs/{name}"}
        if reference in (within, "#") or depth > self.subset.most_depth:
            raise _BeyondError
        # Resolve the reference, since no provider accepts other keywords next to one.
        return self.write(
            {**self._target(reference), **left}, depth + 1, within or reference
        )

    def _target(self, reference: str) -> Mapping[str, Any]:
        found = referred(self.root, reference)
        if not isinstance(found, Mapping):
            raise _BeyondError
        return found

    def _typed(self, left: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return the rules that the subset can express, and remove them from `left`."""
        left.pop("discriminator", None)
        branches = left.pop("anyOf", None) or left.pop("oneOf", None)
        if branches:
            return {
                "anyOf": self._union(
                    [self.write(branch, depth + 1) for branch in branches]
                )
            }
        kind = left.pop("type", None)
        if "enum" in left or "const" in left:
            return self._literal(left, kind)
        if kind is None and "properties" in left:
            kind = "object"
        if isinstance(kind, list):
            kinds = [
                self._of_type(str(one), dict(left) if len(kind) > 1 else left, depth)
                for one in kind
            ]
            for name in (
                "properties",
                "required",
                "additionalProperties",
                "items",
                *self._all_kept(),
            ):
                left.pop(name, None)
            if len(kinds) == 1:
                return kinds[0]
            return {"anyOf": self._union(kinds)}
        return self._of_type(str(kind), left, depth)

    def _all_kept(self) -> tuple[str, ...]:
        return tuple(name for names in self.subset.kept.values() for name in names)

    def _union(self, branches: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.unions += 1
        if self.unions > self.subset.most_unions:
            raise _BeyondError
        return branches

    def _literal(self, left: dict[str, Any], kind: Any) -> dict[str, Any]:
        constant = "const" in left
        if constant:
            values = [left.pop("const")]
        else:
            values = left.pop("enum")
        left.pop("enum", None)
        self.values += len(values)
        are_plain = all(
            value is None or isinstance(value, str | int | float) for value in values
        )
        if not values or not are_plain or self.values > self.subset.most_values:
            raise _BeyondError
        if constant:
            named = {"const": values[0]}
        else:
            named = {"enum": list(values)}
        typed = {}
        if self.subset.typed_literals and kind is not None:
            typed = {"type": kind}
        return {**typed, **named}

    def _of_type(self, kind: str, left: dict[str, Any], depth: int) -> dict[str, Any]:
        if kind not in _TYPES:
            raise _BeyondError
        if kind == "object":
            return self._object(left, depth)
        made: dict[str, Any] = {"type": kind}
        if kind == "array":
            made["items"] = self._items(left, depth)
            if not self.subset.all_required and left.get("minItems") in (0, 1):
                made["minItems"] = left.pop("minItems")
        for name in self.subset.kept.get(kind, ()):
            if name in left and (name != "format" or left[name] in _FORMATS):
                made[name] = left.pop(name)
        return made

    def _items(self, left: dict[str, Any], depth: int) -> dict[str, Any]:
        places = left.pop("prefixItems", None)
        rest = left.pop("items", None)
        if not places:
            return self.write(rest, depth + 1)
        written: list[dict[str, Any]] = []
        for place in places:
            if (one := self.write(place, depth + 1)) not in written:
                written.append(one)
        if len(places) > 1:
            left["places"] = [
                place.get("type", "") if isinstance(place, Mapping) else ""
                for place in places
            ]
        if len(written) == 1:
            return written[0]
        return {"anyOf": self._union(written)}

    def _object(self, left: dict[str, Any], depth: int) -> dict[str, Any]:
        named = left.pop("properties", None)
        others = left.pop("additionalProperties", False)
        required = left.pop("required", None) or []
        if (
            not isinstance(named, Mapping)
            or others is not False
            or "patternProperties" in left
        ):
            raise _BeyondError
        if not isinstance(required, list) or any(
            name not in named for name in required
        ):
            raise _BeyondError
        self.properties += len(named)
        self.optional += len(named) - len(required)
        if self.properties > self.subset.most_properties or (
            not self.subset.all_required and self.optional > self.subset.most_optional
        ):
            raise _BeyondError
        written = {str(name): self.write(one, depth + 1) for name, one in named.items()}
        if self.subset.all_required:
            written = {
                name: one if name in required else _or_null(one)
                for name, one in written.items()
            }
            required = [*written]
        return {
            "type": "object",
            "properties": written,
            "required": required,
            "additionalProperties": False,
        }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    branches = schema.get("anyOf", [schema])
    if any(branch == _NULL for branch in branches) or schema.get("type") == "null":
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*branches, _NULL]}
    # The description of the type itself stays at its first occurrence.
    said = {}
    if "description" in schema:
        said = {"description": schema["description"]}
    return {
        "anyOf": [
            {name: rule for name, rule in schema.items() if name != "description"},
            _NULL,
        ],
        **said,
    }
