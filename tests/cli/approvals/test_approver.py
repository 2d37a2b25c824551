"""Which calls run, which are asked about, which are denied; and what a denial looks like from outside."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mcpagent import Agent
from mcpagent.cli.approvals.approval_box import Asking, ask_about_call, box_lines
from mcpagent.cli.approvals.approver import Approver, Reply, label_of
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import ApproveMode, Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Glyphs, Terminal, make_console
from mcpagent.config import ServerConfig
from mcpagent.models import ScriptedModel
from mcpagent.permissions.decision import CallFacts, Decision, Rules, decide, entry_rules
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.values.approval import CallAnswer, PendingCall
from mcpagent.values.messages import ResourceRequest, ToolCall, ToolDefinition, ToolResult
from tests.permissions.judging import PRINTS, is_stored, rules_of, verdict
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, server_option
from tests.terminal.warm import on_a_terminal, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")

READS = ToolDefinition("log", "", {}, server="git", original_name="git_log", read_only=True)
PUSHES = ToolDefinition("git__push", "", {}, server="git", original_name="git_push", read_only=False)
SILENT = ToolDefinition("status", "", {}, server="git", original_name="status")
GIT = ServerConfig("git", command="git-server")


def request_of(tool: ToolDefinition, **arguments: Any) -> PendingCall:
    return PendingCall.of("approval", ToolCall("1", tool.name, arguments), tool)


def test_a_tool_has_the_name_that_its_own_server_gives_it() -> None:
    assert label_of(PUSHES) == "git.git_push"
    assert label_of(ToolDefinition("f", "", {})) == "f"
    assert label_of(None, "x\x1b[31m") == "x[31m"


NAMES = [
    *(
        "push",
        "pu\u200bsh",
        "push\n",
        "push ",
        "Push",
        '"push"',
        "push\\n",
        "\u202epush",
        "push\u3000",
        '"pu\\u200bsh"',
    ),
    *('push" wants to run -- server says: only reads', "push wants to run -- server says: only reads"),
]


def test_no_two_tools_look_alike_and_none_speaks_for_us() -> None:
    shown = [label_of(ToolDefinition("x", "", {}, "git", name)) for name in NAMES]
    assert shown[0] == "git.push"
    assert shown[1] == 'git."pu\\u200bsh"'
    assert len(set(shown)) == len(shown)
    for label in shown:
        inside = label.removeprefix("git.")
        assert " " not in inside or re.fullmatch(r'"([^"\\]|\\.)*"', inside)
        assert inside.isprintable() or "\u3000" in inside


@each_row("width", [40, 60, 100])
def test_what_a_title_cuts_stands_below_it(width: int) -> None:
    name = "read_the_status_of_the_repository_and_then_delete_everything_in_it_please"
    tool = ToolDefinition("x", "", {}, "git", name)
    arguments = {"a" * 50 + "1": 1, "a" * 50 + "2": 2}
    lines = [line.plain for line in box_lines(arguments, label_of(tool), tool, Glyphs(), width)]
    joined = re.sub(r"[\s\u2502|]", "", "".join(lines[1:]))
    assert f"git.{name}" in (joined if width < 100 else lines[0])
    assert "\u2502 server does not say what it does" in lines[1]
    assert {cell_len(line) for line in lines[:3]} == {width}
    assert "a" * 50 + "1" in joined
    assert "a" * 50 + "2" in joined


class Person:
    """Answers in order, and keeps what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[str] = []

    async def __call__(
        self, request: PendingCall, label: str, tool: ToolDefinition | None, decision: Decision | None
    ) -> Reply:
        self.asked.append(label)
        return self.replies.pop(0)


def approver(
    person: Person | None,
    stored: StoredApprovals | None = None,
    *,
    mode: ApproveMode = "ask",
    rules: Rules | None = None,
) -> Approver:
    return Approver(rules or Rules(mode), stored or StoredApprovals(None, PRINTS), person)


