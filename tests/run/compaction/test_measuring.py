"""What a request is expected to take, against what was counted: by real providers where recordings lie beside the
repository, and by a scripted one whose tokenizer may be any."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from mcpagent import Agent
from mcpagent.errors import InputError
from mcpagent.history.conversation import Conversation
from mcpagent.history.token_estimates import DEFINITION_SHARE, IMAGE_TOKENS, message_tokens, text_tokens
from mcpagent.models.imported_histories import read_history
from mcpagent.run.compaction.measuring import PRIOR_TOKENS, Measure, measured
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.values.messages import (
    Image,
    Message,
    ProviderBlock,
    Step,
    Text,
    Thinking,
    ToolCall,
    ToolDefinition,
    Usage,
    user_message,
)
from tests.models.test_http_model_recordings import RECORDINGS, recorded
from tests.run.compaction.windowed import WindowedModel, asks_then_tells
from tests.tables import each_row


def test_an_estimate_grows_with_the_text_whatever_it_is() -> None:
    words = "It rained in the morning, and the afternoon was dry. "
    data = '{"id":17,"at":"2026-11-25T03:10:00Z","ok":true},'
    assert 10 <= text_tokens(words) <= 14
    assert text_tokens(data * 50) / len(data) > text_tokens(words * 50) / len(words)
    assert text_tokens("今日は雨が降っています" * 10) > text_tokens("it is raining " * 10) / 2
    assert text_tokens("") == 0
    deep: Any = {}
    for _ in range(20_000):
        deep = {"a": deep}
    assert message_tokens(Message("assistant", (ToolCall("c", "look", deep),))) < 20
    assert message_tokens(Message("user", (Image("image/png", "x" * 90_000),))) == IMAGE_TOKENS
    sealed = Thinking("", {"encrypted_content": "x" * 800})
    assert message_tokens(Message("assistant", (sealed,))) == 100


def test_a_measure_goes_both_ways_and_hidden_tokens_are_no_ratio() -> None:
    measure = Measure(estimated=300, counted=800)  # five hundred that the provider added
    assert measure.counted_for(300) == 800
    assert measure.counted_for(10_300) < 13_500
    assert abs(measure.estimate_for(measure.counted_for(5_000)) - 5_000) <= 1
    large = Measure(estimated=50_000, counted=75_000)
    assert 88_000 < large.counted_for(60_000) < 90_500
    assert Measure().counted_for(1_234) == 1_234


def test_answers_that_tell_no_size_are_passed_over() -> None:
    ran = Message("assistant", (ProviderBlock({"type": "server_tool_use"}), Text("Found.")))
    plain = Message("assistant", (Text("Well."),))
    conversation = Conversation(messages=[user_message("a"), plain, user_message("b"), ran, user_message("c"), plain])
    for place, model, requests, tokens in ((1, "m", 1, 100), (3, "m", 1, 900), (5, "other", 1, 50)):
        conversation.note_step(Step(place, model, (), Usage(input_tokens=tokens, requests=requests)))
    assert measured(conversation, "m", lambda _names: 10).counted == 100
    assert measured(conversation, "other", lambda _names: 10).counted == 50
    assert measured(conversation, "nobody", lambda _names: 10) == Measure()
    paused = Conversation(messages=[user_message("a"), plain])
    paused.note_step(Step(1, "m", (), Usage(input_tokens=500, requests=2)))
    assert measured(paused, "m", lambda _names: 10) == Measure()


@each_row("per_token", [3.2, 4.0, 4.8])
async def test_each_request_is_expected_within_a_tenth_after_the_first_answer(per_token: float) -> None:
    def read_all(name: str) -> str:
        """Reads all."""
        return f"About {name}: " + "word after word and some more of them " * 50

    model = WindowedModel(asks_then_tells, 9_000, per_token=per_token)
    instructions = "You read what you are asked for, and say what matters of it. " * 80
    async with Agent(model, tools=[read_all], instructions=instructions) as agent:
        for number in range(25):
            await agent.ask(f"Question {number}: what is there to be read?")
        session = agent._runtime.own_session
        conversation, steps = Conversation(session.system, session.messages), session.steps
        offered = [int(session.tools.tokens(step.offered) * DEFINITION_SHARE) for step in steps]
    fixed = text_tokens(conversation.system)
    sizes = [
        (fixed + tools + conversation.sent_tokens(step.place), step.usage.input_tokens)
        for tools, step in zip(offered, steps, strict=True)
    ]
    assert any(now[1] < before[1] for before, now in pairwise(sizes))  # it was compacted
    for before, (estimate, counted) in pairwise(sizes):
        assert abs(Measure(*before).counted_for(estimate) - counted) <= 0.1 * counted


def exchanges() -> Iterator[tuple[str, list[tuple[int, int, bool]]]]:
    """Of each recording, by request: its estimate, what was counted, and whether the provider ran tools for it."""
    for name, protocol, own in recorded():
        sizes: list[tuple[int, int, bool]] = []
        for exchange in own:
            request = exchange["request"]
            body = json.loads(request.get("body") or json.dumps(request.get("parsed_body")))
            answer = json.dumps(exchange["response"])
            counted = _counted(exchange["response"])
            if not isinstance(body, dict) or not counted:
                continue
            try:
                sizes.append((_estimate(body), counted, "server_tool_use" in answer or "tool_search_call" in answer))
            except InputError:  # forms of tool changes, which no history has that somebody gives
                continue
        yield f"{name}, {protocol}", sizes


def _estimate(body: dict[str, Any]) -> int:
    sent = body.get("messages") or body.get("input")
    said: list[Any] = [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent or ())
    later = (tool for one in said if one.get("type") == "additional_tools" for tool in one["tools"])
    tools = [*body.get("tools", ()), *later]
    tools = [tool.get("function", tool) for tool in tools if not tool.get("defer_loading")]
    definitions = [
        ToolDefinition(
            str(tool.get("name") or tool.get("type")),
            tool.get("description") or "",
            tool.get("input_schema") or tool.get("parameters") or {},
        )
        for tool in tools
    ]
    history = read_history([one for one in said if one.get("type") != "additional_tools"])
    system = body.get("system") or body.get("instructions") or history.system
    system = system if isinstance(system, str) else " ".join(block["text"] for block in system)
    offered = int(sum(map(definition_tokens, definitions)) * DEFINITION_SHARE)
    return text_tokens(system) + offered + sum(map(message_tokens, history.messages))


def _counted(response: dict[str, Any]) -> int:
    body = response.get("parsed_body") or response.get("body")
    text = body.get("string", "") if isinstance(body, dict) and "string" in body else ""
    found: list[dict[str, Any]] = [body] if isinstance(body, dict) else []
    for line in str(text).splitlines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            found += [event, event.get("message") or {}, event.get("response") or {}]
    if text and not str(text).startswith(("event:", "data:", ":")):
        found.append(json.loads(text))
    usages = [one.get("usage") or {} for one in found]
    counts = [usage.get("input_tokens") or usage.get("prompt_tokens") or 0 for usage in usages]
    return max((int(count) for count in counts), default=0)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not beside the repository")
def test_real_providers_count_what_was_expected_within_a_tenth() -> None:
    """Where they ran tools of their own they count the conversation more than once: that tells no size."""
    errors: list[float] = []
    for _, sizes in exchanges():
        for (estimate, counted, ran), (following, found, ran_too) in pairwise(sizes):
            if following > estimate and not ran and not ran_too:
                errors.append(Measure(estimate, counted).counted_for(following) / found - 1)
    assert len(errors) >= 10
    assert max(map(abs, errors)) < 0.1


@each_row("counted", [0, 1, 17, 400, 10_000])
def test_a_server_that_reports_too_little_makes_no_long_request_short(counted: int) -> None:
    measure = Measure(40_000, counted)
    assert measure.counted_for(40_000) >= 20_000
    assert measure.counted_for(80_000) >= 40_000
    assert measure.estimate_for(8_192) <= 2 * 8_192


def test_a_server_that_reports_too_much_makes_no_short_request_long() -> None:
    measure = Measure(1_000, 900_000)
    assert measure.counted_for(2_000) <= 2 * 2_000 + PRIOR_TOKENS
    assert measure.estimate_for(200_000) >= (200_000 - PRIOR_TOKENS) / 2
