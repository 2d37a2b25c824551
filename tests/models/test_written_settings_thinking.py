"""Thinking levels, translated for each endpoint; what is sent in place of a level is reported."""

from __future__ import annotations

from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.model_settings import LEVELS, settings_of
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import user_message
from tests.tables import each_row

URLS = {
    "openrouter": "https://openrouter.ai/api/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "zai": "https://api.z.ai/api/paas/v4",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "cohere": "https://api.cohere.ai/compatibility/v1",
    "vllm": "http://localhost:8000/v1",
    "gateway": "https://gateway.example/v1",
}


def model_of(spec: str) -> HttpModel:
    provider, _, name = spec.partition(":")
    if provider == "anthropic":
        return AnthropicModel(name)
    if provider == "openai":
        return OpenAIResponsesModel(name)
    return OpenAIChatModel(name, provider=provider, base_url=URLS[provider])


def sent(spec: str, thinking: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the fields that say how much to think, and the notices."""
    model = model_of(spec)
    request = ModelRequest("", (user_message("x"),), settings=ModelSettings(thinking=thinking))
    names = ("thinking", "output_config", "reasoning", "reasoning_effort", "prompt_mode", "chat_template_kwargs")
    body = model.request_body(request)
    events: list[Event] = []
    model.way(request, events.append)
    model.way(request, events.append)
    told = [event.text.removeprefix(f"{model.name}: ") for event in events if isinstance(event, Notice)]
    return {name: body[name] for name in names if name in body}, told


ADAPTIVE = {"type": "adaptive"}
EXACT: list[tuple[str, Any, dict[str, Any]]] = [
    *(
        ("anthropic:claude-opus-5-5", level, {"thinking": ADAPTIVE, "output_config": {"effort": level}})
        for level in ("low", "medium", "high", "xhigh", "max")
    ),
    ("anthropic:claude-opus-4-6", "max", {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}),
    ("anthropic:claude-opus-5-5", "off", {"thinking": {"type": "disabled"}}),
    ("anthropic:claude-sonnet-4-5", "minimal", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("anthropic:claude-sonnet-4-5", "xhigh", {"thinking": {"type": "enabled", "budget_tokens": 48_000}}),
    ("anthropic:claude-sonnet-4-5", "max", {"thinking": {"type": "enabled", "budget_tokens": 60_000}}),
    ("anthropic:claude-sonnet-4-5", 5000, {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
    ("openai:gpt-5", "minimal", {"reasoning": {"effort": "minimal"}}),
    ("openai:gpt-5.5", "xhigh", {"reasoning": {"effort": "xhigh"}}),
    ("openai:gpt-5.5", "off", {"reasoning": {"effort": "none"}}),
    ("openai:gpt-6-luna", "max", {"reasoning": {"effort": "max"}}),
    ("openrouter:anthropic/claude-opus-5-5", "xhigh", {"reasoning": {"effort": "xhigh"}}),
    ("gemini:gemini-3-flash-preview", "minimal", {"reasoning_effort": "minimal"}),
    ("gemini:gemini-3-flash-preview", "off", {"reasoning_effort": "none"}),
    ("mistral:magistral-medium-latest", "high", {"reasoning_effort": "high"}),
    ("mistral:magistral-medium-latest", "off", {"reasoning_effort": "none"}),
    ("cohere:command-a-reasoning", "high", {"reasoning_effort": "high"}),
    ("zai:glm-4.6", "off", {"thinking": {"type": "disabled"}}),
]


@each_row("spec, thinking, fields", EXACT)
def test_a_level_that_the_endpoint_has_is_sent_as_it_is(spec: str, thinking: Any, fields: dict[str, Any]) -> None:
    assert sent(spec, thinking) == (fields, [])


@each_row(
    "spec, thinking, fields, told",
    [
        (
            "anthropic:claude-opus-4-6",
            "xhigh",
            {"thinking": ADAPTIVE, "output_config": {"effort": "max"}},
            'thinking: "xhigh" is sent as "max", the nearest level that it has',
        ),
        (
            "anthropic:claude-opus-5-5",
            "minimal",
            {"thinking": ADAPTIVE, "output_config": {"effort": "low"}},
            'thinking: "minimal" is sent as "low", the nearest level that it has',
        ),
        (
            "anthropic:claude-opus-5-5",
            9000,
            {"thinking": ADAPTIVE, "output_config": {"effort": "medium"}},
            'thinking: 9,000 tokens to think are sent as the level "medium"',
        ),
        (
            "anthropic:claude-opus-4-1",
            "xhigh",
            {"thinking": {"type": "enabled", "budget_tokens": 28_000}},
            "thinking: 48,000 tokens to think are sent as 28,000: an answer needs room",
        ),
        (
            "openai:gpt-5",
            "max",
            {"reasoning": {"effort": "high"}},
            'thinking: "max" is sent as "high", the nearest level that it has',
        ),
        (
            "openai:gpt-5.5",
            "minimal",
            {"reasoning": {"effort": "low"}},
            'thinking: "minimal" is sent as "low", the nearest level that it has',
        ),
        (
            "mistral:magistral-medium-latest",
            "low",
            {"reasoning_effort": "high"},
            'thinking: "low" is sent as "high", the nearest level that it has',
        ),
        (
            "mistral:magistral-medium-2507",
            "low",
            {"prompt_mode": "reasoning"},
            'thinking: "low" is sent as thinking that is switched on: it has no levels',
        ),
        ("mistral:magistral-medium-2507", "off", {}, "thinking is left out: it always thinks"),
        (
            "deepseek:deepseek-chat",
            2000,
            {"thinking": {"type": "enabled"}},
            "thinking: 2,000 tokens to think are sent as thinking that is switched on: it has no levels",
        ),
        (
            "vllm:qwen3",
            "high",
            {"chat_template_kwargs": {"enable_thinking": True}},
            'thinking: "high" is sent as thinking that is switched on: it has no levels',
        ),
        ("mistral:ministral-8b-latest", "high", {}, "thinking is left out: it cannot be set there"),
    ],
)
def test_a_translation_that_is_not_exact_is_reported_once(
    spec: str, thinking: Any, fields: dict[str, Any], told: str
) -> None:
    assert sent(spec, thinking) == (fields, [told])


EVERYWHERE = sorted({spec for spec, _, _ in EXACT})


@each_row("spec", EVERYWHERE)
@each_row("level", [*LEVELS, 1024, 30_000])
def test_no_level_is_lost_without_a_word(spec: str, level: Any) -> None:
    fields, told = sent(spec, level)
    assert fields or told or level == "off"


def test_levels_are_read_from_text() -> None:
    assert [settings_of({"thinking": level}, "x").thinking for level in LEVELS] == list(LEVELS)
