"""A history that moves: every kind of last answer, from each model to each other, breaks no rule and loses no words.

The rules: those of the simulated providers, the parameter types of the SDKs, and that what a model signed or encrypted
is read by that model alone, at its address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import TypeAdapter

from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import search_problem
from mcpagent.models.http_model import HttpModel
from mcpagent.models.sendable_history import written_for
from mcpagent.models.transport.sdk_connection import encoded
from mcpagent.values.events import ignore
from mcpagent.values.messages import (
    Message,
    Origin,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolDefinition,
    ToolResult,
    dump_messages,
    load_messages,
    user_message,
)
from tests.simulator import anthropic_rules, gemini_rules, openai_rules
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, anthropic_stream, failed, message_item, responses_stream, text_block
from tests.wire.scene import SEARCH, WEATHER

RATE = ToolDefinition("get_rate", "The rate of a currency.", {"type": "object", "properties": {}}, server="bank")
Kind: TypeAlias = Literal[
    "thinking only",
    "empty",
    "cut call",
    "refusal",
    "tool search",
    "web search",
    "cut web search",
    "several calls",
    "words",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

MODELS: dict[str, HttpModel] = {
    "opus-4-8": AnthropicModel("claude-opus-4-8"),
    "sonnet-4-6": AnthropicModel("claude-sonnet-4-6"),
    "opus-4-1": AnthropicModel("claude-opus-4-1"),
    "claude elsewhere": AnthropicModel("claude-sonnet-4-6", base_url="https://claude.example.com"),
    "gpt-5.5": OpenAIResponsesModel("gpt-5.5"),
    "gpt-5.4": OpenAIResponsesModel("gpt-5.4"),
    "gpt-4.1": OpenAIResponsesModel("gpt-4.1"),
    "o4-mini": OpenAIResponsesModel("o4-mini"),
    "azure": OpenAIResponsesModel("gpt-5.5", base_url="https://mine.openai.azure.com/openai/v1"),
    "gpt-4o by chat": OpenAIChatModel("gpt-4o"),
    "gemini": OpenAIChatModel(
        "gemini-3-flash", provider="gemini", base_url="https://generativelanguage.googleapis.com/v1beta/openai"
    ),
    "mistral": OpenAIChatModel("magistral-small", provider="mistral", base_url="https://api.mistral.ai/v1"),
    "deepseek": OpenAIChatModel("deepseek-reasoner", provider="deepseek", base_url="https://api.deepseek.com/v1"),
    "groq": OpenAIChatModel("gpt-oss-120b", provider="groq", base_url="https://api.groq.com/openai/v1"),
}


# -- What each model says ---------------------------------------------------------------------------------------------


def claude_says(kind: Kind, mark: str) -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": mark}
    words = {"type": "text", "text": "It rains."}
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
    page = {"type": "web_search_result", "url": "https://example.org", "title": "T", "page_age": None}
    pages = [{**page, "encrypted_content": f"page {mark}"}]
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": pages}
    search = {**asked, "name": "tool_search_tool_bm25"}
    reference = {"type": "tool_reference", "tool_name": "get_rate"}
    loaded = {"type": "tool_search_tool_search_result", "tool_references": [reference]}
    result = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": loaded}
    call = {"type": "tool_use", "name": "get_weather", "input": {"location": "Rome"}}
    rated = {**call, "id": "toolu_1", "name": "get_rate", "input": {}}
    content: dict[Kind, tuple[list[Any], str]] = {
        "thinking only": ([thought], "max_tokens"),
        "empty": ([], "end_turn"),
        "cut call": ([thought, words, {**call, "id": "toolu_1", "input": {}}], "max_tokens"),
        "refusal": ([words], "refusal"),
        "tool search": ([thought, search, result, rated], "tool_use"),
        "web search": ([thought, asked, found, words], "end_turn"),
        "cut web search": ([words, thought, asked], "max_tokens"),
        "several calls": ([thought, words, {**call, "id": "toolu_1"}, {**call, "id": "toolu_2"}], "tool_use"),
        "words": ([thought, words], "end_turn"),
    }
    blocks, stop = content[kind]
    return {"content": blocks, "stop_reason": stop, "usage": {}}


def gpt_says(kind: Kind, mark: str) -> dict[str, Any]:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": mark}
    text = {"type": "output_text", "text": "It rains.", "annotations": [], "logprobs": []}
    words = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    refusal = {**words, "content": [{"type": "refusal", "refusal": "I will not."}]}
    action = {"type": "search", "query": "rain"}
    web = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    side = {"call_id": None, "execution": "server", "status": "completed"}
    search = {"type": "tool_search_call", "id": "tsc_1", **side, "arguments": {"paths": ["get_rate"]}}
    rate = {"type": "function", "name": "get_rate", "description": RATE.description, "parameters": RATE.parameters}
    space = {"type": "namespace", "name": "bank", "description": "B.", "tools": [{**rate, "defer_loading": True}]}
    loaded = {"type": "tool_search_output", "id": "tso_1", **side, "tools": [space]}
    call = {"type": "function_call", "name": "get_weather", "arguments": '{"location":"Rome"}', "status": "completed"}
    one, other = {**call, "id": "fc_1", "call_id": "call_1"}, {**call, "id": "fc_2", "call_id": "call_2"}
    rated = {**one, "name": "get_rate", "arguments": "{}", "namespace": "bank"}
    output: dict[Kind, tuple[list[Any], str]] = {
        "thinking only": ([thought], "max_output_tokens"),
        "empty": ([], ""),
        "cut call": ([thought, words, {**one, "arguments": '{"loc', "status": "incomplete"}], "max_output_tokens"),
        "refusal": ([refusal], ""),
        "tool search": ([thought, search, loaded, rated], ""),
        "web search": ([thought, web, words], ""),
        "cut web search": ([web, thought], "max_output_tokens"),
        "several calls": ([thought, words, one, other], ""),
        "words": ([thought, words], ""),
    }
    items, why = output[kind]
    status = {"status": "incomplete", "incomplete_details": {"reason": why}} if why else {"status": "completed"}
    return {"output": items, "usage": {}, **status}


def chat_says(kind: Kind, mark: str, provider: str) -> dict[str, Any]:
    names = ("A1b2C3d4E", "F5g6H7i8J") if provider == "mistral" else ("call_1", "call_2")
    calls = [
        {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": '{"location":"Rome"}'}}
        for call_id in names
    ]
    extra: dict[str, dict[str, Any]] = {
        "deepseek": {"reasoning_content": mark},
        "groq": {"reasoning": mark, "channel": "final", "executed_tools": [{"index": 0, "type": "search"}]},
    }
    thought, words = extra.get(provider, {}), "It rains."
    said: Any = words
    if provider == "mistral":
        said = [{"type": "thinking", "thinking": [{"type": "text", "text": mark}]}, {"type": "text", "text": words}]
    if provider == "gemini":
        calls[0]["extra_content"] = {"google": {"thought_signature": mark}}
    cut = [{**calls[0], "function": {"name": "get_weather", "arguments": '{"loc'}}]
    messages: dict[Kind, tuple[dict[str, Any], str]] = {
        "thinking only": ({"content": None, **thought}, "length"),
        "empty": ({"content": ""}, "stop"),
        "cut call": ({"content": words, "tool_calls": cut, **thought}, "length"),
        "refusal": ({"content": None, "refusal": "I will not."}, "content_filter"),
        "several calls": ({"content": words, "tool_calls": calls, **thought}, "tool_calls"),
        "words": ({"content": said, **thought}, "stop"),
    }
    message, reason = messages.get(kind, messages["words"])
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": reason}], "usage": {}}


def mark_of(name: str) -> str:
    """What only that model can read."""
    return f"sig-{name}"


def says(name: str, kind: Kind) -> dict[str, Any]:
    model = MODELS[name]
    if isinstance(model, AnthropicModel):
        return claude_says(kind, mark_of(name))
    if not isinstance(model, OpenAIResponsesModel):
        return chat_says(kind, mark_of(name), model.provider)
    said = gpt_says(kind, mark_of(name))
    thinks = not model.model_name.startswith("gpt-4")
    return said if thinks else {**said, "output": [one for one in said["output"] if one["type"] != "reasoning"]}


def kinds_of(name: str) -> list[Kind]:
    return [kind for kind in KINDS if kind != "tool search" or MODELS[name].capabilities.searches]


# -- What each provider refuses ---------------------------------------------------------------------------------------


@cache
def adapter(protocol: str) -> TypeAdapter[Any]:
    union: Any = Union[params(protocol)]  # noqa: UP007 - made of a tuple
    return TypeAdapter(union)


@cache
def params(protocol: str) -> tuple[Any, ...]:
    """The SDKs' types of blocks, items and messages in a request."""
    from anthropic.types.beta import BetaContentBlockParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    unions = {
        "messages": BetaContentBlockParam,
        "responses": ResponseInputItemParam,
        "chat": ChatCompletionMessageParam,
    }
    union: Any = unions[protocol]
    members = get_args(get_args(union)[0] if get_origin(union) is Annotated else union)
    return tuple(member for member in members if hasattr(member, "__total__"))


