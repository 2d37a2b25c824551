"""The source of the package, parsed once for all tests that read it."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "mcpagent"

MODULES: dict[str, Path] = {
    ".".join(("mcpagent", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def tree(path: Path) -> ast.Module:
    with _collector_paused():
        return ast.parse(path.read_text("utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All that a file consists of: its `ast.Module`, and what is inside."""
    with _collector_paused():
        return tuple(ast.walk(tree(path)))


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Looking for garbage among half a million nodes takes twice as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
