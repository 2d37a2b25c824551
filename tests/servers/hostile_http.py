"""Wrong ways to answer over HTTP, as the bytes of a response; `faulty_http("any")` sends the one that a call names.

`ID` stands for the id of the call, `FINE` for a whole JSON-RPC answer "fine" to it. The connection is closed
afterwards.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

OK = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"fine"}]}}'


def whole(body: bytes, head: str = "200 OK", kind: str = "application/json", *lines: str) -> bytes:
    """A response whose length is not said, so that it ends with the connection."""
    headers = [f"HTTP/1.1 {head}", *([f"Content-Type: {kind}"] if kind else []), *lines, "Connection: close"]
    return "\r\n".join(headers).encode("latin-1") + b"\r\n\r\n" + body


def events(body: bytes, *lines: str) -> bytes:
    return whole(body, "200 OK", "text/event-stream", *lines)


def chunked(body: bytes) -> bytes:
    return whole(body, "200 OK", "application/json", "Transfer-Encoding: chunked")


STATUSES = (
    *(400, 402, 403, 404, 405, 406, 408, 409, 410, 411, 413, 415, 418, 421, 422, 425, 426, 429, 431, 451, 499),
    *(500, 501, 502, 503, 504, 505, 507, 511, 520, 529, 599),
)

RAW: dict[str, bytes] = {
    **{f"status-{code}": whole(b"no", f"{code} Reason", "text/plain") for code in STATUSES},
    "status-without-reason": whole(b"no", "500", "text/plain"),
    "status-999": whole(b"no", "999 Reason", "text/plain"),
    "status-201": whole(b"FINE", "201 Created"),
    "status-204": whole(b"", "204 No Content", ""),
    "status-206": whole(b"FINE", "206 Partial Content"),
    "status-300": whole(b"choose", "300 Multiple Choices"),
    "status-304": whole(b"", "304 Not Modified"),
    "redirect-nowhere": whole(b"", "302 Found"),
    "redirect-bad": whole(b"", "302 Found", "text/plain", "Location: http://[::bad/"),
    "redirect-file": whole(b"", "302 Found", "text/plain", "Location: file:///etc/passwd"),
    "redirect-to-ftp": whole(b"", "307 Temporary", "text/plain", "Location: ftp://127.0.0.1/x"),
    "401-asks-for-a-token": whole(b"", "401 Unauthorized", "", "WWW-Authenticate: Bearer"),
    "401-odd-challenge": whole(b"", "401 Unauthorized", "", 'WWW-Authenticate: Bearer resource_metadata="::"'),
    "429-retry-text": whole(b"", "429 Slow", "", "Retry-After: soon"),
    "429-retry-negative": whole(b"", "429 Slow", "", "Retry-After: -5"),
    "429-retry-huge": whole(b"", "429 Slow", "", "Retry-After: 99999999999999999999"),
    "503-retry-date-bad": whole(b"", "503 Busy", "", "Retry-After: Mon, 99 Foo 2026 99:99:99 GMT"),
    "500-json-rpc": whole(b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"it broke"}}', "500 Oops"),
    "400-json-rpc-null-id": whole(
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"it broke"}}', "400 No"
    ),
    "500-html": whole(b"<html><h1>Oops</h1><script>alert(1)</script></html>", "500 Oops", "text/html"),
    "500-long": whole(b"x" * 3_000_000, "500 Oops", "text/plain"),
    # what is said about the body
    "type-missing": whole(b"FINE", "200 OK", ""),
    "type-text": whole(b"FINE", "200 OK", "text/plain"),
    "type-bytes": whole(b"FINE", "200 OK", "application/octet-stream"),
    "type-utf-16": whole(b"FINE", "200 OK", "application/json; charset=utf-16"),
    "type-odd": whole(b"FINE", "200 OK", ";;;=="),
    "type-case": whole(b"FINE", "200 OK", "Application/JSON"),
    "type-events-body-json": events(b"FINE"),
    "type-json-body-events": whole(b"event: message\ndata: FINE\n\n"),
    "length-short": whole(b"FINE", "200 OK", "application/json", "Content-Length: 10"),
    "length-long": whole(b"FINE", "200 OK", "application/json", "Content-Length: 100000"),
    "length-negative": whole(b"FINE", "200 OK", "application/json", "Content-Length: -1"),
    "length-text": whole(b"FINE", "200 OK", "application/json", "Content-Length: many"),
    "length-twice": whole(b"FINE", "200 OK", "application/json", "Content-Length: 10", "Content-Length: 20"),
    "length-and-chunks": whole(
        b"0\r\n\r\n", "200 OK", "application/json", "Content-Length: 3", "Transfer-Encoding: chunked"
    ),
    "chunk-cut": chunked(b"fff\r\n{"),
    "chunk-size-bad": chunked(b"zz\r\nFINE\r\n0\r\n\r\n"),
    "chunk-size-huge": chunked(b"ffffffffffffffff\r\nFINE"),
    "chunk-no-end": chunked(b"3\r\n{}\n\r\n"),
    "gzip-not": whole(b"FINE", "200 OK", "application/json", "Content-Encoding: gzip"),
    "gzip-cut": whole(gzip.compress(OK * 100)[:40], "200 OK", "application/json", "Content-Encoding: gzip"),
    "deflate": whole(zlib.compress(OK.replace(b"ID", b"0")), "200 OK", "application/json", "Content-Encoding: deflate"),
    "brotli": whole(b"\x0b\x02\x80", "200 OK", "application/json", "Content-Encoding: br"),
    "encoding-odd": whole(b"FINE", "200 OK", "application/json", "Content-Encoding: rot13"),
    # the head
    "no-response": b"",
    "not-http": b"SSH-2.0-OpenSSH_9.9\r\n",
    "http-0.9": b"FINE",
    "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "head-cut": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "head-without-colon": whole(b"FINE", "200 OK", "application/json", "no colon here"),
    "head-huge": whole(b"FINE", "200 OK", "application/json", f"X-Long: {'x' * 500_000}"),
    "head-many": whole(b"FINE", "200 OK", "application/json", *(f"X-{n}: y" for n in range(5_000))),
    "head-bad-bytes": whole(b"FINE", "200 OK", "application/json", "X-Bad: \x00\x01\x7f"),
    "head-latin": whole(b"FINE", "200 OK", "application/json", "X-Name: caf\xe9"),
    "continue-many": b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + whole(b"FINE"),
    "early-hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + whole(b"FINE"),
    "cookies": whole(b"FINE", "200 OK", "application/json", "Set-Cookie: a=b; Path=/", "Set-Cookie: ="),
    "session-swap": whole(b"FINE", "200 OK", "application/json", "Mcp-Session-Id: other"),
    "session-long": whole(b"FINE", "200 OK", "application/json", f"Mcp-Session-Id: {'s' * 300}"),
    "session-empty": whole(b"FINE", "200 OK", "application/json", "Mcp-Session-Id: "),
    # the body
    "body-empty": whole(b""),
    "body-bom": whole(b"\xef\xbb\xbfFINE"),
    "body-pretty": whole(
        json.dumps(json.loads(OK.replace(b"ID", b"0")), indent=2).encode().replace(b'"id": 0', b'"id": ID')
    ),
    "body-batch": whole(b"[FINE]"),
    "body-two": whole(b"FINE\nFINE"),
    "body-null": whole(b"null"),
    "body-number": whole(b"7"),
    "body-other-id": whole(OK.replace(b"ID", b"999999")),
    "body-no-id": whole(OK.replace(b'"id":ID,', b"")),
    "body-deep": whole(b"[" * 100_000),
    "body-bytes": whole(bytes(range(256)) * 50),
    "body-error-null-id": whole(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"it broke"}}'),
    "body-request": whole(b'{"jsonrpc":"2.0","id":"q","method":"ping"}'),
    # event streams
    "events": events(b"event: message\ndata: FINE\n\n"),
    "events-crlf": events(b"event: message\r\ndata: FINE\r\n\r\n"),
    "events-cr": events(b"event: message\rdata: FINE\r\r"),
    "events-bom": events(b"\xef\xbb\xbfdata: FINE\n\n"),
    "events-comments": events(b": hello\n\n: hello\n\ndata: FINE\n\n"),
    "events-unknown-fields": events(b"foo: bar\nid\nretry: x\ndata:FINE\n\n"),
    "events-several-lines": events(b'data: {"jsonrpc":"2.0","id":ID,\ndata: "result":{"content":[]}}\n\n'),
    "events-ids": events(b"id: 1\nretry: 999999999\ndata: FINE\n\n"),
    "events-null-id": events(b"id: a\0b\ndata: FINE\n\n"),
    "events-ping-first": events(b'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\ndata: FINE\n\n'),
    "events-log-first": events(
        b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\ndata: FINE\n\n'
    ),
    "events-empty": events(b""),
    "events-only-comments": events(b": nothing\n\n" * 20),
    "events-cut": events(b'data: {"jsonrpc":"2.0","id":ID,"resu'),
    "events-no-blank-line": events(b"data: FINE\n"),
    "events-junk": events(b"data: hello\n\n"),
    "events-other-name": events(b"event: update\ndata: FINE\n\n"),
    "events-bytes": events(bytes(range(256)) * 20),
    # what the rules say and others do
    "head-line-feeds": b"HTTP/1.1 200 OK\nContent-Type: application/json\n\nFINE",
    "head-blank-lines-first": b"\r\n\r\n" + whole(b"FINE"),
    "head-folded": whole(b"FINE", "200 OK", "application/json", "X-Long: a\r\n b"),
    "head-type-twice": whole(b"FINE", "200 OK", "application/json", "Content-Type: text/html"),
    "head-lower-case": whole(b"FINE").replace(b"Content-Type", b"content-type"),
    "head-no-version": b"200 OK\r\n\r\nFINE",
    "http-1.0": whole(b"FINE").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "http-1.9": whole(b"FINE").replace(b"HTTP/1.1", b"HTTP/1.9"),
    "continue-5000": b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000 + whole(b"FINE"),
    "status-101": whole(b"", "101 Switching Protocols", "", "Upgrade: websocket", "Connection: Upgrade"),
    "status-099": whole(b"FINE", "099 Low"),
    "status-text": whole(b"FINE", "OK OK"),
    "202-with-an-answer": whole(b"FINE", "202 Accepted"),
    "203": whole(b"FINE", "203 Non-Authoritative"),
    "205": whole(b"", "205 Reset Content", ""),
    "226": whole(b"FINE", "226 IM Used"),
    "305": whole(b"", "305 Use Proxy", "", "Location: http://127.0.0.1:9/"),
    "308-other-origin": whole(b"", "308 Permanent", "", "Location: https://127.0.0.1:9/mcp"),
    "308-relative-loop": whole(b"", "308 Permanent", "", "Location: ?x=1"),
    "401-json-rpc": whole(b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"it broke"}}', "401 No"),
    "403-origin": whole(b"Invalid Origin header", "403 Forbidden", "text/plain"),
    "404-json-rpc": whole(b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Session not found"}}', "404 No"),
    "410-json-rpc": whole(b'{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"it broke"}}', "410 Gone"),
    "429-retry-zero": whole(b"", "429 Slow", "", "Retry-After: 0"),
    "500-answer": whole(b"FINE", "500 Oops"),
    "502-html-cut": whole(
        b"<html><head><title>502 Bad Gateway", "502 Bad Gateway", "text/html", "Content-Length: 9999"
    ),
    "503-events": whole(b"data: FINE\n\n", "503 Busy", "text/event-stream"),
    "type-two": whole(b"FINE", "200 OK", "application/json, text/event-stream"),
    "type-json-rpc": whole(b"FINE", "200 OK", "application/json-rpc"),
    "type-problem": whole(b"FINE", "200 OK", "application/problem+json"),
    "type-form": whole(b"a=b", "200 OK", "application/x-www-form-urlencoded"),
    "type-events-charset": whole(b"data: FINE\n\n", "200 OK", "text/event-stream; charset=utf-8"),
    "type-events-upper-case": whole(b"data: FINE\n\n", "200 OK", "TEXT/EVENT-STREAM"),
    "length-zero": whole(b"FINE", "200 OK", "application/json", "Content-Length: 0"),
    "length-huge": whole(b"FINE", "200 OK", "application/json", f"Content-Length: {'9' * 30}"),
    "length-plus": whole(b"FINE", "200 OK", "application/json", "Content-Length: +10"),
    "chunks-with-extensions": chunked(b"2;a=b\r\n{}\r\n0;c\r\nX-Trailer: y\r\n\r\n"),
    "chunks-twice": whole(b"FINE", "200 OK", "application/json", "Transfer-Encoding: chunked, chunked"),
    "transfer-identity": whole(b"FINE", "200 OK", "application/json", "Transfer-Encoding: identity"),
    "transfer-gzip": whole(gzip.compress(OK), "200 OK", "application/json", "Transfer-Encoding: gzip"),
    "gzip-twice": whole(gzip.compress(gzip.compress(OK)), "200 OK", "application/json", "Content-Encoding: gzip, gzip"),
    "gzip-events": events(gzip.compress(b"data: {}\n\n"), "Content-Encoding: gzip"),
    "gzip-unsaid": whole(gzip.compress(OK, mtime=0)),
    "body-utf-16": whole(OK.replace(b"ID", b"0").decode().encode("utf-16")),
    "body-latin": whole(OK.replace(b"fine", b"f\xefne")),
    "body-nan": whole(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"n":NaN}}}'),
    "body-prefix": whole(b")]}',\nFINE"),
    "body-callback": whole(b"callback(FINE);"),
    "body-and-words": whole(b"FINE trailing words"),
    "body-string": whole(b'"fine"'),
    "body-array-empty": whole(b"[]"),
    "body-batch-mixed": whole(b'[{"jsonrpc":"2.0","method":"notifications/made-up"},{"jsonrpc":"2.0","id":1e9},FINE]'),
    "body-id-text": whole(OK.replace(b"ID", b'"ID"')),
    "body-id-null": whole(OK.replace(b"ID", b"null")),
    "body-version-1": whole(OK.replace(b"2.0", b"1.0")),
    "body-notification": whole(b'{"jsonrpc":"2.0","method":"notifications/made-up"}'),
    "body-blank": whole(b" \r\n\t"),
    "events-other-id": events(b"data: " + OK.replace(b"ID", b"999999") + b"\n\n"),
    "events-other-id-first": events(b"data: " + OK.replace(b"ID", b"999999") + b"\n\ndata: FINE\n\n"),
    "events-id-text": events(b"data: " + OK.replace(b"ID", b'"ID"') + b"\n\n"),
    "events-id-null": events(b"data: " + OK.replace(b"ID", b"null") + b"\n\n"),
    "events-error-null-id": events(
        b'data: {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"it broke"}}\n\n'
    ),
    "events-batch": events(b"data: [FINE]\n\n"),
    "events-twice": events(b"data: FINE\n\ndata: FINE\n\n"),
    "events-error": events(b'data: {"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"it broke"}}\n\n'),
    "events-named-error": events(b"event: error\ndata: it broke\n\n"),
    "events-upper-case-fields": events(b"DATA: FINE\n\n"),
    "events-spaces": events(b"data:   FINE   \n\n"),
    "events-tab": events(b"data:\tFINE\n\n"),
    "events-empty-data": events(b"data:\n\ndata\n\ndata: FINE\n\n"),
    "events-primed": events(b"id: 1\nretry: 10\ndata:\n\n"),
    "events-primed-answer": events(b"id: 1\nretry: 10\ndata:\n\nid: 2\ndata: FINE\n\n"),
    "events-retry-negative": events(b"retry: -1\nid: 5\ndata: FINE\n\n"),
    "events-long-comment": events(b": " + b"x" * 2_000_000 + b"\n\ndata: FINE\n\n"),
    "events-mixed-ends": events(b"event: message\rdata: FINE\r\n\n"),
    "events-requests": events(b'data: {"jsonrpc":"2.0","id":ID,"method":"ping"}\n\n' * 20 + b"data: FINE\n\n"),
    "events-progress": events(
        b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":"x"}}\n\n'
        b"data: FINE\n\n"
    ),
    "events-nan": events(b'data: {"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"n":NaN}}}\n\n'),
    "events-result-null": events(b'data: {"jsonrpc":"2.0","id":ID,"result":null}\n\n'),
    "events-no-result": events(b'data: {"jsonrpc":"2.0","id":ID}\n\n'),
    "events-deep": events(b'data: {"jsonrpc":"2.0","id":ID,"result":' + b"[" * 50_000 + b"\n\n"),
    "events-bad-utf-8": events(b"data: " + OK.replace(b"fine", b"f\xff\xfene") + b"\n\n"),
    "events-no-newline-long": events(b"data: " + b"x" * 2_000_000),
}


def megabytes() -> bytes:
    parts = ",".join(f'{{"n":{number},"t":"some text","l":[1,2]}}' for number in range(100_000))
    return b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"all":[' + parts.encode() + b"]}}}"


LARGE: dict[str, Callable[[], bytes]] = {
    "large": lambda: whole(megabytes()),
    "large-cut": lambda: whole(megabytes()[:-4]),
    "large-text": lambda: whole(OK.replace(b"fine", b"x" * 4_000_000)),
    "large-events": lambda: events(b"id: 7\nevent: message\ndata: " + megabytes() + b"\n\n"),
    "large-events-in-lines": lambda: events(b"data: " + megabytes().replace(b"},", b"},\r\ndata: ") + b"\r\n\r\n"),
    "large-events-cut": lambda: events(b"data: " + megabytes()[:-4] + b"\n\n"),
    "large-events-text": lambda: events(b"data: " + OK.replace(b"fine", b"x" * 4_000_000) + b"\n\n"),
    "many-events": lambda: events(
        b'data: {"jsonrpc":"2.0","method":"notifications/made-up"}\n\n' * 20_000 + b"data: " + OK + b"\n\n"
    ),
}
"""Some megabytes, each made when it is asked for."""


def response(mode: str, request_id: Any) -> bytes:
    if mode in LARGE:
        return LARGE[mode]().replace(b'"id":ID', b'"id":' + json.dumps(request_id).encode())
    return RAW[mode].replace(b"FINE", OK).replace(b"ID", json.dumps(request_id).encode())
