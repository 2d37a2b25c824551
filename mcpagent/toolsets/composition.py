"""Toolsets made from toolsets: prefixed, renamed, filtered and so on, each time the inner toolsets are listed.

Each operation accepts a toolset, an `McpServer`, or a list of functions and tools, and returns a `CombinedSources`,
which enters its sources in order and exits them in reverse.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from inspect import getattr_static
from operator import is_
from types import TracebackType
from typing import Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.permissions.approval_policy import ApprovalPredicate
from mcpagent.run.agent_run import RunContext, current_run, run_context
from mcpagent.tool_search.unique_names import legal_name
from mcpagent.toolsets.functions import FunctionLike, FunctionToolset
from mcpagent.toolsets.listed_tools import (
    awaited,
    hidden,
    hidden_by,
    identified,
    list_of_names,
    listed_place,
    put_together,
    with_approval,
    with_name,
)
from mcpagent.toolsets.server_source import ServerSource
from mcpagent.toolsets.unmatched_names import Completeness, NamedTools
from mcpagent.utilities.python.argument_checks import (
    expect,
    expect_fields,
    expect_function,
    expect_kind,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import (
    Run,
    Tool,
    ToolCaller,
    ToolOutput,
    Toolset,
    expect_callers,
    usable_tools,
)

logger = logging.getLogger("mcpagent")

ToolSource: TypeAlias = Toolset | ServerConfig | Sequence[FunctionLike | Tool]
"""Any source of tools that can be composed: a toolset, an `McpServer`, or a list of functions and tools."""

Around: TypeAlias = Callable[
    [ToolDefinition, dict[str, Any], Run], Awaitable[ToolOutput]
]
"""A function that surrounds each call: it receives the definition, the arguments and the function that runs the tool,
and returns the output.
"""

ToolsChange: TypeAlias = Callable[[list[Tool]], "list[Tool] | Awaitable[list[Tool]]"]
Filter: TypeAlias = Callable[
    [RunContext[Any], ToolDefinition], "bool | Awaitable[bool]"
]
Prepare: TypeAlias = Callable[
    [RunContext[Any], list[ToolDefinition]],
    "Sequence[ToolDefinition] | Awaitable[Sequence[ToolDefinition]]",
]
Factory: TypeAlias = Callable[
    [RunContext[Any]], "ToolSource | Awaitable[ToolSource | None] | None"
]


_MOST_MADE = 8
"""Maximum number of cached results of `prepared` for one tool, and of cached lists of `dynamic`."""


class CombinedSources:
    """Sources whose tools are listed together and transformed by `change`; `label` names it in errors.

    `is_pure`: the change depends only on the tools, so it is repeated only if these differ. Toolsets are listed before
    each request, and this makes unchanged ones free. `named` are the tool names that the change refers to. `defers`: it
    hides tools until they are found. One object may serve many agents at once: the first agent enters it, the last one
    exits it.
    """

    def __init__(
        self,
        sources: Sequence[Toolset],
        label: str,
        change: ToolsChange | None = None,
        *,
        is_pure: bool = True,
        named: NamedTools | None = None,
        defers: bool = False,
    ) -> None:
        self.label = label
        self._sources = tuple(sources)
        self.defers = defers or any(_defers(source) for source in self._sources)
        self._change = change
        self._is_pure = is_pure
        self._named = named
        self._last: tuple[list[Tool], list[Tool]] | None = None
        self._users = 0
        self._opening = asyncio.Lock()
        self._exits = AsyncExitStack()

    async def tools(self) -> list[Tool]:
        """Return the transformed tools of all sources. Raises `ConfigError` if two tools clash, or if no tool has a
        configured name.
        """
        tools = put_together([await labelled_tools(source) for source in self._sources])
        if self._named is not None:
            self._named.check(tools, self._known_of_sources)
        if self._change is None:
            return tools
        if not self._is_pure:
            return await awaited(self._change(tools))
        if self._last is None or self._last[0] != tools:
            self._last = (tools, await awaited(self._change(tools)))
        return list(self._last[1])

    @property
    def known(self) -> Completeness:
        """How complete the list of tools is now."""
        if self._is_pure:
            return self._known_of_sources
        return min(self._known_of_sources, Completeness.NOW)

    @property
    def _known_of_sources(self) -> Completeness:
        return min(
            (known_of(source) for source in self._sources), default=Completeness.ALL
        )

    async def __aenter__(self) -> CombinedSources:
        async with self._opening:
            if self._users == 0:
                async with AsyncExitStack() as exits:
                    for source in self._sources:
                        await exits.enter_async_context(source)
                    self._exits = exits.pop_all()
            self._users += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with self._opening:
            self._users -= 1
            if self._users == 0:
                await self._exits.aclose()


def as_toolset(source: ToolSource) -> Toolset:
    """Return the source as a toolset. Raises `ConfigError` if it is not a source of tools."""
    if isinstance(source, ServerConfig):
        return _of_server(source)
    if isinstance(source, list | tuple):
        return FunctionToolset(source)
    lists = callable(
        getattr_static(source, "tools", None)
    )  # an agent also has `tools`, but as a property
    if isinstance(source, type) or not lists or not hasattr(source, "__aenter__"):
        hint = ""
        if hasattr(type(source), "as_tool"):
            hint = "; use agent.as_tool(name, description)"
        raise ConfigError(
            f"tools: expected toolsets, McpServer values or lists of functions, got {type(source).__name__}{hint}"
        )
    toolset: Toolset = source  # type: ignore[assignment]  # the protocol was checked
    identity = getattr(toolset, "id", "")
    if isinstance(identity, str) and identity:
        return CombinedSources(
            (toolset,),
            toolset_label(toolset),
            lambda tools: identified(tools, identity),
        )
    return toolset


def _of_server(server: ServerConfig) -> CombinedSources:
    place = f'server "{server.name}": defer_loading'
    names = list_of_names(server.defer_loading or False, place)
    return CombinedSources(
        (ServerSource(server),),
        f'server "{server.name}"',
        lambda tools: hidden_by(tools, server),
        named=NamedTools(names, place, is_error=True),
        defers=bool(server.defer_loading),
    )


def known_of(toolset: Toolset) -> Completeness:
    """Return how complete a toolset's list of tools is now; `Completeness.NOW` for a class without this attribute."""
    known = getattr(toolset, "known", Completeness.NOW)
    if isinstance(known, Completeness):
        return known
    return Completeness.NOW


