"""What an endpoint refused: learned with evidence, shared by processes, forgotten when it is old or was no refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent.errors import ContextOverflowError, ModelError
from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, resolve_model
from mcpagent.models.base import tool_limits
from mcpagent.models.endpoints.learned import MAX_AGE_SECONDS, LearnedStore
from mcpagent.values.events import ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, Waits, anthropic_stream, chat_stream, failed, text_block
from tests.wire.scene import WEATHER

ADDRESS = "https://x.example.com/v1"
WARM = ModelRequest("", (user_message("hello"),), (WEATHER,), settings=ModelSettings(temperature=0.3, stop=("END",)))
NOT_HERE = failed(400, {"error": {"message": "temperature is not supported here", "param": "temperature"}})
HELLO = chat_stream({"content": "Hello."})


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1e9

    def __call__(self) -> float:
        return self.seconds


def chat(played: PlayedProvider, folder: Path, clock: Clock | None = None, **more: Any) -> OpenAIChatModel:
    """A new process's model: it shares nothing but the folder."""
    store = LearnedStore(folder, now=clock or Clock())
    about: dict[str, Any] = {"base_url": ADDRESS, "api_key": "k", "sleep": Waits(), "max_retries": 0, **more}
    return OpenAIChatModel("m", http_client=played.http_client, traits=store, **about)


async def test_what_was_refused_is_left_out_by_other_processes_for_a_day(tmp_path: Path) -> None:
    clock = Clock()
    played = PlayedProvider(NOT_HERE, HELLO)
    await chat(played, tmp_path, clock).respond(WARM, ignore)
    await chat(played, tmp_path, clock).respond(WARM, ignore)
    clock.seconds += MAX_AGE_SECONDS + 1
    await chat(played, tmp_path, clock).respond(WARM, ignore)
    assert ["temperature" in body for body in played.bodies] == [True, False, False, True]


async def test_a_running_process_forgets_after_a_day_too(tmp_path: Path) -> None:
    clock = Clock()
    played = PlayedProvider(NOT_HERE, HELLO)
    model = chat(played, tmp_path, clock)
    await model.respond(WARM, ignore)
    clock.seconds += MAX_AGE_SECONDS + 1
    await model.respond(WARM, ignore)
    assert ["temperature" in body for body in played.bodies] == [True, False, True]


async def test_the_evidence_and_the_date_are_kept(tmp_path: Path) -> None:
    await chat(PlayedProvider(NOT_HERE, HELLO), tmp_path).respond(WARM, ignore)
    [file] = tmp_path.iterdir()
    assert json.loads(file.read_text())["facts"] == [
        {
            "what": "field:temperature",
            "value": "temperature",
            "evidence": "temperature is not supported here",
            "found": 1e9,
        }
    ]


async def test_another_model_and_another_address_have_learned_nothing(tmp_path: Path) -> None:
    played = PlayedProvider(NOT_HERE, HELLO)
    await chat(played, tmp_path).respond(WARM, ignore)
    await chat(played, tmp_path, base_url="https://y.example.com/v1").respond(WARM, ignore)
    assert "temperature" in played.bodies[-1]


async def test_a_refusal_that_stays_without_the_field_was_about_something_else(tmp_path: Path) -> None:
    played = PlayedProvider(NOT_HERE, NOT_HERE, HELLO)
    model = chat(played, tmp_path)
    with pytest.raises(ModelError):
        await model.respond(WARM, ignore)
    await model.respond(WARM, ignore)
    assert ["temperature" in body for body in played.bodies] == [True, False, True]
    assert list(tmp_path.iterdir()) == []


@each_row(
    "said",
    [
        "The document speaks of temperature and was not processed",
        "Your request was flagged: invalid content. Please stop and rephrase.",
        "messages[0].content: the temperature is not supported",
        "input[2]: unknown stop sign",
        "Invalid request; the weather report with its temperature was blocked",
        "stop",
        "temperature",
        "The seed of the problem is your question about temperature",
    ],
)
async def test_words_of_a_conversation_unset_nothing(said: str, tmp_path: Path) -> None:
    played = PlayedProvider(failed(400, {"error": {"message": said}}))
    model = chat(played, tmp_path)
    with pytest.raises(ModelError):
        await model.respond(WARM, ignore)
    assert len(played.bodies) == 1
    with pytest.raises(ModelError):
        await model.respond(WARM, ignore)
    assert (played.bodies[-1]["temperature"], played.bodies[-1]["stop"]) == (0.3, ["END"])


