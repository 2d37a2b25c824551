"""A call that may have run is never sent again and says so, whatever its end looks like, on every transport and era."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError

from mcpagent.config import ServerConfig
from mcpagent.mcp.outcomes import MAY_BE_SENT_AGAIN, End, TransportName, outcome_of
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.transports.bytes_to_messages import decode
from mcpagent.values.messages import Text
from mcpagent.values.tools import ToolOutput
from tests.servers.booking import Kind, booking
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "endings.py"
HINT = "the call may have run"


def error(message: str, request_id: str = "THIS", code: int = -32000) -> str:
    return f'{{"jsonrpc":"2.0","id":{request_id},"error":{{"code":{code},"message":"{message}"}}}}'


OWN_ERRORS = {
    "own-error": error("it broke"),
    "own-session": error("no session of yours; it was booked"),
    "own-gone": error("Invalid session ID"),
    "own-busy": error("Too many requests"),
}
OTHER_ERRORS = {"any-error": error("it broke", "null"), "any-session": error("your session is over: booked", "null")}
GONE = {
    "gone": "Bad Request: No valid session ID provided",
    "gone-json": '{"detail": "Invalid session ID"}',
    "gone-error": error("Session not found", "null"),
}
GONE_404 = {
    "empty": "",
    "plain": "Not Found",
    "plain-json": '{"detail":"Not Found"}',
    "only-session": "Session not found",
    "object": "{}",
}
WORDS = {
    "no": "no",
    "booked": "your checkout session has expired; payment was booked",
    "booked-id": "session id 7 was not found, order stored",
    "booked-json": '{"error": "session expired", "order": 7}',
    "html": "<html><h1>404 Not Found</h1>session</html>",
    "half": '{"jsonrpc":"2.0","id":THIS,"err',
    "no-error": '{"jsonrpc":"2.0","id":THIS}',
}
RESULT = {"result": '{"jsonrpc":"2.0","id":THIS,"result":{"content":[{"type":"text","text":"fine"}]}}'}
BUSY = {
    "busy": "Too Many Requests",
    "busy-json": '{"error": {"code": 429, "message": "Rate limit exceeded, retry after 3 seconds"}}',
    "busy-html": "<html><head><title>429 Too Many Requests</title></head><body><hr>nginx</body></html>",
    "busy-error": error("Rate limit reached", "null"),
}
FOREIGN = {
    "foreign-error": error("Rate limit reached", "999999"),
    "foreign-session": error("Session not found", '"999998"'),
    "foreign-result": '{"jsonrpc":"2.0","id":999999,"result":{"content":[{"type":"text","text":"of Bob"}]}}',
    "internal": error("it broke in the middle", code=-32603),
}
"""Of other requests than this one; and an error in the middle of the work."""

BODIES = OWN_ERRORS | OTHER_ERRORS | GONE | GONE_404 | WORDS | RESULT | BUSY | FOREIGN

HEADERS: dict[str, dict[str, str]] = {
    "none": {},
    "json": {"Content-Type": "application/json"},
    "text": {"Content-Type": "text/plain"},
    "events": {"Content-Type": "text/event-stream"},
    "later": {"Retry-After": "0"},
    "much-later": {"Retry-After": "Fri, 24 Jan 2098 00:00:00 GMT"},
    "never": {"Retry-After": "soon"},
    "challenge": {"WWW-Authenticate": "Bearer"},
    "session": {"Mcp-Session-Id": "s-2"},
}
TURNED_AWAY = {401, 403, 405, 406, 407, 411, 413, 414, 415, 417, 421, 426, 428, 429, 431, 505}
STATUSES = (200, 201, 202, 204, 302, 307, 400, 401, 403, 404, 408, 409, 410, 422, 429, 500, 502, 503, 504, 599)
SOME = (400, 404, 429, 503)
"""Lost, lost or busy, busy, and failed."""


def expected(kind: Kind, status: int, headers: str, body: str) -> tuple[int, str]:
    """How often it is run, and "fine", "error", "told" (that it may have run) or "lost"."""
    has_session = kind != "modern"
    is_gone = (status == 400 and body in GONE) or (status == 404 and body in GONE | GONE_404)
    if kind == "sse":  # what is read there is its text alone
        is_gone = is_gone and body not in ("gone-error", "empty", "plain", "plain-json", "object")
    if is_gone and has_session:
        return 2, "lost"
    if kind == "sse" or body in ("half", "no-error", *FOREIGN) or (body == "result" and status >= 400):
        return 1, "told"
    if status == 429 and body in (*BUSY, "empty", "object"):
        if HEADERS[headers].get("Retry-After", "soon") == "soon":
            return 1, "error" if body == "busy-error" else "lost"
        return (3 if headers == "later" else 1), "lost"
    errors = (*OWN_ERRORS, *OTHER_ERRORS, "gone-error", "busy-error")
    if status >= 400:
        if body == "own-gone" and status in (400, 404) and has_session:
            return 1, "lost"  # the server has read the call; the next one is sent in a new session
        if body in errors:
            return 1, "error"
        return 1, "lost" if status in TURNED_AWAY - {429} else "told"
    if status < 300 and status not in (202, 204, 205) and headers != "events":
        known = {**dict.fromkeys(errors, "error"), "result": "fine"}
        return 1, known.get(body, "told")
    return 1, "told"


def seen(output: ToolOutput) -> str:
    (part,) = output.content
    assert isinstance(part, Text)
    if output.error is None:
        return part.text
    if HINT in part.text:
        return "told"
    return "error" if output.error == "failed" else "lost"


Ends: TypeAlias = Iterable[tuple[int, str, str]]
"""A status, and the names of headers and of a body."""


async def hold(kind: Kind, ends: Ends) -> None:
    async with nothing_left(), booking(kind) as server:
        config = ServerConfig("b", url=server.url, transport="sse" if kind == "sse" else "http", timeout_seconds=30)
        wrong = []
        async with ServerLink(config) as link:
            (book,) = await link.tools()
            for status, headers, body in ends:
                if status < 300 and kind == "sse":  # accepted: what answers is the stream
                    continue
                key = f"{status} {headers} {body}"
                output = await book.run(
                    {"key": key, "status": status, "headers": HEADERS[headers], "body": BODIES[body]}
                )
                got = (server.runs[key], seen(output))
                if got != expected(kind, status, headers, body):
                    wrong.append(f"{key}: {got}, not {expected(kind, status, headers, body)}: {output.content}")
        assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@each_row("kind", ["http", "modern", "sse"])
async def test_t18_no_end_over_http_repeats_what_may_have_run(kind: Kind) -> None:
    """Each status with each body and with each kind of headers; the slow test below has all three together."""
    turning = itertools.cycle(HEADERS)
    await hold(kind, [(status, next(turning), body) for body in BODIES for status in SOME])


MORE_THAN_GONE: dict[str, tuple[str, dict[str, str]]] = {
    "after it": (error("Session not found", "null") + " payment was booked", {}),
    "behind it": ("Session not found " + "\u2014" * 100 + " payment was booked", {}),
    "in its data": (error("Session not found", "null").replace("}}", ',"data":"payment was booked"}}'), {}),
    "beside it": (error("Session not found", "null")[:-1] + ',"note":"payment was booked"}', {}),
    "in a batch": ("[" + error("Session not found", "null") + ',{"jsonrpc":"2.0","method":"booked"}]', {}),
    "in a sign": ("\u2705", {}),
    "encoded": ("booked", {"Content-Encoding": "br"}),
    "badly encoded": ("booked", {"Content-Encoding": "gzip"}),
    "endless": ("payment was booked " * 60_000, {}),
    "cut off": ("", {"Content-Length": "18"}),
}


@each_row("kind", ["http", "sse"])
async def test_nor_does_what_says_more_than_that_the_session_is_gone(kind: Kind) -> None:
    async with nothing_left(), booking(kind) as server:
        config = ServerConfig("b", url=server.url, transport="sse" if kind == "sse" else "http", timeout_seconds=30)
        async with ServerLink(config) as link:
            (book,) = await link.tools()
            for key, (body, headers) in MORE_THAN_GONE.items():
                output = await book.run({"key": key, "status": 404, "headers": headers, "body": body})
                assert (server.runs[key], seen(output)) in ((1, "told"), (1, "error")), (key, output)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["http", "modern", "sse"])
async def test_nor_does_any_status_with_any_headers_and_body(kind: Kind) -> None:
    """Any two of the three, and all three of the statuses for which headers matter: 429, and where all is well."""
    turning = itertools.cycle(HEADERS)
    thirds = [(status, next(turning), body) for status in STATUSES for body in BODIES for _ in range(len(HEADERS) // 3)]
    await hold(kind, {*thirds, *itertools.product((200, 400, 429), HEADERS, BODIES)})


STDIO: dict[str, tuple[str, str]] = {
    **{name: (body, "error") for name, body in OWN_ERRORS.items()},
    "any-error": (OTHER_ERRORS["any-error"], "told"),  # it has no ID
    "mismatch": (error("mismatch", code=-32020), "error"),
    "half": (WORDS["half"], "told"),
    "no-error": (WORDS["no-error"], "told"),
    "result-null": ('{"jsonrpc":"2.0","id":THIS,"result":null}', "told"),
    "result-list": ('{"jsonrpc":"2.0","id":THIS,"result":[]}', "told"),
    "error-null": ('{"jsonrpc":"2.0","id":THIS,"error":null}', "told"),
    "deep": ('{"jsonrpc":"2.0","id":THIS,"result":' + "[" * 5000, "told"),
    "result": (RESULT["result"], "fine"),
    "ends": ("", "told"),
}


@each_row("era", ["legacy", "modern"])
async def test_t18_nor_does_any_end_over_stdio(era: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    config = ServerConfig("b", command=sys.executable, args=(str(SERVER), era, str(log)))
    async with nothing_left(), ServerLink(config) as link:
        (book,) = await link.tools()
        got = {name: seen(await book.run({"key": name, "body": body})) for name, (body, _) in STDIO.items()}
    assert got == {name: what for name, (_, what) in STDIO.items()}
    assert Counter(log.read_text().split()) == dict.fromkeys(STDIO, 1)


@each_row(
    "body",
    [
        error("it broke"),
        '{"jsonrpc":"2.0","id":THIS,"result":null}',
        '{"jsonrpc":"2.0","id":THIS}',
        '{"jsonrpc":"2.0","id":THIS,',
    ],
)
@each_row("kind", ["http", "modern"])
async def test_an_event_that_is_no_answer_tells_it_too(kind: Kind, body: str) -> None:
    async with nothing_left(), booking(kind) as server, ServerLink(ServerConfig("b", url=server.url)) as link:
        (book,) = await link.tools()
        call = {"key": "k", "status": 200, "headers": HEADERS["events"], "body": f"data: {body}\n\n"}
        assert seen(await book.run(call)) == ("error" if "it broke" in body else "told")
        assert server.runs == {"k": 1}


async def test_a_header_that_the_server_wants_otherwise_is_learned_in_the_era_that_has_such_headers() -> None:
    for kind, runs in (("modern", 2), ("http", 1)):
        async with nothing_left(), booking(kind) as server, ServerLink(ServerConfig("b", url=server.url)) as link:  # type: ignore[arg-type]
            (book,) = await link.tools()
            json_kind = HEADERS["json"]
            call = {"key": "k", "status": 400, "headers": json_kind, "body": error("mismatch", code=-32020)}
            await book.run(call)
            assert server.runs == {"k": runs}


@each_row("kind, count", [(kind, count) for kind in ("application/json", "text/event-stream") for count in (2, 50)])
async def test_t27_crossed_answers_reach_nobody_else(kind: str, count: int) -> None:
    """A response answers the request that it is the response to, so one to another request is no answer."""
    async with nothing_left(), booking("http") as server:
        config = ServerConfig("b", url=server.url, transport="http", timeout_seconds=30)
        async with ServerLink(config) as link:
            (book,) = await link.tools()
            keys = [f"user {number}" for number in range(count)]
            outputs = await asyncio.gather(*(book.run({"key": key, "cross": count, "type": kind}) for key in keys))
            for key, output in zip(keys, outputs, strict=True):
                assert seen(output) == "told", f"{key}: {output.content}"
                assert re.search(r"sent no answer: its (body|stream) answers request \d+, not \d+", str(output.content))
            assert server.runs == dict.fromkeys(keys, 1)
            assert (
                seen(await book.run({"key": "next", "status": 200, "headers": {}, "body": BODIES["result"]})) == "fine"
            )


@each_row("written", ['"07"', '" 7 "', '"+7"', '"7.0"', '"7e0"'])
@each_row("kind", ["application/json", "text/event-stream"])
async def test_a_result_is_that_of_the_id_which_it_has_to_the_letter(kind: str, written: str) -> None:
    """Such an ID is one of another client behind the same proxy, if of any."""
    async with nothing_left(), booking("http") as server, ServerLink(ServerConfig("b", url=server.url)) as link:
        (book,) = await link.tools()
        body = RESULT["result"].replace("fine", "of Bob")
        own = written[1:-1].replace("7", "THIS")
        body = body.replace("THIS", json.dumps(own))
        if kind == "text/event-stream":
            body = f"data: {body}\n\n"
        call = {"key": "k", "status": 200, "headers": {"Content-Type": kind}, "body": body}
        assert seen(await book.run(call)) == "told"
        assert server.runs == {"k": 1}


class FailingSignIn(httpx2.Auth):
    """One that somebody wrote, and that fails for a call."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if b'"bad"' in request.content:
            raise RuntimeError("no token today")
        yield request


