"""Whatever happened in a conversation, what is left of it after it was compacted is taken by all providers, has every
tool that was found, and begins each request with the bytes of the one before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.history.conversation import Conversation, fold_discovery
from mcpagent.history.sent_messages import moved, not_sent
from mcpagent.history.token_estimates import message_tokens
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.models.sendable_history import last_container, written_for
from mcpagent.models.tool_changes_in_history import plan_tools
from mcpagent.run.compaction.cutting import CuttableRange, shortest, tail_of, with_short_results
from mcpagent.values.messages import (
    Compacted,
    Container,
    Image,
    Message,
    Origin,
    Pinned,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    dump_messages,
    load_messages,
    user_message,
)
from tests.run.compaction.windowed import is_paired
from tests.simulator.server import PROTOCOLS
from tests.wire.bounded import bounded
from tests.wire.life import KINDS, Life, Step
from tests.wire.scene import PNG

ADAPTERS: Mapping[str, HttpModel] = {
    "anthropic": AnthropicModel("claude-opus-4-8"),
    "anthropic-references": AnthropicModel("claude-sonnet-4-6"),
    "openai": OpenAIResponsesModel("gpt-5.4"),
    "openai-proxy": OpenAIResponsesModel("o3"),
    "chat": OpenAIChatModel("m"),
    "chat-proxy": OpenAIChatModel("m", capabilities=Capabilities("call_tool")),
}

RARER = ("anthropic-references", "openai-proxy", "chat-proxy")

steps = st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple))
moments = st.tuples(st.integers(0, 2_000), st.sampled_from(["results", "turns", "turns, asked"]))


def checked(model: HttpModel, request: ModelRequest) -> dict[str, Any]:
    """The body, which its provider's simulator does not refuse."""
    body = model.request_body(request)
    written: dict[str, Any] = json.loads(json.dumps({"max_tokens": 1, **body}))
    path = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}[model.protocol]
    headers = {str(name): str(value) for name, value in model.request_options(body).get("headers", {}).items()}
    PROTOCOLS[path].check(written, headers)
    return written


