"""Rewrite statements that the interpreter lacks into supported ones, and find unsupported statements.

All edits apply to the bytes of the source, so that each line of the result belongs to a line of the program. The type
checker reads the original program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from mcpagent.code_mode.prelude import BOUND, DELETE, ITERATOR, TRACKED, YIELDED
from mcpagent.code_mode.python_table import interpreter

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_TYPES = frozenset(
    {"bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"}
)
_YIELD = re.compile(rb"yield(\s+from\b)?")
_DOT = re.compile(rb"\.\s*\w+\Z")


@dataclass(frozen=True, slots=True)
class Edit:
    """New text for a range of bytes. Of several insertions at one position, those with a lower `rank` come first."""

    start: int
    end: int
    text: str
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Lines:
    """The source as bytes, with the offset of each line."""

    data: bytes
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, source: str) -> Lines:
        """Return the lines of a source."""
        data = source.encode()
        sizes = (len(line) + 1 for line in data.split(b"\n"))
        return cls(data, (0, *accumulate(sizes)))

    def start(self, node: ast.stmt | ast.expr | ast.keyword) -> int:
        """Return the offset at which a node begins."""
        return self.offsets[node.lineno - 1] + node.col_offset

    def end(self, node: ast.stmt | ast.expr | ast.keyword) -> int:
        """Return the offset after a node."""
        return self.offsets[(node.end_lineno or node.lineno) - 1] + (
            node.end_col_offset or 0
        )

    def line_end(self, node: ast.stmt | ast.expr) -> int:
        """Return the offset of the end of the line on which a node ends."""
        return self.offsets[node.end_lineno or node.lineno] - 1

    def text(self, node: ast.expr) -> str:
        """Return the source of an expression."""
        return self.data[self.start(node) : self.end(node)].decode()


def with_edits(lines: Lines, edits: list[Edit]) -> tuple[str, list[int]]:
    """Return the source with these edits, and, for each of its lines, the line of the program."""
    parts: list[bytes] = []
    numbers, now, done = [1], 1, 0

    def add(piece: bytes, step: int) -> None:
        nonlocal now
        parts.append(piece)
        for _ in range(piece.count(b"\n")):
            now += step
            numbers.append(now)

    for edit in sorted(edits, key=lambda one: (one.start, one.end, one.rank)):
        add(lines.data[done : edit.start], 1)
        add(edit.text.encode(), 0)
        now += lines.data[edit.start : edit.end].count(b"\n")
        done = edit.end
    add(lines.data[done:], 1)
    return b"".join(parts).decode(), numbers


def rewrites(tree: ast.Module, lines: Lines) -> list[Edit]:
    """Return edits that replace statements that the interpreter does not support."""
    edits: list[Edit] = []
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    methods = {
        id(one)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
    }
    for rank, node in enumerate(ast.walk(tree)):
        match node:
            case ast.GeneratorExp():
                start, end = lines.start(node) + 1, lines.end(node) - 1
                edits += [
                    Edit(start, start, f"{ITERATOR}(", rank),
                    Edit(end, end, ")", -rank),
                ]
            case ast.Delete():
                edits.append(
                    Edit(lines.start(node), lines.end(node), _deleted(node, lines))
                )
            case ast.ClassDef() if _is_typed_dict(node):
                edits.append(
                    Edit(lines.start(node), lines.end(node), f"{node.name} = dict")
                )
            case ast.Attribute(ctx=ast.Load()) if id(node) not in called and _is_method(
                node.attr
            ):
                edits += _bound(node, lines, rank)
            case ast.FunctionDef() if any(True for _ in _yields(node)):
                edits += _generator(node, lines)
            case ast.AsyncFunctionDef() if id(node) not in methods:
                place = lines.offsets[node.lineno - 1]
                edits.append(
                    Edit(
                        place,
                        place,
                        f'{" " * node.col_offset}@{TRACKED}("{node.name}")\n',
                        rank,
                    )
                )
            case _:
                pass
    return edits


def _is_typed_dict(node: ast.ClassDef) -> bool:
    names = [
        one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "")
        for one in node.bases
    ]
    return names == ["TypedDict"]


def _is_method(name: str) -> bool:
    return any(name in names for names in interpreter()["methods"].values())


def _bound(node: ast.Attribute, lines: Lines, rank: int) -> list[Edit]:
    """Return edits for a method that is not called immediately, as in `key=str.lower` or `map(counts.get, names)`."""
    end = lines.end(node)
    dot = _DOT.search(lines.data, lines.end(node.value), end)
    if dot is None:
        return []
    if isinstance(node.value, ast.Name) and node.value.id in _TYPES:
        text = f"(lambda one, *more, **named: one.{node.attr}(*more, **named))"
        return [Edit(lines.start(node), end, text)]
    start = lines.start(node)
    call = f", lambda one: one.{node.attr}, lambda one: lambda *more, **named: one.{node.attr}(*more, **named))"
    return [Edit(start, start, f"{BOUND}(", rank), Edit(dot.start(), end, call, -rank)]


def _deleted(node: ast.Delete, lines: Lines) -> str:
    parts: list[str] = []
    for target in node.targets:
        match target:
            case ast.Subscript(slice=ast.Slice()):
                parts.append(f"{lines.text(target)} = []")
            case ast.Subscript():
                parts.append(
                    f"{DELETE}({lines.text(target.value)}, {lines.text(target.slice)})"
                )
            case _:
                parts.append(f"{lines.text(target)} = None")
    return "; ".join(parts)


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of nested functions and classes."""
    waiting = [*ast.iter_child_nodes(function)]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _yields(function: ast.AST) -> Iterator[ast.Yield | ast.YieldFrom]:
    return (
        node
        for node in _own_nodes(function)
        if isinstance(node, ast.Yield | ast.YieldFrom)
    )


