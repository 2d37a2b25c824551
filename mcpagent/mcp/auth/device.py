"""Sign in with a code that the user enters on another device (RFC 8628), for machines without a browser."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import httpx2
from mcp.client.auth import OAuthFlowError
from pydantic import BaseModel, Field, ValidationError

from mcpagent.mcp.auth.authority import authority_client, refusal_of, shown_address
from mcpagent.mcp.auth.grants import ConfiguredSignIn, first_problem, json_object
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide, without_secrets

if TYPE_CHECKING:
    from mcpagent.config import ServerConfig
    from mcpagent.mcp.auth.sign_ins import TokenStorage

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_SECONDS = 1_800.0
SHORTEST_PAUSE = 1.0
"""Minimum seconds between two requests for the tokens, if the server allows shorter intervals."""

_LONGEST_PAUSE = 60.0
_SLOWER_SECONDS = 5.0


class DeviceCode(BaseModel):
    """The response of a device authorization endpoint (RFC 8628 3.2)."""

    device_code: str = Field(min_length=1, repr=False)
    user_code: str = Field(min_length=1, max_length=100)
    verification_uri: str = Field(min_length=1, max_length=2_000)
    verification_uri_complete: str | None = Field(None, max_length=2_000)
    expires_in: float = Field(gt=0)
    interval: float = Field(5.0, ge=0)


ShowCode: TypeAlias = Callable[[DeviceCode], Awaitable[None]]


class DeviceSignIn(ConfiguredSignIn):
    """Shows a code to the user, and polls for tokens until the user has entered it or declined, or it has expired."""

    def __init__(
        self,
        config: ServerConfig,
        storage: TokenStorage,
        show: ShowCode,
        shortest_pause: float = SHORTEST_PAUSE,
    ) -> None:
        super().__init__(config, storage, None)
        self._show = show
        self._shortest_pause = shortest_pause
        self._pause = 0.0
        self._until = 0.0
        self.was_shown = False
        self.context.client_metadata.grant_types = [DEVICE_CODE, "refresh_token"]
        self.context.client_metadata.response_types = []

    async def _ask_user(self) -> httpx2.Request:
        code = await self._code()
        self._pause = min(max(code.interval, self._shortest_pause), _LONGEST_PAUSE)
        self._until = time.monotonic() + min(code.expires_in, _LONGEST_SECONDS)
        self.was_shown = True
        await self._show(code)
        form = {"grant_type": DEVICE_CODE, "device_code": code.device_code}
        return self._request(self.tokens_url(), form)

    async def _code(self) -> DeviceCode:
        """Request a code. Raises `OAuthFlowError` if the authorization server offers none."""
        endpoint = self.described.get("device_authorization_endpoint")
        if not isinstance(endpoint, str):
            raise OAuthFlowError(
                "its authorization server offers no sign-in by code (RFC 8628); leave out device_code"
            )
        self._require_safe("its address for codes", endpoint)
        self._require_safe("its token endpoint", self.tokens_url())
        form = {}
        if self.context.client_metadata.scope:
            form["scope"] = self.context.client_metadata.scope
        async with authority_client(self._config) as client:
            answer = await client.send(self._request(endpoint, form))
        given = json_object(answer.content)
        hide(str(given.get("device_code") or ""))
        if answer.status_code != 200:
            said = str(given.get("error_description") or given.get("error") or "")
            why = safe_line(without_secrets(said), 200)
            raise OAuthFlowError(f"it gave no code: HTTP {answer.status_code} {why}")
        try:
            code = DeviceCode.model_validate(given)
        except ValidationError as error:
            raise OAuthFlowError(
                f"its code cannot be used: {first_problem(error)}"
            ) from None
        self._require_safe("the page to enter the code at", code.verification_uri)
        if code.verification_uri_complete is not None:
            self._require_safe(
                "the page to enter the code at", code.verification_uri_complete
            )
        return code

    def _require_safe(self, name: str, address: str) -> None:
        refusal = refusal_of(address, self._config.address)
        if refusal is not None:
            raise OAuthFlowError(f"{name}, {shown_address(address)}, {refusal}")

    def _request(self, endpoint: str, form: dict[str, str]) -> httpx2.Request:
        """Return a form request with the client's authentication (RFC 8628 3.1 and 3.4, RFC 8707)."""
        client = self.context.client_info
        if client is None or not client.client_id:
            raise OAuthFlowError("its authorization server registered no client")
        form = {**form, "client_id": client.client_id}
        if self.context.should_include_resource_param(self.context.protocol_version):
            form["resource"] = self.context.get_resource_url()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        form, headers = self.context.prepare_token_auth(form, headers)
        return httpx2.Request("POST", endpoint, data=form, headers=headers)

    async def _pause_before_again(
        self, request: httpx2.Request, response: httpx2.Response
    ) -> float | None:
        if response.status_code != 400 or b"device_code=" not in request.content:
            return None
        match json_object(await response.aread()).get("error"):
            case "authorization_pending":
                pass
            case "slow_down":
                self._pause = min(self._pause + _SLOWER_SECONDS, _LONGEST_PAUSE)
            case "access_denied":
                raise OAuthFlowError("the sign-in was declined there")
            case "expired_token":
                raise OAuthFlowError("the code was not entered in time")
            case _:
                return None
        if time.monotonic() + self._pause > self._until:
            raise OAuthFlowError("the code was not entered in time")
        return self._pause
