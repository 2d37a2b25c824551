"""Every public name of the package says in a docstring what its name does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.package import MODULES, nodes, tree

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Classes = Mapping[str, ast.ClassDef]
"""All of the package by name; names stand once in it."""

UNCLEAR_OPENING = re.compile(r"(What|Whether|Who|Those|That|Where|How|As|One)\b")
"""A clause or a pronoun instead of an imperative verb or a noun (PEP 257)."""

# Folders and modules of mcpagent/ whose module docstrings still have such openings. Rewrite them and shorten this list.


def public(body: list[ast.stmt], classes: Classes, inside: str = "") -> Iterator[tuple[str, Definition]]:
    """The names that have to say something: not those with `_`, nor what is inside of these or of functions."""
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list):
            continue  # its last form says it
        yield inside + node.name, node
        if isinstance(node, ast.ClassDef):
            for name, inner in public(node.body, classes, f"{inside}{node.name}."):
                if not is_told_by_a_base(node, inner.name, classes):
                    yield name, inner


def is_told_by_a_base(owner: ast.ClassDef, name: str, classes: Classes) -> bool:
    """Whether a class of this package that it is made from documents the method: an override may go without."""
    for base in owner.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        known = classes.get(getattr(inner, "id", getattr(inner, "attr", "")))
        if known is None or known is owner:
            continue
        told = any(isinstance(one, Definition) and one.name == name and ast.get_docstring(one) for one in known.body)
        if told or is_told_by_a_base(known, name, classes):
            return True
    return False


@pytest.mark.slow
def test_every_public_name_has_a_docstring() -> None:
    found = [node for path in MODULES.values() for node in nodes(path) if isinstance(node, ast.ClassDef)]
    classes = {node.name: node for node in found}
    silent = [module for module, path in MODULES.items() if not ast.get_docstring(tree(path))]
    silent += [
        f"{module}: {name}"
        for module, path in MODULES.items()
        for name, node in public(tree(path).body, classes)
        if not ast.get_docstring(node)
    ]
    assert silent == []


def test_module_docstrings_open_with_a_verb_or_a_noun() -> None:
    unclear = [
        f"{module}: {text.splitlines()[0]}"
        for module, path in MODULES.items()
        if UNCLEAR_OPENING.match(text := ast.get_docstring(tree(path)) or "")
        and not module.startswith("mcpagent.journal.sessions.")
    ]
    assert unclear == []
