"""39 models by 24 settings: no wrong field by the SDKs' types, and no setting that changes without a word."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest

from mcpagent.models import ModelRequest, ModelSettings, resolve_model
from mcpagent.models.http_model import HttpModel
from mcpagent.values.messages import user_message
from tests.models.test_model_settings import params_of
from tests.wire.scene import SEARCH, WEATHER

SPECS = (
    *(
        f"anthropic:claude-{name}"
        for name in (
            *("fable-5-2", "mythos-5", "opus-5-5", "sonnet-5-5", "haiku-5-5", "opus-4-8", "opus-4-6", "sonnet-4-6"),
            *("opus-4-5", "sonnet-4-5", "haiku-4-5", "opus-4-1", "3-7-sonnet-20250219", "3-5-haiku-20241022"),
        )
    ),
    *(
        f"openai:{name}"
        for name in ("gpt-6", "gpt-5.5", "gpt-5.1", "gpt-5", "gpt-5-pro", "gpt-4.1", "gpt-4o", "o3", "o4-mini", "new")
    ),
    *(f"openai-chat:{name}" for name in ("gpt-5.5", "gpt-4o", "o3")),
    "azure:gpt-5.5",
    "gemini:gemini-3-flash-preview",
    "groq:openai/gpt-oss-120b",
    "mistral:magistral-medium-2509",
    "mistral:mistral-medium-latest",
    "deepseek:deepseek-chat",
    "xai:grok-4",
    "openrouter:anthropic/claude-sonnet-4.5",
    "openrouter:openai/gpt-5.5",
    "zai:glm-4.7",
    "cohere:command-a",
    "vllm:qwen3-32b",
)
KEYS = {
    f"{name}_API_KEY": "k"
    for name in "ANTHROPIC OPENAI AZURE_OPENAI GEMINI GROQ MISTRAL DEEPSEEK XAI OPENROUTER ZAI COHERE".split()  # noqa: SIM905
} | {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}

SETTINGS: Mapping[str, ModelSettings] = {
    "hot": ModelSettings(temperature=1.5),
    "top_p": ModelSettings(top_p=0.5),
    "both of sampling": ModelSettings(temperature=0.3, top_p=0.5),
    "endless": ModelSettings(max_output_tokens=900_000),
    **{f"thinks {level}": ModelSettings(thinking=level) for level in ("off", "minimal", "low", "medium")},
    **{f"thinks {level}": ModelSettings(thinking=level) for level in ("high", "xhigh", "max")},
    "thinks 2,000 tokens": ModelSettings(thinking=2000),
    "thinks 60,000 tokens": ModelSettings(thinking=60_000),
    "thinks, with a temperature": ModelSettings(thinking="high", temperature=0.3),
    "one stop": ModelSettings(stop=("END",)),
    "six stops": ModelSettings(stop=tuple("ABCDEF")),
    "seed": ModelSettings(seed=7),
    "a call is demanded": ModelSettings(tool_choice="required"),
    "one tool is demanded": ModelSettings(tool_choice="get_weather"),
    "one call at a time": ModelSettings(parallel_tool_calls=False),
    "tier": ModelSettings(service_tier="flex"),
    "cache for an hour": ModelSettings(cache_ttl="1h"),
    "cache for a day": ModelSettings(cache_ttl="24h"),
    "cache key": ModelSettings(prompt_cache_key="mine"),
}

BEYOND: Mapping[str, set[str]] = {
    "mistral": {"random_seed", "prompt_mode"},
    "deepseek": {"thinking"},
    "zai": {"thinking"},
    "openrouter": {"reasoning"},
    "vllm": {"chat_template_kwargs"},
}
"""Fields that these servers have beside OpenAI's."""

FORMER = {"temperature", "top_p"}
"""Fields of Messages that the SDK's newest type lacks: older models have them."""


def sent_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a body has, under our names, as a reader of the provider's documentation finds them."""
    found: dict[str, Any] = {}
    for ours, theirs in {
        "temperature": ("temperature",),
        "top_p": ("top_p",),
        "max_output_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
        "seed": ("seed", "random_seed"),
        "service_tier": ("service_tier",),
        "prompt_cache_key": ("prompt_cache_key",),
        "parallel_tool_calls": ("parallel_tool_calls",),
        "stop": ("stop", "stop_sequences"),
    }.items():
        values = [body[name] for name in theirs if name in body]
        if values:
            found[ours] = tuple(values[0]) if ours == "stop" else values[0]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("disable_parallel_tool_use"):
            found["parallel_tool_calls"] = False
        named = choice.get("name") or choice.get("function", {}).get("name")
        kind = {"any": "required"}.get(choice["type"], choice["type"])
        if named or kind != "auto":
            found["tool_choice"] = named or kind
    elif choice is not None:
        found["tool_choice"] = choice
    ttl = body.get("prompt_cache_retention") or body.get("prompt_cache_options", {}).get("ttl")
    if ttl or '"ttl": "1h"' in json.dumps(body):
        found["cache_ttl"] = ttl or "1h"
    if (thinking := thinking_in(body)) is not None:
        found["thinking"] = thinking
    return found


