"""What callers hand to an agent, checked: prompts and histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.errors import InputError
from mcpagent.messages import Message, Text, load_messages

MAX_PROMPT_CHARACTERS = 10_000_000


def usable_prompt(prompt: str) -> str:
    """The prompt as it can be sent; raises `InputError` where it is empty or too long."""
    if not prompt.strip():
        raise InputError("prompt is empty; say what you want to know")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise InputError(f"prompt is {len(prompt):,} characters; the limit is {MAX_PROMPT_CHARACTERS:,}")
    # NUL and lone surrogates cannot be sent to any provider.
    return prompt.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def read_history(messages: Sequence[Message | Mapping[str, Any]]) -> list[Message]:
    """A history from `Message` values, what `dump_messages` gave, or plain role-and-content dicts.

    Raises `InputError` where it is empty or a message is none.
    """
    if not messages:
        raise InputError("messages: the history is empty; it must end with a user's message")
    history: list[Message] = []
    for position, item in enumerate(messages):
        if isinstance(item, Message):
            history.append(item)
        elif "parts" in item:
            history.extend(load_messages([item]))
        else:
            history.append(_plain(item, position))
    return history


def _plain(item: Mapping[str, Any], position: int) -> Message:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant") or not isinstance(content, str):
        raise InputError(
            f'messages[{position}]: expected {{"role": "user" or "assistant", "content": "..."}}; '
            "system text goes into Agent(instructions=...)"
        )
    return Message(role, (Text(content),))