@each_row("kind", ["http", "sse"])
async def test_a_sign_in_that_fails_in_a_way_of_its_own_costs_its_call_alone(kind: Kind) -> None:
    event = f"event: message\ndata: {RESULT['result']}\n\n"
    slow = {
        "key": "good",
        "pieces": 4,
        "type": "application/json",
        "body": event if kind == "sse" else RESULT["result"],
    }
    async with nothing_left(), booking(kind) as server:
        config = ServerConfig("b", url=server.url, transport="sse" if kind == "sse" else "http", timeout_seconds=30)
        async with ServerLink(config, auth=FailingSignIn()) as link:
            (book,) = await link.tools()
            good, bad = await asyncio.gather(book.run(slow), book.run({"key": "bad", "status": 200}))
    assert seen(good) == "fine"
    assert 'server "b" cannot be signed in to: RuntimeError: no token today during tools/call' in str(bad.content)
    assert server.runs == {"good": 1}


# --- the table itself ---

TRANSPORTS: tuple[TransportName, ...] = ("stdio", "http", "sse")
texts = st.one_of(st.sampled_from(list(BODIES.values())), st.text(max_size=80), st.binary(max_size=80))
ends = st.builds(
    lambda transport, status, headers, body, session, is_modern: End(
        transport,
        status=status,
        headers=headers,
        body=(data := body if isinstance(body, bytes) else body.replace("THIS", "7").encode()),
        answer=next((item for item in decode(data) if isinstance(item, JSONRPCError)), None),
        request_id=7,
        session=session,
        is_modern=is_modern,
    ),
    st.sampled_from(TRANSPORTS),
    st.one_of(st.none(), st.integers(100, 999)),
    st.sampled_from(list(HEADERS.values())).map(lambda lines: {name.lower(): value for name, value in lines.items()}),
    texts,
    st.sampled_from(["", "s-1"]),
    st.booleans(),
)


