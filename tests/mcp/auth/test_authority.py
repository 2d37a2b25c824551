"""Which addresses of an authorization server are asked, and which answers of it are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_address

import httpx2
import pytest

from mcpagent.config import ServerConfig
from mcpagent.mcp.auth.addresses import Address, Resolve
from mcpagent.mcp.auth.authority import MAX_ANSWER_BYTES, CheckedTransport, refusal_of
from tests.tables import each_row


@each_row(
    "address, server, expected",
    [
        ("https://auth.example/token", "https://mcp.example/mcp", None),
        ("http://mcp.example/token", "http://mcp.example/mcp", None),
        ("http://auth.example/token", "https://mcp.example/mcp", "is not https"),
        ("ftp://auth.example/token", "https://mcp.example/mcp", "is not https"),
        ("file:///etc/passwd", "https://mcp.example/mcp", "is not https"),
        ("http://127.0.0.1:8/token", "http://localhost:9/mcp", None),
        ("http://127.0.0.1:8/token", "https://mcp.example/mcp", "is on this machine, and the server is not"),
        ("https://localhost/token", "https://mcp.example/mcp", "is on this machine, and the server is not"),
        ("https://0.0.0.0/token", "https://mcp.example/mcp", "is on this machine, and the server is not"),
        ("http://[::1]/token", "https://mcp.example/mcp", "is on this machine, and the server is not"),
        ("http://169.254.169.254/latest", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://169.254.169.254/latest", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[fe80::1]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[::ffff:169.254.169.254]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[64:ff9b::a9fe:a9fe]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[2002:a9fe:a9fe::]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[::169.254.169.254]/x", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://2852039166/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[fd00:ec2::254]/x", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://100.100.100.200/x", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://192.0.0.192/x", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://[fd20:ce::254]/x", "http://127.0.0.1/mcp", "is a link-local address"),
        ("https://[::ffff:0:169.254.169.254]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[2001:4860::5efe:169.254.169.254]/x", "https://mcp.example/mcp", "is a link-local address"),
        ("https://[::ffff:0:127.0.0.1]/x", "https://1.1.1.1/mcp", "is on this machine, and the server is not"),
        ("https://[64:ff9b:1::8.8.8.8]/x", "https://1.1.1.1/mcp", "is in a private network, and the server is not"),
        ("https://[64:ff9b::8.8.8.8]/x", "https://1.1.1.1/mcp", None),
        ("https://[fec0::1]/x", "https://1.1.1.1/mcp", "is in a private network, and the server is not"),
        *(
            (f"https://{host}/x", "https://mcp.example/mcp", "is on this machine, and the server is not")
            for host in ("127.1", "0x7f.1", "2130706433", "localhost.", "LOCALHOST", "a.localhost.", "0")
        ),
        ("https://user@auth.example/x", "https://mcp.example/mcp", "has a user or a password in it"),
        ("https://a:b@mcp.example/x", "https://mcp.example/mcp", "has a user or a password in it"),
        ("https://0177.0.0.1/x", "https://mcp.example/mcp", "is no address"),
        ("https://[::bad/x", "https://mcp.example/mcp", "is no address"),
        ("https://[::ffff:127.0.0.1]/x", "https://mcp.example/mcp", "is on this machine, and the server is not"),
        ("https://10.0.0.1/x", "https://1.1.1.1/mcp", "is in a private network, and the server is not"),
        ("https://[fd12::1]/x", "https://1.1.1.1/mcp", "is in a private network, and the server is not"),
        ("https://100.64.0.1/x", "https://1.1.1.1/mcp", "is in a private network, and the server is not"),
        ("https://127.0.0.1/x", "https://10.0.0.1/mcp", "is on this machine, and the server is not"),
        ("https://10.0.0.2/x", "https://10.0.0.1/mcp", None),
        ("https://10.0.0.2/x", "http://127.0.0.1/mcp", None),
        ("http://10.0.0.2/x", "http://127.0.0.1/mcp", "is not https"),
    ],
)
def test_t8_which_addresses_of_an_authority_are_asked(address: str, server: str, expected: str | None) -> None:
    assert refusal_of(address, server) == expected


def checked(answer: httpx2.Response, seconds: float = 20.0) -> httpx2.AsyncClient:
    config = ServerConfig("far", url="https://mcp.example/mcp", connect_timeout_seconds=seconds)
    inner = httpx2.MockTransport(lambda _: answer)
    return httpx2.AsyncClient(transport=CheckedTransport(config, inner, resolve=names_of({})))


def names_of(places: dict[str, list[str]]) -> Resolve:
    """A network's names, by what they lead to; any other leads somewhere far."""

    async def resolve(host: str, _: int) -> list[Address]:
        return [ip_address(text) for text in places.get(host, ["93.184.216.34"])]

    return resolve


