"""What the adapters over a provider's SDK share: a streamed request, read while it arrives, repeated where that helps.

An adapter says how a request is written and how an answer is read, both as pure functions over JSON data. The SDK is
used for authentication, connections and the event stream; it is imported at the first request.
"""

from __future__ import annotations

import asyncio
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypedDict, Unpack

from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.events import Emit, Event, Notice, TextDelta, ThinkingDelta
from mcpagent.messages import Message, ToolDefinition
from mcpagent.models.base import ModelRequest, ModelResponse, ModelSettings
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.failures import (
    AnswerError,
    Endpoint,
    Failure,
    ReportedError,
    delay_seconds,
    read_failure,
    reading,
    to_error,
)
from mcpagent.models.prices import dollars_for, search_cost
from mcpagent.models.textual_calls import HeldText

if TYPE_CHECKING:
    import anthropic
    import httpx2
    import openai

    SdkClient: TypeAlias = anthropic.AsyncAnthropic | openai.AsyncOpenAI
    SdkStream: TypeAlias = anthropic.AsyncStream[object] | openai.AsyncStream[object]

Delta: TypeAlias = TextDelta | ThinkingDelta

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"

END_SECONDS = 1.0
"""Longest wait for the end of a stream whose answer is whole."""


class StreamReader(Protocol):
    """Puts the events of one stream together; `done` where it knows that nothing more will come."""

    @property
    def done(self) -> bool: ...

    def add(self, event: Mapping[str, Any]) -> Delta | None:
        """Takes one event; gives what to show of it. Raises `ReportedError` where the event is an error."""
        ...

    def answer(self) -> dict[str, Any]:
        """The same JSON as without streaming. Raises `AnswerError` where the stream ended before the answer did."""
        ...


class Connection(TypedDict, total=False):
    """How a provider is reached: what every adapter takes as keywords, beside what is its own.

    `api_key` None reads `key_variable` at the first request; "" there sends no real key, for servers without one.
    `base_url` is the provider's own where it is None. `http_client` is used as it is and not closed. `settings` are
    defaults that a request's own settings override. `capabilities` overrules what is known of the model.
    `silent_seconds` is the longest wait for the next byte. `sleep` waits between attempts, for tests.
    """

    api_key: str | None
    base_url: str | None
    http_client: httpx2.AsyncClient | None
    max_retries: int
    settings: ModelSettings | None
    capabilities: Capabilities | None
    silent_seconds: float
    key_variable: str | None
    sleep: Callable[[float], Awaitable[None]]


