"""One decision for every caller: the same rules let through and hold back the same calls, whoever makes them.

Every row looks at what the server received.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ApprovalPolicy, RunOptions, ScriptedModel, ToolCall
from mcpagent.cli.approvals.approver import Approver
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.permissions.decision import CallFacts, Decision, Rules
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.approval import Approval, PendingCall
from tests.permissions.judging import rules_of
from tests.scenes import call
from tests.servers.door_server import over_http, received
from tests.tables import each_row

PATIENT = RunOptions(servers=ServerOptions(startup_seconds=None))
PROGRAM = (
    "from tools.web import push, read\n"
    "for function in (read, push):\n    try:\n        await function()\n    except Exception:\n        pass\n"
)
BOTH, READS, NONE = {"read", "push"}, {"read"}, set[str]()


async def run_by(path: str, server: ServerConfig, policy: ApprovalPolicy) -> None:
    """Has a model, a program or an agent that is called make both calls."""
    calls: list[Any] = [[call("read"), call("push")]]
    code = path == "program"
    if code:
        calls = [call("search_tools", query="read push does it"), ToolCall("", "run_code", {"code": PROGRAM})]
    agent = Agent(
        ScriptedModel([*calls, "done"]), mcp_config=[server], approval=policy, options=PATIENT, code_mode=code
    )
    if path != "subagent":
        async with agent:
            await agent.ask("go")
        return
    caller = Agent(ScriptedModel([call("helper", prompt="go"), "done"]), tools=[agent.as_tool("helper", "Helps.")])
    async with agent, caller:
        await caller.ask("go")


@pytest.mark.slow
@each_row("path", ["direct", "program", "subagent"])
@each_row(
    "rules, entry, trust, expected",
    [
        (Rules("unasked"), {}, False, BOTH),
        (Rules("unasked"), {"push": "deny"}, False, READS),
        (Rules("unasked"), {"push": "ask"}, False, READS),
        (Rules("unasked"), {"*": "ask", "push": "allow"}, False, {"push"}),
        (Rules("unasked", named={"web.push": "deny"}), {"push": "allow"}, False, READS),
        (Rules("ask"), {}, False, NONE),
        (Rules("ask"), {}, True, READS),
        (Rules("safe"), {"push": "allow"}, True, BOTH),
        (Rules("none"), {}, True, NONE),
        (rules_of("none", ["web.push"]), {}, True, {"push"}),
        (rules_of("all", deny=["web.*"]), {"*": "allow"}, True, NONE),
    ],
)
async def test_the_same_calls_reach_the_server_whoever_makes_them(
    path: str, rules: Rules, entry: dict[str, Approval], trust: bool, expected: set[str], tmp_path: Path
) -> None:
    log = tmp_path / "received"
    made = Approver(rules, StoredApprovals(None, {}), None)
    with over_http("web", log) as server:
        await run_by(path, replace(server, approval=tuple(entry.items()), trust_hints=trust), made.policy())
    assert {name for _, name in received(log)} == expected
    assert {denial.label for denial in made.denials} == {f"web.{name}" for name in BOTH - expected}


@each_row("path", ["direct", "program", "subagent"])
async def test_who_listens_to_decisions_hears_each_that_is_no_yes_with_its_rule(path: str, tmp_path: Path) -> None:
    heard: list[tuple[str, str, str, str]] = []

    def hear(request: PendingCall, facts: CallFacts, decision: Decision) -> None:
        assert request.tool == facts.tool.name
        heard.append((facts.tool.original_name, decision.verdict, decision.place, decision.key))

    policy = ApprovalPolicy(decide=lambda _: False, on_decision=hear)
    with over_http("web", tmp_path / "log") as server:
        await run_by(path, replace(server, approval=(("push", "deny"), ("read", "ask")), source="f:3"), policy)
    assert sorted(heard) == [("push", "deny", "f:3", "web.approval.push"), ("read", "ask", "f:3", "web.approval.read")]


@each_row(
    "outer, own, expected",
    [
        ({"web.push": "deny"}, {}, READS),
        ({"web.*": "deny", "web.read": "allow"}, {"web.push": "allow"}, READS),
        ({"web.push": "allow"}, {"web.push": "deny"}, READS),
        ({"other.push": "deny"}, {}, BOTH),
    ],
)
async def test_rules_of_the_caller_hold_for_the_calls_of_the_agent_that_it_calls(
    outer: dict[str, Approval], own: dict[str, Approval], expected: set[str], tmp_path: Path
) -> None:
    log = tmp_path / "received"
    with over_http("web", log) as server:
        calls: list[Any] = [[call("read"), call("push")], "done"]
        helper = Agent(ScriptedModel(calls), mcp_config=[server], approval=ApprovalPolicy(rules=own), options=PATIENT)
        between = Agent(
            ScriptedModel([call("helper", prompt="go"), "done"]), tools=[helper.as_tool("helper", "Helps.")]
        )
        caller = Agent(
            ScriptedModel([call("between", prompt="go"), "done"]),
            tools=[between.as_tool("between", "Passes on.")],
            approval=ApprovalPolicy(rules=outer),
        )
        async with helper, between, caller:
            await caller.ask("go")
    assert {name for _, name in received(log)} == expected
