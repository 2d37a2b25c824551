"""What `from mcpagent import ...` gives: each name is there when it is asked for, says what it is, and is explained."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from itertools import pairwise
from pathlib import Path

import pytest

import mcpagent
from tests.package import MODULES, tree
from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[1]
GUIDES = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
WORDS = frozenset(re.findall(r"\w+", GUIDES))
NAMES = mcpagent.__all__

FILLERS = frozenset("a an and as at be by for from in is it of on one or that the this to with".split())  # noqa: SIM905


FILES = frozenset({"fish", "log", "toml"})
DOTTED = sorted(
    {name for name in re.findall(r"\bmcpagent(?:\.[A-Za-z_]\w*)+\b(?!/\d)", GUIDES) if name.split(".")[1] not in FILES},
)
"""Modules, and names in them, in the guides. `mcpagent.toml` and the like are files, `mcpagent.session/1` a format."""


def kind_and_name(name: str) -> tuple[bool, str]:
    return name[0].islower(), name


def test_the_names_are_sorted_classes_first() -> None:
    assert sorted(set(NAMES), key=kind_and_name) == NAMES


def test_type_checkers_and_python_are_told_the_same_names() -> None:
    """The first read the imports, the other the table of late names."""
    door = tree(MODULES["mcpagent"])
    [typed] = [node for node in door.body if isinstance(node, ast.If)]
    imported = {alias.name for node in typed.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(NAMES)
    [table] = [node for node in ast.walk(door) if isinstance(node, ast.Dict)]
    late = [name for names in table.values for name in ast.literal_eval(names)]
    assert sorted(late, key=kind_and_name) == NAMES


@each_row("name", NAMES)
def test_a_name_resolves_says_what_it_adds_and_stands_in_a_guide(name: str) -> None:
    words = re.findall(r"[a-z]+", docstring(name).lower())
    own = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", name)}
    assert len({word for word in words if word not in FILLERS and word.rstrip("s") not in own}) >= 3, words
    assert name in WORDS, f"no page of docs/ has {name}"


def test_a_dotted_name_in_a_guide_leads_somewhere() -> None:
    assert [name for name in DOTTED if not pkgutil.resolve_name(name)] == []


def docstring(name: str) -> str:
    """Its own: not the one that dataclasses write, nor one that is inherited."""
    value = getattr(mcpagent, name)
    if inspect.isclass(value):
        text = value.__dict__.get("__doc__") or ""
        return "" if text.startswith(f"{name}(") else inspect.cleandoc(text)
    if inspect.isfunction(value) or inspect.ismodule(value):
        return inspect.getdoc(value) or ""
    return alias_docstring(name)


def alias_docstring(name: str) -> str:
    """The string that stands below a type alias, which Python does not keep."""
    for path in MODULES.values():
        for node, below in pairwise(tree(path).body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                return str(below.value.value) if is_text else ""  # type: ignore[attr-defined]
    return ""


def test_a_name_that_is_not_there_is_told_as_usual() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Agnet'"):
        mcpagent.Agnet  # noqa: B018
