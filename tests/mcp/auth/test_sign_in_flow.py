"""Signing in to a remote server and out again, against a real authorization server on loopback."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.errors import ServerError
from mcpagent.mcp.auth.oauth import LoopbackPage, callback_result
from mcpagent.mcp.auth.sign_in_flow import Registration, SignedIn, loopback_page, sign_in, sign_out
from mcpagent.mcp.auth.sign_ins import SignIn, TokenStorage, address_name
from mcpagent.mcp.auth.stored_auth import StoredSignIn
from mcpagent.mcp.server_link import ServerLink
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import Text
from tests.mcp.at_once import rows_at_once
from tests.servers.everyday import everyday, serving
from tests.servers.guarded import Authority, Documents, guarded
from tests.tables import each_row


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)


class Person:
    """Opens the page and is sent on to the redirect address, as a browser would."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    async def __call__(self, url: str) -> None:
        self.pages.append(url)
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            answer = await browser.get(url)
        assert answer.status_code == 200
        assert "The browser&#x27;s part is done" in answer.text


async def nobody(_: str) -> None:
    """Sees the page and does nothing."""


async def signed_in(
    config: ServerConfig, store: SecretStore, person: Person | None = None, registration: Registration | None = None
) -> SignedIn:
    async with loopback_page(config, store, person or Person(), registration) as page:
        return await sign_in(config, store, page)


@asynccontextmanager
async def guarded_server(authority: Authority) -> AsyncIterator[ServerConfig]:
    async with guarded(authority) as url:
        yield ServerConfig("guarded", url=url)


async def secret(config: ServerConfig, auth: httpx2.Auth) -> str:
    async with ServerLink(config, auth=auth) as toolset:
        (tool,) = await toolset.tools()
        output = await tool.run({})
    return "".join(part.text for part in output.content if isinstance(part, Text))


async def change(store: SecretStore, url: str, *, ends: float) -> None:
    storage = TokenStorage(store, url)
    kept = await storage.load()
    kept.ends = ends
    await storage.save(kept)


# --- in ---------------------------------------------------------------------------------------------------------------


