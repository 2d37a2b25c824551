"""Names of models as people write them: options in JSON, secrets in options, clouds without credentials, near names."""

from __future__ import annotations

from typing import Any

import pytest

from mcpagent import Agent
from mcpagent.errors import ConfigError, CredentialsError, ModelError
from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIChatModel, resolve_model
from mcpagent.models.http_model import HttpModel
from mcpagent.models.model_names import names_in, shown_spec
from mcpagent.models.resolve import default_spec
from mcpagent.values.events import ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row

HELLO = ModelRequest("", (user_message("hello"),))


@each_row(
    "spec, names",
    [
        ("a:b, c:d", ["a:b", "c:d"]),
        ('a:b?stop=["x","y"],c:d', ['a:b?stop=["x","y"]', "c:d"]),
        ('a:b?extra.m={"a":{"b":[1,2]},"c":"},{"},c:d', ['a:b?extra.m={"a":{"b":[1,2]},"c":"},{"}', "c:d"]),
        ("a:b?stop=[x,c:d", ["a:b?stop=[x", "c:d"]),  # no JSON
        ("a:b[x,c:d", ["a:b[x", "c:d"]),
        ("a:b,", ["a:b", ""]),
    ],
)
def test_commas_part_models_but_not_what_is_in_an_option(spec: str, names: list[str]) -> None:
    assert names_in(spec) == names


def test_several_stops_behind_a_name() -> None:
    model = resolve_model('ollama:qwen3?stop=["END","STOP"]&extra.n={"a":1,"b":2}', environ={})
    assert isinstance(model, HttpModel)
    assert (model.settings.stop, model.settings.extra) == (("END", "STOP"), {"n": {"a": 1, "b": 2}})


SECRET = "openai:gpt-5.5?header.X-Gateway=canary-1&extra.api_key=canary-2&base_url=https://u:canary-3@h/v1&seed=1"


def test_secrets_of_options_are_never_shown() -> None:
    assert "canary" not in shown_spec(f"{SECRET},{SECRET}")
    assert "seed=1" in shown_spec(SECRET)
    assert "canary" not in repr(Agent(SECRET))


async def test_a_model_that_cannot_answer_is_named_without_its_options() -> None:
    chain = resolve_model("openai:gpt-5.5?header.X-Key=canary-1,offline", environ={})
    assert chain.name.startswith("openai:gpt-5.5, ")
    told: list[Any] = []
    await chain.respond(HELLO, told.append)
    assert "canary" not in str(told)


def test_azure_wants_its_key() -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    with pytest.raises(CredentialsError, match="AZURE_OPENAI_API_KEY is not set"):
        resolve_model("azure:gpt-5.5", environ=environ)
    chain = resolve_model("azure:gpt-5.5,offline", environ=environ)
    assert isinstance(chain, FallbackModel)


@each_row("endpoint", ["", "/", "/openai", "/openai/", "/openai/v1", "/openai/v1/"])
def test_azures_address_however_it_ends(endpoint: str) -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": f"https://mine.openai.azure.com{endpoint}", "AZURE_OPENAI_API_KEY": "k"}
    model = resolve_model("azure:gpt-5.5", environ=environ)
    assert isinstance(model, HttpModel)
    assert model.target.base_url == "https://mine.openai.azure.com/openai/v1"


def test_a_cloud_that_is_not_set_up_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CredentialsError, match=r"vertex: .*region"):
        resolve_model("vertex:claude-opus-4-8", environ={})
    assert resolve_model("vertex:claude-opus-4-8,offline", environ={}).name.endswith("offline:rules")


class Cloud:
    """A client that fails before it asks, as those of clouds do without packages or credentials."""

    base_url = "https://cloud.example.com"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def with_options(self, **_: Any) -> Cloud:
        return self

    async def post(self, *_: Any, **__: Any) -> Any:
        raise self._error


@each_row(
    "error, said",
    [
        (ModuleNotFoundError("No module named 'botocore'"), r"botocore.*pip install 'anthropic\[bedrock\]'"),
        (RuntimeError("could not resolve credentials from session"), "set its credentials"),
        (ConfigError("bad settings"), "bad settings"),
    ],
)
async def test_what_a_clouds_client_fails_with_is_one_line(error: Exception, said: str) -> None:
    model = AnthropicModel("claude-opus-4-8", provider="bedrock", client=Cloud(error))
    with pytest.raises((CredentialsError, ConfigError), match=said):
        await model.respond(HELLO, ignore)


def test_what_is_no_client_of_the_sdk_is_told_at_once() -> None:
    import openai

    for client in ("https://api.example.com", openai.OpenAI(api_key="k")):
        with pytest.raises(ConfigError, match="client: expected an async client"):
            OpenAIChatModel("m", client=client)


async def test_what_an_sdk_refuses_by_itself_is_not_tried_again() -> None:
    import anthropic

    model = AnthropicModel("claude-opus-4-8", client=Cloud(anthropic.AnthropicError("missing `google-auth`")))
    told: list[Any] = []
    with pytest.raises(ModelError, match="google-auth"):
        await model.respond(HELLO, told.append)
    assert told == []


@each_row(
    "name, meant",
    [
        ("grok-4", "xai:grok-4"),
        ("deepseek-chat", "deepseek:deepseek-chat"),
        ("mistral-large", "mistral:mistral-large"),
        ("qwen3", "ollama:qwen3"),
        ("gpt-oss:20b", ""),
        ("gpt-oss", "ollama:gpt-oss"),
        ("gpt-5.5", "openai:gpt-5.5"),
    ],
)
def test_whose_a_model_is(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f'did you mean "{meant}"' if meant else "no provider"):
        resolve_model(name, environ={})


@each_row("option, said", [("stop=", "a text, or a list"), ("header.X=%0a", "one line in ASCII")])
def test_how_to_write_an_option(option: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve_model(f"ollama:qwen3?{option}", environ={})


def test_no_key_is_no_default() -> None:
    assert default_spec({}) == ""
