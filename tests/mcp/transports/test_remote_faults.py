"""Every wrong way to answer over HTTP ends its call with a result or a named error, at once, and the next call works.

The modes are those of `servers/hostile_http.py`. What is not named here as an exception must give the text "fine".
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.messages import Text
from mcpagent.values.tools import ToolOutput
from tests.mcp.at_once import at_once, one_by_one
from tests.servers.faulty_http import faulty_http
from tests.servers.hostile_http import LARGE, RAW, STATUSES
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

REFUSED = {401, 403, 405, 406, 411, 413, 415, 421, 426, 431, 505}
"""With these a request was not run; with any other it may have been."""

DOWN: dict[str, str] = {
    **{f"status-{code}": f"answered HTTP {code} Reason: no during" for code in STATUSES},
    "status-without-reason": "answered HTTP 500: no during",
    "status-999": "answered HTTP 999 Reason: no during",
    "status-204": "answered HTTP 204 No Content, which is no answer",
    "status-300": "answered HTTP 300 Multiple Choices, which is no answer",
    "status-304": "answered HTTP 304 Not Modified, which is no answer",
    **{f"redirect-{kind}": "answered HTTP 302 Found, which is no answer" for kind in ("nowhere", "bad", "file")},
    "redirect-to-ftp": "answered HTTP 307 Temporary, which is no answer",
    "305": "answered HTTP 305 ",
    "308-other-origin": "answered HTTP 308 Permanent: Redirect to https://127.0.0.1:9/mcp not followed; use that URL",
    "308-relative-loop": "redirects more than 5 times, last to http://127.0.0.1:",
    "401-asks-for-a-token": "answered HTTP 401 Unauthorized",
    "401-odd-challenge": "answered HTTP 401 Unauthorized",
    **{f"429-retry-{kind}": "answered HTTP 429 Slow during" for kind in ("text", "negative", "huge")},
    "503-retry-date-bad": "answered HTTP 503 Busy during",
    "500-html": "answered HTTP 500 Oops: <html><h1>Oops</h1>",
    "500-long": "answered HTTP 500 Oops",
    "type-events-body-json": "closed the connection during",
    "length-long": "answer cut off: ",
    **{f"length-{kind}": "connection lost: " for kind in ("negative", "text", "twice")},
    "length-and-chunks": "answered with what is no answer instead of JSON-RPC: nothing",
    **{f"chunk-{kind}": "answer cut off: " for kind in ("cut", "size-bad", "size-huge", "no-end")},
    "gzip-not": "answer is not valid gzip",
    "gzip-cut": "answer is cut off: its gzip data has no end",
    "brotli": "answer is encoded as br, which was not asked for",
    "encoding-odd": "answer is encoded as rot13, which was not asked for",
    **{f"head-{kind}": "connection lost: " for kind in ("cut", "without-colon", "huge", "bad-bytes")},
    **dict.fromkeys(("no-response", "not-http", "http-0.9", "http-2", "tls"), "connection lost: "),
    "session-long": "sent an illegal Mcp-Session-Id header",
    "session-empty": "sent an illegal Mcp-Session-Id header",
    "body-empty": "answered with what is no answer instead of JSON-RPC: nothing",
    "body-null": "answered with what is no answer instead of JSON-RPC: null",
    "body-number": "answered with what is no answer instead of JSON-RPC: 7",
    "body-bytes": "answered with what is no answer instead of JSON-RPC: ",
    "body-deep": "answered with what is no answer instead of JSON-RPC: [[[",
    "body-request": "answered with what is no answer instead of JSON-RPC: ",
    **{
        f"events-{kind}": "closed the connection during"
        for kind in ("empty", "only-comments", "cut", "no-blank-line", "other-name", "bytes", "no-newline-long")
    },
}
DOWN |= {
    "head-blank-lines-first": "connection lost: ",
    "head-no-version": "connection lost: ",
    **{f"status-{kind}": "connection lost: " for kind in ("101", "099", "text")},
    "202-with-an-answer": "answered HTTP 202 Accepted, which is no answer",
    "205": "answered HTTP 205 Reset Content, which is no answer",
    "403-origin": "answered HTTP 403 Forbidden: Invalid Origin header",
    "404-json-rpc": "answered HTTP 404 No: ",
    "500-json-rpc": "answered HTTP 500 Oops: ",
    "events-other-id": "sent no answer: its stream answers request 999999, not ",
    "body-other-id": "sent no answer: its body answers request 999999, not ",
    **dict.fromkeys(("deflate", "body-utf-16"), "sent no answer: its body answers request 0, not "),
    "429-retry-zero": "answered HTTP 429 Slow (retry after 0 s)",
    "500-answer": "answered HTTP 500 Oops",
    "502-html-cut": "answered HTTP 502 Bad Gateway",
    "503-events": "answered HTTP 503 Busy",
    "type-form": "answered with application/x-www-form-urlencoded instead of JSON-RPC: a=b",
    "length-zero": "answered with what is no answer instead of JSON-RPC: nothing",
    **{f"length-{kind}": "connection lost: " for kind in ("huge", "plus")},
    "chunks-with-extensions": "answered with what is no answer instead of JSON-RPC: {}",
    **dict.fromkeys(("chunks-twice", "transfer-identity", "transfer-gzip"), "connection lost: "),
    "gzip-twice": "answer is encoded as gzip, gzip, which was not asked for",
    **dict.fromkeys(
        ("gzip-unsaid", "body-string", "body-array-empty", "body-notification", "body-blank"),
        "answered with what is no answer instead of JSON-RPC: ",
    ),
    **{f"events-{kind}": "closed the connection during" for kind in ("named-error", "upper-case-fields", "primed")},
}
TIMES = {"429-retry-zero": 3, "308-relative-loop": 6}
"""How often the server got the call, where it was not run the times before."""
FAILED: dict[str, str] = {
    **dict.fromkeys(("401-json-rpc", "410-json-rpc", "events-error", "events-error-null-id"), "it broke"),
    "gzip-events": "sent an invalid answer to tools/call",
    "body-id-null": "it has no usable id",
    "events-id-null": "it has no usable id",
    "events-result-null": 'its "result" is null, not an object',
    "events-no-result": 'it has no "result"',
    "events-deep": "its JSON nests too deeply",
    "400-json-rpc-null-id": "it broke",
    "body-error-null-id": "it broke",
    "length-short": "sent an invalid answer",
    "body-no-id": "it has no usable id",
    "events-junk": "sent an invalid answer to tools/call",
}
OTHER = {
    "events-several-lines": "",
    "body-latin": "f\ufffdne",
    "body-nan": '{"n": null}',
    "events-nan": '{"n": null}',
    "events-bad-utf-8": "f\ufffd\ufffdne",
}


def text_of(output: ToolOutput) -> str:
    return "\n".join(part.text for part in output.content if isinstance(part, Text))


def config(url: str, **settings: Any) -> ServerConfig:
    limits = {"connect_timeout_seconds": 60.0, "timeout_seconds": 60.0, "total_timeout_seconds": 90.0}
    return ServerConfig("h", url=url, **(limits | settings))


@pytest.mark.slow
async def test_each_response_ends_its_call_at_once(
    subtests: pytest.Subtests, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (DOWN.keys() | FAILED.keys() | OTHER.keys()) <= RAW.keys()
    async with (
        nothing_left(),
        faulty_http("any") as server,
        ServerLink(config(server.url)) as toolset,
    ):
        tools = {tool.name: tool for tool in await toolset.tools()}
        for mode in RAW:
            with subtests.test(mode):
                before = server.troubles
                output = await tools["trouble"].run({"text": mode})
                text = text_of(output)
                if mode in DOWN:
                    assert output.error == "server_down"
                    assert text.startswith('server "h" ')
                    assert DOWN[mode] in text
                    assert text.isprintable()
                elif mode in FAILED:
                    assert output.error == "failed"
                    assert FAILED[mode] in text
                else:
                    assert (output.error, text) == (None, OTHER.get(mode, "fine"))
                if mode.startswith("status-") and mode[7:].isdigit() and int(mode[7:]) in STATUSES:
                    assert ("may have run" in text) == (int(mode[7:]) not in REFUSED)
                assert server.troubles - before == TIMES.get(mode, 1)
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                assert text_of(await tools["echo"].run({"text": "next"})) == "next"
    assert capfd.readouterr() == ("", "")


@asynccontextmanager
async def apart() -> AsyncIterator[str]:
    """The address of a server in another process."""
    root = Path(__file__).resolve().parents[3]
    command = (sys.executable, "-m", "tests.servers.faulty_http")
    process = await asyncio.create_subprocess_exec(*command, cwd=root, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().strip()
        yield url
    finally:
        process.kill()
        await process.wait()


PARTS = '{"all":[{"n":0,"t":"some text","l":[1,2]},'
"""As the server wrote it: so many values are over the budget for data."""

EXPECTED_OF_LARGE: dict[str, tuple[str | None, str]] = {
    "large": (None, PARTS),
    "large-cut": ("failed", 'server "h" sent an invalid answer to tools/call "trouble": it is not valid JSON ('),
    "large-text": (None, "x" * 4_000_000),
    "large-events": (None, PARTS),
    "large-events-in-lines": (None, PARTS),
    "large-events-cut": ("failed", 'server "h" sent an invalid answer to tools/call "trouble": it is not valid JSON ('),
    "large-events-text": (None, "x" * 4_000_000),
    "many-events": (None, "fine"),
}


@pytest.mark.slow
async def test_megabytes_of_it_do_not_hold_the_loop() -> None:
    async def ends(mode: str) -> None:
        output = await tools["trouble"].run({"text": mode})
        error, text = EXPECTED_OF_LARGE[mode]
        assert output.error == error
        assert text_of(output).startswith(text)
        assert text_of(await tools["echo"].run({"text": "next"})) == "next"

    async with nothing_left(), apart() as url, ServerLink(config(url)) as toolset:
        tools = {tool.name: tool for tool in await toolset.tools()}
        await one_by_one(ends, LARGE)


# --- connecting ---


async def failure(url: str, **settings: Any) -> str:
    with pytest.raises(ServerError) as caught:
        await ServerLink(config(url, **settings)).__aenter__()
    assert str(caught.value).startswith('server "h" ')
    assert str(caught.value).isprintable()
    return str(caught.value)


async def test_a_name_that_nobody_has() -> None:
    async with nothing_left():
        assert "cannot be reached: ConnectError" in await failure("http://does-not-exist.invalid/mcp")


async def test_tls_where_there_is_none() -> None:
    async with nothing_left(), await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        assert "cannot be reached: " in await failure(f"https://localhost:{port_of(server)}/mcp")


async def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path / "certificate.pem"))
    async with nothing_left(), await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context) as server:
        assert "CERTIFICATE_VERIFY_FAILED" in await failure(f"https://localhost:{port_of(server)}/mcp")


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


def self_signed(path: Path) -> Path:
    """A key and a certificate for localhost that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(pem, pkcs8, plain) + certificate.public_bytes(pem))
    return path


