"""Toolsets made of toolsets: each operation of `tool_algebra`, applied whenever the inner ones are listed.

What the operations take as a toolset may also be an `McpServer`, or a list of functions and tools. All give a
`Composed`, which enters what it is made of in order and leaves it in reverse.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeAlias

from mcpagent import tool_algebra
from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.messages import ToolDefinition
from mcpagent.names import ToolKey
from mcpagent.run_context import RunContext, run_context
from mcpagent.safe_text import safe_line
from mcpagent.tool_algebra import ApprovalPredicate, Around, awaited
from mcpagent.tools import Tool, ToolOutput, Toolset
from mcpagent.toolsets.function import FunctionToolset

logger = logging.getLogger("mcpagent")

ToolSource: TypeAlias = Toolset | ServerConfig | Sequence[Callable[..., Any] | Tool]
"""What can be composed: a toolset, an `McpServer`, or a list of functions and tools."""

Change: TypeAlias = Callable[[list[Tool]], Awaitable[list[Tool]]]
Filter: TypeAlias = Callable[[RunContext[Any], ToolDefinition], "bool | Awaitable[bool]"]
Prepare: TypeAlias = Callable[
    [RunContext[Any], list[ToolDefinition]], "Sequence[ToolDefinition] | Awaitable[Sequence[ToolDefinition]]"
]
Factory: TypeAlias = Callable[[RunContext[Any]], "ToolSource | Awaitable[ToolSource | None] | None"]


class Composed:
    """Sources listed together, their tools changed by `change`; `label` names it in errors.

    A change that looks at nothing but the tools (`is_pure`) is made again only when they differ: toolsets are listed
    before each request, and unchanged values make that free. One object may serve many agents at once: it is entered
    with the first and left with the last of them.
    """

    def __init__(
        self, sources: Sequence[ToolSource], label: str, change: Change | None = None, *, is_pure: bool = True
    ) -> None:
        self.label = label
        self._sources = tuple(as_toolset(source) for source in sources)
        self._change = change
        self._is_pure = is_pure
        self._last: tuple[list[Tool], list[Tool]] | None = None
        self._users = 0
        self._opening = asyncio.Lock()
        self._exits = AsyncExitStack()

    async def tools(self) -> list[Tool]:
        lists = [(label_of(source), await source.tools()) for source in self._sources]
        tools = tool_algebra.combined(lists)
        if self._change is None:
            return tools
        if not self._is_pure:
            return await self._change(tools)
        if self._last is None or self._last[0] != tools:
            self._last = (tools, await self._change(tools))
        return list(self._last[1])

    async def __aenter__(self) -> Composed:
        async with self._opening:
            if self._users == 0:
                async with AsyncExitStack() as exits:
                    for source in self._sources:
                        await exits.enter_async_context(source)
                    self._exits = exits.pop_all()
            self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._opening:
            self._users -= 1
            if self._users == 0:
                await self._exits.aclose()


def as_toolset(source: ToolSource) -> Toolset:
    """The source as a toolset; raises `ConfigError` for what is none."""
    if isinstance(source, ServerConfig):
        from mcpagent.mcp.toolset import McpToolset

        server = source

        async def change(tools: list[Tool]) -> list[Tool]:
            return tool_algebra.deferred_as_configured(tools, server)

        return Composed((McpToolset(server),), f'server "{server.name}"', change)
    if isinstance(source, list | tuple):
        return FunctionToolset(source)
    if not hasattr(source, "tools") or not hasattr(source, "__aenter__"):
        raise ConfigError(
            f"toolsets: expected toolsets, McpServer values or lists of functions, got {type(source).__name__}"
        )
    return source  # type: ignore[return-value]  # the protocol was checked


def label_of(toolset: object) -> str:
    """The toolset in an error line."""
    config = getattr(toolset, "config", None)
    if isinstance(config, ServerConfig):
        return f'server "{config.name}"'
    return str(getattr(toolset, "label", type(toolset).__name__))


def combined(*sources: ToolSource) -> Composed:
    """The tools of all, in the order given; a name that two of them have is an error that names both."""
    return Composed(sources, "combined(...)")


def prefixed(source: ToolSource, prefix: str) -> Composed:
    """Each tool as `prefix_name`."""

    async def change(tools: list[Tool]) -> list[Tool]:
        return tool_algebra.prefixed(tools, prefix)

    return _composed(source, f'prefixed("{prefix}")', change)


def renamed(source: ToolSource, names: Mapping[str, str]) -> Composed:
    """Tools under new names, given as new name -> old name; the others stay. An unknown old name is warned of once."""
    warned: set[str] = set()

    async def change(tools: list[Tool]) -> list[Tool]:
        for name in tool_algebra.unknown_names(tools, names.values()):
            if name not in warned:
                warned.add(name)
                logger.warning('renamed: no tool "%s"; known: %s', name, tool_algebra.listed([t.name for t in tools]))
        return tool_algebra.renamed(tools, names)

    return _composed(source, "renamed(...)", change)


def filtered(source: ToolSource, predicate: Filter) -> Composed:
    """The tools for which `predicate(context, definition)`, sync or async, holds.

    It is asked before each request to the model and again at each call. What it raises hides the tool.
    """
    warned: set[str] = set()
    guards: dict[ToolKey, tuple[Tool, Tool]] = {}

    async def allowed(definition: ToolDefinition) -> bool:
        try:
            return bool(await awaited(predicate(run_context(), definition)))
        except Exception as error:  # noqa: BLE001 - the user's code; a filter that fails must not let through
            if definition.name not in warned:
                warned.add(definition.name)
                logger.warning('filtered: "%s" is hidden: %s: %s', definition.name, type(error).__name__, error)
            return False

    async def change(tools: list[Tool]) -> list[Tool]:
        kept = [tool for tool in tools if await allowed(tool.definition)]
        for tool in kept:
            key = tool_algebra.key_of(tool)
            if key not in guards or guards[key][0] is not tool:
                [guard] = tool_algebra.guarded([tool], allowed)
                guards[key] = (tool, guard)
        return [guards[tool_algebra.key_of(tool)][1] for tool in kept]

    return _composed(source, "filtered(...)", change, is_pure=False)


def prepared(source: ToolSource, prepare: Prepare) -> Composed:
    """Tools whose definitions `prepare(context, definitions)` changes or drops before each request; it adds none."""

    async def change(tools: list[Tool]) -> list[Tool]:
        definitions = await awaited(prepare(run_context(), [tool.definition for tool in tools]))
        return tool_algebra.redefined(tools, definitions)

    return _composed(source, "prepared(...)", change, is_pure=False)


def approval_required(source: ToolSource, predicate: ApprovalPredicate | None = None) -> Composed:
    """Tools whose calls need approval: all, or those where `predicate(context, definition, arguments)` holds."""

    async def change(tools: list[Tool]) -> list[Tool]:
        return tool_algebra.approval_required(tools, predicate)

    return _composed(source, "approval_required(...)", change)


def deferred(source: ToolSource, names: bool | Collection[str] = True) -> Composed:
    """Tools that are hidden until the model has found them: all of them, or those named and no other."""

    async def change(tools: list[Tool]) -> list[Tool]:
        return tool_algebra.deferred(tools, names, where=f"deferred(...) of {label_of(as_toolset(source))}")

    return _composed(source, "deferred(...)", change)


def wrapped(source: ToolSource, around: Around) -> Composed:
    """Tools whose calls go through `await around(definition, arguments, run)`, which calls `await run(arguments)`."""

    async def change(tools: list[Tool]) -> list[Tool]:
        return tool_algebra.wrapped(tools, around)

    return _composed(source, "wrapped(...)", change)


def _composed(source: ToolSource, what: str, change: Change, *, is_pure: bool = True) -> Composed:
    toolset = as_toolset(source)
    return Composed((toolset,), f"{what} of {label_of(toolset)}", change, is_pure=is_pure)


class ExternalToolset:
    """Tools that the caller runs: the model's calls end the run, and `Agent.resume` takes their results."""

    def __init__(self, definitions: Iterable[ToolDefinition], *, label: str = "external tools") -> None:
        self.label = label
        self._tools = [
            Tool(replace(item, original_name=item.original_name or item.name), _never, external=True, deferred=False)
            for item in definitions
        ]

    async def tools(self) -> list[Tool]:
        return self._tools

    async def __aenter__(self) -> ExternalToolset:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def external(definitions: Iterable[ToolDefinition]) -> ExternalToolset:
    """Tools that are known by definition only and answered by the caller."""
    return ExternalToolset(definitions)


