"""Random values that fit a schema, for calls of operations; and the requests of such calls as WSGI has them."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from jsonschema import Draft202012Validator

from mcpagent.openapi.api_tools import ApiTool
from mcpagent.utilities.json_schema.parts import dereferenced, merged_schema

TEXTS = ("a", "two words", "ä/ö?&=#+%", "日本", "x,y;z|1", "1", "true", "a.b-c_d~", '"q"')
FORMATS = {
    "date": "2024-02-29",
    "date-time": "2024-02-29T12:30:00Z",
    "email": "a@example.com",
    "uuid": "2f1b6d2e-7c53-4c0e-9a8f-000000000001",
    "uri": "https://example.com/a?b=c",
    "byte": "aGVsbG8=",
    "binary": "data:text/plain;base64,aGVsbG8=",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
    "time": "12:30:00Z",
}
DEEPEST = 5
ATTEMPTS = 5


class CannotMakeError(Exception):
    """No value is known that fits the schema."""


def arguments(tool: ApiTool, chance: random.Random, *, share: float = 0.6) -> dict[str, Any]:
    """Valid arguments of a call: all that are required, and a share of the others. Raises `CannotMakeError`."""
    for _ in range(ATTEMPTS):
        found = _arguments(tool, chance, share)
        if Draft202012Validator(tool.schema).is_valid(found):
            return found
    raise CannotMakeError("none of the values fits")


def _arguments(tool: ApiTool, chance: random.Random, share: float) -> dict[str, Any]:
    required = tool.schema.get("required", ())
    found: dict[str, Any] = {}
    in_path = {one.name for one in tool.arguments if one.parameter and one.parameter.position == "path"}
    for name, schema in tool.schema["properties"].items():
        if name in required or chance.random() < share:
            try:
                found[name] = value(schema, tool.schema, chance)
                # WSGI decodes the path before it is split.
                while name in in_path and re.search(r"[/?#]", str(found[name])):
                    found[name] = value(schema, tool.schema, chance)
            except CannotMakeError:
                if name in required:
                    raise
    return found


def value(schema: Any, root: Any, chance: random.Random, depth: int = 0) -> Any:
    """A value that fits. Raises `CannotMakeError`."""
    schema = dereferenced(schema, root)
    if not isinstance(schema, Mapping):
        return "anything"
    if "allOf" in schema:
        schema = merged_schema(schema, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return chance.choice(schema["enum"])
    if "oneOf" in schema or "anyOf" in schema:
        return _choice(schema, root, chance, depth)
    if "not" in schema:
        raise CannotMakeError("a negation")
    kind = schema.get("type") or ("object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = chance.choice([one for one in kind if one != "null"] or ["null"])
    makers = {"string": _text, "integer": _integer, "number": _number, "boolean": _flag, "null": _nothing}
    if kind in makers:
        return makers[kind](schema, chance)
    if kind == "array":
        return _list(schema, root, chance, depth)
    return _object(schema, root, chance, depth)


def _choice(schema: Mapping[str, Any], root: Any, chance: random.Random, depth: int) -> Any:
    parts = [*schema.get("oneOf", ()), *schema.get("anyOf", ())]
    if "properties" in schema or any(isinstance(part, Mapping) and part.keys() <= {"required"} for part in parts):
        raise CannotMakeError("choices beside properties")
    return value(chance.choice(parts), root, chance, depth + 1)


def _flag(_: Mapping[str, Any], chance: random.Random) -> bool:
    return chance.random() < 0.5


def _nothing(_: Mapping[str, Any], chance: random.Random) -> None:
    return None


def _list(schema: Mapping[str, Any], root: Any, chance: random.Random, depth: int) -> list[Any]:
    least = schema.get("minItems", 0)
    count = max(least, min(schema.get("maxItems", 3), 0 if depth >= DEEPEST else chance.randint(1, 3)))
    items = [value(schema.get("items", {}), root, chance, depth + 1) for _ in range(count)]
    if schema.get("uniqueItems"):
        items = [item for at, item in enumerate(items) if item not in items[:at]]
    if len(items) < least:
        raise CannotMakeError("unique items")
    return items


def _object(schema: Mapping[str, Any], root: Any, chance: random.Random, depth: int) -> dict[str, Any]:
    if depth > DEEPEST + 3:
        raise CannotMakeError("too deep")
    found = {}
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        if name in required or (depth < DEEPEST and chance.random() < 0.5):
            try:
                found[name] = value(part, root, chance, depth + 1)
            except CannotMakeError:
                if name in required:
                    raise
    for name in required:
        found.setdefault(name, "anything")
    return found


def _text(schema: Mapping[str, Any], chance: random.Random) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10_000)
    texts = [FORMATS[schema["format"]]] if schema.get("format") in FORMATS else [chance.choice(TEXTS), *TEXTS]
    for text in (*texts, "a" * max(least, 1), "1" * max(least, 1), "A1" * max(least, 1)):
        long: str = text if least <= len(text) else (text * least)[:least]
        if len(long) <= most and ("pattern" not in schema or re.search(schema["pattern"], long)):
            return long
    raise CannotMakeError("a pattern")


def _limits(schema: Mapping[str, Any]) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return low, schema.get("maximum", schema.get("exclusiveMaximum", low + 100) - 1)


def _integer(schema: Mapping[str, Any], chance: random.Random) -> int:
    low, high = _limits(schema)
    step = schema.get("multipleOf", 1)
    found = int(-(-low // step) * step)
    return found if step != 1 or high < low + 1 else chance.randint(int(low), int(min(high, low + 100)))


def _number(schema: Mapping[str, Any], chance: random.Random) -> float:
    low, high = _limits(schema)
    if "multipleOf" in schema:
        return _integer(schema, chance)
    return low + (min(high, low + 10) - low) * chance.choice((0.0, 0.5, 1.0))


def environ(request: httpx2.Request) -> dict[str, Any]:
    """The request as a WSGI server passes it to its application."""
    from werkzeug.test import EnvironBuilder

    url = urlsplit(str(request.url))
    content = request.read()
    builder = EnvironBuilder(
        path=url.path or "/",
        base_url=f"{url.scheme}://{url.netloc}/",
        query_string=url.query,
        method=request.method,
        headers=[
            (name, text) for name, text in request.headers.multi_items() if name not in ("host", "content-length")
        ],
        input_stream=io.BytesIO(content),
        content_length=len(content),
    )
    return builder.get_environ()
