"""`mcpagent runs`: what is listed, shown, cancelled and deleted, as text and as JSON."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from mcpagent import Agent, ApprovalPolicy, ModelError, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.errors import McpAgentError
from tests.tables import each_row
from tests.terminal import warm

SECONDS = 60.0


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


async def made(folder: Path) -> None:
    """A run of each kind: "done", "failed", "asks" with a call that waits, and "waiting" that no worker does."""
    store, durable = Sessions(folder / "chats.db"), DurableRuns(folder / "runs.db")
    error = ModelError("provider: no such model", provider="test")
    replies: list[Any] = ["There are 12.", error, ToolCall("1", "pay", {"amount": 5})]
    agent = Agent(ScriptedModel(replies), tools=[pay], approval=ApprovalPolicy(required=True), sessions=store)
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent):
        for name in ("done", "failed", "asks"):
            run = await durable.start(f"Is it {name}?", session=f"session of {name}", run=name)
            try:
                await run.result()
            except McpAgentError:
                assert name == "failed"
    async with asyncio.timeout(SECONDS), agent, durable.serving(agent, works=False):
        await durable.start("Is it waiting?", session="session of waiting", run="waiting")
    store.close()


def runs(folder: Path, *arguments: str, code: int = 0, database: str = "runs.db") -> tuple[str, str]:
    """What `mcpagent runs` wrote on stdout and stderr."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "MCPAGENT_HOME": str(folder / "home")}
    files = ["--database", str(folder / database), "--set", f"session_db={folder / 'chats.db'}"]
    done = warm.run(["runs", *arguments, *files], folder, env=environ)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


async def test_runs_are_listed_shown_cancelled_and_deleted(tmp_path: Path) -> None:
    await made(tmp_path)
    listed = json.loads(runs(tmp_path, "list", "--json")[0])
    assert [(run["id"], run["state"]) for run in listed] == [
        ("waiting", "waiting"),
        ("asks", "done"),
        ("failed", "failed"),
        ("done", "done"),
    ]
    assert [run.get("answer", run.get("error")) for run in listed] == [
        None,
        "",
        "provider: no such model",
        "There are 12.",
    ]
    [one] = json.loads(runs(tmp_path, "list", "session of done", "--json")[0])
    assert one["session"] == "session of done"
    text = runs(tmp_path, "list")[0].splitlines()
    assert text[-1].split() == ["done", "done", "session", "of", "done", "just", "now", "There", "are", "12."]
    shown = json.loads(runs(tmp_path, "show", "asks", "--json")[0])
    assert (shown["prompt"], shown["stop"]) == ("Is it asks?", "calls_pending")
    assert [call["tool"] for call in shown["pending"]] == ["pay"]
    assert "pay (1) for approval" in runs(tmp_path, "show", "asks")[0]

    assert runs(tmp_path, "delete", "waiting", "--yes", code=2)[1].splitlines()[-1] == (
        'error: run "waiting" is waiting; cancel it first: mcpagent runs cancel'
    )
    assert 'run "waiting" is cancelled; it was waiting' in runs(tmp_path, "cancel", "waiting")[0]
    assert json.loads(runs(tmp_path, "show", "waiting", "--json")[0])["state"] == "cancelled"
    assert "deleted 1 run" in runs(tmp_path, "delete", "done", "--yes")[0]
    assert json.loads(runs(tmp_path, "prune", "1h", "--yes", "--json")[0]) == []
    left = json.loads(runs(tmp_path, "list", "--json")[0])
    assert [run["id"] for run in left] == ["waiting", "asks", "failed"]
    store = Sessions(tmp_path / "chats.db")
    assert store.read("session of done").messages[-1].text == "There are 12."  # a conversation outlives its runs
    store.close()


ERRORS = {
    "show nope": 'there is no run "nope"; see mcpagent runs list',
    "cancel nope": 'there is no run "nope"; see mcpagent runs list',
    "delete nope --yes": 'there is no run "nope"; see mcpagent runs list',
    "prune soon": '"soon" is no age; write 30d, 12h, 8w or 1y',
}


@each_row("typed", list(ERRORS))
def test_errors_are_one_line_and_looking_makes_no_database(typed: str, tmp_path: Path) -> None:
    output, errors = runs(tmp_path, *typed.split(), code=2)
    assert output == ""
    assert len(errors.splitlines()) == 1
    assert errors.strip().endswith(ERRORS[typed])
    assert "there are no durable runs in" in runs(tmp_path, "list")[0]
    assert not (tmp_path / "runs.db").exists()
