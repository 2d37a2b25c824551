"""When a provider fails: how often it is asked, how long is waited, and the one line a person reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ContextOverflowError, CredentialsError, McpAgentError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.values.events import Event, Notice, ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.provider import (
    PlayedProvider,
    Waits,
    anthropic_stream,
    chat_stream,
    failed,
    message_item,
    responses_stream,
    sse,
    text_block,
)

HELLO = ModelRequest("", (user_message("hello"),))
OK = {
    "anthropic": anthropic_stream(text_block("fine")),
    "openai": responses_stream(message_item("fine")),
    "openai-chat": chat_stream({"content": "fine"}),
}
ALL = each_row("provider_name", list(OK))


def model(name: str, played: PlayedProvider, waits: Any = None, **options: Any) -> HttpModel:
    kinds: dict[str, Any] = {
        "anthropic": AnthropicModel,
        "openai": OpenAIResponsesModel,
        "openai-chat": OpenAIChatModel,
    }
    return kinds[name](  # type: ignore[no-any-return]
        "some-model", api_key="key", http_client=played.http_client, sleep=waits or Waits(), **options
    )


async def error_of(name: str, played: PlayedProvider, **options: Any) -> McpAgentError:
    with pytest.raises(McpAgentError) as caught:
        await model(name, played, **options).respond(HELLO, ignore)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    assert caught.value.__cause__ is None
    return caught.value


def said(name: str, kind: str, message: str, **more: Any) -> dict[str, Any]:
    """An error's body as that provider writes it."""
    if name == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message, **more}}
    return {"error": {"type": kind, "message": message, "code": None, "param": None, **more}}


@ALL
@each_row("status", [408, 409, 429, 500, 503, 529])
async def test_passing_trouble_is_sat_out(provider_name: str, status: int) -> None:
    played = PlayedProvider(failed(status), failed(status), OK[provider_name])
    waits = Waits()
    events: list[Event] = []
    answer = await model(provider_name, played, waits).respond(HELLO, events.append)
    assert answer.message.text == "fine"
    assert len(played.requests) == 3
    assert 0.37 <= waits.seconds[0] <= 0.5 <= waits.seconds[1] * 2 <= 2.0
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert len(notices) == 2
    assert f"HTTP {status}; trying again in" in notices[0]


@ALL
async def test_after_the_last_retry_the_error_says_what_happened(provider_name: str) -> None:
    played = PlayedProvider(failed(529, said(provider_name, "overloaded_error", "Overloaded")))
    error = await error_of(provider_name, played)
    assert isinstance(error, ModelError)
    assert (error.provider, error.status, error.retryable) == (provider_name, 529, True)
    assert str(error) == f"{provider_name}: some-model failed (HTTP 529: Overloaded); try again later"
    assert len(played.requests) == 3


@ALL
@each_row("status", [400, 404, 422])
async def test_what_cannot_get_better_is_asked_once(provider_name: str, status: int) -> None:
    played = PlayedProvider(failed(status, said(provider_name, "invalid_request_error", "tools.0: bad\nname")))
    error = await error_of(provider_name, played)
    assert isinstance(error, ModelError)
    assert (error.status, error.retryable) == (status, False)
    assert "tools.0: bad name" in str(error)
    assert len(played.requests) == 1


@ALL
@each_row("status", [401, 403])
async def test_a_refused_key_names_its_variable(provider_name: str, status: int) -> None:
    played = PlayedProvider(failed(status, said(provider_name, "authentication_error", "invalid x-api-key")))
    error = await error_of(provider_name, played)
    assert isinstance(error, CredentialsError)
    variable = "ANTHROPIC_API_KEY" if provider_name == "anthropic" else "OPENAI_API_KEY"
    assert f"the key in {variable} was refused for some-model (HTTP {status}: invalid x-api-key)" in str(error)
    assert played.requests[0].headers["authorization"].removeprefix("Bearer ") == "key"
    assert len(played.requests) == 1


