"""Prefixing, filtering, renaming ... of bound tools: pure functions from lists to lists.

A tool's code stays bound to the name that its own server or function has, so whatever is done to the name or the
definition, a call reaches the same code. Definitions are never changed in place.

These work on tools that are listed; what users import, of the same names in `composition.py`, works on toolsets, whose
tools are listed again before each request.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeVar

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.messages import ToolDefinition, json_copy
from mcpagent.python.argument_checks import expect_kind
from mcpagent.run import RunContext, run_context
from mcpagent.text.safe_text import listed, safe_line
from mcpagent.tool_search.unique_names import legal_name
from mcpagent.tools import Run, Tool, ToolOutput

_T = TypeVar("_T")

Around: TypeAlias = Callable[[ToolDefinition, dict[str, Any], Run], Awaitable[ToolOutput]]
"""Code around each call: gets the definition, the arguments and what to call with them, and gives the output."""

ApprovalPredicate: TypeAlias = Callable[[RunContext[Any], ToolDefinition, dict[str, Any]], "bool | Awaitable[bool]"]


async def awaited(value: _T | Awaitable[_T]) -> _T:
    """The value, of a callable that may be sync or async."""
    return await value if inspect.isawaitable(value) else value


def place_of(tool: Tool) -> tuple[str | None, str]:
    """Return the ID of the tool's source and the name under which it is listed: no two tools of an agent have both."""
    return tool.definition.key.source, tool.name


def identified(tools: Iterable[Tool], source: str) -> list[Tool]:
    """Return the tools with this source ID. Those of servers, and those that have one already, keep theirs."""
    return [
        tool if tool.definition.key.source else replace(tool, definition=replace(tool.definition, source=source))
        for tool in tools
    ]


def told_apart(tools: Sequence[Tool]) -> Sequence[Tool]:
    """Return tools with an identity each: one that its source lists twice is identified by the listed name as well."""
    definitions = [tool.definition for tool in tools]
    names = [(one.server or one.source, one.original_name or one.name) for one in definitions]
    twice = {name for name, count in Counter(names).items() if count > 1 and name[0]}
    if not twice:
        return tools
    return [
        replace(tool, definition=replace(tool.definition, listed=tool.name)) if name in twice else tool
        for tool, name in zip(tools, names, strict=True)
    ]


def with_name(tool: Tool, name: str) -> Tool:
    """The same tool under another name; raises `ConfigError` for one that a model could not call."""
    if not name or legal_name(name) != name:
        raise ConfigError(f'tool "{safe_line(name, 80)}": a name has only letters, digits, _ or -; choose another')
    original = tool.definition.original_name or tool.name
    return replace(tool, definition=replace(tool.definition, name=name, original_name=original))


def prefixed(tools: Iterable[Tool], prefix: str) -> list[Tool]:
    """Each tool as `prefix_name`."""
    return [with_name(tool, f"{prefix}_{legal_name(tool.name)}") for tool in tools]


def renamed(tools: Iterable[Tool], names: Mapping[str, str]) -> list[Tool]:
    """Tools under new names, given as new name -> old name; the others stay.

    Two names may be swapped. An old name that no tool has is passed over (see `unknown_names`). Raises
    `ConfigError` if two tools would have one name.
    """
    new_names = {old: new for new, old in names.items()}
    if len(new_names) < len(names):
        twice = next(old for old, count in Counter(names.values()).items() if count > 1)
        raise ConfigError(f'renamed: "{twice}" is given two new names; keep one')
    result = [with_name(tool, new_names[tool.name]) if tool.name in new_names else tool for tool in tools]
    for (_, name), count in Counter(map(place_of, result)).items():
        if count > 1:
            raise ConfigError(f'renamed: two tools would be named "{name}"; choose another name')
    return result


def unknown_names(tools: Iterable[Tool], names: Iterable[str]) -> list[str]:
    """Those of `names` that no tool has."""
    known = {tool.name for tool in tools}
    return [name for name in names if name not in known]


