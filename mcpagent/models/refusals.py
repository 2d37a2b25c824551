"""Read a provider's refusal: which part of the request to leave out, and how long an answer may be.

Error codes, if a provider has them, are less specific than messages. Therefore this module reads the messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from mcpagent.models.base import ModelRequest
from mcpagent.models.failures_and_retries import Failure

_REFUSES_THOUGHTS = re.compile(
    r"`?(?:thought_?)?signature|encrypted[ _]content|thinking`? block|reasoning (?:input )?items?\b",
    re.IGNORECASE,
)
"""As Anthropic, Gemini and OpenAI say that reasoning in a history is of another model, account or conversation."""

_REFUSES = re.compile(r"support|unknown|unrecogni[sz]ed|not allowed|not permitted|not valid|invalid", re.IGNORECASE)

OPTIONAL = frozenset({"include", "store", "stream_options"})
"""Fields of a body that ask for more than the answer, which some gateways do not know."""

_TOO_LONG_AN_ANSWER = re.compile(
    r"supports at most ([0-9]{1,9}) completion tokens"
    r"|max_tokens` must be less than or equal to `([0-9]{1,9})`"
    r"|valid range of max_tokens is \[1, ([0-9]{1,9})\]"
)
"""As OpenAI, Groq and DeepSeek say it."""

_NO_ROOM = re.compile(
    r"\([0-9]{1,9} > (?P<window>[0-9]{1,9}) - (?P<sent>[0-9]{1,9})\)"
    r"|maximum context length is (?P<whole>[0-9]{1,9}) tokens.{0,80}?\((?P<input>[0-9]{1,9}) in the messages,"
)
"""As vLLM says it, and as it and OpenAI said it before: what is sent fits, with so long an answer it does not."""

LEAST_ROOM = 256
"""Tokens: where a conversation leaves less for its answer, it is too long."""


def refuses_thoughts(failure: Failure) -> bool:
    """Return whether the failure refuses reasoning of the history."""
    return bool(_REFUSES_THOUGHTS.search(failure.message))


def refused_option(failure: Failure, body: Mapping[str, Any]) -> str:
    """Return the field that is sent though an answer needs none, if the failure names it as a field; else ""."""
    said = failure.message
    for name in sorted(OPTIONAL & body.keys()):
        is_named = re.search(rf"[`'\".]{name}\b|\b{name}[`'\":]|: {name}$", said)
        if failure.param == name or (is_named and _REFUSES.search(said)):
            return name
        if name == "include" and "encrypted content is not supported" in said.lower():
            return name
    return ""


def refused_setting(
    failure: Failure,
    request: ModelRequest,
    fields_of: Callable[[ModelRequest], Mapping[str, Any]],
    known: Collection[str],
) -> dict[str, str]:
    """Return the body's fields of a refused setting, mapped to the setting.

    The failure names one of the fields, or the setting in other words. `fields_of` returns the fields of all settings
    of a request; `known` are the ones already left out.
    """
    said = f"{failure.param} {failure.message}"
    whole = fields_of(request)
    made: dict[str, list[str]] = {}
    for setting in request.settings.given():
        others = fields_of(replace(request, settings=request.settings.without(setting)))
        made[setting] = sorted(whole.keys() - others.keys() - set(known))
    for setting, names in made.items():
        if any(re.search(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])", said) for name in names):
            return dict.fromkeys(names, setting)
    if not _REFUSES.search(said):
        return {}
    for setting, names in made.items():
        words = "thinking|reasoning" if setting == "thinking" else setting.replace("_", "[ _-]?")
        if names and re.search(rf"\b(?:{words})\b", said, re.IGNORECASE):
            return dict.fromkeys(names, setting)
    return {}


def longest_answer(failure: Failure) -> int | None:
    """Return the longest answer that the model accepts or the conversation leaves room for.

    It reads the errors of servers with OpenAI's formats. None if the failure has another cause, or too little room is
    left.
    """
    if found := _TOO_LONG_AN_ANSWER.search(failure.message):
        return int(next(filter(None, found.groups())))
    if found := _NO_ROOM.search(failure.message):
        room = int(found["window"] or found["whole"]) - int(found["sent"] or found["input"])
        return room if room >= LEAST_ROOM else None
    return None
