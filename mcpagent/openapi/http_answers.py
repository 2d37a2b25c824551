"""Convert answers of an HTTP API to results of a tool: text, data and files, or an error that helps the model."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from mcpagent.openapi.operations import is_json
from mcpagent.utilities.text.retry_after import retry_after_seconds
from mcpagent.utilities.text.safe_text import safe_line

_MOST_ERROR = 2_000
_MOST_LINES = 10
_TEXTS = (
    "text/",
    "application/xml",
    "application/javascript",
    "application/yaml",
    "application/x-ndjson",
)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The response of an API, with its body.

    `url` is the address after redirects. `is_cut`: the body exceeded the limit, and `content` is its beginning.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    is_cut: bool = False

    @property
    def media_type(self) -> str:
        """The media type in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_json(self) -> bool:
        """True if the content type is JSON, or if it is missing and the content looks like JSON."""
        if not self.media_type:
            return self.content[:1] in (b"{", b"[")
        return is_json(self.media_type)

    def text(self) -> str:
        """Return the content as text, decoded with the character set that the answer declares."""
        named = self.headers.get("content-type", "").lower().partition("charset=")[2]
        charset = named.partition(";")[0].strip("\"' ") or "utf-8"
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def value(self) -> Any:
        """Return the JSON value; None if it cannot be parsed."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None


def result_of(
    answer: HttpAnswer, *, wraps: bool, is_typed: bool, note: str = ""
) -> dict[str, Any]:
    """Return the MCP result of a successful answer; `note` is an additional text for the model.

    If the tool has an output schema (`is_typed`), the JSON is also structured content; a list is under "items" if the
    schema `wraps` it.
    """
    blocks: list[dict[str, Any]] = list(_blocks(answer))
    if note:
        blocks.append(_text_block(note))
    result: dict[str, Any] = {"content": blocks}
    if is_typed and answer.is_json and not answer.is_cut:
        value = answer.value()
        if wraps and isinstance(value, list):
            value = {"items": value}
        if isinstance(value, dict):
            result["structuredContent"] = value
    return result


def _blocks(answer: HttpAnswer) -> Iterator[dict[str, Any]]:
    kind = answer.media_type
    if not answer.content:
        yield _text_block(
            f"Done: HTTP {_status(answer.status)}, without content.{_location(answer)}"
        )
    elif answer.is_json or kind.startswith(_TEXTS) or not kind or kind.endswith("+xml"):
        yield _text_block(answer.text())
    elif kind.startswith(("image/", "audio/")):
        data = b64encode(answer.content).decode()
        yield {"type": kind.partition("/")[0], "data": data, "mimeType": kind}
    else:
        blob = {
            "uri": answer.url.partition("?")[0],
            "mimeType": kind,
            "blob": b64encode(answer.content).decode(),
        }
        yield {"type": "resource", "resource": blob}
    if answer.is_cut:
        yield _text_block("The answer was larger than the limit and is cut here.")


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def failure(text: str) -> dict[str, Any]:
    """Return the MCP result of a call that failed."""
    return {"content": [_text_block(text)], "isError": True}


def http_failure_text(answer: HttpAnswer, hint: str = "") -> str:
    """Return a text for the model about a failed response: the status, the reason, and a possible remedy."""
    reason = ""
    if answer.is_json:
        reason = _reason(answer.value())
    if not reason and answer.media_type != "text/html":
        reason = answer.text()[:_MOST_ERROR].strip()
    lines = [f"HTTP {_status(answer.status)}{f': {reason}' if reason else ''}"]
    wait = retry_after_seconds(answer.headers)
    if wait is not None:
        lines.append(f"Try again in {wait:.0f} seconds.")
    if 300 <= answer.status < 400:
        lines.append(f"It leads elsewhere, which is not followed.{_location(answer)}")
    return "\n".join(filter(None, [*lines, hint]))[: _MOST_ERROR * 2]


def _location(answer: HttpAnswer) -> str:
    location = answer.headers.get("location")
    if location:
        return f" Location: {safe_line(location, 400)}"
    return ""


def _status(status: int) -> str:
    # The phrases of `http.HTTPStatus` differ between Python versions.
    return f"{status} {httpx2.codes.get_reason_phrase(status)}".rstrip()


def _reason(value: Any) -> str:
    """Return the reason in an error's JSON, from the fields of RFC 9457 or those that other APIs use; "" if it is
    missing.
    """
    if not isinstance(value, Mapping):
        return ""
    inner = value.get("error")
    if isinstance(inner, Mapping):
        value = {**value, **inner}
    texts = [
        value[key].strip()
        for key in (
            "title",
            "detail",
            "message",
            "error",
            "error_description",
            "msg",
            "description",
        )
        if isinstance(value.get(key), str)
    ]
    lines = [": ".join(dict.fromkeys(filter(None, texts)))]
    for key in (
        "errors",
        "invalid-params",
        "invalid_params",
        "details",
        "detail",
        "violations",
    ):
        found = value.get(key)
        if isinstance(found, list):
            lines += [_item(one) for one in found[:_MOST_LINES]]
        elif isinstance(found, Mapping):
            lines += [
                f"- {name}: {json.dumps(one)[:300]}"
                for name, one in list(found.items())[:_MOST_LINES]
            ]
    return "\n".join(filter(None, lines))[:_MOST_ERROR]


def _item(one: Any) -> str:
    if isinstance(one, str):
        return f"- {one[:300]}"
    return f"- {json.dumps(one)[:300]}"
