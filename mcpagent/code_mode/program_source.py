"""A program as text: what it imports, what is fed to the sandbox in its place, and what of it was done.

Pure functions of Python source. A program is parsed, never run, in this process.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_CODE = 32_768
"""Characters of a program; parsing as much holds other threads up for some milliseconds."""

TOOLS = "tools"

LAST = "_last"
"""The value of the last expression, in the sandbox."""

_FENCE = re.compile(r"\A\s*```[a-z]*\n(.*?)\n?```\s*\Z", re.DOTALL)


_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""What has names of its own."""


class ProgramError(Exception):
    """A program that cannot be read, in words for the model that wrote it."""


@dataclass(frozen=True, slots=True)
class ImportedName:
    """One name that a program takes from `tools`: `import tools.github as gh` has no `name`, `from tools import github`
    has the module's."""

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Program:
    """A program that could be parsed."""

    source: str
    tree: ast.Module

    @property
    def imports(self) -> tuple[ImportedName, ...]:
        """What it takes from `tools`, each once, in order."""
        found: dict[ImportedName, None] = {}
        for node in ast.walk(self.tree):
            found.update((one, None) for one in _imported(node))
        return tuple(found)

    @property
    def has_value(self) -> bool:
        """Whether it ends with an expression."""
        return bool(self.tree.body) and isinstance(self.tree.body[-1], ast.Expr)

    def done_before(self, line: int) -> str:
        """The statements that are over before this line (from 1 on), as source."""
        last = max((node.end_lineno or 0 for node in self.tree.body if (node.end_lineno or 0) < line), default=0)
        return "".join(self.source.splitlines(keepends=True)[:last])

    def assigned(self) -> list[tuple[str, ...]]:
        """The names that each statement assigns at the top level, in order."""
        return [_assigned_in([statement]) for statement in self.tree.body]

    def names_at(self, line: int) -> tuple[str, ...]:
        """The variables that the innermost statement at this line reads, in order; what it calls is not among them."""
        statement = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
                statement = node
        if statement is None or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return ()
        called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
        names = (
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in called
            and node.lineno <= line <= (node.end_lineno or line)
        )
        return tuple(dict.fromkeys(names))


def parsed(code: str) -> Program:
    """The program, without the fence of a code block around it. Raises `ProgramError`."""
    fenced = _FENCE.match(code) if len(code) <= MAX_CODE + 100 else None
    source = (fenced[1] if fenced else code).replace("\r\n", "\n").replace("\r", "\n")
    if not source.strip():
        raise ProgramError("code is empty; pass a Python program")
    if len(source) > MAX_CODE:
        raise ProgramError(f"code has {len(source):,} characters; the limit is {MAX_CODE:,}. Write a shorter program.")
    try:
        source.encode()
        return Program(source, ast.parse(source))
    except SyntaxError as error:
        shown = f": `{error.text.strip()[:120]}`" if error.text else ""
        raise ProgramError(f"line {error.lineno}: SyntaxError: {error.msg}{shown}") from None
    except (ValueError, MemoryError, RecursionError):
        raise ProgramError("code cannot be parsed: it nests too deep, or holds characters that are no text") from None


def assigned_names(source: str) -> list[str]:
    """The names that the statements of a program assign at its top level, the last first."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    return [name[:80] for name in reversed(_assigned_in(body))]


def _assigned_in(body: Sequence[ast.AST]) -> tuple[str, ...]:
    named: list[str] = []
    waiting: list[ast.AST] = [*reversed(body)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            named.append(node.id)
        if not isinstance(node, _SCOPES):
            waiting += reversed([*ast.iter_child_nodes(node)])
    return tuple(dict.fromkeys(named))


def fed(program: Program, functions: Mapping[str, Mapping[str, str]]) -> str:
    """The source as the sandbox gets it, line by line the same.

    In place of imports from `tools` stand values of the sandbox's own (`functions`: what each module has, as sources),
    and the value of the last expression is kept.
    """
    edits: list[tuple[ast.stmt, str]] = []
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and any(True for _ in _imported(node)):
            edits += [(node, _assignments(node, functions))]
    last = program.tree.body[-1] if program.tree.body else None
    if isinstance(last, ast.Expr):
        text = ast.get_source_segment(program.source, last) or "None"
        edits.append((last, f"{LAST} = ({text}\n)"))
    lines = program.source.encode().split(b"\n")
    for node, text in sorted(edits, key=lambda edit: (edit[0].lineno, edit[0].col_offset), reverse=True):
        start, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        # Behind the last expression nothing but `;` or a comment can stand.
        behind = b"" if isinstance(node, ast.Expr) else lines[end][node.end_col_offset or 0 :]
        lines[start : end + 1] = [lines[start][: node.col_offset] + text.encode() + behind]
    return b"\n".join(lines).decode()


def _imported(node: ast.AST) -> Iterator[ImportedName]:
    """What a statement takes from `tools`."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name == TOOLS or alias.name.startswith(f"{TOOLS}."):
                yield ImportedName(alias.name.removeprefix(TOOLS).removeprefix("."), "")
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        if node.module == TOOLS:
            yield from (ImportedName(alias.name, "") for alias in node.names)
        elif node.module.startswith(f"{TOOLS}."):
            module = node.module.removeprefix(f"{TOOLS}.")
            yield from (ImportedName(module, alias.name) for alias in node.names)


def _assignments(node: ast.Import | ast.ImportFrom, functions: Mapping[str, Mapping[str, str]]) -> str:
    """What binds the same names to values that the sandbox has, on as many lines."""
    others: list[str] = []
    bound: dict[str, str] = {}
    for alias in node.names:
        path = alias.name.removeprefix(TOOLS).removeprefix(".")
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").removeprefix(TOOLS).removeprefix(".")
            members = functions.get(module, {})
            value = members.get(alias.name, "None") if module else _module(functions.get(alias.name, {}))
            bound[alias.asname or alias.name] = value
        elif alias.name != TOOLS and not alias.name.startswith(f"{TOOLS}."):
            others.append(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
        elif alias.asname and path:
            bound[alias.asname] = _module(functions.get(path, {}))
        else:
            bound[alias.asname or TOOLS] = _module({name: _module(members) for name, members in functions.items()})
    lines = "\n" * ((node.end_lineno or node.lineno) - node.lineno)
    assignments = [
        f"{name} = ({value}{lines if place == 0 else ''})" for place, (name, value) in enumerate(bound.items())
    ]
    return "; ".join([*others, *assignments])


def _module(members: Mapping[str, str]) -> str:
    return "_Module({" + ", ".join(f'"{name}": {value}' for name, value in members.items()) + "})"


def with_context(context: Sequence[str], source: str) -> tuple[str, int]:
    """What the type checker reads: what ran before, then the program; and the lines before it."""
    before = "".join(part if part.endswith("\n") else f"{part}\n" for part in context)
    return before + source, before.count("\n")