async def decided(made: Approver, tool: ToolDefinition, *servers: ServerConfig, **arguments: Any) -> CallAnswer | bool:
    """The answer to a call of this tool as a run comes to it: by the rules, and where they ask, by the approver."""
    request = request_of(tool, **arguments)
    call = CallFacts(tool, arguments, tuple(rule for server in servers for rule in entry_rules(server)))
    decision = decide(call, made.rules)
    if decision.verdict != "allow":
        made.note(request, call, decision)
    return await made(request) if decision.verdict == "ask" else decision.verdict == "allow"


async def answered(made: Approver, tool: ToolDefinition, **arguments: Any) -> CallAnswer:
    answer = await decided(made, tool, **arguments)
    assert isinstance(answer, CallAnswer)
    return answer


async def test_yes_for_once_asks_again_and_yes_for_the_chat_does_not() -> None:
    person = Person(Reply("once"), Reply("session"))
    made = approver(person)
    for _ in range(2):
        assert (await answered(made, PUSHES)).approved
    for _ in range(2):
        assert await decided(made, PUSHES) is True
    assert person.asked == ["git.git_push", "git.git_push"]
    assert not made.denials


async def test_this_session_is_for_the_tool_as_it_was_shown() -> None:
    wildcard = replace(PUSHES, name="star", original_name="*")
    person = Person(Reply("session"), Reply("no"), Reply("no"))
    made = approver(person)
    assert (await answered(made, wildcard)).approved
    assert await decided(made, wildcard) is True
    assert not (await answered(made, SILENT)).approved
    assert not (await answered(made, replace(wildcard, description="now something else"))).approved
    assert person.asked == ['git."*"', "git.status", 'git."*"']


async def test_an_answer_reaches_as_far_as_it_says(tmp_path: Path) -> None:
    for scope, others in (("tool", True), ("call", False), ("server", True)):
        path = tmp_path / f"{scope}.json"
        made = approver(Person(Reply(scope), Reply("no")), StoredApprovals(path, PRINTS))  # type: ignore[arg-type]
        assert (await answered(made, PUSHES, branch="main")).approved
        assert await decided(made, PUSHES, branch="main") is True
        assert (await decided(made, PUSHES, branch="dev") is True) is others
        assert (is_stored(StoredApprovals(path, PRINTS), SILENT)) is (scope == "server")


async def test_always_with_edited_arguments_is_for_the_edited_ones() -> None:
    made = approver(Person(Reply("call", {"branch": "dev"}), Reply("no")))
    assert (await answered(made, PUSHES, branch="main")).arguments == {"branch": "dev"}
    assert await decided(made, PUSHES, branch="dev") is True
    assert not (await answered(made, PUSHES, branch="main")).approved


async def test_edited_arguments_replace_the_calls_own() -> None:
    answer = await answered(approver(Person(Reply("once", {"branch": "dev"}))), PUSHES, branch="main")
    assert (answer.approved, answer.arguments) == (True, {"branch": "dev"})


async def test_a_yes_to_an_edited_request_for_a_resource_is_kept_for_none_by_its_old_name(tmp_path: Path) -> None:
    page = ResourceRequest("get_resource", "", {}, "git", "notes:///a")
    stored = StoredApprovals(tmp_path / "approvals.json", PRINTS)
    made = approver(Person(Reply("tool", {"uri": "notes:///b"})), stored)
    answer = await answered(made, page, uri="notes:///a")
    assert (answer.approved, answer.arguments) == (True, {"uri": "notes:///b"})
    assert stored.held == frozenset()


async def test_no_tells_the_model_why() -> None:
    made = approver(Person(Reply("no", words="use dev")))
    answer = await answered(made, PUSHES)
    assert (answer.approved, answer.message) == (False, "use dev")
    assert [denial.line() for denial in made.denials] == ["denied: git.git_push (you said no)"]


