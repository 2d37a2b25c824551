"""Bound tools as a toolset lists them: identify, combine and hide them, or require approval.

A tool's code calls its original name on its server, or its function. So a call reaches the same code under any name and
definition. Definitions are never changed in place.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.permissions.approval_policy import ApprovalPredicate, answer_of_predicate
from mcpagent.run.agent_run import run_context
from mcpagent.tool_search.unique_names import legal_name
from mcpagent.utilities.python.argument_checks import expect_kind
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition, json_copy
from mcpagent.values.tools import Tool

_T = TypeVar("_T")


async def awaited(value: _T | Awaitable[_T]) -> _T:
    """Return the result of a callable that may be sync or async."""
    if inspect.isawaitable(value):
        return await value
    return value


# -- Names and identities ----------------------------------------------------------------------------------------------


def listed_place(definition: ToolDefinition) -> tuple[str, str]:
    """Return the ID of the tool's source and its listed name; no two tools of an agent have both in common."""
    return definition.server or definition.source, definition.name


def with_name(tool: Tool, name: str) -> Tool:
    """Return the tool under another name. Raises `ConfigError` for a name that a model could not call."""
    if not name or legal_name(name) != name:
        raise ConfigError(
            f'tool "{safe_line(name, 80)}": a name has only letters, digits, _ or -; choose another'
        )
    original = tool.definition.original_name or tool.name
    return replace(
        tool, definition=replace(tool.definition, name=name, original_name=original)
    )


def identified(tools: Iterable[Tool], source: str) -> list[Tool]:
    """Return the tools with this source ID. Tools of servers, and tools that already have an ID, keep theirs."""
    return [
        tool
        if tool.definition.key.source
        else replace(tool, definition=replace(tool.definition, source=source))
        for tool in tools
    ]


def told_apart(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools with unique identities: if a source lists a tool twice, the listed name is part of its
    identity.
    """
    definitions = [tool.definition for tool in tools]
    names = [
        (one.server or one.source, one.original_name or one.name) for one in definitions
    ]
    count = Counter(names)
    return [
        replace(tool, definition=replace(tool.definition, listed=tool.name))
        if name[0] and count[name] > 1
        else tool
        for tool, name in zip(tools, names, strict=True)
    ]


def put_together(lists: Sequence[tuple[str, Sequence[Tool]]]) -> list[Tool]:
    """Return all tools of the labelled lists, in order. Raises `ConfigError`, which names both labels, if two tools
    have one name.
    """
    owner: dict[tuple[str, str], str] = {}
    for label, tools in lists:
        for tool in tools:
            place = (
                tool.definition.server or tool.definition.source,
                tool.definition.name,
            )  # a copy of `listed_place`, because there are many tools
            if place in owner:
                if owner[place] != label:
                    both = f"in {owner[place]} and in {label}"
                else:
                    both = f"twice in {label}"
                raise ConfigError(
                    f'tool "{tool.name}": defined {both}; rename one, or use prefixed(...)'
                )
            owner[place] = label
    return [tool for _, tools in lists for tool in tools]


# -- Tools hidden until they are found ---------------------------------------------------------------------------------


def list_of_names(names: bool | Collection[str], place: str) -> Collection[str]:
    """Return the names; () for True and False. Raises `ConfigError` for a single text."""
    if isinstance(names, str):
        raise ConfigError(
            f'{place}: expected True or a list of names, got a string; write ["{safe_line(names, 60)}"]'
        )
    expect_kind(f"{place}: names", names, bool | Collection[str])
    if isinstance(names, bool):
        return ()
    return names


def hidden(tools: Iterable[Tool], names: bool | Collection[str]) -> list[Tool]:
    """Return the tools marked as hidden until they are found: all (True), none (False), or only those with these
    names.
    """
    if isinstance(names, bool):
        return [replace(tool, deferred=names) for tool in tools]
    return [replace(tool, deferred=tool.name in names) for tool in tools]


def hidden_by(tools: Sequence[Tool], server: ServerConfig) -> list[Tool]:
    """Apply a server's `defer_loading` to its tools; tools in its `always_load` are never hidden."""
    if server.defer_loading is None:
        return list(tools)
    marked = hidden(tools, server.defer_loading)
    return [
        tool if tool.deferred is False else other
        for tool, other in zip(tools, marked, strict=True)
    ]


# -- Approval ----------------------------------------------------------------------------------------------------------


def with_approval(
    tools: Iterable[Tool], predicate: ApprovalPredicate | None = None
) -> list[Tool]:
    """Return the tools so that each call needs approval, or each call for which the predicate is true.

    The predicate receives the definition in this list, even if outer operations rename the tool. A tool that already
    needed approval still does.
    """
    return [replace(tool, approval=_also(tool, predicate)) for tool in tools]


def _also(
    tool: Tool, predicate: ApprovalPredicate | None
) -> Callable[..., bool | Awaitable[bool]]:
    earlier = tool.approval

    async def needed(arguments: dict[str, Any]) -> bool:
        if predicate is None:
            return True
        if earlier is not None and answer_of_predicate(
            await awaited(earlier(arguments))
        ):
            return True
        asked = predicate(run_context(), tool.asked(arguments), json_copy(arguments))
        return answer_of_predicate(await awaited(asked))

    return needed