class HttpModel(ABC):
    """A model behind a provider's HTTP API. Constructing one needs no key and does no I/O."""

    path: ClassVar[str]
    usual_url: ClassVar[str]
    reads_textual_calls = False
    """Whether calls may come as text, so that text which may become one is not shown at once."""

    def __init__(
        self, provider: str, model_name: str, usual_key: str, *, hint: str = "", **connection: Unpack[Connection]
    ) -> None:
        for key in connection:
            if key not in Connection.__annotations__:
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {key!r}")
        url = connection.get("base_url") or self.usual_url
        named = connection.get("key_variable")
        variable = named if named is not None else usual_key
        silent = connection.get("silent_seconds", 300.0)
        self.endpoint = Endpoint(provider, model_name, url, variable, hint, silent_seconds=silent)
        self.provider = provider
        self.model_name = model_name
        self.settings = connection.get("settings") or ModelSettings()
        self._api_key = connection.get("api_key")
        self._http_client = connection.get("http_client")
        self._max_retries = connection.get("max_retries", 2)
        self._sleep = connection.get("sleep", asyncio.sleep)
        self.capabilities = connection.get("capabilities") or self.known_capabilities()
        self._client: SdkClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def known_capabilities(self) -> Capabilities:
        """What is known of the model at its address."""
        return SAFE

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
    def sdk_errors(self) -> tuple[type[Exception], ...]: ...

    @abstractmethod
    def stream_class(self) -> type[SdkStream]: ...

    def request_options(self, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Headers and query of one request, as the SDK takes them."""
        return {}

    def continued(self, body: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:  # noqa: ARG002
        """The body that goes on with an answer the provider paused; None where the answer is whole."""
        return None

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:  # noqa: ARG002
        """Why requests may not carry these `deferred_tools` for the provider to search; "" where they may."""
        return f"{self.name} has no tool search of its own"

    def search_cost(self) -> float:
        """What a search costs, in cached input tokens, by the price table and by how found tools are written."""
        rewrites = self.capabilities.discovery == "append"
        return search_cost(self.provider, self.model_name, self.endpoint.base_url, rewrites=rewrites)

    def searches_in(self, message: Message, request: ModelRequest) -> list[Event]:  # noqa: ARG002
        """What to tell of the provider's own searches in an answer: what was found, and errors inside a good answer."""
        return []

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """One answer. Raises `ModelError` or `CredentialsError` with one line, never an SDK's exception.

        A failed request is repeated only while nothing of its answer was shown.
        """
        effective = replace(request, settings=merged(self.settings, request.settings))
        body: dict[str, Any] | None = self.request_body(effective)
        client: Any = self._connected()
        caught = _failures(self.sdk_errors())
        listener = HeldText(emit) if self.reads_textual_calls else emit
        answers: list[dict[str, Any]] = []
        attempt = 0
        while body is not None:
            shown = _Shown(listener)
            try:
                async with asyncio.timeout(self.endpoint.total_seconds):
                    stream = await client.post(
                        self.path,
                        cast_to=object,
                        content=encoded(body),
                        options={"follow_redirects": False, **self.request_options(body)},  # they would get the key
                        stream=True,
                        stream_cls=self.stream_class(),
                    )
                    answers.append(await self._whole_answer(stream, shown))
            except caught as error:
                await self._wait(read_failure(error), attempt, shown, emit)
                attempt += 1
            else:
                body, attempt = self.continued(body, answers), 0
        response = self._priced(self._read(answers, effective, emit))
        if isinstance(listener, HeldText) and not response.message.tool_calls:
            listener.show()
        return response

    async def _wait(self, failure: Failure, attempt: int, shown: _Shown, emit: Emit) -> None:
        """Sits out what may pass. Raises the failure as an error where another attempt would not help."""
        final = attempt == self._max_retries or shown.anything or failure.delay_is_too_long
        if final or not failure.retryable:
            raise to_error(failure, self.endpoint) from None
        delay = delay_seconds(failure, attempt)
        what = f"HTTP {failure.status}" if failure.status else failure.message or failure.kind
        emit(Notice(f"{self.provider}: {what}; trying again in {delay:.1f} s", "warning"))
        await self._sleep(delay)

    async def _whole_answer(self, stream: SdkStream, emit: Emit) -> dict[str, Any]:
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
                if reader.done:
                    await _drained(stream, _failures(self.sdk_errors()))
                    break
            with reading():
                return reader.answer()
        finally:
            await stream.response.aclose()

    def _read(self, answers: Sequence[dict[str, Any]], request: ModelRequest, emit: Emit) -> ModelResponse:
        try:
            with reading():
                response = self.read_answer(reduce(joined, answers), request)
                happened = self.searches_in(response.message, request)
        except (AnswerError, ReportedError) as error:
            raise to_error(read_failure(error), self.endpoint) from None
        for event in happened:
            emit(event)
        return response

    def _priced(self, response: ModelResponse) -> ModelResponse:
        dollars = dollars_for(response.usage, self.provider, self.model_name, self.endpoint.base_url)
        return replace(response, dollars=dollars)

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


def joined(paused: Mapping[str, Any], following: Mapping[str, Any]) -> dict[str, Any]:
    """A paused answer and what followed as one: the content in order, usage added up, earlier ids in `continued`."""
    before, after = paused.get("usage") or {}, following.get("usage") or {}
    counted = {key: value + (after.get(key) or 0) for key, value in before.items() if isinstance(value, int)}
    return {
        **following,
        "content": [*paused["content"], *following["content"]],
        "usage": {**after, **counted},
        "continued": [*(paused.get("continued") or ()), paused.get("id")],
    }


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


async def _drained(stream: SdkStream, failures: tuple[type[Exception], ...]) -> None:
    """Reads to the end, so that the connection can be used again; a server that does not end is not waited for."""
    with suppress(*failures):
        async with asyncio.timeout(END_SECONDS):
            async for _ in stream:
                pass


def _failures(sdk_errors: tuple[type[Exception], ...]) -> tuple[type[Exception], ...]:
    import httpx2

    decoding = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)
    return (*sdk_errors, httpx2.HTTPError, httpx2.StreamError, TimeoutError, *decoding, AnswerError, ReportedError)


class _Shown:
    """Passes events on and remembers that there were some: after that, a repeated request would show things twice."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self.anything = False

    def __call__(self, event: Event) -> None:
        self.anything = True
        self._emit(event)
