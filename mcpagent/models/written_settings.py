"""Write settings as fields of a request body: the supported ones, under the names of the API and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcpagent.models.base import ModelRequest
from mcpagent.models.endpoints.model_identity import identity_of
from mcpagent.models.model_settings import LEAST_BUDGET, ModelSettings
from mcpagent.models.profiles import (
    EFFORTS,
    Effort,
    Profile,
    Server,
    caching_of,
    profile_of,
    server_of,
)
from mcpagent.models.provider_tools.provider_tool_forms import WrittenTools
from mcpagent.values.messages import Origin

DEFAULT_MAX_TOKENS = 32_000
"""`max_tokens` for an Anthropic model that is not in the table, because the API requires the field."""

_BUDGETS: Mapping[str, int] = {
    "minimal": LEAST_BUDGET,
    "low": 4_000,
    "medium": 12_000,
    "high": 31_999,
    "xhigh": 48_000,
    "max": 10**7,
}
"""Thinking budgets in tokens by effort, for models that accept a number."""

_ROOM_TO_ANSWER = 4_000
"""Part of the maximum output reserved for the answer, in tokens; at most a quarter of it."""

_MEDIUM_FROM, _HIGH_FROM = 8_000, 20_000
"""Minimum thinking budgets that count as "medium" and "high" for models that accept an effort."""

MOST_STOPS = 4
"""Maximum number of stop sequences (OpenAI's API reference, `stop`)."""

_UNKNOWN_TO = {
    "messages": ("seed", "prompt_cache_key"),
    "responses": ("stop", "seed"),
}
"""By API: the settings for which its requests have no field."""


@dataclass(slots=True)
class WrittenSettings:
    """The settings as fields of a request body; and, by setting, the reason why it is omitted, or its replacement."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    changed: dict[str, str] = field(default_factory=dict[str, str])


def written_settings(
    request: ModelRequest,
    to: Origin,
    *,
    limit_field: str = "max_tokens",
    run: WrittenTools | None = None,
) -> WrittenSettings:
    """Return the fields for the request's settings that the model supports.

    `limit_field` is the field of the maximum output on a Chat Completions server. `run` are provider tools in the same
    request, which `tool_choice` can also name.
    """
    run = run or WrittenTools()
    profile, settings, made = profile_of(to), request.settings, WrittenSettings()
    most = _most(settings, profile, made)
    match to.protocol:
        case "messages":
            most = most or profile.max_output_tokens or DEFAULT_MAX_TOKENS
            made.fields["max_tokens"] = most
            _think_as_claude(request, profile, most, made)
            _as_messages(request, made)
        case "responses":
            if most is None:
                made.fields |= {}
            else:
                made.fields |= {"max_output_tokens": most}
            _take_effort("reasoning", settings.thinking, profile, made)
            _as_responses(settings, made)
        case _:
            server = server_of(to)
            if most is None:
                made.fields |= {}
            else:
                made.fields |= {limit_field: most}
            _think_by_chat(settings.thinking, profile, server, made)
            _as_chat(request, to, profile, server, made)
    _sample(_cooled(settings, to, made), profile, made)
    for name in _UNKNOWN_TO.get(to.protocol, ()):
        if getattr(settings, name):
            made.left_out[name] = "its API knows none"
    if (
        settings.tool_choice not in (None, "auto")
        and (request.tools or run.tools)
        and request.tool_choice == "auto"
    ):
        _choose_tools(settings.tool_choice, request, to, made, run)
    return made


def _most(
    settings: ModelSettings, profile: Profile, made: WrittenSettings
) -> int | None:
    most, largest = settings.max_output_tokens, profile.max_output_tokens
    if most is not None and largest is not None and most > largest:
        made.left_out["max_output_tokens"] = (
            f"its largest answer has {largest:,} tokens, not {most:,}"
        )
        return largest
    return most


def _cooled(
    settings: ModelSettings, to: Origin, made: WrittenSettings
) -> ModelSettings:
    """Return the settings with a temperature that Claude accepts: from 0 to 1 (Anthropic's API reference)."""
    heat = settings.temperature
    if heat is None or heat <= 1 or identity_of(to.model).maker != "anthropic":
        return settings
    made.changed["temperature"] = f"{heat:g} is sent as 1, the highest that it takes"
    return replace(settings, temperature=1.0)


def _sample(settings: ModelSettings, profile: Profile, made: WrittenSettings) -> None:
    named = {"temperature": settings.temperature, "top_p": settings.top_p}
    given = {
        name: value
        for name, value in named.items()
        if value is not None and name not in made.left_out
    }
    why = ""
    if profile.sampling == "none":
        why = "it takes none"
    elif profile.sampling == "unless thinking" and settings.thinking != "off":
        why = 'it takes none unless thinking is "off"'
    elif (
        made.fields.get("thinking", {}).get("type") == "enabled"
        and "budget_tokens" in made.fields["thinking"]
    ):
        why = "it takes none while it thinks"
    elif profile.sampling == "one" and len(given) == 2:
        made.left_out["top_p"] = "it takes temperature or top_p, not both"
        del given["top_p"]
    if why:
        made.left_out |= dict.fromkeys(given, why)
    else:
        made.fields |= given


def _effort(
    thinking: str | int, efforts: Sequence[Effort], made: WrittenSettings
) -> Effort:
    """Return the nearest supported effort, the higher of two equally near; if it differs from the setting, record
    that.
    """
    asked = _level_of(thinking)
    wanted = EFFORTS.index(asked)
    nearest = min(
        efforts,
        key=lambda effort: (
            abs(EFFORTS.index(effort) - wanted),
            -EFFORTS.index(effort),
        ),
    )
    if isinstance(thinking, int):
        made.changed["thinking"] = (
            f'{thinking:,} tokens to think are sent as the level "{nearest}"'
        )
    elif nearest != asked and thinking != "off":
        made.changed["thinking"] = (
            f'"{thinking}" is sent as "{nearest}", the nearest level that it has'
        )
    return nearest


def _level_of(thinking: str | int) -> Effort:
    """Return the effort level for a thinking level or a budget in tokens."""
    if isinstance(thinking, int):
        if thinking >= _HIGH_FROM:
            return "high"
        if thinking >= _MEDIUM_FROM:
            return "medium"
        return "low"
    return next((effort for effort in EFFORTS if effort == thinking), "none")


def _think_as_claude(
    request: ModelRequest, profile: Profile, most: int, made: WrittenSettings
) -> None:
    thinking = request.settings.thinking
    if thinking is None or (thinking == "off" and profile.thinking == "none"):
        return
    if profile.thinking == "none":
        made.left_out["thinking"] = "it does not think"
    elif thinking == "off" and not profile.can_stop:
        made.left_out["thinking"] = "it always thinks"
    elif thinking == "off":
        made.fields["thinking"] = {"type": "disabled"}
    elif profile.thinking != "budget":
        made.fields |= {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": _effort(thinking, profile.efforts, made)},
        }
    elif (
        budget := min(_budget(thinking), most - min(most // 4, _ROOM_TO_ANSWER))
    ) < LEAST_BUDGET:
        made.left_out["thinking"] = f"an answer of {most:,} tokens has no room for it"
    elif not _goes_on_without_thought(request):
        made.fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
        if budget < _budget(thinking) and thinking != "max":
            made.changed["thinking"] = (
                f"{_budget(thinking):,} tokens to think are sent as {budget:,}: an answer needs room"
            )


def _budget(thinking: str | int) -> int:
    if isinstance(thinking, int):
        return thinking
    return _BUDGETS[thinking]


def _goes_on_without_thought(request: ModelRequest) -> bool:
    """Return whether the model is in the middle of calls that it began without thinking, so that it cannot start to
    think.
    """
    answers = [message for message in request.messages if message.role == "assistant"]
    return request.messages[-1].role == "tool" and all(
        part.type != "thinking" for part in answers[-1].parts[:1]
    )


def _as_messages(request: ModelRequest, made: WrittenSettings) -> None:
    settings = request.settings
    if settings.stop:
        made.fields["stop_sequences"] = list(settings.stop)
    if settings.service_tier in ("auto", "standard_only"):
        made.fields["service_tier"] = settings.service_tier
    elif settings.service_tier is not None:
        made.left_out["service_tier"] = "Anthropic's are auto and standard_only"
    if settings.cache_ttl not in (None, "5m", "1h"):
        made.left_out["cache_ttl"] = "Anthropic's are 5m and 1h"
    if (
        settings.parallel_tool_calls is False
        and request.tools
        and request.tool_choice == "auto"
    ):
        made.fields["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}


def _take_effort(
    name: str,
    thinking: str | int | None,
    profile: Profile,
    made: WrittenSettings,
    efforts: Sequence[Effort] = (),
) -> None:
    """Write the effort into the field `name`, `reasoning` or `reasoning_effort`; `efforts` are those of the server."""
    if thinking is None or (
        thinking == "off" and profile.thinking in ("none", "budget")
    ):
        return
    if profile.thinking == "none":
        made.left_out["thinking"] = "it does not think"
        return
    if thinking == "off" and profile.thinking == "adaptive" and profile.can_stop:
        if name == "reasoning":
            made.fields[name] = {"effort": "none"}
        else:
            made.fields[name] = "none"
        return
    is_unknown = profile.thinking == "unknown"
    if thinking == "off" and is_unknown:
        effort = "none"
    else:
        effort = _effort(thinking, efforts or profile.efforts, made)
    if thinking == "off" and effort != "none":
        made.left_out["thinking"] = f'it always thinks; "{effort}" is sent'
    if name == "reasoning":
        made.fields[name] = {"effort": effort}
    else:
        made.fields[name] = effort


def _as_responses(settings: ModelSettings, made: WrittenSettings) -> None:
    named = ("parallel_tool_calls", "service_tier", "prompt_cache_key")
    made.fields |= {
        name: value for name in named if (value := getattr(settings, name)) is not None
    }
    _keep_cache(settings.cache_ttl, made)


def _keep_cache(ttl: str | None, made: WrittenSettings) -> None:
    match ttl:
        case None:
            pass
        case "24h" | "in_memory":
            made.fields["prompt_cache_retention"] = ttl
        case "30m" | "12h":
            made.fields["prompt_cache_options"] = {"ttl": ttl}
        case _:
            made.left_out["cache_ttl"] = "OpenAI's are in_memory, 30m, 12h and 24h"


def _think_by_chat(
    thinking: str | int | None, profile: Profile, server: Server, made: WrittenSettings
) -> None:
    off = thinking == "off"
    match server.thinking:
        case _ if thinking is None:
            pass
        case "effort":
            of_server = server.efforts if profile.thinking == "unknown" else ()
            _take_effort("reasoning_effort", thinking, profile, made, of_server)
        case "object" if profile.thinking != "none":
            asked = (
                {"max_tokens": thinking}
                if isinstance(thinking, int)
                else {"effort": thinking}
            )
            if off:
                made.fields["reasoning"] = {"enabled": False}
            else:
                made.fields["reasoning"] = asked
        case "switch":
            made.fields["thinking"] = {"type": "disabled" if off else "enabled"}
            _note_switch(thinking, made)
        case "template":
            made.fields["chat_template_kwargs"] = {"enable_thinking": not off}
            _note_switch(thinking, made)
        case "mistral":
            _think_as_mistral(thinking, profile, made)
        case _ if not off:
            made.left_out["thinking"] = "it cannot be set there"
        case _:
            pass


def _note_switch(thinking: str | int | None, made: WrittenSettings) -> None:
    if thinking != "off":
        if isinstance(thinking, int):
            shown = f"{thinking:,} tokens to think are"
        else:
            shown = f'"{thinking}" is'
        made.changed["thinking"] = (
            f"{shown} sent as thinking that is switched on: it has no levels"
        )


def _think_as_mistral(
    thinking: str | int | None, profile: Profile, made: WrittenSettings
) -> None:
    """Write thinking as in Mistral's docs on reasoning: the effort "high" or "none", or a prompt mode for Magistral."""
    if profile.thinking == "effort" and profile.efforts:
        _take_effort("reasoning_effort", thinking, profile, made)
    elif profile.thinking == "adaptive" and thinking == "off":
        made.left_out["thinking"] = "it always thinks"
    elif profile.thinking == "adaptive":
        made.fields["prompt_mode"] = "reasoning"
        _note_switch(thinking, made)
    elif thinking != "off":
        made.left_out["thinking"] = "it cannot be set there"


_BY_NAME = ("stop", "seed", "parallel_tool_calls", "service_tier", "prompt_cache_key")


def _as_chat(
    request: ModelRequest,
    to: Origin,
    profile: Profile,
    server: Server,
    made: WrittenSettings,
) -> None:
    settings = request.settings
    given = settings.given()
    if not request.tools:
        given.pop("parallel_tool_calls", None)
    if caching_of(to) == "markers" and settings.cache_ttl in ("5m", "1h"):
        given.pop("cache_ttl")
    asked = [name for name in (*_BY_NAME, "top_p", "cache_ttl") if name in given]
    for name in asked:
        known = name in server.fields or (
            name == "cache_ttl" and "prompt_cache_key" in server.fields
        )
        if not known or (name == "stop" and not profile.stops):
            if known:
                made.left_out[name] = "it takes none"
            else:
                made.left_out[name] = "it is not known there"
        elif name == "stop":
            made.fields[server.fields[name]] = _few_stops(given[name], server, made)
        elif name in _BY_NAME:
            made.fields[server.fields[name]] = given[name]
        elif name == "cache_ttl":
            _keep_cache(settings.cache_ttl, made)


def _few_stops(
    stops: Sequence[str], server: Server, made: WrittenSettings
) -> list[str]:
    """Return at most the number of stop texts that OpenAI accepts; other servers accept more, or report their limit."""
    if server.dialect != "openai" or len(stops) <= MOST_STOPS:
        return list(stops)
    made.changed["stop"] = (
        f"{len(stops)} texts end an answer, and it takes {MOST_STOPS}: the first ones are sent"
    )
    return list(stops[:MOST_STOPS])


def _was_just_asked(request: ModelRequest) -> bool:
    """Return whether the last message is a prompt. A user's turn after tool results is not one."""
    before = next(
        (
            message.role
            for message in reversed(request.messages)
            if message.role != "user"
        ),
        "",
    )
    return request.messages[-1].role == "user" and before != "tool"


def _thinks(made: WrittenSettings) -> bool:
    """Return whether thinking is on for Claude, so that it accepts no required call (Anthropic docs, extended
    thinking).
    """
    return made.fields.get("thinking", {}).get("type") in ("enabled", "adaptive")


def _choose_tools(
    chosen: str | None,
    request: ModelRequest,
    to: Origin,
    made: WrittenSettings,
    run: WrittenTools,
) -> None:
    """Write which tool must be called, if the last message is a prompt, or that none may be called."""
    if chosen is None or (chosen != "none" and not _was_just_asked(request)):
        return
    is_name = chosen not in ("none", "required")
    if is_name and chosen not in {*(tool.name for tool in request.tools), *run.choices}:
        made.left_out["tool_choice"] = f'no tool "{chosen[:64]}" is offered'
    elif chosen != "none" and to.protocol == "messages" and _thinks(made):
        made.left_out["tool_choice"] = "no call can be demanded while it thinks"
    elif chosen in run.choices and to.protocol == "responses":
        # The form that names one tool does not support "web_search"; a list of allowed tools supports any name.
        made.fields["tool_choice"] = {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [run.choices[chosen]],
        }
    elif to.protocol == "messages":
        before = {}
        if chosen != "none":
            before = made.fields.get("tool_choice", {})
        kind = {"none": "none", "required": "any"}.get(chosen, "tool")
        made.fields["tool_choice"] = {
            **before,
            "type": kind,
            **({"name": chosen} if is_name else {}),
        }
    elif is_name:
        named = (
            {"name": chosen}
            if to.protocol == "responses"
            else {"function": {"name": chosen}}
        )
        made.fields["tool_choice"] = {"type": "function", **named}
    else:
        made.fields["tool_choice"] = chosen
