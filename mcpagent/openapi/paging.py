"""Read the pages of a list: by `Link` headers (RFC 8288), or by a cursor that a parameter of the operation accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from mcpagent.openapi.api_documents import origin
from mcpagent.openapi.api_tools import ApiTool
from mcpagent.openapi.http_answers import HttpAnswer

MAX_PAGES = 10
MAX_PAGED_BYTES = 2_000_000
"""Total size from which no further page is requested."""

_LINK = re.compile(
    r'<([^<>]{1,4000})>((?:\s*;\s*[^;,"=]+(?:=\s*(?:"[^"]*"|[^;,"]*))?)*)'
)
_ATTRIBUTE = re.compile(r';\s*([^;,"=\s]+)\s*(?:=\s*(?:"([^"]*)"|([^;,"]*)))?')
_PAGED = re.compile(
    r"page|cursor|offset|start|after|before|token|marker|skip|continuation",
    re.IGNORECASE,
)
_CURSORS = re.compile(r"cursor|token|marker|continuation|after", re.IGNORECASE)
_HOLDERS = (
    "",
    "meta",
    "metadata",
    "pagination",
    "paging",
    "page_info",
    "response_metadata",
    "links",
)


def chooses_page(tool: ApiTool, arguments: Mapping[str, Any]) -> bool:
    """Return whether the call itself names a page, so that only this page is read. A page size does not count."""
    named = [
        one.name
        for one in tool.arguments
        if one.name in arguments and _PAGED.search(one.name)
    ]
    return any(
        not re.search(r"size|per_?page|limit|count", name, re.IGNORECASE)
        for name in named
    )


def next_url(answer: HttpAnswer) -> str:
    """Return the address of the next page from the `Link` header; "" without one at the same origin."""
    for target, attributes in _LINK.findall(answer.headers.get("link", "")[:20_000]):
        if "next" in _relations(attributes):
            url = urljoin(answer.url, str(target))
            if origin(url) == origin(answer.url):
                return url
    return ""


def _relations(attributes: str) -> list[str]:
    """Return the relation types of a link: those of its first `rel` attribute."""
    for name, quoted, plain in _ATTRIBUTE.findall(attributes):
        if name.lower() == "rel":
            return str(quoted or plain).lower().split()
    return []


def next_cursor(tool: ApiTool, value: Any) -> tuple[str, str] | None:
    """Return the argument and the value for the next page if the answer has a cursor with the name of a parameter, or
    None.

    The names match if they are equal, apart from a leading "next": `next_cursor` for `cursor`.
    """
    takes = {
        _plain(one.parameter.name): one.name
        for one in tool.arguments
        if one.parameter is not None
        and one.parameter.position == "query"
        and _CURSORS.search(one.parameter.name)
    }
    if not takes or not isinstance(value, Mapping):
        return None
    for holder in _HOLDERS:
        found = value.get(holder) if holder else value
        if not isinstance(found, Mapping):
            continue
        for key, cursor in found.items():
            name = takes.get(_plain(str(key)).removeprefix("next")) or takes.get(
                _plain(str(key))
            )
            if (
                name
                and "next" in str(key).lower()
                and isinstance(cursor, str)
                and cursor
            ):
                return name, cursor
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def joined_pages(pages: Sequence[Any]) -> Any:
    """Return the pages as one value: their lists, or the lists under the same key of their objects, are concatenated.

    Returns None for pages of another form.
    """
    if all(isinstance(page, list) for page in pages):
        return [item for page in pages for item in page]
    if not all(isinstance(page, dict) for page in pages):
        return None
    lists = [key for key, value in pages[0].items() if isinstance(value, list)]
    if len(lists) != 1 or not all(
        isinstance(page.get(lists[0]), list) for page in pages
    ):
        return None
    return {**pages[-1], lists[0]: [item for page in pages for item in page[lists[0]]]}


def as_answer(last: HttpAnswer, value: Any) -> HttpAnswer:
    """Return the joined pages as one answer, with the last page's status and headers."""
    return HttpAnswer(
        last.status,
        last.headers,
        json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"),
        last.url,
    )
