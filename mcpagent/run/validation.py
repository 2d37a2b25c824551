"""Validate arguments and answers against JSON Schemas in bounded time; no other module does this."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpagent.utilities.json_schema.parts import properties_of, referred, required_of
from mcpagent.utilities.json_schema.schema_form import UncheckedError
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.utilities.text.for_model import line_for_model
from mcpagent.values.messages import Text, nests_deeper

if TYPE_CHECKING:
    from mcpagent.utilities.json_schema.schema_check import CheckLimits
    from mcpagent.values.tools import Tool, ToolOutput

MAX_ARGUMENT_CHARACTERS = 1_048_576
MAX_DEPTH = 64

_FEW_NODES, _FEW_CHARACTERS = 2_000, 100_000
"""Maximum size of a value that is validated in the event loop."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a validation.

    `problem`: the violations of the schema, "" if the value is valid. `unchecked`: the reason why the value could not
    be validated; such a value is accepted.
    """

    problem: str = ""
    unchecked: str = ""


def argument_problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return the problem of the arguments, with the path of each violation; "" if they are valid.

    With an unusable schema nothing is validated: the tool's own code also checks its input.
    """
    return verdict(schema, arguments).problem


def verdict(schema: dict[str, Any], arguments: dict[str, Any]) -> Verdict:
    """Validate the arguments against a tool's schema."""
    from mcpagent.utilities.json_schema.schema_check import IN_ALL

    return _verdict(schema, arguments, IN_ALL)


async def verdict_beside(schema: dict[str, Any], arguments: dict[str, Any]) -> Verdict:
    """Return `verdict` without blocking the event loop: a long check runs in a worker thread."""
    from mcpagent.utilities.json_schema.schema_check import AT_ONCE, TooLongError

    if _is_small(arguments):
        try:
            return _verdict(schema, arguments, AT_ONCE)
        except TooLongError:
            pass
    return await asyncio.to_thread(verdict, schema, arguments)


