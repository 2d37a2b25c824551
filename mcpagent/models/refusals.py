"""Read a provider's refusal: which part of the request to omit, and how long an answer may be.

A parameter or a code in the error has precedence. Words of the message count only if a refusing word is next to the
name: an error that merely mentions a temperature does not refuse it.
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
"""Matches errors of Anthropic, Gemini and OpenAI about reasoning of another model, account or conversation in the
history.
"""

_REFUSES = re.compile(
    r"support|unknown|unrecogni[sz]ed|not allowed|not permitted|not valid|invalid",
    re.IGNORECASE,
)

_REFUSING = (
    "(?:support|unknown|unrecogni[sz]ed|unexpected|not allowed|not permitted|not valid|invalid|deprecated|not available"
    "|cannot|can't|must be|out of range|forbidden|disabled|no longer|does not (?:take|accept|have)|not accepted)"
)
_NEAR = r"(?:[^.;\n]|\.(?=\S)){0,60}?"
_IN_HISTORY = re.compile(r"(?:body\.)?(?:messages|input|contents)[.\[]")

OPTIONAL = frozenset({"include", "store", "stream_options"})
"""Optional fields of a request that some gateways refuse."""

_TOO_LONG_AN_ANSWER = re.compile(
    r"supports at most ([0-9]{1,9}) completion tokens"
    r"|max_tokens` must be less than or equal to `([0-9]{1,9})`"
    r"|valid range of max_tokens is \[1, ([0-9]{1,9})\]"
)
"""Matches errors of OpenAI, Groq and DeepSeek if the requested maximum output is too large."""

_NO_ROOM = re.compile(
    r"\([0-9]{1,9} > (?P<window>[0-9]{1,9}) - (?P<sent>[0-9]{1,9})\)"
    r"|maximum context length is (?P<whole>[0-9]{1,9}) tokens.{0,80}?\((?P<input>[0-9]{1,9}) in the messages,"
)
"""Matches errors of vLLM, and older ones of vLLM and OpenAI: the request fits into the window, but not together with
the requested output.
"""

LEAST_ROOM = 256
"""Minimum number of tokens for the answer; if the window has less room, the conversation is too long."""


def refuses_thoughts(failure: Failure) -> bool:
    """Return whether the failure refuses reasoning in the history."""
    return bool(_REFUSES_THOUGHTS.search(failure.message))


def refused_option(failure: Failure, body: Mapping[str, Any]) -> str:
    """Return the optional field of the body that the failure refuses, or ""."""
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
    """Return the refused fields of the body that come from settings: field -> setting.

    The failure names such a field, or refuses the setting in other words. `fields_of` returns the fields for the
    settings of a request; `known` fields are already omitted.
    """
    if _is_about_history(failure):
        return {}
    whole = fields_of(request)
    made: dict[str, list[str]] = {}
    for setting in request.settings.given():
        others = fields_of(replace(request, settings=request.settings.without(setting)))
        made[setting] = sorted(whole.keys() - others.keys() - set(known))
    for setting, names in made.items():
        if any(_is_param(failure, name) for name in names):
            return dict.fromkeys(names, setting)
    for setting, names in made.items():
        if any(_refused_in_words(failure.message, re.escape(name)) for name in names):
            return dict.fromkeys(names, setting)
    for setting, names in made.items():
        if setting == "thinking":
            words = "thinking|reasoning"
        else:
            words = setting.replace("_", "[ _-]?")
        if names and _refused_in_words(failure.message, words):
            return dict.fromkeys(names, setting)
    return {}


def _is_about_history(failure: Failure) -> bool:
    """Return whether the failure names a position in the history, whose text could contain any name."""
    return bool(_IN_HISTORY.match(failure.param) or _IN_HISTORY.match(failure.message))


def _is_param(failure: Failure, name: str) -> bool:
    """Return whether the provider's error names this field as the refused one: `temperature`,
    `thinking.budget_tokens`.
    """
    return failure.param == name or failure.param.startswith((f"{name}.", f"{name}["))


def _refused_in_words(message: str, name: str) -> bool:
    """Return whether the message has a refusing word next to the name, in the same sentence."""
    named = rf"(?<![A-Za-z_])(?:{name})(?![A-Za-z_])"
    return (
        re.search(
            rf"{_REFUSING}{_NEAR}{named}|{named}{_NEAR}{_REFUSING}",
            message,
            re.IGNORECASE,
        )
        is not None
    )


def refused_caching(failure: Failure, body: Mapping[str, Any]) -> str:
    """Return the learned flag for a refused form of caching: the field `cache_control`, or markers; "" if neither was
    refused.
    """
    named = f"{failure.param} {failure.message}"
    if "cache_control" not in named or not _REFUSES.search(named):
        return ""
    if "cache_control" in body and not re.search(
        r"(?:messages|system|tools|content)[.\[]", named
    ):
        return "cache_field"
    return "cache_markers"


def longest_answer(failure: Failure) -> int | None:
    """Return the maximum output that the model accepts, or that fits into the window.

    It reads errors in OpenAI's formats. None if the failure has another cause, or too little room remains.
    """
    if found := _TOO_LONG_AN_ANSWER.search(failure.message):
        return int(next(filter(None, found.groups())))
    if found := _NO_ROOM.search(failure.message):
        room = int(found["window"] or found["whole"]) - int(
            found["sent"] or found["input"]
        )
        if room >= LEAST_ROOM:
            return room
        return None
    return None
