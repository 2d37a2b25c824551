"""Whatever a provider sends comes back as it was sent: answers with unknown blocks and fields, nulls, odd orders."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from string import ascii_letters, digits
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpagent.errors import InputError
from mcpagent.models import AnthropicModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.http_model import HttpModel
from mcpagent.models.wire_values import legal_id
from mcpagent.values.messages import (
    Message,
    Origin,
    ProviderBlock,
    Text,
    Thinking,
    ToolResult,
    ToolsChanged,
    dump_messages,
    load_messages,
    user_message,
)
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.life import numbered
from tests.wire.scene import whole_request

MODELS: dict[str, HttpModel] = {
    "messages": AnthropicModel("claude-opus-5-5"),
    "responses": OpenAIResponsesModel("gpt-5.5"),
    "chat": OpenAIChatModel("m", provider="vllm", base_url="http://localhost:1/v1"),
}
HELLO = ModelRequest("", (user_message("hello"),))

words = st.text(st.characters(codec="utf-8"), max_size=8)
texts = words.filter(str.strip)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
others = st.dictionaries(words.map("x_".__add__), values, max_size=2)
names = st.text(ascii_letters + digits + "_-", min_size=1, max_size=12)
ids = st.text(ascii_letters + digits + "_.:|-", min_size=1, max_size=90)
objects = st.dictionaries(words, values, max_size=3)


def made(required: Mapping[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> Any:
    """Objects with these fields and unknown ones, in any order."""
    known = st.fixed_dictionaries(dict(required), optional=optional)
    both = st.tuples(known, others).map(lambda pair: {**pair[1], **pair[0]})
    return both.flatmap(lambda whole: st.permutations(list(whole.items())).map(dict))


def just(value: str) -> st.SearchStrategy[str]:
    return st.just(value)


def unlike(*types: str) -> st.SearchStrategy[str]:
    return (names | st.sampled_from(["server_tool_use", "compaction", "custom_tool_call"])).filter(
        lambda kind: kind not in types
    )


callers = st.none() | made({"type": just("direct")})
references = st.lists(made({"type": just("tool_reference"), "tool_name": names}) | values, max_size=3)
block = st.one_of(
    made({"type": just("text"), "text": texts}, citations=st.none() | st.lists(values, max_size=2)),
    made({"type": just("thinking"), "thinking": words, "signature": words}),
    made({"type": just("redacted_thinking"), "data": words}),
    made({"type": just("tool_use"), "id": ids, "name": names, "input": objects}, caller=callers),
    made({"type": just("server_tool_use"), "id": ids, "name": just("tool_search_tool_bm25"), "input": values}),
    made({"type": just("tool_search_tool_result"), "content": values | made({"tool_references": references})}),
    made({"type": unlike("text", "thinking", "redacted_thinking", "tool_use")}),
    made({"type": st.sampled_from(["text", "tool_use", "thinking"])}),  # known, but without what it should have
    objects.filter(bool),
)
piece = st.one_of(
    made({"type": just("output_text"), "text": words}, annotations=values, logprobs=values),
    made({"type": just("refusal"), "refusal": words}),
    made({"type": unlike("output_text", "refusal")}),
    made({"type": just("output_text"), "text": st.none() | st.integers()}),
    values,
)
item = st.one_of(
    made({"type": just("message"), "id": ids, "content": st.lists(piece, max_size=3)}, status=words),
    made({"type": just("message"), "content": st.none()}),
    made({"type": just("reasoning"), "id": ids, "summary": values}, encrypted_content=st.none() | words),
    made(
        {
            "type": just("function_call"),
            "call_id": ids,
            "name": names,
            "arguments": objects.map(json.dumps) | words | just(""),
        },
        id=ids,
        namespace=st.none() | names,
        status=just("completed"),
    ),
    made({"type": just("tool_search_output"), "tools": values | st.lists(made({"name": names, "tools": values}))}),
    made({"type": unlike("message", "reasoning", "function_call")}),
    objects.filter(bool),
)
function = made({"name": names, "arguments": objects.map(lambda value: json.dumps(value, indent=1))})
call = made({"id": ids, "type": just("function"), "function": function}, extra_content=objects, index=st.integers(0, 9))
mistral = made({"type": just("text"), "text": words}) | made({"type": just("thinking"), "thinking": values})


def called_once(kind: str, key: str) -> Any:
    """Drops a call with the id of one before it: an id stands for one call in every protocol."""

    def kept(blocks: Sequence[Any]) -> list[Any]:
        seen: set[str] = set()
        listed: list[Any] = []
        for place, one in enumerate(blocks):
            is_call = isinstance(one, dict) and one.get("type") == kind and isinstance(one.get(key), str)
            if not is_call or one[key] not in seen:
                listed.append(blocks[place])
            if is_call:
                seen.add(one[key])
        return listed

    return kept


def with_results(blocks: Sequence[Any]) -> list[Any]:
    """Each call of the server's with its result: one that has none is not taken back."""
    listed: list[Any] = []
    for one in blocks:
        listed.append(one)
        if isinstance(one, dict) and one.get("type") == "server_tool_use" and one.get("id"):
            listed.append({"type": "tool_search_tool_result", "tool_use_id": str(one["id"]), "content": None})
    return listed


