"""Where keys, organisations and passwords of a provider go, and where they never do."""

from __future__ import annotations

import pytest

from mcpagent.errors import McpAgentError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel, resolve_model
from mcpagent.models.resolve import spec_of
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.events import ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, failed

HELLO = ModelRequest("", (user_message("hello"),))
CANARY = "canary-7d1f"
MODELS: dict[str, type[AnthropicModel | OpenAIResponsesModel | OpenAIChatModel]] = {
    "messages": AnthropicModel,
    "responses": OpenAIResponsesModel,
    "chat": OpenAIChatModel,
}
FORMS = {
    "an own header": f"X-Gateway: {CANARY}",
    "another key": f"Authorization: Bearer {CANARY}",
    "another key, written small": f"authorization: Bearer {CANARY}",
    "another key for Claude": f"X-Api-Key: {CANARY}",
    "another key for Claude, written small": f"x-api-key: {CANARY}",
    "several": f"X-One: {CANARY}\nbroken line\n X-Two : {CANARY}\n: {CANARY}",
    "an organisation": f"OpenAI-Organization: {CANARY}",
}


async def sent(protocol: str, base_url: str | None) -> dict[str, str]:
    """The headers of one request, with the names in small letters."""
    provider = PlayedProvider(failed(400, {"error": {"message": "no"}}))
    model = MODELS[protocol](
        "some-model", base_url=base_url, api_key="sk-ours-123456789", http_client=provider.http_client
    )
    with pytest.raises(ModelError):
        await model.respond(HELLO, ignore)
    [request] = provider.requests
    return {name.lower(): value for name, value in request.headers.items()}


@each_row("protocol", MODELS)
@each_row("form", FORMS)
async def test_variables_for_the_provider_are_not_sent_to_another_address(
    protocol: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, FORMS[form])
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, CANARY)
    headers = await sent(protocol, "http://127.0.0.1:9/v1")
    assert CANARY not in str(headers)
    key = {"messages": ("x-api-key", "sk-ours-123456789")}.get(protocol, ("authorization", "Bearer sk-ours-123456789"))
    assert headers[key[0]] == key[1]


@each_row("protocol", MODELS)
async def test_at_the_providers_own_address_they_are_sent(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, FORMS["an own header"])
    monkeypatch.setenv("OPENAI_ORG_ID", CANARY)
    headers = await sent(protocol, None)
    assert headers["x-gateway"] == CANARY
    assert headers.get("openai-organization") == (None if protocol == "messages" else CANARY)


@each_row("protocol", MODELS)
@each_row("status", [400, 401, 404, 500])
async def test_a_password_in_an_address_is_never_shown(protocol: str, status: int) -> None:
    provider = PlayedProvider(failed(status, {"error": {"message": "no"}}))
    model = MODELS[protocol](
        "some-model",
        base_url="http://ann:pass-word-99@127.0.0.1:9/v1",
        api_key="k",
        max_retries=0,
        http_client=provider.http_client,
    )
    with pytest.raises(McpAgentError) as caught:
        await model.respond(HELLO, ignore)
    assert "pass-word-99" not in str(caught.value)
    assert "pass-word-99" not in repr(model)
    assert without_secrets("a log line with pass-word-99") == "a log line with [redacted]"


def test_the_text_of_a_model_has_no_password() -> None:
    model = resolve_model("openai-chat:mine?base_url=http://ann:pass-word-99@127.0.0.1:9/v1", environ={})
    assert spec_of(model) == "openai-chat:mine?base_url=http://127.0.0.1:9/v1"
