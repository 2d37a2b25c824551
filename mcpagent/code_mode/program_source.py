"""Analyse the source of a program: its imports, the code that replaces these in the sandbox, and the executed part.

All functions are pure functions of Python source. This process parses programs, but never runs them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from mcpagent.code_mode.prelude import CALLS, CAST, LAST, MODULE, STATEMENT
from mcpagent.code_mode.python_table import (
    ANNOTATION_MODULES,
    declared_builtins,
    library,
)
from mcpagent.code_mode.rewriting import Edit, Lines, rewrites, with_edits

Members = Mapping[str, Mapping[str, str]]
"""The members of each module of `tools`, as source code for the sandbox."""

MAX_CODE = 32_768
"""Maximum number of characters of a program; parsing so many blocks other threads for some milliseconds."""

MAX_IMPORTS = 4_000_000
"""Maximum number of characters of the source that replaces the imports of a program."""

LONG_CODE = 2_000
"""Number of characters above which a worker thread parses a program."""

TOOLS = "tools"

KEPT = "_mcpagent_kept"


@cache
def _context() -> str:
    """Return the beginning of the type checker's context: builtins that it does not know, and a placeholder.

    The placeholder stands for variables of unknown type.
    """
    names = ", ".join(["show", *declared_builtins()])
    return (
        "from typing import Any, Callable, Iterable, Literal, Optional\n"
        f"from {CALLS} import {names}\n"
        f"from typing import Any as _mcpagent_any\ndef {KEPT}() -> _mcpagent_any: ...\n"
    )


MAX_KEPT_NAMES = 20_000
"""Maximum number of characters of the names and imports that remain of shortened programs."""

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
"""Nodes with a separate scope."""


class ProgramError(Exception):
    """A program that cannot be parsed; the message is for the model that wrote the program."""


@dataclass(frozen=True, slots=True)
class ImportedName:
    """A name that a program imports from `tools`.

    For `import tools.github as gh`, `name` is "". For `from tools import github`, `name` is the module.
    """

    module: str
    name: str


@dataclass(frozen=True, slots=True)
class Program:
    """A parsed program."""

    source: str
    tree: ast.Module
    imports: tuple[ImportedName, ...] = ()
    """The names imported from `tools`, without duplicates, in order."""

    @property
    def lines(self) -> list[str]:
        """The lines of the source as Python counts them.

        `str.splitlines` also splits at characters that may occur in string literals.
        """
        return self.source.split("\n")

    @property
    def takes_all(self) -> bool:
        """True if the program imports `tools` itself, and thereby all its modules."""
        return ImportedName("", "") in self.imports

    @property
    def has_value(self) -> bool:
        """True if the program ends with an expression."""
        return bool(self.tree.body) and isinstance(self.tree.body[-1], ast.Expr)

    def before(self, number: int) -> str:
        """Return the source of the top-level statements before this one (counted from 0)."""
        line, column = _begin(self.tree.body[number])
        lines = self.source.encode().split(b"\n")
        return b"\n".join([*lines[: line - 1], lines[line - 1][:column]]).decode()

    def names_at(self, line: int) -> tuple[str, ...]:
        """Return the variables that the innermost statement at this line reads, in order, without the names of called
        functions.
        """
        statement = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and node.lineno <= line <= (
                node.end_lineno or node.lineno
            ):
                statement = node
        if statement is None or isinstance(
            statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            return ()
        called = {
            id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)
        }
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
    """Return the parsed program; a code fence around it is removed. Raises `ProgramError`."""
    fenced = None
    if len(code) <= MAX_CODE + 100:
        fenced = _FENCE.match(code)
    source = (
        (fenced[1] if fenced else code)
        .removeprefix("\ufeff")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )
    if not source.strip():
        raise ProgramError("code is empty; pass a Python program")
    if len(source) > MAX_CODE:
        raise ProgramError(
            f"code has {len(source):,} characters; the limit is {MAX_CODE:,}. Write a shorter program."
        )
    try:
        source.encode()
        tree = ast.parse(source)
        if futures := [
            node
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "__future__"
        ]:
            # Programs do not need `__future__` imports, which must be first, but the sandbox runs other code before.
            lines = Lines.of(source)
            source, _ = with_edits(
                lines,
                [Edit(lines.start(node), lines.end(node), "pass") for node in futures],
            )
            tree = ast.parse(source)
        return Program(
            source,
            tree,
            tuple(
                dict.fromkeys(one for node in ast.walk(tree) for one in _imported(node))
            ),
        )
    except SyntaxError as error:
        shown = ""
        if error.text:
            shown = f": `{error.text.strip()[:120]}`"
        raise ProgramError(
            f"line {error.lineno}: SyntaxError: {error.msg}{shown}"
        ) from None
    except (ValueError, MemoryError, RecursionError):
        raise ProgramError(
            "code cannot be parsed: it nests too deep, or holds characters that are no text"
        ) from None


def assigned_names(source: str) -> list[str]:
    """Return the variables that a program assigns at its top level, the last first."""
    return [
        name[:80] for name in reversed(bound_names(_body(source), only_variables=True))
    ]


def bound_names(
    body: Iterable[ast.AST], *, only_variables: bool = False
) -> tuple[str, ...]:
    """Return the names that statements bind in their own scope, in order: variables, functions, classes, imports."""
    named: list[str] = []
    waiting: list[ast.AST] = [*reversed([*body])]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                named.append(name)
            case (
                ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                named.append(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if (
                not only_variables
            ):
                named.append(node.name)
            case ast.Import() | ast.ImportFrom() if not only_variables:
                named += (
                    alias.asname or alias.name.partition(".")[0] for alias in node.names
                )
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = (
                    one.target.id
                    for one in ast.walk(node)
                    if isinstance(one, ast.NamedExpr)
                )
                named += inner  # `:=` binds in the outer scope
        if not isinstance(node, _SCOPES):
            waiting += reversed([*ast.iter_child_nodes(node)])
    return tuple(dict.fromkeys(named))


def _body(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []


def known_by_name(names: Iterable[str], gone: Iterable[str] = ()) -> str:
    """Return source that declares variables of any type for the type checker, and deletes the names in `gone`."""
    return "".join(
        [
            *(f"{name} = {KEPT}()\n" for name in names),
            *(f"del {name}\n" for name in gone),
        ]
    )


def in_short(*sources: str) -> str:
    """Return finished programs reduced to their imports from `tools` and the names of their other variables."""
    imports: dict[str, None] = {}
    names: dict[str, None] = {}
    for source in sources:
        for node in _body(source):
            if isinstance(node, ast.Import | ast.ImportFrom) and any(
                True for _ in _imported(node)
            ):
                imports[ast.unparse(node)] = None
            else:
                for name in bound_names([node]):
                    names.pop(name, None)
                    names[name] = None
    room, left = MAX_KEPT_NAMES, list[str]()
    for name in reversed(names):
        room -= len(known_by_name([name]))
        if room > 0:
            left.append(name)
    kept = "".join(f"{line}\n" for line in imports)[-MAX_KEPT_NAMES:]
    return f"{kept}{known_by_name(reversed(left))}"


def _begin(node: ast.stmt) -> tuple[int, int]:
    """Return the first line of a statement (from 1), including decorators, and the number of bytes before it on that
    line.
    """
    if (
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and node.decorator_list
    ):
        return min(one.lineno for one in node.decorator_list), 0
    return node.lineno, node.col_offset


def _begins(body: Iterable[ast.stmt]) -> Iterator[tuple[int | None, ast.stmt]]:
    """Yield each statement with the line on which it begins; None if an earlier statement ends on that line."""
    end = 0
    for node in body:
        line, _ = _begin(node)
        yield (line if line > end else None), node
        end = node.end_lineno or node.lineno


def fed(program: Program, functions: Members) -> str:
    """Return the source for the sandbox; each of its lines belongs to a line of the program (`lines_of`).

    Sandbox values replace imports from `tools` (`functions`: the members of each module, as source) and from the
    library. Statements that the interpreter lacks are rewritten (`rewriting.py`). The program stores the value of its
    last expression, and always the number of the running statement. Raises `ProgramError`.
    """
    return _edited(program, functions)[0]


def lines_of(program: Program) -> list[int]:
    """Return, for each line of the `fed` source, the line of the program."""
    return _edited(program, {})[1]


def _edited(program: Program, functions: Members) -> tuple[str, list[int]]:
    lines, edits = Lines.of(program.source), list[Edit]()
    for number, (begins, node) in enumerate(_begins(program.tree.body)):
        if begins:
            place = lines.offsets[begins - 1]
        else:
            place = lines.start(node)
        edits.append(
            Edit(
                place, place, f"{STATEMENT} = {number}" + ("\n" if begins else "; "), -2
            )
        )
    room = MAX_IMPORTS
    for part in ast.walk(program.tree):
        if isinstance(part, ast.Import | ast.ImportFrom) and _is_replaced(part):
            text = _assignments(part, functions)
            edits.append(Edit(lines.start(part), lines.end(part), text))
            room -= len(text)
            if room < 0:
                raise ProgramError(
                    "it imports whole modules too many times: import each once, or functions by name"
                )
    if program.has_value:
        last = program.tree.body[-1]
        # Only `;` or a comment can follow the last expression.
        start, end = lines.start(last), lines.end(last)
        edits += [
            Edit(start, start, f"{LAST} = (", -1),
            Edit(end, lines.line_end(last), "\n)", 1),
        ]
    return with_edits(lines, [*edits, *rewrites(program.tree, lines)])


def library_code(tree: ast.Module) -> str:
    """Return the code of the library modules that a program imports."""
    names = dict.fromkeys(
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _library_names(node)
    )
    return "".join(library()[name].code for name in names)


def _library_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = [
            node.module or "",
            *(f"{node.module}.{alias.name}" for alias in node.names),
        ]
    return [name for name in names if name in library()]


def _is_replaced(node: ast.Import | ast.ImportFrom) -> bool:
    is_typing = isinstance(node, ast.ImportFrom) and node.module in ANNOTATION_MODULES
    return is_typing or bool(_library_names(node)) or any(True for _ in _imported(node))


def _imported(node: ast.AST) -> Iterator[ImportedName]:
    """Yield the names that a statement imports from `tools`."""
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


def _assignments(node: ast.Import | ast.ImportFrom, functions: Members) -> str:
    """Return assignments that bind the imported names to sandbox values, on as many lines as the import."""
    others: list[str] = []
    bound: dict[str, str] = {}
    for alias in node.names:
        path = alias.name.removeprefix(TOOLS).removeprefix(".")
        if isinstance(node, ast.ImportFrom):
            bound[alias.asname or alias.name] = _member(
                node.module or "", alias.name, functions
            )
        elif alias.name in library():
            name, value = _library_import(alias)
            bound[name] = value
        elif alias.name != TOOLS and not alias.name.startswith(f"{TOOLS}."):
            others.append(
                f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            )
        elif alias.asname and path:
            bound[alias.asname] = _module(functions.get(path, {}))
        else:
            bound[alias.asname or TOOLS] = _module(
                {name: _module(members) for name, members in functions.items()}
            )
    lines = "\n" * ((node.end_lineno or node.lineno) - node.lineno)
    assignments = [
        # In brackets, because the sandbox parses `; match = 1` as a match statement.
        f"({name}) = ({value}{lines if place == 0 else ''})"
        for place, (name, value) in enumerate(bound.items())
    ]
    return "; ".join([*others, *assignments])


def _member(module: str, name: str, functions: Members) -> str:
    """Return the sandbox's expression for a name that is imported from a module."""
    if module == TOOLS:
        return _module(functions.get(name, {}))
    if module.startswith(f"{TOOLS}."):
        return functions.get(module.removeprefix(f"{TOOLS}."), {}).get(name, "None")
    if f"{module}.{name}" in library():
        return f"{MODULE}({library()[f'{module}.{name}'].variable})"
    if module in library():
        return f"{library()[module].variable}[{name!r}]"
    return {"cast": CAST, "TypedDict": "dict"}.get(name, "None")


