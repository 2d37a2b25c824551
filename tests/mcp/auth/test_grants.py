"""Signing in as the configuration says: clients with secrets and keys, workloads, identity providers, bound tokens."""

from __future__ import annotations

import gzip
import itertools
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcpagent.config import ServerConfig, load_servers
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.errors import ConfigError, ServerError
from mcpagent.mcp.auth.stored_auth import StoredSignIn
from mcpagent.mcp.server_link import ServerLink
from mcpagent.values.messages import Text
from tests.mcp.at_once import rows_at_once
from tests.servers.own_authority import OwnAuthority, behind
from tests.tables import each_row

SECRET = "s3cret/value"


def key_pair() -> tuple[str, str]:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem.decode(), public.decode()


def config(url: str, way: dict[str, Any], **environ: str) -> ServerConfig:
    found = load_servers({"mcpServers": {"own": {"url": url, "auth": way}}}, environ=environ)
    assert found.problems == ()
    return found.servers[0]


async def secret_of(server: ServerConfig, store: SecretStore) -> str:
    async with ServerLink(server, auth=StoredSignIn(server, store)) as link:
        (tool,) = link.bound_tools()
        outputs = [await tool.run({}) for _ in range(3)]
    assert len({str(output.content) for output in outputs}) == 1
    (part,) = outputs[0].content
    assert isinstance(part, Text)
    return part.text


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)


@rows_at_once(
    "methods, by_header",
    [
        (("client_secret_basic",), True),
        (("client_secret_post",), False),
        (("client_secret_post", "client_secret_basic"), False),
        (("private_key_jwt", "client_secret_basic", "client_secret_post"), True),
        (("none",), True),
    ],
)
async def test_a_client_with_a_secret_proves_itself_as_it_is_listed(
    tmp_path: Path, methods: tuple[str, ...], by_header: bool
) -> None:
    authority, store = OwnAuthority(methods=methods), SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)
    async with behind(authority) as url:
        way = {"grant": "client_credentials", "clientId": "robot", "client_secret": "${SECRET}", "scope": "a b"}
        assert await secret_of(config(url, way, SECRET=SECRET), store) == "42"
    (form,) = authority.forms
    assert form["grant_type"] == "client_credentials"
    assert form["resource"] == url
    assert form["scope"] == "a b"
    given = (form.get("client"), form.get("secret")) if by_header else (form["client_id"], form["client_secret"])
    assert given == ("robot", SECRET)
    assert not (tmp_path / "tokens").exists() or not list((tmp_path / "tokens").iterdir())  # nothing is left on disk


async def test_tokens_that_end_are_got_anew(store: SecretStore) -> None:
    authority = OwnAuthority(token_seconds=10)  # less than the time before the end at which a token is renewed
    async with behind(authority) as url:
        way = {"grant": "client_credentials", "client_id": "robot", "client_secret": SECRET}
        assert await secret_of(config(url, way), store) == "42"
        before = len(authority.forms)
        authority.tokens.clear()  # as if it had been started anew
        assert await secret_of(config(url, way), store) == "42"
    assert before >= 2
    assert len(authority.forms) > before


@rows_at_once("in_file", [True, False])
async def test_a_client_with_a_key_signs_its_own_word(tmp_path: Path, in_file: bool) -> None:
    store = SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)
    private, public = key_pair()
    authority = OwnAuthority(methods=("private_key_jwt",), public_key=public)
    (tmp_path / "key.pem").write_text(private)
    key = {"private_key_file": str(tmp_path / "key.pem")} if in_file else {"private_key": "${KEY}"}
    async with behind(authority) as url:
        server = config(url, {"grant": "client_credentials", "client_id": "robot", **key}, KEY=private)
        assert await secret_of(server, store) == "42"
    (form,) = authority.forms
    claims = jwt.decode(form["client_assertion"], options={"verify_signature": False})
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("robot", "robot", authority.issuer)
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assert "client_secret" not in form