async def test_a_server_that_answers_slower_than_anyone_waits() -> None:
    firsts = [b"", b"HTTP/1.1 200 OK\r\nContent-Ty", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
    async with nothing_left():
        await at_once(waited_for, firsts)


async def waited_for(first: bytes) -> None:
    open_writers: list[asyncio.StreamWriter] = []

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        writer.write(first)

    async with await asyncio.start_server(hold, "127.0.0.1", 0) as server:
        said = await failure(f"http://127.0.0.1:{port_of(server)}/mcp", connect_timeout_seconds=1.0)
        assert "did not answer within 1 s" in said
        for writer in open_writers:
            writer.close()


@each_row(
    "reply, expected",
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "answered HTTP 401"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "answered HTTP 403 Forbidden: no"),
        (
            b"HTTP/1.1 429 Slow\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n",
            "answered HTTP 429 Slow (retry after 3600 s)",
        ),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "answered HTTP 500 Oops"),
        (b"SSH-2.0-OpenSSH\r\n", "RemoteProtocolError"),
        (b"", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>", "text/html"),
    ],
)
async def test_what_answers_the_greeting_wrongly_is_named(reply: bytes, expected: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    async with nothing_left(), await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        assert expected in await failure(f"http://127.0.0.1:{port_of(server)}/mcp")


# --- the older transport: one stream of events, requests by POST ---

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


WRONG_STREAMS = [
    (STREAM + b"event: endpoint\ndata: http://127.0.0.2:9/steal\n\n", "names an endpoint on another origin"),
    (STREAM + b"event: hello\ndata: x\n\n", "did not answer within 1 s"),
    (STREAM, "did not answer within 1 s"),
    (STREAM + b"event: endpoint\ndata: /messages\n\n", "did not answer within 1 s"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", "answered with text/html instead"),
    (b"HTTP/1.1 404 Nope\r\nContent-Length: 4\r\n\r\nnope", "answered HTTP 404: nope"),
    (
        b"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.2:9/\r\nContent-Length: 0\r\n\r\n",
        "302 Go: Redirect to http://127.0.0.2:9/ not followed",
    ),
    (
        b"HTTP/1.1 308 Go\r\nLocation: /sse?to=it\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        "redirects more than 5 times, last to http://127.0.0.1:",
    ),
]


async def test_an_event_stream_that_goes_wrong_is_named() -> None:
    async with nothing_left():
        await at_once(named, WRONG_STREAMS)


async def named(stream: bytes, expected: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            writer.write(stream)
            if b"Connection: close" not in stream:
                await reader.read()  # until the client has had enough
        else:
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{port_of(server)}/sse"
        seconds = 1.0 if "within 1 s" in expected else 30.0
        assert expected in await failure(url, transport="sse", connect_timeout_seconds=seconds)


async def test_an_event_stream_that_breaks_costs_its_calls_and_a_new_one_is_opened() -> None:
    streams: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            streams.append(writer)
            writer.write(STREAM + b"event: endpoint\ndata: /messages\n\n")
            await reader.read()
            writer.close()
            return
        length = next(
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")
        )
        message = json.loads(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        if message.get("method") == "tools/call" and len(streams) == 1:
            streams[-1].transport.abort()
        elif "id" in message:
            streams[-1].write(b"data: " + json.dumps(legacy_answer(message)).encode() + b"\n\n")

    async with (
        nothing_left(),
        await asyncio.start_server(answer, "127.0.0.1", 0) as server,
        ServerLink(config(f"http://127.0.0.1:{port_of(server)}/sse", transport="sse")) as toolset,
    ):
        (tool,) = await toolset.tools()
        lost = await tool.run({})
        assert lost.error == "server_down"
        assert "may have run" in text_of(lost)
        assert text_of(await tool.run({})) == "fine"
        assert len(streams) == 2


def legacy_answer(message: dict[str, Any]) -> dict[str, Any]:
    info = {"name": "old", "version": "1"}
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [{"name": "any", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "fine"}]},
    }
    return {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