def unknown_name_line(tools: Iterable[Tool], name: str) -> str:
    """That no tool has this name, with the nearest and the known ones."""
    known = [tool.name for tool in tools]
    near = get_close_matches(name, known, n=1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    return f'no tool "{safe_line(name, 60)}"{hint}; known: {listed(known)}'


def deferred(tools: Iterable[Tool], names: bool | Collection[str] = True) -> list[Tool]:
    """Tools marked as hidden until they are discovered: all, none, or those named and no other."""
    if isinstance(names, bool):
        return [replace(tool, deferred=names) for tool in tools]
    return [replace(tool, deferred=tool.name in names) for tool in tools]


def list_of_names(names: bool | Collection[str], place: str) -> Collection[str]:
    """The names themselves, none if all or no tools are meant. Raises `ConfigError` for a single text."""
    if isinstance(names, str):
        raise ConfigError(f'{place}: expected True or a list of names, got a string; write ["{safe_line(names, 60)}"]')
    expect_kind(f"{place}: names", names, bool | Collection[str])
    return () if isinstance(names, bool) else names


def deferred_as_configured(tools: Sequence[Tool], server: ServerConfig) -> list[Tool]:
    """A server's tools with its `defer_loading` applied; what its `always_load` names stays offered.

    Raises `ConfigError` for a name that no tool has.
    """
    place = f'server "{server.name}": defer_loading'
    for name in unknown_names(tools, list_of_names(server.defer_loading or False, place)):
        raise ConfigError(f"{place}: {unknown_name_line(tools, name)}")
    return deferred_by(tools, server)


def deferred_by(tools: Sequence[Tool], server: ServerConfig) -> list[Tool]:
    """The same, but a name that no tool has means nothing."""
    if server.defer_loading is None:
        return list(tools)
    marked = deferred(tools, server.defer_loading)
    return [tool if tool.deferred is False else other for tool, other in zip(tools, marked, strict=True)]


def approval_required(tools: Iterable[Tool], predicate: ApprovalPredicate | None = None) -> list[Tool]:
    """Tools of which each call has to be approved, or those calls for which the predicate says so.

    The predicate sees the definition as it is here, whatever is done to the name further out. A tool that needed
    approval before still does.
    """
    return [replace(tool, approval=_also(tool, predicate)) for tool in tools]


def _also(tool: Tool, predicate: ApprovalPredicate | None) -> Callable[..., bool | Awaitable[bool]]:
    earlier = tool.approval

    async def needed(arguments: dict[str, Any]) -> bool:
        if earlier is not None and await awaited(earlier(arguments)):
            return True
        if predicate is None:
            return True
        return bool(await awaited(predicate(run_context(), tool.asked(arguments), json_copy(arguments))))

    return needed


def wrapped(tools: Iterable[Tool], around: Around) -> list[Tool]:
    """Tools whose calls go through `around`: logging, retries, redaction."""
    return [replace(tool, run=_wrapped_run(tool, around)) for tool in tools]


def _wrapped_run(tool: Tool, around: Around) -> Run:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return await around(tool.definition, arguments, tool.run)

    return run


def rechecked(tools: Iterable[Tool], allowed: Callable[[ToolDefinition], bool | Awaitable[bool]]) -> list[Tool]:
    """Tools that look again, at each call, whether they are allowed; if not, they are not run."""

    async def check(definition: ToolDefinition, arguments: dict[str, Any], run: Run) -> ToolOutput:
        if not await awaited(allowed(definition)):
            text = f'"{run_context().tool_name or definition.name}" is not available now, so it was not run.'
            return ToolOutput.of_text(text, error="denied")
        return await run(arguments)

    return wrapped(tools, check)


def redefined(
    tools: Sequence[Tool],
    definitions: Iterable[ToolDefinition],
    change: Callable[[Tool, ToolDefinition], Tool] = lambda tool, definition: replace(tool, definition=definition),
) -> list[Tool]:
    """The tools with these definitions in place of their own, by `change`; a tool without one is dropped.

    Raises `ConfigError` for a definition that belongs to no tool, or comes twice: nothing is added or renamed here.
    """
    listed = {place_of(tool): tool for tool in tools}
    result: list[Tool] = []
    expect_kind("prepared: what the function gave", definitions, Iterable[ToolDefinition])
    for definition in definitions:
        tool = listed.pop((definition.key.source, definition.name), None)
        if tool is None:
            name = safe_line(definition.name, 60)
            raise ConfigError(f'prepared: "{name}" is none of the given tools; change or drop them, but add none')
        same = tool.definition
        if definition.key != same.key:  # the code stays, so the identity does
            definition = replace(definition, original_name=same.original_name, source=same.source, listed=same.listed)
        result.append(change(tool, definition))
    return result


def combined(lists: Sequence[tuple[str, Sequence[Tool]]]) -> list[Tool]:
    """All tools of the labelled lists, in order; raises `ConfigError` that names both if two have one name."""
    result = [tool for _, tools in lists for tool in tools]
    if len(set(map(place_of, result))) == len(result):
        return result
    owner: dict[tuple[str | None, str], str] = {}
    for label, tools in lists:
        for tool in tools:
            place = place_of(tool)
            if place in owner:
                both = f"in {owner[place]} and in {label}" if owner[place] != label else f"twice in {label}"
                raise ConfigError(f'tool "{tool.name}": defined {both}; rename one, or use prefixed(...)')
            owner[place] = label
    raise AssertionError("two tools have one place")
