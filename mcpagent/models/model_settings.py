"""Settings of a model, with the same names for all models; `profiles.py` defines which model supports which.

The same type is used for every source: code, the options of a model's name, the command line, or a card.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import NoneType
from typing import Any, Literal, TypeAlias

from mcpagent.errors import ConfigError
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.python.unknown_arguments import answers_unknown_arguments
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import SecretMapping, hide, secrets_in_data

ThinkingLevel: TypeAlias = Literal[
    "off", "minimal", "low", "medium", "high", "xhigh", "max"
]
LEVELS: tuple[ThinkingLevel, ...] = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
)

LEAST_BUDGET = 1024
"""Minimum thinking budget in tokens that Anthropic accepts."""

CACHE_TTLS = ("5m", "30m", "1h", "12h", "24h", "in_memory")
"""How long a provider may store a cached prefix. Anthropic supports 5m and 1h; OpenAI the others, depending on the
model.
"""


@answers_unknown_arguments
@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The settings of every request; None or an empty value leaves the provider's default.

    Settings that a model does not support are omitted, with one notice.

    - `thinking`: one of `LEVELS` ("off" to "max"), or the maximum number of tokens; a level that the model lacks
      becomes the nearest one, which is reported.
    - `tool_choice`: "auto", "none", "required", or the name of a tool. A required call applies only to the first answer
      to a prompt, since the run would not end otherwise.
    - `stop`: texts that end an answer. `cache_ttl`: one of `CACHE_TTLS`. `timeout_seconds`: maximum wait for the next
      byte.
    - `headers`: sent with each request. `extra`: merged into the request body last, for other features of a provider;
      tools in it, which the provider runs, come before all others. Both may contain credentials: `repr` shows only
      names, and pickle omits the values.
    - `profile`: the behaviour for a "small" or a "large" model; None: depends on the model (`model_size.py`).
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    thinking: ThinkingLevel | int | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    service_tier: str | None = None
    cache_ttl: str | None = None
    prompt_cache_key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_seconds: float | None = None
    profile: Literal["small", "large"] | None = None

    def __post_init__(self) -> None:
        for name, (kinds, said, holds) in _RULES.items():
            expect(name, getattr(self, name), kinds, said, holds=holds)
        for name in ("extra", "headers"):
            if not isinstance(given := getattr(self, name), SecretMapping):
                hide(*secrets_in_data(given))
                object.__setattr__(self, name, SecretMapping(given))

    def given(self) -> dict[str, Any]:
        """Return the settings that are set, by name."""
        return {
            item.name: value
            for item in fields(self)
            if (value := getattr(self, item.name)) != _UNSET[item.name]
        }

    def without(self, name: str) -> ModelSettings:
        """Return the settings with this one unset."""
        return replace(self, **{name: _UNSET[name]})


def _is_none_or(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _is_thinking(value: Any) -> bool:
    return value in LEVELS or (isinstance(value, int) and value >= LEAST_BUDGET)


def _are_texts(value: Any) -> bool:
    return all(isinstance(text, str) and text for text in value)


def _are_headers(value: Any) -> bool:
    lines = [*value, *value.values()]
    return all(
        isinstance(text, str) and text.isascii() and text.isprintable()
        for text in lines
    ) and all(value)


_LEVELS_QUOTED = ", ".join(f'"{level}"' for level in LEVELS)
_NUMBER = (int, float, NoneType)
_TEXT = (str, NoneType)
_RULES: Mapping[str, tuple[Any, str, Callable[[Any], bool]]] = {
    "max_output_tokens": (
        (int, NoneType),
        "a whole number from 1 to 10,000,000, or None",
        _is_none_or(lambda most: 1 <= most <= 10**7),
    ),
    "temperature": (
        _NUMBER,
        "a number from 0 to 2, or None",
        _is_none_or(lambda heat: 0 <= heat <= 2),
    ),
    "extra": (Mapping, "a dict of what is to be in the request", lambda _: True),
    "thinking": (
        (str, int, NoneType),
        f"{_LEVELS_QUOTED}, a number of tokens from {LEAST_BUDGET:,}, or None",
        _is_none_or(_is_thinking),
    ),
    "top_p": (
        _NUMBER,
        "a number above 0 and up to 1, or None",
        _is_none_or(lambda share: 0 < share <= 1),
    ),
    "stop": (tuple, 'a tuple of texts, ("END",)', _are_texts),
    "seed": ((int, NoneType), "a whole number or None", lambda _: True),
    "tool_choice": (
        _TEXT,
        '"auto", "none", "required", the name of a tool, or None',
        _is_none_or(bool),
    ),
    "parallel_tool_calls": ((bool, NoneType), "True, False or None", lambda _: True),
    "service_tier": (_TEXT, "a provider's name of a tier, or None", _is_none_or(bool)),
    "cache_ttl": (
        _TEXT,
        f"one of {', '.join(CACHE_TTLS)}, or None",
        _is_none_or(lambda ttl: ttl in CACHE_TTLS),
    ),
    "prompt_cache_key": (_TEXT, "a text or None", _is_none_or(bool)),
    "headers": (Mapping, "a dict of names and values in ASCII", _are_headers),
    "timeout_seconds": (
        _NUMBER,
        "a number above 0, or None",
        _is_none_or(lambda seconds: 0 < seconds < 1e6),
    ),
    "profile": (
        _TEXT,
        '"small", "large" or None',
        _is_none_or(lambda size: size in ("small", "large")),
    ),
}
_UNSET = {name: getattr(ModelSettings(), name) for name in _RULES}


def merged(defaults: ModelSettings, given: ModelSettings) -> ModelSettings:
    """Return `given` with missing settings taken from `defaults`; `extra` and `headers` are merged key by key."""
    both = {
        name: SecretMapping({**getattr(defaults, name), **getattr(given, name)})
        for name in ("extra", "headers")
    }
    return replace(defaults, **{**given.given(), **both})


# -- Settings as text --------------------------------------------------------------------------------------------------


def _whole(text: str) -> int:
    return int(text)


def _thinking(text: str) -> str | int:
    if text.isdigit():
        return int(text)
    return text


def _yes(text: str) -> bool:
    return {
        "true": True,
        "yes": True,
        "1": True,
        "false": False,
        "no": False,
        "0": False,
    }[text.lower()]


def _stop(text: str) -> tuple[str, ...]:
    """Parse one text, or a JSON list of several."""
    if text.startswith("["):
        return tuple(json.loads(text))
    return (text,)


_READERS: Mapping[str, Callable[[str], Any]] = {
    "max_output_tokens": _whole,
    "temperature": float,
    "thinking": _thinking,
    "top_p": float,
    "stop": _stop,
    "seed": _whole,
    "tool_choice": str,
    "parallel_tool_calls": _yes,
    "service_tier": str,
    "cache_ttl": str,
    "prompt_cache_key": str,
    "timeout_seconds": float,
    "profile": str,
}
SETTING_NAMES = tuple(_READERS)
_TOLD = {"stop": 'a text, or a list of them, ["END","STOP"]'}
INSIDE = ("header.", "extra.")
"""Prefixes of nested settings: `header.NAME` sets a header, `extra.NAME` a field of the body, which is parsed if it is
valid JSON.
"""


def settings_of(told: Mapping[str, str], where: str) -> ModelSettings:
    """Parse settings from texts by name. Raises `ConfigError` with the invalid setting and its syntax.

    `where` is the beginning of the error message.
    """
    made: dict[str, Any] = {}
    for name, text in told.items():
        inside = next(
            (start for start in INSIDE if name.startswith(start) and name != start),
            None,
        )
        if inside is not None:
            group = {"header.": "headers", "extra.": "extra"}[inside]
            if group == "extra":
                value = _as_json(text)
            else:
                value = text
            made[group] = {**made.get(group, {}), name.removeprefix(inside): value}
        elif name in _READERS:
            made[name] = _read(name, text, where)
        else:
            known = ", ".join((*SETTING_NAMES, "header.NAME", "extra.NAME"))
            raise ConfigError(
                f'{where} "{safe_line(name, 80)}" is not known; write one of {known}'
            )
    try:
        return ModelSettings(**made)
    except (
        ConfigError
    ):  # only headers can be invalid here: the other settings were checked
        raise ConfigError(
            f"{where} header.NAME: expected one line in ASCII, of name and value"
        ) from None


def _read(name: str, text: str, where: str) -> Any:
    try:
        value = _READERS[name](text)
        ModelSettings(**{name: value})
    except (ValueError, KeyError, TypeError, ConfigError):
        said = _TOLD.get(name) or _RULES[name][1].removesuffix(
            ", or None"
        ).removesuffix(" or None")
        raise ConfigError(
            f'{where} {name} is "{safe_line(text, 80)}"; write {said}'
        ) from None
    return value


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def as_texts(settings: ModelSettings) -> dict[str, str]:
    """Return the settings in the form that `settings_of` reads, without headers and without fields of `extra` with a
    secret.
    """
    given = settings.given()
    inside = given.pop("extra", {})
    given.pop("headers", None)
    texts = {name: _as_text(name, value) for name, value in given.items()}
    return {
        **texts,
        **{
            f"extra.{name}": json.dumps(value)
            for name, value in inside.items()
            if not any(secrets_in_data(value, name))
        },
    }


def _as_text(name: str, value: Any) -> str:
    if name == "stop":
        if len(value) > 1 or value[0].startswith("["):
            return json.dumps(list(value))
        return str(value[0])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
