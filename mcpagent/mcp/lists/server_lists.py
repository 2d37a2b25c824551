"""What a server offers, as values: its tools, prompts and resources, and how two states of its tools differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcpagent.messages import ToolDefinition


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt, which has a string for a value."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """One prompt of a server."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One resource or, if `is_template`, a URI template (RFC 6570) for many."""

    uri: str
    name: str
    description: str
    media_type: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class ServerLists:
    """All that one server lists. `ttl_seconds` is how long the server says the tools stay as they are; 0: not said.

    `safe_by_hint` are the tools, by their own names, of which the server says that they may run twice; `task_only` and
    `task_able` those whose calls it runs as tasks, always or if asked to. `output_schemas` are what it promises of the
    results of those that it promises something of.
    """

    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[PromptInfo, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()
    ttl_seconds: float = 0.0
    safe_by_hint: tuple[str, ...] = ()
    task_only: tuple[str, ...] = ()
    task_able: tuple[str, ...] = ()
    output_schemas: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class ToolsDifference:
    """How a server's tools changed, by their own names; `changed` ones have another schema or description."""

    server: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        parts = [
            f"{len(names)} {what} ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})"
            for what, names in (("added", self.added), ("removed", self.removed), ("changed", self.changed))
            if names
        ]
        return f'server "{self.server}" changed its tools: {"; ".join(parts)}'


def difference(server: str, before: Sequence[ToolDefinition], after: Sequence[ToolDefinition]) -> ToolsDifference:
    """What to say about two states of a server's tools, in the order of the lists."""
    old = {tool.original_name: tool for tool in before}
    new = {tool.original_name: tool for tool in after}
    return ToolsDifference(
        server,
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(name for name, tool in new.items() if name in old and old[name] != tool),
    )
