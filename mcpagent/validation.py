"""Arguments against a tool's JSON Schema, in bounded time and without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_ARGUMENT_CHARACTERS = 1_048_576
MAX_DEPTH = 64
MAX_PROBLEMS = 5
MAX_REFERENCES = 20_000
"""References followed for one check, about 0.2 s; beyond that the arguments count as unchecked."""

_references: ContextVar[count[int]] = ContextVar("references")


def argument_problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """What is wrong with the arguments, in words that name each path; empty where nothing is.

    `pattern` is not checked: it is the server's regex, and the server checks its own input. A schema that is itself
    broken checks nothing for the same reason.
    """
    # Depth first: the size check and the validator both recurse.
    if _too_deep(arguments):
        return f"arguments nest deeper than {MAX_DEPTH} levels"
    if _size(arguments) > MAX_ARGUMENT_CHARACTERS:
        return f"arguments are larger than {MAX_ARGUMENT_CHARACTERS:,} characters"
    try:
        return "; ".join(_problems(_validator(_Schema(schema)), arguments))
    except Exception:  # noqa: BLE001 - checking the schema first would cost 10 ms a tool; a broken one raises anything
        return ""


def _problems(validator: Validator, arguments: dict[str, Any]) -> list[str]:
    from jsonschema.exceptions import best_match

    _references.set(count())
    problems: list[str] = []
    for error in islice(validator.iter_errors(arguments), MAX_PROBLEMS):
        leaf = best_match([error]) or error
        where = ".".join(str(step) for step in leaf.absolute_path)
        problems.append(f"{where}: {safe_line(leaf.message)}" if where else safe_line(leaf.message))
    return problems


class _Schema:
    """A schema as a cache key: its canonical JSON, since a dict cannot be one."""

    def __init__(self, schema: dict[str, Any]) -> None:
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
    kind = _bounded(validator_for(schema, default=Draft202012Validator))
    # An empty registry: references resolve inside the schema only, never over a network.
    return kind(schema, registry=Registry())


@cache
def _bounded(kind: type[Validator]) -> type[Validator]:
    """The validator class with its references counted: a few that name each other twice take exponential time."""
    from jsonschema.validators import extend

    def counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
        def follow(validator: Validator, reference: Any, instance: Any, schema: Any) -> Any:
            if next(_references.get()) > MAX_REFERENCES:
                raise RecursionError(f"more than {MAX_REFERENCES} references followed")
            return keyword(validator, reference, instance, schema)

        return follow

    followers = ("$ref", "$dynamicRef", "$recursiveRef")
    keywords = {name: counted(kind.VALIDATORS[name]) for name in followers if name in kind.VALIDATORS}
    bounded: type[Validator] = extend(kind, keywords)  # type: ignore[no-untyped-call]
    return bounded


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
    return len(json.dumps(value, default=str))
