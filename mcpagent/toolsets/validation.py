"""Arguments and answers against JSON Schemas: the one place where a value is checked, in bounded time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcpagent.messages import nests_deeper
from mcpagent.toolsets.json_schema.schema_form import UncheckedError

if TYPE_CHECKING:
    from mcpagent.toolsets.json_schema.schema_check import CheckLimits

MAX_ARGUMENT_CHARACTERS = 1_048_576
MAX_DEPTH = 64

_FEW_NODES, _FEW_CHARACTERS = 2_000, 100_000
"""What may be in a value that is looked at on an event loop at all."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a value, empty if nothing is; or why it could not be checked, which holds nothing up."""

    problem: str = ""
    unchecked: str = ""


def argument_problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """What is wrong with the arguments, in words that name each path; empty if nothing is.

    A schema that cannot be used checks nothing: the tool's own code checks its input, too.
    """
    return verdict(schema, arguments).problem


def verdict(schema: dict[str, Any], arguments: dict[str, Any]) -> Verdict:
    """Whether the arguments fit a tool's schema."""
    from mcpagent.toolsets.json_schema.schema_check import IN_ALL

    return _verdict(schema, arguments, IN_ALL)


async def verdict_beside(schema: dict[str, Any], arguments: dict[str, Any]) -> Verdict:
    """`verdict` for an event loop, which goes on meanwhile if it takes long."""
    from mcpagent.toolsets.json_schema.schema_check import AT_ONCE, TooLongError

    if _is_small(arguments):
        try:
            return _verdict(schema, arguments, AT_ONCE)
        except TooLongError:
            pass
    return await asyncio.to_thread(verdict, schema, arguments)


def _verdict(schema: dict[str, Any], arguments: dict[str, Any], limits: CheckLimits) -> Verdict:
    """Raises `TooLongError` if there are higher limits that the check may end within."""
    from mcpagent.toolsets.json_schema.schema_check import IN_ALL, TooLongError

    # Depth first: the size check recurses.
    if nests_deeper(arguments, MAX_DEPTH):
        return Verdict(f"arguments nest deeper than {MAX_DEPTH} levels")
    if len(json.dumps(arguments, default=str)) > MAX_ARGUMENT_CHARACTERS:
        return Verdict(f"arguments are larger than {MAX_ARGUMENT_CHARACTERS:,} characters")
    try:
        found = problems(schema, arguments, limits)
    except UncheckedError as error:
        if limits is not IN_ALL and isinstance(error, TooLongError):
            raise
        return Verdict(unchecked=str(error))
    return Verdict("; ".join(f"{place}: {text}" if place else text for place, text in found))


def problems(schema: Any, value: Any, limits: CheckLimits | None = None) -> list[tuple[str, str]]:
    """What does not fit the schema: the place in the value, such as `tags.1`, and the words for it; the first five.

    Patterns are run within bounds, and say nothing where these do not do. Nothing is looked up outside of the schema.
    Raises `UncheckedError` for a schema that cannot be used, for this value or at all.
    """
    from mcpagent.toolsets.json_schema.misfits import telling
    from mcpagent.toolsets.json_schema.schema_check import IN_ALL, Check
    from mcpagent.toolsets.json_schema.schema_form import usable
    from mcpagent.toolsets.json_schema.schema_keywords import KEYWORDS

    form = usable(schema)
    try:
        found = [telling(misfit) for misfit in Check(form, KEYWORDS, limits or IN_ALL).misfits(form.root, value)]
        return list(dict.fromkeys((".".join(map(str, misfit.path)), misfit.text()) for misfit in found))
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
                waiting += node.values() if isinstance(node, dict) else node
        elif isinstance(node, str):
            characters += len(node)
        elif isinstance(node, int):
            characters += node.bit_length() // 3
        if nodes > _FEW_NODES or characters > _FEW_CHARACTERS:
            return False
    return True
