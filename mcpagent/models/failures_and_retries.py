"""Read a provider's failure, decide whether to retry, and write its one-line error.

Both SDKs raise exceptions of the same shape (`status_code`, `body`, `response`), so one reader serves all adapters.
Their own retries are disabled: they wait as long as a server demands, retry used-up quotas, and report nothing
meanwhile. The other rules are those of the SDKs: retry 408, 409, 429, 5xx and connection errors, obey `x-should-retry`,
wait 0.5 s, doubling to 8 s.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcpagent.errors import (
    ContextOverflowError,
    CredentialsError,
    McpAgentError,
    ModelError,
)
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_credentials

FailureKind: TypeAlias = Literal[
    "status", "connect", "silent", "too_long", "cut", "closed", "unreadable", "too_much"
]

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error types of Anthropic and OpenAI -> HTTP status, because an error inside a stream comes with status 200."""

_OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "request_too_large"}
)
_OVERFLOW_WORDS = (
    "prompt is too long",
    "prompt too long",
    "prompt exceeds max length",
    "prompt 超长",
    "context window",
    "context length",
    "context size",
    "context limit",
    "maximum number of tokens",
    "maximum prompt length",
    "too many tokens",
    "model token limit",
    "input token count",
    "prompt token count",
    "input is too long",
    "input length",
    "`inputs` must have less than",
    "`inputs` tokens + `max_new_tokens` must be",
    "reduce the length of the messages",
)
"""Phrases of Anthropic, OpenAI, vLLM, llama.cpp, Gemini, OpenRouter, xAI, Moonshot, Zhipu, DashScope, Vertex, Copilot
and TGI; these providers have no common error code."""

_TOO_LARGE = "request too large"
"""Phrase of OpenAI and Groq for a single request that exceeds the tokens per minute, so that waiting never helps."""

_WINDOW = re.compile(
    r"(?:maximum context length is|context length of only|n_ctx:|prompt is too long: [0-9]{1,9} tokens >) "
    r"([1-9][0-9]{2,8})\b"
)

_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "enforced_spend_limit_reached",
        "billing_error",
    }
)

_QUOTA_WORDS = ("credit balance is too low", "insufficient balance")
"""Phrases of Anthropic (with status 400) and DeepSeek for a used-up quota."""

MAX_RETRY_AFTER_SECONDS = 60.0
"""Maximum wait before a retry; if the provider demands more, the call fails at once and reports that time."""

_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Target:
    """The target of requests, as errors name it. `key_variable` is the variable with its key; "" if it needs none."""

    provider: str
    model: str
    base_url: str
    key_variable: str = ""
    hint: str = ""
    """The fix to suggest if the server does not respond or does not know the model; for servers on the user's own
    machine.
    """
    silent_seconds: float = 300.0
    """Maximum wait for the next byte; slow local models read a long prompt for minutes."""
    total_seconds: float = 3600.0
    """Maximum time for one whole answer."""

    @property
    def address(self) -> str:
        """The `base_url` without credentials, for messages."""
        return without_credentials(self.base_url)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt, read from an exception of the SDK or the HTTP client."""

    status: int | None
    code: str
    message: str
    kind: FailureKind = "status"
    retry_after_seconds: float | None = None
    """The wait that the provider demands."""
    retry_advised: bool | None = None
    """The value of the provider's `x-should-retry`."""
    window_tokens: int | None = None
    """The context window of the model, if the failure names it."""
    param: str = ""
    """The field of the request that the provider refused, if it names one."""
    request_id: str = ""
    """The provider's ID of the request."""
    generated: str = ""
    """The model's output, if the provider could not parse a call in it (Groq)."""

    @property
    def is_overflow(self) -> bool:
        """Return whether the conversation is longer than the model accepts."""
        text = self.message.lower()
        if self.code in _OVERFLOW_CODES or self.status == 413:
            return True
        if self.status == 429:
            return _TOO_LARGE in text
        return self.status in (400, 422, 500) and any(
            words in text for words in _OVERFLOW_WORDS
        )

    @property
    def is_quota(self) -> bool:
        """Return whether the paid or allowed usage is used up, so that waiting some seconds does not help."""
        text = self.message.lower()
        return (
            self.status == 402
            or self.code in _QUOTA_CODES
            or any(words in text for words in _QUOTA_WORDS)
        )

    @property
    def may_pass(self) -> bool:
        """Return whether the same request may succeed later."""
        if self.is_overflow or self.is_quota:
            return False
        if self.retry_advised is not None:
            return self.retry_advised
        if self.status is None:
            return self.kind not in ("unreadable", "too_much")
        return self.status in (408, 409, 429) or self.status >= 500

    def seconds_before_retry(self, attempt: int) -> float | None:
        """Return the seconds to wait after failed attempt number `attempt`, counted from 0.

        This is the provider's value, or else an exponential delay with jitter. None if another attempt is useless, or
        would have to wait longer than `MAX_RETRY_AFTER_SECONDS`.
        """
        asked = self.retry_after_seconds or 0.0
        if not self.may_pass or asked > MAX_RETRY_AFTER_SECONDS:
            return None
        longest = min(_FIRST_DELAY_SECONDS * 2**attempt, _LONGEST_DELAY_SECONDS)
        return asked or longest * (1 - 0.25 * random.random())  # noqa: S311 - protects nothing