def compacted(messages: list[Message], room: int, how: str) -> Compacted:
    """What is said at the end of a history that has to fit so many tokens."""
    live = live_of(messages, how)
    if how == "results":
        return with_short_results(live, room // 2)
    cut = tail_of(live, room)
    return shortest(live, cut, "It was said. ```\nnot the end" if cut > live.begin else live.summary, room)


def live_of(messages: list[Message], how: str = "") -> CuttableRange:
    place = Conversation(messages=messages).compacted_at
    prompts = [at for at, message in enumerate(messages) if message.role == "user" and message.text.startswith(ASKED)]
    return CuttableRange.of(messages, len(messages), place, prompts[-1] if how.endswith("asked") and prompts else None)


ASKED = ("Question", "Start")


@pytest.mark.parametrize(
    "adapter",
    [
        pytest.param(name, marks=[] if name in ("anthropic", "openai", "chat") else pytest.mark.slow)
        for name in ADAPTERS
    ],
)
@given(lives=st.lists(st.tuples(st.lists(steps, max_size=6), moments), min_size=1, max_size=3))
@settings(bounded, max_examples=20)
def test_all_providers_take_what_is_left_and_no_tool_is_lost(
    adapter: str, lives: list[tuple[list[Step], tuple[int, str]]]
) -> None:
    model = ADAPTERS[adapter]
    lived = Life(model.origin)
    for life, (room, how) in lives:
        before: dict[str, Any] = {}
        for step in life:
            lived.live(step)
            before = _same_beginning(before, _request(model, lived), adapter)
        part = compacted(lived.messages, room, how)
        lived.messages.append(Message("user", (part,)))
        _request(model, lived)
        lived.live(("talk", (0,)))
        _request(model, lived)


def _request(model: HttpModel, lived: Life) -> dict[str, Any]:
    whole = lived.request()
    conversation = Conversation(whole.system, list(whole.messages))
    assert is_paired(tuple(conversation.sent))
    request = ModelRequest(whole.system, conversation.sent, whole.tools)
    plan = plan_tools(request)
    assert set(plan.callable_names()) == {tool.name for tool in whole.tools}
    before = plan_tools(whole)
    assert set(plan.callable_names()) == set(before.callable_names())
    return checked(model, request)


def _same_beginning(before: dict[str, Any], after: dict[str, Any], adapter: str) -> dict[str, Any]:
    if before and adapter in ("anthropic", "openai"):
        name = "messages" if "messages" in before else "input"
        said, more = before[name], after[name]
        assert json.dumps(more[: len(said)]) == json.dumps(said)
    return after


results = st.integers(0, 6_000).map(lambda size: "some words " * (size // 11))
kinds = st.sampled_from(["ask", "call", "calls", "image", "pinned", "news"])
turns = st.lists(st.tuples(kinds, results), min_size=1, max_size=14)


def history_of(made: list[tuple[str, str]]) -> list[Message]:
    """A history of these steps, of all kinds of parts."""
    messages: list[Message] = [user_message("Start.")]
    origin = Origin("anthropic", "messages", "api.anthropic.com", "claude-opus-5-5")
    for number, (kind, text) in enumerate(made):
        if kind in ("ask", "pinned"):
            said = (Text(f"Question {number}: {text[:500]}"), *((Pinned(),) if kind == "pinned" else ()))
            messages.append(Message("user", said))
            messages.append(Message("assistant", (Thinking("Hm.", {"type": "thinking"}), Text("Well."))))
        elif kind == "news":
            messages.append(user_message("Your tools have changed."))
        else:
            ids = [f"call_{number}_{place}" for place in range(3 if kind == "calls" else 1)]
            calls = tuple(ToolCall(call_id, "look", {"n": number}) for call_id in ids)
            messages.append(Message("assistant", (Thinking("Hm.", {"type": "thinking"}), *calls), origin))
            content: tuple[Text | Image, ...] = (Text(text or "nothing"),)
            if kind == "image":
                content = (*content, Image("image/png", PNG))
            messages.append(Message("tool", tuple(ToolResult(call_id, "look", content) for call_id in ids)))
    return messages


@given(made=turns, room=st.integers(300, 4_000), how=st.sampled_from(["results", "turns", "turns, asked"]))
@bounded
def test_it_fits_keeps_what_must_stay_and_doing_it_twice_changes_nothing(
    made: list[tuple[str, str]], room: int, how: str
) -> None:
    messages = history_of(made)
    part = compacted(messages, room, how)
    conversation = Conversation(messages=[*messages, Message("user", (part,))])
    sent = tuple(conversation.sent)
    assert conversation.sent_tokens() == sum(map(message_tokens, sent))
    assert is_paired(sent)
    assert list(conversation.messages[:-1]) == messages  # all of it is there
    words = [message.text for message in sent]
    assert all(message.text in words for message in messages if Pinned() in message.parts)
    live = live_of(messages, how)
    if live.asked is not None:
        assert messages[live.asked].text in words
    assert load_messages(json.loads(json.dumps(dump_messages(conversation.messages)))) == list(conversation.messages)

    if how != "results":
        stays = sum(message_tokens(messages[at]) for at in live.staying(live.end))
        calls = sum(message_tokens(Message("assistant", m.tool_calls)) for m in messages)
        left = len(messages) * 4 + calls + stays + 200 + 45 * sum(len(m.tool_results) for m in messages)
        assert conversation.sent_tokens() <= max(room + 200, left)

    again = list(conversation.messages)
    second = compacted(again, room, how)
    assert Conversation(messages=[*again, Message("user", (second,))]).sent == conversation.sent


@given(
    made=turns,
    kept=st.integers(-3, 40) | st.sampled_from([-(10**9), 10**9]),
    pinned=st.lists(st.integers(-2, 40), max_size=3).map(tuple),
    unmoved=st.integers(-3, 40),
    summary=st.sampled_from(["", "They talked."]),
)
@bounded
def test_whatever_a_history_from_elsewhere_says_was_cut_calls_keep_their_results(
    made: list[tuple[str, str]], kept: int, pinned: tuple[int, ...], unmoved: int, summary: str
) -> None:
    part = Compacted(kept, summary, pinned, unmoved=unmoved)
    conversation = Conversation(messages=[*history_of(made), Message("user", (part,))])
    assert is_paired(tuple(conversation.sent))
    left_out = not_sent(conversation.messages)
    assert 0 <= left_out.messages <= len(conversation)


def test_thoughts_that_are_bound_to_what_stood_before_them_go_with_it() -> None:
    """Whole, and only at the models that would refuse them."""
    messages = history_of([("ask", ""), ("call", "x" * 100), ("call", "y" * 100)])
    live = CuttableRange.of(messages, len(messages), None, None)
    messages.append(Message("user", (live.part(3, (), "Summary."),)))
    sent = Conversation(messages=messages).sent
    assert moved(sent) == len(sent) - 1
    origin = messages[3].origin
    assert origin is not None
    thoughts = [any(isinstance(part, Thinking) for part in m.parts) for m in written_for(sent, origin)]
    assert not any(thoughts)
    plain = Origin("anthropic", "messages", "api.anthropic.com", "claude-sonnet-4-6")
    there = [Message(m.role, m.parts, plain if m.origin else None) for m in sent]
    assert any(isinstance(part, Thinking) for m in written_for(there, plain) for part in m.parts)


def test_results_that_were_never_sent_are_shortened_without_touching_what_was() -> None:
    from mcpagent.run.compaction.cutting import with_short_answers_to_come

    messages = history_of([("ask", ""), ("call", "x" * 100), ("call", "word " * 8_000)])
    live = CuttableRange.of(messages, len(messages), None, 0)
    part = with_short_answers_to_come(live, 1_000, 4_000)
    assert part is not None
    sent = Conversation(messages=[*messages, Message("user", (part,))]).sent
    assert list(sent[1:-1]) == messages[:-1]
    assert moved(sent) == 0
    assert len(sent[-1].tool_results[0].text) < 2_200


def test_the_container_that_code_ran_in_is_still_known() -> None:
    origin = Origin("anthropic", "messages", "api.anthropic.com", "m")
    ran = Message("assistant", (Text("Ran."), Container("container_1")), origin)
    messages = [user_message("Run it."), ran, user_message("And now?"), Message("assistant", (Text("Now."),))]
    live = CuttableRange.of(messages, 4, None, None)
    messages.append(Message("user", (live.part(2, (), "It ran."),)))
    assert last_container(Conversation(messages=messages).sent, origin) == Container("container_1")


def test_discovery_is_a_fold_over_all_of_it() -> None:
    lived = Life(Origin("anthropic"))
    lived.live(("add", (1, 2, 3)))
    lived.live(("call", (2,)))
    lived.live(("add_and_call", (1,)))
    part = compacted(lived.messages, 0, "turns")
    assert part.used == ("tool_2", "tool_1")
    whole = [*lived.messages, Message("user", (part,))]
    assert set(fold_discovery(whole).discovered) == {"tool_1", "tool_2", "tool_3"}
    assert fold_discovery(whole).discovered[-1] == "tool_1"  # of more than the model takes, the latest stay
