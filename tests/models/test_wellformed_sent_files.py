"""Files of a history as each protocol and endpoint accepts them, and what happens if a provider refuses one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpagent.errors import ModelError
from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.anthropic.messages_model import AnthropicModel
from mcpagent.models.base import ModelRequest
from mcpagent.models.http_model import HttpModel
from mcpagent.models.openai.openai_chat import OpenAIChatModel
from mcpagent.models.openai.openai_responses import OpenAIResponsesModel
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import (
    Audio,
    Content,
    Document,
    FileId,
    Image,
    ImageUrl,
    Message,
    Text,
    ToolCall,
    ToolResult,
    user_message,
)
from tests.made_files import pdf, png, wav
from tests.wire.provider import (
    PlayedProvider,
    anthropic_stream,
    chat_stream,
    failed,
    message_item,
    responses_stream,
    text_block,
)

PNG, PDF, WAV = base64_text(png(3, 2)), base64_text(pdf()), base64_text(wav())
PICTURE = Image("image/png", PNG)
REPORT = Document("application/pdf", PDF, "report.pdf")
SOUND = Audio("audio/wav", WAV, "a.wav")
ADDRESS = ImageUrl("https://example.org/a.png")


def claude(provider: PlayedProvider, name: str = "claude-sonnet-4-5") -> HttpModel:
    return AnthropicModel(name, api_key="key", http_client=provider.http_client)


def gpt(provider: PlayedProvider, name: str = "gpt-5.4") -> HttpModel:
    return OpenAIResponsesModel(name, api_key="key", http_client=provider.http_client)


def chat(provider: PlayedProvider, name: str = "gpt-audio", prefix: str = "openai-chat") -> HttpModel:
    return OpenAIChatModel(name, api_key="key", http_client=provider.http_client, provider=prefix)


ANSWERS: Mapping[Any, Callable[[], Any]] = {
    claude: lambda: anthropic_stream(text_block("fine")),
    gpt: lambda: responses_stream(message_item("fine")),
    chat: lambda: chat_stream({"role": "assistant", "content": "fine"}),
}


async def sent(make: Any, *parts: Content, **named: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the body of one question with these parts, and the notices."""
    provider = PlayedProvider(ANSWERS[make]())
    told: list[Event] = []
    await make(provider, **named).respond(ModelRequest("", (Message("user", parts),)), told.append)
    return provider.bodies[0], [event.text for event in told if isinstance(event, Notice)]


def content_of(body: Mapping[str, Any]) -> Any:
    return (body.get("input") or body["messages"])[-1]["content"]


