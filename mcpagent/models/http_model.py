"""What the adapters over a provider's SDK share: a streamed request, read while it arrives, repeated where that helps.

An adapter says how a request is written and how an answer is read, both as pure functions over JSON data. The SDK is
used for authentication, connections and the event stream; it is imported at the first request.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.events import Emit, Event, Notice, TextDelta, ThinkingDelta
from mcpagent.messages import Message
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings
from mcpagent.models.failures import (
    AnswerError,
    Endpoint,
    ReportedError,
    delay_seconds,
    read_failure,
    reading,
    to_error,
)

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

    SdkClient: TypeAlias = anthropic.AsyncAnthropic | openai.AsyncOpenAI
    SdkStream: TypeAlias = anthropic.AsyncStream[object] | openai.AsyncStream[object]

Delta: TypeAlias = TextDelta | ThinkingDelta


class StreamReader(Protocol):
    """Puts the events of one stream together."""

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        """Takes one event; gives what to show of it. Raises `ReportedError` where the event is an error."""
        ...

    def answer(self) -> dict[str, Any]:
        """The same JSON as without streaming. Raises `AnswerError` where the stream ended before the answer did."""
        ...


class HttpModel(ABC):
    """A model behind a provider's HTTP API. Constructing one needs no key and does no I/O.

    `settings` are defaults that a request's own settings override. `http_client` is used as it is and not closed.
    `sleep` waits between attempts, for tests.
    """

    provider: str
    model_name: str

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        api_key: str | None,
        http_client: httpx2.AsyncClient | None,
        max_retries: int,
        settings: ModelSettings | None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.provider = endpoint.provider
        self.model_name = endpoint.model
        self.settings = settings or ModelSettings()
        self._api_key = api_key
        self._http_client = http_client
        self._max_retries = max_retries
        self._sleep = sleep
        self._client: SdkClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model_name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON that is sent for it: the same request is always the same bytes."""

    @abstractmethod
    def read_answer(self, answer: Mapping[str, Any], request: ModelRequest) -> ModelResponse:
        """The provider's answer as ours; nothing of it that the provider wants back is lost."""

    @abstractmethod
    def stream_reader(self) -> StreamReader: ...

    @abstractmethod
    def connect(self, api_key: str) -> SdkClient:
        """A client of the provider's SDK, its own retries off."""

    @abstractmethod
    async def post(self, client: Any, body: dict[str, Any]) -> SdkStream: ...

    @abstractmethod
    def sdk_errors(self) -> tuple[type[Exception], ...]: ...

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """One answer. Raises `ModelError` or `CredentialsError` with one line, never an SDK's exception."""
        effective = replace(request, settings=merged(self.settings, request.settings))
        answer = await self.ask(self.request_body(effective), emit)
        try:
            with reading():
                response = self.read_answer(answer, effective)
                happened = self.searches_in(response.message, effective)
        except (AnswerError, ReportedError) as error:
            raise to_error(read_failure(error), self.endpoint) from None
        for event in happened:
            emit(event)
        return response

    @property
    def searches_tools(self) -> bool:
        """Whether requests may carry `deferred_tools`, which the provider searches by itself."""
        return False

    def searches_in(self, message: Message, request: ModelRequest) -> list[Event]:  # noqa: ARG002
        """What to tell of the provider's own searches in an answer: what was found, and errors inside a good answer."""
        return []

    async def ask(self, body: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """The answer to one body, whole. Repeats the request only while nothing of an answer was shown."""
        client = self._connected()
        caught = _failures(self.sdk_errors())
        for attempt in range(self._max_retries + 1):
            shown = _Shown(emit)
            try:
                async with asyncio.timeout(self.endpoint.total_seconds):
                    return await self._ask_once(client, body, shown)
            except caught as error:
                failure = read_failure(error)
                final = attempt == self._max_retries or shown.anything or failure.delay_is_too_long
                if final or not failure.retryable:
                    raise to_error(failure, self.endpoint) from None
            delay = delay_seconds(failure, attempt)
            what = f"HTTP {failure.status}" if failure.status else failure.message or failure.kind
            emit(Notice(f"{self.provider}: {what}; trying again in {delay:.1f} s", "warning"))
            await self._sleep(delay)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _ask_once(self, client: SdkClient, body: dict[str, Any], emit: Emit) -> dict[str, Any]:
        stream = await self.post(client, body)
        try:
            kind = stream.response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "application/json":  # some servers answer in one piece whatever was asked
                with reading():
                    answer = json.loads(await stream.response.aread())
                    return dict(answer)
            if kind == "text/html":
                raise AnswerError("a web page", "unreadable")
            reader = self.stream_reader()
            async for event in stream:
                with reading():
                    delta = reader.add(event) if isinstance(event, Mapping) else None
                if delta is not None:
                    emit(delta)
            with reading():
                return reader.answer()
        finally:
            await stream.response.aclose()

    def _connected(self) -> SdkClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:  # pooled connections belong to the loop that opened them
            self._client, self._loop = self.connect(self.key()), loop
        return self._client

    def key(self) -> str:
        """The key to send; raises `CredentialsError` where it is needed and missing or cannot be one."""
        variable = self.endpoint.key_variable
        if self._api_key is None and variable:
            return usable_key(os.environ.get(variable), variable)
        return usable_key(self._api_key, variable or "api_key") if self._api_key is not None else "none"

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._http_client is None and self._loop is asyncio.get_running_loop():
            await client.close()


def usable_key(key: str | None, variable: str) -> str:
    """The key, or a `CredentialsError` that names the variable and how to set it."""
    if key is None:
        raise CredentialsError(f"{variable} is not set; export {variable}=<your key>")
    if not key.strip():
        raise CredentialsError(f"{variable} is empty; export {variable}=<your key>")
    if "\n" in key or "\r" in key:
        raise CredentialsError(f"{variable} contains a line break; check your .env")
    if key[0] in "\"'" or key[-1] in "\"'":
        raise CredentialsError(f"{variable} contains quotes; write it without them in your .env")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CredentialsError(f"{variable} contains a space or another character no key has; paste it again")
    return key


def merged(defaults: ModelSettings, given: ModelSettings) -> ModelSettings:
    """The request's settings, with the model's own where it sets none."""
    return ModelSettings(
        max_output_tokens=given.max_output_tokens
        if given.max_output_tokens is not None
        else defaults.max_output_tokens,
        temperature=given.temperature if given.temperature is not None else defaults.temperature,
        extra={**defaults.extra, **given.extra},
    )


def encoded(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request. Half a surrogate pair, which only third-party text has, becomes a question mark."""
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model settings or a tool's schema: not JSON ({error})") from None
    return text.encode("utf-8", "replace")


def timeouts(endpoint: Endpoint) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(endpoint.silent_seconds, connect=10.0, pool=30.0)


def _failures(sdk_errors: tuple[type[Exception], ...]) -> tuple[type[Exception], ...]:
    import httpx2

    decoding = (json.JSONDecodeError, UnicodeDecodeError)
    return (*sdk_errors, httpx2.HTTPError, httpx2.StreamError, TimeoutError, *decoding, AnswerError, ReportedError)


class _Shown:
    """Passes events on and remembers that there were some: after that, a repeated request would show things twice."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.anything = False

    def __call__(self, event: Event) -> None:
        self.anything = True
        self._emit(event)
