"""The lists of a server as values: its tools, prompts and resources, and the difference of two tool lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcpagent.values.messages import ToolDefinition


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument of a prompt. Its value is a string."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt of a server."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """A resource or, if `is_template`, a URI template (RFC 6570) for many."""

    uri: str
    name: str
    description: str
    media_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class ServerLists:
    """The lists of one server. `ttl_seconds` is its own time to live for the tools; 0: not stated.

    - `unused`: fields of listed items that mcpagent itself does not use, but the gateway passes on: of "tools" and
      "prompts" by name, of "resources" and "resourceTemplates" by URI.
    - `safe_by_hint`: tools, by their own names, that may run twice according to the server.
    - `task_only`: tools whose calls the server always runs as tasks; `task_able`: on request.
    - `output_schemas`: the schemas of results, for tools that declare one.
    """

    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
    ttl_seconds: float = 0.0
    safe_by_hint: tuple[str, ...] = ()
    task_only: tuple[str, ...] = ()
    task_able: tuple[str, ...] = ()
    output_schemas: Mapping[str, dict[str, Any]] = field(
        default_factory=dict[str, dict[str, Any]]
    )
    unused: Mapping[str, Mapping[str, dict[str, Any]]] = field(
        default_factory=dict[str, Mapping[str, dict[str, Any]]]
    )


@dataclass(frozen=True, slots=True)
class ToolsDifference:
    """The changes of a server's tools, by their own names; `changed` tools have a new definition."""

    server: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {what} ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
            for what, names in (
                ("added", self.added),
                ("removed", self.removed),
                ("changed", self.changed),
            )
            if names
        ]
        return f'server "{self.server}" changed its tools: {"; ".join(parts)}'


def difference(
    server: str, before: Sequence[ToolDefinition], after: Sequence[ToolDefinition]
) -> ToolsDifference:
    """Return the difference of two states of a server's tools, in the order of the lists."""
    old = {tool.original_name: tool for tool in before}
    new = {tool.original_name: tool for tool in after}
    return ToolsDifference(
        server,
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(
            name for name, tool in new.items() if name in old and old[name] != tool
        ),
    )
