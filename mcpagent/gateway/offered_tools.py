"""The tools, prompts and resources of servers as the gateway lists them: full definitions under unique names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.mcp.lists.server_lists import ServerLists
from mcpagent.mcp.lists.shown_tools import ShownTool
from mcpagent.mcp.server_link import ServerLink
from mcpagent.tool_search.unique_names import legal_name, offered_names
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.json_texts import with_texts
from mcpagent.values.approval import Rule
from mcpagent.values.messages import ToolDefinition, ToolKey
from mcpagent.values.tools import ALL_CALLERS, Tool, ToolCaller

Access: TypeAlias = Literal["read", "write", "destructive"]
"""The possible effect of a call, by the tool's annotations; without annotations it is destructive, by the
specification.
"""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool of a server under its name in the gateway.

    `listed` is its definition in the server's list, `shown` the one for models, `wire` the one for clients. `withheld`
    is the change since the first use that needs consent, or None. `allowed_callers` apply in code mode.
    """

    name: str
    server: str
    listed: ToolDefinition
    shown: ToolDefinition
    wire: dict[str, Any]
    access: Access
    rules: tuple[Rule, ...] = ()
    is_pinned: bool = False
    withheld: ToolChange | None = None
    allowed_callers: tuple[ToolCaller, ...] = ALL_CALLERS

    @property
    def definition(self) -> ToolDefinition:
        """The definition under the offered name, for the search."""
        return replace(self.shown, name=self.name)

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a client's arguments with the server's own spelling of names and values."""
        return ShownTool.of(self.listed).arguments(given)


def offered_tools(
    links: Iterable[ServerLink], pinned: Iterable[str] = (), *, is_prefixed: bool = True
) -> dict[str, OfferedTool]:
    """Return the enabled tools of servers by offered name, `server__tool` if `is_prefixed`."""
    links = tuple(links)
    listed = {
        link.config.name: {tool.original_name: tool for tool in link.lists.tools}
        for link in links
    }
    enabled = {
        ToolKey(link.config.name, tool.definition.original_name): (link, tool)
        for link in links
        for tool in link.bound_tools()
    }
    names, patterns = client_names(enabled, is_prefixed=is_prefixed), tuple(pinned)
    return {
        names[key]: _offered(
            names[key], link, tool, listed[link.config.name][key.name], patterns
        )
        for key, (link, tool) in enabled.items()
    }


def _offered(
    name: str,
    link: ServerLink,
    tool: Tool,
    listed: ToolDefinition,
    pinned: tuple[str, ...],
) -> OfferedTool:
    rest = with_texts(_rest_of(link.lists, listed), for_model)
    return OfferedTool(
        name,
        link.config.name,
        listed=listed,
        shown=tool.definition,
        wire=_wire(name, listed, tool.definition, link.lists) | rest,
        access=access_of(rest.get("annotations")),
        rules=tool.rules,
        is_pinned=_is_pinned(listed, link.config, pinned),
        withheld=link.known_change(listed),
        allowed_callers=tool.allowed_callers,
    )


def client_names(
    keys: Iterable[ToolKey], *, is_prefixed: bool
) -> Mapping[ToolKey, str]:
    """Return `server__name` for each item of a server; with a hash if that name is not unique or not legal.

    If not `is_prefixed`, an item with a unique own name keeps that name.
    """
    if not is_prefixed:
        return offered_names({key: key.name for key in keys})
    return offered_names({key: legal_name(f"{key.source}__{key.name}") for key in keys})


def access_of(annotations: Any) -> Access:
    """Return the possible effect of a tool with these annotations."""
    hints = annotations if isinstance(annotations, Mapping) else {}
    if hints.get("readOnlyHint") is True:
        return "read"
    if hints.get("destructiveHint") is False:
        return "write"
    return "destructive"


def _is_pinned(
    tool: ToolDefinition, config: ServerConfig, patterns: tuple[str, ...]
) -> bool:
    own = any(fits(tool.original_name, glob) for glob in config.always_load)
    named = f"{config.name}.{tool.original_name}"
    return own or any(fits(named, pattern) for pattern in patterns)


def _rest_of(lists: ServerLists, tool: ToolDefinition) -> dict[str, Any]:
    rest = dict(lists.unused.get("tools", {}).get(tool.original_name, {}))
    # The gateway itself waits for tasks of servers, so clients need not know about them.
    rest.pop("execution", None)
    return rest


def _wire(
    name: str, listed: ToolDefinition, shown: ToolDefinition, lists: ServerLists
) -> dict[str, Any]:
    """Return a definition for clients; unlike the definition for mcpagent's models, its description is not
    shortened.
    """
    wire: dict[str, Any] = {"name": name, "description": for_model(listed.description)}
    wire["inputSchema"] = shown.parameters
    output = lists.output_schemas.get(listed.original_name)
    if output is not None:
        wire["outputSchema"] = output
    return wire


def listed_prompts(
    links: Iterable[ServerLink], *, is_prefixed: bool = True
) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the prompts of servers by offered name, each with its server and its item in the server's list."""
    found = {
        ToolKey(link.config.name, str(name)): item
        for link in links
        for name, item in link.lists.unused.get("prompts", {}).items()
    }
    names = client_names(found, is_prefixed=is_prefixed)
    return {
        names[key]: (str(key.source), with_texts(item, for_model))
        for key, item in found.items()
    }


def listed_resources(
    links: Iterable[ServerLink], kind: Literal["resources", "resourceTemplates"]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the server and the list item of each resource or template."""
    for link in links:
        for item in link.lists.unused.get(kind, {}).values():
            yield link.config.name, with_texts(item, for_model)
