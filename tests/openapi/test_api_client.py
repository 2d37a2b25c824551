"""Calls: what is sent, how often and where to; what the model gets to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx2
import pytest

from mcpagent.openapi.api_client import MAX_SENDS, ApiClient
from mcpagent.openapi.paging import MAX_PAGES
from tests.openapi.documents import BASE, api_of, document, operation, parameter

SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "oauth": {"type": "oauth2", "flows": {}},
}


class Server:
    """Answers requests from a list, the last answer again and again, and keeps the requests."""

    def __init__(self, *answers: httpx2.Response | Callable[[httpx2.Request], httpx2.Response]) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            return answer(request)
        return answer

    def call(self, method: str, *, given: Any = None, credentials: Any = None, limit: int = 10_000, **root: Any) -> Any:
        """Call the operation at /things, and return the result."""
        limits = [parameter("page", "query"), parameter("per_page", "query"), parameter("cursor", "query")]
        about = operation(*limits, **root.pop("operation", {}))
        api, tools = api_of(document({"/things": {method: about}}, **root))

        async def run() -> Any:
            async with httpx2.AsyncClient(transport=httpx2.MockTransport(self)) as client:
                return await ApiClient(api, tools, client, credentials or {}, limit).call(
                    f"{method}_things", given or {}
                )

        return asyncio.run(run())


def text_of(result: Any) -> str:
    return "\n".join(block["text"] for block in result["content"])


def busy(status: int = 503, **headers: str) -> httpx2.Response:
    return httpx2.Response(status, headers={"retry-after": "0", **headers})


def fails(error: type[httpx2.TransportError]) -> Callable[[httpx2.Request], httpx2.Response]:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error("no luck", request=request)

    return fail


def test_only_methods_that_may_run_twice_are_sent_again() -> None:
    sent: dict[str, tuple[int, bool]] = {}
    for method in ("get", "head", "put", "delete", "post", "patch"):
        firsts: dict[str, Any] = {"busy": busy(), "limited": busy(429), "broken": fails(httpx2.ReadError)}
        for name, first in firsts.items():
            if name == "broken" and method not in ("post", "patch"):
                continue  # it waits half a second
            server = Server(first, httpx2.Response(200, json={}))
            failed = server.call(method).get("isError", False)
            sent[f"{method} {name}"] = (len(server.requests), failed)
    once = {"post", "patch"}
    assert sent == {case: (1, True) if case.split()[0] in once else (2, False) for case in sent}


def test_a_busy_api_is_not_asked_for_ever() -> None:
    server = Server(busy())
    assert "HTTP 503 Service Unavailable" in text_of(server.call("get"))
    assert len(server.requests) == MAX_SENDS
    patient = Server(busy(429, **{"retry-after": "3600"}))
    assert "Try again in 3600 seconds." in text_of(patient.call("get"))
    assert len(patient.requests) == 1


def test_a_failed_connection_says_whether_the_call_ran() -> None:
    assert "the call was not run" in text_of(Server(fails(httpx2.ConnectError)).call("post"))
    assert "unknown whether the call was run" in text_of(Server(fails(httpx2.ReadTimeout)).call("post"))


@pytest.mark.slow
def test_a_call_that_may_have_run_says_so_also_if_later_attempts_reach_nothing() -> None:
    for first, second in ((httpx2.ReadError, httpx2.ReadError), (httpx2.ReadTimeout, httpx2.ConnectError)):
        for method, is_told in (("delete", True), ("put", True), ("get", False)):
            text = text_of(Server(fails(first), fails(second)).call(method))
            assert ("unknown whether the call was run" in text) == is_told, (method, text)
            assert "was not run" not in text


def test_redirects_stay_at_the_origin() -> None:
    def to(location: str, status: int = 302) -> httpx2.Response:
        return httpx2.Response(status, headers={"location": location})

    near = Server(to("/v1/moved?x=1"), httpx2.Response(200, json={"a": 1}))
    assert json.loads(text_of(near.call("get", credentials={"*": "secret"}))) == {"a": 1}
    assert [request.headers["authorization"] for request in near.requests] == ["Bearer secret"] * 2
    for elsewhere in ("https://two.example/", "http://api.example/", "https://api.example:8443/", "//two.example/x"):
        for status in (302, 307):
            server = Server(to(elsewhere, status))
            told = text_of(server.call("get", credentials={"*": "secret"}))
            assert "leads elsewhere, which is not followed" in told
            assert len(server.requests) == 1
    endless = Server(to("/v1/things"))
    assert endless.call("get")["isError"]
    assert len(endless.requests) == 6


def test_cookies_of_answers_are_not_sent_again() -> None:
    server = Server(
        httpx2.Response(302, headers={"location": "/v1/moved", "set-cookie": "sid=of-another-user; Path=/"}),
        httpx2.Response(200, json=[], headers={"link": "</v1/things?page=2>; rel=next", "set-cookie": "a=b"}),
        httpx2.Response(200, json=[]),
    )
    server.call("get")
    assert [request.headers.get("cookie") for request in server.requests] == [None] * 3


def test_a_refusal_that_claims_success_is_not_sent_again() -> None:
    server = Server(httpx2.Response(429, json={"detail": "booked"}, headers={"retry-after": "0"}))
    result = server.call("post")
    assert (result["isError"], len(server.requests)) == (True, 1)
    assert text_of(result) == "HTTP 429 Too Many Requests: booked\nTry again in 0 seconds."


def test_credentials_are_sent_as_the_scheme_says() -> None:
    def sent(needs: Any, values: Any, schemes: Any = SCHEMES) -> tuple[str | None, ...]:
        server = Server(httpx2.Response(204))
        root: dict[str, Any] = {"components": {"securitySchemes": schemes}} if schemes else {}
        about: dict[str, Any] = {} if needs is None else {"security": needs}
        server.call("get", credentials=values, operation=about, **root)
        [request] = server.requests
        found = [request.headers.get(name) for name in ("authorization", "x-key", "cookie")]
        return (*found, request.url.params.get("key"))

    none = (None, None, None, None)
    cases: list[tuple[Any, Any, Any]] = [
        ([{"bearer": []}], {"bearer": "s"}, ("Bearer s", None, None, None)),
        ([{"oauth": []}], {"*": "s"}, ("Bearer s", None, None, None)),
        ([{"basic": []}], {"*": "u:p"}, ("Basic dTpw", None, None, None)),
        ([{"header": []}], {"*": "s"}, (None, "s", None, None)),
        ([{"query": []}], {"query": "s&t"}, (None, None, None, "s&t")),
        ([{"cookie": []}], {"cookie": "s"}, (None, None, "sid=s", None)),
        ([{"header": [], "query": []}], {"header": "s", "query": "t"}, (None, "s", None, "t")),
        ([{"header": [], "query": []}], {"header": "s"}, none),
        ([{"header": []}, {"query": []}], {"query": "t"}, (None, None, None, "t")),
        ([], {"bearer": "s"}, none),
        ([{}], {"bearer": "s"}, none),
        ([{"bearer": []}], {"basic": "u:p"}, none),
        (None, {"header": "s"}, (None, "s", None, None)),
    ]
    wrong = [(case, found) for case in cases if (found := sent(*case[:2])) != case[2]]
    assert wrong == []
    assert sent(None, {"*": "s"}, None) == ("Bearer s", None, None, None)


def test_a_refusal_names_the_credentials_that_are_needed() -> None:
    server = Server(httpx2.Response(401, json={"message": "Bad key"}))
    about: dict[str, Any] = {"security": [{"header": []}]}
    told = text_of(server.call("get", operation=about, components={"securitySchemes": SCHEMES}))
    assert (
        told == "HTTP 401 Unauthorized: Bad key\nIt needs credentials, which the user sets up: header (apiKey header)."
    )


def test_errors_have_a_reason() -> None:
    problem = {
        "type": "about:blank",
        "title": "Out of credit",
        "detail": "It costs 50.",
        "invalid-params": [{"name": "age"}],
    }
    cases: list[tuple[httpx2.Response, str]] = [
        (httpx2.Response(403, json=problem), 'HTTP 403 Forbidden: Out of credit: It costs 50.\n- {"name": "age"}'),
        (httpx2.Response(422, json={"detail": [{"loc": ["a"]}]}), 'HTTP 422 Unprocessable Content: - {"loc": ["a"]}'),
        (httpx2.Response(400, json={"error": {"message": "No", "code": 3}}), "HTTP 400 Bad Request: No"),
        (httpx2.Response(400, json={"error": "bad", "error_description": "No"}), "HTTP 400 Bad Request: bad: No"),
        (httpx2.Response(400, json={"errors": {"name": ["is short"]}}), 'HTTP 400 Bad Request: - name: ["is short"]'),
        (httpx2.Response(400, json=[1]), "HTTP 400 Bad Request: [1]"),
        (httpx2.Response(404, text="gone"), "HTTP 404 Not Found: gone"),
        (httpx2.Response(404, html="<p>gone</p>"), "HTTP 404 Not Found"),
        (httpx2.Response(499, text=""), "HTTP 499"),
    ]
    wrong = [(told, found) for answer, told in cases if (found := text_of(Server(answer).call("post"))) != told]
    assert wrong == []


def page(items: Iterable[int], more: str = "", **fields: Any) -> httpx2.Response:
    headers = {"link": f'<{more}>; rel="next", <{BASE}/things?page=1>; rel="first"'} if more else {}
    return httpx2.Response(200, json={"items": list(items), **fields} if fields else list(items), headers=headers)


def test_pages_are_read_by_links() -> None:
    server = Server(page([1, 2], f"{BASE}/things?page=2"), page([3], f"{BASE}/things?page=3"), page([4]))
    assert json.loads(text_of(server.call("get", given={"per_page": "2"}, credentials={"*": "s"}))) == [1, 2, 3, 4]
    assert [str(request.url) for request in server.requests[1:]] == [f"{BASE}/things?page=2", f"{BASE}/things?page=3"]
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer s"}


def test_pages_are_read_by_a_cursor_that_a_parameter_takes() -> None:
    server = Server(page([1], meta={"next_cursor": "a b"}), page([2], meta={"next_cursor": None}))
    found = json.loads(text_of(server.call("get")))
    assert found == {"items": [1, 2], "meta": {"next_cursor": None}}
    assert server.requests[1].url.params["cursor"] == "a b"


def test_pages_have_an_end() -> None:
    def endless(request: httpx2.Request) -> httpx2.Response:
        number = int(request.url.params.get("page", 1))
        return page([number], f"{BASE}/things?page={number + 1}")

    server = Server(endless)
    blocks = server.call("get")["content"]
    assert json.loads(blocks[0]["text"]) == list(range(1, MAX_PAGES + 1))
    assert blocks[1]["text"] == f"These are the first {MAX_PAGES} pages. The next page is page={MAX_PAGES + 1}."
    assert len(server.requests) == MAX_PAGES


@pytest.mark.parametrize(
    ("given", "answers", "requests"),
    [
        ({"page": "2"}, [page([1], f"{BASE}/things?page=3")], 1),
        ({"cursor": "x"}, [page([1], a=1, next_cursor="y")], 1),
        ({}, [page([1], "https://two.example/things?page=2")], 1),
        ({}, [page([1], f"{BASE}/things?page=2"), page([1], f"{BASE}/things?page=2")], 2),
        ({}, [page([1], f"{BASE}/things?page=2"), httpx2.Response(500)], 2),
        ({}, [page([1], f"{BASE}/things?page=2"), httpx2.Response(200, json={"a": 1})], 2),
    ],
    ids=["a page was asked for", "a cursor was given", "elsewhere", "a circle", "an error", "another form"],
)
def test_no_page_is_read_that_was_not_wanted(given: Any, answers: Any, requests: int) -> None:
    server = Server(*answers)
    result = server.call("get", given=given)
    assert "isError" not in result
    assert len(server.requests) == requests


def test_results_are_text_data_or_files() -> None:
    assert text_of(Server(httpx2.Response(204)).call("post")) == "Done: HTTP 204 No Content, without content."
    created = httpx2.Response(201, headers={"location": "/things/3"})
    assert text_of(Server(created).call("post")).endswith("Location: /things/3")
    latin = httpx2.Response(200, content="ä".encode("latin-1"), headers={"content-type": "text/plain; charset=latin-1"})
    assert text_of(Server(latin).call("get")) == "ä"
    picture = httpx2.Response(200, content=b"\x00\x01", headers={"content-type": "image/png"})
    assert Server(picture).call("get")["content"] == [{"type": "image", "data": "AAE=", "mimeType": "image/png"}]
    archive = httpx2.Response(200, content=b"\x00", headers={"content-type": "application/zip"})
    [block] = Server(archive).call("get")["content"]
    assert block["resource"] == {"uri": f"{BASE}/things", "mimeType": "application/zip", "blob": "AA=="}
    long = Server(httpx2.Response(200, text="x" * 50)).call("get", limit=10)
    assert text_of(long) == "x" * 10 + "\nThe answer was larger than the limit and is cut here."