@ALL
@each_row("headers", [{"retry-after": "7"}, {"retry-after-ms": "7000"}, {"retry-after-ms": "7000", "retry-after": "1"}])
async def test_the_wait_a_provider_asks_for_is_kept(provider_name: str, headers: dict[str, str]) -> None:
    waits = Waits()
    played = PlayedProvider(failed(429, headers=headers), OK[provider_name])
    await model(provider_name, played, waits).respond(HELLO, ignore)
    assert waits.seconds == [7.0]


@ALL
async def test_a_wait_until_a_date_is_kept(provider_name: str) -> None:
    waits = Waits()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)
    played = PlayedProvider(failed(429, headers={"retry-after": date}), OK[provider_name])
    await model(provider_name, played, waits).respond(HELLO, ignore)
    assert 10 < waits.seconds[0] <= 50


GOOGLE = "type.googleapis.com/google.rpc."


def google_error(quota: str, delay: str) -> list[dict[str, Any]]:
    """As Gemini's compatible endpoint says it."""
    violation = {"quotaId": quota, "quotaMetric": "generate_requests"}
    details = [
        {"@type": f"{GOOGLE}QuotaFailure", "violations": [violation]},
        {"@type": f"{GOOGLE}RetryInfo", "retryDelay": delay},
    ]
    error = {"code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED"}
    return [{"error": {**error, "details": details}}]


async def test_geminis_wait_stands_in_the_body() -> None:
    waits = Waits()
    played = PlayedProvider(failed(429, google_error("RequestsPerMinute", "7s")), OK["openai-chat"])
    await model("openai-chat", played, waits).respond(HELLO, ignore)
    assert waits.seconds == [7.0]


async def test_geminis_quota_of_a_day_is_not_waited_for() -> None:
    error = await error_of("openai-chat", PlayedProvider(failed(429, google_error("RequestsPerDayFree", "7s"))))
    assert "credit or spend limit is used up (HTTP 429: You exceeded your current quota.)" in str(error)


async def test_an_error_of_the_provider_behind_a_gateway_is_an_error() -> None:
    inner = {"code": 502, "message": "Upstream failed."}
    streamed = sse({"choices": [{"delta": {}, "finish_reason": "error", "error": inner}]}, named=False, done=True)
    whole = httpx2.Response(200, json={"choices": [{"message": {"content": ""}, "error": inner}]})
    for answer in (streamed, whole):
        error = await error_of("openai-chat", PlayedProvider(answer), max_retries=0)
        assert isinstance(error, ModelError)
        assert (error.status, error.retryable) == (502, True)
        assert "Upstream failed." in str(error)


@ALL
async def test_a_long_wait_is_not_sat_out_but_told(provider_name: str) -> None:
    played = PlayedProvider(failed(429, said(provider_name, "rate_limit_error", "slow"), {"retry-after": "3600"}))
    error = await error_of(provider_name, played)
    assert isinstance(error, ModelError)
    assert error.retryable
    assert error.retry_after_seconds == 3600
    assert "it asks to wait 3600 s" in str(error)
    assert len(played.requests) == 1


@each_row(
    "provider_name, status, body",
    [
        (
            "anthropic",
            429,
            said("anthropic", "rate_limit_error", "limit", details={"error_code": "enforced_spend_limit_reached"}),
        ),
        ("openai", 429, said("openai", "insufficient_quota", "You exceeded your quota", code="insufficient_quota")),
        ("openai-chat", 402, {"error": {"message": "Insufficient credits", "code": 402}}),
        (
            "anthropic",
            400,
            said("anthropic", "invalid_request_error", "Your credit balance is too low to access the API."),
        ),
    ],
)
async def test_a_used_up_quota_is_not_retried(provider_name: str, status: int, body: dict[str, Any]) -> None:
    played = PlayedProvider(failed(status, body))
    error = await error_of(provider_name, played)
    assert isinstance(error, ModelError)
    assert (error.status, error.retryable) == (status, False)
    assert "credit or spend limit is used up" in str(error)
    assert len(played.requests) == 1


