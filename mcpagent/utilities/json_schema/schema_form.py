"""Check once that a JSON Schema is valid, and resolve its references, before values are checked against it.

Drafts 4 to 2020-12 are read as one language: servers seldom name the draft, and most keywords mean the same in all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mcpagent.utilities.json_schema.parts import referred
from mcpagent.utilities.text.safe_text import safe_line

MAX_PARTS = 10_000
"""Maximum number of subschemas and list entries. A larger schema is unusable."""

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
COUNTS = (
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
"""Keywords whose value is a count of characters, items or properties."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS = ("$anchor", "$dynamicAnchor", "$id", "id")
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
"""Drafts that ignore keywords next to a `$ref`."""


class UncheckedError(Exception):
    """Raised if a value cannot be checked, because of its schema or its size. The message has the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A valid schema. `targets` maps each reference to its target. `refers_alone`: keywords next to a `$ref` are
    ignored.
    """

    root: Any
    targets: Mapping[str, Any]
    refers_alone: bool = False


class _Same:
    """A cache key for one schema object, compared by identity. It keeps the object alive, so that its `id` stays
    unique.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.schema is other.schema


def usable(schema: Any) -> Schema:
    """Return the validated schema; the caller must not change it afterwards. Raises `UncheckedError`."""
    found = _usable(_Same(schema))
    if isinstance(found, str):
        raise UncheckedError(found)
    return found


@lru_cache(maxsize=512)
def _usable(key: _Same) -> Schema | str:
    try:
        return _FormReader(key.schema).read()
    except UncheckedError as error:
        return str(error)


def _is_schema(rule: Any) -> bool:
    return isinstance(rule, dict | bool)


def _is_number(rule: Any) -> bool:
    return isinstance(rule, int | float) and not isinstance(rule, bool)


def _is_count(rule: Any) -> bool:
    return _is_number(rule) and rule >= 0


def _is_names(rule: Any) -> bool:
    return isinstance(rule, list) and all(isinstance(name, str) for name in rule)


def _is_type(rule: Any) -> bool:
    return all(
        isinstance(one, str) and one in TYPES
        for one in (rule if isinstance(rule, list) else [rule])
    )


def _is_map(rule: Any) -> bool:
    return isinstance(rule, dict) and all(map(_is_schema, rule.values()))


def _is_list(rule: Any) -> bool:
    return isinstance(rule, list) and all(map(_is_schema, rule))


FORMS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            "not",
            "if",
            "then",
            "else",
            "contains",
            "propertyNames",
            "additionalItems",
            "additionalProperties",
        ),
        _is_schema,
    ),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties"), _is_schema),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _is_list),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), _is_map),
    **dict.fromkeys(COUNTS, _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    # In draft 4, they are booleans: true excludes the limit in `minimum` or `maximum` itself.
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"),
        lambda rule: isinstance(rule, int | float),
    ),
    **dict.fromkeys(REFERENCES, lambda rule: isinstance(rule, str)),
    "multipleOf": lambda rule: _is_number(rule) and rule > 0,
    "type": _is_type,
    "enum": lambda rule: isinstance(rule, list),
    "items": lambda rule: _is_schema(rule) or _is_list(rule),
    "uniqueItems": lambda rule: isinstance(rule, bool),
    "pattern": lambda rule: isinstance(rule, str),
    # Draft 3, and many servers of today, write `required: true` inside the property.
    "required": lambda rule: isinstance(rule, bool) or _is_names(rule),
    "dependentRequired": lambda rule: (
        isinstance(rule, dict) and all(map(_is_names, rule.values()))
    ),
    "dependencies": lambda rule: (
        isinstance(rule, dict)
        and all(_is_schema(one) or _is_names(one) for one in rule.values())
    ),
}
"""Predicates that check the value of each keyword; keywords that are not listed are annotations."""


class _FormReader:
    """Visits all subschemas that could apply to a value, checks their form and counts the steps."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MAX_PARTS
        self.targets: dict[str, Any] = {}
        self._anchors: dict[str, Any] | None = None
        dialect = None
        if isinstance(root, dict):
            dialect = root.get("$schema")
        self.refers_alone = isinstance(dialect, str) and any(
            draft in dialect for draft in _OLD_DRAFTS
        )

    def read(self) -> Schema:
        if not _is_schema(self.root):
            raise UncheckedError("it is no object")
        waiting = [self.root]
        seen: set[int] = set()
        while waiting:
            schema = waiting.pop()
            if isinstance(schema, bool) or id(schema) in seen:
                continue
            seen.add(id(schema))
            self._spend(1)
            if self.refers_alone and isinstance(schema.get("$ref"), str):
                waiting.append(self._target("$ref", schema["$ref"]))
            else:
                waiting += self._parts(schema)
        return Schema(self.root, self.targets, self.refers_alone)

    def _parts(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Yield the subschemas of a schema. A keyword with null counts as missing, because some servers write it so."""
        self._spend(len(schema) // 10)
        for keyword, rule in schema.items():
            form = FORMS.get(keyword)
            if form is None or rule is None:
                continue
            if (
                isinstance(rule, dict | list)
                and form is not _is_schema
                and keyword != "enum"
            ):
                self._spend(len(rule))
                if keyword in ("dependencies", "dependentRequired") and isinstance(
                    rule, dict
                ):
                    self._spend(
                        sum(
                            len(names)
                            for names in rule.values()
                            if isinstance(names, list)
                        )
                    )
            if not form(rule):
                raise UncheckedError(
                    f"{keyword}: {safe_line(repr(rule)[:80], 60)} is not what belongs there"
                )
            if keyword in REFERENCES:
                yield self._target(keyword, str(rule))
            elif form is _is_schema:
                yield rule
            elif (
                form is _is_map
                or form is _is_list
                or keyword in ("items", "dependencies")
            ):
                yield from _schemas_in(
                    rule, is_map=form is _is_map or keyword == "dependencies"
                )

    def _spend(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            raise UncheckedError(f"it has more than {MAX_PARTS:,} parts")

    def _target(self, keyword: str, reference: str) -> Any:
        """Return the target of a reference. Raises `UncheckedError` if the target is missing or outside the schema."""
        if reference not in self.targets:
            self._spend(1 + len(reference) // 20)
            self.targets[reference] = self._resolved(keyword, reference)
        return self.targets[reference]

    def _resolved(self, keyword: str, reference: str) -> Any:
        anchors = self._all_anchors()
        own = None
        if isinstance(self.root, dict):
            own = self.root.get("$id") or self.root.get("id")
        local = reference
        if (
            isinstance(own, str)
            and own.rstrip("#")
            and reference.startswith(own.rstrip("#"))
        ):
            local = reference[len(own.rstrip("#")) :] or "#"
        found: Any = None
        if local in anchors:
            found = anchors[local]
        elif local == "#" or local.startswith("#/"):
            if any(not name.startswith("#") for name in anchors):
                raise UncheckedError("parts of it have addresses of their own ($id)")
            found = referred(self.root, local)
        elif not local.startswith("#"):
            raise UncheckedError(
                f"a reference leads out of it: {safe_line(reference, 80)}"
            )
        if not _is_schema(found):
            raise UncheckedError(
                f"{keyword} {safe_line(reference, 80)} leads to no schema"
            )
        return found

    def _all_anchors(self) -> dict[str, Any]:
        """Return all anchors and IDs in the document, with the schemas that they name."""
        if self._anchors is None:
            self._anchors = {}
            waiting = [self.root]
            while waiting:
                node = waiting.pop()
                children: Collection[Any] = ()
                if isinstance(node, dict):
                    children = node.values()
                elif isinstance(node, list):
                    children = node
                self._spend(1 + len(children) // 10)
                waiting += [
                    child for child in children if isinstance(child, dict | list)
                ]
                if isinstance(node, dict) and node is not self.root:
                    self._name(node)
                elif isinstance(node, dict):
                    self._name(
                        {
                            key: node[key]
                            for key in ("$anchor", "$dynamicAnchor")
                            if key in node
                        },
                        node,
                    )
        return self._anchors

    def _name(self, node: dict[str, Any], named: Any = None) -> None:
        assert self._anchors is not None
        for keyword in _ANCHORS:
            name = node.get(keyword)
            if not isinstance(name, str) or (
                keyword == "id" and not name.startswith("#")
            ):
                continue
            if keyword in ("$id", "id"):
                reference = name
            else:
                reference = f"#{name}"
            if self._anchors.setdefault(reference, named or node) is not (
                named or node
            ):
                raise UncheckedError(f"it has two parts called {safe_line(name, 60)}")


def _schemas_in(rule: Any, *, is_map: bool) -> Iterable[Any]:
    if is_map:
        parts = rule.values()
    elif isinstance(rule, list):
        parts = rule
    else:
        parts = [rule]
    return [part for part in parts if _is_schema(part)]
