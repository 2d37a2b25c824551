"""Calls that local models write as text: read where they are exactly that, left alone everywhere else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ModelError
from mcpagent.events import Event, TextDelta, ignore
from mcpagent.messages import user_message
from mcpagent.models import ModelRequest, OpenAIChatModel
from mcpagent.models.textual_calls import calls_in, may_become_call
from tests.wire.bounded import bounded
from tests.wire.provider import PlayedProvider, chat_stream, failed
from tests.wire.scene import SEARCH, WEATHER

NAMES = ("search_tools", "get_weather")
ROME = {"location": "Rome"}
CALL = json.dumps({"name": "get_weather", "arguments": ROME})
ASKED = ModelRequest("", (user_message("Weather?"),), (SEARCH, WEATHER))


def local(played: PlayedProvider) -> OpenAIChatModel:
    return OpenAIChatModel(
        "m", base_url="http://localhost:11434/v1", provider="ollama", http_client=played.http_client, max_retries=0
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"<tool_call>\n{CALL}\n</tool_call>", ""),
        (f"I will look.\n<tool_call>{CALL}</tool_call>", "I will look."),
        (f"[TOOL_CALLS] [{CALL}]", ""),
        (f"[TOOL_CALLS][{CALL}]", ""),
        ('<|python_tag|>{"name": "get_weather", "parameters": {"location": "Rome"}}', ""),
        ('{"type": "function", "name": "get_weather", "parameters": {"location": "Rome"}}', ""),
        (CALL, ""),
        (f"```json\n{CALL}\n```", ""),
        (f"  {CALL}\n", ""),
    ],
)
def test_the_forms_of_model_families(text: str, words: str) -> None:
    assert calls_in(text, NAMES) == (words, [("get_weather", ROME)])


def test_several_calls() -> None:
    second = json.dumps({"name": "search_tools", "arguments": {"query": "x"}})
    both = [("get_weather", ROME), ("search_tools", {"query": "x"})]
    assert calls_in(f"<tool_call>{CALL}</tool_call>\n<tool_call>{second}</tool_call>", NAMES)[1] == both
    assert calls_in(f"[TOOL_CALLS] [{CALL}, {second}]", NAMES)[1] == both


@pytest.mark.parametrize(
    "text",
    [
        "The weather is fine.",
        f"<tool_call>{CALL}",
        f"<tool_call>{CALL[:-3]}</tool_call>",
        f"<tool_call>{CALL}</tool_call> and then some words",
        f"<tool_call>{CALL}</tool_call><tool_call>",
        CALL[:-1],
        f"You could send {CALL}",
        f"{CALL} {CALL}",
        '{"name": "delete_everything", "arguments": {}}',
        '{"name": "get_weather"}',
        '{"name": "get_weather", "arguments": "Rome"}',
        '{"name": "get_weather", "arguments": {}, "parameters": {}}',
        '{"name": "get_weather", "arguments": {}, "note": "as an example"}',
        f'[{CALL}, {{"name": "nonsense", "arguments": {{}}}}]',
        "[]",
        "{}",
        "",
    ],
)
def test_everything_else_stays_text(text: str) -> None:
    assert calls_in(text, NAMES)[1] == []


@given(
    st.text()
    | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(
        json.dumps
    )
)
@bounded
def test_no_text_makes_it_fail(text: str) -> None:
    calls_in(text, NAMES)
    calls_in(f"<tool_call>{text}</tool_call>", NAMES)


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("", True),
        ("  ", True),
        ("<to", True),
        (f"<tool_call>{CALL}", True),
        ("[TOOL", True),
        ("``", True),
        ("```js", True),
        ("```json\n", True),
        ('```json\n{"na', True),
        ('{"name": "x", "arg', True),
        ("[\n", True),
        ("```python", False),
        ("```\nls", False),
        ('{"a": 1', False),
        ("[1, 2", False),
        ("Hello", False),
        ("<b>", False),
    ],
)
def test_text_is_kept_back_only_while_it_may_become_a_call(text: str, may: bool) -> None:
    assert may_become_call(text) is may


async def test_a_written_call_is_a_call_and_its_text_is_not_shown() -> None:
    pieces = [{"content": piece} for piece in ("<tool", "_call>", CALL[:10], CALL[10:], "</tool_call>")]
    events: list[Event] = []
    answer = await local(PlayedProvider(chat_stream(*pieces))).respond(ASKED, events.append)
    [call] = answer.message.tool_calls
    assert (call.name, call.arguments, answer.stop) == ("get_weather", ROME, "tool_calls")
    assert call.id
    assert answer.message.text == ""
    assert events == []


async def test_what_only_looks_like_a_call_is_shown_whole() -> None:
    pieces = [{"content": piece} for piece in ('{"a', '": 1}', " is JSON.")]
    events: list[Event] = []
    answer = await local(PlayedProvider(chat_stream(*pieces))).respond(ASKED, events.append)
    assert answer.message.text == '{"a": 1} is JSON.'
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer.message.text


async def test_plain_words_are_shown_as_they_come() -> None:
    events: list[Event] = []
    await local(PlayedProvider(chat_stream({"content": "Hel"}, {"content": "lo"}))).respond(ASKED, events.append)
    assert events == [TextDelta("Hel"), TextDelta("lo")]


async def test_a_written_call_that_was_cut_off_is_not_run() -> None:
    answer = await local(PlayedProvider(chat_stream({"content": CALL}, finish="length"))).respond(ASKED, ignore)
    assert (answer.message.tool_calls, answer.stop) == ((), "length")


async def test_openai_itself_never_writes_calls_as_text() -> None:
    played = PlayedProvider(chat_stream({"content": CALL}))
    answer = await OpenAIChatModel("m", api_key="k", http_client=played.http_client).respond(ASKED, ignore)
    assert answer.message.text == CALL


async def test_a_model_without_tools_is_told_apart() -> None:
    body = {"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools", "type": "api_error"}}
    with pytest.raises(ModelError, match=r"m cannot call tools .*; use a model that can"):
        await local(PlayedProvider(failed(400, body))).respond(ASKED, ignore)
