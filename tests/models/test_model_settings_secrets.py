"""Credentials in the settings of a model and in a provider's MCP server: in no dump, and unchanged in the request."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, astuple, replace
from pprint import pformat

import pytest

from mcpagent import ModelSettings, ProviderMcp
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.model_settings import as_texts, merged
from mcpagent.utilities.text.secrets import Secret, as_written, revealed, without_secrets
from mcpagent.values.events import ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, chat_stream, text_block

CANARY = "canary-of-mine-1"
KEY = "q7Zk2mX9Lw4Tn8Rb6Vc1"
HELLO = (user_message("hello"),)
EXTRA = {
    "metadata": {"user": "me"},
    "tools": [{"type": "mcp", "server_url": "https://h/", "headers": {"Authorization": f"Bearer {CANARY}"}}],
    "mcp_servers": [{"type": "url", "name": "crm", "url": "https://h/", "authorization_token": CANARY}],
}
DUMPS: dict[str, Callable[[ModelSettings | ProviderMcp], object]] = {
    "repr": repr,
    "str": str,
    "repr of a request": lambda _: repr(ModelRequest("", HELLO, settings=set_here(), provider_tools=(tool_here(),))),
    "asdict": asdict,
    "astuple": astuple,
    "asdict of a copy": lambda value: asdict(copy.copy(value)),
    "asdict of a deep copy": lambda value: asdict(copy.deepcopy(value)),
    "JSON": lambda value: json.dumps(asdict(value), default=str),
    "pickle": pickle.dumps,
    "pickle of its values": lambda value: pickle.dumps(asdict(value)),
    "pprint": lambda value: pformat(asdict(value)),
}


def set_here() -> ModelSettings:
    return ModelSettings(temperature=0.5, headers={"X-Api-Key": CANARY, "X-Team": CANARY}, extra=EXTRA)


def tool_here() -> ProviderMcp:
    return ProviderMcp("crm", f"https://h/mcp?api_key={KEY}", authorization=CANARY)


@each_row("way", list(DUMPS))
def test_no_dump_shows_a_credential(way: str) -> None:
    settings = set_here()
    for value in (settings, replace(settings, top_p=0.5), merged(ModelSettings(), settings), tool_here()):
        shown = f"{DUMPS[way](value)!r}"
        assert CANARY not in shown
        assert KEY not in shown


def test_the_names_are_shown_and_json_refuses_the_values() -> None:
    assert "headers=SecretMapping(X-Api-Key, X-Team)" in repr(set_here())
    assert "extra=SecretMapping(metadata, tools, mcp_servers)" in repr(set_here())
    for value in (set_here(), tool_here()):
        with pytest.raises(TypeError, match="not JSON serializable"):
            json.dumps(asdict(value))


async def test_the_request_has_them_unchanged() -> None:
    played = PlayedProvider(chat_stream({"content": "Hello."}), chat_stream({"content": "Hello."}))
    model = OpenAIChatModel("m", api_key="k", base_url="https://x.example.com/v1", http_client=played.http_client)
    for settings in (set_here(), merged(ModelSettings(), copy.deepcopy(set_here()))):
        await model.respond(ModelRequest("", HELLO, settings=settings), ignore)
    for request, body in zip(played.requests, played.bodies, strict=True):
        assert (request.headers["x-api-key"], request.headers["x-team"]) == (CANARY, CANARY)
        assert {name: body[name] for name in EXTRA} == EXTRA
    first, second = (request.content for request in played.requests)
    assert first == second
    plain = json.dumps(EXTRA, separators=(",", ":"), ensure_ascii=False).encode()[1:-1]
    assert plain in first


async def test_a_providers_server_has_its_address_and_token_in_the_request() -> None:
    asked = ModelRequest("", HELLO, provider_tools=(tool_here(),))
    played = PlayedProvider(anthropic_stream(text_block("A.")))
    claude = AnthropicModel("claude-opus-5-5", api_key="k", http_client=played.http_client)
    await claude.respond(asked, ignore)
    assert played.bodies[0]["mcp_servers"] == [
        {"type": "url", "name": "crm", "url": f"https://h/mcp?api_key={KEY}", "authorization_token": CANARY}
    ]
    [sent] = OpenAIResponsesModel("gpt-5.5").request_body(asked)["tools"]
    assert sent["server_url"] == f"https://h/mcp?api_key={KEY}"


def test_they_are_known_at_sinks_from_the_beginning() -> None:
    ModelSettings(headers={"X-Api-Key": CANARY}, extra={"session_token": "canary-of-mine-2"})
    ProviderMcp("crm", f"https://h/mcp?api_key={KEY}", authorization="canary-of-mine-3")
    said = f"{CANARY}, canary-of-mine-2, canary-of-mine-3, {KEY}"
    assert without_secrets(said) == "[redacted], [redacted], [redacted], [redacted]"


def test_a_pickled_one_names_the_cause_when_it_is_used() -> None:
    settings, tool = pickle.loads(pickle.dumps((set_here(), tool_here())))
    assert set(settings.headers) == {"X-Api-Key", "X-Team"}
    for value in (settings.headers["X-Team"], settings.extra["tools"], tool.authorization, tool.url):
        with pytest.raises(TypeError, match="pickling left the secret out"):
            revealed(value)


def test_a_reference_and_an_address_without_a_key_are_shown() -> None:
    tool = ProviderMcp("crm", "https://h/mcp", authorization="${CRM_TOKEN}")
    assert (tool.url, tool.authorization) == ("https://h/mcp", "${CRM_TOKEN}")
    assert isinstance(tool_here().authorization, Secret)
    assert as_written(tool_here().authorization) == CANARY


def test_a_models_name_in_a_file_has_no_field_with_a_credential() -> None:
    settings = ModelSettings(extra={"api_key": CANARY, "n": 2, "nested": {"token": CANARY}}, headers={"X-A": "1"})
    assert as_texts(settings) == {"extra.n": "2"}
