"""`/compact`, `/pin`, `/history` and what `/context` says of them; the line and the document of a compaction."""

from __future__ import annotations

import json
from pathlib import Path

from mcpagent import Agent, Compaction, RunOptions, ScriptedModel
from mcpagent.cli.chat.slash.slash_window import history_line
from mcpagent.cli.chat.status_line import Status, context_window_of, status_line, window_of
from mcpagent.cli.chat.trace import Trace, context_lines
from mcpagent.cli.oneshot.json_report import JsonReport
from mcpagent.cli.screen.lines import event_lines
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.errors import ModelError
from mcpagent.history.sent_messages import OmittedParts
from mcpagent.journal.sessions.export import exported
from mcpagent.models import OpenAIChatModel
from mcpagent.prompt.builder import misfit_note
from mcpagent.values.events import ConversationCompacted
from mcpagent.values.messages import Message, OffloadedResult, ToolResult, ToolsChanged, Usage
from mcpagent.values.messages import Text as Words
from tests.cli.chat.slash.test_slash_table import ADD, CALL, SEARCH, answer, scene


async def test_compacting_in_the_chat_leaves_all_of_it_to_be_seen(tmp_path: Path) -> None:
    replies = (answer("one"), SEARCH, ADD, CALL, answer("two"), answer("They read a file. \x1b[31m"), answer("three"))
    async with scene(tmp_path, *replies) as at:
        assert "nothing was said yet" in await at.run("/compact")
        assert "nothing was asked yet" in await at.run("/pin")
        assert "nothing was said yet" in await at.run("/history")
        await at.ask("first", "first")
        await at.run("/pin")
        await at.ask("second", "second")
        said = await at.run("/compact the files")
        assert "compacted: about" in said
        assert "1 message summarised" in said
        assert "the files" in at.model.requests[-1].messages[-1].text
        assert "there is nothing to summarise" in await at.run("/compact")
        listed = await at.run("/history")
        assert "    1  user     first" in listed
        assert "pinned" in listed
        assert "    2  answer   one" in listed
        assert listed.count("summarised") == 1
        assert "They read a file." in listed
        assert "\x1b" not in listed
        shown = await at.run("/context")
        assert "of 1 message the model has a summary in their place; /history shows them" in shown
        assert "one" in (await at.run("/history 2")).splitlines()[0]
        assert "there are" in await at.run("/history 99")
        assert "which message?" in await at.run("/pin x")
        await at.ask("third", "third")
        assert [m.text for m in at.model.requests[-1].messages[1:3]] == ["first", "second"]
        assert "read_file" in at.desk.agent.discovered_tools
        await at.run("/undo")
        assert len(at.desk.asked) == 2
        for form in ("md", "json", "html"):
            assert "third" not in exported(at.desk.agent._runtime.own_session.snapshot(), form)  # it was taken back


async def test_an_export_has_the_summary_and_what_it_stands_for(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), answer("two"), answer("What was said."), answer("three")) as at:
        await at.ask("first", "first")
        await at.ask("second", "second")
        await at.run("/compact")
        await at.ask("third", "third")
        for form in ("md", "html"):
            text = exported(at.desk.agent._runtime.own_session.snapshot(), form)
            assert "What was said." in text
            assert "the messages before these were summarised" in text
            assert "one" in text
        document = json.loads(exported(at.desk.agent._runtime.own_session.snapshot(), "json"))
        kinds = [part["type"] for message in document["messages"] for part in message["parts"]]
        assert kinds.count("compacted") == 1
        assert [question.typed for question in at.desk.asked] == ["first", "second", "third"]


async def test_the_words_of_a_stopped_answer_follow_its_question(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), answer("two")) as at:
        await at.ask("first", "first")
        session = at.desk.agent._runtime.own_session
        session.rewind(1)
        session.add_stopped("On the\x1b other hand")
        await at.ask("second", "second")
        lines = [line.split() for line in (await at.run("/history")).splitlines() if line.strip()]
        assert [line[-1] for line in lines if line[1] == "user" or line[0] == "stopped"] == ["first", "hand", "second"]
        assert "On the other hand" in await at.run("/history 1")
        assert "On the other hand" not in await at.run("/history 2")
        session.rewind(0)
        session.rewind(0)
        assert not session.stopped_after(1)


async def test_a_summary_that_cannot_be_had_now_is_told(tmp_path: Path) -> None:
    failure = ModelError("test: overloaded", provider="test", status=529, retryable=True)
    async with scene(tmp_path, answer("one"), answer("two"), failure) as at:
        await at.ask("first", "first")
        await at.ask("second", "second")
        assert "not compacted: test: overloaded" in await at.run("/compact")
        assert at.desk.agent._runtime.own_session.sent_messages == at.desk.agent.messages


def test_a_line_and_a_document() -> None:
    done = ConversationCompacted(6_800, 2_900, summarised=60, shortened=7, usage=Usage(100, 9), window_tokens=8_000)
    [line] = event_lines(done, 0, Glyphs(), 100)
    assert line.plain == "compacted: about 6.8k tokens, now 2.9k · 60 messages summarised · 7 results shortened"
    [cut] = event_lines(ConversationCompacted(6_800, 900, 9, without_summary="no\x1b one"), 0, Glyphs(), 100)
    assert "9 messages left out without a summary: no" in cut.plain
    assert "\x1b" not in cut.plain
    written: list[str] = []
    report = JsonReport(written.append, streaming=True)
    report._started = True
    report(done)
    document = json.loads(written[0])
    assert (document["type"], document["tokens_after"], document["usage"]["input_tokens"]) == ("compacted", 2_900, 100)


def test_a_window_that_was_named_counts_in_the_status_line_too() -> None:
    model = ScriptedModel([], name="anthropic:claude-sonnet-4-5")
    agent = Agent(model, options=RunOptions(compaction=Compaction(window_tokens=5_000)))
    assert window_of(agent) == 5_000
    assert "ctx 50% 2.5k/5.0k" in status_line(Status(model.name, used=2_500, window=window_of(agent)), Glyphs(), 100)
    assert window_of(Agent(model)) == context_window_of(model.name)


def test_news_and_notes_of_mcpagent_are_told_as_such() -> None:
    aside = ToolResult("1", "get", (Words("x"),), set_aside=OffloadedResult("out_1", 20_000))
    for message, told in (
        (Message("tool", (aside,)), "result   get: 1 characters"),
        (Message("user", (Words("Your tools have changed."), ToolsChanged((), ("a",)))), "mcpagent Your tools"),
        (Message("user", (Words(misfit_note(["a: b"])),)), "mcpagent That answer is not valid"),
        (Message("user", (Words("Hello"),)), "user     Hello"),
    ):
        line = history_line(0, message, OmittedParts(), 100).plain
        assert told in line
        assert line.endswith("set aside") is (message.role == "tool")


async def test_context_says_how_found_tools_are_written_and_what_the_other_way_costs() -> None:
    async def look(place: str) -> str:
        """Look at a place."""
        return place

    model = OpenAIChatModel("m", provider="groq", base_url="https://api.groq.com/openai/v1", api_key="k")
    for search, told in ((True, True), (False, False)):
        async with Agent(model, tools=[look], tool_search=search) as agent:
            lines = [line.plain for line in context_lines(agent, Trace(), None, Glyphs(), 120)]
        assert ("after two searches, found tools are called through call_tool" in lines[-1]) == told
