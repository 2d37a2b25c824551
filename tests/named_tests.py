"""Promises and threats name the tests that hold them: this finds out whether those are there."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


@cache
def functions_of(file: str) -> dict[str, str]:
    """By name each test function of `tests/FILE.py`, with that file's source; none if there is no such file."""
    path = TESTS / f"{file}.py"
    source = path.read_text("utf-8") if path.is_file() else ""
    return {
        node.name: source
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def what_is_wrong(named: str) -> str:
    """Why `mcp/test_mcp_http.test_name` or `mcp/test_mcp_http.test_name:mode` names no test; "" if it names one.

    A mode is one of those that the test covers, as its file writes it.
    """
    file, _, rest = named.partition(".")
    name, _, mode = rest.partition(":")
    found = functions_of(file)
    if name not in found:
        return f"there is no {named}"
    return "" if not mode or f'"{mode}"' in found[name] else f"{named}: there is no such mode"