def thinking_in(body: Mapping[str, Any]) -> str | int | None:
    """Return the level or the tokens of thinking, "on" if it is only switched on, None if the body says nothing."""
    thinking, reasoning = body.get("thinking", {}), body.get("reasoning", {})
    effort = body.get("output_config", {}).get("effort") or reasoning.get("effort") or body.get("reasoning_effort")
    kwargs = body.get("chat_template_kwargs", {})
    if "budget_tokens" in thinking:
        return int(thinking["budget_tokens"])
    if "max_tokens" in reasoning:
        return int(reasoning["max_tokens"])
    if effort is not None:
        return "off" if effort == "none" else str(effort)
    if (
        thinking.get("type") == "disabled"
        or reasoning.get("enabled") is False
        or kwargs.get("enable_thinking") is False
    ):
        return "off"
    if thinking or kwargs or "prompt_mode" in body:
        return "on"
    return None


NEVER_THINKS = ("claude-3-5", "gpt-4", "command-a", "mistral")
NEVER_BY_ITSELF = ("claude-3-7", "claude-opus-4", "claude-sonnet-4", "claude-haiku-4", "anthropic/")


def is_usual(model: HttpModel, name: str, value: Any) -> bool:
    """Return whether the model does this without a field: it does not think by itself, or one cache is the usual."""
    if name == "thinking" and value == "off":
        return model.model_name.startswith((*NEVER_THINKS, *NEVER_BY_ITSELF))
    return False


def mismatches(spec: str) -> list[str]:
    """Return every wrong field and every silent change of one model."""
    model = resolve_model(spec, environ=KEYS)
    assert isinstance(model, HttpModel)
    kind: Any = params_of(model)._type
    known = {*get_type_hints(kind), *BEYOND.get(model.provider, ())}
    if model.protocol == "messages":
        known |= FORMER
    wrong: list[str] = []
    budgets: list[int] = []
    for label, settings in SETTINGS.items():
        request = ModelRequest("You help.", (user_message("Weather?"),), (SEARCH, WEATHER), settings=settings)
        body = json.loads(json.dumps(model.request_body(request)))
        where = f"{spec}, {label}"
        try:
            params_of(model).validate_python({**body, "model": "m"})
        except ValueError as error:
            wrong.append(f"{where}: {str(error)[:200]}")
        if unknown := sorted(body.keys() - known):
            wrong.append(f"{where}: fields {unknown}")
        if model.protocol == "messages" and body.get("temperature", 0) > 1:
            wrong.append(f"{where}: Anthropic's temperature ends at 1")
        written = model.settings_of(request)
        noted = written.left_out.keys() | written.changed.keys()
        sent = sent_in(body)
        for name, value in settings.given().items():
            has = sent.get(name)
            if name == "thinking" and isinstance(value, str) and isinstance(has, int):
                if len(settings.given()) == 1:
                    budgets.append(has)  # a level as tokens: only their order means something
            elif has != value and name not in noted and not is_usual(model, name, value):
                wrong.append(f"{where}: {name} is {value!r}, sent {has!r} without a word")
        unasked = sent.keys() - settings.given().keys() - {"max_output_tokens"}
        if unasked:
            wrong.append(f"{where}: {sorted(unasked)} was not asked for")
    if budgets != sorted(budgets):
        wrong.append(f"{spec}: budgets {budgets} are not in the order of the levels")
    return wrong


@pytest.mark.slow
def test_no_setting_of_any_model_is_a_wrong_field_or_changes_silently() -> None:
    assert len(SPECS) == 39
    assert len(SETTINGS) == 24
    wrong: list[str] = []
    for spec in SPECS:
        wrong += mismatches(spec)
    assert wrong == []


def test_the_settings_of_one_model_of_each_protocol_are_right() -> None:
    wrong: list[str] = []
    for spec in ("anthropic:claude-sonnet-4-5", "openai:gpt-5", "deepseek:deepseek-chat"):
        wrong += mismatches(spec)
    assert wrong == []
