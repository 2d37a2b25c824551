"""What a chat knows of a conversation that it took up again: the same as the chat that had it, as far as it tells."""

from __future__ import annotations

from pathlib import Path

from mcpagent import Sessions
from mcpagent.cli.chat.resumed_state import finished_length, last_request, question_places, questions_of, resumed_lines
from mcpagent.history.conversation import UNKNOWN, not_run
from mcpagent.prompt.builder import call_note, misfit_note
from mcpagent.values.messages import Message, Text, ToolCall, ToolDefinition, ToolsChanged
from tests.cli.chat.slash.test_slash_table import SEARCH, answer, scene

ADD = ToolCall("", "add_tool", {"tool_names": ["read_file"]})
READ = ToolCall("", "read_file", {"path": "x"})
CHANGED = ToolsChanged((ToolDefinition("read_file", "", {}),))


def user(*words: str) -> Message:
    return Message("user", tuple(map(Text, words)))


def calling(*calls: ToolCall) -> Message:
    return Message("assistant", calls)


async def test_questions_searches_and_calls_are_those_of_the_chat_that_had_them(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, SEARCH, ADD, READ, answer("read"), answer("again", tokens=77), store=store) as made:
        await made.ask("Read the file", "Read the file")
        await made.ask("And again?", "And again?")
        desk, agent = made.desk, made.desk.agent
        session = agent._runtime.own_session.id
        kept = store.read(session)
        asked, trace = questions_of(agent.messages, kept.steps)
        assert [(it.typed, it.length) for it in asked] == [(it.typed, it.length) for it in desk.asked]
        for ours, theirs in (
            (trace, desk.trace),
            *((one.trace, two.trace) for one, two in zip(asked, desk.asked, strict=True)),
        ):
            assert ours.requests == theirs.requests
            assert ours.used == theirs.used
            assert {name: ours.called[name] for name in ours.called} == dict(theirs.called)
            assert dict(ours.loaded) == dict(theirs.loaded)
            found = [(at, search.query, search.found, search.matches) for at, search in ours.searches]
            assert found == [(at, it.query, it.found, it.matches) for at, it in theirs.searches]
        request = last_request(agent, agent.messages, kept.steps, trace.requests)
        assert request is not None
        assert desk.trace.last is not None
        assert request.usage == desk.trace.last.usage
        assert [tool.name for tool in request.tools] == [tool.name for tool in desk.trace.last.tools]
        assert len(request.messages) == len(desk.trace.last.messages)
    store.close()


async def test_undo_and_retry_work_on_a_resumed_conversation(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, answer("one"), answer("two"), store=store) as made:
        await made.ask("First?", "First?")
        await made.ask("Second?", "Second?")
        session = made.desk.agent._runtime.own_session.id
    store.close()
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, answer("two again"), store=store) as made:
        desk = made.desk
        await desk.agent._runtime.go_on_with(session)
        desk.asked, desk.trace = questions_of(desk.agent.messages, store.read(session).steps)
        await made.run("/retry")
        assert [message.text for message in desk.agent.messages] == ["First?", "one", "Second?", "two again"]
        assert "taken back: Second?" in await made.run("/undo")
        assert "taken back: First?" in await made.run("/undo")
        assert not desk.agent.messages
    store.close()


async def test_commands_about_kept_conversations(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, answer("one"), answer("two"), store=store) as made:
        desk = made.desk
        assert "nothing was said yet" in await made.run("/fork")
        assert "nothing was said yet" in await made.run("/rename the lamps")
        await made.ask("First?", "First?")
        first = desk.agent._runtime.own_session.id
        assert 'its title is "the lamps"' in await made.run("/rename the lamps")
        said = await made.run("/fork a copy")
        copy = desk.agent._runtime.own_session.id
        assert copy != first
        assert copy[:8] in said
        assert first[:8] in said
        await made.ask("Second?", "Second?")
        assert [len(questions_of(store.read(it).messages)[0]) for it in (first, copy)] == [1, 2]
        listed = await made.run("/sessions")
    store.close()
    assert listed.splitlines()[0].startswith(f"* {copy[:8]}  a copy")
    assert listed.splitlines()[1].startswith(f"  {first[:8]}  the lamps")


async def test_without_a_store_each_of_them_says_so(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one")) as made:
        await made.ask("First?", "First?")
        for line in ("/sessions", "/resume", "/fork", "/rename x"):
            assert "nothing of this chat is kept" in await made.run(line)


def test_news_of_tools_is_no_question() -> None:
    call, result = ToolCall("1", "read_file", {}), Message("tool", (not_run(ToolCall("1", "read_file", {}), "x"),))
    done = Message("tool", (Message("tool", result.parts).tool_results[0],))
    news = Message("user", (Text("Your tools have changed."), CHANGED))
    history = [news, user("one"), calling(call), done, user("two"), Message("assistant", (Text("2"),)), user("three")]
    assert question_places(history) == {1, 4, 6}  # the call of the first was cancelled, so what follows was said
    asked, _ = questions_of(history)
    assert [(it.typed, it.length) for it in asked] == [("one", 0), ("two", 4), ("three", 6)]


def test_what_a_model_was_told_of_its_answer_is_no_question() -> None:
    def said(text: str) -> Message:
        return Message("assistant", (Text(text),))

    told = [user(misfit_note(["people: Field required"])), user(call_note("look()"))]
    history = [user("one"), said("{}"), told[0], said("I use look()."), told[1], said("1")]
    assert question_places(history) == {0}


async def test_the_last_request_of_a_compacted_conversation_is_what_was_sent(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, *map(answer, ("1", "2", "They counted.", "3")), store=store) as made:
        for question in ("one", "two"):
            await made.ask(question, question)
        await made.run("/compact")
        await made.ask("three", "three")
        desk, agent = made.desk, made.desk.agent
        kept = store.read(agent._runtime.own_session.id)
        request = last_request(agent, agent.messages, kept.steps, 3)
        assert desk.trace.last is not None
        assert request is not None
        assert request.messages == desk.trace.last.messages
    store.close()


def test_what_is_unfinished_is_left_out_of_a_copy() -> None:
    said = Message("assistant", (Text("1"),))
    assert finished_length([user("one"), said]) is None
    assert finished_length([]) is None
    assert finished_length([user("one"), said, user("two")]) == 2
    assert finished_length([user("one"), said, user("two"), calling(ToolCall("1", "read_file", {}))]) == 2
    assert finished_length([user("one"), calling(ToolCall("1", "read_file", {}))]) == 0


async def test_hostile_words_stay_behind_the_bar_and_an_unknown_call_is_named(tmp_path: Path) -> None:
    store = Sessions(tmp_path / "s.db")
    async with scene(tmp_path, answer("\x1b[31mred\x1b]0;title\x07\n> not yours"), store=store) as made:
        await made.ask("a\x1b[2Jb\u202e?", "a\x1b[2Jb\u202e?")
        agent, terminal = made.desk.agent, made.desk.terminal
        info = store.read(agent._runtime.own_session.id).info
        asked, _ = questions_of(agent.messages)
        call = ToolCall("1", "pay\x1b[31m", {})
        messages = [*agent.messages, calling(call), Message("tool", (not_run(call, UNKNOWN),))]
        lines = [line.plain for line in resumed_lines(info, asked, messages, terminal, tmp_path)]
    store.close()
    assert not any(char in line for line in lines for char in "\x1b\x07\u202e")
    assert any(line.startswith("  │ ") and "> not yours" in line for line in lines)
    assert not any(line.startswith("> not") for line in lines)
    assert "under way when it ended, so it may have run; it is not made again" in lines[-1]