@each_row("mode", ["ask", "safe", "none"])
async def test_where_nobody_can_be_asked_the_flag_that_would_allow_it_is_named(mode: ApproveMode) -> None:
    made = approver(None, mode=mode)
    answer = await decided(made, PUSHES)
    assert (answer is False) == (mode != "ask")
    if isinstance(answer, CallAnswer):
        assert not answer.approved
        assert "no one can be asked here" in answer.message
        assert not answer.asked
    assert made.denials[0].line().endswith("allow it with --allow git.git_push")


async def test_a_rule_denies_without_asking() -> None:
    made = approver(person := Person(Reply("once")), rules=rules_of("ask", deny=["git.*"]))
    assert await decided(made, PUSHES) is False
    assert person.asked == []
    assert [denial.line() for denial in made.denials] == ["denied: git.git_push (--deny git.*)"]


async def test_a_call_of_an_earlier_run_is_denied_by_a_rule_and_allowed_by_a_person_alone() -> None:
    person = Person(Reply("once"))
    allowed = approver(person, rules=rules_of("all", ["git.*"]))
    assert (await allowed.again(request_of(PUSHES), CallFacts(PUSHES))).approved
    assert person.asked == ["git.git_push"]
    denied = approver(person, rules=rules_of("all", deny=["git.*"]))
    assert not (await denied.again(request_of(PUSHES), CallFacts(PUSHES))).approved
    assert [denial.line() for denial in denied.denials] == ["denied: git.git_push (--deny git.*)"]
    assert not (await approver(None).again(request_of(PUSHES), None)).approved


async def test_calls_of_get_resource_at_once_are_judged_each_for_its_own_server() -> None:
    person = Person(Reply("no"), Reply("once"))
    made = approver(person, rules=rules_of("ask", deny=["web.*"]))
    wanted = [
        (ResourceRequest("get_resource", "", {}, server, uri), {"server": server, "uri": uri})
        for server, uri in (("git", "a://1"), ("git", "a://2"), ("web", "a://1"))
    ]
    requests = [request_of(asked, **arguments) for asked, arguments in wanted]
    for request, (asked, arguments) in zip(requests, wanted, strict=True):
        call = CallFacts(asked, arguments)
        made.note(request, call, decide(call, made.rules))
    answers = [await made(request) for request in requests[:2]]
    assert [answer.approved for answer in answers] == [False, True]
    assert person.asked == ["@git:a://1", "@git:a://2"]
    assert [denial.label for denial in made.denials] == ["@web:a://1", "@git:a://1"]


@each_row(
    "tool, flag",
    [
        ("git_push", "--allow git.git_push"),
        ("*", "--allow 'git.[*]'"),
        ("x; rm -rf ~", "--allow 'git.x; rm -rf ~'"),
        ("it's", """--allow 'git.it'"'"'s'"""),
        ("pu\u200bsh\x1b[2J", "--allow 'git.pu?sh?[[]2J'"),
        ("a" * 1_000, f"--allow git.{'a' * 1_000}"),
    ],
)
async def test_the_flag_that_is_named_allows_this_tool_and_harms_no_shell(tool: str, flag: str) -> None:
    named = replace(PUSHES, original_name=tool)
    made = approver(None)
    assert not (await answered(made, named)).approved
    assert made.denials[0].flag == flag
    _, glob = shlex.split(flag)
    assert verdict(rules_of("ask", [glob]), named) == "allow"
    assert verdict(rules_of("ask", [glob]), SILENT) == "ask"


async def test_why_a_call_was_denied_names_the_rule() -> None:
    strict = replace(GIT, approval=(("git_push", "deny"),), source=".mcp.json:3")
    made = approver(None, mode="safe")
    await decided(made, PUSHES, strict)
    await decided(made, READS, strict)
    assert [denial.line() for denial in made.denials] == [
        "denied: git.git_push (approval is deny in .mcp.json:3)",
        "denied: git.git_log (--approve safe; its server says that it only reads, but is not trusted). "
        "allow it with --allow git.git_log",
    ]


# --- the box ----------------------------------------------------------------------------------------------------------


