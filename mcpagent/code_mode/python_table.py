"""Describe the Python of programs: the measured interpreter (`interpreter.json`) and the modules of `library/`.

The type checker's stubs, the prompt, error messages and docs are derived from these two. The files of `library/` are
Python that the sandbox runs; the checker's stubs come from their annotations.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
BUILTINS_MODULE = "builtins"
LIBRARY_NAME = "_mcpagent_library_"
_REPLACED = ("map", "filter", "zip", "enumerate", "reversed")
"""Builtins that return lists in the interpreter; `library/builtins.monty` replaces them by iterators."""

ANNOTATION_MODULES = frozenset({"typing", "typing_extensions", "collections.abc"})
"""Modules needed only for annotations, which the interpreter ignores."""

_HIDDEN = frozenset({"os", "sys", "posixpath", "pathlib", "typing"})
"""Modules that the interpreter has, but that are of little use without files and an environment."""

CALL_ERRORS: Mapping[str, str] = {
    "CallError": "OSError",
    "PermissionDenied": "PermissionError",
    "OutcomeUnknown": "TimeoutError",
    "ServerUnavailable": "NotADirectoryError",
    "ToolError": "IsADirectoryError",
}
"""Exceptions of calls, and the interpreter's class for each, because it does not support subclasses.

To distinguish the exceptions, each has a class that no other code of a program raises.
"""


@dataclass(frozen=True, slots=True)
class LibraryModule:
    """A module of the library: its names, its code for the sandbox, and its stub for the type checker."""

    name: str
    members: tuple[str, ...]
    code: str
    stub: str

    @property
    def checked(self) -> str:
        """Return the module's name for the type checker, which includes its own stubs for some names."""
        return f"{LIBRARY_NAME}{self.name}"

    @property
    def variable(self) -> str:
        """The sandbox variable that contains the module's members by name."""
        return f"{LIBRARY_NAME}{self.name.replace('.', '_')}"


@cache
def interpreter() -> Mapping[str, Any]:
    """Return the table that `tests/code_mode/interpreter_table.py` measured."""
    found: dict[str, Any] = json.loads((_HERE / "interpreter.json").read_text())
    return found


@cache
def library() -> Mapping[str, LibraryModule]:
    """Return the modules of `library/` by name, without the builtins."""
    files = sorted((_HERE / "library").glob("*.monty"))
    modules = [_module_of(path.name.removesuffix(".monty"), path) for path in files]
    return {one.name: one for one in modules if one.name != BUILTINS_MODULE}


@cache
def own_builtins() -> LibraryModule:
    """Return the builtins that the library adds or replaces."""
    return _module_of(BUILTINS_MODULE, _HERE / "library" / f"{BUILTINS_MODULE}.monty")


@cache
def module_names() -> Mapping[str, tuple[str, ...]]:
    """Return the public names of all importable modules except `tools`."""
    found = {name: tuple(names) for name, names in interpreter()["modules"].items()}
    return found | {name: module.members for name, module in library().items()}


def offered_modules() -> list[str]:
    """Return the modules that texts for the model and for users list."""
    return sorted(name for name in module_names() if name not in _HIDDEN)


@cache
def declared_builtins() -> tuple[str, ...]:
    """Return the builtins of programs that the type checker does not know itself."""
    unchecked = {*interpreter()["unchecked"]} - {"open"}
    checked = {*interpreter()["builtins"]} - unchecked
    return tuple(sorted(unchecked | {*own_builtins().members, *CALL_ERRORS} - checked))


@cache
def builtins_stub() -> str:
    """Return the stub that declares these builtins."""
    declared = declared_builtins()
    own = [
        node
        for node in ast.parse(own_builtins().stub).body
        if _is_declaration(node, declared)
    ]
    left = [
        name for name in declared if name not in {*own_builtins().members, *CALL_ERRORS}
    ]
    lines = [ast.unparse(node) for node in own]
    lines += [
        f"class {name}({_parent(name)}): ..." for name in left if name.endswith("Error")
    ]
    lines += [
        f"def {name}(*values: Any) -> Any: ..."
        for name in left
        if not name.endswith("Error")
    ]
    lines += [
        f"class {name}({'OSError' if name != 'CallError' else 'Exception'}): ..."
        for name in CALL_ERRORS
    ]
    return "\n".join(lines) + "\n"


def _is_declaration(node: ast.stmt, names: tuple[str, ...]) -> bool:
    name = getattr(node, "name", None)
    return name is None or name in names


def _parent(error: str) -> str:
    """Return the class from which Python derives this error, restricted to classes that the checker knows."""
    has = {*interpreter()["builtins"]} - {*interpreter()["unchecked"]}
    return next(
        one.__name__ for one in _builtin(error).__mro__[1:] if one.__name__ in has
    )


def _builtin(name: str) -> type:
    import builtins

    found: type = getattr(builtins, name)
    return found


def _module_of(name: str, path: Path) -> LibraryModule:
    tree = ast.parse(path.read_text())
    body = [node for node in tree.body if not _is_typing_import(node)]
    members = tuple(dict.fromkeys(one for node in body for one in _names(node)))
    return LibraryModule(name, members, _code(name, body, members), _stub(tree.body))


def _is_typing_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in ANNOTATION_MODULES


def _names(node: ast.stmt) -> Iterator[str]:
    names: list[str] = []
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            names = [node.name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            names = [name]
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        case _:
            pass
    yield from (name for name in names if not name.startswith("_"))


def _is_type_variable(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    return getattr(node.value.func, "id", "") == "TypeVar"


def _is_overload(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(
        isinstance(one, ast.Name) and one.id == "overload"
        for one in node.decorator_list
    )


def _code(name: str, body: list[ast.stmt], members: tuple[str, ...]) -> str:
    """Return code that defines a function with the module's body, and a variable with its members."""
    made = "\n".join(
        ast.unparse(node)
        for node in body
        if not _is_overload(node) and not _is_type_variable(node)
    )
    indented = "\n".join(f"    {line}" for line in made.split("\n"))
    variable = f"{LIBRARY_NAME}{name.replace('.', '_')}"
    given = ""
    if name == BUILTINS_MODULE:
        given = ", ".join(f"_{one}" for one in _REPLACED)
    returned = ", ".join(f"{one!r}: {one}" for one in members)
    code = f"def {variable}({given}):\n{indented}\n    return {{{returned}}}\n"
    return f"{code}{variable} = {variable}({given.replace('_', '')})\n"


def _stub(body: list[ast.stmt]) -> str:
    """Return the declarations of the public names."""
    overloaded = {node.name for node in body if _is_overload(node)}  # type: ignore[attr-defined]
    lines: list[str] = []
    for node in [*body]:
        is_public = any(True for _ in _names(node))
        is_implementation = (
            not _is_overload(node) and getattr(node, "name", "") in overloaded
        )
        if (
            _is_typing_import(node)
            or _is_type_variable(node)
            or (is_public and not is_implementation)
        ):
            lines.append(ast.unparse(_declared(node)))
    return "\n".join(lines) + "\n"


def _declared(node: ast.stmt) -> ast.stmt:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            node.body = [ast.Expr(ast.Constant(...))]
        case ast.ClassDef():
            node.body = [_declared(one) for one in node.body]
        case ast.AnnAssign():
            node.value = None
        case _:
            pass
    return node