async def _never(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("This tool is run by the caller and cannot be called here.", error="failed")


class DynamicToolset:
    """Tools from a factory `factory(context)`, asked once per run, or before each request where `per_step`.

    What it gives is entered then, and left when the run ends; None means no tools. Between runs there are none.
    """

    def __init__(self, factory: Factory, *, per_step: bool = False, label: str = "") -> None:
        self.label = label or f"dynamic({getattr(factory, '__name__', 'factory')})"
        self._factory = factory
        self._per_step = per_step
        self._made: dict[str, Toolset | None] = {}

    async def tools(self) -> list[Tool]:
        context = run_context()
        if not context.run_id:
            return []
        if self._per_step or context.run_id not in self._made:
            self._made[context.run_id] = await self._make(context)
            context.exits.callback(self._made.pop, context.run_id, None)
        toolset = self._made[context.run_id]
        return await toolset.tools() if toolset is not None else []

    async def _make(self, context: RunContext[Any]) -> Toolset | None:
        try:
            source = await awaited(self._factory(context))
        except Exception as error:
            reason = f"{type(error).__name__}: {safe_line(str(error))}"
            raise ConfigError(f"{self.label}: the factory raised {reason}; return None for no tools") from error
        if source is None:
            return None
        toolset = as_toolset(source)
        await context.exits.enter_async_context(toolset)
        return toolset

    async def __aenter__(self) -> DynamicToolset:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def dynamic(factory: Factory, *, per_step: bool = False) -> DynamicToolset:
    """Tools made for each run (or each request) by `factory(context)`, sync or async."""
    return DynamicToolset(factory, per_step=per_step)
