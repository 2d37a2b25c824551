"""A user's sign-in at an authorization page: show the page, and receive the redirect."""

from __future__ import annotations

import asyncio
import contextlib
import html
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthFlowError

from mcpagent.utilities.text.safe_text import safe_line

SIGN_IN_SECONDS = 300.0
_PAGE = "<!doctype html><meta charset=utf-8><title>mcpagent</title><p>{}"
_RECEIVED = (
    "The browser's part is done. mcpagent reports in its own window whether the sign-in worked; "
    "you can close this page."
)
_HEAD = (
    "HTTP/1.1 {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n"
    "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n"
)


class Page(Protocol):
    """Guides a user through the authorization page."""

    @property
    def redirect_uri(self) -> str:
        """The address that the authorization server redirects the user to."""

    async def show(self, url: str) -> None:
        """Show the authorization page to the user."""

    async def result(self) -> AuthorizationCodeResult:
        """Wait for the redirect to the redirect URI, and return its result."""


class LoopbackPage:
    """A sign-in whose redirect goes to a port of 127.0.0.1 (RFC 8252 7.3); an async context manager.

    `show` receives the address of the authorization page: it opens a browser, prints the address, or both. If the
    browser is on another machine, pass its final address to `take` instead. `port` is tried first.
    """

    def __init__(
        self,
        show: Callable[[str], Awaitable[None]],
        *,
        port: int = 0,
        seconds: float = SIGN_IN_SECONDS,
    ) -> None:
        self._show = show
        self._port = port
        self._seconds = seconds
        self._state: str | None = None
        self._answer: asyncio.Future[AuthorizationCodeResult] | None = None
        self._server: asyncio.Server | None = None

    @property
    def redirect_uri(self) -> str:
        """The redirect URI on the listening port; available only inside the context."""
        if self._server is None:
            raise RuntimeError("LoopbackPage is not entered")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/callback"

    @property
    def was_shown(self) -> bool:
        """Return whether the page was shown to a user."""
        return self._answer is not None

    async def __aenter__(self) -> LoopbackPage:
        try:
            self._server = await asyncio.start_server(
                self._handle, "127.0.0.1", self._port
            )
        except (OSError, OverflowError):
            self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def show(self, url: str) -> None:
        """Store the sign-in's state parameter, and show the page."""
        self._state = _first(url, "state")
        self._answer = asyncio.get_running_loop().create_future()
        await self._show(url)

    async def result(self) -> AuthorizationCodeResult:
        """Wait for the browser, or for `take`. Raises `OAuthFlowError`, also after `seconds` without a sign-in."""
        assert self._answer is not None
        try:
            return await asyncio.wait_for(self._answer, self._seconds)
        except TimeoutError:
            raise OAuthFlowError(
                f"nobody signed in within {self._seconds:g} s"
            ) from None

    def take(self, address: str) -> str | None:
        """Accept the browser's final address, pasted by the user; return the mistake if it is wrong, else None."""
        parts = urlsplit(address.strip())
        expected = urlsplit(self.redirect_uri)
        if (parts.scheme, parts.netloc, parts.path) != (
            expected.scheme,
            expected.netloc,
            expected.path,
        ):
            return f"this is not the address that the browser ends at; it begins with {self.redirect_uri}?"
        if self._take(parts.path, parts.query):
            return None
        return "this address is of another sign-in"

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            ConnectionError,
            TimeoutError,
        ):
            async with asyncio.timeout(10):
                line = (
                    (await reader.readuntil(b"\r\n\r\n"))
                    .split(b"\r\n")[0]
                    .decode("latin-1")
                    .split(" ")
                )
            parts = urlsplit(line[1] if len(line) > 1 else "")
            found = line[0] == "GET" and self._take(parts.path, parts.query)
            status, body = "404 Not Found", b""
            if found:
                status = "200 OK"
                body = _PAGE.format(html.escape(self._outcome())).encode()
            writer.write(_HEAD.format(status, len(body)).encode() + body)
            await writer.drain()
        writer.close()

    def _outcome(self) -> str:
        """Return the text of the final page: a refusal, or that the code has arrived, which is exchanged only
        afterwards.
        """
        error = (
            self._answer.exception()
            if self._answer is not None and self._answer.done()
            else None
        )
        return (
            _RECEIVED
            if error is None
            else f"Not signed in: {error}. You can close this page."
        )

    def _take(self, path: str, query: str) -> bool:
        if path != "/callback" or self._answer is None or self._answer.done():
            return False
        if self._state is not None and _first(f"?{query}", "state") != self._state:
            return False  # a request of another page must not end the sign-in
        try:
            self._answer.set_result(callback_result(query))
        except OAuthFlowError as error:
            self._answer.set_exception(error)
        return True


def _first(url: str, name: str) -> str | None:
    return next(iter(parse_qs(urlsplit(url).query).get(name, [])), None)


def callback_result(query: str) -> AuthorizationCodeResult:
    """Return the code, state and issuer in a redirect's query. Raises `OAuthFlowError` if it reports a refusal."""
    found = parse_qs(query)
    repeated = [
        name
        for name in ("code", "state", "iss", "error")
        if len(found.get(name, ())) > 1
    ]
    if repeated:  # RFC 6749 3.1: a parameter must not appear more than once
        raise OAuthFlowError(f"its answer has {repeated[0]} more than once")
    values = {name: texts[0] for name, texts in found.items()}
    if "code" not in values or "error" in values:
        reason = (
            values.get("error_description")
            or values.get("error")
            or "no code came back"
        )
        raise OAuthFlowError(safe_line(reason, 200))
    return AuthorizationCodeResult(
        code=values["code"], state=values.get("state"), iss=values.get("iss")
    )