@cache
def fields_of(protocol: str, named: str) -> frozenset[str]:
    """The fields that the SDK's types have for a block, an item or a message of this type or role."""
    fields: set[str] = set()
    for kind in params(protocol):
        hints = get_type_hints(kind, include_extras=False)
        said = str(hints.get("type", "")) + str(hints.get("role", ""))
        if f"'{named}'" in said or (named == "message" and "type" in hints and "'message'" in str(hints["type"])):
            fields |= set(hints)
    return frozenset(fields)


OF_SERVERS = {"deepseek": {"reasoning_content"}, "groq": {"reasoning"}, "gemini": {"extra_content"}}
"""What these servers take beyond OpenAI's fields."""


def check(name: str, body: Mapping[str, Any]) -> None:
    """Raises where the provider would refuse the request."""
    model = MODELS[name]
    pieces: list[Any] = body.get("input", body.get("messages", []))
    match model.protocol:
        case "messages":
            anthropic_rules.check(body, {"anthropic-beta": ",".join(("inline-tools-2026-09-15",))})
            pieces = [block for turn in pieces for block in turn["content"] if turn["role"] != "system"]
        case "responses":
            openai_rules.check_responses(body, {})
        case _ if model.provider == "gemini":
            gemini_rules.check(body, {})
        case _:
            openai_rules.check_chat(body, {})
    for piece in pieces:
        adapter(model.protocol).validate_python(piece)
        named = piece.get("role") if model.protocol == "chat" else piece.get("type", "message")
        known = fields_of(model.protocol, named) | OF_SERVERS.get(model.provider, set())
        assert known >= piece.keys(), (name, named, piece.keys() - known)
    if name == "mistral":
        check_mistral(pieces)
    if name == "deepseek":
        assert all("reasoning_content" in turn for turn in pieces if turn["role"] == "assistant")


