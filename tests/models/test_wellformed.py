"""Every body keeps its provider's rules, whatever a model called or a server sent: `wellformed` is the last step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.anthropic.messages_model import read_message
from mcpagent.models.http_model import HttpModel
from mcpagent.models.openai.openai_chat_answers import read_completion
from mcpagent.models.openai.openai_responses import read_response
from mcpagent.values.messages import Image, Message, Part, Text, ToolCall, ToolResult, user_message
from tests.models.test_http_model_recordings import recorded
from tests.models.test_wire_values_first_turns import alternates
from tests.simulator import anthropic_rules, gemini_rules, openai_rules
from tests.tables import each_row
from tests.wire.scene import WEATHER

Rules = Callable[[Mapping[str, Any], Mapping[str, str]], None]


def _mistral(body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    openai_rules.check_chat(body, headers)
    alternates(body, headers)


def models() -> dict[str, tuple[HttpModel, Rules]]:
    def chat(url: str, provider: str, name: str) -> OpenAIChatModel:
        return OpenAIChatModel(name, provider=provider, base_url=url, api_key="k")

    return {
        "messages": (AnthropicModel("claude-opus-5-5"), anthropic_rules.check),
        "responses": (OpenAIResponsesModel("gpt-5.5"), openai_rules.check_responses),
        "chat": (OpenAIChatModel("gpt-5.5"), openai_rules.check_chat),
        "gemini": (
            chat("https://generativelanguage.googleapis.com/v1beta/openai", "gemini", "gemini-3-pro"),
            gemini_rules.check,
        ),
        "mistral": (chat("https://api.mistral.ai/v1", "mistral", "mistral-large-latest"), _mistral),
        "deepseek": (chat("https://api.deepseek.com/v1", "deepseek", "deepseek-chat"), _mistral),
        "vllm": (chat("http://localhost:8000/v1", "vllm", "qwen3"), _mistral),
    }


EVERY = each_row("name", list(models()))
NAMES = (
    "multi_tool_use.parallel",
    "functions.get_weather",
    "functions.x",
    "",
    " ",
    "a" * 65,
    "a" * 129,
    "get weather",
    "récupérer",
    "weather/get:now",
    "<|channel|>commentary",
)


def called(model: HttpModel, name: str, arguments: str) -> Message:
    """The answer of this model's own provider that calls a name with these arguments, as it was read from the wire."""
    match model.protocol:
        case "messages":
            given = json.loads(arguments) if arguments.strip().endswith("}") else arguments
            block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given, "caller": {"type": "direct"}}
            answer: dict[str, Any] = {"content": [block], "stop_reason": "tool_use", "usage": {}}
            read = read_message(answer).message
        case "responses":
            call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}
            read = read_response({"status": "completed", "output": [{**call, "status": "completed"}]}).message
        case _:
            function = {"name": name, "arguments": arguments}
            said = {"role": "assistant", "tool_calls": [{"id": "call12345", "type": "function", "function": function}]}
            if model.provider == "gemini":
                said["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "sig-1"}}  # type: ignore[index]
            read = read_completion({"choices": [{"message": said, "finish_reason": "tool_calls"}]}).message
    return replace(read, origin=model.origin)


def followed(answer: Message, *more: Message) -> ModelRequest:
    said = (Text("no such tool"),)
    results = [ToolResult(call.id, call.name, said, error="unknown_tool") for call in answer.tool_calls]
    messages = (user_message("Weather?"), answer, Message("tool", tuple(results)), *more)
    return ModelRequest("Be brief.", messages, (WEATHER,))


def sent(model: HttpModel, request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(model.request_body(request)))
    return body


@EVERY
@each_row("called_name", NAMES)
def test_a_call_of_any_name_does_not_end_the_conversation(name: str, called_name: str) -> None:
    model, check = models()[name]
    answer = called(model, called_name, '{"location": "Rome"}')
    for request in (followed(answer), followed(replace(answer, origin=None), user_message("And now?"))):
        body = sent(model, request)
        check(body, {})
        assert "Rome" in json.dumps(body)


@EVERY
@each_row("arguments", ["", " ", "{}", "[]", "null", '{"a": NaN}', '{"location": "Ro', "not json", "[" * 200])
def test_a_call_with_any_arguments_does_not_end_the_conversation(name: str, arguments: str) -> None:
    model, check = models()[name]
    for request in (followed(called(model, "get_weather", arguments)),):
        check(sent(model, request), {})


@EVERY
def test_arguments_that_are_an_object_go_back_byte_for_byte(name: str) -> None:
    model, _ = models()[name]
    body = json.dumps(sent(model, followed(called(model, "get_weather", '{"location":  "Rome", "n": 1.50}'))))
    whole = json.dumps('{"location":  "Rome", "n": 1.50}')
    assert whole in body or '{"location": "Rome", "n": 1.5}' in body


_TEXTS = st.sampled_from(["", " ", "\n", "words", "Rome "])
_CALLS = st.builds(
    ToolCall, st.sampled_from(["call_1", "call_2", "call_3", "call.4", ""]), st.sampled_from(NAMES), st.just({"a": 1})
)
_RESULTS = st.builds(
    ToolResult,
    st.sampled_from(["call_1", "call_2", "call_3", "call.4", "call_9", ""]),
    st.sampled_from(NAMES),
    st.lists(st.builds(Text, _TEXTS), max_size=2).map(tuple),
)


def _message(role: str, parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    return st.lists(parts, max_size=3).map(lambda made: Message(role, tuple(made)))  # type: ignore[arg-type]


_HISTORIES = st.lists(
    st.one_of(
        _message("user", st.builds(Text, _TEXTS)),
        _message("assistant", st.one_of(st.builds(Text, _TEXTS), _CALLS)),
        _message("tool", st.one_of(_RESULTS, st.builds(Text, _TEXTS))),
    ),
    max_size=8,
)


@pytest.mark.slow
@EVERY
def test_any_history_is_written_by_the_rules_of_its_provider(name: str) -> None:
    """Calls without results, results without calls, the same ID twice, blank texts, turns in any order."""

    @given(_HISTORIES)
    def holds(history: Sequence[Message]) -> None:
        model, check = models()[name]
        request = ModelRequest("Be brief.", (*history, user_message("What now?")), (WEATHER,))
        body = sent(model, request)
        check(body, {})
        assert sent(model, request) == body
        written: dict[str, Any] = json.loads(json.dumps(model.wellformed(body)))
        assert written == body

    holds()


@EVERY
def test_what_the_caller_merges_in_last_keeps_the_rules_too(name: str) -> None:
    model, check = models()[name]
    turns = [
        {"role": "user", "content": "Weather?"},
        {"role": "user", "content": [{"type": "text", "text": " "}]},
        {"role": "user", "content": ""},
    ]
    field = "input" if model.protocol == "responses" else "messages"
    if model.protocol == "responses":
        turns[1] = {"role": "user", "content": [{"type": "input_text", "text": " "}]}
    extra = {field: turns}
    body = sent(model, ModelRequest("", (user_message("x"),), settings=ModelSettings(extra=extra)))
    assert len(body[field]) == 1
    if model.protocol != "messages":
        check(body, {})


@each_row("name", ["messages", "responses", "chat"])
def test_tools_of_the_same_name_are_sent_once(name: str) -> None:
    model, check = models()[name]
    [ours] = sent(model, ModelRequest("", (user_message("x"),), (WEATHER,)))["tools"]
    extra = {"tools": [{**ours, "description": "Theirs."}]}
    request = ModelRequest("", (user_message("x"),), (WEATHER,), settings=ModelSettings(extra=extra))
    body = sent(model, request)
    check(body, {})
    assert len(body["tools"]) == 1


def test_of_more_than_four_cache_markers_the_earliest_are_left_out() -> None:
    model, check = models()["messages"]
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    turns: list[dict[str, Any]] = []
    for number in range(6):
        turns.append({"role": "user", "content": [{**marked, "text": f"q{number}"}]})
        turns.append({"role": "assistant", "content": [{"type": "text", "text": f"a{number}"}]})
    extra = {"messages": [*turns, {"role": "user", "content": "last"}]}
    body = sent(model, ModelRequest("S", (user_message("x"),), settings=ModelSettings(extra=extra)))
    check(body, {})
    kept = [block["text"] for turn in body["messages"] for block in turn["content"] if "cache_control" in block]
    assert kept == ["q4", "q5"]


def test_an_image_that_is_too_large_is_told_in_words() -> None:
    model, check = models()["messages"]
    large, small = (Image("image/png", "iVBORw0KGgo" + "A" * (4 * size + 1)) for size in (2 * 2**20, 3))
    result = ToolResult("call_1", "get_weather", (large, small))
    call = Message("assistant", (ToolCall("call_1", "get_weather", {}),))
    messages = (Message("user", (Text("See."), large, small)), call, Message("tool", (result,)))
    body = sent(model, ModelRequest("S", messages, (WEATHER,)))
    check(body, {})
    for blocks in (body["messages"][0]["content"], body["messages"][2]["content"][0]["content"]):
        assert [block["type"] for block in blocks][-2:] == ["text", "image"]
        assert "[image: image/png, 6,291,465 bytes; too large to show: " in json.dumps(blocks)


def test_more_texts_to_stop_at_than_openai_takes_are_reported() -> None:
    stops = ("a", "b", "c", "d", "e")
    request = ModelRequest("", (user_message("x"),), settings=ModelSettings(stop=stops))
    for name, most in (("chat", 4), ("vllm", 5)):
        model, _ = models()[name]
        if name == "chat":
            model = OpenAIChatModel("gpt-4.1")
        assert sent(model, request)["stop"] == list(stops[:most])
        assert bool(model.settings_of(request).changed) is (most == 4)


def test_a_choice_of_tools_without_tools_is_left_out() -> None:
    for name in ("messages", "chat", "deepseek"):
        model, check = models()[name]
        settings = ModelSettings(extra={"tool_choice": {"type": "auto"}, "tools": []})
        body = sent(model, ModelRequest("", (user_message("x"),), settings=settings))
        check(body, {})
        assert "tool_choice" not in body
        assert "tools" not in body


def test_recorded_bodies_are_well_formed_as_they_were_sent() -> None:
    """Real clients sent these and providers took them: the last step changes none of them."""
    models_of = {"messages": "messages", "responses": "responses", "chat": "chat"}
    for _, protocol, exchanges in recorded():
        model, _ = models()[models_of[protocol]]
        for exchange in exchanges:
            body = exchange["request"].get("parsed_body")
            if isinstance(body, dict) and ("messages" in body or "input" in body):
                made = json.loads(json.dumps(model.wellformed(body)))
                assert _listed(made) == _listed(body)


def _listed(body: Mapping[str, Any]) -> Any:
    """The body with texts as lists of blocks, which is the same to the provider."""
    turns = body.get("messages") or body.get("input")
    if not isinstance(turns, list):
        return body
    return [{**turn, "content": _blocks(turn.get("content"))} for turn in turns]


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_parts_that_the_engine_makes_are_not_touched() -> None:
    """A whole conversation has the same bytes with the last step as it was written, so the prefix stays cached."""
    parts: tuple[Part, ...] = (Text("Looking."), ToolCall("call_1", "get_weather", {"location": "Rome"}))
    request = followed(Message("assistant", parts), user_message("Thanks."))
    for model, check in models().values():
        body = sent(model, request)
        check(body, {})
        longer = sent(model, replace(request, messages=(*request.messages, user_message("Bye."))))
        field = "input" if "input" in body else "messages"
        before, after = body[field], longer[field]
        assert json.dumps(after).startswith(json.dumps(before[:-1])[:-1])


def test_a_server_of_responses_other_than_openais_reads_the_arguments() -> None:
    """OpenAI takes its own text back; another server parses it."""
    for arguments in ("", '{"location": "Ro'):
        for provider, sent_back in (("openai", arguments), ("my-gateway", "{}")):
            model = OpenAIResponsesModel("m", provider=provider, base_url="https://x.example.com/v1", api_key="k")
            items = sent(model, followed(called(model, "get_weather", arguments)))["input"]
            assert [item["arguments"] for item in items if item.get("type") == "function_call"] == [sent_back]
