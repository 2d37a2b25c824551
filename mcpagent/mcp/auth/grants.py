"""Request tokens with the configured grant: for a user, for the client itself, or for a workload.

Formats: RFC 6749 4.4 (client credentials), RFC 7523 (assertions, for client authentication and as a grant), RFC 8693
(exchange).
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl
from uuid import uuid4

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from pydantic import AnyUrl, ValidationError

from mcpagent.config import ServerConfig
from mcpagent.mcp.sdk import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
    SdkSignIn,
    build_oauth_authorization_server_metadata_discovery_urls,
    issuers_match,
)
from mcpagent.utilities.filesystem.bounded_files import read_bounded
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide, revealed, without_secrets

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from mcpagent.mcp.auth.oauth import Page
    from mcpagent.mcp.auth.sign_ins import TokenStorage

MAX_TOKEN_BYTES = 64 * 1024
RESOURCE, AUTHORITY = "resource", "authorization server"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105 - a kind of token
_FORM = "application/x-www-form-urlencoded"
_SIGNED_SECONDS = 300
_PRIVATE = (
    "access_token",
    "refresh_token",
    "id_token",
    "client_secret",
    "registration_access_token",
    "code",
    "code_verifier",
    "assertion",
    "client_assertion",
)
"""Fields of requests to an authorization server, and of its responses, that are never shown."""


def secret_method(
    offered: Sequence[str] | None,
) -> Literal["client_secret_basic", "client_secret_post"]:
    """Return the first supported method of client authentication; basic if the server offers none (RFC 8414 2)."""
    for method in offered or ():
        if method == "client_secret_post":
            return "client_secret_post"
        if method == "client_secret_basic":
            break
    return "client_secret_basic"


async def _problem_of(kind: str, response: httpx2.Response) -> str:
    """Return why this metadata cannot be used; "" for usable metadata, and if the address serves none.

    A web page is not metadata, but it does not mean that there is none: a proxy may return one temporarily.
    """
    if response.status_code >= 500 and kind == AUTHORITY:
        return f"HTTP {response.status_code}"
    if response.status_code != 200:
        return ""
    if response.headers.get("content-type", "").startswith("text/html"):
        return "it is a web page, not JSON"
    content = await response.aread()
    try:
        if kind == RESOURCE:
            ProtectedResourceMetadata.model_validate_json(content)
        else:
            OAuthMetadata.model_validate_json(content)
    except ValidationError as error:
        return safe_line(first_problem(error), 160)
    return ""


def is_token_request(request: httpx2.Request) -> bool:
    """Return whether the request goes to a token endpoint."""
    is_form = request.headers.get("content-type", "").startswith(_FORM)
    return request.method == "POST" and is_form and b"grant_type=" in request.content


async def _refusal_of(request: httpx2.Request, response: httpx2.Response) -> str:
    """Return why a response with tokens, or with a registration, cannot be used; "" if it can.

    The reason contains the status and the fields `error` and `error_description`, never the rest of the body.
    """
    given = json_object(await response.aread())
    sent = dict(parse_qsl(request.content.decode("utf-8", "replace")))
    for known in (given, sent):
        hide(*(str(known[name]) for name in _PRIVATE if name in known))
    # Some authorization servers report an error with status 200.
    if response.status_code not in (200, 201) or given.get("error"):
        told = [str(given.get(name) or "") for name in ("error", "error_description")]
        said = ": ".join(filter(None, told))
        return ": ".join(filter(None, (f"HTTP {response.status_code}", said)))
    try:
        if is_token_request(request):
            token = OAuthToken.model_validate_json(response.content).access_token
            if not (token.strip() and token.isascii() and token.isprintable()):
                return "access_token: empty, or with characters that no token has"
        else:
            given.pop("issuer", None)
            OAuthClientInformationFull.model_validate(given)
    except ValidationError as error:
        return first_problem(error)
    return ""


def first_problem(error: ValidationError) -> str:
    """Return the location and the text of the first validation error."""
    first = error.errors(include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}".removeprefix(": ")


class ConfiguredSignIn(SdkSignIn):
    """The SDK's OAuth client with the configured client, grant and authorization server.

    `page` is for a user's sign-in; without it, only grants that need no user work.
    """

    def __init__(
        self, config: ServerConfig, storage: TokenStorage, page: Page | None
    ) -> None:
        self._config = config
        self._way = config.sign_in
        metadata = OAuthClientMetadata(
            client_name="mcpagent",
            redirect_uris=[AnyUrl(page.redirect_uri)] if page is not None else None,
            grant_types=["authorization_code", "refresh_token"]
            if page is not None
            else [self._way.grant],
            response_types=["code"],
            token_endpoint_auth_method=None,
        )
        super().__init__(
            config.address,
            metadata,
            storage,
            page.show if page is not None else None,
            page.result if page is not None else None,
            self._way.client_metadata_url or None,
        )
        storage.context = self.context
        self._unusable: dict[str, str] = {}
        self.described: dict[str, Any] = {}
        """All metadata of the authorization server; the SDK's model omits fields of other specifications."""

    async def flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the SDK's flow, but do not let it use default addresses if metadata cannot be used."""
        flow = super().flow(request)
        self._unusable.clear()
        try:
            outgoing = await anext(flow)
            while True:
                kind = None
                if outgoing is not request:
                    kind = self._metadata_kind(outgoing)
                if kind != RESOURCE:
                    self._refuse_fallback(RESOURCE)
                if kind is None:
                    self._refuse_fallback(AUTHORITY)
                response = yield outgoing
                while (
                    pause := await self._pause_before_again(outgoing, response)
                ) is not None:
                    await asyncio.sleep(pause)
                    response = yield outgoing
                if kind == AUTHORITY and response.status_code == 200:
                    self.described = json_object(await response.aread())
                if kind is not None and (problem := await _problem_of(kind, response)):
                    where = safe_line(str(outgoing.url), 160)
                    self._unusable.setdefault(kind, f"{where}: {problem}")
                if kind is None and outgoing is not request:
                    response = await self._checked(outgoing, response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _metadata_kind(self, request: httpx2.Request) -> str | None:
        """Return whose metadata a request of the sign-in fetches; None if it fetches none.

        A server may publish its own metadata at any address (RFC 9728 5.1), an authorization server only at those of
        RFC 8414 3 and OpenID Connect Discovery 4.
        """
        if request.method != "GET":
            return None
        places = build_oauth_authorization_server_metadata_discovery_urls(
            self.context.auth_server_url, self.context.server_url
        )
        if str(request.url) in places:
            return AUTHORITY
        return RESOURCE

    async def _checked(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> httpx2.Response:
        """Return the response with tokens or a registration if it is usable. The SDK's own errors would repeat its
        body.

        An unusable refresh becomes an empty refusal, so that the user signs in again. Raises `OAuthFlowError` in other
        cases.
        """
        refusal = await _refusal_of(request, response)
        if not refusal:
            return response
        refusal = safe_line(without_secrets(refusal), 200)
        if not is_token_request(request):
            raise OAuthRegistrationError(f"it registered no client: {refusal}")
        if b"grant_type=refresh_token" in request.content:
            return httpx2.Response(400, request=request)
        raise OAuthTokenError(f"the token endpoint gave no token: {refusal}")

    def _refuse_fallback(self, kind: str) -> None:
        """Raise `OAuthFlowError` if metadata cannot be used, or if a named authorization server publishes none.

        A server with metadata (RFC 9728) names its authorization server, which must then have metadata as well (RFC
        8414). Only a server without any metadata follows the first revision of the specification, with default
        addresses.
        """
        described = self.context.protected_resource_metadata
        known: object = described
        problem = self._unusable.get(kind)
        if kind == AUTHORITY:
            known = self.context.oauth_metadata
            if described is not None and not problem:
                problem = (
                    "it publishes none where RFC 8414 and OpenID Connect look for it"
                )
        if known is None and problem:
            raise OAuthFlowError(
                f"the metadata of its {kind} cannot be used: {problem}"
            )

    async def load(self) -> None:
        """Load the stored sign-in, and replace a registered client by the configured one."""
        await super().load()
        way = self._way
        if way.client_id or way.is_unattended:
            self.context.client_info = OAuthClientInformationFull(
                client_id=way.client_id or "mcpagent",
                client_secret=revealed(way.client_secret) or None,
                redirect_uris=self.context.client_metadata.redirect_uris,
                token_endpoint_auth_method=None if way.client_secret else "none",
            )

    def select_authority(self, advertised: list[str]) -> str:
        """Return the configured authorization server, by default the first one. Raises `OAuthFlowError`."""
        wanted = self._way.issuer
        if not wanted:
            return advertised[0]
        found = next(
            (server for server in advertised if issuers_match(server, wanted)), None
        )
        if found is None:
            named = ", ".join(safe_line(server, 80) for server in advertised[:3])
            raise OAuthFlowError(
                f"it names the authorization server {named}, and its configuration another: {wanted}"
            )
        return found

    async def grant_request(self) -> httpx2.Request:
        """Return the token request of the configured grant. Raises `OAuthFlowError`."""
        way, known = self._way, self.context.oauth_metadata
        self._refuse_fallback(AUTHORITY)
        if way.issuer and (
            known is None or not issuers_match(str(known.issuer), way.issuer)
        ):
            raise OAuthFlowError(
                f"its authorization server does not show that it is {safe_line(way.issuer, 120)}"
            )
        if way.is_unattended and not way.issuer:
            self._require_own_authority()
        if way.scopes:
            self.context.client_metadata.scope = " ".join(way.scopes)
        client = self.context.client_info
        if (
            client is not None
            and client.client_secret
            and client.token_endpoint_auth_method is None
        ):
            offered = None
            if known is not None:
                offered = known.token_endpoint_auth_methods_supported
            client.token_endpoint_auth_method = secret_method(offered)
            if not way.is_unattended:
                await self.context.storage.set_client_info(
                    client
                )  # refreshing the tokens later needs it
        if not way.is_unattended:
            return await self._ask_user()
        form, headers = await self._form()
        return httpx2.Request("POST", self.tokens_url(), data=form, headers=headers)

    async def _ask_user(self) -> httpx2.Request:
        """Let the user sign in; return the token request."""
        return await super().grant_request()

    async def _pause_before_again(
        self,
        request: httpx2.Request,  # noqa: ARG002 - for those who override it
        response: httpx2.Response,  # noqa: ARG002
    ) -> float | None:
        """Return the seconds after which to send the same request again; None if the response is final."""
        return None

    def _require_own_authority(self) -> None:
        """Raise `OAuthFlowError` if reusable secrets would go to an authorization server that is neither configured nor
        the server itself.
        """
        way, known = self._way, self.context.oauth_metadata
        is_of_use = way.client_secret or (
            not way.idp_token_endpoint and (way.token or way.token_file)
        )
        own = httpx2.URL(self._config.address)
        asked = httpx2.URL(self.tokens_url())
        if is_of_use and (asked.scheme, asked.host, asked.port) != (
            own.scheme,
            own.host,
            own.port,
        ):
            issuer = safe_line(
                str(known.issuer) if known is not None else str(asked), 200
            )
            fix = f'if that is right, write "issuer": "{issuer}" into its sign_in'
            raise OAuthFlowError(
                f"it names {issuer} as the authorization server to send its secret to; {fix}"
            )

    async def _form(self) -> tuple[dict[str, str], dict[str, str]]:
        way, client = self._way, self.context.client_info
        assert client is not None
        audience = await self._audience()
        form: dict[str, str] = {}
        if way.grant == "jwt-bearer":
            form = {
                "grant_type": JWT_BEARER,
                "assertion": await self._assertion(audience),
            }
        else:
            form = {"grant_type": "client_credentials"}
        if way.private_key or way.private_key_file:
            form |= {
                "client_assertion": await self._signed(audience),
                "client_assertion_type": _ASSERTION,
            }
        elif way.grant == "client_credentials" and not way.client_secret:
            form |= {
                "client_assertion": await self._token(),
                "client_assertion_type": _ASSERTION,
            }
        if way.client_id and not client.client_secret:
            form["client_id"] = way.client_id
        if self.context.should_include_resource_param(self.context.protocol_version):
            form["resource"] = self.context.get_resource_url()
        if self.context.client_metadata.scope:
            form["scope"] = self.context.client_metadata.scope
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.context.prepare_token_auth(form, headers)

    async def _audience(self) -> str:
        """Return the audience of an assertion: the verified issuer of the authorization server."""
        known = self.context.oauth_metadata
        if known is None:
            raise OAuthFlowError(
                "its authorization server does not describe itself, so nothing is sent to it"
            )
        return str(known.issuer)

    async def _token(self) -> str:
        if not self._way.token_file:
            return revealed(self._way.token)
        try:
            token = (await asyncio.to_thread(_read, self._way.token_file)).strip()
        except (OSError, ValueError) as error:
            raise OAuthFlowError(
                f"its token_file cannot be read: {safe_line(str(error), 200)}"
            ) from None
        hide(token)
        return token

    async def _signed(self, audience: str) -> str:
        """Return the client's own assertion, signed with its key (RFC 7523 2.2 and 3)."""
        import jwt
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        way, now = self._way, int(time.time())
        claims = {
            "iss": way.client_id,
            "sub": way.client_id,
            "aud": audience,
            "iat": now,
            "jti": uuid4().hex,
        }
        try:
            pem = revealed(way.private_key) or await asyncio.to_thread(
                _read, way.private_key_file
            )
            key: Any = load_pem_private_key(pem.encode(), None)
            usual = "RS256"
            if isinstance(key, ec.EllipticCurvePrivateKey):
                usual = {"secp384r1": "ES384", "secp521r1": "ES512"}.get(
                    key.curve.name, "ES256"
                )
            elif isinstance(key, ed25519.Ed25519PrivateKey):
                usual = "EdDSA"
            return jwt.encode(
                {**claims, "exp": now + _SIGNED_SECONDS},
                key,
                algorithm=way.algorithm or usual,
            )
        except OSError as error:
            raise OAuthFlowError(
                f"its private key cannot be read: {safe_line(str(error), 200)}"
            ) from None
        except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
            what = safe_line(f"{type(error).__name__}: {error}", 160)
            raise OAuthFlowError(
                f"its private key cannot be used to sign ({what}); give a PEM without a password"
            ) from None

    async def _assertion(self, audience: str) -> str:
        """Return the assertion: the token itself, or the one for which an identity provider exchanges it (RFC 8693)."""
        way, token = self._way, await self._token()
        if not way.idp_token_endpoint:
            return token
        form = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": token,
            "subject_token_type": _ID_TOKEN,
            "audience": audience,
            "resource": self.context.get_resource_url(),
        }
        if way.scopes:
            form["scope"] = " ".join(way.scopes)
        if way.idp_client_id:
            form["client_id"] = way.idp_client_id
        if way.idp_client_secret:
            form["client_secret"] = revealed(way.idp_client_secret)
        seconds = self._config.connect_timeout_seconds
        try:
            async with (
                asyncio.timeout(seconds),
                httpx2.AsyncClient(timeout=seconds) as client,
                client.stream(
                    "POST",
                    way.idp_token_endpoint,
                    data=form,
                    headers={"Accept-Encoding": "identity"},
                ) as answer,
            ):
                content = await _bounded(answer)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            what = safe_line(f"{type(error).__name__}: {error}", 160)
            raise OAuthFlowError(
                f"its identity provider cannot be used: {what}"
            ) from None
        given = json_object(content)
        found = given.get("access_token")
        if answer.status_code != 200 or not isinstance(found, str) or not found:
            why = safe_line(
                str(given.get("error_description") or given.get("error") or ""), 200
            )
            about = ""
            if why:
                about = f": {why}"
            raise OAuthFlowError(
                f"its identity provider gave no assertion (HTTP {answer.status_code}){about}"
            )
        hide(found)
        return found


async def _bounded(answer: httpx2.Response) -> bytes:
    """Return the beginning of a response, still encoded, because a compressed body may be a thousand times larger."""
    content = b""
    async for piece in answer.aiter_raw():
        content += piece
        if len(content) > MAX_TOKEN_BYTES:
            break
    return content[:MAX_TOKEN_BYTES]


def _read(path: str) -> str:
    return read_bounded(Path(path), MAX_TOKEN_BYTES).decode()


def json_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a response; {} if it is anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, dict):
        return value
    return {}
