"""Describe how requests to an endpoint contain found tools, and the cost that decides it."""

from __future__ import annotations

from mcpagent.models.capabilities import Discovery


def words_for_discovery(
    discovery: Discovery, tokens: int, cached_share: float | None
) -> str:
    """Return how requests contain found tools and why, in one line for a person.

    Args:
        discovery: The way in which the endpoint receives found tools.
        tokens: The size of the last request.
        cached_share: The price of a cached token as a share of an uncached one; None if unknown.
    """
    if discovery in ("references", "additional_tools"):
        return (
            "found tools join where they were found; the cached beginning stays whole"
        )
    if discovery == "append":
        return "found tools join at the beginning, and what follows is read again"
    way = "found tools are called through call_tool"
    if discovery == "batches":
        way = "after two searches, found tools are called through call_tool"
    if cached_share is None:
        return f"{way}: as tools, each search would have {tokens:,} tokens read again"
    cost = round(tokens * (1 - cached_share))
    return f"{way}: as tools, each search would cost as much as {cost:,} tokens more"
