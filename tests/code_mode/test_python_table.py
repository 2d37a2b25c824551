"""The table of the interpreter is that of the installed version, and programs print what Python prints."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mcpagent import CodeMode
from mcpagent.code_mode.program_source import fed, library_code, parsed
from mcpagent.code_mode.python_table import declared_builtins, interpreter, library, offered_modules
from mcpagent.code_mode.rewriting import unsupported
from mcpagent.code_mode.sandbox import Ended, Sandbox, Waiting
from tests.code_mode.idioms import IDIOMS
from tests.code_mode.interpreter_table import measured
from tests.code_mode.test_type_checks import judged

pytestmark = pytest.mark.anyio

STUB = """from typing import Any, TypedDict
class Row(TypedDict):
    kind: str
    n: int
class User(TypedDict):
    id: int
    name: str
async def rows() -> list[Row]: ...
async def user(*, id: int) -> User: ...
async def fail(*, why: str) -> Any: ...
"""

REWRITTEN = """from __future__ import annotations
import collections, asyncio
from typing import TypedDict, NamedTuple
from tools.it import rows, user

class Entry(TypedDict):
    n: int

def counted(most):
    for n in range(most):
        if n == 2:
            yield from (10, 11)
        yield n

def once():
    yield 1

async def named(number):
    return (await user(id=number))["name"]

entry: Entry = Entry(n=3)
data = {"a": 1, "b": [1, 2, 3]}
del data["a"], data["b"][0]
upper = "abc".upper
squares = (n * n for n in counted(4))
print(entry, data, upper(), list(squares), list(once()))
print(await asyncio.gather(named(1), named(2)))
found = await rows()
print(collections.Counter(row["kind"] for row in found).most_common())
print(sorted(map(str.upper, {row["kind"] for row in found})), any(row["n"] > 3 for row in found))
"""
"""A program with each statement that is rewritten for the interpreter."""


def result_of(path: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of a tool."""
    match path:
        case "it.rows":
            return [{"kind": "ab"[n % 2], "n": n} for n in range(5)]
        case "it.user":
            return {"id": arguments["id"], "name": f"user {arguments['id']}"}
        case _:
            raise RuntimeError(arguments["why"])


def printed_by_python(source: str) -> str:
    """Run the program in this Python and return its output."""
    modules = ast.parse(source)
    names: dict[str, Any] = {}
    for path in ("rows", "user", "fail"):

        async def call(path: str = path, **arguments: Any) -> Any:
            return result_of(f"it.{path}", arguments)

        names[path] = call
    kept = [one for one in modules.body if not (isinstance(one, ast.ImportFrom) and one.module == "tools.it")]
    modules.body = kept
    code = compile(modules, "idiom", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if (coroutine := eval(code, names)) is not None:
            asyncio.run(coroutine)
    return printed.getvalue()


async def printed_by_program(source: str) -> str:
    """Check the program and run it in the sandbox; return its output, or why it did not run."""
    program = parsed(source)
    if lacks := unsupported(program.tree):
        return f"refused: {lacks}"
    async with Sandbox(CodeMode(seconds=30)) as sandbox:
        problems, _ = await judged(sandbox, program.source, STUB)
        if problems:
            return f"refused: {problems}"
        await sandbox.begin(b"", library_code(program.tree))
        functions = {name: f'_mcpagent_function("it.{name}")' for name in ("rows", "user", "fail")}
        step = await sandbox.feed(fed(program, {"it": functions}))
        while isinstance(step, Waiting):
            answers: dict[int, dict[str, Any]] = {}
            for asked in step.asked:
                try:
                    answers[asked.id] = {
                        "return_value": "j" + json.dumps(result_of(asked.path, json.loads(asked.arguments)))
                    }
                except RuntimeError as error:
                    answers[asked.id] = {"exc_type": "RuntimeError", "message": str(error)}
            step = await sandbox.go_on(answers)
        return sandbox.printed if isinstance(step, Ended) else f"failed: {step}"


async def differing(sources: Sequence[str]) -> list[str]:
    """Return the programs that print something else than in Python, with both outputs."""
    found = []
    for source in sources:
        expected = await asyncio.to_thread(printed_by_python, source)
        printed = await printed_by_program(source)
        if printed != expected:
            found.append(f"{source}\n--- {printed}\n--- {expected}")
    return found


async def test_a_program_with_each_rewritten_statement_prints_what_python_prints() -> None:
    assert await differing([REWRITTEN]) == []


@pytest.mark.slow
async def test_common_idioms_print_what_python_prints() -> None:
    assert len(IDIOMS) == 165
    found = await differing(IDIOMS)
    print(f"{len(found)} of {len(IDIOMS)} idioms differ:", *found, sep="\n\n")
    assert len(found) <= 15, "\n\n".join(found)


async def test_the_table_is_that_of_the_installed_interpreter() -> None:
    assert measured() == interpreter()


def test_texts_list_what_the_table_and_the_library_have() -> None:
    assert {"json", "statistics", "re"} <= set(offered_modules())
    assert set(library()) <= set(offered_modules())
    assert {"map", "getattr", "PermissionDenied", "callable"} <= {*declared_builtins()}
    assert "open" in interpreter()["builtins"]