def expects_deferred(toolset: Toolset) -> bool:
    """Return whether the toolset may later list hidden tools, so that tool search is necessary."""
    return _defers(toolset) and known_of(toolset) is not Completeness.ALL


def _defers(toolset: Toolset) -> bool:
    return getattr(toolset, "defers", False) is True


def toolset_label(toolset: object) -> str:
    """Return the name of the toolset in errors."""
    config = getattr(toolset, "config", None)
    if isinstance(config, ServerConfig):
        return f'server "{config.name}"'
    return str(getattr(toolset, "label", type(toolset).__name__))


async def labelled_tools(toolset: Toolset) -> tuple[str, list[Tool]]:
    """Return the label and the current tools of the toolset. Raises `ConfigError` for values that are not tools."""
    label = toolset_label(toolset)
    return label, usable_tools(label, await toolset.tools())


def combined(*sources: ToolSource) -> CombinedSources:
    """Combine the tools of all sources, in order.

    A duplicate name is an error that names both sources. Tools of two MCP servers may share a name: they are offered as
    `server__tool`.
    """
    return CombinedSources(tuple(map(as_toolset, sources)), "combined(...)")


def prefixed(source: ToolSource, prefix: str) -> CombinedSources:
    """Return the source with each tool renamed to `prefix_name`."""
    expect("prefixed", prefix, str, 'a text such as "github"')

    def change(tools: list[Tool]) -> list[Tool]:
        return [with_name(tool, f"{prefix}_{legal_name(tool.name)}") for tool in tools]

    return _composed(source, f'prefixed("{prefix}")', change)