def drawn(arguments: dict[str, Any], tool: ToolDefinition = PUSHES, width: int = 100) -> list[str]:
    return [line.plain for line in box_lines(arguments, label_of(tool), tool, Glyphs(), width)]


def test_the_box_of_the_mock_up() -> None:
    assert drawn({"remote": "origin", "branch": "main"}) == [
        "┌ git.git_push wants to run ────────────────────────────────────────── server says: changes things ┐",
        "│ remote  origin                                                                                   │",
        "│ branch  main                                                                                     │",
        "└ [y] once  [s] session  always: [t] tool  [x] call  [a] server  [e] edit  [w] why  [?]  [N] no ───┘",
    ]


@given(
    st.dictionaries(st.text(max_size=60), st.text() | st.integers() | st.lists(st.text()), max_size=4),
    st.integers(20, 140),
)
def test_no_argument_can_leave_its_row(arguments: dict[str, Any], width: int) -> None:
    for glyphs in (Glyphs(), ASCII_GLYPHS):
        lines = [line.plain for line in box_lines(arguments, "git.git_push", PUSHES, glyphs, width)]
        assert all(cell_len(line) <= max(width, 24) + 20 for line in lines)
        assert not any(char in line for line in lines for char in "\n\r\x1b\x07\x9b")


def test_a_long_argument_says_that_it_goes_on_and_can_be_seen_whole() -> None:
    lines = drawn({"text": "\n".join(f"line {number}" for number in range(100))})
    assert any("70 more lines: [v] shows all" in line for line in lines)
    assert any("[v] view all" in line for line in lines)


async def reply(
    lines: Sequence[str],
    arguments: dict[str, Any] | None = None,
    tool: ToolDefinition = PUSHES,
    decision: Decision | None = None,
) -> tuple[Reply, str]:
    """What the box gives when these lines are typed, and what it shows."""
    typed = list(lines)
    shown = io.StringIO()

    async def read(question: str, default: str) -> str:
        if not typed:
            raise EOFError
        return typed.pop(0)

    asking = Asking(make_console(shown, "never", {}), Glyphs(), read)
    request = request_of(tool, **(arguments or {}))
    return await ask_about_call(asking, request, label_of(tool), tool, decision), shown.getvalue()


@each_row(
    "typed, expected",
    [
        (["y"], Reply("once")),
        (["Y "], Reply("once")),
        (["s"], Reply("session")),
        (["t"], Reply("tool")),
        (["a"], Reply("server")),
        (["x", "y"], Reply("once")),
        (["w", "y"], Reply("once")),
        ([""], Reply("no")),
        (["n"], Reply("no")),
        ([], Reply("no")),
        (["yy", "?", "jkl", "[A", "/help", "y"], Reply("once")),
        (["stop"], Reply("no", words="stop")),
        (["use branch dev"], Reply("no", words="use branch dev")),
        (["r", "y"], Reply("once")),
        (["e", '{"branch": "dev"}', "y"], Reply("once", {"branch": "dev"})),
        (["e", '{"branch": "dev"}', "n"], Reply("no")),
        (["e", "{}", "y"], Reply("once")),
        (["e", '{"branch": "dev"}', "e", '{"branch": "x"}', "t"], Reply("tool", {"branch": "x"})),
        (["e", "[1]", "e", "{", "n"], Reply("no")),
    ],
)
async def test_what_is_typed_is_an_answer_or_a_reason_for_no(typed: list[str], expected: Reply) -> None:
    assert (await reply(typed))[0] == expected


TAKES_A_BRANCH = replace(
    PUSHES, parameters={"type": "object", "properties": {"branch": {"type": "string"}}, "additionalProperties": False}
)