@given(ends)
def test_only_a_lost_session_a_count_and_a_header_make_a_sent_request_unread(end: End) -> None:
    outcome, remedy = outcome_of(end)
    if outcome in MAY_BE_SENT_AGAIN:
        assert outcome == "unread"
        assert {"session": (400, 404), "time": (429,), "lists": (400,)}[remedy].__contains__(end.status)
        assert remedy != "session" or end.session or end.transport == "sse"
    assert outcome != "answered"


@given(
    st.sampled_from(TRANSPORTS),
    st.sampled_from((400, 404)),
    st.text(min_size=1, max_size=40).filter(str.isalpha),
    st.booleans(),
)
def test_one_word_more_than_the_session_is_a_word_of_the_tool(
    transport: TransportName, status: int, word: str, is_first: bool
) -> None:
    known = "session id not found"
    if word.lower() in known:
        return
    said = f"payment {word} {known}" if is_first else f"{known} {word} booked"
    told = End(transport, status=status, body=said.encode(), request_id=7, session="s-1")
    assert outcome_of(told)[0] not in MAY_BE_SENT_AGAIN


@given(ends, st.booleans(), st.booleans())
def test_what_did_not_leave_or_was_not_read_may_be_sent_again(end: End, is_sent: bool, was_read: bool) -> None:
    short = End(end.transport, is_sent=is_sent, was_read=was_read)
    assert (outcome_of(short)[0] in MAY_BE_SENT_AGAIN) == (not is_sent or not was_read)


def test_an_answer_is_one_on_every_transport() -> None:
    (answer,) = decode(json.dumps({"jsonrpc": "2.0", "id": 7, "result": {}}).encode())
    for transport in TRANSPORTS:
        known: dict[str, Any] = {"answer": answer, "request_id": 7}
        assert outcome_of(End(transport, **known)) == ("answered", "")
