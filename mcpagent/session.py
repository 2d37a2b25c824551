"""One conversation together with the catalogue it can use, kept in step while servers and toolsets change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from mcpagent.catalog import Catalog
from mcpagent.conversation import Conversation, change_words
from mcpagent.events import Emit, Notice
from mcpagent.messages import ToolsChanged
from mcpagent.models.discovery import places_of
from mcpagent.safe_text import safe_line
from mcpagent.tools import Tool


@dataclass(frozen=True, slots=True)
class ToolsUpdate:
    """How the known tools changed, by offered name; `changed` ones are offered and have another definition."""

    new: tuple[str, ...]
    gone: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(slots=True)
class Session:
    """One conversation and what it can use; `listed` is what the toolsets gave last."""

    conversation: Conversation
    catalog: Catalog
    listed: list[Tool]
    thread_id: str = field(default_factory=lambda: uuid4().hex)

    def update(self, tools: Sequence[Tool], say: Callable[[ToolsUpdate], str]) -> ToolsUpdate:
        """Makes these the known tools, and tells the model in the conversation, by what `say` makes of the difference.

        The history records what is offered, redefined or withdrawn by it, so that a request never rewrites an earlier
        one. An empty text says nothing, unless something must be recorded.
        """
        catalog = self.catalog
        before = {name: tool.definition for name, tool in catalog.known.items()}
        definitions = [tool.definition for tool in catalog.offer(self.conversation.discovery)]
        offered = {tool.name for tool in definitions}
        at_once = catalog.update(tools)
        after = {name: tool.definition for name, tool in catalog.known.items()}
        update = ToolsUpdate(
            new=tuple(name for name in after if name not in before),
            gone=tuple(name for name in before if name not in after),
            changed=tuple(name for name in after if name in offered and before.get(name) not in (None, after[name])),
        )
        added = catalog.definitions([*at_once, *update.changed])
        removed = tuple(name for name in update.gone if name in offered)
        was = places_of((*removed, *update.changed), definitions, self.conversation.parts)
        joined = catalog.joining_provider_search(update.new)
        record = ToolsChanged(added, removed, was, joined) if added or removed or joined else None
        text = say(update)
        if text or record is not None:
            self.conversation.announce(text or change_words(removed, update.changed), record)
        return update

    def learn(self, since: int, emit: Emit) -> None:
        """Notes which found tools were added and called from that part of the conversation on, where that is wanted."""
        history = self.catalog.options.history
        if history is None:
            return
        import sqlite3

        from mcpagent.search.learning import served_queries

        try:
            for query, served in served_queries(self.conversation.parts, since).items():
                history.record(query, served.added, served.called)
        except (sqlite3.Error, OSError) as error:
            emit(Notice(f"tool search: nothing was learned from this answer: {safe_line(str(error), 120)}", "warning"))
