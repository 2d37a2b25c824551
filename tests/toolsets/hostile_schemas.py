"""Schemas, and values for them, that cost a checker time or memory out of all proportion; made when they are asked for.

Each is a pair of a schema and the arguments to check against it. Variations of one attack stand beside each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ComparedCall = tuple[dict[str, Any], dict[str, Any]]

NESTED = r"^(a+)+$", r"^(a|a)*$", r"^(\w+\s?)*$", r"(a|aa)+$", r"^((a+)+)+$", r"(?=(a+)+b)a", r"(a+)\1+b"
LONG = "a" * 5_000 + "!"


def _of(schema: dict[str, Any], value: Any, **beside: Any) -> ComparedCall:
    return {"type": "object", "properties": {"x": schema}, **beside}, {"x": value}


def _levels(last: Any, how: Callable[[Any], Any], count: int) -> Any:
    for _ in range(count):
        last = how(last)
    return last


def bomb(keyword: str, levels: int, times: int = 2) -> ComparedCall:
    """Definitions of which each names the next several times: `times` to the power of `levels` in all."""
    many = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * times} for n in range(levels)}
    return _of({"$ref": "#/$defs/a0"}, 1, **{"$defs": {**many, f"a{levels}": {"type": "integer"}}})


def circle(size: int, *steps: int) -> ComparedCall:
    """Definitions that come back to each other without looking deeper into the value."""
    many = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{(n + step) % size}"} for step in steps]} for n in range(size)}
    return _of({"$ref": "#/$defs/a0"}, 1, **{"$defs": many})


def _tree() -> ComparedCall:
    """Every level of the value is looked at twice, and every level below it for each of these."""
    node = {"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    return node, _levels({}, lambda value: {"x": value}, 60)


def _map_called_defs() -> ComparedCall:
    """The names of properties look like a schema's keywords, and a reference makes schemas of what looks like names."""
    hidden = {
        "properties": {"pattern": NESTED[1]},
        "$defs": {"pattern": NESTED[1], "patternProperties": {NESTED[1]: {}}},
    }
    return {
        "type": "object",
        "properties": {"$defs": hidden["$defs"], "x": {"$ref": "#/properties/$defs"}},
    }, {"x": LONG, "$defs": LONG}


def _lists_of_one_hash(count: int, length: int) -> list[list[int]]:
    """CPython gives -1 and -2 the same hash, and so all lists of them."""
    return [[-1 if number >> place & 1 else -2 for place in range(length)] for number in range(count)]