def check_mistral(turns: Sequence[Mapping[str, Any]]) -> None:
    ids = [call["id"] for turn in turns for call in turn.get("tool_calls", ())]
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)
    roles = [turn["role"] for turn in turns]
    assert ("tool", "user") not in list(pairwise(roles))


# -- Moving -----------------------------------------------------------------------------------------------------------


def request_of(name: str, messages: Sequence[Message], *, found: bool) -> ModelRequest:
    deferred = (RATE,) if not search_problem(MODELS[name], "auto", (RATE,)) else ()
    offered = (SEARCH, WEATHER, RATE) if found else (SEARCH, WEATHER)
    return ModelRequest("You help.", tuple(messages), offered, deferred)


@cache
def told(name: str, kind: Kind) -> Sequence[Message]:
    """A question, the answer of this kind, saved and loaded, results for its calls and another question."""
    question = user_message("Rain?")
    answer = MODELS[name].read_answer(says(name, kind), request_of(name, [question], found=False)).message
    results = tuple(
        ToolResult(call.id, call.name, (Text(f"Result of {call.id}."),), error="failed" if call.malformed else None)
        for call in answer.tool_calls
    )
    after = [Message("tool", results)] if results else []
    whole = [question, answer, *after, user_message("And tomorrow?")]
    return load_messages(json.loads(json.dumps(dump_messages(whole))))