def renamed(source: ToolSource, names: Mapping[str, str]) -> CombinedSources:
    """Return the source with new names for tools, by new name -> old name; other tools keep theirs.

    Two names may be swapped. An unknown old name is reported once. Raises `ConfigError` for two new names of one tool.
    If two tools would get the same name, listing the tools fails.
    """
    expect(
        "renamed", names, Mapping, "new names to old ones as a dict", holds=_are_texts
    )
    new_names = {old: new for new, old in names.items()}
    for old, count in Counter(names.values()).items():
        if count > 1:
            raise ConfigError(f'renamed: "{old}" is given two new names; keep one')

    def change(tools: list[Tool]) -> list[Tool]:
        result = [
            with_name(tool, new_names[tool.name]) if tool.name in new_names else tool
            for tool in tools
        ]
        for (_, name), count in Counter(
            listed_place(tool.definition) for tool in result
        ).items():
            if count > 1:
                raise ConfigError(
                    f'renamed: two tools would be named "{name}"; choose another name'
                )
        return result

    named = NamedTools(tuple(new_names), "renamed", is_error=False)
    return _composed(source, "renamed(...)", change, named=named)


class _Asking:
    """Calls a filter; an exception hides the tool, with one warning for each tool."""

    def __init__(self, predicate: Filter) -> None:
        self._predicate = predicate
        self._warned: set[str] = set()

    def about(
        self, context: RunContext[Any], definition: ToolDefinition
    ) -> bool | Awaitable[bool]:
        try:
            return self._predicate(context, definition)
        except Exception as error:  # noqa: BLE001 - the user's code; a filter that fails must not let through
            return self._hidden(definition, error)

    async def settled(
        self, definition: ToolDefinition, answer: bool | Awaitable[bool]
    ) -> bool:
        try:
            return bool(await awaited(answer))
        except Exception as error:  # noqa: BLE001 - as above
            return self._hidden(definition, error)

    def guarded(self, tool: Tool) -> Tool:
        """Return the tool with a check of the filter at each call; if the filter refuses, the call does not run."""

        async def run(arguments: dict[str, Any]) -> ToolOutput:
            context, definition = run_context(), tool.definition
            if await self.settled(definition, self.about(context, definition)):
                return await tool.run(arguments)
            text = f'"{context.tool_name or definition.name}" is not available now, so it was not run.'
            return ToolOutput.of_text(text, error="denied")

        return replace(tool, run=run)

    def _hidden(self, definition: ToolDefinition, error: Exception) -> bool:
        if definition.name not in self._warned:
            self._warned.add(definition.name)
            logger.warning(
                'filtered: "%s" is hidden: %s: %s',
                definition.name,
                type(error).__name__,
                error,
            )
        return False


def filtered(source: ToolSource, predicate: Filter) -> CombinedSources:
    """Return the source with only the tools for which `predicate(context, definition)`, sync or async, is true.

    The predicate runs before each request to the model, and again at each call. An exception hides the tool.
    """
    expect_function("filtered", predicate, "context", "definition")
    asking = _Asking(predicate)
    guards: dict[tuple[str, str], tuple[Tool, Tool]] = {}

    async def change(tools: list[Tool]) -> list[Tool]:
        kept: list[Tool] = []
        context = run_context()
        for tool in tools:
            definition = tool.definition
            answer = asking.about(
                context, definition
            )  # a coroutine for each of many tools would double the time
            if not (
                answer
                if isinstance(answer, bool)
                else await asking.settled(definition, answer)
            ):
                continue
            held = guards.get(place := listed_place(definition))
            if held is None or held[0] is not tool:
                held = guards[place] = (tool, asking.guarded(tool))
            kept.append(held[1])
        return kept

    return _composed(source, "filtered(...)", change, is_pure=False)