ATTACKS: dict[str, Callable[[], ComparedCall]] = {
    **{f"pattern {text}": lambda text=text: _of({"pattern": text}, LONG) for text in NESTED},  # type: ignore[misc]
    "pattern for each of 10,000": lambda: _of({"items": {"pattern": NESTED[1]}}, ["a" * 40 + "!"] * 10_000),
    "a pattern for each name": lambda: _of(
        {"patternProperties": {NESTED[1]: {}}}, {"a" * 99 + "!" * n: 1 for n in range(2_000)}
    ),
    "a thousand patterns": lambda: _of(
        {"patternProperties": {f"(a|a)*{n}$": {} for n in range(1_000)}}, {"a" * 99 + "!": 1}
    ),
    "names that no pattern allows": lambda: _of(
        {"patternProperties": {NESTED[1]: {}}, "additionalProperties": False},
        {"a" * 99 + "!" * n: 1 for n in range(2_000)},
    ),
    "a pattern that is written out": lambda: _of({"pattern": "a{9999999}"}, LONG),
    "patterns that are written out": lambda: _of(
        {"allOf": [{"pattern": f"(a{{70}}){{{n}}}"} for n in range(70)] * 9}, LONG
    ),
    "an endless pattern": lambda: _of({"pattern": "[a" * 200_000}, LONG),
    "a map called $defs": _map_called_defs,
    "a map called definitions": lambda: _of(
        {"$ref": "#/properties/definitions"},
        LONG,
        properties={"definitions": {"pattern": NESTED[0]}, "x": {"$ref": "#/properties/definitions"}},
    ),
    "a pattern in a note": lambda: _of({"$ref": "#/examples/0"}, LONG, examples=[{"pattern": NESTED[0]}]),
    "unique objects": lambda: _of({"uniqueItems": True}, [{"a": n} for n in range(40_000)]),
    "unique objects, all alike but the last": lambda: _of(
        {"uniqueItems": True}, [{"a": [1], "b": n} for n in range(20_000)]
    ),
    "unique lists": lambda: _of({"uniqueItems": True}, [[n, [n]] for n in range(40_000)]),
    "unique numbers of one hash": lambda: _of({"uniqueItems": True}, [n * (2**61 - 1) for n in range(40_000)]),
    "unique numbers of one hash, written short": lambda: _of(
        {"uniqueItems": True}, [float(n * 2**61) for n in range(40_000)]
    ),
    "unique lists of one hash": lambda: _of({"uniqueItems": True}, _lists_of_one_hash(16_000, 14)),
    "an enum of lists of one hash": lambda: _of({"enum": _lists_of_one_hash(31_000, 15)}, [1]),
    "unique at each level": lambda: _of(
        _levels({}, lambda schema: {"uniqueItems": True, "items": schema}, 30), _levels([1], lambda value: [value], 30)
    ),
    "an enum for each item": lambda: _of(
        {"items": {"enum": [{"a": n} for n in range(10_000)]}}, [{"a": 9_999}] * 2_000
    ),
    "an enum of a million": lambda: _of({"enum": list(range(1_000_000))}, -1),
    "2**26 references": lambda: bomb("allOf", 26),
    "2**90 references": lambda: bomb("allOf", 90),
    "any of 2**60": lambda: bomb("anyOf", 60),
    "one of 2**60": lambda: bomb("oneOf", 60),
    "40**25 references": lambda: bomb("allOf", 25, 40),
    "a tree of 2**60": _tree,
    "a circle": lambda: circle(3, 1),
    "a circle of 20,000": lambda: circle(20_000, 1),
    "circles in circles": lambda: circle(30, 1, 7, 11),
    "itself": lambda: _of({"$ref": "#/properties/x"}, 1),
    "not itself": lambda: _of({"not": {"$ref": "#/properties/x"}}, 1),
    "itself by an anchor": lambda: _of(
        {"$dynamicAnchor": "a", "anyOf": [{"$dynamicRef": "#a"}, {"$dynamicRef": "#a"}]}, 1
    ),
    "a chain of 5,000": lambda: _of(
        {"$ref": "#/$defs/a0"},
        1,
        **{"$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(5_000)} | {"a5000": {}}},
    ),
    "left over, 60 levels": lambda: _of(
        _levels(
            {"properties": {"z": {}}},
            lambda schema: {"anyOf": [schema], "unevaluatedProperties": {"type": "integer"}},
            60,
        ),
        {"a": 1, "b": 2},
    ),
    "left over items, 60 levels": lambda: _of(
        _levels({"prefixItems": [{}]}, lambda schema: {"anyOf": [schema], "unevaluatedItems": {"type": "integer"}}, 60),
        [1, 2],
    ),
    "10,000 levels of schema": lambda: _of(_levels({}, lambda schema: {"items": schema}, 10_000), []),
    "10,000 levels of not": lambda: _of(_levels({}, lambda schema: {"not": schema}, 10_000), 1),
    "10,000 levels in a note": lambda: _of(
        {"default": _levels({}, lambda value: {"a": value}, 10_000), "$ref": "#/$defs/a"}, 1
    ),
    "10,000 levels of value": lambda: _of(
        {"items": {"$ref": "#/properties/x"}}, _levels({}, lambda value: {"a": value}, 10_000)
    ),
    "60 levels of value": lambda: _of({"items": {"$ref": "#/properties/x"}}, _levels([], lambda value: [value], 60)),
    "50 MB of notes": lambda: _of({"description": "x" * 50_000_000, "minLength": 2}, "y"),
    "50 MB of properties": lambda: _of({"properties": {f"p{n}": {"type": "string"} for n in range(500_000)}}, {}),
    "50 MB of names": lambda: _of({"required": [f"name_{n}" for n in range(1_000_000)]}, {}),
    "50 MB of keywords": lambda: _of({f"x-{n}": n for n in range(1_000_000)}, 1),
    "a long reference": lambda: _of({"$ref": "#" + "/a" * 5_000_000}, 1),
    "messages with a megabyte each": lambda: _of({"anyOf": [{"type": "integer"}] * 9_000}, "x" * 1_000_000),
    "40,000 misfits": lambda: _of({"items": {"type": "string"}}, list(range(40_000))),
    "40,000 misfits with long words": lambda: _of(
        {"items": {"enum": [str(n) for n in range(10_000)]}}, list(range(40_000))
    ),
    "a wide anyOf for each item": lambda: _of(
        {"items": {"anyOf": [{"const": -n} for n in range(3_000)]}}, list(range(-2_999, 0))
    ),
    "multiples of fractions": lambda: _of({"items": {"multipleOf": 1e-300}}, [1e300] * 20_000),
}
"""By name; some are checked, some are not, and none takes long."""
