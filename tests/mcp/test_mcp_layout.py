"""How `mcpagent/mcp` is laid out: small files, no circle, names that stand once, calls that can be read."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.package import MODULES, PACKAGE
from tests.tables import each_row
from tests.test_imports import imported

OURS = {name: path for name, path in MODULES.items() if name.startswith("mcpagent.mcp")}
MOST_FILES = 20
MOST_LINES = 490
MOST_FUNCTION_LINES = 60
MOST_POSITIONAL = 6


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in OURS.values():
        yield path, ast.parse(path.read_text("utf-8"))


def test_there_is_no_circle_with_late_and_typing_imports_counted() -> None:
    edges = {name: sorted({found for found in imported(path) if found in OURS}) for name, path in OURS.items()}
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " -> ".join((*above[above.index(module) :], module))
        if module not in done:
            for name in edges[module]:
                visit(name, (*above, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def test_folders_files_and_functions_are_small() -> None:
    folders = Counter(path.parent for path in OURS.values())
    assert {str(folder): count for folder, count in folders.items() if count > MOST_FILES} == {}
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in OURS.values()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
    long_functions = [
        f"{path.name} {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MOST_FUNCTION_LINES
    ]
    assert long_functions == []


def test_names_of_modules_and_classes_stand_once_in_the_package() -> None:
    modules = Counter(path.stem for path in PACKAGE.rglob("*.py"))
    assert {path.stem for path in OURS.values() if modules[path.stem] > 1} == {"__init__"}
    classes = Counter(
        node.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    ours = {node.name for _, tree in trees() for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {name for name in ours if classes[name] > 1} == set()


def test_a_call_has_at_most_six_positional_arguments() -> None:
    found = [
        f"{path.name}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONAL
    ]
    assert found == []


@each_row("module", sorted(OURS))
def test_every_public_name_has_a_docstring(module: str) -> None:
    def undocumented(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and inner.name[0] != "_":
                if ast.get_docstring(inner) is None and not _is_of_a_protocol(node):
                    yield prefix + inner.name
                if isinstance(inner, ast.ClassDef):
                    yield from undocumented(inner, f"{prefix}{inner.name}.")

    assert list(undocumented(ast.parse(OURS[module].read_text("utf-8")))) == []


def _is_of_a_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("SubprocessProtocol" in ast.unparse(base) for base in node.bases)