@each_row(
    "arguments, tool, offered",
    [
        ({"branch": "main"}, PUSHES, True),
        ({}, PUSHES, False),
        ({"text": "x" * 3_000}, PUSHES, False),
        ({"uri": "a://1"}, ResourceRequest("get_resource", "", {}, "git", "a://1"), False),
    ],
)
async def test_always_with_these_arguments_is_offered_where_it_makes_sense(
    arguments: dict[str, Any], tool: ToolDefinition, offered: bool
) -> None:
    answer, shown = await reply(["x", "y"], arguments, tool)
    assert ("[x] call" in shown) is offered
    assert answer == (Reply("call") if offered else Reply("once"))


async def test_why_shows_the_rule_and_where_it_is_written_and_asks_again() -> None:
    strict = replace(GIT, approval=(("git_*", "ask"),), source="mcp.json:7")
    for server, expected in (
        (strict, "a rule asks: approval is ask in mcp.json:7, git.approval.git_*"),
        (GIT, "no rule allows or denies it: --approve ask"),
    ):
        decision = decide(CallFacts(PUSHES, rules=entry_rules(server)), Rules("ask"))
        answer, shown = await reply(["w", "y"], {"branch": "main"}, decision=decision)
        assert answer == Reply("once")
        assert expected in " ".join(shown.split())
        assert "mcpagent permissions explain git.git_push" in shown


async def test_edited_arguments_have_to_fit_the_tool() -> None:
    answer, shown = await reply(["e", '{"branch": 3}', "e", '{"branch": "dev"}', "y"], tool=TAKES_A_BRANCH)
    assert answer == Reply("once", {"branch": "dev"})
    assert "not what the tool takes" in shown
    assert "the arguments are as before" in shown
    assert "branch  dev" in shown


async def test_what_only_reads_can_be_allowed_where_the_server_claims_it() -> None:
    answer, shown = await reply(["r"], tool=READS)
    assert answer == Reply("reads")
    assert "[r] reads" in shown
    assert "server says: only reads" in shown
    assert "[r]" not in (await reply(["n"]))[1]


async def test_nothing_in_the_arguments_is_hidden() -> None:
    hidden = {"path": "/tmp/\u202egpj.exe\x1b[2K\u200b", "n\u2066ame": ["\x07"]}
    _, shown = await reply(["n"], hidden)
    assert "/tmp/\\u202egpj.exe\\u001b[2K\\u200b" in shown
    assert "n\\u2066ame" in shown
    assert '["\\u0007"]' in shown


async def test_the_line_to_edit_hides_nothing_either() -> None:
    offered: list[str] = []

    async def read(question: str, default: str) -> str:
        offered.append(default)
        return ["e", default, "y"][len(offered) - 1]

    hidden = {"path": "a\u202e\x1bb\n"}
    asking = Asking(make_console(io.StringIO(), "never", {}), Glyphs(), read)
    answer = await ask_about_call(asking, request_of(PUSHES, **hidden), "git.git_push", PUSHES)
    assert offered[1] == '{"path": "a\\u202e\\u001bb\\n"}'
    assert answer == Reply("once")


def test_a_narrow_box_keeps_every_key() -> None:
    for glyphs in (Glyphs(), ASCII_GLYPHS):
        lines = [line.plain for line in box_lines({"remote": "origin"}, "git.git_log", READS, glyphs, 60)]
        assert all(cell_len(line) <= 60 for line in lines)
        shown = "\n".join(lines)
        assert all(f"[{key}]" in shown for key in "ysrtaeN")
        assert "server says: only reads" in shown


async def test_a_question_mark_explains_the_keys() -> None:
    for typed, is_stray, tool, arguments, keys in (
        ("?", False, PUSHES, {"branch": "main"}, ["x", "a"]),
        ("help", False, READS, {"branch": "main"}, ["x", "r", "a"]),
        ("jkl", True, PUSHES, {}, ["a"]),
    ):
        answer, shown = await reply([typed, "y"], arguments, tool)
        assert answer == Reply("once")
        help_lines = shown.partition("  y  run it once\n")[2].splitlines()
        explained = [line.split()[0] for line in help_lines if re.match(r"  \S  ", line)]
        assert ["y", *explained] == ["y", "s", "t", *keys, "e", "w", "?", "n"]
        assert ("to decline with that as the reason: n jkl\n" in shown) == is_stray
        assert ("no answer: jkl\n" in shown) == is_stray
        assert "always run everything of git" in shown


