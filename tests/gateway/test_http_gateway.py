"""The gateway over HTTP: tokens, hosts and origins, sessions of clients, and an external authorization server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from mcp import Client
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import ConfigError
from mcpagent.gateway.gateway_options import GatewayOptions
from mcpagent.gateway.gateway_server import GatewayServer
from mcpagent.gateway.http_gateway import HttpAccess, http_app, http_server
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.values.events import ignore
from tests.gateway.behind import folders, text_of, until
from tests.gateway.test_asking_client import Answering
from tests.servers.everyday import everyday, serving
from tests.servers.talkative import build
from tests.tables import each_row

TOKEN = "a-token-of-the-tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@contextlib.asynccontextmanager
async def listening(
    tmp_path: Path, *servers: ServerConfig, access: HttpAccess | None = None, **options: Any
) -> AsyncIterator[tuple[str, GatewayServer]]:
    """The address of a gateway over HTTP."""
    stored = ServerOptions.stored(folders(tmp_path))
    served = http_server(ServersConfig(servers), stored, GatewayOptions(**options), emit=ignore)
    async with serving(lambda _: http_app(served, access or HttpAccess(token=TOKEN))) as address:
        await served.gateway._common.settled()
        yield address, served


@contextlib.asynccontextmanager
async def connected(address: str, mode: str = "auto", headers: Any = None, **callbacks: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers or BEARER, timeout=30) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=mode, **callbacks) as client,
    ):
        yield client


@each_row(
    "headers, status",
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        (BEARER, 200),
        ({**BEARER, "Host": "evil.example"}, 421),
        ({**BEARER, "Origin": "https://evil.example"}, 403),
        ({**BEARER, "Origin": "https://good.example"}, 200),
    ],
)
async def test_t31_a_request_needs_a_token_our_host_and_a_known_origin(
    headers: Any, status: int, tmp_path: Path
) -> None:
    access = HttpAccess(token=TOKEN, origins=("https://good.example",))
    async with listening(tmp_path, access=access) as (address, _), httpx2.AsyncClient() as http:
        answer = await http.post(f"{address}/mcp", json=HELLO, headers=JSON | headers)
        assert answer.status_code == status
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer")


@each_row(
    "access, own, others",
    [
        ({}, "127.0.0.1 localhost:80 [::1]:9 LOCALHOST", "10.0.0.7 evil.example evil.example:8765 0.0.0.0"),
        ({"host": "10.0.0.7"}, "10.0.0.7 10.0.0.7:80", "10.0.0.8 localhost 127.0.0.1"),
        ({"host": "box.example", "names": ("Tools.example",)}, "box.example TOOLS.example:1", "example 10.0.0.7"),
        (
            {"host": "0.0.0.0"},
            "127.0.0.1 localhost 10.0.0.7:8765 [fd00::7]:8765 [::1] {machine} {machine}.local:80",
            "evil.example evil.example:8765 10.0.0.7.evil.example 127.0.0.1.nip.io 10.0.0.7:x 10.0.0.7/a "
            "evil@10.0.0.7 010.0.0.7 2130706433 0x7f.1 [fd00::7 localhost.evil.example",
        ),
        ({"host": "::", "names": ("tools.example",)}, "[fd00::7]:8765 10.0.0.7 tools.example", "evil.example"),
        (
            {"issuer": "https://a.example", "resource": "https://tools.example/mcp"},
            "tools.example tools.example:443 localhost",
            "a.example",
        ),
    ],
)
def test_t11_a_host_is_an_address_that_a_client_may_use_and_never_a_foreign_name(
    access: dict[str, Any], own: str, others: str
) -> None:
    found = HttpAccess(token=TOKEN, **access)
    named = own.format(machine=socket.gethostname()).split()
    assert [host for host in named if not found.is_own(host)] == []
    assert [host for host in (*others.split(), "", " ") if found.is_own(host)] == []


async def test_t11_a_gateway_that_listens_everywhere_checks_names_at_every_path(tmp_path: Path) -> None:
    access = HttpAccess(host="0.0.0.0", token=TOKEN)
    async with listening(tmp_path, access=access) as (address, _), httpx2.AsyncClient() as http:
        for host, status in (("10.1.2.3:8765", 200), ("evil.example:8765", 421)):
            headers = JSON | BEARER | {"Host": host}
            assert (await http.post(f"{address}/mcp", json=HELLO, headers=headers)).status_code == status
            assert (await http.get(f"{address}/metrics", headers=headers)).status_code == status


async def test_metrics_need_the_token_and_count_calls(tmp_path: Path) -> None:
    async with everyday("http") as url, listening(tmp_path, ServerConfig("every", url=url), mode="all") as (address, _):
        async with connected(address) as client:
            await client.list_tools()
            assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
        async with httpx2.AsyncClient() as http:
            assert (await http.get(f"{address}/metrics")).status_code == 401
            text = (await http.get(f"{address}/metrics", headers=BEARER)).text
        assert 'mcpagent_gateway_calls_total{tool="every__add",outcome="answered"} 1' in text


@each_row("version", ["legacy", "auto"])
async def test_t31_a_question_reaches_only_the_client_that_called(version: str, tmp_path: Path) -> None:
    """Both clients call at the same time, and each server of before 2026 asks on the connection of its client."""
    people = [Answering(), Answering("decline")]
    async with serving(lambda _: build().streamable_http_app()) as talk:
        config = ServerConfig("talk", url=f"{talk}/mcp", era="legacy")
        async with listening(tmp_path, config, mode="all") as (address, _), contextlib.AsyncExitStack() as stack:
            clients = []
            for number, person in enumerate(people):
                only: dict[str, Any] = {"elicitation_callback": person.elicit}
                if number:
                    only["sampling_callback"] = person.sample
                clients.append(await stack.enter_async_context(connected(address, version, **only)))
            asked = [client.call_tool("talk__ask_person", {}) for client in clients]
            answers = [text_of(answer) for answer in await asyncio.gather(*asked)]
            assert answers == ["accept name='Ada' nickname='none'", "decline None"]
            assert [len(person.asked) for person in people] == [1, 1]


async def test_clients_without_answers_share_one_connection(tmp_path: Path) -> None:
    async with (
        everyday("http") as url,
        listening(tmp_path, ServerConfig("every", url=url), mode="all") as (address, served),
        connected(address, "legacy") as one,
        connected(address, "legacy") as two,
        connected(address) as three,
    ):
        for client in (one, two, three):
            assert text_of(await client.call_tool("every__add", {"a": 1})) == "2"
        assert len(served.gateway.clients) == 3
        assert served.gateway._own == {}


class Authority:
    """An authorization server: its keys and metadata, and tokens that it signs."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.address = ""

    def app(self, address: str) -> Starlette:
        self.address = address
        public = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        keys = {"keys": [{**public, "kid": "one", "use": "sig", "alg": "ES256"}]}

        async def metadata(_: Any) -> JSONResponse:
            return JSONResponse({"issuer": address, "jwks_uri": f"{address}/keys"})

        async def jwks(_: Any) -> JSONResponse:
            return JSONResponse(keys)

        place = "/.well-known/oauth-authorization-server"
        return Starlette(routes=[Route(place, metadata), Route("/keys", jwks)])

    def token(self, **claims: Any) -> dict[str, str]:
        usual = {"iss": self.address, "aud": "https://tools.example/mcp", "sub": "ann", "exp": time.time() + 60}
        claims = {name: value for name, value in (usual | claims).items() if value is not None}
        signed = jwt.encode(claims, self.key, algorithm="ES256", headers={"kid": claims.pop("kid", "one")})
        return {"Authorization": f"Bearer {signed}"}