class AnswerError(Exception):
    """Raised if an answer arrived but is unusable: cut off, or in violation of the protocol."""

    def __init__(self, message: str, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind


class ReportedError(Exception):
    """Raised if the provider reports an error inside an answer with status 200; `body` is the error."""

    def __init__(self, body: object) -> None:
        super().__init__("the provider reported an error inside its answer")
        self.body = {
            "error": dict(body) if isinstance(body, Mapping) else {"message": body}
        }


@contextmanager
def reading() -> Iterator[None]:
    """Raise `AnswerError` if the block, which reads a provider's data, finds it malformed."""
    try:
        yield
    except MALFORMED as error:
        raise AnswerError(f"{type(error).__name__}: {error}", "unreadable") from error


def read_failure(error: Exception) -> Failure:
    """Return the failure behind an exception: of either SDK, of the HTTP client, or of decoding the answer."""
    import httpx2

    if isinstance(error, TimeoutError):
        return Failure(None, "", "", kind="too_long")
    if isinstance(error, AnswerError):
        return Failure(None, "", safe_line(str(error)), kind=error.kind)
    cause = _http_cause(error)
    if isinstance(cause, httpx2.TimeoutException) and not isinstance(
        cause, httpx2.ConnectTimeout
    ):
        return Failure(None, "", safe_line(str(cause)), kind="silent")
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return Failure(
            None, "", safe_line(str(cause) or type(cause).__name__), kind="connect"
        )
    if isinstance(cause, httpx2.HTTPError | httpx2.InvalidURL):
        return Failure(
            None, "", safe_line(str(cause) or type(cause).__name__), kind="cut"
        )
    if isinstance(error, ValueError | RecursionError):
        return Failure(None, "", safe_line(str(error)), kind="unreadable")
    return _answered_failure(error)


def _http_cause(error: BaseException) -> BaseException | None:
    import httpx2

    seen: BaseException | None = error
    for _ in range(5):
        if seen is None or isinstance(seen, httpx2.HTTPError | httpx2.InvalidURL):
            return seen
        seen = seen.__cause__
    return None


def _answered_failure(error: Exception) -> Failure:
    body = getattr(error, "body", None)
    if isinstance(body, list) and body:  # the form of errors at Gemini's endpoint
        body = body[0]
    found: Any = body.get("error", body) if isinstance(body, dict) else {}
    inner: dict[str, Any] = found if isinstance(found, dict) else {"message": found}
    details = inner.get("details")
    named = (
        details.get("error_code") if isinstance(details, dict) else None,
        inner.get("code"),
        inner.get("type"),
    )
    codes = [
        *_google_codes(details),
        *(name for name in named if isinstance(name, str) and name),
    ]
    numbered = next((name for name in named if isinstance(name, int)), None)
    status = getattr(error, "status_code", None)
    headers: Mapping[str, str] = getattr(
        getattr(error, "response", None), "headers", {}
    )
    if isinstance(status, int) and 300 <= status < 400:
        return Failure(
            status,
            "redirect",
            safe_line(f"redirects to {headers.get('location') or 'nowhere'}"),
        )
    if not isinstance(status, int) or status < 400:
        known = next(
            (_STATUS_OF_TYPE[code] for code in codes if code in _STATUS_OF_TYPE), None
        )
        status = known or (numbered if numbered and 400 <= numbered < 600 else None)
    code = next(
        (name for name in codes if name in _QUOTA_CODES | _OVERFLOW_CODES),
        codes[0] if codes else "",
    )
    message = next(
        text
        for text in (
            inner.get("message"),
            _detail(inner),
            body,
            code,
            str(error),
            "no reason given",
        )
        if isinstance(text, str) and text
    )
    return Failure(
        status,
        code,
        safe_line(_without_markup(message)),
        retry_after_seconds=retry_after_seconds({**_google_wait(details), **headers}),
        retry_advised=_advice(error, headers),
        window_tokens=_told_window(inner, message),
        param=str(inner.get("param") or ""),
        request_id=_request_id(body, headers),
        generated=_generated(inner),
    )


def _advice(error: Exception, headers: Mapping[str, str]) -> bool | None:
    """Return the provider's advice on retrying; None if it gives none, False for errors that the SDK raises by
    itself.
    """
    if not hasattr(error, "body"):
        return False
    return {"true": True, "false": False}.get(headers.get("x-should-retry", ""))


def _detail(inner: Mapping[str, Any]) -> str:
    """Return the error text in the form of FastAPI (Mistral and many gateways): a text, or the refused fields."""
    message = inner.get("message")
    told = (message if isinstance(message, Mapping) else inner).get("detail")
    if isinstance(told, str):
        return told
    listed = []
    if isinstance(told, list):
        listed = [one for one in told[:5] if isinstance(one, Mapping)]
    return "; ".join(
        f"{_place(one.get('loc'))}{one.get('msg') or 'is refused'}" for one in listed
    )


def _place(where: object) -> str:
    if isinstance(where, list) and where:
        return f"{'.'.join(map(str, where))}: "
    return ""


def _request_id(body: object, headers: Mapping[str, str]) -> str:
    """Return the request ID of Anthropic or OpenAI, from a header or, for some errors, from the body."""
    told = None
    if isinstance(body, Mapping):
        told = body.get("request_id")
    named = (
        told,
        headers.get("request-id"),
        headers.get("x-request-id"),
        headers.get("apim-request-id"),
    )
    return safe_line(
        next((one for one in named if isinstance(one, str) and one), ""), 80
    )


def _generated(inner: Mapping[str, Any]) -> str:
    """Return the model's output in Groq's `failed_generation` (https://console.groq.com/docs/tool-use): text, or
    JSON.
    """
    written = inner.get("failed_generation")
    if written is None:
        return ""
    if isinstance(written, str):
        return written
    return json.dumps(written)


def _told_window(inner: Mapping[str, Any], message: str) -> int | None:
    """Return the context window in an error: llama.cpp sends it as `n_ctx`, vLLM and LM Studio in the message; else
    None.
    """
    told = inner.get("n_ctx")
    if isinstance(told, int) and told > 0:
        return told
    named = _WINDOW.search(message)
    if named:
        return int(named[1])
    return None


def _google_details(details: object, kind: str) -> list[Mapping[str, Any]]:
    listed = details if isinstance(details, list) else ()
    return [
        item
        for item in listed
        if isinstance(item, Mapping) and str(item.get("@type")).endswith(kind)
    ]


def _google_codes(details: object) -> list[str]:
    """Return codes for an exhausted quota of a day, which lasts long, or of a minute (google.rpc.QuotaFailure)."""
    failed = [
        item.get("violations") for item in _google_details(details, "QuotaFailure")
    ]
    if any("PerDay" in str(violations) for violations in failed):
        return ["insufficient_quota"]
    return []


def _google_wait(details: object) -> dict[str, str]:
    """Return the wait that Gemini demands, as a header; it is in the body (google.rpc.RetryInfo: "39s")."""
    delay = next(
        (item.get("retryDelay") for item in _google_details(details, "RetryInfo")), None
    )
    if isinstance(delay, str):
        return {"retry-after": delay.removesuffix("s")}
    return {}


def _without_markup(text: str) -> str:
    """Return the title of a proxy's HTML error page; any other text unchanged."""
    if (
        not text[:500]
        .lstrip()
        .lower()
        .startswith(("<!doctype", "<html", "<head", "<?xml"))
    ):
        return text
    start = text.lower().find("<title>", 0, 20_000)
    if start >= 0:
        end = text.find("<", start + len("<title>"))
    else:
        end = -1
    if end >= 0:
        return text[start + len("<title>") : end].strip() or "a web page"
    return "a web page"


def to_error(failure: Failure, target: Target) -> McpAgentError:
    """Return the exception for the caller, with one line about the target, the failure and the fix."""
    who, status = target.provider, failure.status
    if status:
        said = f"HTTP {status}: {failure.message}"
    else:
        said = failure.message
    if failure.request_id:
        said += f"; request {failure.request_id}"
    if status in (401, 403):
        return CredentialsError(_refused(target, said))
    wait = failure.retry_after_seconds
    kind = ContextOverflowError if failure.is_overflow else ModelError
    if failure.is_overflow:
        text = f"{who}: the conversation is too long for {target.model} ({said}); start a new one or shorten it"
    elif failure.is_quota:
        text = f"{who}: the account's credit or spend limit is used up ({said}); waiting does not help"
    elif "does not support tools" in failure.message:
        text = f"{who}: {target.model} cannot call tools ({said}); use a model that can, for instance qwen3"
    elif failure.code == "redirect":
        text = f"{who}: {target.address} is not the server itself ({said}); write the address it names as base_url"
    elif status == 404:
        text = f'{who}: no model "{target.model}" at {target.address} ({said}); '
        text += target.hint or "check the model's name"
    elif status is not None:
        later = "; try again later"
        if wait:
            later = f"; it asks to wait {wait:.0f} s"
        text = f"{who}: {target.model} failed ({said})" + (
            later if failure.may_pass else ""
        )
    else:
        text = _no_answer(failure, target)
    return kind(
        text,
        provider=who,
        status=status,
        retryable=failure.may_pass,
        retry_after_seconds=wait,
        code=failure.code,
        request_id=failure.request_id,
    )


def _refused(target: Target, said: str) -> str:
    if not target.key_variable:
        return f"{target.provider}: {target.address} wants a key ({said}); name its variable with ?api_key_env=NAME"
    return (
        f"{target.provider}: the key in {target.key_variable} was refused for {target.model} ({said}); "
        f"set {target.key_variable} to a valid key"
    )


def _no_answer(failure: Failure, target: Target) -> str:
    who, said = target.provider, failure.message
    match failure.kind:
        case "connect":
            fix = target.hint or "check the network, the address or the proxy"
            return f"{who}: nothing answers at {target.address} ({said}); {fix}"
        case "silent":
            return f"{who}: {target.model} sent nothing for {target.silent_seconds:g} s; try again later"
        case "too_long":
            return f"{who}: {target.model} was not done after {target.total_seconds:g} s; ask for less at once"
        case "cut":
            return (
                f"{who}: the answer of {target.model} was cut off ({said}); try again"
            )
        case "closed":
            return f"{who}: {target.address} closed the connection before it answered ({said}); try again"
        case "too_much":
            return f"{who}: {target.address} sent more than {said}; ask {target.model} for less, or check the address"
        case "unreadable":
            return f"{who}: {target.address} answered what is not its protocol ({said}); check the address"
        case _:
            return f"{who}: {target.model} failed ({said})"