def moved(name: str, messages: Sequence[Message]) -> dict[str, Any]:
    found = any(call.name == "get_rate" for message in messages for call in message.tool_calls)
    body: dict[str, Any] = json.loads(encoded(MODELS[name].request_body(request_of(name, messages, found=found))))
    return body


@pytest.mark.slow
@each_row("source", list(MODELS))
@each_row("target", list(MODELS))
def test_every_answer_can_be_followed_by_every_model(source: str, target: str) -> None:
    for kind in kinds_of(source):
        messages = told(source, kind)
        body = moved(target, messages)
        check(target, body)
        written = json.dumps(body["messages"] if "messages" in body else body["input"])
        for message in messages:
            for words in (message.text, *(result.text for result in message.tool_results)):
                assert words in written, (kind, words)
            for call in message.tool_calls:
                assert f'"{call.name}"' in written.replace('\\"', '"')  # also where it is called through call_tool
                assert all(json.dumps(value)[1:-1] in written for value in call.arguments.values())
        if source != target:
            assert mark_of(source) not in written.replace(f"page {mark_of(source)}", ""), kind
        searching = any("search" in str(tool.get("type")) for tool in body.get("tools", ()))
        assert searching == (not search_problem(MODELS[target], "auto", ()))


WHOLE: tuple[Kind, ...] = ("tool search", "web search", "several calls", "words", "refusal", "cut call")


@each_row("name, kind", [(name, kind) for name in MODELS for kind in WHOLE if kind in kinds_of(name)])
def test_a_whole_answer_goes_back_as_it_came(name: str, kind: Kind) -> None:
    answer, body = says(name, kind), moved(name, told(name, kind))
    match MODELS[name].protocol:
        case "messages":
            assert body["messages"][1]["content"] == answer["content"]
        case "responses":
            outputs = ("function_call_output",)
            assert [item for item in body["input"][1:-1] if item.get("type") not in outputs] == answer["output"]
        case _:
            [_, _, said, *_] = body["messages"]
            sent = answer["choices"][0]["message"]
            gone = {"executed_tools", "channel"}
            kept = {key: value for key, value in sent.items() if value is not None and key not in gone}
            if kind == "cut call":  # its arguments are no JSON
                kept["tool_calls"] = [{**sent["tool_calls"][0], "function": {"name": "get_weather", "arguments": "{}"}}]
            assert {key: value for key, value in said.items() if value is not None} == {
                **({"reasoning_content": ""} if name == "deepseek" else {}),
                **kept,
            }


@each_row("name", ["opus-4-8", "sonnet-4-6", "gpt-5.5", "gpt-5.4", "o4-mini"])
@each_row("kind", ["thinking only", "empty"])
def test_an_answer_that_says_nothing_does_not_end_the_conversation(name: str, kind: Kind) -> None:
    body = moved(name, told(name, kind))
    check(name, body)
    assert mark_of(name) not in json.dumps(body)
    assert "assistant" not in [turn.get("role") for turn in body.get("messages", body.get("input", []))]


@each_row(
    "written_by, asked, same",
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5", True),
        ("claude-sonnet-4-5", "claude-sonnet-4-6", False),
        ("claude-sonnet-4-5", "claude-opus-4-5", False),
        ("", "claude-opus-4-5", True),
    ],
)
def test_a_dated_name_is_the_same_model(written_by: str, asked: str, same: bool) -> None:
    thought = Thinking("Hm.", {"type": "thinking", "thinking": "Hm.", "signature": "s"})
    answer = Message("assistant", (thought, Text("Yes.")), Origin("anthropic", "messages", "", written_by))
    body = AnthropicModel(asked).request_body(ModelRequest("", (user_message("x"), answer, user_message("y"))))
    assert ("signature" in json.dumps(body)) is same


