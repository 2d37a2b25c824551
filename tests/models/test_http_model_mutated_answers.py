"""Streams and histories that break the rules at any place: an answer or one line, and a next request that is taken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import httpx2
import pytest

from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.values.events import ignore
from mcpagent.values.messages import (
    Message,
    Origin,
    Text,
    ToolCall,
    ToolResult,
    dump_messages,
    load_messages,
    user_message,
)
from tests.simulator.server import PROTOCOLS
from tests.simulator.values import Refusal
from tests.tables import each_row
from tests.wire.provider import Waits
from tests.wire.scene import SEARCH, WEATHER

PATHS: Mapping[str, str] = {
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
}
KINDS: Mapping[str, Callable[..., HttpModel]] = {
    "messages": lambda **more: AnthropicModel("claude-opus-4-8", **more),
    "responses": lambda **more: OpenAIResponsesModel("gpt-5.5", **more),
    "chat": lambda **more: OpenAIChatModel("gpt-5.5", **more),
}
HEADERS = {"anthropic-beta": "inline-tools-2026-09-15"}
TOOLS = (SEARCH, WEATHER)
QUESTION = user_message("Rain?")
SAID: Sequence[Any] = (
    "It rains. \N{UMBRELLA}",
    ("get_weather", {"location": "Rome"}),
    ("search_tools", {"query": "x"}),
)

NAMES = (
    *("multi_tool_use.parallel", "functions.x", "", "x" * 65, "x" * 200, " ", "a b", "a/b", "a.b.c", "a:b"),
    *("\N{CJK UNIFIED IDEOGRAPH-540D}", "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "a\nb", "\x00", "{}", "<|tool|>"),
    *("-", "_", "get_weather ", "GET_WEATHER", "get_weather()", '"', "\\", "\ud800", "a,b", "null"),
)
ARGUMENTS = (
    *("", " ", "null", "[]", "{", '"x"', "7", '{"a": NaN}', '{"a":1}{"a":2}'),
    *("\x00", "{'a': 1}", '{"\ud800": 1}'),
)
IDS = ("", " ", "x" * 65, "x" * 300, "call.1", "call 1", "call_1", "call_1", "\N{CJK UNIFIED IDEOGRAPH-540D}", "a/b")


def problem(protocol: str, model: HttpModel, messages: Sequence[Message]) -> str:
    """Return why the provider refuses this history, saved and loaded, "" if it takes it."""
    loaded = load_messages(json.loads(json.dumps(dump_messages(list(messages)))))
    body = json.loads(json.dumps(model.request_body(ModelRequest("S", tuple(loaded), TOOLS))).replace("\\ud800", "?"))
    try:
        PROTOCOLS[PATHS[protocol]].check(body, HEADERS)
    except Refusal as refusal:
        return refusal.message
    return ""


def closed(answer: Message) -> list[Message]:
    """Return a question, the answer, results for its calls and another question."""
    results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in answer.tool_calls)
    after = [Message("tool", results)] if results else []
    return [QUESTION, answer, *after, user_message("And tomorrow?")]


@each_row("protocol", list(KINDS))
def test_no_name_argument_or_id_in_a_history_ends_a_conversation(protocol: str) -> None:
    wrong: list[str] = []
    model = KINDS[protocol]()
    for origin in (model.origin, Origin("elsewhere"), None):
        for name in NAMES:
            calls = (ToolCall("call_1", name, {}), ToolCall("call_2", name, {"a": 1}))
            if said := problem(protocol, model, closed(Message("assistant", calls, origin))):
                wrong.append(f"name {name!r}, {origin}: {said}")
        for arguments in ARGUMENTS:
            broken = ToolCall("call_1", "get_weather", {}, malformed=arguments)
            if said := problem(protocol, model, closed(Message("assistant", (broken,), origin))):
                wrong.append(f"arguments {arguments!r}, {origin}: {said}")
        for call_id in IDS:
            if len(call_id) > 40 and protocol == "chat" and origin == model.origin:
                continue  # other servers of Chat Completions have longer ones of their own
            calls = (ToolCall(call_id, "get_weather", {}), ToolCall("call_1x", "get_weather", {}))
            if said := problem(protocol, model, closed(Message("assistant", calls, origin))):
                wrong.append(f"id {call_id!r}, {origin}: {said}")
    assert wrong == []


def events_of(protocol: str, said: Sequence[Any] = SAID) -> list[dict[str, Any]]:
    api = PROTOCOLS[PATHS[protocol]]
    body = KINDS[protocol]().request_body(ModelRequest("S", (QUESTION,), TOOLS))
    usage = {"total": 7, "read": 0, "output": 3}
    if protocol == "messages":
        usage = {"input_tokens": 7, "output_tokens": 3}
    return api.events(api.answer(json.loads(json.dumps(body)), said, 1, usage))


async def follow(protocol: str, content: bytes) -> str:
    """Return what is wrong with the answer to this stream, "" if it can be followed, or is one line."""
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _request: response))
    model = KINDS[protocol](api_key="k", http_client=client, max_retries=0, sleep=Waits())
    try:
        answer = await model.respond(ModelRequest("S", (QUESTION,), TOOLS), ignore)
    except ModelError as error:
        return "more than one line" if "\n" in str(error) else ""
    except Exception as error:  # noqa: BLE001 - what a run would die of
        return f"{type(error).__name__}: {error}"
    try:
        return problem(protocol, model, closed(answer.message))
    except Exception as error:  # noqa: BLE001 - what the next question would die of
        return f"next: {type(error).__name__}: {error}"


def written(protocol: str, events: Sequence[Any]) -> bytes:
    lines: list[str] = []
    for event in events:
        if isinstance(event, dict) and isinstance(event.get("type"), str) and protocol != "chat":
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event)}\n\n")
    if protocol == "chat":
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode("utf-8", "replace")


@pytest.mark.slow
@each_row("protocol", list(KINDS))
async def test_a_name_or_arguments_of_an_answer_end_no_conversation(protocol: str) -> None:
    wrong: list[str] = []
    for name in NAMES:
        if said := await follow(protocol, written(protocol, events_of(protocol, [(name, {"a": 1})]))):
            wrong.append(f"name {name!r}: {said}")
    for arguments in ARGUMENTS:
        events = json.dumps(events_of(protocol, [("get_weather", {"a": "MARK"})]))
        marked = json.dumps(json.dumps({"a": "MARK"}))
        content = written(protocol, json.loads(events.replace(marked, json.dumps(arguments))))
        if said := await follow(protocol, content):
            wrong.append(f"arguments {arguments!r}: {said}")
    assert wrong == []


VALUES: tuple[Any, ...] = (
    *(None, "", "x", 0, -1, 1e308, True, [], {}, [None]),
    *({"type": "unknown"}, "\x00", "\ud800", 2**70),
)
EVENTS: tuple[Any, ...] = (7, "x", None, [], {}, {"type": "unknown"}, {"type": 7})


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        found += places(one, (*path, key))
    return found


def mutated(events: list[Any], chance: Random) -> list[Any]:
    """Return the events with one to three changes: one lost, doubled, moved, or a value of it replaced or lost."""
    made = copy.deepcopy(events)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(made)) if made else 0
        match chance.randrange(6):
            case 0 if made:
                del made[place]
            case 1 if made:
                made.insert(chance.randrange(len(made)), copy.deepcopy(made[place]))
            case 2 if made:
                made.insert(chance.randrange(len(made)), made.pop(place))
            case 3:
                made.insert(place, copy.deepcopy(chance.choice(EVENTS)))
            case _ if made and (inside := places(made[place])):
                *way, last = chance.choice(inside)
                holder = made[place]
                for step in way:
                    holder = holder[step]
                if chance.random() < 0.3:
                    del holder[last]
                else:
                    holder[last] = copy.deepcopy(chance.choice(VALUES))
            case _:
                pass
    return made


async def mutations(protocol: str, seeds: range) -> list[str]:
    wrong: list[str] = []
    events = events_of(protocol)
    for seed in seeds:
        content = written(protocol, mutated(events, Random(seed)))
        if said := await follow(protocol, content):
            wrong.append(f"{protocol}, seed {seed}: {said[:200]}")
    return wrong


@each_row("protocol", list(KINDS))
async def test_a_changed_stream_is_an_answer_or_one_line(protocol: str) -> None:
    assert await mutations(protocol, range(40)) == []


@pytest.mark.slow
@each_row("protocol", list(KINDS))
async def test_many_changed_streams_are_answers_or_one_line(protocol: str) -> None:
    assert await mutations(protocol, range(40, 2_040)) == []


@pytest.mark.slow
@each_row("protocol", list(KINDS))
async def test_a_stream_cut_at_any_byte_is_an_answer_or_one_line(protocol: str) -> None:
    content = written(protocol, events_of(protocol))
    wrong: list[str] = []
    for size in range(0, len(content), 5):
        for cut in (content[:size], content[:size] + b"\xff\xfe\n\n", content[size:]):
            if said := await follow(protocol, cut):
                wrong.append(f"{size}: {said}")
    assert wrong == []
