"""Estimate the tokens of a message without a tokenizer; callers correct the estimate by the provider's counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcpagent.values.messages import (
    Audio,
    Document,
    FileId,
    Image,
    ImageUrl,
    Message,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

IMAGE_TOKENS = 1_500
"""Estimate for one image: providers count by its size in pixels, mostly between 700 and 2,500."""

DEFINITION_SHARE = 0.55
"""Factor on a quarter of a definition's characters: providers write a schema with little of its punctuation."""

_PROSE, _DENSE, _SEALED = 4.2, 3.6, 8.0
"""Bytes of UTF-8 for each token: of prose, of data and code, and of reasoning that only its provider can read."""

_PART = 3
"""Minimum number of tokens that a provider counts for a part."""

_MARKS = str.maketrans(dict.fromkeys("0123456789{}[]()<>\"'`:;,=_-/\\|*#@&%+$~^\n\t"))


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text: a fourth of its bytes for prose, a third for data (many digits and much
    punctuation).
    """
    if not text:
        return 0
    if len(text) <= 4_000:
        sample = text
    else:
        sample = text[:2_000] + text[-2_000:]
    dense = min((len(sample) - len(sample.translate(_MARKS))) / len(sample) * 3, 1.0)
    if text.isascii():
        size = len(text)
    else:
        size = len(text.encode("utf-8", "replace"))
    return int(size / (_PROSE + (_DENSE - _PROSE) * dense)) + 1


def json_tokens(value: Mapping[str, Any]) -> int:
    """Estimate the tokens of JSON data in a request."""
    if value:
        return text_tokens(json_sent(value))
    return 0


def json_sent(value: Mapping[str, Any]) -> str:
    """Return the data as the JSON of a request, or "" if it cannot be encoded."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (
        RecursionError,
        ValueError,
    ):  # such data is not from a model and is not sent to one
        return ""


def file_tokens(data: str) -> int:
    """Estimate the tokens of a document or a recording from its Base64: a page of 60 kB counts like an image."""
    return IMAGE_TOKENS + len(data) * IMAGE_TOKENS // 80_000


def message_tokens(message: Message) -> int:
    """Estimate the tokens of a message; tool definitions count with the request's tools."""
    return sum(map(_part_tokens, message.parts))


def _part_tokens(part: Part) -> int:
    match part:
        case Text(text=text):
            return text_tokens(text) + _PART
        case ToolResult(content=content):
            return sum(map(_part_tokens, content)) + 2 * _PART
        case ToolCall(name=name, arguments=arguments, malformed=malformed):
            return (
                text_tokens(name)
                + json_tokens(arguments)
                + text_tokens(malformed)
                + 2 * _PART
            )
        case Image() | ImageUrl():
            return IMAGE_TOKENS
        case Document(data=data) | Audio(data=data):
            return file_tokens(data)
        case FileId():
            return IMAGE_TOKENS
        case Thinking(text=text, provider_data=sent):
            if text:
                return text_tokens(text)
            return int(sum(map(_sealed, sent.values())) / _SEALED)
        case ProviderBlock(data=data):
            return json_tokens(data)
        case _:
            return 0


def _sealed(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    return 0