async def test_each_protocol_writes_files_in_its_own_form() -> None:
    body, told = await sent(claude, Text("see"), PICTURE, ADDRESS, REPORT, FileId("file_1", "anthropic"))
    base64_png = {"type": "base64", "media_type": "image/png", "data": PNG}
    base64_pdf = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    assert [{**block, "cache_control": 0} for block in content_of(body)] == [
        {**block, "cache_control": 0}
        for block in (
            {"type": "text", "text": "see"},
            {"type": "image", "source": base64_png},
            {"type": "image", "source": {"type": "url", "url": ADDRESS.url}},
            {"type": "document", "source": base64_pdf, "title": "report.pdf"},
            {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        )
    ]
    assert told == []
    body, told = await sent(gpt, Text("see"), PICTURE, ADDRESS, REPORT, FileId("file_1", "openai", "image/*"))
    assert content_of(body) == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
        {"type": "input_image", "image_url": ADDRESS.url, "detail": "auto"},
        {"type": "input_file", "filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
    ]
    assert told == []
    body, told = await sent(chat, Text("see"), SOUND)
    assert content_of(body) == [
        {"type": "text", "text": "see"},
        {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
    ]
    body, told = await sent(chat, REPORT, FileId("file_1", "openai"), name="gpt-5.4")
    assert content_of(body) == [
        {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "file", "file": {"file_id": "file_1"}},
    ]


async def test_results_of_tools_hold_files_where_the_protocol_has_a_place() -> None:
    call = Message("assistant", (ToolCall("c1", "get_report", {}),))
    history = (user_message("go"), call, Message("tool", (ToolResult("c1", "get_report", (Text("here"), REPORT)),)))
    for make, path in (
        (claude, ("messages", -1, "content", 0, "content", 1)),
        (gpt, ("input", -1, "output", 1)),
        (chat, ("messages", -1, "content", 1)),
    ):
        provider = PlayedProvider(ANSWERS[make]())
        named = {"name": "gpt-5.4"} if make is chat else {}
        model: HttpModel = make(provider, **named)
        await model.respond(ModelRequest("", history), lambda _: None)
        place: Any = provider.bodies[0]
        for step in path:
            place = place[step]
        assert place["type"] in ("document", "input_file", "file")
    assert "[1 file(s) in the next message]" in json.dumps(provider.bodies[0])


async def test_what_a_model_does_not_accept_is_the_best_it_accepts_and_told_once() -> None:
    provider = PlayedProvider(ANSWERS[chat]())
    model = chat(provider, "some-model", "own")
    told: list[Event] = []
    message = Message("user", (Text("see"), REPORT, SOUND, FileId("file_1", "anthropic", name="x.pdf"), PICTURE))
    for _ in range(2):
        await model.respond(ModelRequest("", (message,)), told.append)
    for body in provider.bodies:
        said = json.dumps(body)
        assert "Hello from a PDF" in said
        assert "[audio: a.wav, audio/wav, " in said
        assert "[file: x.pdf, ID file_1; stored at anthropic, so not shown]" in said
        assert f"data:image/png;base64,{PNG}" in said
    assert provider.bodies[0] == provider.bodies[1]
    notices = [event.text for event in told if isinstance(event, Notice)]
    assert [text.split(": does not get ")[1].split(",")[0] for text in notices] == [
        "document report.pdf",
        "audio a.wav",
        "file x.pdf",
    ]


async def test_a_model_that_the_table_lists_without_pictures_gets_none() -> None:
    body, told = await sent(chat, Text("see"), PICTURE, ADDRESS, name="deepseek-chat", prefix="deepseek")
    said = json.dumps(body)
    assert "image_url" not in said
    assert "[image: https://example.org/a.png; not shown: this model does not accept it]" in said
    assert len(told) == 2


REFUSED = {
    claude: (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes"),
    gpt: (
        400,
        "Invalid 'input[0].content[1].image_url'. The image data you provided does not represent a valid image.",
    ),
    chat: (400, "Could not process image"),
}


@pytest.mark.parametrize("make", REFUSED)
async def test_a_history_that_is_refused_for_one_part_is_sent_again_without_it(make: Any) -> None:
    status, words = REFUSED[make]
    provider = PlayedProvider(failed(status, {"error": {"message": words}}), ANSWERS[make]())
    model = chat(provider, "gpt-5.4") if make is chat else make(provider)
    other = Image("image/png", base64_text(png(4, 4)))
    parts = (Text("see"), PICTURE) if make is chat else (Text("see"), PICTURE, other)
    request = ModelRequest("", (Message("user", parts),))
    told: list[Event] = []
    await model.respond(request, told.append)
    assert len(provider.bodies) == 2
    first, second = map(json.dumps, provider.bodies)
    assert PNG in first
    assert PNG not in second
    assert "left out: the provider refused it" in second
    assert (other.data in second) == (make is not chat)
    notices = [event.text for event in told if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "refused image image/png" in notices[0]
    await model.respond(request, told.append)  # and each following question
    assert len(provider.bodies) == 3
    assert PNG not in json.dumps(provider.bodies[2])
    assert len([event for event in told if isinstance(event, Notice)]) == 1


async def test_a_model_that_supports_no_pictures_is_learned() -> None:
    words = "Qwen/Qwen3 is not a multimodal model"
    provider = PlayedProvider(failed(400, {"error": {"message": words}}), ANSWERS[chat]())
    model = chat(provider, "qwen3", "own")
    for picture in (PICTURE, Image("image/png", base64_text(png(7, 7)))):
        await model.respond(ModelRequest("", (Message("user", (Text("see"), picture)),)), lambda _: None)
    assert len(provider.bodies) == 3  # the second question is not refused
    assert "image_url" not in json.dumps(provider.bodies[2])
    assert model.accepted_files() == frozenset()


async def test_a_request_that_is_too_large_loses_its_older_files_first() -> None:
    provider = PlayedProvider(failed(413, {"error": {"type": "request_too_large"}}), ANSWERS[claude]())
    pictures = [Image("image/png", base64_text(png(50, 50 + number, noise=True))) for number in range(4)]
    messages = tuple(Message("user", (Text("see"), picture)) for picture in pictures)
    await claude(provider).respond(ModelRequest("", messages), lambda _: None)
    second = json.dumps(provider.bodies[1])
    assert [picture.data in second for picture in pictures] == [False, False, True, True]


@pytest.mark.parametrize(
    "words",
    ["tools.0.name: generate_image! is invalid", "max_tokens: must be at least 1", "the document of the API moved"],
)
async def test_a_failure_about_something_else_costs_no_file(words: str) -> None:
    provider = PlayedProvider(failed(400, {"error": {"message": words}}), ANSWERS[claude]())
    with pytest.raises(ModelError):
        await claude(provider).respond(ModelRequest("", (Message("user", (Text("see"), PICTURE)),)), lambda _: None)
    assert len(provider.bodies) == 1
