"""What a type checker cannot know is no reason to refuse a program; what is surely wrong is."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from mcpagent import CodeMode
from mcpagent.code_mode.program_source import with_context
from mcpagent.code_mode.sandbox import Sandbox
from mcpagent.code_mode.stubs import HEADER
from mcpagent.code_mode.type_checks import Problem, certain, reported
from tests.code_mode import judged_programs
from tests.tables import each_row

pytestmark = pytest.mark.anyio

STUB = f"""{HEADER}
class Row(TypedDict):
    id: str
    mode: NotRequired[Literal['a', 'b'] | None]
Odd = TypedDict("Odd", {{'a b': int}})
async def save(*, row: Row | None = None, rows: list[Row] = ..., deep: list[list[Row]] = ...) -> Any: ...
async def odd(*, value: Odd) -> Any: ...
async def pick(*, mode: Literal['a', 'b'] = 'a', many: list[Literal['a', 'b']] | None = None) -> Any: ...
async def long(*, mode: Literal[{", ".join(f"'v{n}'" for n in range(40))}]) -> Any: ...
async def level(*, n: Literal[1, 2] = 1, f: list[float] | None = None, t: list[str] | None = None) -> Any: ...
async def free(*, given: dict[str, Any]) -> Any: ...
async def get() -> Row: ...
"""

RIGHT = """
row = {'id': 'x', 'mode': 'a'}
await save(row=row)
await save(row=dict(id='x'))
await save(rows=[row])
rows = [{'id': str(n)} for n in range(3)]
await save(rows=rows, deep=[rows, [row]])
await save(row={**(await get()), 'id': 'y'})
await odd(value={'a b': 1})
value = {'a b': 1}
await odd(value=value)
await pick(mode='A'.lower(), many='a,b'.split(','))
def with_mode(mode: str): return pick(mode=mode, many=[mode])
await with_mode('a')
await save(row={'id': 'x', 'mode': str('a')})
await long(mode=str('v39'))
await level(n=len('a'), f=[n for n in range(3)], t=('a', 'b'))
await free(given=await get())
await free(given=row)
many = {'a': 1, 'b': 'c', 'd': [1], 'e': {'f': 1}, 'g': 1.5, 'h': b'', 'i': (1,), 'j': {1}, 'k': ['a']}
await save(row=many)
"""

WRONG = """
await save(row={'ident': 'x'})
await save(row={'id': 1})
await save(row={'id': 'x', 'mode': 'c'})
await save(rows=[{'id': 1}])
await save(row='x')
await save(row=[row])
await save(rows=row)
await odd(value={'a b': 'x'})
await pick(mode='c')
await pick(mode=1)
await pick(many=[1])
await long(mode='w1')
await level(n=3)
await level(n=str(1))
await level(f=['a'])
await level(t=('a', 1))
await level(t={'a'})
await free(given=[1])
"""


async def judged(sandbox: Sandbox, program: str, stub: str) -> tuple[list[Problem], int]:
    """Return the certain problems of a program, and the number of lines before it."""
    source, before = with_context([], program)

    async def check(text: str) -> list[Problem]:
        return await sandbox.check(text, {"it": stub})

    found = [one for one in await check(source) if one.line > before or one.line <= 0]
    return await certain(check, source, before, found, {"it": stub}) if found else [], before


async def test_a_right_program_passes_and_each_wrong_line_is_told() -> None:
    program = "from tools.it import save, odd, pick, long, level, free, get" + RIGHT + WRONG.lstrip()
    async with Sandbox(CodeMode(seconds=60)) as sandbox:
        found, before = await judged(sandbox, program, STUB)
    lines = program.splitlines()
    told = {lines[problem.line - before - 1] for problem in found}
    assert [line for line in RIGHT.splitlines() if line in told] == []
    assert [line for line in WRONG.splitlines() if line and line not in told] == []


async def refused_of(programs: Sequence[str]) -> list[str]:
    """Return the programs that are refused."""
    refused = []
    async with Sandbox(CodeMode(seconds=60)) as sandbox:
        for program in programs:
            sure, _ = await judged(sandbox, judged_programs.IMPORTS + program, judged_programs.STUB)
            if sure:
                refused.append(program)
    return refused


async def test_some_wrong_programs_are_refused_and_right_ones_are_not() -> None:
    wrong, right = judged_programs.WRONG[::16], judged_programs.RIGHT[::16]
    refused = await refused_of([*wrong, *right])
    assert [program for program in right if program in refused] == []
    assert len(refused) >= len(wrong) - 1, [program for program in wrong if program not in refused]


@pytest.mark.slow
async def test_wrong_programs_are_refused_and_right_ones_are_not() -> None:
    assert (len(judged_programs.WRONG), len(judged_programs.RIGHT)) == (193, 80)
    refused = await refused_of(judged_programs.WRONG)
    passed = [program for program in judged_programs.WRONG if program not in refused]
    print(f"{len(passed)} of 193 wrong programs pass:", *passed, sep="\n\n")
    assert len(passed) <= 10, passed
    assert await refused_of(judged_programs.RIGHT) == []


ODD = (
    "Expected `Row`, found `dict[`",
    "Expected `, found `",
    "Expected `" + "list[" * 300 + "int" + "]" * 300 + "`, found `list[int]`",
    "Expected `Literal[`]`, found `str`",
    "Expected `" + "(" * 900 + "`, found `str`",
    "Expected `int`, found `str" + "x" * 5_000,
    "declared type `int` on TypedDict `Row`: value of type `\ud800`",
    "",
)


@each_row("message", ODD)
def test_what_cannot_be_read_stays_a_problem(message: str) -> None:
    one = {"location": {"row": 3}, "code": "invalid-argument-type", "message": message, "severity": "error"}
    (found,) = reported(json.dumps([one]))
    assert (found.line, found.message) == (2, message)


def test_a_report_that_is_none_is_told() -> None:
    assert [one.message for one in reported("no report")] == ["no report"]
