"""The client of a provider's SDK: its credentials, its connections, and the bytes and options of one request.

The SDK is imported at the first request. A key is sent only to the provider's own address, or to the address that it
was passed for.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from mcpagent.errors import ConfigError, CredentialsError, McpAgentError
from mcpagent.models.base import ModelSettings
from mcpagent.models.failures_and_retries import AnswerError, ReportedError, Target
from mcpagent.models.provider_tools.stored_files import Download
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import hide, revealed

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

    SdkClient: TypeAlias = anthropic.AsyncAnthropic | openai.AsyncOpenAI
    SdkStream: TypeAlias = anthropic.AsyncStream[object] | openai.AsyncStream[object]

_HEADER_VARIABLES = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
_ORGANISATION_HEADERS = ("OpenAI-Organization", "OpenAI-Project")


class ProviderSdk(NamedTuple):
    """The classes of a provider's SDK: its client, the base class of its errors, and its stream of events as plain
    JSON.

    The key is sent in `key_header`, formatted by `key_form`; `omit` is the value for a header that is not sent.
    `download` returns a file that the provider stores.
    """

    client: type[anthropic.AsyncAnthropic | openai.AsyncOpenAI]
    error: type[Exception]
    stream: type[SdkStream]
    key_header: str
    key_form: str
    omit: object
    download: Download


@dataclass(slots=True)
class SdkConnection:
    """The connection of one model to its server.

    `own` is a client that the caller passed, with the credentials of a cloud; without it, a client is created for each
    event loop. `has_answered` is True once a request was answered.
    """

    target: Target
    usual_url: str
    api_key: str | None
    http_client: httpx2.AsyncClient | None
    own: Any
    has_answered: bool = False
    _client: SdkClient | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Return whether requests go to another server than the provider's own."""
        return self.target.base_url.rstrip("/") != self.usual_url

    def client(self, sdk: ProviderSdk) -> Any:
        """Return the client for the running event loop: pooled connections belong to the loop that opened them."""
        import httpx2

        if self.own is not None:
            return self.own
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop, self.has_answered = loop, False
            key = self.key()
            hide(key, urlsplit(self.target.base_url).password)
            self._client = sdk.client(
                api_key=key,
                base_url=self.target.base_url,
                max_retries=0,
                timeout=httpx2.Timeout(
                    self.target.silent_seconds, connect=10.0, pool=30.0
                ),
                http_client=self.http_client,
                default_headers=self._headers_elsewhere(sdk, key),
            )
        return self._client

    def _headers_elsewhere(self, sdk: ProviderSdk, key: str) -> dict[str, Any]:
        """Return headers for a server other than the provider's, to remove those that the SDK reads from the provider's
        variables.
        """
        if not self.is_elsewhere:
            return {}
        names: set[str] = set()
        for variable in _HEADER_VARIABLES:
            for line in os.environ.get(variable, "").split("\n"):
                if ":" in line:
                    names.add(line.partition(":")[0].strip())
        return {
            **dict.fromkeys((*names, *_ORGANISATION_HEADERS), sdk.omit),
            sdk.key_header: sdk.key_form.format(key),
        }

    def key(self) -> str:
        """Return the key to send. Raises `CredentialsError` if it is required and missing, or invalid."""
        variable = self.target.key_variable
        if self.api_key is not None:
            return usable_key(self.api_key, variable or "api_key")
        if variable:
            return usable_key(os.environ.get(variable), variable)
        return "none"

    def content(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body as bytes; for the caller's own client as JSON data, which that client may change."""
        if self.own is None:
            return {"content": encoded(body)}
        return {"body": json.loads(encoded(body))}

    @contextmanager
    def signing(
        self, caught: tuple[type[Exception], ...], provider: str
    ) -> Iterator[None]:
        """Convert any exception of a cloud's client, which may fail to find credentials or packages, to an error of
        mcpagent.
        """
        try:
            yield
        except McpAgentError:
            raise
        except caught:
            raise
        except Exception as error:
            if self.own is None:
                raise
            said = safe_line(f"{type(error).__name__}: {error}", 200)
            fix = "set its credentials"
            if isinstance(error, ImportError):
                fix = f"pip install 'anthropic[{provider}]'"
            text = f"{provider}: the client of {self.target.address} could not ask ({said}); {fix}"
            raise CredentialsError(text) from None

    async def aclose(self) -> None:
        """Close its own connections; an `http_client` that the caller passed stays open."""
        client, self._client = self._client, None
        is_ours = client is not None and self.http_client is None
        if is_ours and self._loop is asyncio.get_running_loop():
            assert client is not None
            await client.close()


def request_options(settings: ModelSettings, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SDK's options for one request. Redirects are not followed, because the key would be sent to them."""
    import httpx2

    options: dict[str, Any] = {"follow_redirects": False, **own}
    if settings.headers:
        given = {name: revealed(value) for name, value in settings.headers.items()}
        options["headers"] = given | options.get("headers", {})
    if settings.timeout_seconds is not None:
        options["timeout"] = httpx2.Timeout(
            settings.timeout_seconds, connect=10.0, pool=30.0
        )
    return options


@cache
def marked_stream() -> type[openai.AsyncStream[object]]:
    """Return a subclass of the SDK's stream that records whether `[DONE]` arrived."""
    import openai
    from openai._streaming import ServerSentEvent, SSEDecoder

    class MarkedDecoder(SSEDecoder):
        was_marked = False

        def decode(self, line: str) -> ServerSentEvent | None:
            self.was_marked = self.was_marked or line.startswith(
                ("data: [DONE]", "data:[DONE]")
            )
            return super().decode(line)

    class MarkedStream(openai.AsyncStream[object]):
        def __init__(self, **about: Any) -> None:
            super().__init__(**about)
            self._decoder = self.marked = MarkedDecoder()

        @property
        def was_marked(self) -> bool:
            return self.marked.was_marked

    return MarkedStream


def usable_key(key: str | None, variable: str) -> str:
    """Return the key. Raises `CredentialsError`, which names the variable and how to set it, if the key is missing or
    invalid.
    """
    if key is None:
        raise CredentialsError(f"{variable} is not set; export {variable}=<your key>")
    if not key.strip():
        raise CredentialsError(f"{variable} is empty; export {variable}=<your key>")
    if "\n" in key or "\r" in key:
        raise CredentialsError(f"{variable} contains a line break; check your .env")
    if key[0] in "\"'" or key[-1] in "\"'":
        raise CredentialsError(
            f"{variable} contains quotes; write it without them in your .env"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialsError(
            f"{variable} contains a space or another character no key has; paste it again"
        )
    return key


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return the body as bytes, with lone surrogates and NUL, which come only from third-party text, replaced."""
    try:
        text = json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"model settings or a tool's schema: not JSON ({error})"
        ) from None
    if (
        r"\u0000" in text
    ):  # providers refuse NUL; an escaped backslash before "u0000" stays
        text = re.sub(
            r"(?<!\\)((?:\\\\)*)\\u0000", "\\1\N{REPLACEMENT CHARACTER}", text
        )
    return text.encode("utf-8", "replace")


def caught_failures(sdk_error: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions that a failed request may raise."""
    import httpx2

    decoding = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
    return (
        sdk_error,
        httpx2.HTTPError,
        httpx2.StreamError,
        TimeoutError,
        *decoding,
        AnswerError,
        ReportedError,
    )
