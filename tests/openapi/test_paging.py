"""The next page that a `Link` header names; the header is third-party text."""

from __future__ import annotations

import time

import httpx2

from mcpagent.openapi.http_answers import HttpAnswer
from mcpagent.openapi.paging import next_url
from tests.speed import within
from tests.tables import each_row

HERE = "https://api.example/things"
NEXT = "https://api.example/things?page=2"


def found(link: str) -> str:
    return next_url(HttpAnswer(200, httpx2.Headers({"link": link}), b"", HERE))


@each_row(
    "link, url",
    [
        (f"<{NEXT}>; rel=next", NEXT),
        (f'<{NEXT}>; title="a, b; c"; REL = "last NEXT"', NEXT),
        ('<https://api.example/x>; rel=prev, <?page=2>; a; rel="next"', NEXT),
        (f"<{NEXT}>; rel=prev; rel=next", ""),
        (f'<{NEXT}>; title="; rel=next"', ""),
        (f"<{NEXT}>; rel=prev-next", ""),
        (f"<{NEXT}>; norel=next", ""),
        ("<https://two.example/things>; rel=next", ""),
    ],
)
def test_the_first_relation_of_a_link_decides(link: str, url: str) -> None:
    assert found(link) == url


@each_row(
    "link",
    [
        f"<{NEXT}>; a=" + "rel=" * 4_900,
        f"<{NEXT}>" + "; rel=a" * 2_800,
        f"<{NEXT}>;" + " " * 19_000 + '"',
        "<a>; " * 4_000,
        "<" * 20_000,
    ],
)
def test_a_hostile_header_costs_little(link: str) -> None:
    started = time.thread_time()
    assert found(link) == ""
    assert within(time.thread_time() - started, 0.1)
