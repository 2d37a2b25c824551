"""Convert the tools of a conversation to functions of modules, and describe the importable ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast, get_origin

from mcpagent.code_mode.identifiers import Places
from mcpagent.code_mode.prelude import FUNCTION
from mcpagent.code_mode.stubs import HEADER, Stub, stub_of
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.json_schema.parts import properties_of
from mcpagent.utilities.python.worker_threads import beside_loop
from mcpagent.values.messages import ToolsShown
from mcpagent.values.tools import Tool

_MANY = 1_000


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a function of programs."""

    path: str
    tool: Tool
    stub: Stub


Modules = Mapping[str, Mapping[str, Function]]
"""Functions by module, and by their name in the module."""


def is_wrapped(output_schema: Mapping[str, Any] | None) -> bool:
    """Return whether a server wrapped its result in `{"result": ...}`, because structured content must be an object.

    FastMCP marks such a schema with `x-fastmcp-wrap-result`.
    """
    return bool(output_schema and output_schema.get("x-fastmcp-wrap-result"))


def known_places(session: SessionTools, places: Places) -> Places:
    """Return the import paths of all known tools."""
    places.add_known(session.known)
    return places


async def find_places(session: SessionTools, places: Places) -> None:
    """Assign an import path to all known tools; in a worker thread if there are many."""
    await beside_loop(
        lambda: places.add_known(session.known), is_much=len(session.known) > _MANY
    )


def functions_of(
    session: SessionTools, places: Places, names: Iterable[str]
) -> dict[str, dict[str, Function]]:
    """Return the tools of these offered names as functions; tools that no longer exist are omitted."""
    known_places(session, places)
    taken: dict[str, set[str]] = {}
    found: dict[str, dict[str, Function]] = {}
    for name in names:
        tool = session.known.get(name)
        if tool is None:
            continue
        place = places.by_key[tool.definition.key]
        classes = taken.setdefault(place.module, set(places.functions_in(place.module)))
        stub = _stub(tool, place.function)
        if not classes.isdisjoint(stub.class_names):
            stub = stub_of(
                tool.definition,
                place.function,
                result_schema(tool),
                frozenset(classes),
            )
        classes.update(stub.class_names)
        found.setdefault(place.module, {})[place.function] = Function(
            place.path, tool, stub
        )
    return found


def importable(session: SessionTools) -> list[str]:
    """Return the offered names of the functions that are pinned, discovered, or were shown by a search, in order."""
    discovery = session.conversation.discovery
    names = dict.fromkeys(
        (*session.pinned, *discovery.discovered, *sorted(discovery.shown))
    )
    return [
        name
        for name in names
        if name in session.known
        and name not in discovery.removed
        and session.is_function(session.known[name])
    ]


def shown_functions(
    session: SessionTools, names: Iterable[str]
) -> tuple[ToolsShown, ...]:
    """Return the message part that records functions as shown to the model, which may import them from now on."""
    known = tuple(name for name in names if name in session.known)
    if not known:
        return ()
    keys = tuple(session.known[name].definition.key for name in known)
    return (ToolsShown(known, keys),)


def module_stub(functions: Mapping[str, Function]) -> str:
    """Return the stub of a module for the type checker."""
    return (
        HEADER
        + "\n".join(function.stub.declared for function in functions.values())
        + "\n"
    )


def sandbox_values(modules: Modules) -> dict[str, dict[str, str]]:
    """Return the sandbox's expression for each name of each module: a function that makes the call, or a type."""
    return {
        module: {
            **{
                name: "dict"
                for function in functions.values()
                for name in function.stub.class_names
            },
            **{
                name: f'{FUNCTION}("{function.path}")'
                for name, function in functions.items()
            },
        }
        for module, functions in modules.items()
    }


def _stub(tool: Tool, function: str) -> Stub:
    return _cached_stub(_StubKey(tool, function))


@dataclass(frozen=True, slots=True)
class _StubKey:
    """A cache key that compares tools by identity, because schemas cannot be hashed."""

    tool: Tool
    function: str

    def __hash__(self) -> int:
        return hash((id(self.tool.definition), self.function))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _StubKey)
            and self.function == other.function
            and self.tool.definition is other.tool.definition
            and self.tool.output_schema is other.tool.output_schema
            and self.tool.returns == other.tool.returns
        )


@lru_cache(maxsize=4_096)
def _cached_stub(same: _StubKey) -> Stub:
    return stub_of(same.tool.definition, same.function, result_schema(same.tool))


def result_schema(tool: Tool) -> Mapping[str, Any] | None:
    """Return the schema of the values that programs receive: the server's, or that of a function's return annotation;
    or None.
    """
    schema = tool.output_schema
    if schema is None:
        return _annotated(tool.returns)
    if not is_wrapped(schema):
        return schema
    inner = properties_of(schema).get("result")
    definitions: dict[str, Any] = {
        key: schema[key] for key in ("$defs", "definitions") if key in schema
    }
    if isinstance(inner, dict):
        return {**inner, **definitions}
    return None


def _annotated(returns: object) -> Mapping[str, Any] | None:
    """Return the JSON Schema of a return annotation; None without an annotation that JSON Schema can describe."""
    if returns is None or returns is Any:
        return None
    origin = get_origin(returns)
    if isinstance(origin, type) and issubclass(origin, AsyncIterator | Awaitable):
        return None
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("type[Any]", returns))
        return adapter.json_schema(mode="serialization")
    except (PydanticUserError, NameError, TypeError, ValueError):
        return None
