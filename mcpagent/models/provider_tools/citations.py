"""Read the sources that an answer cites, in the format of each API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcpagent.values.messages import Citation

MAX_CITED = 1_000
"""Maximum length of the cited text in a `Citation`; the provider gets its own data back in full."""


def citations_of(listed: object) -> tuple[Citation, ...]:
    """Return the citations in Anthropic's `citations`, or in OpenAI's `annotations`, in order."""
    return tuple(_read(listed))


def _read(listed: object) -> Iterator[Citation]:
    for one in listed if isinstance(listed, list) else ():
        if not isinstance(one, Mapping):
            continue
        nested = one.get("url_citation")  # the form of Chat Completions
        about: Mapping[str, Any] = nested if isinstance(nested, Mapping) else one
        url = _first(about, "url", "source")
        title = _first(about, "title", "document_title", "filename", "file_id")
        if url or title:
            yield Citation(
                url, title, _first(about, "cited_text", "content")[:MAX_CITED]
            )


def _first(about: Mapping[str, Any], *names: str) -> str:
    return next(
        (
            value
            for name in names
            if isinstance(value := about.get(name), str) and value
        ),
        "",
    )
