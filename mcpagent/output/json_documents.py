"""JSON in the text of an answer: whole, in a code block, or as far as it has come."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)
_DEEPEST = 64


def document_in(text: str) -> Any:
    """The JSON of the whole text, or of its only code block. Raises `ValueError` if that is none, also for numbers
    that JSON does not have."""
    try:
        return _loaded(text)
    except ValueError:
        blocks = _FENCED.findall(text)
        if len(blocks) != 1:
            raise
        return _loaded(blocks[0])


def _loaded(text: str) -> Any:
    document = json.loads(text)
    json.dumps(document, allow_nan=False)
    return document


def partial_document(text: str) -> Any:
    """What a text that breaks off says so far, its last string as far as it goes; None if that is nothing."""
    from pydantic_core import from_json

    begun = text.lstrip()
    if begun.startswith("```"):
        begun = begun.partition("\n")[2].rpartition("```")[0] if begun.count("```") > 1 else begun.partition("\n")[2]
    try:
        return from_json(begun, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return None


def without_nulls(schema: Any, value: Any) -> Any:
    """A value without the nulls under names that its schema does not require."""
    return _without_nulls(schema, [schema], value, 0)


def _without_nulls(root: Any, schemas: list[Any], value: Any, depth: int) -> Any:
    if not isinstance(value, dict | list) or depth > _DEEPEST:
        return value
    branches = _branches(root, schemas)
    if isinstance(value, list):
        items = [branch["items"] for branch in branches if "items" in branch]
        return [_without_nulls(root, items, item, depth + 1) for item in value]
    required = [set(branch.get("required") or ()) for branch in branches if isinstance(branch.get("properties"), dict)]
    known: dict[str, list[Any]] = {}
    for branch in branches:
        named = branch.get("properties")
        for name, rule in named.items() if isinstance(named, dict) else ():
            known.setdefault(name, []).append(rule)
    return {
        name: _without_nulls(root, known.get(name, []), item, depth + 1)
        for name, item in value.items()
        if item is not None or name not in known or all(name in names for names in required)
    }


def _branches(root: Any, schemas: list[Any]) -> list[dict[str, Any]]:
    """The schemas that these stand for, references followed; each once, since unions of what refers to itself double
    with each level."""
    found: dict[int, dict[str, Any]] = {}
    waiting = [*reversed(schemas)]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in found:
            continue
        found[id(schema)] = schema
        for keyword in ("allOf", "oneOf", "anyOf"):
            listed = schema.get(keyword)
            waiting += reversed(listed) if isinstance(listed, list) else ()
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            target: Any = root
            for step in reference.removeprefix("#").split("/")[1:]:
                target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            waiting.append(target)
    return [*found.values()]
