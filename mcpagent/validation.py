"""Arguments against a tool's JSON Schema, in bounded time and without a network."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_ARGUMENT_CHARACTERS = 1_048_576
MAX_DEPTH = 64
MAX_PROBLEMS = 5


def argument_problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """What is wrong with the arguments, in words that name each path; empty where nothing is.

    `pattern` is not checked: it is the server's regex, and the server checks its own input. A schema that is itself
    broken checks nothing for the same reason.
    """
    from jsonschema.exceptions import SchemaError

    # Depth first: the size check and the validator both recurse.
    if _too_deep(arguments):
        return f"arguments nest deeper than {MAX_DEPTH} levels"
    if _size(arguments) > MAX_ARGUMENT_CHARACTERS:
        return f"arguments are larger than {MAX_ARGUMENT_CHARACTERS:,} characters"
    try:
        validator = _validator(_Schema(schema))
    except SchemaError:
        return ""
    return _problems(validator, arguments)


def _problems(validator: Validator, arguments: dict[str, Any]) -> str:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    problems: list[str] = []
    try:
        for error in validator.iter_errors(arguments):
            leaf = best_match([error]) or error
            where = ".".join(str(step) for step in leaf.absolute_path)
            problems.append(f"{where}: {safe_line(leaf.message)}" if where else safe_line(leaf.message))
            if len(problems) == MAX_PROBLEMS:
                break
    except (Unresolvable, RecursionError):
        return ""
    return "; ".join(problems)


class _Schema:
    """A schema as a cache key: its canonical JSON, since a dict cannot be one."""

    def __init__(self, schema: dict[str, Any]) -> None:
        import json

        self.schema = schema
        self.text = json.dumps(schema, sort_keys=True, default=str)

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Schema) and self.text == other.text


@lru_cache(maxsize=512)
def _validator(key: _Schema) -> Validator:
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    schema = _without_patterns(key.schema)
    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # An empty registry: references resolve inside the schema only, never over a network.
    return kind(schema, registry=Registry())


def _without_patterns(node: Any, *, names: bool = False) -> Any:
    """The schema without regexes; property names that happen to be "pattern" (`names`) stay."""
    if isinstance(node, list):
        return [_without_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_patterns(value, names=key in ("properties", "$defs", "definitions") and not names)
        for key, value in node.items()
        if names or key not in ("pattern", "patternProperties")
    }


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        ]
        if not level:
            return False
    return True


def _size(value: Any) -> int:
    import json

    return len(json.dumps(value, default=str))
