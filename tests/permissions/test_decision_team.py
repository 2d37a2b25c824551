"""A rule about a server or tool that only a called agent uses is known; one that fits nothing is reported."""

from __future__ import annotations

import sys
from pathlib import Path

from mcpagent import Agent, ScriptedModel
from tests.servers import door_server
from tests.terminal.warm import run

TOOLS = "read push"


def team(folder: Path) -> Path:
    """Write a lead that asks a middle, which asks a helper; only the helper has the server `n`."""
    command = f"{sys.executable} {door_server.__file__} {folder / 'log'} {TOOLS}"
    (folder / "lead.md").write_text("---\nmodel: offline\nagents: [middle]\n---\nYou lead.\n")
    (folder / "middle.md").write_text("---\nmodel: offline\nagents: [helper]\n---\nYou pass on.\n")
    (folder / "helper.md").write_text(
        f"---\nmodel: offline\nmcp_connect:\n- target: {command}\n  name: n\n---\nYou help.\n"
    )
    return folder / "lead.md"


def test_a_rule_about_the_server_of_a_called_agent_is_known(tmp_path: Path) -> None:
    card = team(tmp_path)
    rules = ["--deny", "n.push", "--allow", "n.read", "--allow", "/n:review", "--deny", "n.*", "--deny", "n.pusj"]
    ended = run(["ask", "hello", "--card", str(card), "--trust-project", *rules], tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("nothing of that name is known") == 1
    assert "--allow or --deny n.pusj: nothing of that name is known; did you mean n.push?" in ended.stderr


async def test_everything_that_rules_can_name_includes_the_tools_of_called_agents() -> None:
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    inner = Agent(ScriptedModel([]), tools=[wipe])
    middle = Agent(ScriptedModel([]), tools=[inner.as_tool("inner", "Help.")])
    inner.tool(middle.as_tool("middle", "Ask back."))  # agents may call each other
    outer = Agent(ScriptedModel([]), tools=[middle.as_tool("middle", "Help."), inner.as_tool("inner", "Help.")])
    async with outer:
        found = outer._runtime.reachable()
        assert len(found) == 3
        assert set(found) == {one._runtime for one in (outer, middle, inner)}
        names = [tool.name for tool in outer._runtime.askable()]
    assert names.count("wipe") == 1
    assert {"middle", "inner"} <= {*names}
