"""Signing in with a code that is entered on another device (RFC 8628), against an authorization server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.errors import ServerError
from mcpagent.mcp.auth.device import DEVICE_CODE, DeviceCode
from mcpagent.mcp.auth.sign_in_flow import Registration, sign_in_by_device
from mcpagent.mcp.auth.stored_auth import StoredSignIn
from mcpagent.mcp.server_link import ServerLink
from mcpagent.utilities.text.secrets import without_secrets
from tests.servers.own_authority import OwnAuthority, behind
from tests.tables import each_row

CODE: dict[str, Any] = {
    "device_code": "device-7f3a91c2e8",
    "user_code": "WDJB-MJHT",
    "verification_uri": "HERE/activate",
    "verification_uri_complete": "HERE/activate?user_code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 0.001,
}


class Person:
    """Sees the code."""

    def __init__(self) -> None:
        self.codes: list[DeviceCode] = []

    async def __call__(self, code: DeviceCode) -> None:
        self.codes.append(code)


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "tokens", keyring=NO_KEYRING)


async def test_a_code_is_shown_and_the_tokens_come_when_it_was_entered(store: SecretStore) -> None:
    authority = OwnAuthority(device=CODE, waits=["authorization_pending"] * 25)
    person = Person()
    async with behind(authority) as url:
        config = ServerConfig("far", url=url)
        assert (await sign_in_by_device(config, store, person, shortest_pause=0.001)).how == "now"
        async with ServerLink(config, auth=StoredSignIn(config, store)) as link:
            assert [tool.name for tool in await link.tools()] == ["secret"]
        assert (await sign_in_by_device(config, store, person, shortest_pause=0.001)).how == "before"
    [code] = person.codes
    assert (code.user_code, code.verification_uri) == ("WDJB-MJHT", url.replace("/mcp", "/activate"))
    [client] = authority.registered
    assert client["grant_types"] == [DEVICE_CODE, "refresh_token"]
    asked, *polled = authority.forms
    assert asked == {"client_id": "client-1", "resource": url}
    token_request = {
        "grant_type": DEVICE_CODE,
        "device_code": CODE["device_code"],
        "client_id": "client-1",
        "resource": url,
    }
    assert polled == [token_request] * 26
    assert CODE["device_code"] not in repr(code)
    assert without_secrets(f"code {CODE['device_code']}") == "code [redacted]"


async def test_a_client_that_was_registered_by_hand(store: SecretStore) -> None:
    authority, person = OwnAuthority(device=CODE), Person()
    async with behind(authority) as url:
        config = ServerConfig("far", url=url)
        await sign_in_by_device(config, store, person, Registration("by-hand", "s3cret/value"))
    assert authority.registered == []
    asked, token_request = authority.forms
    assert (asked["client_id"], token_request["client"], token_request["secret"]) == (
        "by-hand",
        "by-hand",
        "s3cret/value",
    )


@each_row(
    "device, waits, words",
    [
        (CODE, ["access_denied"], "the sign-in was declined there"),
        (CODE, ["authorization_pending", "expired_token"], "the code was not entered in time"),
        ({**CODE, "expires_in": 0.001, "interval": 1}, ["authorization_pending"], "the code was not entered in time"),
        (CODE, ["invalid_client"], "the token endpoint gave no token: HTTP 400: invalid_client"),
        (None, [], "its authorization server offers no sign-in by code (RFC 8628); leave out device_code"),
        ({"error": "invalid_scope"}, [], "it gave no code: HTTP 400 invalid_scope"),
        ({**CODE, "user_code": ""}, [], "its code cannot be used: user_code: "),
        ({**CODE, "expires_in": "soon"}, [], "its code cannot be used: expires_in: "),
        ({**CODE, "verification_uri": "http://elsewhere.example/x"}, [], "the page to enter the code at, http://els"),
        ({**CODE, "verification_uri_complete": "javascript:alert(1)"}, [], "the page to enter the code at, javascript"),
        ([], [], "its code cannot be used: "),
    ],
)
async def test_each_end_is_one_line(device: Any, waits: list[str], words: str, tmp_path: Path) -> None:
    store, person = SecretStore(tmp_path, keyring=NO_KEYRING), Person()
    authority = OwnAuthority(device=device, waits=list(waits))
    async with behind(authority) as url:
        config = ServerConfig("far", url=url)
        with pytest.raises(ServerError) as caught:
            await sign_in_by_device(config, store, person, Registration("by-hand"), shortest_pause=0.001)
    assert str(caught.value).startswith('server "far": signing in failed: ')
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert CODE["device_code"] not in str(caught.value)
    assert len(person.codes) == bool(waits)