@each_row(
    "leads_to, expected",
    [
        (["93.184.216.34"], None),
        (["10.0.0.7"], "is in a private network, and the server is not"),
        (["93.184.216.34", "10.0.0.7"], "is in a private network, and the server is not"),
        (["127.0.0.1"], "is on this machine, and the server is not"),
        (["::ffff:169.254.169.254"], "is a link-local address"),
        (["169.254.169.254"], "is a link-local address"),
        (["fd00::1"], "is in a private network, and the server is not"),
        ([], "leads nowhere"),
    ],
)
async def test_a_name_is_judged_by_what_it_leads_to_which_is_asked(leads_to: list[str], expected: str | None) -> None:
    asked: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, content=b"here")

    config = ServerConfig("far", url="https://mcp.example/mcp")
    transport = CheckedTransport(
        config, httpx2.MockTransport(answer), resolve=names_of({"auth.example": leads_to, "mcp.example": ["1.1.1.1"]})
    )
    async with httpx2.AsyncClient(transport=transport) as client:
        if expected is None:
            assert (await client.post("https://auth.example:8443/token", content=b"form")).content == b"here"
            (request,) = asked
            assert str(request.url) == "https://93.184.216.34:8443/token"
            assert request.headers["host"] == "auth.example:8443"
            assert request.extensions["sni_hostname"] == "auth.example"
            assert request.content == b"form"
        else:
            with pytest.raises(httpx2.TransportError, match=expected):
                await client.get("https://auth.example/token")
            assert asked == []


class Rebinding:
    """A resolver whose name leads somewhere else each time that it is asked, as a hostile DNS server's does."""

    def __init__(self, *places: str) -> None:
        self.places = [*places]
        self.asked = 0

    async def __call__(self, host: str, _: int) -> list[Address]:
        if host != "auth.example":
            return [ip_address("93.184.216.34")]
        self.asked += 1
        return [ip_address(self.places[min(self.asked, len(self.places)) - 1])]


@each_row("second", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
async def test_t8_a_name_that_leads_elsewhere_the_second_time_gets_nothing_there(second: str) -> None:
    """DNS rebinding: what is connected to is the address that was checked, and each request is checked again."""
    reached: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        reached.append(request.url.host)
        return httpx2.Response(200, content=b"here")

    resolver = Rebinding("93.184.216.34", second)
    config = ServerConfig("far", url="https://mcp.example/mcp")
    transport = CheckedTransport(config, httpx2.MockTransport(answer), resolve=resolver)
    async with httpx2.AsyncClient(transport=transport) as client:
        assert (await client.get("https://auth.example/x")).content == b"here"
        assert (reached, resolver.asked) == (["93.184.216.34"], 1)
        with pytest.raises(httpx2.UnsupportedProtocol):
            await client.post("https://auth.example/token", content=b"code and verifier")
    assert reached == ["93.184.216.34"]


async def test_an_address_that_nobody_answers_at_is_not_the_last() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "2001:4860:4860::8888":
            raise httpx2.ConnectError("no route")
        return httpx2.Response(200, content=request.url.host.encode())

    names = names_of({"auth.example": ["2001:4860:4860::8888", "93.184.216.34"]})
    transport = CheckedTransport(
        ServerConfig("far", url="https://mcp.example/mcp"), httpx2.MockTransport(answer), resolve=names
    )
    async with httpx2.AsyncClient(transport=transport) as client:
        assert (await client.get("https://auth.example/x")).content == b"93.184.216.34"


async def test_a_server_in_a_private_network_has_its_authority_there() -> None:
    config = ServerConfig("near", url="https://mcp.corp.example/mcp")
    places = {"mcp.corp.example": ["10.1.0.1"], "login.corp.example": ["10.2.0.1"], "odd.example": ["127.0.0.1"]}
    names = names_of(places)
    inner = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"here"))
    async with httpx2.AsyncClient(transport=CheckedTransport(config, inner, resolve=names)) as client:
        assert (await client.get("https://login.corp.example/x")).content == b"here"
        with pytest.raises(httpx2.UnsupportedProtocol, match="is on this machine"):
            await client.get("https://odd.example/x")


async def test_an_address_that_is_refused_is_never_asked() -> None:
    async with checked(httpx2.Response(200)) as client:
        with pytest.raises(httpx2.UnsupportedProtocol, match=r"http://auth\.example/x is not https"):
            await client.get("http://auth.example/x")


async def test_an_answer_of_an_authority_is_small_and_plain() -> None:
    async with checked(httpx2.Response(200, content=b"x" * (MAX_ANSWER_BYTES + 1))) as client:
        with pytest.raises(httpx2.DecodingError, match="larger than 1 MiB"):
            await client.get("https://auth.example/x")
    async with checked(httpx2.Response(200, headers={"content-encoding": "gzip"}, stream=Endless())) as client:
        with pytest.raises(httpx2.DecodingError, match="not asked for"):
            await client.get("https://auth.example/x")


class Endless(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data"
        await asyncio.Event().wait()


async def test_an_answer_that_does_not_end_is_ended() -> None:
    async with checked(httpx2.Response(200, stream=Endless()), seconds=0.1) as client:
        with pytest.raises(httpx2.ReadTimeout, match=r"no whole answer within 0\.1 s"):
            await client.get("https://auth.example/x")
        assert (await client.get("https://mcp.example/mcp")).content == b""