def prepared(source: ToolSource, prepare: Prepare) -> CombinedSources:
    """Return the source with definitions that `prepare(context, definitions)` changes or removes before each request.

    It cannot add tools.
    """
    expect_function("prepared", prepare, "context", "definitions")
    made: dict[str, list[tuple[Tool, Tool]]] = {}

    def redefined(tool: Tool, definition: ToolDefinition) -> Tool:
        """Return the tool with another definition; the same object for the same definition, so that caches recognise
        it.
        """
        same = tool.definition
        if definition is same:
            return tool
        if (definition.original_name, definition.listed) != (
            same.original_name,
            same.listed,
        ):
            # The code of the tool is unchanged, so its identity is, too.
            definition = replace(
                definition, original_name=same.original_name, listed=same.listed
            )
        held = made.get(tool.name, [])
        for one, other in held:
            if one is tool and other.definition == definition:
                return other
        changed = replace(tool, definition=definition)
        made[tool.name] = [(tool, changed), *held[: _MOST_MADE - 1]]
        return changed

    async def change(tools: list[Tool]) -> list[Tool]:
        given = [tool.definition for tool in tools]
        try:
            definitions = await awaited(prepare(run_context(), given))
        except Exception as error:
            reason = f"{type(error).__name__}: {safe_line(str(error))}"
            raise ConfigError(f"prepared: the function raised {reason}") from error
        expect_kind(
            "prepared: what the function gave", definitions, Iterable[ToolDefinition]
        )
        listed = {listed_place(tool.definition): tool for tool in tools}
        result: list[Tool] = []
        for definition in definitions:
            tool = listed.pop(listed_place(definition), None)
            if tool is None:
                name = safe_line(definition.name, 60)
                raise ConfigError(
                    f'prepared: "{name}" is none of the given tools; change or drop them, but add none'
                )
            result.append(redefined(tool, definition))
        return result

    return _composed(source, "prepared(...)", change, is_pure=False)


def approval_required(
    source: ToolSource, predicate: ApprovalPredicate | None = None
) -> CombinedSources:
    """Return the source with approval required: for all calls, or those for which `predicate(context, definition,
    arguments)` is true.
    """
    if predicate is not None:
        expect_function(
            "approval_required", predicate, "context", "definition", "arguments"
        )
    return _composed(
        source, "approval_required(...)", lambda tools: with_approval(tools, predicate)
    )


def deferred(
    source: ToolSource, names: bool | Collection[str] = True
) -> CombinedSources:
    """Return the source with tools hidden until the model finds them: all tools, or only the named ones.

    If no tool has a name in `names`, the agent does not start; if the source may list other tools later, it is only a
    warning.
    """
    toolset = as_toolset(source)
    place = f"deferred(...) of {toolset_label(toolset)}"
    named = NamedTools(list_of_names(names, place), place, is_error=True)
    return CombinedSources(
        (toolset,),
        place,
        lambda tools: hidden(tools, names),
        named=named,
        defers=bool(names),
    )


def callable_from(
    source: ToolSource, allowed_callers: Sequence[ToolCaller]
) -> CombinedSources:
    """Return the source with restricted callers in code mode: the model ("direct"), its programs ("code"), or both."""
    expect_callers("callable_from", allowed_callers)
    callers = tuple(allowed_callers)

    def change(tools: list[Tool]) -> list[Tool]:
        return [replace(tool, allowed_callers=callers) for tool in tools]

    return _composed(source, "callable_from(...)", change)


def wrapped(source: ToolSource, around: Around) -> CombinedSources:
    """Return the source with calls that run through `await around(definition, arguments, run)`, which calls `await
    run(arguments)`.
    """
    expect_function("wrapped", around, "definition", "arguments", "run")

    def wrap(tool: Tool) -> Tool:
        return replace(
            tool, run=lambda arguments: around(tool.definition, arguments, tool.run)
        )

    return _composed(source, "wrapped(...)", lambda tools: list(map(wrap, tools)))


def _are_texts(names: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in (*names, *names.values()))


