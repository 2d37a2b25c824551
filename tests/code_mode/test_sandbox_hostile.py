"""What runs in the sandbox reaches nothing of this machine, and ends within its limits."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, CodeMode, Limits, RunOptions, ScriptedModel, Sessions, ToolCall
from mcpagent.code_mode.prelude import FUNCTION, LAST, SHOWN
from mcpagent.code_mode.program_source import ProgramError, fed, parsed
from mcpagent.code_mode.sandbox import Ended, Failed, Sandbox, Waiting
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.code_mode.hostile_programs import ESCAPES, FLOODS
from tests.code_mode.programs_scene import Tools, told
from tests.servers.leftovers import nothing_left

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECRET = "correct-horse-battery"


async def outcome(program: str, limits: CodeMode) -> str:
    """All that a program could tell: what it printed, its last value, its error."""
    async with Sandbox(limits) as sandbox:
        await sandbox.begin()
        step = await sandbox.feed(fed(parsed(program), {}))
        waits = 0
        while isinstance(step, Waiting):
            waits += 1
            assert waits < 10
            assert all(len(asked.path) < 200 for asked in step.asked)
            step = await sandbox.go_on(
                {asked.id: {"exc_type": "RuntimeError", "message": "no such tool"} for asked in step.asked}
            )
        assert isinstance(step, Ended | Failed)
        if isinstance(step, Failed):
            shown = f"{step.kind}: {step.message}"
        else:
            shown = await sandbox.value_of(f"{SHOWN}({LAST}, 5000)")
        return f"{sandbox.printed[:5_000]}\n{shown}"


async def test_nothing_of_the_machine_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(SECRET)
    monkeypatch.setenv("MCPAGENT_TEST_SECRET", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = str(server.getsockname()[1])
        for escape in ESCAPES:
            program = escape.replace("{file}", str(file)).replace("{port}", port).replace("{{", "{").replace("}}", "}")
            told_ = await outcome(program, CodeMode(seconds=2, memory_mb=64))
            words = told_.replace(str(file), "")  # what it was written with is no news
            assert SECRET not in told_, program
            for place in (os.getcwd(), str(tmp_path), str(Path.home()) + "/", "site-packages", ".venv"):
                assert place not in words, program
        with pytest.raises(BlockingIOError):
            server.accept()
    assert file.read_text() == SECRET


@pytest.mark.timeout(200)
async def test_each_flood_ends_and_the_loop_goes_on() -> None:
    limits = CodeMode(seconds=0.3, memory_mb=48)
    await outcome("1", limits)  # loads what there is to load
    async with nothing_left(most_lag_seconds=0.05):
        for flood in FLOODS:
            program = flood.replace("{{", "{").replace("}}", "}")
            try:
                told_ = await outcome(program, limits)
            except ProgramError:
                continue
            assert len(told_) < 20_000, program


def given(value: Any) -> Tool:
    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        return value if isinstance(value, ToolOutput) else ToolOutput((), structured=value)

    return Tool(ToolDefinition("give", "Give.", {"type": "object"}, original_name="give"), run)


A_TEXT = {"type": "string"}
G = "import asyncio\nfrom tools.functions import give\n"
ROWS = [{"a": 1, "b": [1, 2, 3], "c": "xyz"}]
MUCH: list[tuple[str, Any, str]] = [
    ("many dicts", None, "x = [{}] * 250_000\nawait give(v=x)"),
    ("nulls", None, "x = [{'a': None}] * 80_000\nawait give(v=x)"),
    ("long texts", None, "x = 'a' * 1_000_000\nlen(await asyncio.gather(*[give(v=x) for _ in range(15)]))"),
    ("rows", {"a": ROWS * 100_000}, "len(await give())"),
    ("rows as text", ToolOutput.of_text("[" + ", ".join(["[1]"] * 800_000) + "]"), "len(await give())"),
    ("not ASCII", ToolOutput.of_text("\N{SNOWMAN}" * 20_000_000), "len(await give())"),
    ("an error", ToolOutput.of_text("no " * 3_000_000, error="failed"), "await give()"),
    ("many calls", [1] * 600, "len(await asyncio.gather(*[give(v=n) for n in range(1000)]))"),
    ("many statements", 1, "a = 1; " * 4_000 + "1 / 0"),
    ("many lines", 1, "a = [1]\n" * 4_000 + "1 / 0"),
    ("many imports", 1, "import tools.functions\n" * 1_300 + "1"),
    ("variables", 1, "x = [str(n) for n in range(300_000)]\nlen(await asyncio.gather(*[give() for n in range(9)]))"),
]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("is_kept", [False, True])
async def test_the_loop_goes_on_whatever_crosses_to_this_process(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments, results, programs and variables: as much of each as there may be."""
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path))
    search = ToolCall("", "search_tools", {"query": "select:give"})
    options, code_mode = RunOptions(limits=Limits(tool_calls=2_000)), CodeMode(memory_mb=400, calls=1_000)
    for name, value, program in MUCH:
        programs = [ToolCall("", "run_code", {"code": code}) for code in ("1", G + program)]
        model = ScriptedModel([search, programs[0], "ready", programs[1], "done"])
        about: dict[str, Any] = {"sessions": Sessions(tmp_path / f"{name}.db")} if is_kept else {}
        async with Agent(model, tools=[given(value)], code_mode=code_mode, options=options, **about) as agent:
            session = agent.session(name)
            assert await session.ask("begin") == "ready"
            async with nothing_left(most_lag_seconds=0.05):
                assert await session.ask("go") == "done"
            (ran,) = session.messages[-2].tool_results
            assert "not run" not in ran.text, f"{name}: {ran.text}"


