"""The client that the MCP conformance suite drives: our own toolset against the URL it names as last argument.

Does what the scenario wants of a client: connect, list, call each tool once with values its schema allows, read what
there is. `MCP_CONFORMANCE_SCENARIO` and `MCP_CONFORMANCE_CONTEXT` say what more is known.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull

from mcpagent.config import ServerConfig
from mcpagent.config.secret_store import NO_KEYRING, SecretStore
from mcpagent.mcp.auth.oauth import callback_result, oauth_for
from mcpagent.mcp.auth.sign_ins import TokenStorage
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.link import ServerLink

if TYPE_CHECKING:
    from mcpagent.tools import Tool

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
METADATA_URL = "https://conformance-test.local/client-metadata.json"
EXAMPLES = {"string": "x", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}, "null": None}


class HeadlessSignIn:
    """Follows the authorization page's redirect itself, as the suite's stand-in server allows."""

    redirect_uri = "http://localhost:3000/callback"

    def __init__(self) -> None:
        self._query = ""

    async def show(self, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            response = await client.get(url)
        self._query = urlsplit(response.headers["location"]).query

    async def result(self) -> AuthorizationCodeResult:
        return callback_result(self._query)


def example(schema: Any) -> Any:
    """Some value that the schema allows, as far as a glance tells."""
    if not isinstance(schema, dict):
        return "x"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example(rule) for name, rule in (schema.get("properties") or {}).items()}
    return EXAMPLES.get(kind, "x")


async def accept_defaults(server: str, message: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {}


async def issuer_of(url: str) -> str:
    """The authorization server that a protected resource names (RFC 9728)."""
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        found = await client.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}")
    return str(found.json()["authorization_servers"][0])


async def id_jag(audience: str, resource: str) -> str:
    """An identity assertion of the suite's identity provider, by token exchange (RFC 8693)."""
    wanted = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": CONTEXT["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": audience,
        "resource": resource,
        "client_id": CONTEXT["idp_client_id"],
    }
    async with httpx2.AsyncClient() as client:
        answer = await client.post(CONTEXT["idp_token_endpoint"], data=wanted)
    return str(answer.json()["access_token"])


async def authentication(config: ServerConfig, folder: Path) -> httpx2.Auth | None:
    if not SCENARIO.startswith("auth/"):
        return None
    store = SecretStore(folder, keyring=NO_KEYRING)
    if "client-credentials" in SCENARIO:
        storage, client_id = TokenStorage(store, config.url), CONTEXT["client_id"]
        if not (key := CONTEXT.get("private_key_pem", "")):
            return ClientCredentialsOAuthProvider(config.url, storage, client_id, CONTEXT.get("client_secret", ""))
        algorithm = CONTEXT.get("signing_algorithm", "ES256")
        signer = SignedJWTParameters(issuer=client_id, subject=client_id, signing_key=key, signing_algorithm=algorithm)
        return PrivateKeyJWTOAuthProvider(config.url, storage, client_id, signer.create_assertion_provider())
    if "idp_id_token" in CONTEXT:
        return IdentityAssertionOAuthProvider(
            config.url,
            TokenStorage(store, config.url),
            CONTEXT["client_id"],
            CONTEXT["client_secret"],
            await issuer_of(config.url),
            id_jag,
            token_endpoint_auth_method="client_secret_basic",
        )
    if CONTEXT.get("client_id") and SCENARIO.endswith("pre-registration"):
        known = OAuthClientInformationFull(
            client_id=CONTEXT["client_id"],
            client_secret=CONTEXT.get("client_secret"),
            redirect_uris=None,
            token_endpoint_auth_method="client_secret_basic" if CONTEXT.get("client_secret") else "none",
        )
        await TokenStorage(store, config.url).set_client_info(known)
    return oauth_for(config, store, HeadlessSignIn(), client_metadata_url=METADATA_URL)


async def use(tools: list[Tool]) -> None:
    schemas = {tool.name: tool.definition.parameters for tool in tools}
    for tool in tools:
        if tool.name == "json_schema_echo":
            print(await tool.run({"schema": schemas["json_schema_2020_12_tool"]}))
            continue
        for arguments in CONTEXT.get("toolCalls") or [{"name": tool.name}]:
            if arguments["name"] == tool.name:
                given = arguments.get("arguments")
                output = await tool.run(example(tool.definition.parameters) if given is None else given)
                print(tool.name, output)


async def main() -> int:
    config = ServerConfig(name="conformance", url=sys.argv[-1], transport="http", timeout_seconds=20)
    with tempfile.TemporaryDirectory() as folder:
        auth = await authentication(config, Path(folder))
        handlers = Handlers(elicit=accept_defaults)
        async with ServerLink(config, emit=print, auth=auth, handlers=handlers) as toolset:
            print(toolset.status)
            await use(await toolset.tools())
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