def chat_answer(fields: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", **{key: value for key, value in fields.items() if key != "fields"}}
    return {"choices": [{"message": {**message, **fields["fields"]}, "finish_reason": "stop"}]}


ANSWERS: dict[str, Any] = {
    "messages": st.lists(block, max_size=5)
    .map(called_once("tool_use", "id"))
    .map(called_once("server_tool_use", "id"))
    .map(with_results)
    .map(lambda blocks: {"content": blocks, "stop_reason": "end_turn", "usage": {}}),
    "responses": st.lists(item, max_size=5)
    .map(called_once("function_call", "call_id"))
    .map(lambda items: {"output": items, "status": "completed", "usage": {}}),
    "chat": st.fixed_dictionaries(
        {"content": texts | st.lists(mistral, min_size=1, max_size=3), "fields": others},
        optional={
            "reasoning_content": texts,
            "reasoning_details": st.lists(objects, min_size=1, max_size=3),
            "tool_calls": st.lists(call, min_size=1, max_size=3).map(called_once("function", "id")),
            "refusal": st.none(),
            "annotations": st.just([]) | st.lists(objects, min_size=1, max_size=2),
        },
    ).map(chat_answer),
}


def sent_of(protocol: str, answer: dict[str, Any]) -> list[Any]:
    """What has to come back: not what an answer cannot end in. In a Chat message a null and an empty list say the same
    as nothing."""
    if protocol == "messages":
        return without_end(
            [*map(with_legal_id, answer["content"])],
            {"thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"},
        )
    if protocol == "responses":
        return without_end([*filter(may_return, answer["output"])], {"reasoning"})
    message = answer["choices"][0]["message"]
    return [{key: value for key, value in message.items() if value not in (None, "", [], {})}]


def may_return(item: dict[str, Any]) -> bool:
    """Whether a request may hold the item: of some kind, reasoning with its ID, a message with content."""
    match item.get("type"):
        case None:
            return "role" in item
        case "reasoning":
            return isinstance(item.get("id"), str)
        case "message":
            return bool(item.get("content"))
        case _:
            return True


def with_legal_id(block: dict[str, Any]) -> dict[str, Any]:
    """The block with an ID that Anthropic takes, which is its own if it is one."""
    if block.get("type") != "tool_use" or not block.get("id"):
        return block
    return {**block, "id": legal_id(str(block["id"]), longest=64)}


def is_known(block: dict[str, Any]) -> bool:
    """Whether the block has a kind, and a call a name: Anthropic takes no other back."""
    return isinstance(block.get("type"), str) and (block["type"] != "tool_use" or isinstance(block.get("name"), str))


def without_end(blocks: Sequence[Any], refused: Collection[str]) -> list[Any]:
    last = max((place for place, block in enumerate(blocks) if block.get("type") not in refused), default=-1)
    return list(blocks[: last + 1])


def replayed(model: HttpModel, protocol: str, message: Message) -> list[Any]:
    """The provider's items in the next request, after the history was saved and loaded."""
    results = tuple(ToolResult(call.id, call.name, (Text("ok"),)) for call in message.tool_calls)
    after = (Message("tool", results),) if results else ()
    saved = json.dumps(dump_messages([user_message("hello"), message, *after]))
    body = model.request_body(ModelRequest("", tuple(load_messages(json.loads(saved)))))
    if protocol == "responses":
        return [one for one in body["input"][1:] if one.get("type") != "function_call_output"]
    written = [turn for turn in body["messages"] if turn["role"] == "assistant"]
    return [one for turn in written for one in turn["content"]] if protocol == "messages" else written


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.slow
@each_row("protocol", list(MODELS))
@given(data=st.data())
@bounded
def test_any_answer_comes_back_as_it_was_sent_and_streams_to_the_same_history(
    protocol: str, data: st.DataObject
) -> None:
    answer, model = data.draw(ANSWERS[protocol]), MODELS[protocol]
    assume(protocol != "messages" or all(map(is_known, answer["content"])))
    message = model.read_answer(answer, HELLO).message
    assert canonical(replayed(model, protocol, message)) == canonical(sent_of(protocol, answer))
    for call in answer["choices"][0]["message"].get("tool_calls", ()) if protocol == "chat" else ():
        call.pop("index", None)  # in a stream it says where the call belongs
    reader = model.stream_reader()
    for event in STREAMS[protocol](answer):
        for one in (*data.draw(st.lists(strange, max_size=1)), event):
            reader.add(one)
    assert model.read_answer(reader.answer(), HELLO).message == model.read_answer(answer, HELLO).message


strange = made({"type": unlike("error").map("x_".__add__)}) | st.just({"type": "ping"})
"""Events that nobody knows; SDKs hand them on."""


def messages_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**answer, "content": []}}]
    for index, one in enumerate(answer["content"]):
        start, deltas = _streamed(one)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": answer["stop_reason"]}, "usage": None})
    return [*events, {"type": "message_stop"}]


