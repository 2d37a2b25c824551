"""Skills are found and loaded like tools, and stay in the conversation; scripts run only with an approval."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ApprovalPolicy, RunOptions, ScriptedModel, ToolCall, ToolSearch, skills_toolset
from mcpagent.models import ModelRequest
from mcpagent.models.scripted import Answer
from mcpagent.permissions.decision import Mode, Rules, decide
from mcpagent.run.middleware.permission_gate import facts_of
from mcpagent.skills.skill_folders import read_skill
from mcpagent.toolsets.skill_toolset import skill_tools
from mcpagent.values.approval import CallsPendingError, PendingCall, Rule
from mcpagent.values.messages import Image, Message, ToolDefinition, dump_messages
from mcpagent.values.tools import Tool, ToolOutput
from tests.made_files import png
from tests.models.test_tool_changes_in_history_agents import MODELS
from tests.run.compaction.windowed import WindowedModel
from tests.simulator.server import Simulator
from tests.simulator.values import Said, View
from tests.skills.folders import pdf_forms, written
from tests.tables import each_row

ADD = ToolCall("add", "add_tool", {"tool_names": ["pdf-forms"]})
RUN = ToolCall("run", "run_skill_script", {"skill": "pdf-forms", "script": "scripts/fill.py", "arguments": ["$(id)"]})
BODY = "Read references/fields.md first."


def read(path: str, call_id: str = "read") -> ToolCall:
    return ToolCall(call_id, "pdf-forms", {"path": path})


def result(messages: Sequence[Message], call_id: str) -> str:
    [found] = [one.text for message in messages for one in message.tool_results if one.call_id == call_id]
    return found


async def after(folder: Path, *answers: Any, **options: Any) -> tuple[tuple[Message, ...], ScriptedModel]:
    """Return the messages and the model of a conversation with these answers."""
    model = ScriptedModel([*answers, "Done."])
    async with Agent(model, tools=[skills_toolset(folder)], **options) as agent:
        await agent.ask("Complete the form.")
        return agent.messages, model


async def test_a_skill_is_found_beside_tools_and_loaded_at_the_end(tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    search = ToolCall("search", "search_tools", {"query": "complete a form"})
    messages, model = await after(tmp_path, search, ADD)
    assert '"name": "pdf-forms", "match": "likely", "kind": "skill"' in result(messages, "search")
    loaded = result(messages, "add")
    assert f'Instructions of the skill "pdf-forms":\n```\n{BODY}\n```' in loaded
    assert "Its files: references/fields.md, scripts/fill.py." in loaded
    assert [[tool.name for tool in request.tools] for request in model.requests] == [
        ["search_tools", "add_tool"],
        ["search_tools", "add_tool"],
        ["search_tools", "add_tool", "pdf-forms", "run_skill_script"],
    ]
    for before, now in pairwise(model.requests):
        assert now.system == before.system
        assert now.messages[: len(before.messages)] == before.messages


async def test_options_name_folders_of_skills_too(tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    async with Agent(ScriptedModel([]), options=RunOptions(skills=[str(tmp_path)])) as agent:
        assert list(agent.known_tools) == ["pdf-forms", "run_skill_script"]
    with pytest.raises(TypeError, match="skills_toolset"):
        Agent(ScriptedModel([]), skills=["x"])  # type: ignore[call-arg]


async def test_files_are_read_through_the_skill_and_nothing_else_is(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    (folder / "picture.png").write_bytes(png(2, 2))
    (folder / "data.bin").write_bytes(b"\0" * 100)
    paths = ("references/fields.md", "picture.png", "data.bin", "../../etc/passwd", "/etc/passwd")
    messages, _ = await after(tmp_path, ADD, [read(path, path) for path in paths])
    assert result(messages, "references/fields.md") == "the fields"
    assert [type(part) for one in messages[4].tool_results[1:2] for part in one.content] == [Image]
    assert "is a binary file" in result(messages, "data.bin")
    for path in paths[3:]:
        assert result(messages, path) == f"skill \"pdf-forms\" has no file '{path}'"


async def test_a_script_waits_for_an_approval_that_shows_the_words(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)
    model = ScriptedModel([ADD, RUN, "Done."])
    async with Agent(model, tools=[skills_toolset(tmp_path)]) as agent:
        with pytest.raises(CallsPendingError):
            await agent.ask("Complete the form.")
        [pending] = agent.pending
        assert f"{folder / 'scripts' / 'fill.py'} '$(id)' in {Path.cwd()} (SHA-256 " in pending.description
        await agent.resume([pending.approve()])
        assert result(agent.messages, "run") == "exit code 0\nOutput:\n```\nfilled ['$(id)']\n```"


async def test_an_approval_is_for_the_script_that_was_shown(tmp_path: Path) -> None:
    folder = pdf_forms(tmp_path)

    def decide(_call: PendingCall) -> bool:
        (folder / "scripts" / "fill.py").write_text("print('other')")
        return True

    messages, _ = await after(tmp_path, ADD, RUN, approval=ApprovalPolicy(decide=decide))
    assert "other" not in result(messages, "run")
    assert messages[4].tool_results[0].error in ("denied", "failed")


async def test_rules_decide_on_scripts_and_instructions(tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    allowed = ApprovalPolicy(rules={"skills.run_skill_script": "allow"})
    messages, _ = await after(tmp_path, ADD, RUN, approval=allowed)
    assert "filled" in result(messages, "run")
    denied = ApprovalPolicy(rules={"pdf-forms": "deny", "run_skill_script": "deny"})
    messages, _ = await after(tmp_path, ADD, read("SKILL.md"), RUN, approval=denied)
    assert BODY not in "".join(str(message) for message in messages)
    assert "do not allow" in result(messages, "read")
    assert "do not allow" in result(messages, "run")
    asked: list[str] = []
    asking = ApprovalPolicy(True, decide=lambda call: not asked.append(call.tool))  # type: ignore[func-returns-value]
    messages, _ = await after(tmp_path, ADD, read("SKILL.md"), approval=asking)
    assert (BODY in result(messages, "add"), BODY in result(messages, "read")) == (False, True)
    assert asked == ["pdf-forms"]


@each_row(
    "arguments",
    [
        {"skill": "pdf-forms", "script": "../x.py"},
        {"skill": "pdf-forms", "script": "references/fields.md"},
        {"skill": "none", "script": "scripts/fill.py"},
        {"skill": "pdf-forms"},
        {"skill": "pdf-forms", "script": "scripts/fill.py", "arguments": "a; b"},
    ],
)
async def test_a_call_that_runs_no_script_is_an_error_for_the_model(arguments: dict[str, Any], tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    call = ToolCall("run", "run_skill_script", arguments)
    messages, _ = await after(tmp_path, ADD, call, approval=ApprovalPolicy(decide=lambda _call: True))
    [one] = messages[4].tool_results
    assert one.error in ("failed", "invalid_arguments"), one


@pytest.mark.slow
async def test_all_protocols_take_a_loaded_skill_and_no_earlier_byte_changes(tmp_path: Path) -> None:
    pdf_forms(tmp_path)

    def brain(view: View) -> Sequence[Said]:
        whole = "\n".join(view.texts)
        if BODY not in whole:
            return [("add_tool", {"tool_names": ["pdf-forms"]})]
        if "the fields" in whole:
            return ["Done."]
        call = "pdf-forms", {"path": "references/fields.md"}
        if "call_tool" in view.shown:
            return [("call_tool", {"tool_name": call[0], "arguments": call[1]})]
        return [call]

    for name, made in MODELS.items():
        async with Simulator(brain) as simulator:
            model = made(simulator.url)
            async with Agent(model, tools=[skills_toolset(tmp_path)]) as agent:
                assert await agent.ask("Complete the form.") == "Done.", name
            await model.aclose()
        assert simulator.log.refused == [], name
        for before, now in pairwise(simulator.log.bodies):
            history = "input" if name == "openai" else "messages"
            assert now[history][: len(before[history])] == before[history], name


async def test_a_loaded_skill_survives_compaction_and_goes_with_a_rewind(tmp_path: Path) -> None:
    pdf_forms(tmp_path)

    def say(name: str) -> str:
        """Reads all."""
        return f"About {name}: {'word after word and number 7 ' * 60}"

    def brain(request: ModelRequest) -> Answer:
        if request.messages[-1].role == "tool" or request.tool_choice == "none":
            return "It is done."
        if len(request.messages) == 1:
            return [ADD]
        return [ToolCall("", "say", {"name": request.messages[-1].text[:40]})]

    model = WindowedModel(brain, 5_000)
    async with Agent(model, tools=[say, skills_toolset(tmp_path)]) as agent:
        session = agent.session()
        for number in range(25):
            await session.ask(f"Question {number}")
        sent = session.sent_messages
        assert len(sent) < len(session.messages) / 2
        assert sum(BODY in result.text for message in sent for result in message.tool_results) == 1
        assert "pdf-forms" in session.discovered_tools
        again = agent.session(messages=dump_messages(session.messages))
        assert any(BODY in one.text for message in again.sent_messages for one in message.tool_results)
        session.rewind(0)
        assert "pdf-forms" not in session.discovered_tools
    assert model.refused == 0


@each_row("load", ["add_tool", "search", "none"])
async def test_a_skill_is_read_by_its_own_call_however_tools_are_loaded(load: Any, tmp_path: Path) -> None:
    pdf_forms(tmp_path)
    search: Callable[[], Any] = lambda: False if load == "none" else ToolSearch(load=load)  # noqa: E731
    find = ToolCall("search", "search_tools", {"query": "complete a form"})
    read_it = ToolCall("read", "pdf-forms", {})
    steps = [read_it] if load == "none" else [find, read_it]
    messages, _ = await after(tmp_path, *steps, tool_search=search())
    assert BODY in result(messages, "read")


async def test_what_is_left_out_is_a_warning_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pdf_forms(tmp_path / "a")
    pdf_forms(tmp_path / "b")
    written(tmp_path / "b", "BAD")
    with caplog.at_level(logging.WARNING, "mcpagent"):
        async with Agent(ScriptedModel([]), tools=[skills_toolset(tmp_path / "a", tmp_path / "b")]) as agent:
            assert list(agent.known_tools) == ["pdf-forms", "run_skill_script"]
    assert [record.message.partition(":")[0] for record in caplog.records] == ["skill left out"] * 2


async def test_words_that_only_a_model_reads_are_taken_out(tmp_path: Path) -> None:
    written(tmp_path, "x", description='"Good.\\u202e \\U000E0041hidden"', body="do\u200b this")
    messages, model = await after(tmp_path, ToolCall("add", "add_tool", {"tool_names": ["x"]}))
    [tool] = [tool for tool in model.requests[-1].tools if tool.name == "x"]
    assert tool.description == "Good. hidden"
    assert "do this" in result(messages, "add")


def test_each_mode_decides_on_scripts_as_on_commands(tmp_path: Path) -> None:
    read_it, run_it = skill_tools([read_skill(pdf_forms(tmp_path))])
    modes: dict[Mode, tuple[str, str]] = {
        "ask": ("allow", "ask"),
        "safe": ("allow", "deny"),
        "all": ("allow", "allow"),
        "none": ("deny", "deny"),
        "unasked": ("allow", "ask"),
    }
    found = {
        mode: tuple(decide(facts_of(tool, RUN.arguments), Rules(mode)).verdict for tool in (read_it, run_it))
        for mode in modes
    }
    assert found == modes
    for pattern in ("run_skill_script", "skills.*", "skills.run_*", "*"):
        denied = Rules("all", (Rule(pattern, "deny"),))
        assert decide(facts_of(run_it, RUN.arguments), denied).verdict == "deny", pattern


async def test_a_stored_conversation_keeps_its_skill(tmp_path: Path) -> None:
    pdf_forms(tmp_path / "skills")
    made: dict[str, Any] = {"tools": [skills_toolset(tmp_path / "skills")], "sessions": tmp_path / "s.db"}
    async with Agent(ScriptedModel([ADD, "done"]), **made) as agent:
        await agent.session("one").ask("Complete the form.")
    model = ScriptedModel(["more"])
    async with Agent(model, **made) as agent:
        await agent.session("one").ask("And again.")
    [request] = model.requests
    assert BODY in result(request.messages, "add")
    assert [tool.name for tool in request.tools][2:] == ["pdf-forms", "run_skill_script"]


async def test_instructions_name_the_tools_that_the_model_has(tmp_path: Path) -> None:
    """Other tools of these names keep them, and are not loaded in their place."""
    pdf_forms(tmp_path)

    def run_skill_script(text: str) -> str:
        """Another tool."""
        return text

    model = ScriptedModel([ToolCall("add", "add_tool", {"tool_names": ["skills__pdf-forms"]}), "Done."])
    tools: list[Any] = [
        Tool(ToolDefinition("pdf-forms", "Another tool", {}), _nothing),
        run_skill_script,
        skills_toolset(tmp_path),
    ]
    async with Agent(model, tools=tools) as agent:
        await agent.ask("Complete the form.")
        loaded = result(agent.messages, "add")
    assert 'Read one with skills__pdf-forms(path="...").' in loaded
    assert 'Run a script with skills__run_skill_script(skill="pdf-forms"' in loaded
    assert {tool.name for tool in model.requests[-1].tools} >= {"skills__pdf-forms", "skills__run_skill_script"}


async def _nothing(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("")


async def test_several_toolsets_of_skills_share_one_tool_for_scripts(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        written(tmp_path / name, name, files={"scripts/say.py": f"print('{name} says it')"})
    run = ToolCall("run", "run_skill_script", {"skill": "second", "script": "scripts/say.py"})
    model = ScriptedModel([ToolCall("add", "add_tool", {"tool_names": ["second"]}), run, "Done."])
    toolsets = [skills_toolset(tmp_path / "first"), skills_toolset(tmp_path / "second")]
    allowed = ApprovalPolicy(rules={"skills.run_skill_script": "allow"})
    options = RunOptions(skills=[tmp_path / "third"])
    async with Agent(model, tools=toolsets, options=options, approval=allowed) as agent:
        assert sorted(agent.known_tools) == ["first", "run_skill_script", "second", "third"]
        await agent.ask("Say it.")
        assert "second says it" in result(agent.messages, "run")