async def fitted(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> tuple[dict[str, Any], Verdict]:
    """Return the arguments to run a tool with, and whether they match its schema.

    Models write null for optional arguments. If the arguments are valid only without such nulls, these are removed:
    first only those that the schema does not accept, because an accepted null is a value.
    """
    found = await verdict_beside(schema, arguments)
    if not found.problem:
        return arguments, found
    is_much, tried = not _is_small(arguments), arguments
    for removes_accepted in (False, True):
        fewer = await beside_loop(
            partial(
                without_nulls, schema, arguments, removes_accepted=removes_accepted
            ),
            is_much=is_much,
        )
        if fewer == tried:
            continue
        tried = fewer
        again = await verdict_beside(schema, fewer)
        if not again.problem:
            return fewer, again
    return arguments, found


def without_nulls(schema: Any, value: Any, *, removes_accepted: bool = True) -> Any:
    """Return the value without nulls in properties that its schema does not require.

    Without `removes_accepted`, a null stays where the schema of the property names null or any value.
    """
    return _without_nulls(schema, [schema], value, 0, removes_accepted)


def _without_nulls(
    root: Any, schemas: list[Any], value: Any, depth: int, removes_accepted: bool
) -> Any:
    if not isinstance(value, dict | list) or depth > MAX_DEPTH:
        return value
    branches = _branches(root, schemas)
    if isinstance(value, list):
        items = [branch["items"] for branch in branches if "items" in branch]
        return [
            _without_nulls(root, items, item, depth + 1, removes_accepted)
            for item in value
        ]
    required = [
        set(required_of(branch))
        for branch in branches
        if isinstance(branch.get("properties"), dict)
    ]
    known: dict[str, list[Any]] = {}
    for branch in branches:
        for name, rule in properties_of(branch).items():
            known.setdefault(name, []).append(rule)

    def stays(name: str) -> bool:
        if name not in known or all(name in names for names in required):
            return True
        return not removes_accepted and _accepts_null(root, known[name])

    return {
        name: _without_nulls(
            root, known.get(name, []), item, depth + 1, removes_accepted
        )
        for name, item in value.items()
        if item is not None or stays(name)
    }


def _accepts_null(root: Any, rules: list[Any]) -> bool:
    """Return whether one of the schemas names null, or no type at all."""
    return True in rules or any(map(_names_null, _branches(root, rules)))


def _names_null(schema: dict[str, Any]) -> bool:
    kinds, values = schema.get("type"), schema.get("enum")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    if isinstance(values, list) and None in values:
        return True
    if "const" in schema:
        return schema["const"] is None
    return not schema.keys() & _RESTRICTING


_RESTRICTING = frozenset({"type", "enum", "const", "$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that may exclude null; a schema without them accepts it."""


def _branches(root: Any, schemas: list[Any]) -> list[dict[str, Any]]:
    """Return these schemas and all that they consist of, with references resolved.

    Each schema appears once, since recursive unions would double with each level.
    """
    found: dict[int, dict[str, Any]] = {}
    waiting = [*reversed(schemas)]
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, dict) or id(schema) in found:
            continue
        found[id(schema)] = schema
        for keyword in ("allOf", "oneOf", "anyOf"):
            listed = schema.get(keyword)
            if isinstance(listed, list):
                waiting += reversed(listed)
        waiting.append(referred(root, schema.get("$ref")))
    return [*found.values()]


async def output_problem(schema: dict[str, Any], structured: Any) -> str:
    """Return how a result violates the output schema of its server; "" if it is valid or cannot be validated."""
    from mcpagent.utilities.json_schema.schema_check import (
        AT_ONCE,
        IN_ALL,
        TooLongError,
    )

    if structured is None:
        return "it has no structured content"
    try:
        try:
            found = None
            if _is_small(structured):
                found = problems(schema, structured, AT_ONCE)
        except TooLongError:
            found = None
        if found is None:
            found = await asyncio.to_thread(problems, schema, structured, IN_ALL)
    except UncheckedError:
        return ""
    return "; ".join(f"{place}: {text}" if place else text for place, text in found)


async def held_to_promise(
    tool: Tool, output: ToolOutput, *, is_for_program: bool = False
) -> ToolOutput:
    """Return the output with `schema_problem` and a note of mcpagent at its end, if it violates its output schema.

    A program gets no note, because its content is data.
    """
    if tool.output_schema is None or output.error is not None:
        return output
    if not (problem := await output_problem(tool.output_schema, output.structured)):
        return output
    shown = line_for_model(problem, 500)
    if is_for_program:
        return replace(output, schema_problem=shown)
    words = f"This result breaks the output schema that its own server gives for the tool: {shown}"
    content = (*output.content, Text(f"[{words}]"))
    return replace(output, content=content, schema_problem=shown)


def _verdict(
    schema: dict[str, Any], arguments: dict[str, Any], limits: CheckLimits
) -> Verdict:
    """Validate the arguments of a call against its tool's schema.

    Raises `TooLongError` if the check exceeds `limits` and might end within higher ones.
    """
    from mcpagent.utilities.json_schema.schema_check import IN_ALL, TooLongError

    # Check the depth first, because the check of the size recurses.
    if nests_deeper(arguments, MAX_DEPTH):
        return Verdict(f"arguments nest deeper than {MAX_DEPTH} levels")
    most = MAX_ARGUMENT_CHARACTERS
    if (
        is_large(arguments, most, most)
        or len(json.dumps(arguments, default=str)) > most
    ):
        return Verdict(f"arguments are larger than {most:,} characters")
    try:
        found = problems(schema, arguments, limits)
    except UncheckedError as error:
        if limits is not IN_ALL and isinstance(error, TooLongError):
            raise
        return Verdict(unchecked=str(error))
    return Verdict(
        "; ".join(f"{place}: {text}" if place else text for place, text in found)
    )


def problems(
    schema: Any, value: Any, limits: CheckLimits | None = None
) -> list[tuple[str, str]]:
    """Return the first five violations of the schema: the path in the value, such as `tags.1`, and a text.

    Patterns have limits; one that exceeds them counts as passed. References outside of the schema are not resolved.
    Raises `UncheckedError` if the schema cannot be used for this value, or at all.
    """
    from mcpagent.utilities.json_schema.misfits import telling
    from mcpagent.utilities.json_schema.schema_check import IN_ALL, Check
    from mcpagent.utilities.json_schema.schema_form import usable
    from mcpagent.utilities.json_schema.schema_keywords import KEYWORDS

    form = usable(schema)
    try:
        found = [
            telling(misfit)
            for misfit in Check(form, KEYWORDS, limits or IN_ALL).misfits(
                form.root, value
            )
        ]
        return list(
            dict.fromkeys(
                (".".join(map(str, misfit.path)), misfit.text()) for misfit in found
            )
        )
    except RecursionError:
        raise UncheckedError("it nests too deep") from None


def _is_small(value: Any) -> bool:
    waiting, nodes, characters = [value], 0, 0
    while waiting:
        node = waiting.pop()
        nodes += 1
        if isinstance(node, dict | list):
            nodes += len(node)
            if nodes <= _FEW_NODES:
                if isinstance(node, dict):
                    waiting += node.values()
                else:
                    waiting += node
        elif isinstance(node, str):
            characters += len(node)
        elif isinstance(node, int):
            characters += node.bit_length() // 3
        if nodes > _FEW_NODES or characters > _FEW_CHARACTERS:
            return False
    return True
