"""A tool's arguments as they are typed: `city=Tokyo days:=3 tags:='["a"]'`, or a whole JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line


def read_arguments(words: Sequence[str], parameters: Mapping[str, Any], whole: str | None = None) -> dict[str, Any]:
    """The arguments; `whole` is a JSON object that the words are added to.

    `name=value` is text, or a number or a truth value where the tool's schema knows nothing else for that name;
    `name:=value` is JSON. Raises `InputError`.
    """
    arguments = _whole(whole) if whole is not None else {}
    properties = parameters.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for word in words:
        name, equals, value = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise InputError(f'argument "{safe_line(word, 60)}": write name=text or name:=JSON')
        if is_json:
            arguments[name] = _json(name, value)
        else:
            arguments[name] = _fitting(value, known.get(name))
    return arguments


def _whole(text: str) -> dict[str, Any]:
    data = _json("--input", text)
    if not isinstance(data, dict):
        raise InputError('--input: expected a JSON object, {"name": value}')
    return data


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{safe_line(name, 60)}: no JSON: {safe_line(str(error), 100)}") from None


def _fitting(text: str, schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind not in ("integer", "number", "boolean"):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    wanted: tuple[type, ...] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}[kind]
    fits = isinstance(value, wanted) and (kind == "boolean") == isinstance(value, bool)
    return value if fits else text
