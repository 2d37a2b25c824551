"""Find the tools that a request needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.search.index import ToolIndex
    from mcpagent.search.learning import SearchHistory
    from mcpagent.search.result import Match, Reason, SearchResult
    from mcpagent.search.semantic.embedding import EmbeddingsEndpoint
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

__getattr__, __dir__ = late_names(
    __name__,
    {
        "semantic.embedding": ("EmbeddingsEndpoint",),
        "index": ("ToolIndex",),
        "learning": ("SearchHistory",),
        "result": ("Match", "Reason", "SearchResult"),
        "signature": ("call_signature", "first_sentences"),
    },
)
