"""From what a person types to a model: names, options, keys, and the errors for what means nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.models import (
    AnthropicModel,
    ModelRequest,
    OpenAIChatModel,
    OpenAIResponsesModel,
    ScriptedModel,
    resolve_model,
)
from mcpagent.models.http_model import HttpModel
from mcpagent.models.resolve import PROVIDERS, receivers_of
from mcpagent.values.events import ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, chat_stream, text_block

KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"), "k")
HELLO = ModelRequest("", (user_message("hello"),))


def http(spec: str | None, environ: dict[str, str]) -> HttpModel:
    found = resolve_model(spec, environ=environ)
    assert isinstance(found, HttpModel)
    return found


@each_row(
    "spec, kind, name, base_url",
    [
        ("anthropic:claude-opus-5", AnthropicModel, "anthropic:claude-opus-5", "https://api.anthropic.com"),
        ("openai:gpt-5.4", OpenAIResponsesModel, "openai:gpt-5.4", "https://api.openai.com/v1"),
        ("openai-chat:gpt-5.4", OpenAIChatModel, "openai-chat:gpt-5.4", "https://api.openai.com/v1"),
        ("ollama:qwen3:8b", OpenAIChatModel, "ollama:qwen3:8b", "http://localhost:11434/v1"),
        ("vllm:org/name", OpenAIChatModel, "vllm:org/name", "http://localhost:8000/v1"),
        ("llamacpp:x", OpenAIChatModel, "llamacpp:x", "http://localhost:8080/v1"),
        ("lmstudio:x", OpenAIChatModel, "lmstudio:x", "http://localhost:1234/v1"),
        ("openrouter:a/b:free", OpenAIChatModel, "openrouter:a/b:free", "https://openrouter.ai/api/v1"),
        (
            "gemini:gemini-3-flash-preview",
            OpenAIChatModel,
            "gemini:gemini-3-flash-preview",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        (" Anthropic : claude-x ", AnthropicModel, "anthropic:claude-x", "https://api.anthropic.com"),
        ("openai", OpenAIResponsesModel, "openai:gpt-5.5", "https://api.openai.com/v1"),
    ],
)
def test_every_prefix(spec: str, kind: type[HttpModel], name: str, base_url: str) -> None:
    found = http(spec, KEYS)
    assert isinstance(found, kind)
    assert (found.name, found.target.base_url) == (name, base_url)


def test_a_model_object_is_the_one_that_is_used() -> None:
    mine = ScriptedModel(["hi"])
    assert resolve_model(mine, environ={}) is mine


def test_anything_else_is_told() -> None:
    with pytest.raises(ConfigError, match="got int, which has no name, respond, aclose"):
        resolve_model(5, environ={})  # type: ignore[arg-type]


def test_without_a_name_the_environment_decides() -> None:
    assert http(None, {"MCPAGENT_MODEL": "ollama:qwen3", **KEYS}).name == "ollama:qwen3"
    assert http(None, KEYS).provider == "anthropic"
    assert http(None, {"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}).provider == "openai"
    assert http(None, {"GOOGLE_API_KEY": "k"}).provider == "gemini"
    assert http(None, {"ANTHROPIC_API_KEY": " ", "OPENROUTER_API_KEY": "k"}).provider == "openrouter"


def test_the_stand_in_answers_by_name_only() -> None:
    assert resolve_model("offline", environ={}).name.startswith("offline")
    with pytest.raises(CredentialsError) as raised:
        resolve_model(None, environ={"ANTHROPIC_API_KEY": " "})
    line = str(raised.value)
    for provider in ("anthropic", "openai", "gemini", "openrouter"):
        assert all(variable in line for variable in PROVIDERS[provider].key_variables)
    assert 'Agent("offline")' in line
    assert "\n" not in line


async def test_options_reach_the_request() -> None:
    played = PlayedProvider(chat_stream({"content": "ok"}))
    spec = "openai-chat:m?base_url=http://localhost:8000/v1/&temperature=0.2&max_output_tokens=99&max_retries=0"
    found = resolve_model(
        f"{spec}&api_key_env=MY_KEY&timeout_seconds=5",
        environ={"MY_KEY": "mine", **KEYS},
        http_client=played.http_client,
    )
    await found.respond(HELLO, ignore)
    [request], [body] = played.requests, played.bodies
    assert str(request.url) == "http://localhost:8000/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer mine"
    assert request.extensions["timeout"]["read"] == 5
    assert (body["temperature"], body["max_tokens"]) == (0.2, 99)


async def test_an_address_given_with_the_model_never_gets_the_usual_key() -> None:
    played = PlayedProvider(chat_stream({"content": "ok"}))
    spec = "openai-chat:m?base_url=http://somewhere.example/v1"
    await resolve_model(spec, environ=KEYS, http_client=played.http_client).respond(HELLO, ignore)
    assert played.requests[0].headers["authorization"] != "Bearer k"


@each_row(
    "host, base_url",
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1:5000", "http://127.0.0.1:5000/v1"),
        ("https://ollama.example", "https://ollama.example:443/v1"),
    ],
)
def test_ollama_host(host: str, base_url: str) -> None:
    assert http("ollama:x", {"OLLAMA_HOST": host}).target.base_url == base_url


def test_base_url_variables() -> None:
    found = http("openai:x", {"OPENAI_BASE_URL": "http://proxy.example/v1"})
    assert found.target.base_url == "http://proxy.example/v1"
    found = http("anthropic:x", {"ANTHROPIC_BASE_URL": "http://proxy.example", "ANTHROPIC_API_KEY": "k"})
    assert found.target.base_url == "http://proxy.example"


@each_row(
    "spec, parts",
    [
        (
            "gpt5",
            ['model: no provider for "gpt5"; known prefixes: anthropic:, openai:,', 'did you mean "openai:gpt5"?'],
        ),
        ("claude-sonnet-5", ['did you mean "anthropic:claude-sonnet-5"?']),
        ("anthropc:claude-x", ['no provider for "anthropc:claude-x"', 'did you mean "anthropic:claude-x"?']),
        ("anthropic/claude-x", ['did you mean "anthropic:claude-x"?']),
        ("meta/llama", ['did you mean "openrouter:meta/llama"?']),
        ("ofline", ['did you mean "offline"?']),
        ("", ['no provider for ""']),
        ("ollama:", ['"ollama:" names no model; write ollama:<model>']),
        ("openai:x?temprature=1", ['unknown option "temprature"; known options: api_key_env, base_url']),
        ("openai:x?temperature=hot", ['option temperature is "hot"; write a number from 0 to 2']),
        ("openai:x?temperature=nan", ["write a number from 0 to 2"]),
        ("openai:x?max_output_tokens=0", ["write a whole number from 1 to"]),
        ("openai:x?base_url=localhost:8000", ['base_url "localhost:8000" is not an address']),
        ("zz\x1b[2J:x", ['no provider for "zz[2J:x"']),
    ],
)
def test_names_that_mean_nothing(spec: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_model(spec, environ=KEYS)
    for part in parts:
        assert part in str(caught.value)
    assert str(caught.value).isprintable()


@each_row(
    "environ, said",
    [
        ({}, "OPENAI_API_KEY is not set; export OPENAI_API_KEY=<your key>"),
        ({"OPENAI_API_KEY": ""}, "OPENAI_API_KEY is empty"),
        ({"OPENAI_API_KEY": "  "}, "OPENAI_API_KEY is empty"),
        ({"OPENAI_API_KEY": "sk-1\n"}, "OPENAI_API_KEY contains a line break; check your .env"),
        ({"OPENAI_API_KEY": '"sk-1"'}, "OPENAI_API_KEY contains quotes"),
        ({"OPENAI_API_KEY": "sk 1"}, "OPENAI_API_KEY contains a space"),
        ({"OPENAI_API_KEY": "sk-\u00e9"}, "OPENAI_API_KEY contains"),
    ],
)
def test_missing_and_broken_keys(environ: dict[str, str], said: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        resolve_model("openai:gpt-5.4", environ=environ)
    assert said in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_a_named_key_variable_must_be_set() -> None:
    with pytest.raises(CredentialsError, match="MY_KEY is not set"):
        resolve_model("openai:x?api_key_env=MY_KEY", environ=KEYS)


async def test_a_model_made_by_hand_needs_its_key_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    played = PlayedProvider(anthropic_stream(text_block("ok")))
    made = AnthropicModel("claude-x", http_client=played.http_client)
    with pytest.raises(CredentialsError, match="ANTHROPIC_API_KEY is not set"):
        await made.respond(HELLO, ignore)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "later")
    await made.respond(HELLO, ignore)
    assert played.requests[0].headers["authorization"] == "Bearer later"


def test_naming_models_loads_no_sdk() -> None:
    code = (
        "import sys; from mcpagent.models import *; resolve_model('anthropic:x', environ={'ANTHROPIC_API_KEY': 'k'});"
        "print([m for m in ('anthropic', 'openai', 'httpx2', 'pydantic', 'mcp') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"


@each_row("kind", [AnthropicModel, OpenAIResponsesModel, OpenAIChatModel])
def test_a_mistyped_option_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"Model\(\) got an unexpected keyword argument 'api_kye'"):
        kind("m", api_kye="k")


@each_row(
    "spec, receivers",
    [
        ("openai:gpt-5.5", {"openai"}),
        (" OpenAI:gpt-5.5?effort=low", {"openai"}),
        ("openai-chat:m?base_url=http://127.0.0.1:1/v1", {"openai-chat at http://127.0.0.1:1/v1"}),
        ("openai-chat:m?base_url=http%3A%2F%2Fa&base_url=http://b", {"openai-chat at http://b"}),
        ("openai:m?api_key_env=AWS_SECRET,anthropic:x", {"openai with the key AWS_SECRET", "anthropic"}),
        ("offline", set()),
        ("ollama:qwen3", {"ollama"}),
        ("ollama:deepseek-v3.1:671b-cloud", {"ollama.com, through ollama"}),
        ("Ollama:glm-4.6:Cloud?effort=low,ollama:cloudy", {"ollama.com, through ollama", "ollama"}),
    ],
)
def test_who_a_name_sends_to_has_its_address_and_its_key(spec: str, receivers: set[str]) -> None:
    assert receivers_of(spec) == receivers
