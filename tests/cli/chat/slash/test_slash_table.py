"""The chat's commands on a desk of their own: a scripted model, tools in this process, a screen of text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mcpagent import Agent, ToolSearch, load_messages
from mcpagent.cli.approvals.approver import Approver
from mcpagent.cli.chat.slash.chat_state import ChatQuestion, ChatState, Leave
from mcpagent.cli.chat.slash.slash_table import COMMANDS, run_command
from mcpagent.cli.chat.status_line import context_window_of
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Glyphs, Terminal
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import InputError, ModelError
from mcpagent.journal.sessions import SessionInfo, Sessions
from mcpagent.models import ScriptedModel
from mcpagent.models.base import ModelResponse
from mcpagent.permissions.decision import Rules
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.approval import Rule
from mcpagent.values.events import Event
from mcpagent.values.messages import Image, Message, Prompt, Text, ToolCall, Usage
from tests.scenes import CountedTools, offered

SECRET = "sk-live-0123456789abcdef"


def answer(text: str, *, tokens: int = 1_000) -> ModelResponse:
    return ModelResponse(Message("assistant", (Text(text),)), Usage(tokens, 10), "end")


class Scene:
    """A desk, what it has said, and the model behind it."""

    def __init__(self, desk: ChatState, model: ScriptedModel, screen: io.StringIO, files: CountedTools) -> None:
        self.desk, self.model, self._screen, self.files = desk, model, screen, files
        self.editor_saves = ""

    async def run(self, line: str) -> str:
        """What the command said."""
        self._screen.seek(0)
        self._screen.truncate()
        await run_command(self.desk, line)
        return self._screen.getvalue()

    async def ask(self, typed: str, prompt: Prompt) -> None:
        """A question as the chat asks it."""
        desk = self.desk
        asked = ChatQuestion(typed, prompt, len(desk.agent.messages), desk.trace)
        try:
            await desk.agent.ask(prompt)
        finally:
            desk.asked.append(asked)


@asynccontextmanager
async def scene(
    tmp_path: Path,
    *replies: object,
    width: int = 100,
    name: str = "scripted:test",
    store: Sessions | None = None,
) -> AsyncIterator[Scene]:
    model = ScriptedModel(list(replies), name=name)  # type: ignore[arg-type]
    screen = io.StringIO()
    console = Console(file=screen, width=width, markup=False, highlight=False, emoji=False)
    terminal = Terminal(console, console, Glyphs())
    files = CountedTools("read_file", "write_file", "list_folder")

    def follow(event: Event) -> None:
        desk.trace = desk.trace.after(event, agent)

    servers = ServersConfig((ServerConfig("web", command="x", env={"API_KEY": SECRET}, disabled_tools=("fetch*",)),))
    agent = Agent(model, tool_search=ToolSearch(), on_event=follow, tools=[files], sessions=store)

    async def ready() -> None:
        return None

    async def ask(typed: str, prompt: Prompt) -> None:
        await made.ask(typed, prompt)

    async def edit(_text: str) -> str:
        return made.editor_saves

    async def pick(_found: list[SessionInfo]) -> None:
        return None

    async def go_on_with(session: str) -> None:
        await agent._runtime.go_on_with(session)

    desk = ChatState(
        agent=agent,
        configuration=Configuration(servers),
        terminal=terminal,
        approver=Approver(Rules("ask"), StoredApprovals(None, {}), None),
        environ={"MCPAGENT_HOME": str(tmp_path / "home"), "TERM": "dumb"},
        folder=tmp_path,
        ready=ready,
        ask=ask,
        edit=edit,
        options=Options(folder=tmp_path, session_db=str(tmp_path / "s.db")),
        store=store,
        pick=pick,
        go_on_with=go_on_with,
        finish=ready,
    )
    made = Scene(desk, model, screen, files)
    async with agent:
        yield made


async def test_names_that_other_programs_have_mean_the_command_here(tmp_path: Path) -> None:
    async with scene(tmp_path) as desk:
        for name, meant in (("/permissions", "/allow"), ("/servers", "/mcp"), ("/search x", "/find x")):
            assert await desk.run(name) == await desk.run(meant) != "", name


async def test_the_definitions_are_a_part_of_what_the_provider_counted(tmp_path: Path) -> None:
    async with scene(tmp_path, *(answer("x", tokens=200) for _ in range(3))) as desk:
        for number in range(3):
            await desk.ask(str(number), str(number))
        cost, context = await desk.run("/cost"), await desk.run("/context")
    [part] = re.findall(r"tool definitions: about (\d+) tokens of it", cost)
    [loaded] = re.findall(r"tools loaded \(2\) +(\d+)", context)
    assert "the whole chat: in 600, out 30" in cost
    assert 3 * 200 > int(part) >= 3 * int(loaded) > 0


SEARCH = ToolCall("", "search_tools", {"query": "read a file"})
ADD = ToolCall("", "add_tool", {"tool_names": ["read_file"]})
CALL = ToolCall("", "read_file", {"path": "a"})


async def test_undo_takes_back_the_conversation_and_what_was_discovered(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), SEARCH, ADD, CALL, answer("two"), answer("three")) as at:
        await at.ask("first", "first")
        before, system = at.desk.agent.messages, at.desk.agent._runtime.own_session.system
        tools = offered(at.model.requests[0])
        await at.ask("second", "second")
        assert "read_file" in at.desk.agent.discovered_tools
        said = await at.run("/undo")
        assert "taken back: second" in said
        assert "what its 3 calls did outside stays done" in said
        assert at.desk.agent.messages == before
        assert at.desk.agent.discovered_tools == {}
        assert len(at.desk.trace.searches) == 0
        await at.ask("third", "third")
        last = at.model.requests[-1]
        assert [message.text for message in last.messages] == ["first", "one", "third"]
        assert (last.system, offered(last)) == (system, tools)
        await at.run("/undo")
        assert "taken back: first" in await at.run("/undo")
        assert at.desk.agent.messages == ()
        assert "nothing to take back" in await at.run("/undo")


async def test_undo_keeps_the_tools_that_were_found_before(tmp_path: Path) -> None:
    async with scene(tmp_path, ADD, answer("added"), answer("more"), answer("again")) as at:
        await at.ask("first", "first")
        await at.ask("second", "second")
        await at.run("/undo")
        assert list(at.desk.agent.discovered_tools) == ["read_file"]
        await at.ask("third", "third")
        assert offered(at.model.requests[-1]) == offered(at.model.requests[-2])


async def test_retry_asks_the_same_once_more_also_after_an_error(tmp_path: Path) -> None:
    picture = Image("image/png", "iVBORw0KGgo=")
    prompt: list[Text | Image] = [Text("what is this"), picture]
    async with scene(tmp_path, ModelError("down", provider="p"), answer("a dot")) as at:
        with pytest.raises(ModelError):
            await at.ask("what is this @dot.png", prompt)
        await at.run("/retry")
        assert at.model.requests[0].messages == at.model.requests[1].messages
        assert at.model.requests[1].messages[-1].parts == tuple(prompt)
        assert [turn.typed for turn in at.desk.asked] == ["what is this @dot.png"]


async def test_edit_asks_what_was_saved_instead(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), answer("two")) as at:
        assert "no question yet" in await at.run("/edit")
        await at.ask("first", "first")
        at.editor_saves = "first\n"
        assert "nothing is asked" in await at.run("/edit")
        at.editor_saves = "better\n"
        await at.run("/edit")
        assert [message.text for message in at.desk.agent.messages] == ["better", "two"]


async def test_another_model_goes_on_with_the_same_conversation_and_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    async with scene(tmp_path, ADD, answer("added")) as at:
        await at.ask("add it", "add it")
        said = await at.run("/model offline")
        assert "offline:rules" in said
        assert "(was scripted:test)" in said
        assert "with 1 tool found so far" in said
        assert list(at.desk.agent.discovered_tools) == ["read_file"]
        assert at.desk.agent.messages[0].text == "add it"
        assert not at.model.closed  # it belongs to whoever gave it
        assert 'did you mean "anthropic:x"' in await at.run("/model anthropc:x")
        assert at.desk.agent._runtime.model.name == "offline:rules"
        assert "ANTHROPIC_API_KEY" in await at.run("/model anthropic:claude-x")
        shown = await at.run("/model")
        assert "usable now: " in shown
        assert "ANTHROPIC_API_KEY" in shown


async def test_context_is_counted_on_the_request_that_was_sent(tmp_path: Path) -> None:
    assert context_window_of("openai:o3") == 200_000
    async with scene(tmp_path, SEARCH, ADD, CALL, answer("done", tokens=10_214), name="openai:o3") as at:
        before = await at.run("/context")
        assert "context of the next request   ~" in before
        assert "counted: characters / 4" in before
        await at.ask("read it", "read it")
        lines = (await at.run("/context")).splitlines()
        assert lines[0] == (
            "context of request 4   10,214 of 200,000 tokens (5%)   counted: provider usage; split by characters"
        )
        shares = {line[2:24].strip(): int(line[24:34].replace(",", "")) for line in lines[1:6]}
        assert sum(shares.values()) == 10_214
        assert shares["tools deferred (2)"] == 0
        assert shares["tools loaded (3)"] > shares["messages"]
        assert shares["tool results"] > 0
        assert "files" in lines[2]
        assert "would be" in lines[3]
        await at.run("/undo")
        assert "context of the next request" in await at.run("/context")


async def test_a_file_of_the_conversation_can_be_read_again_and_holds_no_secret(tmp_path: Path) -> None:
    hostile = f"<script>x</script> \x1b[31m``` {SECRET}"
    async with scene(tmp_path, ToolCall("", "read_file", {"path": hostile}), answer(hostile)) as at:
        assert "nothing to keep" in await at.run("/save")
        await at.ask("go", "go")
        saved = await at.run("/save ../my first")
        assert "saved as" in saved
        path = tmp_path / "my first.json"
        assert not path.exists()
        path = tmp_path.parent / "my first.json"
        document = json.loads(path.read_text("utf-8"))
        path.unlink()
        assert SECRET not in json.dumps(document)
        roles = [message.role for message in load_messages(document["messages"])]
        assert roles == ["user", "assistant", "tool", "assistant"]
        await at.run("/save talk")
        await at.run("/save talk")
        folder = tmp_path / "home" / "data" / "exports"
        assert sorted(item.name for item in folder.iterdir()) == ["talk-2.json", "talk.json"]
        assert (folder / "talk.json").stat().st_mode & 0o077 == 0
        for form in ("md", "html"):
            await at.run(f"/export {form} here.{form}")
            text = (tmp_path / f"here.{form}").read_text("utf-8")
            assert SECRET not in text
            assert "\x1b" not in text
            assert "read_file" in text
            assert form == "md" or "<script>" not in text
        assert "````json" in (tmp_path / "here.md").read_text("utf-8")
        assert "no format pdf" in await at.run("/export pdf")


async def test_copy_says_what_was_done(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("the answer")) as at:
        assert "no answer yet" in await at.run("/copy")
        await at.ask("go", "go")
        assert "not copied: there is no clipboard command" in await at.run("/copy")


async def test_why_not_tells_what_hides_or_denies_a_tool(tmp_path: Path) -> None:
    async with scene(tmp_path, SEARCH, answer("no")) as at:
        await at.ask("go", "go")
        assert "web may have it, but disabledTools hides it" in await at.run("/why not fetch_page")
        at.desk.approver.rules = replace(at.desk.approver.rules, options=(Rule("files.*", "deny"),))
        told = await at.run("/why not read_file")
        assert "every call of it is denied: --deny files.*" in told
        assert 'search 1 (request 1) "read a file": place 1 of' in told
        assert "cut-off" in told or "best" in told
        assert "did you mean read_file" in await at.run("/why red_file")


async def test_new_forgets_and_exit_leaves(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one")) as at:
        await at.ask("go", "go")
        await at.run("/new")
        assert at.desk.agent.messages == ()
        assert at.desk.asked == []
        with pytest.raises(Leave):
            await at.run("/exit")
        assert "did you mean /context?" in await at.run("/contxt")


async def test_going_back_further_than_there_is_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        with pytest.raises(InputError, match="has 0 messages"):
            at.desk.agent._runtime.own_session.rewind(1)


async def test_several_questions_are_taken_back_or_none(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one"), CALL, answer("two"), answer("three")) as at:
        for question in ("first", "second", "third"):
            await at.ask(question, question)
        for wrong in ("50", "0", "-1", "all"):
            said = await at.run(f"/undo {wrong}")
            assert "there are 3 questions to take back; /undo 3" in said or "how many questions?" in said
            assert [asked.typed for asked in at.desk.asked] == ["first", "second", "third"]
        said = await at.run("/rewind 2")
        assert said.splitlines()[:2] == ["taken back: third", "taken back: second"]
        assert "what its 1 call did outside stays done" in said
        assert [message.text for message in at.desk.agent.messages] == ["first", "one"]
        assert "there is 1 question to take back; /undo 1" in await at.run("/undo 2")


async def test_a_word_that_a_command_does_not_take_is_said_and_nothing_is_done(tmp_path: Path) -> None:
    async with scene(tmp_path, answer("one")) as at:
        await at.ask("first", "first")
        for name in (name for name, command in COMMANDS.items() if not command.parameter):
            said = await at.run(f"{name} zzz")
            assert said == f"{name} takes nothing after it, so it was not run; write {name} alone\n"
        assert [message.text for message in at.desk.agent.messages] == ["first", "one"]


async def test_help_tells_about_one_command(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        for asked in ("undo", "/undo", "rewind"):
            told = " ".join((await at.run(f"/help {asked}")).split())
            assert told == "/undo [N] take the last question and its answer back; N: the last N"
        assert "unknown command /und - did you mean /undo?" in await at.run("/help und")
        assert len((await at.run("/help all")).splitlines()) > len(COMMANDS)


async def test_what_is_not_there_is_told_with_what_a_chat_can_do(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        assert await at.run("/mcp restart nosuch") == 'no server "nosuch"; configured: web\n'
        assert await at.run("/mcp nosuch") == 'no server "nosuch"; configured: web\n'
        assert "did you mean /mcp restart NAME?" in await at.run("/mcp restrat")
        for command in ("/why not", "/why", "/tool"):
            assert 'no tool "zzzz"; /tools lists them\n' in await at.run(f"{command} zzzz")
