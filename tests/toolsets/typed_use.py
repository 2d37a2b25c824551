"""Toolsets as a user's strictly typed code has them. mypy reads this file; a line that must not fit says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from mcpagent import (
    Agent,
    FunctionToolset,
    McpServer,
    RunContext,
    Tool,
    ToolDefinition,
    ToolOutput,
    ToolReturn,
    function_tool,
)
from mcpagent.models.scripted import ScriptedModel
from mcpagent.toolsets.composition import (
    CombinedSources,
    ToolSource,
    approval_required,
    combined,
    deferred,
    dynamic,
    external,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)
from mcpagent.values.tools import Run, Toolset


@dataclass(frozen=True)
class User:
    name: str
    is_admin: bool


def add(a: int, b: int) -> int:
    return a + b


async def fetch(url: str) -> str:
    return url


def greet(context: RunContext[User], word: str = "Hello") -> str:
    return f"{word}, {context.deps.name}"


def rows() -> Iterator[dict[str, int]]:
    yield {"a": 1}


class Notes:
    """A toolset of one's own; it names no base class and no exception types."""

    async def tools(self) -> list[Tool]:
        return [function_tool(add)]

    async def __aenter__(self) -> Notes:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Short:
    """The same in fewer words."""

    label = "short"

    async def tools(self) -> list[Tool]:
        return []

    async def __aenter__(self) -> Short:
        return self

    async def __aexit__(self, *error: object) -> bool:
        return False


class NoToolset:
    """Lists no tools."""

    async def tools(self) -> list[str]:
        return []


FILES = McpServer("files", command="npx", args=["-y", "files"], defer_loading=["read"])

by_hand: list[ToolSource] = [
    FILES,
    Notes(),
    Short(),
    FunctionToolset([add, fetch]),
    FunctionToolset([add, function_tool(fetch)]),
    [add, fetch, greet, rows],
    (add, fetch),
    [function_tool(add), fetch],
    prefixed([add], "math"),
]
functions: list[Callable[..., Any]] = [add, fetch]
plain_functions = [add, fetch]
only_add = [add]
servers = [FILES, McpServer("time", url="http://127.0.0.1/mcp")]
own: Toolset = Notes()


def is_allowed(context: RunContext[User], definition: ToolDefinition) -> bool:
    return context.deps.is_admin or definition.read_only is True


async def is_allowed_later(context: RunContext[User], definition: ToolDefinition) -> bool:
    return is_allowed(context, definition)


def shorter(context: RunContext[User], definitions: list[ToolDefinition]) -> list[ToolDefinition]:
    return [replace(item, description=item.description[:80]) for item in definitions]


async def shorter_later(context: RunContext[User], definitions: list[ToolDefinition]) -> Sequence[ToolDefinition]:
    return tuple(definitions)


def is_dangerous(context: RunContext[User], definition: ToolDefinition, arguments: dict[str, Any]) -> bool:
    return "path" in arguments


async def logged(definition: ToolDefinition, arguments: dict[str, Any], run: Run) -> ToolOutput:
    return await run(arguments)


def tools_of(context: RunContext[User]) -> list[Callable[..., Any]] | None:
    return [add] if context.deps.is_admin else None


def server_of(context: RunContext[User]) -> McpServer:
    return McpServer(context.deps.name, command="npx")


async def toolset_of(context: RunContext[User]) -> Notes:
    return Notes()


composed: list[CombinedSources] = [
    combined(*by_hand),
    combined(*servers),
    combined(functions, plain_functions, only_add, own),
    combined(FunctionToolset(plain_functions), FunctionToolset(functions)),
    prefixed(FILES, "fs"),
    renamed(Notes(), {"plus": "add"}),
    filtered([add], is_allowed),
    filtered(FILES, is_allowed_later),
    filtered([add], lambda context, definition: definition.name != "add"),
    prepared(plain_functions, shorter),
    prepared(Short(), shorter_later),
    deferred(FILES),
    deferred([add], {"add"}),
    deferred([add], False),
    approval_required([add]),
    approval_required([add], is_dangerous),
    wrapped([add], logged),
    prefixed(dynamic(tools_of), "user"),
    prefixed(dynamic(server_of, per_step=True), "user"),
    prefixed(dynamic(toolset_of), "user"),
    prefixed(dynamic(lambda context: only_add), "user"),
    prefixed(dynamic(lambda context: None), "user"),
    combined(external([ToolDefinition("pick", "", {})])),
]

agent = Agent(ScriptedModel([]), tools=[*composed, *by_hand, external([])])
from_lists = Agent(ScriptedModel([]), tools=servers)
from_composed = Agent(ScriptedModel([]), tools=composed)
from_own = Agent(ScriptedModel([]), tools=[Notes(), Short()])


@agent.tool
def subtract(a: int, b: int) -> int:
    return a - b


@agent.tool(approval=is_dangerous, defer_loading=True)
async def delete(path: str) -> ToolReturn:
    return ToolReturn(path, state={"files": {"deleted": path}})


difference: int = subtract(2, 1)
deleted: Awaitable[ToolReturn] = delete("a")

prefixed(NoToolset(), "x")  # type: ignore[arg-type]
prefixed(add, "x")  # type: ignore[arg-type]
combined([1, 2])  # type: ignore[list-item]
deferred([add], 3)  # type: ignore[arg-type]
filtered([add], lambda definition: True)  # type: ignore[arg-type, misc]
renamed([add], ["plus"])  # type: ignore[arg-type]
wrapped([add], add)  # type: ignore[arg-type]
dynamic(add)  # type: ignore[arg-type]
subtract("2", 1)  # type: ignore[arg-type]
