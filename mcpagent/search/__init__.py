"""Finding the tool that a request needs."""

from mcpagent.search.embedding import EmbeddingsEndpoint
from mcpagent.search.index import ToolIndex
from mcpagent.search.learning import SearchHistory
from mcpagent.search.result import Match, Reason, SearchResult
from mcpagent.search.signature import call_signature, first_sentences

__all__ = [
    "EmbeddingsEndpoint",
    "Match",
    "Reason",
    "SearchHistory",
    "SearchResult",
    "ToolIndex",
    "call_signature",
    "first_sentences",
]