@each_row(
    "provider_name, status, body",
    [
        (
            "anthropic",
            400,
            said("anthropic", "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        ),
        ("anthropic", 413, said("anthropic", "request_too_large", "Request exceeds the maximum size")),
        ("openai", 400, said("openai", "invalid_request_error", "too big", code="context_length_exceeded")),
        ("openai-chat", 400, {"message": "This model's maximum context length is 8192 tokens.", "code": 400}),
        (
            "openai-chat",
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                }
            },
        ),
        (
            "openai-chat",
            400,
            {"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}},
        ),
        *(
            ("openai-chat", status, {"error": {"message": words}})
            for status, words in (
                (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
                (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
                (400, "Prompt exceeds max length"),
                (400, "Range of input length should be [1, 30000]"),
                (400, "prompt token count of 5000 exceeds the limit of 4096"),
                (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
                (400, "prompt too long; exceeded max context length by 4 tokens"),
                (400, "Please reduce the length of the messages or completion."),
                (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
                (413, "Payload Too Large"),
                (429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 50000."),
            )
        ),
    ],
)
async def test_an_overfull_conversation_is_told_apart(provider_name: str, status: int, body: dict[str, Any]) -> None:
    played = PlayedProvider(failed(status, body))
    error = await error_of(provider_name, played)
    assert isinstance(error, ContextOverflowError)
    assert (error.status, error.retryable) == (status, False)
    assert "too long for some-model" in str(error)
    assert len(played.requests) == 1


@ALL
async def test_a_server_that_is_not_there(provider_name: str) -> None:
    played = PlayedProvider(httpx2.ConnectError("connection refused"))
    error = await error_of(provider_name, played)
    assert isinstance(error, ModelError)
    assert (error.status, error.retryable) == (None, True)
    assert "nothing answers at https://api." in str(error)
    assert "connection refused" in str(error)
    assert len(played.requests) == 3


async def test_a_local_server_that_is_not_there_says_how_to_start_it() -> None:
    played = PlayedProvider(httpx2.ConnectError("connection refused"))
    hint = "is ollama running there?"
    options = {"provider": "ollama", "base_url": "http://localhost:11434/v1", "hint": hint}
    error = await error_of("openai-chat", played, **options)
    assert str(error).startswith("ollama: nothing answers at http://localhost:11434/v1 (")
    assert str(error).endswith(hint)


@ALL
async def test_a_silent_provider_is_not_waited_for_without_end(provider_name: str) -> None:
    played = PlayedProvider(httpx2.ReadTimeout("timed out"))
    error = await error_of(provider_name, played, silent_seconds=12)
    assert "sent nothing for 12 s" in str(error)
    assert played.requests[0].extensions["timeout"]["read"] == 12


class _Torn(httpx2.AsyncByteStream):
    """A body that breaks off with an error after its first piece."""

    def __init__(self, first: bytes, error: Exception) -> None:
        self._first, self._error = first, error

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        yield self._first
        raise self._error


@ALL
@each_row("error", [httpx2.ReadError("reset"), httpx2.RemoteProtocolError("peer closed")])
async def test_a_stream_that_breaks_is_asked_for_again_only_if_nothing_was_shown(
    provider_name: str, error: Exception
) -> None:
    content = OK[provider_name].content
    shown_at = content.index({"anthropic": b"text_delta", "openai": b"output_text.delta"}.get(provider_name, b"fine"))
    stream = {"content-type": "text/event-stream"}

    def torn(size: int) -> httpx2.Response:
        return httpx2.Response(200, headers=stream, stream=_Torn(content[:size], error))

    before = PlayedProvider(lambda: torn(20), OK[provider_name])
    assert (await model(provider_name, before).respond(HELLO, ignore)).message.text == "fine"
    assert len(before.requests) == 2

    after = PlayedProvider(lambda: torn(content.index(b"\n\n", shown_at) + 2), OK[provider_name])
    failure = await error_of(provider_name, after)
    assert "was cut off" in str(failure)
    assert len(after.requests) == 1


async def test_a_stream_with_an_error_in_it_is_closed_before_the_wait() -> None:
    inner = {
        "choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "Upstream failed."}}]
    }
    first = f"data: {json.dumps(inner)}\n\n".encode()
    answer = httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, stream=_Torn(first, httpx2.ReadError("never read"))
    )
    closed: list[bool] = []

    async def wait(_seconds: float) -> None:
        closed.append(answer.is_closed)

    played = PlayedProvider(answer, OK["openai-chat"])
    assert (await model("openai-chat", played, wait).respond(HELLO, ignore)).message.text == "fine"
    assert closed == [True]


@ALL
@each_row(
    "answer",
    [
        httpx2.Response(200, html="<html>Sign in</html>"),
        httpx2.Response(200, json=["not", "an", "object"]),
        httpx2.Response(200, headers={"content-type": "application/json"}, content=b"{"),
        httpx2.Response(200, json={"content": 5, "output": 5, "choices": 5}),
        httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"event: x\ndata: {nope\n\n"),
        httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b"event: x\ndata: \xff\xfe\n\n"),
    ],
)
async def test_an_answer_that_is_not_the_protocol_is_an_error(provider_name: str, answer: httpx2.Response) -> None:
    error = await error_of(provider_name, PlayedProvider(answer))
    assert isinstance(error, ModelError)
    assert not error.retryable
    assert "answered what is not its protocol" in str(error)


@ALL
async def test_an_empty_stream_is_cut_off(provider_name: str) -> None:
    error = await error_of(provider_name, PlayedProvider(sse()))
    assert "was cut off" in str(error)


async def test_an_overload_inside_a_stream_is_retried() -> None:
    overloaded = sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    played = PlayedProvider(overloaded, OK["anthropic"])
    assert (await model("anthropic", played).respond(HELLO, ignore)).message.text == "fine"
    played = PlayedProvider(overloaded)
    error = await error_of("anthropic", played, max_retries=1)
    assert isinstance(error, ModelError)
    assert error.status == 529
    assert len(played.requests) == 2


async def test_hostile_words_of_a_server_are_made_printable() -> None:
    played = PlayedProvider(failed(400, {"error": {"message": "\x1b[2Jx\r\nERROR: y" + "z" * 5000}}))
    error = await error_of("openai-chat", played)
    assert str(error).isprintable()
    assert len(str(error)) < 400


async def test_the_key_is_in_no_error() -> None:
    played = PlayedProvider(failed(401, said("openai", "x", "no")))
    with pytest.raises(CredentialsError) as caught:
        await OpenAIResponsesModel("m", api_key="sk-secret", http_client=played.http_client).respond(HELLO, ignore)
    assert "sk-secret" not in repr(caught.value)


async def test_our_own_connections_are_closed_and_the_callers_are_not() -> None:
    played = PlayedProvider(OK["openai"])
    ours = model("openai", played)
    await ours.respond(HELLO, ignore)
    await ours.aclose()
    assert not played.http_client.is_closed


def test_retry_after_forms() -> None:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC).timestamp()
    assert retry_after_seconds({"retry-after": "2.5"}, now) == 2.5
    assert retry_after_seconds({"retry-after-ms": "1500"}, now) == 1.5
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, now) == 30
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, now) == 0
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 12:00:30 -0000"}, now) == 30
    assert [retry_after_seconds({"retry-after": told}, now) for told in ("-3", "soon", "nan", "1e9", "")] == [None] * 5
    assert retry_after_seconds({}, now) is None


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text() | st.floats().map(str)))
@bounded
def test_retry_after_is_a_bounded_number_or_nothing(headers: dict[str, str]) -> None:
    seconds = retry_after_seconds(headers)
    assert seconds is None or 0 <= seconds < float("inf")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["error", "message", "code", "type", "details", "error_code"]), inner)
        ),
        max_leaves=8,
    )
)
@bounded
async def test_any_error_body_becomes_one_line(body: Any) -> None:
    content = json.dumps(body).encode("utf-8", "replace")
    answer = httpx2.Response(400, headers={"content-type": "application/json"}, content=content)
    for name in OK:
        await error_of(name, PlayedProvider(answer), max_retries=0)