async def test_a_person_signs_in_once_and_every_later_process_uses_it(store: SecretStore) -> None:
    authority, person = Authority(), Person()
    async with guarded_server(authority) as config:
        result = await signed_in(config, store, person)
        assert result.how == "now"
        assert result.kept is not None
        assert [stat.S_IMODE(path.stat().st_mode) for path in result.kept.path.parent.iterdir()] == [0o600]
        for _ in range(2):
            assert await secret(config, StoredSignIn(config, store)) == "42"
        assert (await signed_in(config, store, person)).how == "before"
    assert len(person.pages) == 1
    assert authority.granted == ["code"]
    asked = parse_qs(urlsplit(person.pages[0]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["resource"] == [config.url]


async def test_a_second_sign_in_is_the_same_client(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        authority.access.clear()
        authority.refresh.clear()
        assert (await signed_in(config, store)).how == "now"
        assert len(authority.clients) == 1
        [client] = authority.clients.values()
        assert client.redirect_uris is not None
        with taken(client.redirect_uris[0].port or 0):
            authority.access.clear()
            authority.refresh.clear()
            assert (await signed_in(config, store)).how == "now"
        assert len(authority.clients) == 2


async def test_a_client_registered_by_hand_is_used_as_it_is(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        [known] = authority.clients.values()
        assert known.client_id is not None
        assert known.redirect_uris is not None
        port = known.redirect_uris[0].port or 0
        authority.access.clear()
        authority.refresh.clear()
        by_hand = Registration(known.client_id, known.client_secret, port)
        fresh = SecretStore(Path(store_folder(store)) / "other", keyring=NO_KEYRING)
        assert (await signed_in(config, fresh, registration=by_hand)).how == "now"
        assert len(authority.clients) == 1
        with taken(port), pytest.raises(ServerError, match=f"port {port} of this machine is taken"):
            await signed_in(config, fresh, registration=by_hand)


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Somebody else listens there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield


def store_folder(store: SecretStore) -> Path:
    return store.set("probe", "x").path.parent


async def test_a_server_that_wants_no_sign_in(store: SecretStore) -> None:
    async with everyday("http") as url:
        person = Person()
        assert await signed_in(ServerConfig("open", url=url), store, person) == SignedIn("not wanted")
        assert await secret_of_everyday(ServerConfig("open", url=url), store) == "3"
    assert person.pages == []


async def secret_of_everyday(config: ServerConfig, store: SecretStore) -> str:
    async with ServerLink(config, auth=StoredSignIn(config, store)) as toolset:
        add = next(tool for tool in await toolset.tools() if tool.name == "add")
        output = await add.run({"a": 2})
    return "".join(part.text for part in output.content if isinstance(part, Text))


async def test_nobody_signs_in(store: SecretStore) -> None:
    async with guarded_server(Authority()) as config:
        with pytest.raises(ServerError, match=r"signing in failed: nobody signed in within 0\.1 s"):
            async with loopback_page(config, store, nobody, seconds=0.1) as page:
                await sign_in(config, store, page)


async def test_the_address_that_a_browser_elsewhere_ended_at_can_be_pasted(store: SecretStore) -> None:
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def show(url: str) -> None:
        shown.set_result(url)

    async with guarded_server(Authority()) as config, loopback_page(config, store, show) as page:
        signing_in = asyncio.create_task(sign_in(config, store, page))
        async with httpx2.AsyncClient() as browser:
            ended_at = (await browser.get(await shown)).headers["location"]
        assert page.take("https://example.com/callback?code=1") == (
            f"this is not the address that the browser ends at; it begins with {page.redirect_uri}?"
        )
        assert page.take(f"{page.redirect_uri}?code=1&state=other") == "this address is of another sign-in"
        assert page.take(f"  {ended_at}\n") is None
        assert (await signing_in).how == "now"
        assert await secret(config, StoredSignIn(config, store)) == "42"


async def test_t10_only_the_callback_of_this_sign_in_is_listened_to() -> None:
    async with LoopbackPage(nobody, seconds=20) as page, httpx2.AsyncClient() as browser:
        assert urlsplit(page.redirect_uri).hostname == "127.0.0.1"
        await page.show("http://example.com/authorize?state=s")
        other = page.redirect_uri.replace("/callback", "/favicon.ico")
        assert (await browser.get(other)).status_code == 404
        assert (await browser.post(page.redirect_uri)).status_code == 404
        assert (await browser.get(f"{page.redirect_uri}?code=evil&state=x")).status_code == 404
        assert (await browser.get(f"{page.redirect_uri}?error=access_denied")).status_code == 404
        assert (await browser.get(f"{page.redirect_uri}?code=c&state=s")).status_code == 200
        assert (await browser.get(f"{page.redirect_uri}?code=late&state=s")).status_code == 404
        assert (await page.result()).code == "c"


def test_a_refusal_is_said_in_the_servers_words() -> None:
    with pytest.raises(OAuthFlowError, match=r"The user said no\[31m"):
        callback_result("error=access_denied&error_description=The+user+said+no%1b[31m")


@rows_at_once(
    "query, expected",
    [
        ({"error": "access_denied"}, "Not signed in: access_denied"),
        ({"error_description": "<script>alert(1)</script>", "error": "x"}, "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ({"error_description": '"><img src=x onerror=y>', "error": "x"}, "&quot;&gt;&lt;img src=x onerror=y&gt;"),
        ({}, "Not signed in: no code came back"),
        ({"code": "c"}, "mcpagent reports in its own window whether the sign-in worked"),
        ({"code": "c", "error": "access_denied"}, "Not signed in: access_denied"),
        ({"code": ["c", "d"]}, "Not signed in: its answer has code more than once"),
        ({"code": "c", "iss": ["https://a", "https://b"]}, "Not signed in: its answer has iss more than once"),
        ({"code": "c", "scope": ["a", "b"]}, "The browser&#x27;s part is done"),
    ],
)
async def test_the_page_reports_the_error_that_it_received_escaped(
    query: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    async with LoopbackPage(nobody, seconds=20) as page, httpx2.AsyncClient() as browser:
        await page.show("http://example.com/authorize?state=s")
        answer = await browser.get(page.redirect_uri, params={**query, "state": "s"})
        assert answer.status_code == 200
        assert expected in answer.text
        assert ("Not signed in" in answer.text) is expected.startswith(("Not", "&"))
        assert "Signed in" not in answer.text
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert answer.headers["content-security-policy"] == "default-src 'none'"
        if "Not signed in" in answer.text:
            with pytest.raises(OAuthFlowError):
                await page.result()


TOKEN = "at-Zx81kLmP0qRsT77"
CODE = "code-Zx81kLmP0qRsT77"
GRANTED = {"access_token": TOKEN, "token_type": "Bearer"}
REFUSED = {"error": "invalid_grant", "error_description": f"no {TOKEN} for {CODE}", **GRANTED}
TELLS = "the token endpoint gave no token: "


def granting(path: str, status: int, body: str) -> Callable[[str], Starlette]:
    """A server that sends back a code, and answers with this where tokens or clients are given."""

    def build(address: str) -> Starlette:
        async def refuse(_: Request) -> Response:
            return Response(status_code=401)

        async def describe(request: Request) -> Response:
            found = described(f"{RESOURCE}/mcp", AUTHORITY)(address).get(request.url.path)
            return Response(json.dumps(found), status_code=200 if found else 404)

        async def send_back(request: Request) -> Response:
            query = {"code": CODE, "state": request.query_params["state"]}
            return RedirectResponse(f"{request.query_params['redirect_uri']}?{urlencode(query)}")

        async def give(request: Request) -> Response:
            if request.url.path == path:
                return Response(body, status_code=status, headers={"location": "http://localhost:9/x"})
            asked = json.loads(await request.body())
            return Response(json.dumps({**asked, "client_id": "c"}), status_code=201)

        return Starlette(
            routes=[
                Route("/mcp", refuse, methods=["GET", "POST"]),
                Route("/.well-known/{rest:path}", describe),
                Route("/authorize", send_back),
                Route("/{rest:path}", give, methods=["POST"]),
            ]
        )

    return build


@rows_at_once(
    "path, status, body, expected",
    [
        ("/token", 400, json.dumps(GRANTED), f"{TELLS}HTTP 400"),
        ("/token", 307, json.dumps(GRANTED), f"{TELLS}HTTP 307"),
        ("/token", 400, json.dumps(REFUSED), f"{TELLS}HTTP 400: invalid_grant: no [redacted] for [redacted]"),
        ("/token", 200, f"<html>{TOKEN}", f"{TELLS}Invalid JSON"),
        ("/token", 200, json.dumps({**GRANTED, "token_type": TOKEN}), f"{TELLS}token_type: "),
        ("/token", 200, json.dumps({**GRANTED, "access_token": f"{TOKEN}\r\nX: 1"}), f"{TELLS}access_token: "),
        ("/token", 200, json.dumps({**GRANTED, "access_token": ""}), f"{TELLS}access_token: "),
        ("/token", 400, "[" * 20_000 + TOKEN, f"{TELLS}HTTP 400"),
        ("/register", 400, json.dumps({"client_secret": TOKEN}), "it registered no client: HTTP 400; a client"),
        ("/register", 201, f"<html>{TOKEN}", "it registered no client: "),
    ],
)
async def test_no_body_of_an_authority_gets_into_an_error_or_the_log(
    path: str, status: int, body: str, expected: str, tmp_path: Path
) -> None:
    """What an authority says is in the fields `error` and `error_description`; the rest may be tokens."""
    noted: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: noted.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    logging.getLogger("mcp").addHandler(handler)
    try:
        async with serving(granting(path, status, body)) as address:
            with pytest.raises(ServerError) as caught:
                await signed_in(ServerConfig("odd", url=f"{address}/mcp"), SecretStore(tmp_path, keyring=NO_KEYRING))
    finally:
        logging.getLogger("mcp").removeHandler(handler)
    assert f"signing in failed: {expected}" in str(caught.value)
    assert "Zx81" not in f"{caught.value} {noted}"
    assert "\n" not in str(caught.value)


# --- in use -----------------------------------------------------------------------------------------------------------


async def test_a_token_that_has_ended_is_refreshed_by_a_later_process(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        await change(store, config.address, ends=time.time() - 1)
        assert await secret(config, StoredSignIn(config, store)) == "42"
        assert authority.granted == ["code", "refresh"]
        assert await secret(config, StoredSignIn(config, store)) == "42"
    assert authority.granted == ["code", "refresh"]
    assert "Bearer" in authority.headers[0] or authority.headers[0] == ""


async def test_a_token_that_the_server_no_longer_takes_is_refreshed(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        authority.access.clear()
        assert await secret(config, StoredSignIn(config, store)) == "42"
    assert authority.granted == ["code", "refresh"]


async def test_requests_at_once_refresh_once_and_processes_share_it(store: SecretStore) -> None:
    """Refresh tokens are used up when they are used: a second use would end the sign-in."""
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        one, other = StoredSignIn(config, store), StoredSignIn(config, store)
        async with httpx2.AsyncClient(auth=one) as client, httpx2.AsyncClient(auth=other) as second:
            assert (await client.post(config.address)).status_code != 401
            assert (await second.post(config.address)).status_code != 401
            authority.access.clear()
            answers = await asyncio.gather(*(client.post(config.address) for _ in range(8)))
            assert {answer.status_code for answer in answers} != {401}
            assert (await second.post(config.address)).status_code != 401
    assert authority.granted == ["code", "refresh"]


async def test_where_a_sign_in_is_needed_the_command_is_named(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        with pytest.raises(ServerError, match=r"needs a sign-in \(mcpagent mcp login guarded\)"):
            await secret(config, StoredSignIn(config, store))
        assert authority.clients == {}
        await signed_in(config, store)
        authority.access.clear()
        authority.refresh.clear()
        named = ServerConfig("my server", url=config.url)
        with pytest.raises(ServerError, match=r"needs a sign-in \(mcpagent mcp login 'my server'\)"):
            await secret(named, StoredSignIn(named, store))


async def test_an_authority_that_is_down_is_named_and_costs_no_sign_in(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        storage = TokenStorage(store, config.address)
        kept = await storage.load()
        assert kept.authority is not None
        endpoint = kept.authority.token_endpoint
        kept.ends, kept.authority.token_endpoint = 1.0, AnyHttpUrl("http://127.0.0.1:9/token")
        await storage.save(kept)
        with pytest.raises(ServerError, match="its authorization server cannot be used: ConnectError"):
            await secret(config, StoredSignIn(config, store))
        kept = await storage.load()
        assert kept.authority is not None
        kept.authority.token_endpoint = endpoint
        await storage.save(kept)
        assert await secret(config, StoredSignIn(config, store)) == "42"


async def test_t9_a_token_goes_to_its_own_server_only(store: SecretStore) -> None:
    mine, theirs = Authority(), Authority()
    async with guarded_server(mine) as config, guarded_server(theirs) as other:
        await signed_in(config, store)
        with pytest.raises(ServerError, match="needs a sign-in"):
            await secret(other, StoredSignIn(other, store))
        await secret(config, StoredSignIn(config, store))
    assert set(theirs.headers) == {""}
    assert any(header.startswith("Bearer ") for header in mine.headers)


async def test_what_was_signed_in_for_is_hidden_wherever_something_is_shown(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
    [access], [refresh] = authority.access, authority.refresh
    assert without_secrets(f"{access} {refresh}") == "[redacted] [redacted]"
    kept = await TokenStorage(store, config.address).load()
    assert kept.tokens is not None
    assert not any(token in f"{kept!r} {kept}" for token in (access, refresh))


async def test_tokens_of_one_address_are_not_read_for_another(store: SecretStore) -> None:
    token = OAuthToken(access_token=secrets.token_hex(8))
    await TokenStorage(store, "https://a.example/mcp").set_tokens(token)
    assert await TokenStorage(store, "https://a.example/mcp").get_tokens() == token
    for url in (
        "https://b.example/mcp",
        "http://a.example/mcp",
        "https://a.example:444/mcp",
        "https://a.example/other",
        "https://a.example/mcp?tenant=2",
    ):
        assert await TokenStorage(store, url).get_tokens() is None
    key = secrets.token_hex(8)
    assert key not in address_name(f"https://user:{key}@a.example/mcp?key={key}")


@each_row("content", ["", "[]", "{", '{"tokens": 5, "ends": "x", "client": {}}', '{"authority": []}'])
def test_a_broken_sign_in_counts_as_none(content: str) -> None:
    assert SignIn.from_text(content) == SignIn()


# --- where an authority describes itself, and how -------------------------------------------------------------------


def described(resource_at: str | None, authority_at: str | None, tenant: str = "", **changes: Any) -> Documents:
    """What is found at two paths; `tenant` is the path of the authorization server's own address."""

    def documents(address: str) -> dict[str, dict[str, Any]]:
        issuer = f"{address}{tenant}"
        resource = {"resource": f"{address}/mcp", "authorization_servers": [issuer]}
        authority = {
            "issuer": issuer,
            "authorization_endpoint": f"{address}/authorize",
            "token_endpoint": f"{address}/token",
            "registration_endpoint": f"{address}/register",
            "jwks_uri": f"{address}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["S256"],
        }
        authority = {key: value for key, value in (authority | changes).items() if value is not None}
        found = {resource_at: resource, authority_at: authority}
        return {path: document for path, document in found.items() if path is not None}

    return documents


RESOURCE = "/.well-known/oauth-protected-resource"
AUTHORITY = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


async def found_and_used(documents: Documents, tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)
    authority, person = Authority(documents=documents), Person()
    async with guarded_server(authority) as config:
        assert (await signed_in(config, store, person)).how == "now"
        assert await secret(config, StoredSignIn(config, store)) == "42"
        await change(store, config.address, ends=1.0)
        assert await secret(config, StoredSignIn(config, store)) == "42"
    assert authority.granted == ["code", "refresh"]
    assert len(person.pages) == 1


@rows_at_once(
    "documents",
    [
        described(f"{RESOURCE}/mcp", AUTHORITY),
        described(None, AUTHORITY),  # as in 2025-03-26
        described("/about/this.json", f"/tenant{OPENID}", "/tenant"),
        described(None, None),
    ],
)
async def test_an_authority_is_found_where_it_describes_itself(documents: Documents, tmp_path: Path) -> None:
    await found_and_used(documents, tmp_path)


@pytest.mark.slow
@rows_at_once(
    "documents",
    [
        described(RESOURCE, AUTHORITY),
        described(RESOURCE, OPENID),
        described(RESOURCE, f"{AUTHORITY}/tenant", "/tenant"),
        described(RESOURCE, f"{OPENID}/tenant", "/tenant"),
        described(RESOURCE, f"/tenant{OPENID}", "/tenant"),
    ],
)
async def test_so_it_is_at_any_other_place(documents: Documents, tmp_path: Path) -> None:
    await found_and_used(documents, tmp_path)


@rows_at_once("methods", [None, [], ["plain"]])
async def test_nobody_is_sent_to_an_authority_that_does_not_check_the_challenge(
    methods: list[str] | None, tmp_path: Path
) -> None:
    documents = described(RESOURCE, AUTHORITY, code_challenge_methods_supported=methods)
    person, store = Person(), SecretStore(tmp_path, keyring=NO_KEYRING)
    async with guarded_server(Authority(documents=documents)) as config:
        with pytest.raises(ServerError, match="does not say that it supports PKCE with S256"):
            await signed_in(config, store, person)
    assert person.pages == []


def served(**answers: tuple[int, str, str]) -> Callable[[str], Starlette]:
    """A server whose metadata of a resource and of an authority is this: status, kind and text."""

    def build(address: str) -> Starlette:
        async def refuse(_: Request) -> Response:
            return Response(status_code=401)

        async def tell(request: Request) -> Response:
            kind = "resource" if "protected-resource" in request.url.path else "authority"
            status, media, text = answers.get(kind, (404, "text/plain", ""))
            return Response(text.replace("HERE", address), status_code=status, media_type=media)

        async def fall_back(_: Request) -> Response:
            raise AssertionError("a default address was asked")

        routes = [
            Route("/mcp", refuse, methods=["GET", "POST"]),
            Route("/.well-known/{rest:path}", tell),
            *(Route(path, fall_back, methods=["GET", "POST"]) for path in ("/authorize", "/token", "/register")),
        ]
        return Starlette(routes=routes)

    return build


PAGE = (200, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title>")
NAMED = (200, "application/json", '{"resource": "HERE/mcp", "authorization_servers": ["HERE"]}')


@rows_at_once(
    "answers, expected",
    [
        ({"resource": (200, "application/json", "{")}, "metadata of its resource cannot be used: http"),
        ({"resource": (200, "application/json", '{"resource": 3}')}, "resource: "),
        ({"resource": (200, "text/plain", "")}, "metadata of its resource cannot be used"),
        ({"resource": PAGE}, "metadata of its resource cannot be used: http"),
        ({"resource": PAGE}, "it is a web page, not JSON"),
        ({"resource": PAGE, "authority": PAGE}, "it is a web page, not JSON"),
        ({"authority": (200, "application/json", "[]")}, "metadata of its authorization server cannot be used: http"),
        ({"authority": (200, "application/json", '{"issuer": "HERE"}')}, "authorization_endpoint: Field required"),
        ({"authority": (200, "text/html", "<html>")}, "metadata of its authorization server cannot be used"),
        ({"authority": (500, "text/plain", "")}, "HTTP 500"),
        ({"resource": NAMED, "authority": (200, "application/json", '{"issuer": 1}')}, "authorization server"),
        ({"resource": NAMED, "authority": (503, "text/plain", "")}, "HTTP 503"),
        ({"resource": NAMED, "authority": (404, "text/plain", "")}, "it publishes none where RFC 8414"),
        ({"resource": NAMED, "authority": (403, "text/plain", "")}, "it publishes none where RFC 8414"),
        ({"resource": NAMED, "authority": (302, "text/plain", "")}, "it publishes none where RFC 8414"),
    ],
)
async def test_metadata_that_cannot_be_used_is_an_error_with_its_reason(
    answers: dict[str, tuple[int, str, str]], expected: str, tmp_path: Path
) -> None:
    """Nobody is sent to a default address, where nothing says that the challenge is checked."""
    person = Person()
    async with serving(served(**answers)) as address:
        config = ServerConfig("odd", url=f"{address}/mcp")
        with pytest.raises(ServerError) as caught:
            await signed_in(config, SecretStore(tmp_path, keyring=NO_KEYRING), person)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert person.pages == []


async def test_a_page_to_sign_in_at_with_a_user_in_its_address_is_refused(tmp_path: Path) -> None:
    for where in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        documents = described(RESOURCE, AUTHORITY, **{where: "http://mallory:pw@127.0.0.1:9/x"})
        person, store = Person(), SecretStore(tmp_path / where, keyring=NO_KEYRING)
        async with guarded_server(Authority(documents=documents)) as config:
            with pytest.raises(ServerError, match="has a user or a password in it") as caught:
                await asyncio.wait_for(signed_in(config, store, person), 30)
        assert "mallory" not in str(caught.value)
        assert person.pages == []


async def test_an_authority_that_gives_another_name_than_asked_for_is_refused(store: SecretStore) -> None:
    documents = described(RESOURCE, AUTHORITY, issuer="https://bank.example")
    person = Person()
    async with guarded_server(Authority(documents=documents)) as config:
        with pytest.raises(ServerError, match="signing in failed"):
            await signed_in(config, store, person)
    assert person.pages == []


async def test_the_address_of_a_metadata_document_can_be_the_client(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        document = "https://client.example/mcpagent.json"
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        authority.clients[document] = OAuthClientInformationFull(
            client_id=document,
            redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
            token_endpoint_auth_method="none",
        )
        person = Person()
        assert (await signed_in(config, store, person, Registration(document, port=port))).how == "now"
        assert await secret(config, StoredSignIn(config, store)) == "42"
    assert list(authority.clients) == [document]
    assert parse_qs(urlsplit(person.pages[0]).query)["client_id"] == [document]


async def test_a_sign_in_that_does_not_allow_enough_is_made_to_by_signing_in_again(store: SecretStore) -> None:
    authority, person = Authority(scopes=["read", "write"], consent={"read"}), Person()
    async with guarded_server(authority) as config:
        await signed_in(config, store, person)
        assert await secret(config, StoredSignIn(config, store)) == "42"
        authority.needs, authority.consent = {"write"}, None
        what = r"the sign-in does not allow this: it lacks the scope write; mcpagent mcp login guarded asks for it"
        for _ in range(2):
            with pytest.raises(ServerError, match=what):
                await secret(config, StoredSignIn(config, store))
        assert (await signed_in(config, store, person)).how == "now"
        asked = parse_qs(urlsplit(person.pages[-1]).query)["scope"][0].split()
        assert "write" in asked
        assert await secret(config, StoredSignIn(config, store)) == "42"
        assert (await signed_in(config, store, person)).how == "before"
    assert len(person.pages) == 2
    assert len(authority.clients) == 1


# --- out --------------------------------------------------------------------------------------------------------------


async def test_signing_out_revokes_and_forgets(store: SecretStore) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        await signed_in(config, store)
        [access], [refresh] = list(authority.access), list(authority.refresh)
        out = await sign_out(config, store)
        assert (out.was_signed_in, out.revoked) == (True, "revoked")
        assert authority.revoked == [refresh, access]
        assert store.list() == []
        assert not (await sign_out(config, store)).was_signed_in
        with pytest.raises(ServerError, match="needs a sign-in"):
            await secret(config, StoredSignIn(config, store))


async def test_where_nothing_can_be_revoked_it_is_forgotten_all_the_same(store: SecretStore) -> None:
    async with guarded_server(Authority(revokes=False)) as config:
        await signed_in(config, store)
        out = await sign_out(config, store)
        assert (out.was_signed_in, out.revoked) == (True, "not offered")
    async with guarded_server(Authority()) as config:
        await signed_in(config, store)
    out = await sign_out(config, store)  # the server is gone
    assert (out.was_signed_in, out.revoked) == (True, "failed")
    assert "cannot be used: ConnectError" in out.reason
    assert store.list() == []


# --- what a server may make us ask ------------------------------------------------------------------------------------


@rows_at_once(
    "metadata, expected",
    [
        ({}, "signing in failed"),
        ({"authorization_servers": ["http://169.254.169.254/latest"]}, "is a link-local address"),
        (
            {"authorization_servers": ["http://auth.example"]},
            "http://auth.example/.well-known/oauth-authorization-serv",
        ),
        ({"resource": "https://bank.example/"}, "does not match expected"),
    ],
)
async def test_a_server_that_sends_us_elsewhere(metadata: dict[str, object], expected: str, tmp_path: Path) -> None:
    """The server itself is on loopback; what it names decides where we would go."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def refuse(_: Request) -> Response:
        return Response(status_code=401)

    def build(address: str) -> Starlette:
        async def describe(_: Request) -> Response:
            described = {"resource": f"{address}/mcp", "authorization_servers": [address]} | metadata
            return JSONResponse(described if metadata else {}, status_code=200 if metadata else 404)

        routes = [
            Route("/mcp", refuse, methods=["GET", "POST"]),
            Route("/.well-known/oauth-protected-resource/mcp", describe),
        ]
        return Starlette(routes=routes)

    async with serving(build) as address:
        with pytest.raises(ServerError) as caught:
            await signed_in(ServerConfig("odd", url=f"{address}/mcp"), SecretStore(tmp_path, keyring=NO_KEYRING))
    assert 'server "odd": signing in failed: ' in str(caught.value)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.phase == "login"


@asynccontextmanager
async def elsewhere() -> AsyncIterator[tuple[str, list[str]]]:
    """Another server, and what was sent to it: addresses, headers and bodies."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    sent: list[str] = []

    async def note(request: Request) -> Response:
        sent.append(f"{request.url} {dict(request.headers)} {(await request.body()).decode()}")
        return JSONResponse({"access_token": "theirs", "token_type": "Bearer", "client_id": "theirs"})

    routes = [Route("/{path:path}", note, methods=["GET", "POST", "PUT", "DELETE"])]
    async with serving(lambda _: Starlette(routes=routes)) as address:
        yield address, sent


async def test_an_authority_that_sends_a_request_elsewhere_gets_no_sign_in(tmp_path: Path) -> None:
    authority = Authority()
    async with elsewhere() as (address, sent), guarded_server(authority) as config:
        for path, status in itertools.product(["/register", "/token"], [301, 302, 303, 307, 308]):
            store = SecretStore(tmp_path / f"{path[1:]}-{status}", keyring=NO_KEYRING)
            authority.redirects = {path: (status, f"{address}{path}")}
            with pytest.raises(ServerError) as caught:
                await signed_in(config, store)
            assert sent == [], (path, status)
            assert "\n" not in str(caught.value), (path, status)
            assert not any(code in str(caught.value) for code in authority.codes), (path, status)


JSON = "application/json"


def token_answer(**changes: Any) -> tuple[int, str, str]:
    token = {
        "access_token": "untrue-1234567890",
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": "untrue-2",
    }
    return 200, JSON, json.dumps(token | changes)


LIES: dict[str, list[tuple[int, str, str]]] = {
    "/token": [
        *((200, JSON, text) for text in ("", "[]", "null", '"untrue-1234567890"', "{}", "[" * 100_000)),
        (200, "text/html", "<html>untrue-1234567890</html>"),
        (204, JSON, ""),
        (500, "text/plain", "untrue-1234567890"),
        (400, JSON, '{"error": "invalid_grant", "error_description": "no\\n\\u001b[2Jway"}'),
        (200, JSON, '{"error": "invalid_grant"}'),
        *(
            token_answer(access_token=token)
            for token in (5, None, "", "untrue\r\nX-Evil: 1", "untrue\0", "li\u00e9", ["untrue"])
        ),
        token_answer(access_token="untrue" * 3_000_000),
        *(token_answer(token_type=kind) for kind in ("mac", 1, None)),
        *(token_answer(expires_in=seconds) for seconds in ("soon", float("nan"), float("inf"), [1])),
        (200, JSON, '{"access_token": "untrue", "token_type": "Bearer", "expires_in": ' + "9" * 5_000 + "}"),
        token_answer(refresh_token=7),
        token_answer(scope=["a"]),
    ],
    "/register": [
        *((201, JSON, text) for text in ("", "[]", "{}", '{"client_id": 5}', "[" * 100_000)),
        (200, "text/html", "<html>"),
        (201, JSON, json.dumps({"client_id": "untrue" * 3_000_000, "redirect_uris": ["http://127.0.0.1:1/callback"]})),
        (400, JSON, '{"error": "invalid_client_metadata", "error_description": "\\u001b[2Jno"}'),
        (500, "text/plain", "x"),
    ],
}


@pytest.mark.slow
async def test_an_authority_whose_answers_are_lies_gets_one_line_and_gives_no_token(tmp_path: Path) -> None:
    authority = Authority()
    async with guarded_server(authority) as config:
        for path, answers in LIES.items():
            for number, answer in enumerate(answers):
                store = SecretStore(tmp_path / f"{path[1:]}-{number}", keyring=NO_KEYRING)
                authority.answers = {path: answer}
                with pytest.raises(ServerError) as caught:
                    await asyncio.wait_for(signed_in(config, store), 30)
                said = str(caught.value)
                assert 'server "guarded": signing in failed: ' in said, answer[2][:80]
                assert said.isprintable(), answer[2][:80]
                assert len(said) < 600, answer[2][:80]
                assert "untrue" not in said
                with pytest.raises(ServerError, match="needs a sign-in"):
                    await secret(config, StoredSignIn(config, store))


async def test_an_error_with_status_200_is_reported_as_that_error(store: SecretStore) -> None:
    text = '{"error": "bad_verification_code", "error_description": "The code is incorrect or expired."}'
    authority = Authority(answers={"/token": (200, JSON, text)})
    async with guarded_server(authority) as config:
        with pytest.raises(ServerError, match=r"no token: HTTP 200: bad_verification_code: The code is incorrect"):
            await signed_in(config, store)


async def test_no_token_is_sent_elsewhere_to_be_refreshed(store: SecretStore) -> None:
    authority = Authority()
    async with elsewhere() as (address, sent), guarded_server(authority) as config:
        for status in (302, 307, 308):
            authority.redirects.clear()
            assert (await signed_in(config, store)).how == "now"
            await change(store, config.address, ends=time.time() - 1)
            authority.access.clear()
            authority.redirects["/token"] = (status, f"{address}/token")
            with pytest.raises(ServerError) as caught:
                await secret(config, StoredSignIn(config, store))
            assert sent == [], status
            assert not any(token in str(caught.value) for token in authority.refresh), status
            authority.refresh.clear()


async def test_no_token_is_sent_elsewhere_to_be_revoked(store: SecretStore) -> None:
    authority = Authority()
    async with elsewhere() as (address, sent), guarded_server(authority) as config:
        for status in (302, 307, 308):
            authority.redirects.clear()
            await signed_in(config, store)
            authority.redirects["/revoke"] = (status, f"{address}/revoke")
            out = await sign_out(config, store)
            assert (sent, out.was_signed_in, out.revoked) == ([], True, "failed"), status
            assert store.list() == []


async def test_what_is_stored_is_plain_json(store: SecretStore) -> None:
    async with guarded_server(Authority()) as config:
        kept = (await signed_in(config, store)).kept
    assert kept is not None
    data = json.loads(json.loads(kept.path.read_text("utf-8"))["value"])
    assert data.keys() == {"tokens", "ends", "client", "authority", "resource"}