def test_a_provider_by_name_is_where_it_is_usually() -> None:
    """As histories had it once, and as those have it that come from an SDK."""
    block = ProviderBlock({"type": "web_search_call", "id": "ws_1"})
    [message] = load_messages([{"role": "assistant", "provider": "openai", "parts": [dump(block), dump(Text("Yes."))]}])
    assert message.origin == Origin("openai")
    here, elsewhere = MODELS["gpt-5.5"].origin, MODELS["gpt-4o by chat"].origin
    assert written_for([message], here)[0] is message
    assert written_for([message], elsewhere)[0].parts == (Text("Yes."),)
    assert written_for([message], replace(here, provider="gateway"))[0].parts == (Text("Yes."),)


def dump(part: Part) -> dict[str, Any]:
    [message] = dump_messages([Message("assistant", (part,))])
    piece: dict[str, Any] = message["parts"][0]
    return piece


async def test_a_thought_that_is_refused_is_left_out_and_not_sent_again() -> None:
    """Signed for another account, or before the tools were another: nobody can know it before the provider says so."""
    why = "messages.1.content.0: Invalid `signature` in `thinking` block"
    error = {"type": "invalid_request_error", "message": why}
    played = PlayedProvider(failed(400, {"type": "error", "error": error}), anthropic_stream(text_block("Fine.")))
    model = AnthropicModel("claude-opus-4-8", api_key="k", http_client=played.http_client)
    messages = told("opus-4-8", "words")
    answer = await model.respond(ModelRequest("", tuple(messages)), ignore)
    await model.respond(ModelRequest("", (*messages, answer.message, user_message("Thanks."))), ignore)
    assert [mark_of("opus-4-8") in json.dumps(body) for body in played.bodies] == [True, False, False]
    assert all("It rains." in json.dumps(body) for body in played.bodies)


@each_row(
    "why",
    [
        "The encrypted content for item rs_1 could not be verified.",
        "Reasoning input items can only be provided to a reasoning or computer use model.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item. (reasoning item)",
    ],
)
async def test_encrypted_reasoning_that_is_refused_is_left_out(why: str) -> None:
    error = {"error": {"message": why, "type": "invalid_request_error", "code": "invalid_encrypted_content"}}
    played = PlayedProvider(failed(400, error), responses_stream(message_item("Fine.")))
    model = OpenAIResponsesModel("gpt-5.5", api_key="k", http_client=played.http_client)
    answer = await model.respond(ModelRequest("", tuple(told("gpt-5.5", "several calls"))), ignore)
    assert answer.message.text == "Fine."
    first, second = (json.dumps(body["input"]) for body in played.bodies)
    assert mark_of("gpt-5.5") in first
    assert not any(one in second for one in (mark_of("gpt-5.5"), "rs_1", "msg_1", "fc_1"))
    assert second.count('"call_1"') == 2


async def test_a_chain_hands_on_what_the_next_one_takes() -> None:
    down = failed(529, {"error": {"type": "overloaded_error", "message": "busy"}})
    played = PlayedProvider(down, responses_stream(message_item("Fine.")))
    chain = FallbackModel(
        [
            OpenAIResponsesModel(name, api_key="k", http_client=played.http_client, max_retries=0)
            for name in ("gpt-5.5", "gpt-4.1")
        ]
    )
    answer = await chain.respond(ModelRequest("", tuple(told("gpt-5.5", "tool search")), (SEARCH, RATE)), ignore)
    assert answer.message.text == "Fine."
    first, second = (json.dumps(body["input"]) for body in played.bodies)
    assert mark_of("gpt-5.5") in first
    assert mark_of("gpt-5.5") not in second
    assert answer.message.origin == Origin("openai", "responses", "api.openai.com/v1", "gpt-4.1")
