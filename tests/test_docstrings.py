"""Every public name of the package says in a docstring what its name does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mcpagent"

MODULES = {
    "/".join(path.relative_to(PACKAGE).parts): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")
}
CLASSES = {node.name: node for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
"""Every class by name; names stand once in the package."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public(body: list[ast.stmt], inside: str = "") -> Iterator[tuple[str, Definition]]:
    """The names that have to say something: not those with `_`, nor what is inside of these or of functions."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list):
            continue  # its last form says it
        yield inside + node.name, node
        if isinstance(node, ast.ClassDef):
            for name, inner in public(node.body, f"{inside}{node.name}."):
                if not is_told_by_a_base(node, inner.name):
                    yield name, inner


def is_told_by_a_base(owner: ast.ClassDef, name: str) -> bool:
    """Whether a class of this package that it is made from documents the method: an override may go without."""
    for base in owner.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        known = CLASSES.get(getattr(inner, "id", getattr(inner, "attr", "")))
        if known is None or known is owner:
            continue
        told = any(isinstance(one, Definition) and one.name == name and ast.get_docstring(one) for one in known.body)
        if told or is_told_by_a_base(known, name):
            return True
    return False


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_public_name_has_a_docstring(module: str) -> None:
    tree = MODULES[module]
    silent = [] if ast.get_docstring(tree) else ["the module itself"]
    silent += [name for name, node in public(tree.body) if not ast.get_docstring(node)]
    assert not silent, f"{module}: without a docstring: {', '.join(silent)}"
