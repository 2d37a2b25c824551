"""Whether a value fits a JSON Schema, for the keywords that matter when filling arguments; foreign patterns bounded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_PATTERN_SECONDS = 0.05
_MAX_DEPTH = 6


def resolve(schema: Any, root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """One plain schema: local `$ref` followed, `allOf` joined, the first branch of `anyOf`/`oneOf` that is not null."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}
    plain = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
    parts: list[Any] = []
    if isinstance(reference := schema.get("$ref"), str):
        parts.append(_local(reference, root))
    if isinstance(together := schema.get("allOf"), list):
        parts.extend(together)
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list):
            usable = [one for one in branches if isinstance(one, Mapping) and one.get("type") != "null"]
            parts.extend(usable[:1])
    for part in parts:
        resolved = resolve(part, root, depth + 1)
        merged_required = [*_names(plain.get("required")), *_names(resolved.get("required"))]
        plain = {**resolved, **plain, **_joined_properties(resolved, plain)}
        if merged_required:
            plain["required"] = list(dict.fromkeys(merged_required))
    if isinstance(kinds := plain.get("type"), list):
        plain["type"] = next((kind for kind in kinds if kind != "null"), None)
    return plain


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _joined_properties(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    first, second = one.get("properties"), two.get("properties")
    return {"properties": {**first, **second}} if isinstance(first, Mapping) and isinstance(second, Mapping) else {}


def _local(reference: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    if not reference.startswith("#"):
        return {}
    for step in reference.lstrip("#").strip("/").split("/"):
        if not step:
            continue
        if not isinstance(node, Mapping):
            return {}
        node = node.get(step.replace("~1", "/").replace("~0", "~"))
    return node


def kind_of(schema: Mapping[str, Any]) -> str:
    """The JSON type to fill, guessed from other keywords where `type` is missing; "" where anything goes."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    if "items" in schema:
        return "array"
    values = schema.get("enum")
    return "string" if isinstance(values, list) and all(isinstance(value, str) for value in values) else ""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError):
        return None


def matches_pattern(pattern: Any, text: str) -> bool:
    """Whether a schema's own pattern is found in a text; False where it is too slow, True where it is no pattern."""
    if not isinstance(pattern, str) or len(pattern) > 500:
        return True
    compiled = _compiled(pattern)
    if compiled is None:
        return True
    try:
        return compiled.search(text, timeout=_PATTERN_SECONDS) is not None
    except TimeoutError:
        return False


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value satisfies type, enum, bounds, lengths and pattern of a resolved schema."""
    if "const" in schema and value != schema["const"]:
        return False
    values = schema.get("enum")
    if isinstance(values, list) and not any(value == one and type(value) is type(one) for one in values):
        return False
    match kind_of(schema):
        case "string":
            return isinstance(value, str) and _string_fits(value, schema)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool) and _number_fits(value, schema)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and _number_fits(value, schema)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list) and _array_fits(value, schema)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
    return True


def _bound(schema: Mapping[str, Any], key: str) -> float | None:
    bound = schema.get(key)
    return bound if isinstance(bound, int | float) and not isinstance(bound, bool) else None


def _number_fits(value: float, schema: Mapping[str, Any]) -> bool:
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    above, below = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    step = _bound(schema, "multipleOf")
    return (
        (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
        and (below is None or value < below)
        and (not step or step < 0 or (value / step) % 1 == 0)
    )


def _string_fits(value: str, schema: Mapping[str, Any]) -> bool:
    shortest, longest = _bound(schema, "minLength"), _bound(schema, "maxLength")
    return (
        (shortest is None or len(value) >= shortest)
        and (longest is None or len(value) <= longest)
        and ("pattern" not in schema or matches_pattern(schema["pattern"], value))
    )


def _array_fits(value: list[Any], schema: Mapping[str, Any]) -> bool:
    fewest, most = _bound(schema, "minItems"), _bound(schema, "maxItems")
    return (
        (fewest is None or len(value) >= fewest)
        and (most is None or len(value) <= most)
        and (not schema.get("uniqueItems") or all(value.index(item) == index for index, item in enumerate(value)))
    )
