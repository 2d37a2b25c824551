"""Signing in to a remote server, against a real authorization server on loopback."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthToken

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.oauth import LoopbackSignIn, TokenFile, callback_result, oauth_for
from mcpagent.mcp.toolset import McpToolset
from mcpagent.messages import Text
from tests.servers.guarded import Authority, guarded


def modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()]


class Person:
    """Opens the page and is sent on to the redirect address, as a browser would."""

    def __init__(self) -> None:
        self.pages = 0

    async def show(self, url: str) -> None:
        self.pages += 1
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            answer = await browser.get(url)
        assert answer.status_code == 200
        assert "Signed in" in answer.text


async def secret(config: ServerConfig, folder: Path, sign_in: LoopbackSignIn | None) -> str:
    async with McpToolset(config, auth=oauth_for(config, folder, sign_in)) as toolset:
        (tool,) = await toolset.tools()
        output = await tool.run({})
    return "".join(part.text for part in output.content if isinstance(part, Text))


async def test_a_person_signs_in_once(tmp_path: Path) -> None:
    authority, person = Authority(), Person()
    async with guarded(authority) as url, LoopbackSignIn(person.show) as sign_in:
        config = ServerConfig(name="guarded", url=url)
        assert await secret(config, tmp_path, sign_in) == "42"
        assert await secret(config, tmp_path, None) == "42"
    assert person.pages == 1
    assert authority.granted == ["code"]
    assert modes(tmp_path) == [0o600]


async def test_a_token_that_has_run_out_is_refreshed(tmp_path: Path) -> None:
    authority, person = Authority(token_seconds=3600), Person()
    async with guarded(authority) as url, LoopbackSignIn(person.show) as sign_in:
        config = ServerConfig(name="guarded", url=url)
        auth = oauth_for(config, tmp_path, sign_in)
        async with McpToolset(config, auth=auth) as toolset:
            (tool,) = await toolset.tools()
            auth.context.token_expiry_time = 1.0
            output = await tool.run({})
            assert output.error is None
    assert authority.granted == ["code", "refresh"]
    assert person.pages == 1


async def test_without_a_sign_in_the_command_to_sign_in_is_named(tmp_path: Path) -> None:
    async with guarded(Authority()) as url:
        config = ServerConfig(name="guarded", url=url)
        with pytest.raises(ServerError, match="needs a sign-in: run: mcpagent mcp login guarded"):
            await secret(config, tmp_path, None)


async def test_a_server_that_wants_no_token_needs_no_sign_in_to_fail_plainly(tmp_path: Path) -> None:
    async with guarded(Authority()) as url:
        with pytest.raises(ServerError, match="401"):
            await McpToolset(ServerConfig(name="guarded", url=url)).__aenter__()


async def test_nobody_signs_in() -> None:
    async def ignore(_: str) -> None:
        pass

    async with LoopbackSignIn(ignore, seconds=0.1) as sign_in:
        await sign_in.show("http://example.com")
        with pytest.raises(OAuthFlowError, match=r"nobody signed in within 0\.1 s"):
            await sign_in.result()


async def test_only_the_callback_is_listened_to() -> None:
    async def ignore(_: str) -> None:
        pass

    async with LoopbackSignIn(ignore, seconds=5) as sign_in, httpx2.AsyncClient() as browser:
        assert urlsplit(sign_in.redirect_uri).hostname == "127.0.0.1"
        await sign_in.show("http://example.com")
        other = sign_in.redirect_uri.replace("/callback", "/favicon.ico")
        assert (await browser.get(other)).status_code == 404
        assert (await browser.post(sign_in.redirect_uri)).status_code == 404
        assert (await browser.get(f"{sign_in.redirect_uri}?code=c&state=s")).status_code == 200
        assert (await browser.get(f"{sign_in.redirect_uri}?code=evil")).status_code == 404
        assert (await sign_in.result()).code == "c"


def test_a_refusal_is_said_in_the_servers_words() -> None:
    with pytest.raises(OAuthFlowError, match="The user said no"):
        callback_result("error=access_denied&error_description=The+user+said+no")


async def test_tokens_of_one_server_are_not_read_for_another(tmp_path: Path) -> None:
    token = OAuthToken(access_token="secret-token")
    await TokenFile(tmp_path, "https://a.example/mcp").set_tokens(token)
    assert await TokenFile(tmp_path, "https://a.example/mcp").get_tokens() == token
    for url in (
        "https://b.example/mcp",
        "http://a.example/mcp",
        "https://a.example:444/mcp",
        "https://a.example/other",
    ):
        assert await TokenFile(tmp_path, url).get_tokens() is None
    file = TokenFile(tmp_path, "https://a.example/mcp")
    assert file.forget() is True
    assert file.forget() is False
    assert await file.get_tokens() is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"tokens": 5}'])
async def test_a_broken_token_file_counts_as_none(content: bytes, tmp_path: Path) -> None:
    file = TokenFile(tmp_path, "https://a.example/mcp")
    file.path.write_bytes(content)
    assert await file.get_tokens() is None
    assert await file.get_client_info() is None