async def test_a_workload_shows_the_token_of_its_platform_as_it_is_now(store: SecretStore, tmp_path: Path) -> None:
    private, public = key_pair()
    authority = OwnAuthority(methods=("none",), public_key=public, token_seconds=10)
    file = tmp_path / "token"

    def write(audience: str) -> None:
        claims = {"sub": "pod", "aud": audience, "exp": int(time.time()) + 60}
        file.write_text(jwt.encode(claims, private, algorithm="ES256") + "\n")

    async with behind(authority) as url:
        server = config(url, {"grant": "jwt-bearer", "client_id": "pod", "token_file": str(file)})
        with pytest.raises(ServerError, match=r"token_file cannot be read: .*No such file"):
            await secret_of(server, store)
        file.write_text("no-jwt-of-pod-1")
        with pytest.raises(ServerError, match=r"Not enough segments: \[redacted\]"):
            await secret_of(server, store)
        write("https://elsewhere.example")
        with pytest.raises(ServerError, match="Audience doesn't match"):
            await secret_of(server, store)
        write(authority.issuer)
        assert await secret_of(server, store) == "42"
    assert authority.forms[-1]["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert authority.forms[-1]["client_id"] == "pod"


async def test_an_identity_provider_says_who_it_is(store: SecretStore) -> None:
    authority = OwnAuthority()
    async with behind(authority) as url:
        origin = url.removesuffix("/mcp")
        way = {
            "grant": "jwt-bearer",
            "client_id": "app",
            "client_secret": SECRET,
            "token": "${ID_TOKEN}",
            "idp_token_endpoint": f"{origin}/exchange",
            "idp_client_id": "app-at-the-idp",
        }
        assert await secret_of(config(url, way, ID_TOKEN="id-token-of-ann"), store) == "42"
        with pytest.raises(ServerError, match=r"identity provider gave no assertion \(HTTP 400\): who is that\?"):
            await secret_of(config(url, way, ID_TOKEN="another"), store)
    exchange = authority.exchanges[0]
    assert exchange["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert exchange["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
    assert (exchange["audience"], exchange["resource"]) == (authority.issuer, url)
    assert exchange["client_id"] == "app-at-the-idp"
    assert [form["assertion"] for form in authority.forms] == ["idp-said-so-51c2"]


async def test_a_packed_answer_of_an_identity_provider_is_not_unpacked(store: SecretStore) -> None:
    authority = OwnAuthority(packed=gzip.compress(b" " * 50_000_000))
    async with behind(authority) as url:
        way = {
            "grant": "jwt-bearer",
            "client_id": "app",
            "token": "${ID_TOKEN}",
            "idp_token_endpoint": f"{url.removesuffix('/mcp')}/exchange",
        }
        tracemalloc.start()
        try:
            with pytest.raises(ServerError, match=r"identity provider gave no assertion \(HTTP 200\)"):
                await secret_of(config(url, way, ID_TOKEN="id-token-of-ann"), store)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 10_000_000


@rows_at_once("nonce, wanted", itertools.product(["", "number-1"], [None, True]))
async def test_bound_tokens_bring_a_new_proof_with_each_request(
    tmp_path: Path, nonce: str, wanted: bool | None
) -> None:
    store, authority = SecretStore(tmp_path / "tokens", keyring=NO_KEYRING), OwnAuthority(is_bound=True, nonce=nonce)
    way: dict[str, Any] = {"grant": "client_credentials", "client_id": "robot", "client_secret": SECRET}
    if wanted is not None:
        way["dpop"] = wanted
    async with behind(authority) as url:
        assert await secret_of(config(url, way), store) == "42"
    assert len(set(authority.proofs)) == len(authority.proofs) >= 5


async def test_a_secret_goes_to_no_authority_that_only_the_server_names(store: SecretStore) -> None:
    authority, elsewhere = OwnAuthority(), OwnAuthority()
    way: dict[str, Any] = {"grant": "client_credentials", "client_id": "robot", "client_secret": SECRET}
    async with behind(elsewhere) as there, behind(authority) as url:
        authority.named = there.removesuffix("/mcp")
        with pytest.raises(ServerError, match=r"if that is right, write .issuer.: .http") as caught:
            await secret_of(config(url, way), store)
        assert elsewhere.forms == authority.forms == []
        assert SECRET not in str(caught.value)
        with pytest.raises(ServerError, match=r"and its configuration another: https://idp.example"):
            await secret_of(config(url, {**way, "issuer": "https://idp.example"}), store)
        assert elsewhere.forms == authority.forms == []
        authority.tokens = elsewhere.tokens  # it lets in whom the other one knows
        assert await secret_of(config(url, {**way, "issuer": authority.named}), store) == "42"


@each_row(
    "way, said",
    [
        ({"grant": "client_credentials"}, 'needs "client_id"'),
        ({"grant": "client_credentials", "client_id": "a"}, "needs .client_secret., .private_key_file. or"),
        ({"grant": "client_credential", "client_id": "a"}, '"client_credential" is not one of authorization_code'),
        ({"grant": "jwt-bearer"}, "needs .token. or .token_file."),
        ({"client_id": "a", "token": "x"}, ".token. is for .grant.: .jwt-bearer."),
        ({"client_id": "a", "client_secret": "x", "private_key": "y"}, "several proofs"),
        ({"private_key": "x", "private_key_file": "y"}, "a private key and a file"),
        ({"clientID": "a", "client_secre": "b"}, 'unknown key "client_secre"; did you mean "client_secret"'),
        (
            {"client_id": "a", "clientId": "b"},
            '"client_id" and "clientId" are two names of one thing',
        ),
        ({"issuer": "idp.example"}, '"issuer" is no address; write https://host/path'),
        ({"client_metadata_url": "http://a.example/x"}, "is an https address with a path"),
        ({"client_metadata_url": "https://a.example/"}, "is an https address with a path"),
        ({"callback_port": 70000}, "expected a port"),
        ({"idp_client_id": "x"}, 'begins with "idp_" is for "grant": "jwt-bearer"'),
        ({"client_id": 5}, "expected a string"),
        (["oauth"], "expected an object"),
        ({"client_id": "${NOT_THERE}"}, "NOT_THERE"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(way: Any, said: str) -> None:
    try:
        found = load_servers({"mcpServers": {"own": {"url": "https://a.example/mcp", "oauth": way}}}, environ={})
        told = found.problems[0].reason
    except ConfigError as error:
        told = str(error)
    assert re.search(said, told)


def test_what_other_clients_write_is_read_or_passed_over() -> None:
    def read(way: Any, **more: Any) -> ServerConfig:
        return load_servers({"mcpServers": {"own": {"url": "https://a.example/mcp", **more, "auth": way}}}).servers[0]

    claude = read({"clientId": "a", "callbackPort": 8080}).sign_in
    assert (claude.client_id, claude.callback_port, claude.is_unattended) == ("a", 8080, False)
    cursor = read({"CLIENT_ID": "a", "CLIENT_SECRET": "b", "scopes": ["read", "write"]}).sign_in
    assert (cursor.client_id, cursor.client_secret, cursor.scopes) == ("a", "b", ("read", "write"))
    gemini = read({"enabled": True, "authorizationUrl": "https://b.example", "tokenUrl": "https://b.example"})
    assert gemini.sign_in == read("oauth").sign_in == read(True).sign_in
    assert read("a-token").headers == {"Authorization": "Bearer a-token"}
    with pytest.raises(ConfigError, match="beside an Authorization header"):
        read({"client_id": "a"}, headers={"Authorization": "x"})


def test_its_secrets_are_shown_nowhere() -> None:
    way = {"grant": "client_credentials", "client_id": "robot", "client_secret": "correct-horse-battery"}
    assert "correct-horse" not in repr(config("https://a.example/mcp", way))
