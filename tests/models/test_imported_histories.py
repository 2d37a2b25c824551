"""Histories in the shapes of OpenAI's and Anthropic's APIs: what is read of them, and what is refused by its place."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall

from mcpagent.errors import InputError
from mcpagent.history.conversation import closed
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.imported_histories import read_history
from mcpagent.values.messages import (
    Image,
    Message,
    Origin,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    dump_messages,
    user_message,
)
from tests.models.test_http_model_recordings import RECORDINGS, recorded
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.scene import PNG

URL = f"data:image/png;base64,{PNG}"
PICTURE = Image("image/png", PNG)
MODELS: dict[str, HttpModel] = {
    "anthropic": AnthropicModel("claude-opus-5"),
    "openai": OpenAIResponsesModel("gpt-5.4"),
    "openai-chat": OpenAIChatModel("m"),
}
ALL = each_row("name", list(MODELS))


def chat_call(call_id: str, arguments: str, name: str = "get_weather") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(call_id: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "get_weather", "input": arguments}


def called(call_id: str, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": arguments, **more}


ROME = ToolCall("c1", "get_weather", {"place": "Rome"})
RAIN = ToolResult("c1", "get_weather", (Text("rain"),))


def test_chat_completions() -> None:
    history = read_history(
        [
            {"role": "system", "content": "You help."},
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {
                "role": "user",
                "name": "ann",
                "content": [
                    {"type": "text", "text": "Weather here?"},
                    {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [chat_call("c1", '{"place": "Rome"}'), chat_call("c2", '{"place": "Par')],
            },
            {"role": "tool", "tool_call_id": "c2", "name": "get_weather", "content": "not JSON"},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rain"}]},
            {"role": "assistant", "content": "It rains.", "refusal": None, "tool_calls": None, "audio": None},
            {"role": "user", "content": "Thanks."},
            {"role": "assistant", "content": "", "refusal": "I cannot say more."},
        ]
    )
    broken = ToolCall("c2", "get_weather", {}, malformed='{"place": "Par')
    refused = ToolResult("c2", "get_weather", (Text("not JSON"),))
    assert history.system == "You help.\n\nBe brief."
    assert history.messages == [
        Message("user", (Text("Weather here?"), PICTURE)),
        Message("assistant", (ROME, broken)),
        Message("tool", (refused, RAIN)),
        Message("assistant", (Text("It rains."),)),
        user_message("Thanks."),
        Message("assistant", (Text("I cannot say more."),)),
    ]


def test_anthropic_messages() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}
    hidden = {"type": "redacted_thinking", "data": "EmwK"}
    searched = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
    history = read_history(
        [
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": [
                    thought,
                    hidden,
                    searched,
                    {"type": "text", "text": "I look.", "citations": [{"cited_text": "x"}], "cache_control": {}},
                    {**use("c1", place="Rome"), "caller": {"type": "direct"}},
                    use("c2"),
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": [
                            {"type": "text", "text": "rain"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        ],
                    },
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no place", "is_error": True},
                ],
            },
        ]
    )
    assert history.messages == [
        user_message("Weather?"),
        Message(
            "assistant",
            (
                Thinking("Hm.", thought),
                Thinking("", hidden),
                ProviderBlock(searched),
                Text("I look.", {"citations": [{"cited_text": "x"}]}),
                ToolCall("c1", "get_weather", {"place": "Rome"}, provider_data={"caller": {"type": "direct"}}),
                ToolCall("c2", "get_weather", {}),
            ),
            origin=Origin("anthropic", "messages"),
        ),
        Message(
            "tool",
            (
                ToolResult("c1", "get_weather", (Text("rain"), PICTURE)),
                ToolResult("c2", "get_weather", (Text("no place"),), error="failed"),
            ),
        ),
        user_message("And?"),
    ]
    body = MODELS["anthropic"].request_body(ModelRequest("", tuple(history.messages)))
    assert body["messages"][1]["content"][:3] == [thought, hidden, searched]


def test_a_thought_without_a_signature_is_kept_and_does_not_go_back() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    messages = [user_message("x"), {"role": "assistant", "content": [thought, {"type": "text", "text": "Hello."}]}]
    history = read_history(messages)
    assert history.messages[1].parts[0] == Thinking("Hm.")
    body = MODELS["anthropic"].request_body(ModelRequest("", tuple(history.messages)))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hello."}]


def test_items_of_the_responses_api() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    said = {"type": "output_text", "text": "I look.", "annotations": []}
    history = read_history(
        [
            {"role": "developer", "content": "You help."},
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Weather?"}, {"type": "input_image", "image_url": URL}],
            },
            thought,
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]},
            called("c1", '{"place": "Rome"}', id="fc_1", status="completed"),
            called("c2", "nonsense"),
            {"type": "function_call_output", "call_id": "c1", "output": "rain"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_image", "image_url": URL}]},
            {"role": "assistant", "content": "It rains."},
        ]
    )
    assert history.system == "You help."
    question, answer, results, last = history.messages
    assert question == Message("user", (Text("Weather?"), PICTURE))
    assert (answer.role, answer.origin, answer.text) == ("assistant", Origin("openai", "responses"), "I look.")
    assert answer.parts[0] == Thinking("", thought)
    assert [(call.arguments, call.malformed) for call in answer.tool_calls] == [
        ({"place": "Rome"}, ""),
        ({}, "nonsense"),
    ]
    assert results == Message("tool", (RAIN, ToolResult("c2", "get_weather", (PICTURE,))))
    assert last == Message("assistant", (Text("It rains."),))
    body = MODELS["openai"].request_body(ModelRequest("", (question, answer)))
    assert body["input"][1]["id"] == "rs_1"
    assert body["input"][2]["id"] == "msg_1"
    assert body["input"][3]["id"] == "fc_1"


def test_reasoning_that_openai_kept_to_itself_is_left_out_with_the_ids_that_refer_to_it() -> None:
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        said,
        called("c1", id="fc_1"),
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        called("c2", id="fc_2"),
    ]
    history = read_history(items)
    body = MODELS["openai"].request_body(ModelRequest("", tuple(history.messages)))
    assert "rs_1" not in json.dumps(body)
    assert "fc_1" not in json.dumps(body)
    assert "msg_1" not in json.dumps(body)
    assert body["input"][-1]["id"] == "fc_2"


def test_shapes_mix_and_what_sdks_returned_may_stand_as_it_is() -> None:
    own = dump_messages([user_message("One?"), Message("assistant", (ToolCall("o1", "add", {}),))])
    history = read_history(
        [
            *own,
            {"role": "tool", "tool_call_id": "o1", "content": "1"},
            ChatCompletionMessage.model_validate(
                {"role": "assistant", "content": "", "tool_calls": [chat_call("c1", '{"place": "Rome"}')]}
            ),
            Message("tool", (RAIN,)),
            {
                "role": "assistant",
                "content": [
                    TextBlock(type="text", text="I look.", citations=None),
                    ToolUseBlock.model_validate({"type": "tool_use", "id": "a1", "name": "add", "input": {"n": 1}}),
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a1"}]},
            ResponseFunctionToolCall(type="function_call", call_id="r1", name="add", arguments='{"n": 2}'),
            {"type": "function_call_output", "call_id": "r1", "output": "2"},
            user_message("Two?"),
        ]
    )
    assert [message.role for message in history.messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "tool", "user")
    ]
    calls = [call for message in history.messages for call in message.tool_calls]
    results = [result for message in history.messages for result in message.tool_results]
    assert [(call.id, call.arguments) for call in calls] == [
        ("o1", {}),
        ("c1", ROME.arguments),
        ("a1", {"n": 1}),
        ("r1", {"n": 2}),
    ]
    assert [(result.call_id, result.name, result.text) for result in results] == [
        *(("o1", "add", "1"), ("c1", "get_weather", "rain"), ("a1", "add", ""), ("r1", "add", "2"))
    ]
    assert closed(history.messages) == history.messages


def test_calls_that_servers_number_alike_stay_apart() -> None:
    turn = [
        {"role": "assistant", "content": "", "tool_calls": [chat_call("call_0", "{}"), chat_call("call_0", "{}")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "a"},
        {"role": "tool", "tool_call_id": "call_0", "content": "b"},
    ]
    history = read_history([{"role": "user", "content": "x"}, *turn, *turn])
    results = [result for message in history.messages for result in message.tool_results]
    assert len({result.call_id for result in results}) == 4
    assert closed(history.messages) == history.messages


def test_an_answer_in_items_goes_on_with_words_after_its_call() -> None:
    history = read_history([called("c1"), {"role": "assistant", "content": "I called."}, called("c2")])
    [message] = history.messages
    assert [call.id for call in message.tool_calls] == ["c1", "c2"]
    apart = read_history([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert [message.text for message in apart.messages] == ["a", "b"]


SEEN = {"type": "image_url", "image_url": URL}
ANSWERED = {"type": "tool_result", "tool_use_id": "c1"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [chat_call("c1", "{}")]}


@each_row(
    "messages, error",
    [
        ([], "messages: the history is empty"),
        ("hello", "messages: expected a list of messages, got str"),
        ({"role": "user"}, "messages: expected a list of messages, got dict"),
        (["hello"], "messages[0]: expected an object with role and content, got str"),
        ([{}], "messages[0]: expected an object with role and content, got dict"),
        ([{"role": "human", "content": "x"}], "messages[0].role: expected system, developer, user, assistant or tool"),
        ([{"role": "user", "content": None}], "messages[0].content: expected text or a list of parts, got nothing"),
        ([{"role": "user", "content": 5}], "messages[0].content: expected text or a list of parts, got int"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]: expected an object with a type, got str"),
        (
            [user_message("x"), {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "input_audio"}]}],
            'messages[1].content[1]: content of type "input_audio", which is not known here or not whole',
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], 'messages[0].content[0]: content of type "text", which'),
        ([{"role": "user", "content": [use("c1")]}], 'messages[0].content[0]: content of type "tool_use", which'),
        (
            [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1"}]}],
            'messages[0].content[0]: content of type "tool_use", which is not known here or not whole',
        ),
        (
            [
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": URL}],
                }
            ],
            "messages[0].content[1]: an image; only a user's message or a result can hold one",
        ),
        (
            [{"role": "system", "content": [SEEN]}],
            "messages[0].content[0]: an image; only",
        ),
        (
            [{"role": "user", "content": [{"type": "image", "source": {"type": "blob"}}]}],
            "messages[0].content[0].source: expected base64, file, url or text, with its fields; got str",
        ),
        (
            [{"role": "user", "content": [{"type": "input_file", "filename": "a.pdf"}]}],
            "messages[0].content[0]: a file without data; pass file_data or file_id",
        ),
        (
            [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png,abc"}]}],
            "messages[0].content[0]: not a base64 data: URL; pass the file's own bytes",
        ),
        ([{"role": "tool", "content": "x"}], "messages[0]: a result of a call without an id, which does not wait"),
        (
            [CALLED, {"role": "tool", "tool_call_id": "c2", "content": "x"}],
            'messages[1]: a result of call "c2", which does not wait for one; put it directly after its call',
        ),
        (
            [CALLED, *({"role": "tool", "tool_call_id": "c1", "content": "x"} for _ in range(2))],
            'messages[2]: a result of call "c1", which',
        ),
        (
            [CALLED, user_message("x"), {"type": "function_call_output", "call_id": "c1", "output": "x"}],
            'messages[2]: a result of call "c1", which',
        ),
        (
            [
                *(user_message("x"), user_message("y"), CALLED),
                {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": 5}]},
            ],
            "messages[3].content[1]: a result of a call without an id, which",
        ),
        (
            [
                CALLED,
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "document"}]}],
                },
            ],
            'messages[1].content[0].content[0]: content of type "document", which',
        ),
        (
            [CALLED, {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_file"}]}],
            "messages[1].output[0]: a file without data; pass file_data or file_id",
        ),
        ([{"type": "item_reference", "id": "x"}], 'messages[0]: an item of type "item_reference", which is not known'),
        ([{"role": "developer", "type": "additional_tools", "tools": []}], 'messages[0]: an item of type "additional_'),
        ([{"type": "function_call", "call_id": "c"}], 'messages[0]: an item of type "function_call", which is not'),
        ([{**CALLED, "tool_calls": {}}], None),
        ([{**CALLED, "tool_calls": {"a": 1}}], "messages[0].tool_calls: expected a list of calls, got dict"),
        ([{**CALLED, "tool_calls": [{"type": "custom"}]}], "messages[0].tool_calls[0]: expected a function's call"),
        ([{"role": "assistant", "function_call": {"name": "x"}}], "messages[0].function_call: cannot be read"),
        ([{"role": "assistant", "audio": {"id": "x"}}], "messages[0].audio: cannot be read"),
        (
            [{"role": "assistant", "tool_calls": [chat_call("c", {1, 2})]}],  # type: ignore[arg-type]
            "messages[0].tool_calls[0].function.arguments: expected JSON, as text or as an object, got set",
        ),
        ([{"role": "user", "parts": [{"type": "hologram"}]}], "messages[0].parts[0].type: expected one of"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_place(messages: Any, error: str | None) -> None:
    if error is None:
        messages = [*messages, user_message("x")]
        assert read_history(messages).messages == [user_message("x")]
        return
    with pytest.raises(InputError) as caught:
        read_history(messages)
    assert str(caught.value).startswith(error)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the repository (../shared/data/cassettes)")
def test_recorded_requests_are_read_with_all_their_calls_and_results() -> None:
    read = 0
    for name, _, exchanges in recorded():
        for exchange in exchanges:
            body = exchange["request"]["parsed_body"]
            wire = body.get("input") or body["messages"]
            if isinstance(wire, str) or any(kind in json.dumps(body) for kind in PLUMBING):
                continue
            history = read_history(wire)
            read += 1
            ids = {part.id for message in history.messages for part in message.tool_calls}
            answered = {part.call_id for message in history.messages for part in message.tool_results}
            assert all(f'"{call_id}"' in json.dumps(wire) for call_id in ids | answered), name
            assert len(ids) == json.dumps(wire).count('"type": "tool_use"') + len(called_in(wire)), name
            assert answered <= ids, name
    assert read > 40


PLUMBING = ('"tool_addition"', '"tool_removal"', '"tool_reference"', '"additional_tools"')
"""Tools that a history brings along, which are not said in it."""


def called_in(wire: Sequence[dict[str, Any]]) -> list[Any]:
    chat = [call for message in wire for call in message.get("tool_calls") or ()]
    return [*chat, *(item for item in wire if item.get("type") == "function_call")]


# -- round trips -------------------------------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
texts = st.builds(Text, words)
images = st.just(PICTURE)
arguments = st.dictionaries(words, st.none() | st.booleans() | st.integers() | words, max_size=2)


@st.composite
def conversations(draw: st.DrawFn, provider: str) -> list[Message]:
    """Questions, answers with calls in parallel, and their results; images where the provider has a place for them."""
    messages: list[Message] = []
    contents = st.lists(texts if provider == "openai-chat" else texts | images, min_size=1, max_size=2)
    for turn in range(draw(st.integers(1, 3))):
        messages.append(Message("user", tuple(draw(st.lists(texts | images, min_size=1, max_size=3)))))
        calls = [ToolCall(f"call_{turn}_{n}", f"tool_{n}", draw(arguments)) for n in range(draw(st.integers(0, 3)))]
        said = draw(st.lists(texts, max_size=1)) if calls else draw(st.lists(texts, min_size=1, max_size=2))
        messages.append(Message("assistant", (*said, *calls)))
        failed = st.booleans() if provider == "anthropic" else st.just(False)
        results = [
            ToolResult(call.id, call.name, tuple(draw(contents)), "failed" if draw(failed) else None) for call in calls
        ]
        messages += [Message("tool", tuple(draw(st.permutations(results))))] if results else []
    return messages


def said_in(messages: Sequence[Message]) -> list[Any]:
    """What a history says, by runs of one role: words, images, calls and results."""
    runs: list[Any] = []
    for role, run in groupby(messages, key=lambda message: message.role):
        parts = [part for message in run for part in message.parts]
        text = "".join(part.text for part in parts if isinstance(part, Text))
        calls = [(part.id, part.name, part.arguments, part.malformed) for part in parts if isinstance(part, ToolCall)]
        results = [
            (part.call_id, part.name, part.text, part.error, [piece for piece in part.content if piece == PICTURE])
            for part in parts
            if isinstance(part, ToolResult)
        ]
        runs.append((role, text, calls, results, [part for part in parts if isinstance(part, Image)]))
    return runs


def written(model: HttpModel, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages of a request as they go out, without the system prompt."""
    body = json.loads(json.dumps(model.request_body(ModelRequest("", tuple(messages)))))
    listed: list[dict[str, Any]] = body["input"] if "input" in body else body["messages"]
    return listed