@each_row(
    "error, gone",
    [
        ({"message": "No.", "param": "temperature", "code": "unsupported_value"}, "temperature"),
        ({"message": "Unsupported parameter: 'stop'"}, "stop"),
        ({"message": "`temperature` is deprecated for this model."}, "temperature"),
        ({"message": "stop: Extra inputs are not permitted"}, "stop"),
        ({"message": "This model does not support the temperature setting"}, "temperature"),
        ({"message": "Unrecognized request argument supplied: stop"}, "stop"),
    ],
)
async def test_a_parameter_or_a_refusing_word_beside_the_name_does(error: Any, gone: str, tmp_path: Path) -> None:
    played = PlayedProvider(failed(400, {"error": error}), HELLO)
    await chat(played, tmp_path).respond(WARM, ignore)
    kept = {"temperature", "stop"} - {gone}
    assert [kept <= body.keys() for body in played.bodies] == [True, True]
    assert [gone in body for body in played.bodies] == [True, False]


async def test_the_window_that_an_unknown_model_refused_is_kept(tmp_path: Path) -> None:
    said = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."
    played = PlayedProvider(failed(400, {"error": {"message": said, "code": "context_length_exceeded"}}))
    with pytest.raises(ContextOverflowError):
        await chat(played, tmp_path).respond(WARM, ignore)
    assert tool_limits(chat(played, tmp_path)).window_tokens == 8192


async def test_anthropics_window_is_kept_too(tmp_path: Path) -> None:
    said = {"error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    played = PlayedProvider(failed(400, said))
    about: dict[str, Any] = {"api_key": "k", "http_client": played.http_client, "max_retries": 0}
    model = AnthropicModel("claude-nobody-9", **about, traits=LearnedStore(tmp_path))
    with pytest.raises(ContextOverflowError):
        await model.respond(WARM, ignore)
    assert tool_limits(model).window_tokens == 200_000


async def test_a_proxy_that_knows_no_cache_field_gets_markers_and_one_that_knows_none_gets_nothing() -> None:
    field = failed(400, {"error": {"message": "cache_control: Extra inputs are not permitted"}})
    block = failed(
        400, {"error": {"message": "messages.0.content.0.text.cache_control: Extra inputs are not permitted"}}
    )
    played = PlayedProvider(field, block, anthropic_stream(text_block("Hello.")))
    model = AnthropicModel("claude-opus-5-5", base_url=ADDRESS, api_key="k", http_client=played.http_client)
    request = ModelRequest("Be brief.", (user_message("hello"),))
    assert (await model.respond(request, ignore)).message.text == "Hello."
    await model.respond(request, ignore)
    first, second, third, fourth = played.bodies
    assert "cache_control" in first
    assert "cache_control" not in second
    assert "cache_control" in second["messages"][-1]["content"][-1]
    assert "cache_control" not in json.dumps(third)
    assert third == fourth


async def test_a_gateway_that_takes_no_markers_gets_claudes_messages_without() -> None:
    said = failed(400, {"error": {"message": "messages.0.content.0.cache_control: unknown field"}})
    played = PlayedProvider(said, HELLO)
    model = OpenAIChatModel("anthropic/claude-opus-5-5", base_url=ADDRESS, api_key="k", http_client=played.http_client)
    await model.respond(ModelRequest("Be brief.", (user_message("hello"),)), ignore)
    assert ["cache_control" in json.dumps(body) for body in played.bodies] == [True, False]


def test_the_file_is_in_the_users_cache_folder(tmp_path: Path) -> None:
    model = resolve_model(f"openai-chat:m?base_url={ADDRESS}", environ={"XDG_CACHE_HOME": str(tmp_path)})
    assert isinstance(model, OpenAIChatModel)
    model.learn(None, window_tokens=5000)
    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "mcpagent" / "models"]
