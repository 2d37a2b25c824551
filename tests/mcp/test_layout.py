"""How `mcpagent/mcp` is laid out: small files, no circle, names that stand once, calls that can be read.

Parsing takes most of the time: each file is parsed once.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path

from tests.test_imports import MODULES, PACKAGE, imported

OURS = {name: path for name, path in MODULES.items() if name.startswith("mcpagent.mcp")}
MOST_FILES = 20
MOST_LINES = 490
MOST_FUNCTION_LINES = 60
MOST_POSITIONAL = 6


@functools.cache
def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text("utf-8"))) for path in OURS.values()]


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
        name for path in PACKAGE.rglob("*.py") for name in re.findall(r"(?m)^class (\w+)", path.read_text("utf-8"))
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