async def test_schemas_that_stand_for_much_hold_nobody() -> None:
    """Neither when they are found, nor when a program imports them. Tools with more values are left out."""
    kinds = {"type": ["array", "object"] * 500, "items": A_TEXT, "additionalProperties": {"enum": ["a"] * 500}}
    tools = [
        replace(given(1), definition=ToolDefinition(name, "", {"type": "object", "properties": properties}))
        for name in map("tool_{}".format, range(20))
        for properties in [{f"p{number}": {**kinds, "title": name} for number in range(6)}]
    ]
    search = ToolCall("", "search_tools", {"query": f"select:{','.join(tool.definition.name for tool in tools)}"})
    program = "from tools.functions import tool_1\nawait tool_1(p1=['a'], p2={'b': 'a'})"
    first, code = (ToolCall("", "run_code", {"code": one}) for one in ("1", program))
    async with Agent(ScriptedModel([first, "ready", search, code, "done"]), tools=tools, code_mode=True) as agent:
        assert await agent.ask("begin") == "ready"
        async with nothing_left(most_lag_seconds=0.05):
            assert await agent.ask("go") == "done"
        assert agent.messages[-2].tool_results[0].text == "1"


async def test_a_program_that_is_cancelled_ends_with_its_worker() -> None:
    limits = CodeMode(seconds=60)
    async with Sandbox(limits) as sandbox:
        await sandbox.begin()
        running = asyncio.create_task(sandbox.feed("while True:\n    pass"))
        await asyncio.sleep(0)
        pid = sandbox.worker
        running.cancel()
    assert pid is not None
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the worker is still there")


WRONG = {
    "argument": ["await add(a=1, c=2)", "await add()", "await shout(1)", "await shout(texts='a')", "await listed(n=1)"],
    "type": [
        "await add(a='1')",
        "await add(a=None)",
        "await add(a=[1])",
        "await shout(text=3)",
        "await listed(count='x')",
        "await listed(count=1.5)",
        "await shout(text=['a'])",
        "await shout(text=await add)",
    ],
    "name": [
        "await shuot(text='a')",
        "print(undefined)",
        "await tools.functions.shout(text='a')",
        "prnt(1)",
        "x = y + 1",
    ],
    "attribute": ["'a'.uper()", "[1].push(2)", "(1).real_part", "{'a': 1}.has('a')", "shout.name", "'a'.contains('b')"],
    "await": [
        "shout(text='a')",
        "for c in shout(text='a'):\n    pass",
        "len(shout(text='a'))",
        "shout(text='a') + 'b'",
    ],
    "import": ["from tools.functions import nope", "import tools.nope", "from tools import nope", "import requests"],
}
AROUND = (
    "{}",
    "if await add(a=1) > 0:\n    {}",
    "async def f():\n    {}\nawait f()",
    "for _ in [1, 2]:\n    {}",
    "try:\n    {}\nexcept ValueError:\n    pass",
    "x = 1\nwith_it = [x]\n{}\nprint(x)",
    "{}\nawait add(a=2)",
)


async def test_a_worker_that_dies_ends_its_program_and_nothing_else() -> None:
    async with Sandbox(CodeMode()) as sandbox:
        await sandbox.begin()
        step = await sandbox.feed(
            fed(parsed("from tools.a import b\nawait b(x=1)"), {"a": {"b": f'{FUNCTION}("a.b")'}})
        )
        assert isinstance(step, Waiting)
        assert sandbox.worker is not None
        os.kill(sandbox.worker, 9)
        ended = await sandbox.go_on({step.asked[0].id: {"return_value": "j1"}})
        assert isinstance(ended, Failed)
        assert (ended.kind, ended.is_lost) == ("SystemError", True)
        assert await sandbox.dumped() == b""
        assert await sandbox.value_of("1") is None


@pytest.mark.timeout(300)
async def test_nearly_all_wrong_programs_are_caught_before_a_call() -> None:
    """More than 200 of them; nine of ten at least, and none that is caught has made a call."""
    programs = [
        "from tools.functions import add, listed, shout\n" + around.format(line.replace("\n", "\n    "))
        for lines in WRONG.values()
        for line in lines
        for around in AROUND
    ]
    tools = Tools()
    (control,) = await told("from tools.functions import shout\nawait shout(text='control')", tools=tools)
    assert control.text == "CONTROL"
    found: list[bool] = []
    for start in range(0, len(programs), 8):  # after a longer row of failures the run would be ended
        results = await told(*programs[start : start + 8], tools=tools)
        found += [result.text.startswith("The program was not run, and made no call") for result in results]
    assert len(found) >= 200
    missed = [program for program, is_found in zip(programs, found, strict=True) if not is_found]
    assert sum(found) >= 0.9 * len(found), "\n---\n".join(missed)
