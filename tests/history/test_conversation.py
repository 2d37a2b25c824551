"""Discovery as a fold, and histories that stay valid."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.history.conversation import Conversation, Discovery, closed, fold_discovery
from mcpagent.values.messages import (
    Message,
    Part,
    Text,
    ToolCall,
    ToolDefinition,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    dump_messages,
    load_messages,
    user_message,
)


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name, f"does {name}", {"type": "object"})


_names = st.sampled_from(["a", "b", "c", "d"])
_changes: st.SearchStrategy[Part] = st.one_of(
    st.builds(lambda names: ToolsShown(tuple(names)), st.lists(_names, max_size=3)),
    st.builds(
        lambda added, removed: ToolsChanged(tuple(tool(name) for name in added), tuple(removed)),
        st.lists(_names, max_size=3),
        st.lists(_names, max_size=2),
    ),
)


def test_discovery_is_in_order_and_forgets_what_was_removed() -> None:
    history = [
        Message("tool", (ToolsChanged((tool("b"), tool("a"))),)),
        Message("tool", (ToolsChanged(removed=("b",)), ToolsShown(("c",), (ToolKey(None, "c"),)))),
        Message("tool", (ToolsChanged((tool("a"), tool("b"))),)),
    ]
    assert fold_discovery(history[:1]).discovered == ("b", "a")
    keys = {name: ToolKey(None, name, name) for name in "bac"}
    assert fold_discovery(history[:2]) == Discovery(("a",), frozenset("abc"), frozenset("b"), keys=keys)
    assert fold_discovery(history) == Discovery(("a", "b"), frozenset("abc"), frozenset(), keys=keys)


@settings(max_examples=60)
@given(st.lists(_changes, max_size=12), st.integers(0, 12))
def test_folding_in_two_steps_is_folding_at_once(changes: list[Part], cut: int) -> None:
    messages = [Message("tool", (part,)) for part in changes]
    assert fold_discovery(messages[cut:], fold_discovery(messages[:cut])) == fold_discovery(messages)


def test_a_running_batchs_changes_count_at_once_and_only_once() -> None:
    conversation = Conversation()
    change = ToolsChanged((tool("a"),))
    conversation.note((change,))
    assert conversation.discovery.discovered == ("a",)
    conversation.append(Message("tool", (ToolResult("1", "add_tool", (Text("ok"),)), change)))
    assert conversation.discovery.discovered == ("a",)
    assert fold_discovery(conversation.messages) == conversation.discovery


def test_open_calls_are_answered_in_order_before_the_next_prompt() -> None:
    calls = (ToolCall("1", "x", {}), ToolCall("2", "y", {}))
    conversation = Conversation(messages=[user_message("go"), Message("assistant", calls)])
    conversation.say("and now?")
    results = conversation.messages[2].tool_results
    assert [(result.call_id, result.error) for result in results] == [("1", "cancelled"), ("2", "cancelled")]
    assert conversation.messages[3].text == "and now?"


_calls = st.lists(st.integers(0, 3), max_size=4, unique=True).map(
    lambda ids: Message("assistant", tuple(ToolCall(str(item), "t", {}) for item in ids) or (Text("done"),))
)
_results = st.lists(st.integers(0, 3), max_size=4).map(
    lambda ids: Message("tool", tuple(ToolResult(str(item), "t", (Text("r"),)) for item in ids))
)
_histories = st.lists(st.one_of(_calls, _results, st.just(user_message("hello"))), max_size=8)


@settings(max_examples=80)
@given(_histories)
def test_any_history_becomes_valid_and_stays_as_it_is(history: list[Message]) -> None:
    fixed = closed(history)
    assert closed(fixed) == fixed
    open_calls: set[str] = set()
    for message in fixed:
        if message.role == "tool":
            for result in message.tool_results:
                assert result.call_id in open_calls
                open_calls.remove(result.call_id)
        else:
            assert not open_calls
            open_calls = {call.id for call in message.tool_calls}
    assert not open_calls
    assert_in_call_order(fixed)


def assert_in_call_order(messages: Sequence[Message]) -> None:
    """Each message of calls is followed by one with a result for each, in the order of the calls."""
    for place, message in enumerate(messages):
        if message.tool_calls:
            following = messages[place + 1]
            assert [result.call_id for result in following.tool_results] == [call.id for call in message.tool_calls]
            assert all(later.role != "tool" for later in messages[place + 2 : place + 3])


@settings(max_examples=60)
@given(st.permutations(range(5)), st.lists(st.integers(0, 5), max_size=3), st.integers(0, 5))
def test_results_are_in_call_order_however_they_come(order: list[int], cuts: list[int], answered: int) -> None:
    """Results, each with what it changed, come in batches of any size and order; the last ones never come."""
    calls = tuple(ToolCall(str(number), "t", {}) for number in range(5))
    conversation = Conversation(messages=[user_message("go"), Message("assistant", calls)])
    before = conversation.messages
    parts = {number: (result(number), ToolsChanged((tool(f"found{number}"),))) for number in order[:answered]}
    edges = sorted({0, *(min(cut, answered) for cut in cuts), answered})
    for start, end in pairwise(edges):
        batch = [part for number in order[start:end] for part in parts[number]]
        conversation.append(Message("tool", tuple(batch)))
    assert fold_discovery(conversation.messages) == conversation.discovery
    conversation.say("next")
    assert_in_call_order(conversation.messages)
    assert [error.call_id for error in conversation.messages[2].tool_results if error.error] == sorted(
        str(number) for number in order[answered:]
    )
    assert conversation.discovery.discovered == tuple(f"found{number}" for number in sorted(order[:answered]))
    assert len(before) == 2
    assert [message.role for message in before] == ["user", "assistant"]


def result(number: int) -> ToolResult:
    return ToolResult(str(number), "t", (Text("r"),))


@settings(max_examples=40)
@given(_histories)
def test_a_history_survives_json(history: list[Message]) -> None:
    import json

    assert load_messages(json.loads(json.dumps(dump_messages(history)))) == history


@settings(max_examples=50)
@given(st.lists(st.one_of(_changes, st.just(Text("news"))), max_size=8), st.integers(0, 8), _changes)
def test_the_first_messages_are_a_conversation_as_if_nothing_had_followed(
    parts: list[Part], length: int, later: Part
) -> None:
    whole = Conversation(messages=[Message("user", (part,)) for part in parts])
    first, alone = whole.first(length), Conversation(messages=whole.messages[:length])
    for conversation in (first, alone):
        conversation.append(Message("user", (later,)))
    assert (first.messages, first.discovery) == (alone.messages, alone.discovery)
    assert (len(whole), whole.discovery) == (len(parts), fold_discovery(whole.messages))


def test_all_messages_come_with_what_waits_to_be_told() -> None:
    whole = Conversation(messages=[user_message("go"), Message("assistant", (Text("done"),))])
    whole.announce("A tool is new.", ToolsChanged((tool("a"),)))
    copy = whole.first()
    copy.say("and now?")
    assert copy.discovery.discovered == ("a",)
    assert [message.text for message in copy.messages[2:]] == ["A tool is new.", "and now?"]
    assert len(whole) == 2
