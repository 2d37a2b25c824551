"""After a program's output the model reads what became of its calls, and sees its images."""

from __future__ import annotations

import asyncio
import base64
import struct
import zlib
from typing import Any

import pytest

from mcpagent import Agent, ApprovalPolicy, CodeMode, Image, ScriptedModel, ToolCall
from mcpagent.values.messages import Text, ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.code_mode.programs_scene import told
from tests.tables import each_row

pytestmark = pytest.mark.anyio

F = "from tools.functions import add, fails, forbidden, shout\nimport asyncio\n"
ASKS = "async def ask(n):\n    try:\n        await forbidden(path=str(n))\n    except PermissionDenied:\n        pass\n"

REPORTS: list[tuple[str, str]] = [
    ("r = await asyncio.gather(fails(why='x'), return_exceptions=True)", "(calls without a usable result: failed: "),
    ("print(add(a=1))", "(never awaited, so not run: functions.add; write `await`)"),
    ("x = [add(a=n) for n in range(3)]", "(never awaited, so not run: functions.add (3 times); write `await`)"),
    ("async def own():\n    return 1\nx = own()", "(never awaited, so not run: own; write `await`)"),
]


@each_row("program, words", REPORTS)
async def test_what_a_program_swallows_is_in_a_line_after_its_output(program: str, words: str) -> None:
    (result,) = await told(F + program)
    assert words in result.text.splitlines()[-1]


async def test_awaited_coroutines_are_not_reported() -> None:
    (result,) = await told(F + "later = add(a=1)\nasync def own():\n    return await later\nprint(await own())")
    assert result.text == "2"


async def test_after_three_denials_a_program_asks_no_more() -> None:
    asked: list[str] = []

    async def decide(request: Any) -> bool:
        await asyncio.sleep(0)
        asked.append(request.arguments["path"])
        return False

    policy = ApprovalPolicy(lambda _, tool, __: tool.name == "forbidden", decide)
    together = F + ASKS + "await asyncio.gather(*[ask(n) for n in range(60)])\nprint('finished')"
    (result,) = await told(together, approval=policy)
    assert len(asked) == 3
    assert result.text == "finished\n(calls without a usable result: denied: functions.forbidden (60 times))"


KINDS: list[tuple[str, str]] = [("denied", "PermissionDenied"), ("server_down", "ServerUnavailable")]
KINDS += [("timeout", "OutcomeUnknown"), ("failed", "ToolError")]


@each_row("kind, name", KINDS)
async def test_each_kind_of_failure_has_its_exception(kind: Any, name: str) -> None:
    async def give(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text("no", error=kind)

    tool = Tool(ToolDefinition("give", "Give.", {"type": "object", "properties": {}}), give)
    others = [one for _, one in KINDS if one != name]
    caught = (
        f"try:\n    await give()\nexcept ({', '.join(others)}):\n    print('other')\nexcept {name}:\n    print('own')"
    )
    base = "try:\n    await give()\nexcept CallError:\n    print('base')"
    results = await results_of([tool], f"from tools.functions import give\n{caught}\n{base}\nawait give()")
    assert results[0].startswith(f"own\nbase\nline 12: await give()\n{name}: no")


PROMISE = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
BROKEN = "(results that break the output schema of their own server: functions.give: "

BREACHES: list[tuple[Any, str, str, str]] = [
    ({"n": 7}, "seven", "print((await give())['n'])", "7"),
    ({"n": "x"}, "seven", "print((await give())['n'])", f"x\n{BROKEN}n: "),
    (None, '{"n": 7}', "r = await give()\nprint(r['n'])", f"7\n{BROKEN}it has no structured content)"),
]


@each_row("structured, text, program, shown", BREACHES)
async def test_a_result_that_breaks_its_schema_is_a_value_and_in_a_line_after_the_output(
    structured: Any, text: str, program: str, shown: str
) -> None:
    """As for direct calls, the data stays whole and a sentence names the problem."""

    async def give(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput((Text(text),), structured=structured)

    definition = ToolDefinition("give", "Give.", {"type": "object", "properties": {}})
    tool = Tool(definition, give, output_schema=PROMISE)
    (result,) = await results_of([tool], f"from tools.functions import give\n{program}")
    assert result.startswith(shown), result
    assert result.count(BROKEN) == int(structured != {"n": 7})
    assert "(2 times)" not in result


async def results_of(tools: list[Tool], *programs: str, parts: list[Any] | None = None) -> list[str]:
    """Return the texts of the results of programs; `parts` gets their other parts."""
    calls = [ToolCall("", "run_code", {"code": program}) for program in programs]
    search = ToolCall("", "search_tools", {"query": f"select:{','.join(tool.name for tool in tools)}"})
    async with Agent(ScriptedModel([search, *calls, "done"]), tools=tools, code_mode=CodeMode()) as agent:
        await agent.ask("go")
        found = [result for message in agent.messages for result in message.tool_results if result.name == "run_code"]
    if parts is not None:
        parts += [part for result in found for part in result.content if not isinstance(part, Text)]
    return [result.text for result in found]


def picture() -> str:
    """Return a PNG of one pixel, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + header + data).decode()


IMAGES: list[tuple[str, int, str]] = [
    ("show(await draw())", 1, "(1 image shown)"),
    ("(await draw())[0]", 1, "(1 image shown)"),
    ("for _ in range(20):\n    show(await draw())", 10, "(10 images shown; 10 more were left out)"),
    ("show({'image': 'image/png', 'data': 'bm8='})", 0, "is no image"),
]


@each_row("program, count, words", IMAGES)
async def test_shown_images_are_image_parts_of_the_result(program: str, count: int, words: str) -> None:
    async def draw(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput((Image("image/png", picture()),))

    tool = Tool(ToolDefinition("draw", "Draw.", {"type": "object", "properties": {}}), draw)
    parts: list[Any] = []
    (text,) = await results_of([tool], f"from tools.functions import draw\n{program}", parts=parts)
    assert [type(part) for part in parts] == [Image] * count, text
    assert words in text
    assert picture() not in text
