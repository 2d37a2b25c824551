"""Report the type checker's errors in a program, with their lines, except errors that may be false.

The checker assumes that a list or dict keeps the element type of its first value. So it would reject
`rows = [{"id": 1}]` as a `list[Row]`, and a computed `str` as a `Literal`. Such programs run, because mcpagent
validates the arguments of each call anyway.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_MESSAGE = 2_000

_ANYTHING = frozenset({"Any", "Unknown", "object"})
_NARROWER = frozenset({("int", "float"), ("LiteralString", "str")})

_CLASS = re.compile(r"^(?:class (\w+)\(TypedDict\)|(\w+) = TypedDict\()", re.MULTILINE)
_LEFT_OUT = re.compile(r"(?:,| \|) \.\.\. omitted \d{1,6} (?:literals|union elements)")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that the type checker found, at a line of the checked source (from 1 on)."""

    line: int
    rule: str
    message: str


def reported(report: str, stubs: Iterable[str] = ()) -> list[Problem]:
    """Return the errors of the checker's report.

    Errors in the first line, which is ours, appear only if there are no others.
    """
    try:
        found = json.loads(report)
    except ValueError:
        return [Problem(0, "type-check", report[:_MAX_MESSAGE])]
    classes = frozenset(
        name
        for stub in stubs
        for names in _CLASS.findall(stub)
        for name in names
        if name
    )
    told = [
        Problem(int(one["location"]["row"]) - 1, str(one["code"]), str(one["message"]))
        for one in found
        if one.get("severity") in ("error", "fatal", None)
        or one.get("code") == "unused-awaitable"
    ]
    told = [one for one in told if one.line > 0] or told
    return [
        one
        for one in told
        if one.rule != "invalid-argument-type"
        or not _may_be_right(one.message, classes)
    ]


def _may_be_right(message: str, classes: frozenset[str]) -> bool:
    """Return whether expected and found type differ only in ways that the checker cannot know."""
    for before, between in (
        ("Expected `", "`, found `"),
        ("declared type `", "`: value of type `"),
    ):
        head, is_there, found = message.rpartition(between)
        expected = head.partition(before)[2].partition("` on TypedDict `")[0]
        if is_there and expected and len(message) <= _MAX_MESSAGE:
            try:
                what, wanted = (
                    ast.parse(_LEFT_OUT.sub("", text), mode="eval")
                    for text in (found[:-1], expected)
                )
                return _may_be(what.body, wanted.body, classes)
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                return False
    return False


def _may_be(found: ast.expr, expected: ast.expr, classes: frozenset[str]) -> bool:
    if isinstance(found, ast.BinOp):
        return _may_be(found.left, expected, classes) and _may_be(
            found.right, expected, classes
        )
    if isinstance(expected, ast.BinOp):
        return _may_be(found, expected.left, classes) or _may_be(
            found, expected.right, classes
        )
    if ast.dump(found) == ast.dump(expected):
        return True
    name, inner = _parts(found)
    wanted, wanted_inner = _parts(expected)
    if name in _ANYTHING or wanted in _ANYTHING or (name, wanted) in _NARROWER:
        return True
    if "Literal" in (name, wanted):
        return _may_be_literal((name, inner), (wanted, wanted_inner))
    if wanted == "list" and name in ("list", "tuple") and wanted_inner:
        items = [
            item
            for item in inner
            if not (isinstance(item, ast.Constant) and item.value is ...)
        ]
        return all(_may_be(item, wanted_inner[0], classes) for item in items)
    if name == "dict" and wanted == "dict" and len(inner) == len(wanted_inner) == 2:
        return _may_be(inner[1], wanted_inner[1], classes)
    if name in classes and wanted == "dict":
        return len(wanted_inner) == 2 and _parts(wanted_inner[1])[0] == "Any"
    return name == "dict" and wanted in classes


def _may_be_literal(
    found: tuple[str, list[ast.expr]], expected: tuple[str, list[ast.expr]]
) -> bool:
    (name, values), (wanted, listed) = found, expected
    if name == wanted:
        return {ast.dump(value) for value in values} <= {
            ast.dump(value) for value in listed
        }
    if wanted == "Literal":
        return {"LiteralString": "str"}.get(name, name) in {
            _kind(value) for value in listed
        }
    return all(
        (_kind(value), wanted) in _NARROWER or _kind(value) == wanted
        for value in values
    )


def _kind(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return type(value.value).__name__
    return ""


def _parts(kind: ast.expr) -> tuple[str, list[ast.expr]]:
    """`dict[str, int]` as its name and what is in it."""
    match kind:
        case ast.Name(id=name):
            return name, []
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=inner)):
            return name, inner
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return name, [inner]
        case _:
            return "", []