def _library_import(alias: ast.alias) -> tuple[str, str]:
    """Return the name that `import a.b` binds, and its value: a module, or a package that contains the module."""
    value = f"{MODULE}({library()[alias.name].variable})"
    package, *inner = alias.name.split(".")
    if alias.asname or not inner:
        return alias.asname or package, value
    return package, _module({inner[-1]: value})


def _module(members: Mapping[str, str]) -> str:
    return (
        MODULE
        + "({"
        + ", ".join(f'"{name}": {value}' for name, value in members.items())
        + "})"
    )


def submodule_imports(modules: Iterable[str]) -> str:
    """Return imports that tell the type checker that `tools` has exactly these modules."""
    return "".join(f"import {TOOLS}.{module}\n" for module in modules)


def submodules_in(source: str) -> list[str]:
    """Return the modules from a source of `submodule_imports`."""
    begin = f"import {TOOLS}."
    return [
        line.removeprefix(begin)
        for line in source.split("\n")
        if line.startswith(begin)
    ]


def declared_anew(program: Program) -> str:
    """Return declarations for the type checker that separate a program's variables from those of earlier programs.

    Variables that the program itself annotates keep that annotation.
    """
    annotated = (
        node.target
        for node in ast.walk(program.tree)
        if isinstance(node, ast.AnnAssign)
    )
    declared = {target.id for target in annotated if isinstance(target, ast.Name)}
    names = [
        name
        for name in bound_names(program.tree.body, only_variables=True)
        if name not in declared
    ]
    return "".join(f"{name}: _mcpagent_any = {KEPT}()\n" for name in names)