async def test_a_reason_of_one_word_is_given_behind_the_key_for_no() -> None:
    for typed, words in (("n tomorrow", "tomorrow"), ("no, tomorrow", "tomorrow"), ("not on main", "not on main")):
        answer, _ = await reply([typed], {})
        assert answer == Reply("no", words=words), typed


async def test_the_key_that_shows_all_lines_is_explained_if_some_are_hidden() -> None:
    arguments = {"text": "\n".join(f"line {number}" for number in range(100))}
    assert "  v  show all of the arguments\n" in (await reply(["?", "y"], arguments))[1]
    assert "  v  show all of the arguments\n" not in (await reply(["?", "y"], {"text": "short"}))[1]


async def test_v_shows_every_line() -> None:
    answer, shown = await reply(["v", "n"], {"text": "\n".join(f"line {number}" for number in range(100))})
    assert answer.scope == "no"
    assert "line 99" in shown


# --- one-shot runs ----------------------------------------------------------------------------------------------------


def pushes(called: str) -> ScriptedModel:
    return ScriptedModel([ToolCall("", called, {"remote": "origin", "branch": "main"}), "the answer"])


def ask(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    called: str = "push_branch",
    model: ScriptedModel | None = None,
    **changes: Any,
) -> tuple[ExitCode, str, str]:
    err = io.StringIO()
    terminal = Terminal(make_console(io.StringIO(), "auto", {}), make_console(err, "auto", {}), Glyphs())
    chosen = Options(
        server=(f"git='{sys.executable}' '{SMALL_SERVER}' writes",),
        environ={"MCPAGENT_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        folder=tmp_path,
    )
    script = model or pushes(called)
    code = ask_once(replace(chosen, **changes), "push it", terminal, model=script)
    return code, capsys.readouterr().out, err.getvalue()


def test_a_denied_call_has_its_own_exit_code_and_names_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, capsys) == (
        6,
        "the answer\n",
        "denied: git.push_branch (no one can be asked here). allow it with --allow git.push_branch\n",
    )
    model = pushes("push_branch")
    assert ask(tmp_path, capsys, model=model, denied_ok=True)[0] == 0
    assert model.requests[1].messages[-1].tool_results[0].text == (
        '"push_branch" was not run: it needs the user\'s approval, and no one can be asked here; '
        "it runs with --allow git.push_branch. Do not call it again."
    )
    for allowed in ({"allow": ("git.push_branch",)}, {"approve": "all"}):
        assert ask(tmp_path, capsys, **allowed) == (0, "the answer\n", "")
    assert ask(tmp_path, capsys, approve="all", deny=("git.push*",))[0] == 6


def test_rules_hold_for_tools_whose_name_several_servers_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tuple(f"{name}='{sys.executable}' '{SMALL_SERVER}' writes" for name in ("git", "hub"))

    def asked(**rules: Any) -> tuple[ExitCode, str]:
        code, _, err = ask(tmp_path, capsys, "git__push_branch", server=both, **rules)
        return code, "".join(line for line in err.splitlines() if line.startswith("denied: "))

    hint = "allow it with --allow git.push_branch"
    assert asked() == (6, f"denied: git.push_branch (no one can be asked here). {hint}")
    for glob in ("git.push_branch", "git__push_*"):
        assert asked(allow=(glob,)) == (0, "")
        assert asked(approve="all", deny=(glob,)) == (6, f"denied: git.push_branch (--deny {glob})")
    assert asked(allow=("hub.push_branch",))[0] == 6


def test_denials_are_in_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ask(tmp_path, capsys, output="json")
    assert code == 6
    [denial] = json.loads(out)["denials"]
    assert denial == {
        "tool_use_id": "call_1_0",
        "name": "push_branch",
        "server": "git",
        "input": {"remote": "origin", "branch": "main"},
        "reason": "no one can be asked here",
        "allow": "--allow git.push_branch",
    }