@pytest.mark.slow
@ALL
@given(data=st.data())
@bounded
def test_what_our_writers_wrote_is_read_back_and_written_alike(name: str, data: st.DataObject) -> None:
    messages = data.draw(conversations(name))
    model = MODELS[name]
    wire = written(model, messages)
    read = read_history(wire)
    assert read.system == ""
    assert said_in(read.messages) == said_in(messages)
    assert written(model, read.messages) == wire
    assert any_order(closed(read.messages)) == any_order(read.messages)


def any_order(messages: Sequence[Message]) -> list[Message]:
    """With results, which may be written in any order, by their calls' ids."""
    return [
        replace(message, parts=tuple(sorted(message.parts, key=lambda part: getattr(part, "call_id", ""))))
        if message.role == "tool"
        else message
        for message in messages
    ]


@ALL
def test_the_system_prompt_is_read_apart(name: str) -> None:
    body = MODELS[name].request_body(ModelRequest("You help.", (user_message("x"),)))
    read = read_history(body.get("input") or body["messages"])
    assert (read.system, read.messages) == ("You help." if name == "openai-chat" else "", [user_message("x")])


def test_an_image_in_a_result_is_where_chat_completions_have_it() -> None:
    seen = ToolResult("c1", "get_weather", (Text("a map"), PICTURE))
    messages = (user_message("x"), Message("assistant", (ROME,)), Message("tool", (seen,)))
    read = read_history(written(MODELS["openai-chat"], messages))
    assert read.messages[2].tool_results[0].text.startswith("a map")
    assert read.messages[3] == Message("user", (Text("From the result of get_weather:"), PICTURE))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "c1", "text", "tool_result", "{}", URL]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "id", "name", "function", "arguments", "input", "source", "url"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
keys = [
    "role",
    "type",
    "content",
    "tool_calls",
    "tool_call_id",
    "call_id",
    "output",
    "name",
    "arguments",
    "parts",
    "id",
]
known = st.sampled_from(
    ["user", "assistant", "tool", "system", "message", "function_call", "function_call_output", "reasoning", "c1"]
)


@given(st.lists(st.dictionaries(st.sampled_from(keys), known | json_values, max_size=5) | json_values, max_size=4))
@bounded
def test_anything_is_a_history_or_an_input_error(messages: list[Any]) -> None:
    try:
        read: Any = read_history([user_message("x"), *messages]).messages
    except InputError as error:
        assert str(error).startswith("messages[")  # noqa: PT017
    else:
        assert isinstance(read, list)
        for model in MODELS.values():
            assert isinstance(model.request_body(ModelRequest("", tuple(closed(read)))), Mapping)