def _streamed(one: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match one:
        case {"type": "text", "text": str(text)}:
            return {**one, "text": ""}, [{"type": "text_delta", "text": part} for part in (text[:1], text[1:])]
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)}:
            signed = {"type": "signature_delta", "signature": signature}
            return {**one, "thinking": "", "signature": ""}, [{"type": "thinking_delta", "thinking": text}, signed]
        case {"type": "tool_use" | "server_tool_use", "input": dict(given)}:
            text = json.dumps(given)
            parts = ("", text[:3], text[3:])
            return {**one, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case {"input": _}:
            return one, [{"type": "input_json_delta", "partial_json": ""}]
    return one, []


def responses_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"output": []}}]
    for index, one in enumerate(answer["output"]):
        events.append({"type": "response.output_item.added", "output_index": index, "item": one})
        events.append({"type": "response.output_item.done", "output_index": index, "item": one})
    return [*events, {"type": "response.completed", "response": {**answer, "output": []}}]


def chat_events(answer: dict[str, Any]) -> list[dict[str, Any]]:
    choice = answer["choices"][0]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for key, value in choice["message"].items():
        if key == "tool_calls":
            deltas += [{"tool_calls": [part]} for place, one in enumerate(value) for part in _call_deltas(one, place)]
        elif isinstance(value, str) and key != "role":
            deltas += [{key: value[:1]}, {key: value[1:]}]
        elif key != "role":
            deltas.append({key: value})
    chunks = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*chunks, {"choices": [{"delta": {}, "finish_reason": choice["finish_reason"]}]}, {"choices": []}]