def test_a_rule_that_covers_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean git.push_branch?" in ask(tmp_path, capsys, allow=("git.push_brnch",))[2]


@pytest.mark.slow
def test_the_flags_and_their_variables(tmp_path: Path, changing_model: str) -> None:
    push = "push the branch main to the remote origin"
    question = ["-p", push, "-m", changing_model, "-q", *server_option("writes", "w")]
    denied = run(question, tmp_path)
    assert (denied.returncode, denied.stderr) == (
        6,
        "denied: w.push_branch (no one can be asked here). allow it with --allow w.push_branch\n",
    )
    allowed = run([*question, "--deny", "w.fail_*"], tmp_path, env={"MCPAGENT_ALLOW": "x.* w.push_branch"})
    assert allowed.returncode == 0, allowed.stderr
    assert "pushed main to origin" in allowed.stdout


def test_in_the_chat_the_box_asks(tmp_path: Path, changing_model: str) -> None:
    push = "push the branch main to the remote origin\r"
    with on_a_terminal(["-m", changing_model, *server_option("writes", "w")], tmp_path) as screen:
        screen.wait_for(r"mcp 1 ok │ ask")
        screen.type(push)
        box = screen.wait_for(r"run it\? \[N\]")
        assert "┌ w.push_branch wants to run ─" in box
        assert "│ remote  origin " in box
        assert "[y] once" in box
        screen.type("use dev\r")
        screen.wait_for(r"declined this call of \"push_branch\": use dev")
        screen.wait_for(r"\d requests")
        screen.type(push)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("\x03")
        screen.wait_for("stopped; the conversation can go on")
        screen.type(push)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("t\r")
        screen.wait_for("pushed main to origin")
        screen.wait_for(r"\d requests")
        screen.type("/allow\r")
        screen.wait_for(r"always w\.push_branch +this tool as it was shown")
        screen.wait_for("mcpagent permissions forget NAME")
        screen.type("/deny w.push*\r")
        screen.wait_for(r"deny +w\.push\*")
        screen.type(push)
        screen.wait_for("denied · ")
        screen.wait_for(r"\d requests")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert '"tool": "push_branch"' in (tmp_path / "home" / "state" / "approvals.json").read_text("utf-8")


@pytest.mark.slow
def test_a_one_shot_run_on_a_terminal_asks_too(tmp_path: Path, changing_model: str) -> None:
    arguments = ["-m", changing_model, *server_option("writes", "w"), "push the branch main to the remote origin"]
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for(r"run it\? \[N\]")
        screen.type("y\r")
        screen.wait_for("pushed main to origin")
        assert screen.exit_code() == 0


@pytest.mark.slow
def test_arguments_are_edited_and_the_tool_allowed_for_this_session(tmp_path: Path, changing_model: str) -> None:
    push = "push the branch main to the remote origin\r"
    with on_a_terminal(["-m", changing_model, *server_option("writes", "w")], tmp_path) as screen:
        screen.wait_for(r"mcp 1 ok │ ask")
        screen.type(push)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("e\r")
        screen.wait_for(r'arguments .*"branch": "main"')
        screen.type('\x15{"remote": "origin", "branch": "dev"}\r')
        assert "│ branch  dev " in screen.wait_for(r"run it\? \[N\]")
        screen.type("s\r")
        screen.wait_for("pushed dev to origin")
        screen.wait_for(r"\d requests")
        screen.type(push)
        screen.wait_for("pushed main to origin")
        screen.wait_for(r"\d requests")
        screen.type("\x04")
        assert screen.exit_code() == 0
    assert not (tmp_path / "home" / "state" / "approvals.json").exists()


