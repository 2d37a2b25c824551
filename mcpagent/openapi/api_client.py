"""Call the operations of an API: send the request within its origin, repeat it if that is safe, read all pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

from mcpagent.openapi.api_credentials import credentials_for, needed_schemes
from mcpagent.openapi.api_documents import origin
from mcpagent.openapi.api_tools import REPEATABLE, SAFE, ApiTool
from mcpagent.openapi.http_answers import (
    HttpAnswer,
    failure,
    http_failure_text,
    result_of,
)
from mcpagent.openapi.http_calls import ArgumentError, http_call, legal_headers
from mcpagent.openapi.operations import Api
from mcpagent.openapi.paging import (
    MAX_PAGED_BYTES,
    MAX_PAGES,
    as_answer,
    chooses_page,
    joined_pages,
    next_cursor,
    next_url,
)
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    import httpx2

MAX_SENDS = 3
_BUSY = frozenset({429, 502, 503, 504})
_LONGEST_WAIT_SECONDS = 30.0
_WAIT_SECONDS = 0.5
_MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class ApiClient:
    """The operations of one API. `credentials` are by security scheme, see `credentials_for`.

    `client` has the headers and the sign-in of the API. `elsewhere` sends to its further origins, without these (None:
    no further origins).
    """

    api: Api
    tools: Mapping[str, ApiTool]
    client: httpx2.AsyncClient
    credentials: Mapping[str, str]
    max_bytes: int
    elsewhere: httpx2.AsyncClient | None = None

    def __post_init__(self) -> None:
        """Ignore cookies in responses: one client serves the conversations of many users."""
        for client in filter(None, (self.client, self.elsewhere)):
            client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def _client_for(self, tool: ApiTool) -> httpx2.AsyncClient:
        if origin(tool.operation.server) == origin(self.api.base_url):
            return self.client
        if self.elsewhere is None:
            raise ArgumentError("its server is at another origin")
        return self.elsewhere

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call an operation; return its result in MCP's format. A failure of the API is returned as a result, too."""
        import httpx2
        from mcp.client.auth import OAuthFlowError

        tool = self.tools.get(name)
        if tool is None:
            return failure(f'There is no operation "{safe_line(name, 60)}".')
        try:
            return await self._result(tool, arguments)
        except ArgumentError as error:
            return failure(f"The call was not sent: {error}.")
        except OAuthFlowError as error:
            return failure(f"It needs a sign-in: {safe_line(str(error), 300)}")
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return failure(
                f"The API could not be reached, so the call was not run: {_words(error)}"
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            outcome = "It is unknown whether the call was run."
            if tool.operation.method in SAFE:
                outcome = ""
            text = f"The API gave no answer: {_words(error)}. {outcome}"
            return failure(text.strip())

    async def _result(
        self, tool: ApiTool, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        answer = await self._answer(tool, self.request(tool, arguments))
        if not 200 <= answer.status < 300:
            return failure(http_failure_text(answer, self._hint(tool, answer.status)))
        note = ""
        if tool.operation.method == "GET" and answer.is_json and not answer.is_cut:
            answer, note = await self._all_pages(tool, arguments, answer)
        return result_of(
            answer, wraps=tool.wraps, is_typed=tool.output_schema is not None, note=note
        )

    def _hint(self, tool: ApiTool, status: int) -> str:
        needed = needed_schemes(self.api, tool.operation)
        if status == 401 and needed:
            return f"It needs credentials, which the user sets up: {safe_line(', '.join(needed), 300)}."
        return ""

    def request(
        self, tool: ApiTool, arguments: Mapping[str, Any], url: str = ""
    ) -> httpx2.Request:
        """Return the request of a call with its credentials; `url` is the address of a further page, with its query.

        Raises `ArgumentError`.
        """
        import httpx2

        call = http_call(tool, arguments)
        added = credentials_for(self.api, tool.operation, self.credentials)
        address = httpx2.URL(url or call.url)
        if call.query and not url:
            address = address.copy_with(query="&".join(call.query).encode("ascii"))
        for name, value in added.query:
            address = address.copy_set_param(name, value)
        headers = {**call.headers, **added.headers}
        cookies = [*call.cookies, *(f"{name}={value}" for name, value in added.cookies)]
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        files = [
            (part.name, (part.filename, part.content, part.media_type))
            for part in call.parts
        ]
        return self._client_for(tool).build_request(
            call.method,
            address,
            headers=httpx2.Headers(legal_headers(headers), encoding="utf-8"),
            content=call.content,
            files=files or None,
        )

    async def _answer(self, tool: ApiTool, request: httpx2.Request) -> HttpAnswer:
        """Send a request; repeat it after a short wait if the API is busy and the method may be repeated."""
        import httpx2

        may_repeat = tool.operation.method in REPEATABLE
        lost: httpx2.TransportError | None = None
        for sends in range(1, MAX_SENDS + 1):
            is_last = sends == MAX_SENDS or not may_repeat
            wait = _WAIT_SECONDS * sends
            try:
                answer = await self._sent(tool, request)
            except httpx2.TransportError as error:
                if not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
                    lost = error
                if is_last:
                    # An earlier attempt may have had an effect even if a later one does not reach the API.
                    raise lost or error from None
            else:
                named = retry_after_seconds(answer.headers)
                if named is not None:
                    wait = named
                if (
                    is_last
                    or answer.status not in _BUSY
                    or wait > _LONGEST_WAIT_SECONDS
                ):
                    return answer
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _sent(self, tool: ApiTool, request: httpx2.Request) -> HttpAnswer:
        """Send a request and follow redirects within the origin; any other redirect is returned as the answer."""
        client, home = self._client_for(tool), origin(tool.operation.server)
        for followed in range(_MOST_REDIRECTS + 1):
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                target = response.next_request
                is_near = target is not None and origin(str(target.url)) == home
                if target is None or not is_near or followed == _MOST_REDIRECTS:
                    content, is_cut = await self._content(response)
                    return HttpAnswer(
                        response.status_code,
                        response.headers,
                        content,
                        str(response.url),
                        is_cut,
                    )
                request = target
            finally:
                await response.aclose()
        raise AssertionError("the last redirect is the answer")

    async def _content(self, response: httpx2.Response) -> tuple[bytes, bool]:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > self.max_bytes:
                return bytes(content[: self.max_bytes]), True
        return bytes(content), False

    async def _all_pages(
        self, tool: ApiTool, arguments: Mapping[str, Any], first: HttpAnswer
    ) -> tuple[HttpAnswer, str]:
        """Return the first pages of a list as one answer, and a note for the model if there are more pages."""
        value = first.value()
        if chooses_page(tool, arguments):
            return first, _more_note(tool, value, first)
        pages, answer, read = [value], first, len(first.content)
        seen = {first.url}
        while True:
            request = self._next(tool, arguments, answer, pages[-1])
            if request is None or str(request.url) in seen:
                note = ""
                break
            if len(pages) == MAX_PAGES or read > MAX_PAGED_BYTES:
                note = f"These are the first {len(pages)} pages. {_more_note(tool, pages[-1], answer)}"
                break
            seen.add(str(request.url))
            following = await self._answer(tool, request)
            value = (
                following.value()
                if following.status == 200 and following.is_json
                else None
            )
            if value is None or joined_pages([*pages, value]) is None:
                note = f"There are more pages, but the next could not be used (HTTP {following.status})."
                break
            pages.append(value)
            answer, read = following, read + len(following.content)
        if len(pages) == 1:
            return first, note
        return as_answer(answer, joined_pages(pages)), note

    def _next(
        self,
        tool: ApiTool,
        arguments: Mapping[str, Any],
        answer: HttpAnswer,
        value: Any,
    ) -> httpx2.Request | None:
        url = next_url(answer)
        if url:
            return self.request(tool, arguments, url)
        cursor = next_cursor(tool, value)
        if cursor is None:
            return None
        return self.request(tool, {**arguments, cursor[0]: cursor[1]})


def _more_note(tool: ApiTool, value: Any, answer: HttpAnswer) -> str:
    """Return how the model can request the next page; "" on the last page."""
    cursor = next_cursor(tool, value)
    if cursor is not None:
        return (
            f"For the next page call it with {cursor[0]}={safe_line(cursor[1], 200)}."
        )
    url = next_url(answer)
    if url:
        return f"The next page is {safe_line(url.partition('?')[2] or url, 300)}."
    return ""


def _words(error: Exception) -> str:
    return safe_line(f"{type(error).__name__}: {error}", 200).rstrip(": ")


def by_name(tools: Sequence[ApiTool]) -> dict[str, ApiTool]:
    """Return the tools by name."""
    return {tool.name: tool for tool in tools}
