"""Record the use of tools for learning, if that is enabled: found tools that a run added and called."""

from __future__ import annotations

from mcpagent.history.conversation import Conversation
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, Notice


def note_uses(
    conversation: Conversation, earlier: int, search: ToolSearch, emit: Emit
) -> None:
    """Record the uses of tools in the messages after the first `earlier` ones. A failed write only emits a notice."""
    if search.history is None:
        return
    import sqlite3

    from mcpagent.search.learning import served_queries

    since = sum(len(message.parts) for message in conversation.messages[:earlier])
    try:
        for query, served in served_queries(conversation.parts, since).items():
            search.history.record(query, served.added, served.called)
    except (sqlite3.Error, OSError) as error:
        emit(
            Notice(
                f"tool search: nothing was learned from this answer: {safe_line(str(error), 120)}",
                "warning",
            )
        )
