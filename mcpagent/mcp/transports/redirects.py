"""Follow redirects of remote servers that change only the path, a limited number of times."""

from __future__ import annotations

import httpx2

MOST_REDIRECTS = 5
KEEPING_METHOD = frozenset({307, 308})
"""Redirect statuses with which the method stays POST."""


async def sent_within_origin(
    network: httpx2.AsyncBaseTransport, request: httpx2.Request
) -> httpx2.Response:
    """Send a request, and follow up to five redirects that keep its method and origin."""
    url, followed = request.url, 0
    while True:
        response = await network.handle_async_request(request)
        target = redirect_target(response, url)
        if (
            response.status_code not in KEEPING_METHOD
            or target is None
            or followed == MOST_REDIRECTS
        ):
            return response
        if not is_within_origin(url, target) or (
            target.userinfo and target.userinfo != url.userinfo
        ):
            return response
        await response.aclose()
        headers = [
            (name, value)
            for name, value in request.headers.multi_items()
            if name.lower() != "host"
        ]
        url, followed = target, followed + 1
        request = httpx2.Request(
            request.method,
            url,
            headers=headers,
            content=await request.aread(),
            extensions=request.extensions,
        )


def redirect_target(response: httpx2.Response, url: httpx2.URL) -> httpx2.URL | None:
    """Return the redirect target in a response from `url`; None if it is missing or invalid."""
    location = response.headers.get("location", "")
    try:
        if location and 300 <= response.status_code < 400:
            return url.join(location)
        return None
    except (httpx2.InvalidURL, ValueError):
        return None


def is_within_origin(url: httpx2.URL, target: httpx2.URL) -> bool:
    """Return whether the target has the same origin, or is its https version with both on their default ports."""
    if (url.scheme, url.host, url.port) == (target.scheme, target.host, target.port):
        return True
    is_upgrade = (url.scheme, target.scheme) == ("http", "https")
    return (
        is_upgrade
        and url.host == target.host
        and url.port is None
        and target.port is None
    )
