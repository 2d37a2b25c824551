"""What callers hand to an agent, checked: prompts and histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mcpagent.errors import InputError
from mcpagent.messages import Image, Message, Text, load_message

MAX_PROMPT_CHARACTERS = 10_000_000

Prompt: TypeAlias = str | Sequence[Text | Image]
"""What a model is asked: words, or words and images in order."""


def usable_prompt(prompt: Prompt) -> tuple[Text | Image, ...]:
    """The prompt as it can be sent; raises `InputError` where it is empty or too long."""
    parts: tuple[Text | Image, ...] = (Text(prompt),) if isinstance(prompt, str) else tuple(prompt)
    words = [part.text for part in parts if isinstance(part, Text)]
    if len(words) == len(parts) and not any(text.strip() for text in words):
        raise InputError("prompt is empty; say what you want to know")
    if (length := sum(map(len, words))) > MAX_PROMPT_CHARACTERS:
        raise InputError(f"prompt is {length:,} characters; the limit is {MAX_PROMPT_CHARACTERS:,}")
    return tuple(part if isinstance(part, Image) else Text(_sendable(part.text)) for part in parts)


def _sendable(text: str) -> str:
    # NUL and lone surrogates cannot be sent to any provider.
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def read_history(messages: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """A history from `Message` values, what `dump_messages` gave, or plain role-and-content dicts.

    Raises `InputError` where it is empty or a message is none.
    """
    if not messages:
        raise InputError("messages: the history is empty; it must end with a user's message")
    history: list[Message] = []
    for position, item in enumerate(messages):
        if isinstance(item, Mapping) and "parts" not in item:
            history.append(_plain(item, position))
        else:
            history.append(load_message(item, position))
    return history


def _plain(item: Mapping[str, Any], position: int) -> Message:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        raise InputError(
            f'messages[{position}]: expected {{"role": "user" or "assistant", "content": "..."}}; '
            "system text goes into Agent(instructions=...)"
        )
    return Message(role, (Text(content),))