async def test_a_token_of_the_authorization_server_is_checked(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority.app):
        access = HttpAccess(issuer=authority.address, resource="https://tools.example/mcp")
        async with listening(tmp_path, access=access) as (address, _), httpx2.AsyncClient() as http:
            other = Authority()
            other.address = authority.address
            unsigned = jwt.encode({"sub": "ann"}, "", algorithm="none")
            rows: list[tuple[dict[str, str], int]] = [
                (authority.token(), 200),
                (authority.token(aud="https://other.example"), 401),
                (authority.token(iss="https://other.example"), 401),
                (authority.token(exp=time.time() - 60), 401),
                (authority.token(exp=None), 401),
                (authority.token(sub=None), 401),
                (authority.token(kid="two"), 401),
                (other.token(), 401),
                ({"Authorization": f"Bearer {unsigned}"}, 401),
            ]
            for headers, status in rows:
                answer = await http.post(f"{address}/mcp", json=HELLO, headers=JSON | headers)
                assert answer.status_code == status, headers
            refused = await http.post(f"{address}/mcp", json=HELLO, headers=JSON)
            place = "/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="https://tools.example{place}"' in refused.headers["www-authenticate"]
            metadata = (await http.get(f"{address}{place}")).json()
            assert metadata["resource"] == "https://tools.example/mcp"
            assert [url.rstrip("/") for url in metadata["authorization_servers"]] == [authority.address]