def _call_deltas(one: dict[str, Any], place: int) -> list[dict[str, Any]]:
    arguments = one["function"]["arguments"]
    first = {**one, "index": place, "function": {**one["function"], "arguments": arguments[:2]}}
    return [first, {"index": place, "function": {"arguments": arguments[2:]}}]


STREAMS: dict[str, Any] = {"messages": messages_events, "responses": responses_events, "chat": chat_events}


def test_a_history_of_another_version_loads() -> None:
    """Fields that a later version added are passed over, those that an earlier one did not have are as they began."""
    change = ToolsChanged(added=(numbered(1),), removed=("a",), was=((0, numbered(2)),))
    history = [user_message("hello"), Message("tool", (change,))]
    saved = dump_messages(history)
    later = [
        {**message, "x_new": 1, "parts": [{**part, "x_new": [2]} for part in message["parts"]]} for message in saved
    ]
    assert load_messages(later) == history
    saved[1]["parts"][0].pop("was")
    [_, message] = load_messages(saved)
    assert message.parts == (replace(change, was=()),)


@each_row(
    "data, told",
    [
        (5, "messages: expected a list of messages, got int"),
        ([5], "messages[0]: expected an object with role and parts, got int"),
        ([{"role": "user", "parts": None}], "messages[0]: expected an object with role and parts, got dict"),
        ([{"role": "god", "parts": []}], "messages[0].role: Input should be 'user', 'assistant' or 'tool'"),
        ([{"role": "user", "parts": [7]}], "messages[0].parts[0]: expected an object, got int"),
        (
            [{"role": "user", "parts": [{"type": "hologram\n"}]}],
            "messages[0].parts[0].type: expected one of text, thinking, image, document, audio, image_url, "
            "file_id, tool_call, tool_result, tools_shown, "
            'tools_changed, provider_block, container, pinned, compacted, got "hologram"',
        ),
        ([{"role": "user", "parts": [{"type": "text"}]}], "messages[0].parts[0].text: Field required"),
        (
            [
                {
                    "role": "tool",
                    "parts": [{"type": "tool_result", "call_id": "c", "name": "n", "content": [{"type": "image"}]}],
                }
            ],
            "messages[0].parts[0].content[0].media_type: Field required",
        ),
        (
            [{"role": "tool", "parts": [{"type": "tools_changed", "added": [{"name": 5}]}]}],
            "messages[0].parts[0].added[0].name: Input should be a valid string",
        ),
    ],
)
def test_what_no_history_is_is_told_in_one_line(data: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        load_messages(data)
    assert str(caught.value) == f"{told}; pass what dump_messages() gave, unchanged"


WHOLE: list[Any] = dump_messages(
    [
        *whole_request().messages,
        Message("assistant", (Thinking("Hm.", {"a": [1]}), ProviderBlock({"b": 1})), Origin("p", model="m")),
        Message("tool", (ToolsChanged((numbered(1),), ("a",), ((0, numbered(2)),), ("b",)),)),
    ]
)


def with_another(document: Any, data: st.DataObject) -> Any:
    """The document with one place in it replaced by other JSON."""
    inside = list(document.items()) if isinstance(document, dict) else list(enumerate(document))
    if not inside or data.draw(st.integers(0, 3)) == 0:
        return data.draw(values)
    key, value = data.draw(st.sampled_from(inside))
    other = with_another(value, data) if isinstance(value, dict | list) else data.draw(values)
    return {**document, key: other} if isinstance(document, dict) else [*document[:key], other, *document[key + 1 :]]


@given(data=st.data())
@bounded
def test_any_json_is_a_history_or_told_in_one_line_to_be_none(data: st.DataObject) -> None:
    documents: tuple[Any, ...] = (data.draw(values), with_another(WHOLE, data))
    for document in documents:
        try:
            loaded = load_messages(document)
        except InputError as error:
            told, loaded = str(error), []
        else:
            told = ""
        assert told.isprintable()
        assert load_messages(dump_messages(loaded)) == loaded
