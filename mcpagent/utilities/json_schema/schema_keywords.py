"""The keywords of JSON Schema, drafts 4 to 2020-12. Annotations such as `format` are not checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from fractions import Fraction
from typing import Any

from mcpagent.utilities.json_schema.misfits import Misfit, UnexpectedMembers
from mcpagent.utilities.json_schema.schema_check import (
    Check,
    Judge,
    MessageMatch,
    is_of_type,
)
from mcpagent.utilities.json_schema.schema_evaluated import evaluated_beside

# Keywords for any value


def _type(check: Check, rule: Any, schema: dict[str, Any], value: Any) -> MessageMatch:
    if is_of_type(value, rule):
        return ()
    names = ", ".join(
        repr(name) for name in (rule if isinstance(rule, list) else [rule])
    )
    return [Misfit("{} is not of type " + names, (value,))]


def _enum(
    check: Check, rule: list[Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    if check.is_one_of(value, rule):
        return ()
    return [Misfit("{} is not one of {}", (value, rule))]


def _const(check: Check, rule: Any, schema: dict[str, Any], value: Any) -> MessageMatch:
    if check.comparable(value) != check.comparable(rule):
        yield Misfit("{} was expected", (rule,))


def _refer(check: Check, rule: str, schema: dict[str, Any], value: Any) -> MessageMatch:
    return check.misfits(check.target(rule), value)


def _all_of(
    check: Check, rule: list[Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    for part in rule:
        yield from check.misfits(part, value)


def _any_of(
    check: Check, rule: list[Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    branches: list[Misfit] = []
    for part in rule:
        misfits = check.misfits(part, value)
        if not misfits:
            return
        branches += misfits
    yield Misfit(
        "{} is not valid under any of the given schemas",
        (value,),
        branches=tuple(branches),
    )


def _one_of(
    check: Check, rule: list[Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    branches = [check.misfits(part, value) for part in rule]
    fitting = [
        part for part, misfits in zip(rule, branches, strict=True) if not misfits
    ]
    if not fitting:
        every = tuple(misfit for misfits in branches for misfit in misfits)
        yield Misfit(
            "{} is not valid under any of the given schemas", (value,), branches=every
        )
    elif len(fitting) > 1:
        yield Misfit("{} is valid under each of {}", (value, fitting))


def _not(check: Check, rule: Any, schema: dict[str, Any], value: Any) -> MessageMatch:
    if check.fits(rule, value):
        yield Misfit("{} should not be valid under {}", (value, rule))


def _if(check: Check, rule: Any, schema: dict[str, Any], value: Any) -> MessageMatch:
    branch = schema.get("then" if check.fits(rule, value) else "else")
    if branch is not None:
        return check.misfits(branch, value)
    return ()


# Keywords for numbers

_MOST_BITS = 10_000
"""Maximum size in bits of a number whose division by a fraction is checked; a larger number passes."""


def _number(breaks: Callable[[Any, Any], bool], words: str, other: str = "") -> Judge:
    """Return the check for a numeric limit.

    `breaks` returns True if the value violates the limit. `other`: the draft 4 keyword that, if true, excludes the
    limit itself.
    """

    def judge(
        check: Check, rule: Any, schema: dict[str, Any], value: Any
    ) -> MessageMatch:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or isinstance(rule, bool)
        ):
            return ()
        if breaks(value, rule) or (value == rule and schema.get(other) is True):
            return [Misfit(words, (value, rule))]
        return ()

    return judge


def _is_no_multiple(value: float, rule: float) -> bool:
    try:
        if isinstance(value, int) and isinstance(rule, int):
            return value % rule != 0
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            return False
        # In decimal, 0.3 is a multiple of 0.1, in binary it is not.
        return (Fraction(repr(value)) / Fraction(repr(rule))).denominator != 1
    except (ValueError, OverflowError):  # infinity or NaN
        return True


# Keywords for texts


def _sized(
    kind: type[Sized],
    breaks: Callable[[int, Any], bool],
    words: str,
    at_edge: tuple[int, str],
) -> Judge:
    edge, edge_words = at_edge

    def judge(
        check: Check, rule: Any, schema: dict[str, Any], value: Any
    ) -> MessageMatch:
        if isinstance(value, kind) and breaks(len(value), rule):
            return [Misfit("{} " + (edge_words if rule == edge else words), (value,))]
        return ()

    return judge


def _below(size: int, limit: Any) -> bool:
    return bool(size < limit)


def _above(size: int, limit: Any) -> bool:
    return bool(size > limit)


_NOT_EMPTY, _EMPTY = (1, "should be non-empty"), (0, "is expected to be empty")


def _pattern(
    check: Check, rule: str, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, str) and check.matches(rule, value) is False:
        yield Misfit("{} does not match {}", (value, rule))


# Keywords for arrays


def _each(check: Check, schema: Any, values: list[Any], first: int = 0) -> MessageMatch:
    check.spend(len(values))
    misfits = check.misfits
    for place in range(first, len(values)):
        for misfit in misfits(schema, values[place]):
            yield misfit.below(place)


def _places(
    check: Check, rule: list[Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, list):
        for place, (part, item) in enumerate(zip(rule, value, strict=False)):
            for misfit in check.misfits(part, item):
                yield misfit.below(place)


def _items(check: Check, rule: Any, schema: dict[str, Any], value: Any) -> MessageMatch:
    if not isinstance(value, list):
        return
    if isinstance(rule, list):
        yield from _places(check, rule, schema, value)
        return
    before = len(schema.get("prefixItems") or ())
    if rule is False and len(value) > before:
        yield Misfit(
            f"Expected at most {before} items but found {len(value) - before} more"
        )
    else:
        yield from _each(check, rule, value, before)


def _additional_items(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    places = schema.get("items")
    if (
        not isinstance(value, list)
        or not isinstance(places, list)
        or len(value) <= len(places)
    ):
        return
    if rule is False:
        yield Misfit(
            "Additional items are not allowed ({} unexpected)",
            (UnexpectedMembers(value[len(places) :]),),
        )
    else:
        yield from _each(check, rule, value, len(places))


def _contains(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if not isinstance(value, list):
        return
    check.spend(len(value))
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    matches = sum(check.fits(rule, item) for item in value)
    if matches < least and not matches:
        yield Misfit("{} does not contain items matching the given schema", (value,))
    elif matches < least:
        yield Misfit(
            f"Too few items match the given schema (expected at least {least} but only {matches} matched)",
        )
    elif most is not None and matches > most:
        yield Misfit(f"Too many items match the given schema (expected at most {most})")


def _unique(
    check: Check, rule: bool, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if (
        rule
        and isinstance(value, list)
        and len({check.comparable(item) for item in value}) < len(value)
    ):
        yield Misfit("{} has non-unique elements", (value,))


def _unevaluated_items(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, list):
        known = evaluated_beside(check, schema, value)
        extra = [
            place
            for place in range(len(value))
            if place not in known and not check.fits(rule, value[place])
        ]
        if extra:
            yield Misfit(
                "Unevaluated items are not allowed ({} unexpected)",
                (UnexpectedMembers([value[place] for place in extra]),),
            )


# Keywords for objects


def _required(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if not isinstance(value, dict) or not isinstance(rule, list):
        return ()
    check.spend(len(rule))
    return [
        Misfit("{} is a required property", (name,))
        for name in rule
        if name not in value
    ]


def _properties(
    check: Check, rule: dict[str, Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    if not isinstance(value, dict):
        return ()
    check.spend(len(rule))
    found: list[Misfit] = []
    for name, part in rule.items():
        if name in value:
            for misfit in check.misfits(part, value[name]):
                found.append(misfit.below(name))
    return found


def _pattern_properties(
    check: Check, rule: dict[str, Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, dict):
        for pattern, part in rule.items():
            for name in value:
                if check.matches(pattern, name):
                    for misfit in check.misfits(part, value[name]):
                        yield misfit.below(name)


def _additional(
    check: Check, schema: dict[str, Any], value: dict[str, Any]
) -> Iterator[str]:
    """Yield the property names of the value that neither `properties` nor `patternProperties` covers."""
    known = schema.get("properties") or {}
    patterns = schema.get("patternProperties") or {}
    check.spend(len(value))
    for name in value:
        # A pattern that could not run (None) may match, so the name counts as covered.
        if name not in known and all(
            check.matches(pattern, name) is False for pattern in patterns
        ):
            yield name


def _additional_properties(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if not isinstance(value, dict) or rule is True:
        return
    extra = _additional(check, schema, value)
    if rule is False:
        if names := list(extra):
            yield Misfit(
                "Additional properties are not allowed ({} unexpected)",
                (UnexpectedMembers(names),),
            )
        return
    for name in extra:
        for misfit in check.misfits(rule, value[name]):
            yield misfit.below(name)


def _property_names(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, dict):
        for name in value:
            yield from check.misfits(rule, name)


def _dependent(
    check: Check, rule: dict[str, Any], schema: dict[str, Any], value: Any
) -> MessageMatch:
    """Check `dependentRequired`, `dependentSchemas` and `dependencies`, which combines both."""
    if not isinstance(value, dict):
        return
    check.spend(len(rule))
    for name, needs in rule.items():
        if name not in value:
            continue
        if isinstance(needs, list):
            check.spend(len(needs))
            for other in needs:
                if other not in value:
                    yield Misfit("{} is a dependency of {}", (other, name))
        else:
            yield from check.misfits(needs, value)


def _unevaluated_properties(
    check: Check, rule: Any, schema: dict[str, Any], value: Any
) -> MessageMatch:
    if isinstance(value, dict):
        known = evaluated_beside(check, schema, value)
        if names := [
            name
            for name in value
            if name not in known and not check.fits(rule, value[name])
        ]:
            yield Misfit(
                "Unevaluated properties are not allowed ({} unexpected)",
                (UnexpectedMembers(names),),
            )


KEYWORDS: Mapping[str, Judge] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "$ref": _refer,
    "$dynamicRef": _refer,
    "$recursiveRef": _refer,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "minimum": _number(
        lambda value, rule: value < rule,
        "{} is less than the minimum of {}",
        "exclusiveMinimum",
    ),
    "maximum": _number(
        lambda value, rule: value > rule,
        "{} is greater than the maximum of {}",
        "exclusiveMaximum",
    ),
    "exclusiveMinimum": _number(
        lambda value, rule: value <= rule,
        "{} is less than or equal to the minimum of {}",
    ),
    "exclusiveMaximum": _number(
        lambda value, rule: value >= rule,
        "{} is greater than or equal to the maximum of {}",
    ),
    "multipleOf": _number(_is_no_multiple, "{} is not a multiple of {}"),
    "minLength": _sized(str, _below, "is too short", _NOT_EMPTY),
    "maxLength": _sized(str, _above, "is too long", _EMPTY),
    "pattern": _pattern,
    "minItems": _sized(list, _below, "is too short", _NOT_EMPTY),
    "maxItems": _sized(list, _above, "is too long", _EMPTY),
    "items": _items,
    "prefixItems": _places,
    "additionalItems": _additional_items,
    "contains": _contains,
    "uniqueItems": _unique,
    "unevaluatedItems": _unevaluated_items,
    "minProperties": _sized(
        dict, _below, "does not have enough properties", _NOT_EMPTY
    ),
    "maxProperties": _sized(dict, _above, "has too many properties", _EMPTY),
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent,
    "dependencies": _dependent,
    "unevaluatedProperties": _unevaluated_properties,
}
