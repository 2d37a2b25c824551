"""Cache markers in a Chat Completions body, for Claude behind a gateway, which caches nothing without them.

OpenRouter and LiteLLM accept `cache_control` on a text block of any message (their docs, prompt caching). Anthropic
looks for a cached prefix at most 20 blocks before a marker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LOOKBACK_MESSAGES = 18
"""Maximum number of messages since the previous request without an additional cache marker."""

_ASKING = ("user", "tool")


def with_markers(body: Mapping[str, Any], marker: Mapping[str, str]) -> dict[str, Any]:
    """Return the body with markers on the system prompt, on the last message, and at the end of the previous request.

    The user's last message is marked too: OpenRouter may overlook markers in results (earendil-works/pi#584).
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return dict(body)
    marked = list(messages)
    for place in _places(messages):
        marked[place] = _marked(messages[place], marker)
    return {**body, "messages": marked}


def _places(messages: Sequence[Any]) -> list[int]:
    roles = [
        message.get("role") if isinstance(message, Mapping) else ""
        for message in messages
    ]
    places = [place for place, role in enumerate(roles) if role == "system"][:1]
    asking = [place for place, role in enumerate(roles) if role in _ASKING]
    users = [place for place, role in enumerate(roles) if role == "user"]
    places += sorted({*users[-1:], *asking[-1:]})
    answers = [place for place, role in enumerate(roles) if role == "assistant"]
    before = [place for place in asking if answers and place < answers[-1]]
    if before and len(messages) - before[-1] > LOOKBACK_MESSAGES:
        places.append(before[-1])
    return places


def _marked(message: Any, marker: Mapping[str, str]) -> Any:
    """Return the message with its last text block marked; unchanged if it has no text block."""
    content = None
    if isinstance(message, Mapping):
        content = message.get("content")
    if isinstance(content, str):
        return {
            **message,
            "content": [
                {"type": "text", "text": content, "cache_control": dict(marker)}
            ],
        }
    if not isinstance(content, list):
        return message
    texts = [
        place
        for place, piece in enumerate(content)
        if isinstance(piece, Mapping) and piece.get("type") == "text"
    ]
    if not texts or any(
        "cache_control" in piece for piece in content if isinstance(piece, Mapping)
    ):
        return message
    pieces = list(content)
    pieces[texts[-1]] = {**pieces[texts[-1]], "cache_control": dict(marker)}
    return {**message, "content": pieces}