def with_context(context: Sequence[str], source: str) -> tuple[str, int]:
    """Return the source for the type checker (earlier code, then the program), and the number of lines before the
    program.
    """
    before = _context() + "".join(
        _for_checker(part if part.endswith("\n") else f"{part}\n") for part in context
    )
    return before + _for_checker(source), before.count("\n")


@lru_cache(maxsize=256)
def _for_checker(source: str) -> str:
    """Return the source with library modules renamed, so that the checker uses mcpagent's stubs for them."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return source
    lines, edits = Lines.of(source), list[Edit]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and _library_names(node):
            text = _checked_import(node) + "\n" * (
                (node.end_lineno or node.lineno) - node.lineno
            )
            edits.append(Edit(lines.start(node), lines.end(node), text))
    return with_edits(lines, edits)[0]


def _checked_import(node: ast.Import | ast.ImportFrom) -> str:
    parts: list[str] = []
    for alias in node.names:
        name = node.module if isinstance(node, ast.ImportFrom) else None
        shown = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
        if name is not None and name in library():
            parts.append(f"from {library()[name].checked} import {shown}")
        elif name is not None:
            parts.append(f"from {name} import {shown}")
        elif alias.name in library() and (alias.asname or "." not in alias.name):
            parts.append(
                f"import {library()[alias.name].checked} as {alias.asname or alias.name}"
            )
        else:
            parts.append(f"import {shown}")
    return "; ".join(parts)
