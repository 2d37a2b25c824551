"""APIs with OAuth 2.0: tokens come from the authorization server that their document names."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from mcpagent.config.server_config import SignInConfig
from mcpagent.mcp.auth import sign_in_flow
from mcpagent.mcp.auth.sign_in_flow import loopback_page
from mcpagent.mcp.auth.stored_auth import StoredSignIn
from mcpagent.mcp.server_link import ServerLink
from mcpagent.toolsets.api_toolset import openapi_toolset
from mcpagent.values.messages import Text
from tests.servers.everyday import serving


class Service:
    """An API and its authorization server; `forms` are the token requests."""

    def __init__(self) -> None:
        self.app = FastAPI()
        self.forms: list[dict[str, str]] = []
        self.good = True

        @self.app.post("/oauth/token", include_in_schema=False)
        async def token(request: Request) -> Response:
            self.forms.append({name: str(text) for name, text in (await request.form()).items()})
            if not self.good:
                return JSONResponse({"error": "invalid_client"}, 401)
            return JSONResponse({"access_token": f"t{len(self.forms)}", "token_type": "Bearer", "expires_in": 3600})

        @self.app.get("/me", operation_id="me")
        async def me(request: Request) -> Response:
            given = request.headers.get("authorization", "")
            if not given.startswith("Bearer t"):
                return JSONResponse({"message": "no token"}, 401)
            return JSONResponse({"given": given})

    def document(self, flows: Any) -> dict[str, Any]:
        root = self.app.openapi()
        root["components"] = {"securitySchemes": {"o": {"type": "oauth2", "flows": flows}}}
        return root


SIGN_IN = SignInConfig(grant="client_credentials", client_id="agent", client_secret="client-secret-1")


async def call(service: Service, flows: Any) -> tuple[str, str]:
    """The error and the text of two calls, which must be alike."""
    async with AsyncExitStack() as exits:
        address = await exits.enter_async_context(serving(lambda _: service.app))
        config = openapi_toolset(service.document(flows), base_url=address, auth=SIGN_IN, name="api")
        link = await exits.enter_async_context(ServerLink(config, auth=StoredSignIn(config)))
        found = set()
        for _ in range(2):
            output = await link.bound_tools()[0].run({})
            found.add((output.error or "", "".join(part.text for part in output.content if isinstance(part, Text))))
        [outcome] = found
        return outcome


@pytest.mark.anyio
async def test_a_client_gets_a_token_from_the_server_that_the_document_names() -> None:
    service = Service()
    assert await call(service, {"clientCredentials": {"tokenUrl": "/oauth/token", "scopes": {}}}) == (
        "",
        '{"given":"Bearer t1"}',
    )
    [form] = service.forms
    assert form["grant_type"] == "client_credentials"


@pytest.mark.anyio
async def test_what_is_wrong_with_a_sign_in_is_an_error_of_the_call() -> None:
    service = Service()
    service.good = False
    error, text = await call(service, {"clientCredentials": {"tokenUrl": "/oauth/token", "scopes": {}}})
    assert error == "failed"
    assert "invalid_client" in text
    assert "client-secret-1" not in text
    error, text = await call(Service(), {"implicit": {"authorizationUrl": "/a", "scopes": {}}})
    assert "names no authorization server for this grant" in text


class Kept:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        return self.texts.get(name)

    def set(self, name: str, value: str) -> None:
        self.texts[name] = value

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)


@pytest.mark.anyio
async def test_a_user_signs_in_at_the_page_that_the_document_names() -> None:
    service, store = Service(), Kept()
    asked: list[dict[str, str]] = []

    @service.app.get("/oauth/authorize", include_in_schema=False)
    async def authorize(request: Request) -> Response:
        asked.append(dict(request.query_params))
        back = f"{asked[-1]['redirect_uri']}?code=c1&state={asked[-1]['state']}"
        return RedirectResponse(back)

    async def visit(url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            await browser.get(url)

    flows = {"authorizationCode": {"authorizationUrl": "/oauth/authorize", "tokenUrl": "/oauth/token", "scopes": {}}}
    async with serving(lambda _: service.app) as address:
        sign_in = SignInConfig(client_id="agent", scopes=("read",))
        config = openapi_toolset(service.document(flows), base_url=address, auth=sign_in, name="api")
        async with ServerLink(config, auth=StoredSignIn(config, store)) as link:  # type: ignore[arg-type]
            before = await link.bound_tools()[0].run({})
        assert "mcpagent mcp login api" in str(before.content)
        async with loopback_page(config, store, visit) as page:  # type: ignore[arg-type]
            outcome = await sign_in_flow.sign_in(config, store, page)  # type: ignore[arg-type]
        assert outcome.how == "now"
        async with ServerLink(config, auth=StoredSignIn(config, store)) as link:  # type: ignore[arg-type]
            after = await link.bound_tools()[0].run({})
    assert after.structured == {"given": "Bearer t1"} or "Bearer t1" in str(after.content)
    assert (asked[0]["client_id"], asked[0]["scope"], asked[0]["code_challenge_method"]) == ("agent", "read", "S256")
    assert (service.forms[0]["code"], service.forms[0]["grant_type"]) == ("c1", "authorization_code")
