"""`run_code`: checked before it runs, run in a sandbox, each call through the gate that direct calls go through."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any

import pytest

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CodeMode,
    ConfigError,
    Limits,
    PendingCall,
    RunOptions,
    ScriptedModel,
    ToolCall,
)
from mcpagent.values.events import Event, ToolCallFinished, ToolCallStarted
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.code_mode.programs_scene import SEARCH, Tools, told
from tests.tables import each_row

pytestmark = pytest.mark.anyio

F = "from tools.functions import add, fails, forbidden, listed, shout, slow\n"


async def test_what_the_model_is_offered_and_shown() -> None:
    model = ScriptedModel([SEARCH, "done"])
    async with Agent(model, tools=Tools().all, code_mode=True, pre_discovered_tools=["add"]) as agent:
        await agent.ask("go")
        (shown,) = [result.text for message in agent.messages for result in message.tool_results]
    assert [tool.name for tool in model.requests[0].tools] == ["search_tools", "run_code", "add"]
    assert model.requests[0].tools == model.requests[1].tools
    assert re.search(r"^- functions \(.+\), 5 tools$", model.requests[0].system, re.MULTILINE)
    assert 'async def shout(*, text: str) -> str:\n    """Shout a text."""' in shown
    assert "from tools.functions import" in shown


async def test_state_output_and_the_last_value() -> None:
    first, second, third = await told(
        F + 'x = await shout(text="a")\nprint("said", x)\nx',
        "n = 0\nfor _ in range(3):\n    n = await add(a=n)\nn",
        "print(x, n)",
    )
    assert [first.text, second.text, third.text] == ["said A\nA", "3", "A 3"]
    assert first.error is second.error is third.error is None


async def test_calls_over_a_limit_are_told_to_the_program_and_end_the_run() -> None:
    tools = Tools()
    program = (
        F
        + """
for word in ["a", "b", "c"]:
    try:
        print(await shout(text=word))
    except Exception as error:
        print(error)
"""
    )
    (result,) = await told(program, tools=tools, options=RunOptions(limits=Limits(tool_calls=2)))
    assert tools.ran == [("shout", "a"), ("shout", "b")]
    assert result.text.startswith("A\nB\n")
    assert "This call was not run: the limit of 2 tool calls is used up." in result.text


async def test_what_is_wrong_is_told_before_any_call() -> None:
    tools = Tools()
    (refused,) = await told(F + 'await shout(text="a")\nawait add(a="one")\nawait shout(txt="b")\nnope', tools=tools)
    assert refused.error == "invalid_arguments"
    assert refused.text.startswith("The program was not run, and made no call:\nline 3: invalid-argument-type")
    assert "line 5: unresolved-reference: Name `nope`" in refused.text
    assert 'await add(a="one")' in refused.text
    assert tools.ran == []


async def test_only_what_was_shown_can_be_imported_and_then_is() -> None:
    program = F.replace("add, fails, forbidden, listed, shout, slow", "shout") + 'await shout(text="a")'
    refused, done = await told(program, program, search=False)
    assert "were not shown before, and can be imported now:\nasync def shout(*, text: str)" in refused.text
    assert done.text == "A"


async def test_every_way_to_import() -> None:
    program = """import tools.functions as f, json
import tools
from tools import functions
from tools.functions import (
    shout as loud,
    add,
); y = 1
def inner():
    from tools.functions import shout
    return shout
