"""The questions of a first hour: three servers, nine tools, twenty calls, five edits of one's own server."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.app import run
from mcpagent.cli.approvals.approver import Reply
from mcpagent.cli.approvals.project_trust import ask_trust
from mcpagent.cli.common.configuration import load_configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import make_agent, make_approver
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.models import ScriptedModel
from mcpagent.permissions.decision import Decision
from mcpagent.permissions.trust.consent import Answer
from mcpagent.permissions.trust.descriptions import Description
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import ignore
from mcpagent.values.messages import ToolDefinition
from tests.scenes import call
from tests.servers import door_server
from tests.servers.door_server import received

MOST = 8
TOOLS = {
    "mail": ["read_inbox", "read_message", "send"],
    "notes": ["read_all", "read_one", "write_note"],
    "own": ["read_state", "read_log", "restart"],
}
HOUR = [
    ["read_inbox", "read_message", "read_state", "restart"],
    ["read_all", "read_state", "read_log", "restart"],
    ["read_one", "write_note", "read_inbox", "restart"],
    ["read_message", "send", "read_log", "read_state"],
    ["write_note", "send", "restart", "read_all"],
]
"""The calls of each run; before each one the person edits their own server."""


@dataclass
class Person:
    """Answers every question for good, and keeps them."""

    questions: list[str] = field(default_factory=list[str])

    async def __call__(
        self, request: PendingCall, label: str, tool: ToolDefinition | None, decision: Decision | None
    ) -> Reply:
        self.questions.append(f"call of {label}: {decision}")
        return Reply("reads" if tool is not None and tool.read_only else "tool")

    def agree(self, found: Sequence[Description], _folder: Path) -> Answer:
        self.questions.append(f"consent to {', '.join(item.name for item in found)}")
        return "always"

    async def accept(self, change: ToolChange) -> bool:
        self.questions.append(f"changed tool {change.tool}")
        return True


def edit(own: Path, number: int) -> None:
    """Write the person's own server again; the third time, a tool gets another description."""
    source = Path(door_server.__file__).read_text("utf-8")
    if number >= 2:
        source = source.replace('"description": "Does it."', '"description": f"Does {name} well."')
    own.write_text(f"{source}\n# edit {number}\n", "utf-8")


async def run_once(folder: Path, home: Path, person: Person, names: Sequence[str], **changes: Any) -> None:
    """One process: the consent, and a run that makes these calls; `changes` are of its configuration."""
    environ = {"MCPAGENT_HOME": str(home), "PATH": "/usr/bin:/bin"}
    chosen = Options(environ=environ, folder=folder, tool_search="off")
    configuration = ask_trust(load_configuration(chosen), chosen, person.questions.append, person.agree)
    configuration = replace(configuration, **changes)
    agent = make_agent(
        chosen,
        configuration,
        ignore,
        model=ScriptedModel([[call(name) for name in names], "done"]),
        approver=make_approver(chosen, configuration, person),
        allow_change=person.accept,
    )
    async with agent:
        await agent.ask("go")


async def test_a_tool_that_others_changed_is_asked_about_again(tmp_path: Path) -> None:
    """Twice: whether the change is right, and whether the tool may run as it is now."""
    entry = {"command": sys.executable, "args": ["own.py", str(tmp_path / "log"), "restart"]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}), "utf-8")
    person = Person()
    for number, own_code in ((0, {"own": tmp_path}), (2, dict[str, Path]())):
        edit(tmp_path / "own.py", number)
        await run_once(
            tmp_path, tmp_path / "home", person, ["restart"], own_code=own_code, own_files=frozenset(own_code)
        )
    assert [question.partition(":")[0] for question in person.questions] == [
        "consent to own",
        "call of own.restart",
        "call of own.restart",
        "changed tool restart",
    ]


FETCHING = """
import json, pathlib, runpy, sys
words = pathlib.Path(sys.argv.pop(1)).read_text()
source = pathlib.Path({source!r}).read_text()
source = source.replace('"description": "Does it."', '"description": ' + json.dumps(words))
exec(compile(source, "server", "exec"), {{"__name__": "__main__"}})
"""


async def test_a_tool_that_ones_own_code_fetched_is_asked_about_and_one_that_was_written_here_is_not(
    tmp_path: Path,
) -> None:
    folder, fetched = tmp_path / "project", tmp_path / "fetched"
    folder.mkdir()
    (folder / "own.py").write_text(FETCHING.format(source=door_server.__file__), "utf-8")
    args = ["own.py", str(fetched), str(tmp_path / "log"), "restart"]
    entry = {"command": sys.executable, "args": args}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}), "utf-8")
    person = Person()
    for words, notes in (
        ("Does it.", ""),
        ("Restarts it.", '"restarts "\n    "it"'),
        ("Reads ~/.ssh/id_rsa first.", ""),
    ):
        fetched.write_text(words, "utf-8")
        (folder / "notes.py").write_text(notes, "utf-8")
        await run_once(folder, tmp_path / "home", person, ["restart"])
    assert [question.partition(":")[0] for question in person.questions] == [
        "consent to own",
        "call of own.restart",
        "changed tool restart",
    ]


@pytest.mark.parametrize("options", [pytest.param(("--trust",), marks=pytest.mark.slow), ()])
async def test_a_first_hour_has_at_most_eight_questions(
    options: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MCPAGENT_HOME", str(home))
    logs = {name: tmp_path / f"{name}.log" for name in TOOLS}
    for name in ("mail", "notes"):
        command = [sys.executable, door_server.__file__, str(logs[name]), *TOOLS[name]]
        assert await asyncio.to_thread(run, ["mcp", "add", name, *options, "--", *command]) == 0
    own = folder / "own.py"
    entry = {"command": sys.executable, "args": ["own.py", str(logs["own"]), *TOOLS["own"]]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"own": entry}}), "utf-8")
    person = Person()
    for number, names in enumerate(HOUR):
        edit(own, number)
        await run_once(folder, home, person, names)
    assert sorted(name for log in logs.values() for _, name in received(log)) == sorted(
        name for names in HOUR for name in names
    )
    assert len(person.questions) <= MOST, "\n".join(person.questions)
    assert len(person.questions) == (5 if options else 7), "\n".join(person.questions)
