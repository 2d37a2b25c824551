"""Measure the Python of the installed interpreter: its builtins, modules, methods and statements.

    python -m tests.code_mode.interpreter_table > mcpagent/code_mode/interpreter.json

Candidates are the names of this Python, and those that later versions added. A name counts if the interpreter has it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.metadata
import io
import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic_monty as monty

LATER: Mapping[str, tuple[str, ...]] = {
    "base64": ("z85decode", "z85encode"),
    "copy": ("replace",),
    "csv": ("QUOTE_NOTNULL", "QUOTE_STRINGS"),
    "itertools": ("batched",),
    "math": ("fma", "sumprod"),
    "posixpath": ("isdevdrive", "isjunction", "splitroot"),
    "random": ("binomialvariate",),
    "re": ("PatternError",),
}
"""Names that Python 3.12 and 3.13 added, by module: any Python measures the same table."""

TYPES = (bool, bytes, complex, dict, float, frozenset, int, list, range, set, slice, str, tuple)
_UNUSABLE = frozenset({"antigravity", "this", "idlelib", "lib2to3", "turtledemo", "turtle", "tkinter", "test"})

STATEMENTS: Mapping[str, str] = {
    "assert": "assert True",
    "async comprehension": "async def f():\n    return [x async for x in y]",
    "async for": "async def f():\n    async for x in y:\n        pass",
    "async with": "async def f():\n    async with x:\n        pass",
    "class": "class A:\n    x = 1\n    def m(self):\n        return 1",
    "class decorator": "def d(c):\n    return c\n@d\nclass A:\n    pass",
    "class inheritance": "class A:\n    pass\nclass B(A):\n    pass",
    "del": "x = 1\ndel x",
    "except*": "try:\n    pass\nexcept* ValueError:\n    pass",
    "for else": "for x in []:\n    pass\nelse:\n    pass",
    "function decorator": "def d(f):\n    return f\n@d\ndef g():\n    pass",
    "generator expression": "(x for x in [])",
    "global": "x = 1\ndef f():\n    global x\n    x = 2",
    "lambda": "lambda: 1",
    "match": "match 1:\n    case 1:\n        pass",
    "method decorator": "class A:\n    @property\n    def m(self):\n        return 1",
    "nonlocal": "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2",
    "star import": "from math import *",
    "try": "try:\n    pass\nexcept ValueError:\n    pass\nelse:\n    pass\nfinally:\n    pass",
    "type alias": "type X = int",
    "walrus": "(x := 1)",
    "while": "while False:\n    pass",
    "with": "class A:\n    def __enter__(self):\n        return 1\n    def __exit__(self, *a):\n        return False\n"
    "with A() as a:\n    pass",
    "yield": "def f():\n    yield 1",
}
"""A program with each statement."""


def outcome(session: monty.MontySession, source: str) -> Any:
    """Run the source and return its value."""
    snapshot: Any = session.feed_start(source)
    while not isinstance(snapshot, monty.MontyComplete):
        if isinstance(snapshot, monty.NameLookupSnapshot):
            snapshot = snapshot.resume()
        else:
            snapshot = snapshot.resume_auto()
    return snapshot.output


def present(session: monty.MontySession, tries: Iterable[tuple[str, str]], missing: str) -> list[str]:
    """Return the names whose code does not raise one of the `missing` errors."""
    lines = ["found = []"]
    for name, code in tries:
        lines += ["try:", *(f"    {line}" for line in code.split("\n")), f"    found.append({name!r})"]
        lines += [f"except {missing}:", "    pass"]
    return sorted(outcome(session, "\n".join([*lines, "found"])))


def _called(call: str) -> str:
    """Return code that passes unless the called method is missing."""
    return f"try:\n    {call}\nexcept AttributeError:\n    raise\nexcept Exception:\n    pass"


def candidates(module: str) -> list[str]:
    """Return the public names that a module of this Python may have."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = dir(importlib.import_module(module))
    except ImportError:
        return []
    names = {*found, *LATER.get(module, ())}
    return sorted(name for name in names if not name.startswith("_"))


def modules_to_try() -> list[str]:
    """Return the names of public modules of the standard library."""
    return [name for name in sorted(sys.stdlib_module_names) if not name.startswith("_") and name not in _UNUSABLE]


def supports(pool: monty.Monty, source: str) -> bool:
    """Return whether the interpreter runs this source."""
    with pool.checkout(script_name="table.py") as session:
        try:
            outcome(session, source)
        except monty.MontyError:
            return False
    return True


def unknown_to_checker(pool: monty.Monty, names: list[str]) -> list[str]:
    """Return the builtins that the interpreter has and its type checker does not know."""
    with pool.checkout(script_name="table.py", type_check=True, type_check_format="json") as session:
        try:
            outcome(session, "\n".join(names))
        except monty.MontyTypingError as error:
            problems = json.loads(error.display())
            rows = [one["location"]["row"] for one in problems if one["code"] == "unresolved-reference"]
            return sorted({names[row - 1] for row in rows})
    return []


def measured() -> dict[str, Any]:
    """Return the table."""
    with monty.Monty(min_processes=1, max_processes=1) as pool:
        with pool.checkout(script_name="table.py") as session:
            names = [name for name in dir(builtins) if not name.startswith("_")]
            known = present(session, ((name, name) for name in names), "NameError")
            imports = ((name, f"import {name}") for name in modules_to_try())
            modules = {}
            for module in present(session, imports, "ImportError"):
                tries = ((name, f"import {module}\n{module}.{name}") for name in candidates(module))
                modules[module] = present(session, tries, "(AttributeError, RuntimeError)")
            methods = {}
            for kind in TYPES:
                value = {"slice": "slice(1)", "range": "range(1)"}.get(kind.__name__, f"{kind.__name__}()")
                names = [name for name in dir(kind) if not name.startswith("_")]
                tries = ((name, _called(f"({value}).{name}()")) for name in names)
                methods[kind.__name__] = present(session, tries, "AttributeError")
        unchecked = unknown_to_checker(pool, known)
        statements = {name: supports(pool, source) for name, source in STATEMENTS.items()}
    version = importlib.metadata.version("pydantic-monty")
    return {
        "version": version,
        "builtins": known,
        "unchecked": unchecked,
        "modules": modules,
        "methods": methods,
        "statements": statements,
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=1))
