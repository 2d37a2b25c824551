"""What leaves for a server because a model wanted it, whatever it is and whoever asks: judged by the same rules.

Every test looks at what the server received.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shlex
import sys
from contextlib import nullcontext
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console
from mcpagent.config import ServerConfig
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.run.agent_run import RunContext
from mcpagent.values.approval import CallsPendingError, PendingCall
from mcpagent.values.messages import ToolCall, ToolDefinition
from tests.scenes import call, results
from tests.servers.door_server import over_http, over_stdio, received
from tests.tables import each_row
from tests.terminal.process import on_a_terminal

PATIENT = ServerOptions(startup_seconds=None)

WISHES: dict[str, tuple[str, dict[str, Any], tuple[str, str], str]] = {
    "tool that reads": ("read", {}, ("tools/call", "read"), "web.read"),
    "tool": ("push", {}, ("tools/call", "push"), "web.push"),
    "listed resource": (
        "get_resource",
        {"server": "web", "uri": "notes://today"},
        ("resources/read", "notes://today"),
        "@web:notes://today",
    ),
    "resource of a template": (
        "get_resource",
        {"server": "web", "uri": "notes://monday"},
        ("resources/read", "notes://monday"),
        "@web:notes://monday",
    ),
    "model's own URI": (
        "get_resource",
        {"server": "web", "uri": "file:///etc/passwd"},
        ("resources/read", "file:///etc/passwd"),
        "@web:file:///etc/passwd",
    ),
    "prompt": (
        "get_prompt",
        {"server": "web", "name": "review", "arguments": {"code": "x"}},
        ("prompts/get", "review"),
        "/web:review",
    ),
}
"""What a model may want: its call, what the server then receives, and the rule that names it."""

READS = {"tool that reads", "listed resource"}
RESOURCES = {"listed resource", "resource of a template", "model's own URI"}
ALL = set(WISHES)

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "nothing said": ({}, {}, set()),
    "trusted": ({"trust_hints": True}, {}, READS),
    "trusted, safe": ({"trust_hints": True}, {"approve": "safe"}, READS),
    "trusted, none": ({"trust_hints": True}, {"approve": "none"}, set()),
    "trusted, all denied": ({"trust_hints": True}, {"deny": ("web.*",), "approve": "all"}, set()),
    "trusted, ask": ({"trust_hints": True, "approval": (("*", "ask"),)}, {}, set()),
    "safe": ({}, {"approve": "safe"}, set()),
    "all": ({}, {"approve": "all"}, ALL),
    "allowed": ({}, {"allow": ("web.*",), "approve": "none"}, ALL),
    "another server allowed": ({}, {"allow": ("we.*", "web.evil.*", "push", "get_*", "*b.*")}, set()),
    "denied in the configuration": ({"approval": (("*", "deny"),)}, {"approve": "all", "allow": ("*",)}, set()),
    "resources denied": ({}, {"deny": ("@web:*",), "allow": ("*",)}, ALL - RESOURCES),
    "some allowed": ({}, {"allow": ("@web:notes://*", "/web:review")}, (RESOURCES | {"prompt"}) - {"model's own URI"}),
    "by kind": ({"approval": (("@notes://t*", "allow"), ("/*", "allow"))}, {}, {"listed resource", "prompt"}),
    "get_resource denied": ({}, {"deny": ("get_resource",), "approve": "all"}, ALL - RESOURCES),
}
"""What is said of the server, what on the command line, and what then reaches the server if nobody can be asked."""


def entry(server: ServerConfig) -> dict[str, Any]:
    """The server as a file has it."""
    said: dict[str, Any] = {"trust": server.trust_hints}
    if server.approval:
        said["approval"] = dict(server.approval)
    return {**said, **({"url": server.url} if server.url else {"command": server.command, "args": [*server.args]})}


def ask(tmp_path: Path, server: ServerConfig, calls: list[ToolCall], **chosen: Any) -> tuple[int, str]:
    """A one-shot run in which the model makes these calls; the exit code, and what stood on stderr."""
    home = tmp_path / "home"
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": {server.name: entry(server)}}), "utf-8")
    err = io.StringIO()
    terminal = Terminal(make_console(io.StringIO(), "auto", {}), make_console(err, "auto", {}), Glyphs())
    environ = {"MCPAGENT_HOME": str(home), "PATH": os.environ["PATH"]}
    options = Options(**{"environ": environ, "folder": tmp_path, "tool_search": "off", **chosen})
    code = ask_once(options, "go", terminal, model=ScriptedModel([calls, "the answer"]))
    return code, " ".join(err.getvalue().split())


def wishes() -> list[ToolCall]:
    return [ToolCall(identity, name, arguments) for identity, (name, arguments, _, _) in WISHES.items()]


def reached(log: Path) -> set[str]:
    by_request = {sent: wish for wish, (_, _, sent, _) in WISHES.items()}
    return {by_request[sent] for sent in received(log)}


@pytest.mark.parametrize(
    "door",
    ["http", *(pytest.param(door, marks=pytest.mark.slow) for door in ("stdio", "card"))],
)
@pytest.mark.parametrize("said", RULES)
def test_what_reaches_a_server_where_nobody_can_be_asked(said: str, door: str, tmp_path: Path) -> None:
    of_server, chosen, expected = RULES[said]
    log = tmp_path / "received"
    web = over_http("web", log) if door == "http" else nullcontext(over_stdio("web", log))
    with web as server:
        server = replace(server, **of_server)
        if door == "card":
            card = tmp_path / "home" / "config" / "card.md"
            card.parent.mkdir(parents=True)
            servers = json.dumps({"web": entry(server)})
            card.write_text(f"---\ntype: agent\nname: clerk\nmcp_servers: {servers}\n---\nHelp.\n", "utf-8")
            chosen = {**chosen, "card": card}
        code, err = ask(tmp_path, server, wishes(), **chosen)
    assert reached(log) == expected, err
    assert code == (0 if expected == ALL else 6)
    for wish in ALL - expected:
        assert f"denied: {WISHES[wish][3]} (" in err


def test_the_flag_that_is_named_lets_just_that_through(tmp_path: Path) -> None:
    log = tmp_path / "received"
    with over_http("web", log) as server:
        _, err = ask(tmp_path, server, wishes())
        assert reached(log) == set()
        for wish in ALL:
            [line] = [part for part in err.split("denied: ") if part.startswith(f"{WISHES[wish][3]} (")]
            flag, rule = shlex.split(line.partition("allow it with ")[2])[:2]
            assert flag == "--allow"
            ask(tmp_path, server, wishes(), allow=(rule,))
            assert reached(log) == {wish}
            log.unlink()


async def test_a_library_is_asked_about_what_is_wanted_of_which_server(tmp_path: Path) -> None:
    asked: list[tuple[str, str | None, str, bool | None]] = []
    shown: list[tuple[str, str | None, str]] = []

    def predicate(_: RunContext[Any], tool: ToolDefinition, __: dict[str, Any]) -> bool:
        asked.append((tool.kind, tool.server, tool.original_name, tool.read_only))
        return tool.read_only is not True

    def decide(request: PendingCall) -> bool:
        shown.append((request.tool, request.server, request.description))
        return request.tool == "get_prompt"

    log = tmp_path / "received"
    policy = ApprovalPolicy(predicate, decide)
    model = ScriptedModel([wishes(), "done"])
    config = [over_stdio("web", log)]
    async with Agent(model, mcp_config=config, options=RunOptions(servers=PATIENT), approval=policy) as agent:
        await agent.ask("go")
        denied = {result.call_id for result in results(agent.messages) if result.error == "denied"}
    assert asked == [
        ("tool", "web", "read", True),
        ("tool", "web", "push", False),
        ("resource", "web", "notes://today", True),
        ("resource", "web", "notes://monday", None),
        ("resource", "web", "file:///etc/passwd", None),
        ("prompt", "web", "review", None),
    ]
    assert shown[-1] == (
        "get_prompt",
        "web",
        'Gets the prompt "review" of the server "web", with these arguments.',
    )
    assert shown[-2] == (
        "get_resource",
        "web",
        'Reads the resource "file:///etc/passwd" of the server "web", which does not list it.',
    )
    assert reached(log) == {*READS, "prompt"}
    assert denied == ALL - {*READS, "prompt"}


async def test_an_answer_is_for_one_resource_and_another_process_can_give_it(tmp_path: Path) -> None:
    log = tmp_path / "received"
    config = [over_stdio("web", log)]
    wanted = call("get_resource", "r", server="web", uri="file:///etc/passwd")
    async with Agent(
        ScriptedModel([wanted]), mcp_config=config, options=RunOptions(servers=PATIENT), approval=True
    ) as agent:
        with pytest.raises(CallsPendingError) as caught:
            await agent.ask("go")
        [request] = caught.value.requests
        assert agent.pending == (request,)
        history = agent.messages
    assert (request.server, request.tool) == ("web", "get_resource")
    assert received(log) == []
    other = call("get_resource", "r", server="web", uri="file:///etc/shadow")
    forged = [*history[:-1], replace(history[-1], parts=(other,))]
    for messages, expected in ((forged, []), (history, [("resources/read", "file:///etc/passwd")])):
        model = ScriptedModel(["ok"])
        async with Agent(model, mcp_config=config, options=RunOptions(servers=PATIENT), approval=True) as agent:
            session = agent.session(request.session, messages=messages)
            await session.resume([PendingCall.from_json(request.to_json()).approve()])
        assert received(log) == expected


async def test_what_an_agent_wants_that_another_agent_asked_is_judged_too(tmp_path: Path) -> None:
    log = tmp_path / "received"
    member = Agent(
        ScriptedModel([wishes(), "done"]),
        mcp_config=[over_stdio("web", log)],
        options=RunOptions(servers=PATIENT),
        approval=True,
    )
    asked: list[str] = []

    def decide(request: PendingCall) -> bool:
        asked.append(request.tool)
        return request.tool == "get_prompt"

    model = ScriptedModel([call("helper", prompt="go"), "done"])
    tools = [member.as_tool("helper", "Helps.")]
    async with member, Agent(model, tools=tools, approval=ApprovalPolicy(False, decide)) as agent:
        await agent.ask("go")
    assert sorted(asked) == ["get_prompt", "get_resource", "get_resource", "get_resource", "push", "read"]
    assert reached(log) == {"prompt"}


NAMES = ("push", "Push", "pu\u200bsh", "push\u00a0", "push.", "ｐｕｓｈ", "pus\u00adh", "p\U000e0041ush", "pull")
"""What could pass for `push`, and what could not."""


@each_row("rules", [{"deny": ("web.push",)}, {"deny": ("push",)}, {"approval": {"push": "deny"}}])
def test_what_denies_a_tool_denies_what_could_pass_for_it(rules: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "received"
    with over_http("web", log, NAMES) as server:
        if "approval" in rules:
            server = replace(server, approval=(("push", "deny"),))
            rules = {}
        offered = asyncio.run(_offered(server))
        ask(tmp_path, server, [call(name, f"c{at}") for at, name in enumerate(offered)], approve="all", **rules)
    assert received(log) == [("tools/call", "pull")]


def test_what_allows_a_tool_allows_no_other(tmp_path: Path) -> None:
    log = tmp_path / "received"
    with over_http("web", log, NAMES) as server:
        offered = asyncio.run(_offered(server))
        ask(tmp_path, server, [call(name, f"c{at}") for at, name in enumerate(offered)], allow=("web.push",))
    assert received(log) == [("tools/call", "push")]


async def _offered(server: ServerConfig) -> list[str]:
    async with Agent(ScriptedModel([]), mcp_config=[server], options=RunOptions(servers=PATIENT)) as agent:
        return [name for name, tool in agent.known_tools.items() if tool.server == server.name]


@each_row(
    "options, expected",
    [({"disabled_tools": ("push",)}, ["pull"]), ({"enabled_tools": ("push",)}, ["push"])],
)
async def test_what_is_disabled_stays_so_in_another_spelling(
    options: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    with over_http("web", tmp_path / "received", NAMES, **options) as server:
        assert await _offered(server) == expected


@pytest.mark.slow
def test_names_of_any_length_and_of_any_characters_are_told_apart(tmp_path: Path) -> None:
    long = "a" * 300
    names = (f"{long}x", f"{long}y", "*", "[ab]", "a?", "git.push")
    for allowed in names:
        log = tmp_path / f"received {names.index(allowed)}"
        server = over_stdio("a.b/c:d_E", log, names)
        offered = asyncio.run(_offered(server))
        calls = [call(name, f"c{at}") for at, name in enumerate(offered)]
        ask(tmp_path, server, calls, allow=(f"a.b/c:d_E.{escape(allowed)}",))
        assert received(log) == [("tools/call", allowed)]


def test_a_rule_that_fits_nothing_says_so(tmp_path: Path) -> None:
    log = tmp_path / "received"
    server = replace(over_stdio("web", log), approval=(("psuh", "deny"), ("push", "ask"), ("/reviw", "allow")))
    allow = (
        "push",
        "web.pus",
        "@web:file:///x",
        "/web:review",
        "@wbe:notes://today",
        "web.*",
        "*.push",
        "get_resource",
    )
    _, err = ask(tmp_path, server, [], allow=allow, deny=("read", "web.nothing"))
    assert [part.split(":")[0] for part in err.split("--allow or --deny ")[1:]] == [
        "push",
        "web.pus",
        "@wbe",
        "get_resource",
        "web.nothing",
    ]
    assert "--allow or --deny push: nothing of that name is known; did you mean web.push?" in err
    assert "approval of web psuh: nothing of that name is known; did you mean web.push?" in err
    assert "approval of web /reviw: nothing of that name is known; did you mean /web:review?" in err
    assert "approval of web push" not in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")
def test_in_a_chat_the_box_shows_what_is_wanted_of_whom(tmp_path: Path, changing_model: str) -> None:
    log = tmp_path / "received"
    server = over_stdio("web", log)
    started = f"web='{server.command}' " + " ".join(f"'{part}'" for part in server.args)
    wanted = 'call get_resource {"server": "web", "uri": "file:///etc/passwd"}\r'
    with on_a_terminal(["-m", changing_model, "--server", started], tmp_path) as screen:
        screen.wait_for(r"mcp 1 ok │ ask")
        screen.type(wanted)
        box = screen.wait_for(r"run it\? \[N\]")
        assert "┌ @web:file:///etc/passwd wants to run ─" in box
        assert "resource, not listed by its server" in box
        screen.type("n\r")
        screen.wait_for(r"\d requests")
        assert received(log) == []
        screen.type(wanted)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("t\r")
        screen.wait_for("content of file:///etc/passwd")
        screen.wait_for(r"\d requests")
        screen.type('call get_resource {"server": "web", "uri": "file:///etc/shadow"}\r')
        screen.wait_for(r"run it\? \[N\]")
        screen.type("n\r")
        screen.wait_for(r"\d requests")
        screen.type("/allow\r")
        screen.wait_for(r"always @web:file:///etc/passwd +this resource")
        screen.type("/deny @web:file:*\r")
        screen.wait_for("covers what is read there, listed or not")
        screen.wait_for(r"deny +@web:file:\*")
        screen.type(wanted)
        screen.wait_for("denied · ")
        screen.wait_for(r"\d requests")
        screen.type("/web:review code=x\r")
        screen.wait_for(r"\d request ")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert received(log) == [("resources/read", "file:///etc/passwd"), ("prompts/get", "review")]