async def test_t31_a_session_belongs_to_the_holder_of_its_token(tmp_path: Path) -> None:
    authority = Authority()
    async with serving(authority.app):
        access = HttpAccess(issuer=authority.address, resource="https://tools.example/mcp")
        async with listening(tmp_path, access=access) as (address, _), httpx2.AsyncClient() as http:
            greeted = await http.post(f"{address}/mcp", json=HELLO, headers=JSON | authority.token())
            session = {"Mcp-Session-Id": greeted.headers["mcp-session-id"]}
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            for sub, status in (("ann", 200), ("eve", 404)):
                headers = JSON | session | authority.token(sub=sub)
                answer = await http.post(f"{address}/mcp", json=ping, headers=headers)
                assert answer.status_code == status, sub


async def test_a_header_makes_nobody_another_client(tmp_path: Path) -> None:
    """Requests of 2026 have no session: a header that names one, or the key of a client, changes nothing."""
    authority = Authority()
    async with serving(authority.app):
        access = HttpAccess(issuer=authority.address, resource="https://tools.example/mcp")
        async with listening(tmp_path, access=access) as (address, served):
            async with connected(address, headers=authority.token(sub="ann")) as ann:
                await ann.list_tools()
            clients = served.gateway.clients
            [key] = clients
            for session in (key, "other"):
                header = {"Mcp-Session-Id": session}
                async with connected(address, headers=authority.token(sub="eve") | header) as eve:
                    await eve.list_tools()
                assert len(clients) == 2
                assert sum("eve" in key for key in clients) == 1


async def test_a_client_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    async with listening(tmp_path, gone_seconds=0.2) as (address, served):
        async with connected(address, "legacy") as client:
            await client.list_tools()
            assert served.gateway.clients
        await until(lambda: not served.gateway.clients)
        async with connected(address, "legacy") as client:
            assert (await client.list_tools()).tools


async def test_a_subscription_lasts_while_another_request_of_the_client_needs_it(tmp_path: Path) -> None:
    """Two programs with one token are one client of 2026."""
    async with serving(lambda _: build().streamable_http_app()) as talk:
        config = ServerConfig("talk", url=f"{talk}/mcp")
        async with (
            listening(tmp_path, config, mode="all") as (address, served),
            connected(address) as one,
            connected(address) as two,
        ):
            async with one.listen(resource_subscriptions=["notes://monday"]) as changes:
                [client] = served.gateway.clients.values()
                async with two.listen(resource_subscriptions=["notes://monday"]):
                    assert client.listening["notes://monday"] == 2
                await until(lambda: client.listening["notes://monday"] == 1)
                await two.call_tool("talk__touch", {"uri": "notes://monday"})
                async with asyncio.timeout(20):
                    async for change in changes:
                        assert "notes://monday" in repr(change)
                        break
            await until(lambda: not client.subscribed)


async def test_each_client_gets_messages_of_its_own_level(tmp_path: Path) -> None:
    """The clients share a connection, whose level is the lowest of theirs."""
    heard: list[list[Any]] = [[], []]
    async with serving(lambda _: build().streamable_http_app()) as talk:
        config = ServerConfig("talk", url=f"{talk}/mcp", era="legacy")
        async with listening(tmp_path, config, mode="all") as (address, served), contextlib.AsyncExitStack() as stack:
            for level, messages in zip(("debug", "error"), heard, strict=True):

                async def note(params: Any, messages: list[Any] = messages) -> None:
                    messages.append(params)

                client = await stack.enter_async_context(connected(address, "legacy", logging_callback=note))
                await client.set_logging_level(level)  # type: ignore[arg-type]
            assert served.gateway._common.servers.links["talk"].config.log_level == "debug"
            assert text_of(await client.call_tool("talk__work", {"count": 2})) == "done"
            await until(lambda: heard[0])
        assert heard[1] == []


def test_a_gateway_over_http_is_never_open_to_everybody() -> None:
    with pytest.raises(ConfigError, match="MCPAGENT_GATEWAY_TOKEN"):
        HttpAccess()
    with pytest.raises(ConfigError, match="belong together"):
        HttpAccess(issuer="https://a.example")
