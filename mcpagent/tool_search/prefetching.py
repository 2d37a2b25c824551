"""Search with the user's words before the first request, and load the found tools with the prompt.

This saves a search and an add. The tools are added like tools that join later, after the existing conversation, so that
its cached prefix stays valid.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mcpagent.search.query import MAX_QUERY
from mcpagent.tool_search.search_tools import rendered
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.events import Event, ToolsLoaded, ToolsSearched
from mcpagent.values.messages import ToolsChanged, ToolsShown

if TYPE_CHECKING:
    from mcpagent.search import Match, SearchResult

LEAST_STRENGTH = 0.05
"""Minimum odds of weak matches that are loaded if weak ones are wanted; below it, a joke or a poem would load tools."""


_SIMILAR = 0.8
"""Minimum score of a trusted tool, as a share of an untrusted tool's score, for the trusted one to come first."""

_BESIDE = 4
"""Number of further matches that are examined for trusted tools of a similar score."""


async def prefetch(
    session: SessionTools, prompt: str, *, weak_too: bool = False
) -> tuple[Event, ...]:
    """Search with the prompt's words and load the best tools; return the events. A weak match is loaded only with
    `weak_too`.

    At most `ToolSearch.prefetch` tools are loaded; none if the model's provider searches. If a model cannot receive
    tools between two turns, the tools are shown to it as after a search, which saves the search.
    """
    if not session.prefetches or not prompt.strip():
        return ()
    started = time.monotonic()
    result, new = await _found(session, prompt, weak_too=weak_too)
    if not new:
        return ()
    names = tuple(match.tool.name for match in new)
    seconds = time.monotonic() - started
    searched = ToolsSearched(
        (result.searched or prompt)[:MAX_QUERY],
        result.found,
        result.names,
        len(session.known),
        seconds,
    )
    if session.may_join:
        said = f"Loaded for what is asked next: {', '.join(names)}. If none of these does it, search for others."
        session.conversation.announce(
            said, ToolsChanged(added=session.definitions(names))
        )
        return searched, ToolsLoaded(names, session.tokens(names))
    shown = json.dumps(
        [rendered(match, session, loaded=False) for match in new], ensure_ascii=False
    )
    said = f"Found for what is asked next: {shown}. {session.how_to_load(names[0])} If none does it, search for others."
    session.conversation.announce(
        said, ToolsShown(names, tuple(match.tool.key for match in new))
    )
    return (searched,)


async def _found(
    session: SessionTools, prompt: str, *, weak_too: bool
) -> tuple[SearchResult, Sequence[Match]]:
    """Return the search result, and the matching tools that the model does not have yet.

    A prompt with too few words is searched together with the previous one, unless it continues with a tool that is
    already offered.
    """
    result = await _searched(session, prompt)
    if not _is_sure(result) and (
        before := session.conversation.answered_prompt.strip()
    ):
        result = await _searched(session, f"{before[: MAX_QUERY // 2]}\n{prompt}")
        if not result.matches or not _is_new(result.matches[0], session):
            return result, ()
    is_taken = _is_sure(result) or (
        weak_too
        and result.how not in ("regex", "closest")
        and result.strength >= LEAST_STRENGTH
    )
    fitting = [
        match
        for match in result.matches
        if match.odds != "weak" or result.confidence == "low"
    ]
    new = []
    if is_taken:
        new = [match for match in fitting if _is_new(match, session)]
    return result, new[: len(session.fitting([match.tool.name for match in new]))]


async def _searched(session: SessionTools, prompt: str) -> SearchResult:
    """Search for the prompt; a trusted tool comes before an untrusted one of similar score.

    The user's own functions are trusted, and servers that the configuration marks as trusted.
    """
    limit, trusted = session.prefetches, {*session.listing.trusted, None}
    is_mixed = any(tool.definition.server in trusted for tool in session.known.values())
    if not is_mixed:
        return await session.search(prompt, limit, is_prompt=True)

    def worth(match: Match) -> float:
        if match.tool.server in trusted:
            return match.score
        return match.score * _SIMILAR

    looked_at = limit + _BESIDE
    while True:
        result = await session.search(prompt, looked_at, is_prompt=True)
        ordered = sorted(result.matches, key=worth, reverse=True)[:limit]
        if len(result.matches) < looked_at or result.matches[-1].score <= worth(
            ordered[-1]
        ):
            # Further results have lower scores, so no trusted tool among them can come first.
            return replace(result, matches=tuple(ordered))
        looked_at *= 4


def _is_new(match: Match, session: SessionTools) -> bool:
    name = match.tool.name
    shown = session.conversation.discovery.shown if not session.may_join else ()
    return name in session.known and not session.is_offered(name) and name not in shown


def _is_sure(result: SearchResult) -> bool:
    """Return whether the best match is more likely right than wrong."""
    return bool(result.matches) and result.is_likely