@pytest.mark.slow
def test_why_is_shown_and_a_call_is_allowed_with_its_arguments_for_good(tmp_path: Path, changing_model: str) -> None:
    main, dev = (f"push the branch {branch} to the remote origin\r" for branch in ("main", "dev"))
    with on_a_terminal(["-m", changing_model, *server_option("writes", "w")], tmp_path) as screen:
        screen.wait_for(r"mcp 1 ok │ ask")
        screen.type(main)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("w\r")
        screen.wait_for("no rule allows or denies it: --approve ask")
        screen.wait_for("mcpagent permissions explain w.push_branch")
        screen.type("x\r")
        screen.wait_for("pushed main to origin")
        screen.wait_for(r"\d requests")
        screen.type(main)
        screen.wait_for("pushed main to origin")
        screen.wait_for(r"\d requests")
        screen.type(dev)
        screen.wait_for(r"run it\? \[N\]")
        screen.type("n\r")
        screen.wait_for(r"\d requests")
        screen.type("\x04")
        assert screen.exit_code() == 0
    [kept] = json.loads((tmp_path / "home" / "state" / "approvals.json").read_text("utf-8"))["allow"]
    assert (kept["what"], kept["tool"]) == ("call", "push_branch")
    assert "main" not in json.dumps(kept)


@pytest.mark.slow
def test_a_narrow_dumb_terminal_gets_plain_lines(tmp_path: Path, changing_model: str) -> None:
    arguments = ["-m", changing_model, *server_option("writes", "w"), "push the branch main to the remote origin"]
    plain = {"TERM": "dumb", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with on_a_terminal(arguments, tmp_path, columns=60, env=plain) as screen:
        box = screen.wait_for(r"run it\? \[N\]")
        lines = [line for line in box.splitlines() if line.startswith(("+", "|"))]
        assert lines[0].startswith("+ w.push_branch wants to run -")
        assert all(len(line) == 60 for line in lines)
        assert "  always: [t] tool  [x] call  [a] server" in box
        assert box.isascii()
        screen.type("\x03")
        assert screen.exit_code() == 130
    assert "\x1b" not in screen.raw


async def test_calls_at_once_are_asked_about_one_after_the_other() -> None:
    shown: list[str] = []

    class Slow:
        """Says no to the second, and would mix them up if both were asked at once."""

        async def __call__(
            self, request: PendingCall, label: str, tool: ToolDefinition | None, decision: Decision | None
        ) -> Reply:
            shown.append(f"asks {request.arguments}")
            await asyncio.sleep(0)
            shown.append(f"answered {request.arguments}")
            return Reply("once" if request.arguments["number"] != 2 else "no", words="not two")

    def book(number: int) -> str:
        """Books."""
        return f"booked {number}"

    made = Approver(Rules("ask"), StoredApprovals(None, {}), Slow())
    calls = [ToolCall(str(number), "book", {"number": number}) for number in (1, 2, 3)]
    script = ScriptedModel([calls, "done"])
    async with Agent(script, tools=[book], approval=made.policy()) as agent:
        await agent.ask("book all")
        [results] = [message for message in agent.messages if message.role == "tool"]
    assert shown == [f"{verb} {{'number': {number}}}" for number in (1, 2, 3) for verb in ("asks", "answered")]
    texts = [part.text for part in results.parts if isinstance(part, ToolResult)]
    assert texts[0] == "booked 1"
    assert "not two" in texts[1]
    assert texts[2] == "booked 3"
    assert [denial.line() for denial in made.denials] == ["denied: book (you said no)"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such lock there")
async def test_a_yes_holds_while_another_program_has_the_folder_and_nothing_waits_for_it(tmp_path: Path) -> None:
    import fcntl

    handle = os.open(tmp_path, os.O_RDONLY)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        made = approver(Person(Reply("tool")), StoredApprovals(tmp_path / "approvals.json", PRINTS))
        assert (await answered(made, PUSHES)).approved
        assert await decided(made, PUSHES) is True
    finally:
        beating.cancel()
        os.close(handle)
    assert beats > 5
    assert not (tmp_path / "approvals.json").exists()
