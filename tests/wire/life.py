"""Lives of a conversation: random sequences of search, add, remove, schema change and loss, as requests in order.

The requests are made as the agent makes them: eager tools, then what the fold over the history says is discovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from mcpagent.history.conversation import fold_discovery
from mcpagent.models.base import ModelRequest
from mcpagent.models.tool_changes_in_history import places_of
from mcpagent.values.messages import (
    Message,
    Origin,
    Part,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    user_message,
)
from tests.wire.scene import SEARCH

Step: TypeAlias = tuple[str, tuple[int, ...]]
"""What happens in one turn, and to which tools, by number."""

KINDS = (
    "search",
    "add",
    "search_loads",
    "call",
    "remove",
    "lose",
    "change",
    "talk",
    "add_and_call",
    "attach",
    "found_elsewhere",
    "withdraw_eager",
    "change_eager",
    "return_eager",
)
EAGER = (90, 91, 92, 99)
"""Tools that are offered from the start; all but the last may be withdrawn, changed, and come back."""


def numbered(number: int, version: int = 0) -> ToolDefinition:
    schema = {"type": "object", "properties": {f"v{version}": {"type": "string"}}}
    return ToolDefinition(f"tool_{number}", f"Tool {number}, version {version}.", schema, server="s")


class Life:
    """One conversation; every step gives the next request."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.messages: list[Message] = [user_message("Start.")]
        self.versions: dict[int, int] = {}
        self.lost: set[int] = set()
        self.withdrawn: set[int] = set()
        self.turn = 0

    def request(self) -> ModelRequest:
        folded = fold_discovery(self.messages)
        names = [name for name in folded.discovered if name not in folded.removed]
        found = (number for name in names if (number := int(name.removeprefix("tool_"))) not in EAGER)
        offered = (*self.eager(), *map(self._definition, found))
        return ModelRequest("You help.", tuple(self.messages), offered)

    def eager(self) -> list[ToolDefinition]:
        return [SEARCH, *(self._definition(number) for number in EAGER if number not in self.withdrawn)]

    def _definition(self, number: int) -> ToolDefinition:
        return numbered(number, self.versions.get(number, 0))

    def _discovered(self, numbers: Sequence[int]) -> tuple[int, ...]:
        folded = fold_discovery(self.messages)
        return tuple(n for n in numbers if f"tool_{n}" in folded.discovered)

    def live(self, step: Step) -> None:
        kind, numbers = step
        numbers = tuple(dict.fromkeys(n for n in numbers if n not in self.lost))
        self.turn += 1
        if kind.endswith("_eager"):
            self._change_eager(kind, {EAGER[n % 3] for n in numbers})
        else:
            self._live(kind, numbers)

    def _live(self, kind: str, numbers: tuple[int, ...]) -> None:
        definitions = tuple(self._definition(n) for n in numbers)
        match kind:
            case "search" | "add" | "search_loads":
                shown = ToolsShown(tuple(tool.name for tool in definitions))
                change = shown if kind == "search" else ToolsChanged(added=definitions)
                self._calls(("search_tools" if kind == "search" else "add_tool", change))
            case "call":
                self._calls(*((tool.name, ToolsChanged(added=(tool,))) for tool in definitions))
            case "add_and_call":
                own = tuple((tool.name, None) for tool in definitions)
                self._calls(("add_tool", ToolsChanged(added=definitions)), *own)
            case "remove":
                self._calls(
                    ("remove_tool", ToolsChanged(removed=tuple(f"tool_{n}" for n in self._discovered(numbers))))
                )
            case "lose":
                gone = self._discovered(numbers)
                self.lost.update(gone)
                self._calls(("search_tools", ToolsChanged(removed=tuple(f"tool_{n}" for n in gone))))
            case "change":
                changed = self._discovered(numbers)
                for number in changed:
                    self.versions[number] = self.versions.get(number, 0) + 1
                current = fold_discovery(self.messages)
                kept = [n for n in changed if f"tool_{n}" not in current.removed]
                self._calls(("search_tools", ToolsChanged(added=tuple(self._definition(n) for n in kept))))
            case "attach":
                self._calls(("search_tools", None))
                last = self.messages[-1]
                self.messages[-1] = replace(last, parts=(ToolsChanged(added=definitions), *last.parts))
            case "found_elsewhere":
                self._found_elsewhere(definitions)
            case _:
                self.messages += [
                    Message("assistant", (Text(f"Answer {self.turn}."),), origin=self.origin),
                    user_message(f"Question {self.turn}?"),
                ]

    def _found_elsewhere(self, definitions: Sequence[ToolDefinition]) -> None:
        """Another provider's search found them, and its model called the first."""
        made = tuple(ToolCall(f"call_{self.turn}_0", tool.name, {}) for tool in definitions[:1])
        parts: tuple[Part, ...] = (Text("Found."), ToolsChanged(added=tuple(definitions)), *made)
        self.messages.append(Message("assistant", parts, origin=Origin("elsewhere")))
        results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in made)
        self.messages.append(Message("tool", results) if results else user_message("Go on."))

    def _change_eager(self, kind: str, numbers: set[int]) -> None:
        here = sorted(numbers & self.withdrawn if kind == "return_eager" else numbers - self.withdrawn)
        parts = [part for message in self.messages for part in message.parts]
        was = places_of([f"tool_{n}" for n in here], self.eager(), parts)
        if kind == "withdraw_eager":
            self.withdrawn.update(here)
            change = ToolsChanged(removed=tuple(f"tool_{n}" for n in here), was=was)
        elif kind == "return_eager":
            self.withdrawn.difference_update(here)
            change = ToolsChanged(added=tuple(map(self._definition, here)))
        else:
            self.versions.update({n: self.versions.get(n, 0) + 1 for n in here})
            change = ToolsChanged(added=tuple(map(self._definition, here)), was=was)
        self._calls(("search_tools", change))

    def _calls(self, *calls: tuple[str, ToolsChanged | ToolsShown | None]) -> None:
        ids = [f"call_{self.turn}_{place}" for place in range(len(calls))]
        made = tuple(ToolCall(call_id, name, {"n": self.turn}) for call_id, (name, _) in zip(ids, calls, strict=True))
        parts: list[ToolResult | ToolsChanged | ToolsShown] = []
        for call_id, (name, change) in zip(ids, calls, strict=True):
            parts.append(ToolResult(call_id, name, (Text(f"Result {self.turn}."),)))
            if change is not None:
                parts.append(change)
        text = Text(f"Turn {self.turn}.")
        self.messages.append(Message("assistant", (text, *made), origin=self.origin))
        self.messages.append(Message("tool", tuple(parts)) if parts else user_message("Go on."))