def _generator(function: ast.FunctionDef, lines: Lines) -> list[Edit]:
    """Return edits that make a generator function collect its values and return an iterator over them."""
    first, last, done = (
        function.body[0],
        function.body[-1],
        f"return {ITERATOR}({YIELDED})",
    )
    start, end = lines.start(first), lines.line_end(last)
    edits = [Edit(start, start, f"{YIELDED} = []; ", -1)]
    if isinstance(
        first,
        ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match | ast.FunctionDef,
    ):
        line = lines.offsets[first.lineno - 1]
        edits = [Edit(line, line, f"{' ' * first.col_offset}{YIELDED} = []\n", -1)]
    if first.lineno == function.lineno:
        end = lines.end(last)
        edits.append(Edit(end, end, f"; {done}", 1))
    else:
        edits.append(Edit(end, end, f"\n{' ' * first.col_offset}{done}", 1))
    for node in _own_nodes(function):
        if isinstance(node, ast.Return):
            edits.append(Edit(lines.start(node), lines.end(node), done))
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            edits += _collecting(node, lines)
    return edits


def _collecting(node: ast.Yield | ast.YieldFrom, lines: Lines) -> list[Edit]:
    """Return edits that make `yield` append its value to the collected values."""
    begin, stop = lines.start(node), lines.end(node)
    length = 5
    if word := _YIELD.match(lines.data, begin):
        length = len(word[0])
    value = ""
    if isinstance(node, ast.YieldFrom):
        method = "extend"
    else:
        method = "append"
        if node.value is None:
            value = "None"
    opening = f"{YIELDED}.{method}(({value}"
    return [Edit(begin, begin + length, opening), Edit(stop, stop, "))", -1)]


# -- Unsupported statements --------------------------------------------------------------------------------------------

_INSTEAD = {
    "async comprehension": "use a loop with await",
    "async for": "use a for loop over `await ...`",
    "async with": "call the functions directly; asyncio.gather runs at most 50 calls at once",
    "class inheritance": "write one class without a base class; raise built-in exceptions such as ValueError",
    "except*": "use `except`",
    "method decorator": "write an ordinary method or a function",
    "star import": "import names one by one",
    "type alias": "leave it out",
    "async generator": "return a list",
    "endless generator": "a generator runs to its end before its first value is used: return a list of what is needed",
    "value of yield": "return a list",
    "del of an attribute": "set it to None",
}


def unsupported(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the lines with unsupported statements, with the reason and an alternative."""
    found = [(line, name) for node in ast.walk(tree) for line, name in _lacking(node)]
    return [
        (line, f"{name} is not available here: {_INSTEAD[name]}")
        for line, name in sorted(set(found))
    ]


_STATEMENTS: dict[str, str] = {
    "AsyncFor": "async for",
    "AsyncWith": "async with",
    "TryStar": "except*",
    "TypeAlias": "type alias",
}
"""Names of unsupported statements, by the class of their syntax node."""


def _lacking(node: ast.AST) -> Iterator[tuple[int, str]]:
    has = interpreter()["statements"]
    name = _STATEMENTS.get(type(node).__name__, "")
    if name and isinstance(node, ast.stmt) and not has[name]:
        yield node.lineno, name
    match node:
        case ast.AsyncFunctionDef(lineno=line) if any(True for _ in _yields(node)):
            yield line, "async generator"
        case ast.FunctionDef():
            yield from _lacking_in_generator(node)
        case ast.ImportFrom(lineno=line, names=[ast.alias(name="*")]) if not has[
            "star import"
        ]:
            yield line, "star import"
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            if any(one.is_async for one in node.generators):
                yield node.lineno, "async comprehension"
        case ast.Delete(lineno=line, targets=targets):
            if any(isinstance(one, ast.Attribute) for one in targets):
                yield line, "del of an attribute"
        case ast.ClassDef():
            yield from _lacking_in_class(node)
        case _:
            pass


def _lacking_in_class(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    if (node.bases or node.keywords) and not _is_typed_dict(node):
        yield node.lineno, "class inheritance"
    for one in node.body:
        if isinstance(one, _FUNCTIONS) and one.decorator_list:
            yield one.lineno, "method decorator"


def _lacking_in_generator(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    yields = [*_yields(function)]
    if not yields:
        return
    bare = {
        id(node.value) for node in _own_nodes(function) if isinstance(node, ast.Expr)
    }
    yield from (
        (node.lineno, "value of yield") for node in yields if id(node) not in bare
    )
    for node in _own_nodes(function):
        if (
            isinstance(node, ast.While)
            and isinstance(node.test, ast.Constant)
            and any(True for _ in _yields(node))
        ):
            yield node.lineno, "endless generator"
