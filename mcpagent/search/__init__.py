"""Finding the tool that a request needs."""

from mcpagent.search.index import ToolIndex
from mcpagent.search.result import Match, Reason, SearchResult

__all__ = ["Match", "Reason", "SearchResult", "ToolIndex"]