print(await f.shout(text="a"), await tools.functions.shout(text="b"), await functions.add(a=1), await loud(text="c"))
await inner()(text=json.dumps([y]))"""
    (done,) = await told(program)
    assert done.text == "A B 2 C\n[1]"


async def test_calls_run_at_the_same_time() -> None:
    tools = Tools()
    program = F + "import asyncio\nawait asyncio.gather(*[slow(name=str(n)) for n in range(5)])"
    (done,) = await told(program, tools=tools)
    assert done.text == "['0', '1', '2', '3', '4']"
    assert tools.most_at_once == 5


async def test_results_are_data_and_their_shape_is_shown_next_time() -> None:
    model = ScriptedModel(
        [
            SEARCH,
            ToolCall("", "run_code", {"code": F + "sum(item['id'] for item in await listed(count=4))"}),
            SEARCH,
            "done",
        ]
    )
    async with Agent(model, tools=Tools().all, code_mode=True) as agent:
        await agent.ask("go")
        results = [result.text for message in agent.messages for result in message.tool_results]
    assert results[1] == "6"
    assert "A result seen (not promised): list[{'id': int, 'name': str}]" in results[2]
    assert "not promised" not in results[0]


async def test_an_exception_has_its_line_and_the_values_that_matter() -> None:
    failed, after = await told(
        F
        + "items = await listed(count=1)\nwanted = 3\ndef pick(n):\n    return items[n]\nprint('so far')\npick(wanted)",
        "wanted",
    )
    assert failed.error == "failed"
    assert (
        failed.text
        == "so far\nline 7: pick(wanted)\nline 5: return items[n]\nIndexError: list index out of range\n    wanted = 3"
    )
    assert after.text == "3"


async def test_a_call_that_fails_is_an_exception() -> None:
    program = (
        F
        + "try:\n    await fails(why='broken')\nexcept CallError as error:\n    print('caught', error)\n"
        + "await fails(why='again')"
    )
    (failed,) = await told(program)
    assert failed.text.startswith("caught RuntimeError: broken\nline 6: await fails(why='again')\nToolError:")


async def test_lines_are_those_of_the_program_that_failed() -> None:
    """Not those of an earlier program, whose function it calls."""
    _, failed = await told("\n\n\ndef half(n):\n    return 1 / n", "kept = 1\nhalf(0)")
    assert failed.text.splitlines()[:2] == ["line 2: half(0)", "ZeroDivisionError: division by zero"]


LARGE: list[tuple[str, str]] = [
    ("s = 'x' * 2_000_000\nawait shout(text=s)", "ValueError: arguments of 2,000,012 characters"),
    ("import asyncio\ns = 'x' * 1_000_000\nawait asyncio.gather(*[shout(text=s) for _ in range(50)])", "16,777,216"),
    ("def _mcpagent_shown(value, most):\n    return 'x' * 20_000_000\n1", "x" * 100),
    ("def _mcpagent_brief(read):\n    return 'x' * 20_000_000\nn = 0\n1 / n", "n = " + "x" * 200),
]


@each_row("program, words", LARGE)
async def test_what_crosses_to_this_process_is_bounded(program: str, words: str) -> None:
    (done,) = await told(F + program, code_mode=CodeMode(output_tokens=0))
    assert words in done.text
    assert len(done.text) < 1_001_000


HOSTILE_RESULTS: list[tuple[ToolOutput, str, str]] = [
    (
        ToolOutput((), structured={"k": 10**5_000}),
        "await give()",
        "ToolError: give was called, but its result is no",
    ),
    (ToolOutput((), structured={1: {2}}), "await give()", "ToolError: give was called, but its result is no JSON"),
    (ToolOutput((), structured={"k": float("inf")}), "(await give())['k'] > 1", "True"),
    (ToolOutput((), structured={"k": "\ud800"}), "(await give())['k']", "?"),
    (ToolOutput.of_text("a\ud800b"), "len(await give())", "3"),
    (ToolOutput.of_text("[" * 100_000), "len(await give())", "100000"),
    (ToolOutput.of_text("{'not': json"), "await give()", "{'not': json"),
    (ToolOutput((), structured="__import__('os').system('true')"), "await give()", "__import__('os').system('true')"),
    (ToolOutput.of_text("x" * 20_000_000), "await give()", "give was called, but its result has 20,000,001 characters"),
    (ToolOutput.of_text("no\x1b[31m\nline 1: fake", error="failed"), "await give()", "ToolError: no line 1: fake"),
]


async def test_what_a_tool_gives_is_data() -> None:
    """In one conversation: whatever was given, the variables of the program that asked for it are there after it."""
    left = iter([output for output, _, _ in HOSTILE_RESULTS])

    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        return next(left)

    give = Tool(ToolDefinition("give", "Give.", {"type": "object"}, original_name="give"), run)
    search = ToolCall("", "search_tools", {"query": "select:give"})
    programs = [
        code
        for number, (_, program, _) in enumerate(HOSTILE_RESULTS)
        for code in (f"from tools.functions import give\nkept = {number}\n{program}", "kept")
    ]
    model = ScriptedModel([search, *(ToolCall("", "run_code", {"code": code}) for code in programs), "done"])
    options = RunOptions(limits=Limits(turns=1_000))
    async with Agent(model, tools=[give], code_mode=True, options=options) as agent:
        await agent.ask("go")
        _, *results = [one.text for message in agent.messages for one in message.tool_results]
    for number, (_, program, words) in enumerate(HOSTILE_RESULTS):
        assert words in results[2 * number], program
        assert results[2 * number + 1] == str(number), program
    assert next(left, None) is None


async def test_a_run_that_is_cancelled_amid_gather_ends_its_calls_and_keeps_the_variables() -> None:
    both, begun, ended = asyncio.Event(), list[str](), list[str]()

    async def block(name: str) -> str:
        """Wait for good."""
        begun.append(name)
        if len(begun) == 2:
            both.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        return name

    search = ToolCall("", "search_tools", {"query": "select:block"})
    gathers = "import asyncio\nfrom tools.functions import block\nkept = 2\n"
    gathers += "await asyncio.gather(block(name='a'), block(name='b'))"
    codes = [ToolCall("", "run_code", {"code": code}) for code in ("kept = 1", gathers, "kept")]
    async with Agent(ScriptedModel([search, *codes, "done"]), tools=[block], code_mode=True) as agent:
        asking = asyncio.create_task(agent.ask("go"))
        async with asyncio.timeout(20):
            await both.wait()
            asking.cancel()
            await asyncio.wait({asking})
        assert asking.cancelled()
        assert sorted(ended) == ["a", "b"]
        assert await agent.ask("go on") == "done"
        results = [one for message in agent.messages for one in message.tool_results]
    assert [one.error for one in results] == [None, None, "cancelled", None]
    assert results[-1].text == "1"


async def test_arguments_that_are_no_json_are_not_sent() -> None:
    tools = Tools()
    (failed,) = await told(F + "x: float = float('nan')\nawait listed(count=x)  # type: ignore", tools=tools)
    assert "it has no NaN" in failed.text
    assert tools.ran == []


async def test_events_stand_under_the_call_that_runs_the_program() -> None:
    events: list[Event] = []
    (done,) = await told(F + "await add(a=1)\nawait shout(text='x')", events=events)
    started = [event for event in events if isinstance(event, ToolCallStarted) and event.parent]
    finished = [event for event in events if isinstance(event, ToolCallFinished) and event.parent]
    assert [(event.call.name, event.call.arguments) for event in started] == [
        ("add", {"a": 1}),
        ("shout", {"text": "x"}),
    ]
    assert {event.parent for event in started} == {event.parent for event in finished} == {done.call_id}
    assert [event.result.text for event in finished] == ["2", "X"]


async def test_a_person_is_asked_and_what_is_denied_is_an_exception() -> None:
    tools, asked = Tools(), list[PendingCall]()

    async def decide(request: PendingCall) -> bool:
        asked.append(request)
        await asyncio.sleep(0)
        return bool(request.arguments["path"] == "a")

    program = (
        F
        + "print(await forbidden(path='a'))\n"
        + "try:\n    await forbidden(path='b')\nexcept CallError as error:\n    print(error)"
    )
    policy = ApprovalPolicy(lambda _, tool, __: tool.name == "forbidden", decide)
    (done,) = await told(program, tools=tools, approval=policy)
    assert done.error is None, done.text
    assert [request.arguments for request in asked] == [{"path": "a"}, {"path": "b"}]
    assert tools.ran == [("forbidden", "a")]
    assert done.text == (
        'deleted a\nThe user declined this call of "forbidden".\n'
        "(calls without a usable result: denied: functions.forbidden)"
    )


async def test_a_call_ends_at_its_limit_of_time_and_the_program_goes_on() -> None:
    async def forever(name: str) -> str:
        """Wait."""
        await asyncio.Event().wait()
        return name

    tools = Tools()
    program = "from tools.functions import forever"
    program += "\ntry:\n    await forever(name='x')\nexcept TimeoutError:\n    print('late')"
    tools.slow = forever  # type: ignore[method-assign]
    results = await told("1", program, program, tools=tools, options=RunOptions(tool_timeout_seconds=0.05))
    assert results[2].text == "late\n(calls without a usable result: unknown outcome: functions.forever)"


LIMITS: list[tuple[dict[str, Any], str, str]] = [
    ({"seconds": 0.2}, "while True:\n    pass", "TimeoutError"),
    ({"memory_mb": 16}, "x = [0]\nwhile True:\n    x = x * 2", "MemoryError"),
    ({"calls": 3}, F + "for n in range(9):\n    await add(a=n)", "3 calls, which is the limit"),
    ({"seconds": 1.0}, "while True:\n    print('x' * 100000)", "MemoryError"),
]


@each_row("limit, program, words", LIMITS)
async def test_limits(limit: dict[str, Any], program: str, words: str) -> None:
    before, failed, after = await told("kept = 5", program, "kept", code_mode=CodeMode(**limit))
    assert before.error is None
    assert failed.error == "failed"
    assert words in failed.text
    assert len(failed.text) < 20_000
    assert after.text == "5"


async def test_a_large_output_is_set_aside_and_can_be_read() -> None:
    """As any large result: whole, with the readers behind the tools that were offered before."""
    program = F + "rows = await listed(count=2000)\nprint(len(rows))\nimport json\njson.dumps(rows)"
    model = ScriptedModel(
        [
            SEARCH,
            ToolCall("", "run_code", {"code": program}),
            lambda request: ToolCall("", "read_large_output", {"handle": _handle(request), "start_line": 1}),
            "done",
        ]
    )
    async with Agent(model, tools=Tools().all, code_mode=True) as agent:
        await agent.ask("go")
        _, ran, read = [result for message in agent.messages for result in message.tool_results]
    assert ran.set_aside is not None
    assert ran.set_aside.tokens > 15_000
    assert len(ran.text) < 4_000
    assert read.error is None
    assert read.text.startswith("2000") or "2000" in read.text[:200]
    offered = [[tool.name for tool in request.tools] for request in model.requests]
    assert offered[1] == ["search_tools", "run_code"]
    assert offered[2][:3] == ["search_tools", "run_code", "read_large_output"]


def _handle(request: Any) -> str:
    last = [result for message in request.messages for result in message.tool_results][-1]
    assert last.set_aside is not None
    return str(last.set_aside.handle)


@each_row("tokens", [0, 50])
async def test_how_much_is_shown_can_be_set(tokens: int) -> None:
    (done,) = await told("print('a' * 9000 + 'z')", code_mode=CodeMode(output_tokens=tokens))
    assert (done.set_aside is None) == (tokens == 0)
    assert (done.text == "a" * 9000 + "z") == (tokens == 0)


async def test_results_inside_a_program_are_whole_values() -> None:
    """None is set aside before the program has it, and nothing is offered to read what it did not show."""
    model = ScriptedModel(
        [SEARCH, ToolCall("", "run_code", {"code": F + "len(await shout(text='a' * 90000))"}), "done"]
    )
    events: list[Event] = []
    options = RunOptions(large_result_tokens=100)
    async with Agent(model, tools=Tools().all, code_mode=CodeMode(), options=options, on_event=events.append) as agent:
        await agent.ask("go")
        ran = [result for message in agent.messages for result in message.tool_results][-1]
    assert ran.text == "90000"
    assert [tool.name for tool in model.requests[-1].tools] == ["search_tools", "run_code"]
    (inner,) = [event for event in events if isinstance(event, ToolCallFinished) and event.parent]
    assert inner.result.set_aside is None


async def test_calls_that_were_not_awaited_are_told() -> None:
    tools = Tools()
    (done,) = await told(F + "later = shout(text='x')\nprint(1)", tools=tools)
    assert tools.ran == []
    assert done.error is None


async def test_a_name_may_mean_something_else_in_the_next_program() -> None:
    first, second = await told(F + "r = await shout(text='x')", "r = 3\nr + 1")
    assert (first.error, second.text) == (None, "4")


async def test_without_the_interpreter_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(ConfigError, match=r"pip install 'mcpagent\[code\]'"):
        async with Agent(ScriptedModel(["hi"]), code_mode=True):
            pass


async def test_a_direct_call_of_a_function_runs() -> None:
    model = ScriptedModel([SEARCH, ToolCall("", "shout", {"text": "a"}), "done"])
    tools = Tools()
    async with Agent(model, tools=tools.all, code_mode=True) as agent:
        await agent.ask("go")
        results = [result for message in agent.messages for result in message.tool_results]
    assert (results[1].error, results[1].text) == (None, "A")
    assert tools.ran == [("shout", "a")]
