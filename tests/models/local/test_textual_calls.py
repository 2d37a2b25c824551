"""Calls that local models write as text: read where they are exactly that, left alone everywhere else."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.errors import ModelError
from mcpagent.models import ModelRequest, OpenAIChatModel
from mcpagent.models.local.textual_calls import calls_in, may_be_all_call
from mcpagent.models.local.textual_forms import FORMS
from mcpagent.values.events import Event, TextDelta, ignore
from mcpagent.values.messages import user_message
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.provider import PlayedProvider, chat_stream, failed
from tests.wire.scene import SEARCH, WEATHER

PLACES = {
    "type": "object",
    "properties": {
        "location": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": ["boolean", "null"]},
        "tags": {"type": "array"},
    },
}
TOOLS = {"search_tools": SEARCH.parameters, "get_weather": WEATHER.parameters, "forecast": PLACES}
ROME = {"location": "Rome"}
CALL = json.dumps({"name": "get_weather", "arguments": ROME})
ASKED = ModelRequest("", (user_message("Weather?"),), (SEARCH, WEATHER))


def local(played: PlayedProvider) -> OpenAIChatModel:
    return OpenAIChatModel(
        "m", base_url="http://localhost:11434/v1", provider="ollama", http_client=played.http_client, max_retries=0
    )


@each_row(
    "text, words",
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
        (f"{CALL}<|im_end|>", ""),
        ('[TOOL_CALLS]get_weather[ARGS]{"location": "Rome"}', ""),
        ('Sure.[TOOL_CALLS]get_weather[CALL_ID]abc123[ARGS]{"location": "Rome"}</s>', "Sure."),
        ('<|python_tag|>{"name": "get_weather", "parameters": {"location": "Rome"}}<|eom_id|>', ""),
        (f"<tool_call>[{CALL}]", ""),
        (f"<|tool_call|>[{CALL}]", ""),
        (
            f'<|tool_call|>[{{"type": "function", "function": {CALL}}}]<|/tool_call|><|end|>',
            "",
        ),
        (f"functools[{CALL}]", ""),
        ('<function=get_weather>{"location": "Rome"}</function>', ""),
        ('<|recipient|>get_weather\n<|content|>{"location": "Rome"}<|stop|>', ""),
        ('>>>get_weather\n{"location": "Rome"}', ""),
        (
            "<tool_call>\n<function=get_weather>\n<parameter=location>\nRome\n</parameter>\n</function>\n</tool_call>",
            "",
        ),
        ("I look.<function=get_weather>\n<parameter=location>Rome</parameter>\n</function>\n</tool_call>", "I look."),
        ("<tool_call>get_weather\n<arg_key>location</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>", ""),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
            '{"location": "Rome"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            "",
        ),
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"location": "Rome"}'
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "",
        ),
        (
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
            '<｜DSML｜parameter name="location" string="true">Rome</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "",
        ),
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
            '{"location": "Rome"}<|tool_call_end|><|tool_calls_section_end|>',
            "",
        ),
        ('<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"location": "Rome"}<|call|>', ""),
        (
            "<|channel|>analysis<|message|>I need the weather.<|end|><|start|>assistant"
            '<|channel|>commentary to=functions.get_weather json<|message|>{"location": "Rome"}',
            "",
        ),
        ('```tool_code\nget_weather(location="Rome")\n```', ""),
        ("[get_weather(location='Rome')]", ""),
    ],
)
def test_the_forms_of_model_families(text: str, words: str) -> None:
    assert calls_in(text, TOOLS) == (words, [("get_weather", ROME)])


def test_calls_one_a_line() -> None:
    other = json.dumps({"name": "get_weather", "arguments": {"location": "Oslo"}})
    both = [("get_weather", ROME), ("get_weather", {"location": "Oslo"})]
    assert calls_in(f"{CALL}\n\n{other}\n", TOOLS) == ("", both)
    assert calls_in(f"```json\n{CALL}\n{other}\n```", TOOLS) == ("", both)
    assert calls_in(f"{CALL}\n{other[:-5]}", TOOLS)[1] == []  # cut off: none is run
    assert calls_in(f"{CALL}\nThat is all.", TOOLS)[1] == []


@each_row(
    "text, arguments",
    [
        ("<parameter=location>\n  two\nlines\n</parameter>", {"location": "  two\nlines"}),
        ("<parameter=location>5</parameter>\n<parameter=days>\n5\n</parameter>", {"location": "5", "days": 5}),
        ('<parameter=tags>["a"]</parameter><parameter=exact>null</parameter>', {"tags": ["a"], "exact": None}),
        ("", {}),
    ],
)
def test_bare_values_are_what_the_schema_says(text: str, arguments: dict[str, object]) -> None:
    assert calls_in(f"<function=forecast>{text}</function>", TOOLS) == ("", [("forecast", arguments)])


def test_several_calls() -> None:
    second = json.dumps({"name": "search_tools", "arguments": {"query": "x"}})
    both = [("get_weather", ROME), ("search_tools", {"query": "x"})]
    assert calls_in(f"<tool_call>{CALL}</tool_call>\n<tool_call>{second}</tool_call>", TOOLS)[1] == both
    assert calls_in(f"[TOOL_CALLS] [{CALL}, {second}]", TOOLS)[1] == both
    assert calls_in(f"<|python_tag|>{CALL}; {second}", TOOLS)[1] == both
    named = '[TOOL_CALLS]get_weather[ARGS]{"location": "Rome"}[TOOL_CALLS]search_tools[ARGS]{"query": "x"}'
    assert calls_in(named, TOOLS)[1] == both
    python = 'get_weather(location="Rome")\nsearch_tools(query="x")'
    assert calls_in(f"```tool_code\n{python}\n```", TOOLS)[1] == both
    assert calls_in("[get_weather(location='Rome'), search_tools(query='x')]", TOOLS)[1] == both


@each_row(
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
        '{"name": "get_weather", "arguments": {"location": "Rome", "location": "Paris"}}',
        '{"name": "get_weather", "arguments": {"location": NaN}}',
        '[TOOL_CALLS]get_weather[ARGS]{"location": "Rome"',
        '[TOOL_CALLS]get_weather[ARGS]{"location": "Rome"} and so on',
        '[TOOL_CALLS]delete_all[ARGS]{"location": "Rome"}',
        f"<|python_tag|>{CALL}; ",
        f"<|python_tag|>{CALL} {CALL}",
        "<|python_tag|>import os",
        f"<|tool_call|>[{CALL}",
        '<function=get_weather>{"location": "Rome"}',
        '<function=get_weather>{"location": "Rome"}</function> as you see',
        "<function=forecast><parameter=days>many</parameter></function>",
        "<function=forecast><parameter=unknown>1</parameter></function>",
        "<function=forecast><parameter=days>1</parameter><parameter=days>2</parameter></function>",
        "<function=forecast><parameter=days>1</parameter>",
        "<function=forecast>days: 1</function>",
        "<tool_call>forecast\n<arg_key>days</arg_key></tool_call>",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"location": "Rome"}<｜tool▁call▁end｜>',
        '<｜DSML｜function_calls><｜DSML｜invoke name="get_weather">',
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"location": "Ro',
        '```tool_code\nprint(get_weather(location="Rome"))\n```',
        '```tool_code\nget_weather("Rome")\n```',
        "```tool_code\nget_weather(location=place)\n```",
        "```tool_code\nget_weather(**{})\n```",
        "```tool_code\nimport os\nget_weather(location='Rome')\n```",
        "```tool_code\nget_weather(location='Rome')",
        "[get_weather(location='Rome'), 5]",
        "[get_weather(location={1, 2})]",
        "In Python you write >>>get_weather\n{}",
        f"functools[{CALL}, 1]",
    ],
)
def test_everything_else_stays_text(text: str) -> None:
    assert calls_in(text, TOOLS)[1] == []


@given(
    st.text()
    | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(
        json.dumps
    )
)
@bounded
def test_no_text_makes_it_fail(text: str) -> None:
    calls_in(text, TOOLS)
    calls_in(f"<tool_call>{text}</tool_call>", TOOLS)
    for form in FORMS:
        calls_in(f"{form.begins}{text}", TOOLS)


@each_row("filler", [" ", "\n", "<tool_call>", "[TOOL_CALLS]", "<function=a>", "[", "{", "(", "<|channel|>"])
def test_long_hostile_answers_cost_little(filler: str) -> None:
    begun = time.process_time()
    for form in FORMS:
        calls_in(form.begins + filler * (150_000 // len(filler)), TOOLS)
    assert time.process_time() - begun < 20  # of which it takes a hundredth


@each_row(
    "text, may",
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
        ("[get_wea", True),
        ("[get_weather(loc", True),
        ("[see here", False),
        (">>>get", True),
        ('{"a": 1', False),
        ("[1, 2", False),
        ("Hello", False),
        ("<b>", False),
    ],
)
def test_text_is_kept_back_only_while_it_may_become_a_call(text: str, may: bool) -> None:
    assert may_be_all_call(text) is may


async def test_a_written_call_is_a_call_and_its_text_is_not_shown() -> None:
    pieces = [{"content": piece} for piece in ("<tool", "_call>", CALL[:10], CALL[10:], "</tool_call>")]
    events: list[Event] = []
    answer = await local(PlayedProvider(chat_stream(*pieces))).respond(ASKED, events.append)
    [call] = answer.message.tool_calls
    assert (call.name, call.arguments, answer.stop) == ("get_weather", ROME, "tool_calls")
    assert call.id
    assert answer.message.text == ""
    assert events == []


async def test_words_before_a_written_call_are_shown_and_its_marks_are_not() -> None:
    pieces = [
        {"content": piece} for piece in ("I will", " look.<", "tool_c", "all>", CALL[:9], CALL[9:], "</tool_call>")
    ]
    events: list[Event] = []
    answer = await local(PlayedProvider(chat_stream(*pieces))).respond(ASKED, events.append)
    assert answer.stop == "tool_calls"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I will look."


@each_row("pieces", [('{"a', '": 1}', " is JSON."), ("Is a <", "b> or a <tool", "_call> ", "allowed?"), ("a [", "b")])
async def test_what_only_looks_like_a_call_is_shown_whole(pieces: tuple[str, ...]) -> None:
    events: list[Event] = []
    chunks = [{"content": piece} for piece in pieces]
    answer = await local(PlayedProvider(chat_stream(*chunks))).respond(ASKED, events.append)
    assert answer.message.text == "".join(pieces)
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


ODD = [
    "{" + CALL + "}",
    'get_weather({"location": "Rome"})',
    'get_weather( {"location": "Rome"} );',
    '```\nget_weather({"location": "Rome"})\n```',
    f"```json\n{CALL},\n\n```",
]


@each_row("text", ODD)
def test_a_call_in_an_odd_form_is_run(text: str) -> None:
    assert calls_in(text, TOOLS) == ("", [("get_weather", ROME)])


def test_several_objects_in_one_fence_are_several_calls() -> None:
    pretty = json.dumps({"name": "get_weather", "arguments": ROME}, indent=2)
    assert calls_in(f"```json\n{pretty}\n{pretty}\n```", TOOLS) == ("", [("get_weather", ROME)] * 2)
    assert calls_in(f"{pretty}\n\n{pretty}", TOOLS) == ("", [("get_weather", ROME)] * 2)
    two = 'get_weather({"location": "Rome"})\nget_weather({"location": "Rome"})'
    assert calls_in(two, TOOLS) == ("", [("get_weather", ROME)] * 2)


@each_row(
    "text",
    [
        'get_weather({"location": "Ro',
        'print({"location": "Rome"})',
        'get_weather({"location": "Rome"}) shows the weather',
        "get_weather(location)",
        "{{name}}",
        '{{"name": "nobody", "arguments": {}}}',
    ],
)
def test_what_only_looks_like_an_odd_form_stays_text(text: str) -> None:
    assert calls_in(text, TOOLS)[1] == []


async def test_a_call_in_an_odd_form_is_not_shown() -> None:
    pieces = [{"content": piece} for piece in ("get_", "weather", '({"location"', ': "Rome"})')]
    events: list[Event] = []
    answer = await local(PlayedProvider(chat_stream(*pieces))).respond(ASKED, events.append)
    assert [call.arguments for call in answer.message.tool_calls] == [ROME]
    assert events == []
