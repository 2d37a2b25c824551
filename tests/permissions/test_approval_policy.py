"""What the entry of a server forbids counts in the library; an agent's own arguments are stricter or name a tool."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ApprovalPolicy, CallsPendingError, ConfigError, McpServer, ScriptedModel, ToolCall
from mcpagent.config import load_servers
from mcpagent.toolsets.composition import prefixed
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "leaky.py"
TELL, FAIL = "tell", "fail"


def entry(**more: Any) -> dict[str, Any]:
    env = {"LEAKS": "SAID", "SAID": "it ran"}
    return {"mcpServers": {"it": {"command": sys.executable, "args": [str(SERVER)], "env": env, **more}}}


async def outcome(config: Any, call: str = TELL, **more: Any) -> str:
    """Return what became of one call: its result, its error, or that it waits."""
    model = ScriptedModel([ToolCall("1", call, {}), "done"])
    async with Agent(model, mcp_config=config, tool_search=False, **more) as agent:
        try:
            await agent.ask("go")
        except CallsPendingError:
            return "waits"
        (result,) = [part for message in model.requests[-1].messages for part in message.tool_results]
        return "ran" if "it ran" in result.text else result.error or "?"


@pytest.mark.slow
@each_row(
    "own, more, expected",
    [
        ({}, {}, "ran"),
        ({"approval": "allow"}, {}, "ran"),
        ({"approval": "deny"}, {}, "denied"),
        ({"approval": "never"}, {}, "denied"),
        ({"approval": "ask"}, {}, "waits"),
        ({"approval": {"t*": "deny"}}, {}, "denied"),
        ({"approval": {"*": "deny", "tell": "allow"}}, {}, "ran"),
        ({"approval": {"TELL": "deny"}}, {}, "denied"),
        ({"approval": "deny"}, {"approval": False}, "denied"),
        ({"approval": "deny"}, {"approval": True}, "denied"),
        ({"approval": "allow"}, {"approval": True}, "waits"),
        ({"approval": "ask"}, {"approval": lambda *_: False}, "waits"),
        ({"approval": "ask"}, {"approval": ApprovalPolicy(decide=lambda _: True)}, "ran"),
        ({"approval": "deny"}, {"approval": ApprovalPolicy(decide=lambda _: True)}, "denied"),
        ({"approval": "deny"}, {"approval": ApprovalPolicy(rules={"it.tell": "allow"})}, "ran"),
        ({"approval": "deny"}, {"approval": ApprovalPolicy(rules={"it.*": "allow", "tell": "allow"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"it.tell": "deny"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"it.tell": "ask"})}, "waits"),
        ({}, {"approval": ApprovalPolicy(rules={"it.*": "deny"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"it.te*": "ask"})}, "waits"),
        ({}, {"approval": ApprovalPolicy(rules={"*": "deny"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"*.tell": "deny"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"tell": "deny"})}, "denied"),
        ({}, {"approval": ApprovalPolicy(rules={"it.TELL": "ask"})}, "waits"),
        ({}, {"approval": ApprovalPolicy(rules={"it.fail": "deny", "other.*": "deny"})}, "ran"),
        ({}, {"approval": ApprovalPolicy(rules={"it.*": "deny", "it.tell": "allow"})}, "ran"),
        ({}, {"approval": ApprovalPolicy(rules={"it.t*": "ask", "it.*": "deny"})}, "waits"),
        ({}, {"approval": ApprovalPolicy(rules={"it.*": "deny", "tell": "allow"})}, "denied"),
        ({"approval": {"tell": "allow"}}, {"approval": ApprovalPolicy(rules={"*": "deny"})}, "denied"),
        ({"approval": "ask"}, {"approval": ApprovalPolicy(rules={"*": "allow"})}, "waits"),
        ({}, {"approval": lambda *_: None}, "denied"),
    ],
)
async def test_what_becomes_of_a_call(own: dict[str, Any], more: dict[str, Any], expected: str) -> None:
    assert await outcome(entry(**own), **more) == expected


@each_row("approval, expected", [("deny", "denied"), ({"tell": "ask"}, "waits")])
async def test_rules_of_an_entry_count_wherever_it_is_read(approval: Any, expected: str, tmp_path: Path) -> None:
    config = entry(approval=approval)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(config))
    for source in (str(file), load_servers(config).servers):
        assert await outcome(source) == expected


async def test_a_value_and_a_composed_server_have_their_rules_too() -> None:
    (server,) = load_servers(entry(approval={"tell": "deny"})).servers
    model = ScriptedModel([ToolCall("1", "x__tell", {}), ToolCall("2", "x__structure", {}), "done"])
    async with Agent(model, tools=[prefixed(server, "x")], tool_search=False) as agent:
        await agent.ask("go")
    errors = [part.error for message in model.requests[-1].messages for part in message.tool_results]
    assert errors == ["denied", None]
    env = {"LEAKS": "SAID", "SAID": "it ran"}
    value = McpServer("it", sys.executable, [str(SERVER)], env, approval=(("*", "deny"),))
    assert await outcome([value]) == "denied"


@pytest.mark.parametrize("request_of", ["resource", "prompt"])
async def test_a_prompt_and_a_resource_are_denied_by_their_signs(request_of: str) -> None:
    rules = {"@x:*": "deny", "/p": "deny"}
    arguments = {"resource": {"server": "it", "uri": "x://"}, "prompt": {"server": "it", "name": "p"}}[request_of]
    model = ScriptedModel([ToolCall("1", f"get_{request_of}", arguments), "done"])
    async with Agent(model, mcp_config=entry(approval=rules), tool_search=False) as agent:
        await agent.ask("go")
    (result,) = [part for message in model.requests[-1].messages for part in message.tool_results]
    assert result.error == "denied"


async def test_an_answer_edits_no_call_into_a_denied_one() -> None:
    rules = {"@x:*": "deny", "*": "allow"}
    model = ScriptedModel([ToolCall("1", "get_resource", {"server": "it", "uri": "y://"}), "done"])
    async with Agent(model, mcp_config=entry(approval=rules), tool_search=False, approval=True) as agent:
        with pytest.raises(CallsPendingError) as pending:
            await agent.ask("go")
        (request,) = pending.value.requests
        await agent.resume([request.approve({"server": "it", "uri": "x://"})])
    (result,) = [part for message in model.requests[-1].messages for part in message.tool_results]
    assert result.error == "denied"


@each_row("own", [{"disabled": True}, {"enabled": False}, {"disabled_tools": ["tell"]}, {"enabled_tools": ["fail"]}])
async def test_what_is_disabled_or_not_enabled_is_not_there(own: dict[str, Any]) -> None:
    model = ScriptedModel(["done"])
    async with Agent(model, mcp_config=entry(**own), tool_search=False) as agent:
        await agent.ask("go")
    assert "tell" not in {tool.name for tool in model.requests[0].tools}


def test_a_rule_that_means_nothing_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r'ApprovalPolicy.rules\["it.tell"\]: expected allow, ask or deny'):
        ApprovalPolicy(rules={"it.tell": "maybe"})  # type: ignore[dict-item]


@each_row(
    "rules, words",
    [
        ({1: "deny"}, 'ApprovalPolicy.rules: expected names such as "git.git_push", got int 1'),
        ({"": "deny"}, "ApprovalPolicy.rules: expected names such as \"git.git_push\", got ''"),
        ({None: "deny"}, "got None"),
        ({("a", "b"): "deny"}, "got tuple"),
        ({"a": ["deny"]}, 'ApprovalPolicy.rules["a"]: expected allow, ask or deny, got list'),
        ([1], 'ApprovalPolicy.rules: expected an object such as {"git.git_push": "deny"}, got list'),
        (lambda context: {}, "expected a function (), got one that cannot be called so"),
    ],
)
def test_rules_of_a_wrong_type_are_one_line(rules: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ApprovalPolicy(rules=rules)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_rules_that_a_function_returns_are_checked_too() -> None:
    for returned in ({"tell": "deny"}, None, 5):
        policy = ApprovalPolicy(rules=lambda returned=returned: returned)  # type: ignore[misc]
        with pytest.raises(ConfigError, match=r"ApprovalPolicy.rules\(\): expected Rules, got "):
            await outcome(entry(), approval=policy)