def _composed(
    source: ToolSource,
    what: str,
    change: ToolsChange,
    *,
    is_pure: bool = True,
    named: NamedTools | None = None,
) -> CombinedSources:
    toolset = as_toolset(source)
    return CombinedSources(
        (toolset,),
        f"{what} of {toolset_label(toolset)}",
        change,
        is_pure=is_pure,
        named=named,
    )


def external(definitions: Iterable[ToolDefinition], *, id: str = "") -> FunctionToolset:  # noqa: A002
    """Return tools without code: the model's calls end the run, and `Agent.resume` accepts their results.

    `id` identifies the tools, as in `FunctionToolset`.
    """
    kinds = (Iterable, "a list of ToolDefinition")
    expect(
        "external",
        definitions,
        *kinds,
        holds=lambda given: not isinstance(given, str | bytes | Mapping),
    )
    tools: list[Tool] = []
    for item in definitions:
        expect("external", item, ToolDefinition, "ToolDefinition values")
        expect_fields(item, f"external: ToolDefinition {str(item.name)!r:.60}")
        definition = replace(item, original_name=item.original_name or item.name)
        tools.append(Tool(definition, _never, external=True, deferred=False))
    return FunctionToolset(tools, label="external tools", id=id)


async def _never(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text(
        "This tool is run by the caller and cannot be called here.", error="failed"
    )


class DynamicToolset(Toolset):
    """Tools from a factory `factory(context)`, which is called once for each run, or with `per_step` before each
    request.

    The toolset that it returns is entered at once, and exited when the run ends; None means no tools. Outside of a run
    there are no tools.
    """

    def __init__(self, factory: Factory, *, per_step: bool = False) -> None:
        self.label = f"dynamic({getattr(factory, '__name__', 'factory')})"
        self._factory = factory
        self._per_step = per_step
        self._lists: list[tuple[tuple[FunctionLike | Tool, ...], FunctionToolset]] = []
        self._made: dict[str, Toolset | None] = {}

    @property
    def known(self) -> Completeness:
        """`Completeness.NOW` if the factory returned a source for this run, else `Completeness.NOTHING`."""
        run = current_run()
        if run is not None and self._made.get(run.context.run_id) is not None:
            return Completeness.NOW
        return Completeness.NOTHING

    async def tools(self) -> list[Tool]:
        """Return the factory's tools for the current run. Raises `ConfigError` with the error of the factory."""
        context = run_context()
        if not context.run_id:
            return []
        if self._per_step or context.run_id not in self._made:
            self._made[context.run_id] = await self._make(context)
            context.exits.callback(self._made.pop, context.run_id, None)
        toolset = self._made[context.run_id]
        if toolset is not None:
            return (await labelled_tools(toolset))[1]
        return []

    async def _make(self, context: RunContext[Any]) -> Toolset | None:
        try:
            source = await awaited(self._factory(context))
        except Exception as error:
            reason = f"{type(error).__name__}: {safe_line(str(error))}"
            raise ConfigError(
                f"{self.label}: the factory raised {reason}; return None for no tools"
            ) from error
        if source is None:
            return None
        if isinstance(source, list | tuple):
            toolset = self._of_list(source)
        else:
            toolset = as_toolset(source)
        await context.exits.enter_async_context(toolset)
        return toolset

    def _of_list(self, source: Sequence[FunctionLike | Tool]) -> Toolset:
        """Return the cached toolset of the same functions and tools, or a new one."""
        for given, toolset in self._lists:
            if len(given) == len(source) and all(map(is_, given, source)):
                return toolset
        toolset = FunctionToolset(source)
        self._lists = [(tuple(source), toolset), *self._lists[: _MOST_MADE - 1]]
        return toolset


def dynamic(factory: Factory, *, per_step: bool = False) -> DynamicToolset:
    """Return a toolset whose tools `factory(context)`, sync or async, creates for each run, or with `per_step` for each
    request.
    """
    expect_function("dynamic", factory, "context")
    expect("dynamic: per_step", per_step, bool, "True or False")
    return DynamicToolset(factory, per_step=per_step)
