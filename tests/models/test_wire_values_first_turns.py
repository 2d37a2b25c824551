"""Histories that begin with an answer, or lack a user's turn: what each provider's rules want is what goes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.local.prompted_calls import prompted
from mcpagent.values.events import ignore
from mcpagent.values.messages import Image, Message, Text, ToolCall, ToolDefinition, ToolResult, user_message
from tests.simulator import anthropic_rules, gemini_rules
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, chat_stream
from tests.wire.scene import PNG

TOOL = ToolDefinition("look", "Looks.", {"type": "object", "properties": {}})
ASKED, EMPTY = user_message("What now?"), Message("user", ())
SAID = Message("assistant", (Text("Hello."),))
CALLED = Message("assistant", (ToolCall("call_1", "look", {}),))
RESULT = Message("tool", (ToolResult("call_1", "look", (Text("a cat"),)),))
SHOWN = Message("tool", (ToolResult("call_1", "look", (Text("a cat"), Image("image/png", PNG))),))

HISTORIES: dict[str, Sequence[Message]] = {
    "an answer first": (SAID, ASKED),
    "a call first": (CALLED, RESULT, SAID, ASKED),
    "an empty turn first": (EMPTY, SAID, ASKED),
    "a blank turn first": (user_message("  "), SAID, ASKED),
    "an empty turn between answers": (ASKED, SAID, EMPTY, SAID, ASKED),
    "an empty turn before a call": (ASKED, SAID, EMPTY, CALLED, RESULT),
    "an answer after an answer": (ASKED, SAID, SAID, ASKED),
    "a turn that nobody answered": (ASKED, ASKED, SAID, ASKED),
    "words after a picture": (ASKED, CALLED, SHOWN, ASKED),
}
EVERY = each_row("history", list(HISTORIES))


def alternates(body: Mapping[str, Any], _headers: Mapping[str, str]) -> None:
    """As the chat templates of Mistral's and Gemma's models raise it: calls and their results do not count."""
    roles = [turn["role"] for turn in body["messages"] if turn["role"] in ("user", "assistant")]
    assert roles[0] == "user"
    whole = [turn for turn in body["messages"] if turn["role"] != "system"]
    for one, two in pairwise(turn["role"] for turn in whole):
        assert one != two or one == "tool", roles


def at(url: str, provider: str = "ollama") -> OpenAIChatModel:
    return OpenAIChatModel("m", provider=provider, base_url=url, api_key="key")


RULES: dict[str, tuple[HttpModel, Callable[[Mapping[str, Any], Mapping[str, str]], None]]] = {
    "anthropic": (AnthropicModel("claude-opus-5"), anthropic_rules.check),
    "gemini": (at("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"), gemini_rules.check),
    "ollama": (at("http://localhost:11434/v1"), alternates),
}


@EVERY
@each_row("name", list(RULES))
def test_every_history_keeps_the_rules_of_its_provider(name: str, history: str) -> None:
    model, check = RULES[name]
    messages = HISTORIES[history]
    request = ModelRequest("Be brief.", tuple(messages), (TOOL,))
    body = json.loads(json.dumps(model.request_body(request)))
    check(body, {})
    assert body == json.loads(json.dumps(model.request_body(request)))
    said = json.dumps(body["messages"])
    assert said.count("What now?") == sum(message is ASKED for message in messages)
    assert said.count("Hello.") == sum(message is SAID for message in messages)


@EVERY
def test_prompted_calls_keep_the_turns_of_a_chat_template(history: str) -> None:
    model = at("http://localhost:11434/v1")
    request = ModelRequest("", tuple(HISTORIES[history]), (TOOL,))
    alternates(model.request_body(prompted(request, constrained=True)), {})


def test_a_missing_turn_is_the_smallest_and_stays_as_the_history_grows() -> None:
    for model, _ in RULES.values():
        short, long = (
            model.request_body(ModelRequest("", messages))["messages"]
            for messages in ((SAID, ASKED), (SAID, ASKED, SAID, ASKED))
        )
        assert [turn["role"] for turn in short] == ["user", "assistant", "user"]
        assert "(no input)" in json.dumps(short[0])
        assert [without_marks(turn) for turn in long[: len(short)]] == [without_marks(turn) for turn in short]


def without_marks(turn: Mapping[str, Any]) -> str:
    return json.dumps(turn).replace(', "cache_control": {"type": "ephemeral"}', "")


def test_openai_takes_a_history_as_it_is() -> None:
    messages = (SAID, ASKED)
    for model in (OpenAIChatModel("m"), OpenAIResponsesModel("gpt-5.4")):
        body = model.request_body(ModelRequest("", messages))
        turns = body["input"] if "input" in body else body["messages"]
        assert [turn["role"] for turn in turns] == ["assistant", "user"]


@each_row(
    "image, why",
    [
        (Image("image/png", "@@@@"), "image/png, 3 bytes; its data is not valid Base64"),
        (Image("image/png", ""), "image/png, 0 bytes; its data is not valid Base64"),
        (Image("image/svg+xml", "AAAA"), "image/svg+xml, 3 bytes; only png, jpeg, gif and webp can be shown"),
        (Image("", "AAAA"), "3 bytes; only png, jpeg, gif and webp can be shown"),
    ],
)
def test_why_an_image_was_left_out(image: Image, why: str) -> None:
    for model, _ in RULES.values():
        body = model.request_body(ModelRequest("", (Message("user", (Text("see"), image)),)))
        assert f"[image: {why}" in json.dumps(body)


@each_row(
    "said, sent",
    [
        ("r:\0", "r:\N{REPLACEMENT CHARACTER}"),
        ("\\\0", "\\\N{REPLACEMENT CHARACTER}"),
        ("a\0\0b", "a" + 2 * "\N{REPLACEMENT CHARACTER}" + "b"),
        (r"\u0000", r"\u0000"),
        (r"\\u0000", r"\\u0000"),
    ],
)
async def test_no_nul_of_a_live_result_or_answer_goes_out_and_words_about_it_stay(said: str, sent: str) -> None:
    provider = PlayedProvider(chat_stream({"role": "assistant", "content": "ok"}))
    model = OpenAIChatModel("m", api_key="key", http_client=provider.http_client)
    result = Message("tool", (ToolResult("call_1", "look", (Text(said),)),))
    await model.respond(ModelRequest("", (ASKED, CALLED, result, Message("assistant", (Text(said),)), ASKED)), ignore)
    [body] = provider.bodies
    assert [turn["content"] for turn in body["messages"][2:4]] == [sent, sent]
