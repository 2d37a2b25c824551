"""Classify the type checker's problems: certain problems refuse the program, possible ones are reported if it fails.

The rule of a problem decides, and the types of the expressions concerned: if a type is a union, the problem is certain
only if it occurs for every member. The checker answers both questions: `_reveal` makes it name the types, and
`_failing_for_all` repeats the operation with each member.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcpagent.code_mode.rewriting import Edit, Lines, with_edits

_MAX_MESSAGE = 2_000
_MAX_MEMBERS, _MAX_PROBLEMS = 16, 40

_ANYTHING = frozenset({"Any", "Unknown", "object"})
_NARROWER = frozenset({("int", "float"), ("LiteralString", "str")})
_GROWING = frozenset({"list", "dict", "set", "defaultdict", "deque", "Counter"})
"""Containers whose element type the checker infers from their first values."""

_CERTAIN = frozenset(
    {
        "index-out-of-bounds",
        "invalid-syntax",
        "missing-typed-dict-key",
        "not-supported",
        "parameter-already-assigned",
        "too-many-positional-arguments",
        "unknown-argument",
        "unresolved-import",
        "unresolved-reference",
        "unused-awaitable",
    }
)
_BY_TYPES = frozenset(
    {
        "call-non-callable",
        "invalid-argument-type",
        "invalid-assignment",
        "invalid-await",
        "no-matching-overload",
        "not-iterable",
        "not-subscriptable",
        "unresolved-attribute",
        "unsupported-operator",
    }
)
"""Rules whose problems are certain if no operand can have another type."""

_CLASS = re.compile(r"^(?:class (\w+)\(TypedDict\)|(\w+) = TypedDict\()", re.MULTILINE)
_LEFT_OUT = re.compile(r"(?:,| \|) \.\.\. omitted \d{1,6} (?:literals|union elements)")
_NUMBER = re.compile(r", Literal\[(\d{1,4})\]")
_REVEALED = re.compile(r"`(.*)`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that the type checker found: a range of the checked source, with lines and columns from 1.

    `is_certain`: the program ends with this problem if it reaches this line.
    """

    line: int
    rule: str
    message: str
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    is_certain: bool = False


Check = Callable[[str], Awaitable[list[Problem]]]
"""Callback that returns the problems of a source."""


def reported(report: str) -> list[Problem]:
    """Return the problems in the checker's report.

    Problems in the first line, which mcpagent wrote, are returned only if there are no others.
    """
    try:
        found = json.loads(report)
    except ValueError:
        return [Problem(0, "not-supported", report[:_MAX_MESSAGE])]
    told = [_problem(one) for one in found]
    return [one for one in told if one.line > 0] or told


def _problem(one: Mapping[str, object]) -> Problem:
    def place(name: str) -> tuple[int, int]:
        found = one.get(name)
        if not isinstance(found, dict):
            return 0, 0
        return int(found["row"]) - 1, int(found.get("column", 0))

    (line, column), (end_line, end_column) = place("location"), place("end_location")
    rule, message = str(one["code"]), str(one["message"])
    return Problem(line, rule, message, column, end_line, end_column)


# -- Expressions of a problem ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Site:
    """A problem with its syntax node, and the expressions whose types decide about it."""

    problem: Problem
    node: ast.AST | None
    operands: list[ast.expr] = field(default_factory=list[ast.expr])
    types: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Checked:
    """The program within the checked source, after `before` other lines."""

    source: str
    before: int
    tree: ast.Module
    parents: dict[int, ast.AST]
    lines: Lines

    @classmethod
    def of(cls, source: str, before: int) -> _Checked:
        program = "\n".join(source.split("\n")[before:])
        tree = ast.parse(program)
        parents = {
            id(inner): node
            for node in ast.walk(tree)
            for inner in ast.iter_child_nodes(node)
        }
        return cls(source, before, tree, parents, Lines.of(program))

    def node_at(self, problem: Problem) -> ast.AST | None:
        """Return the outermost expression or statement with exactly this range, or None."""
        begin = self._offset(problem.line, problem.column)
        end = self._offset(problem.end_line, problem.end_column)
        found = (
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.expr | ast.keyword | ast.AugAssign)
        )
        return next(
            (
                one
                for one in found
                if (self.lines.start(one), self.lines.end(one)) == (begin, end)
            ),
            None,
        )

    def _offset(self, line: int, column: int) -> int:
        number = line - self.before - 1
        if not 0 <= number < len(self.lines.offsets) - 1:
            return -1
        start, end = self.lines.offsets[number], self.lines.offsets[number + 1]
        text = self.lines.data[start:end].decode()
        return start + len(text[: column - 1].encode())

    def call_of(self, node: ast.AST) -> ast.Call | None:
        """Return the call that has this node as an argument, or None."""
        parent = self.parents.get(id(node))
        if isinstance(parent, ast.keyword):
            parent = self.parents.get(id(parent))
        return parent if isinstance(parent, ast.Call) else None


def _site(problem: Problem, checked: _Checked) -> _Site:
    node = checked.node_at(problem)
    if isinstance(node, ast.keyword):
        node = node.value
    return _Site(problem, node, [*_operands(problem.rule, node, checked)])


def _operands(rule: str, node: ast.AST | None, checked: _Checked) -> Iterable[ast.expr]:
    match rule, node:
        case (
            "unresolved-attribute" | "not-subscriptable",
            ast.Attribute(value=value) | ast.Subscript(value=value),
        ):
            return [value]
        case "unsupported-operator", ast.BinOp(left=left, right=right):
            return [left, right]
        case "unsupported-operator", ast.Compare(left=left, comparators=others):
            return [left, *others]
        case "unsupported-operator", ast.UnaryOp(operand=value) | ast.AugAssign(
            value=value
        ):
            return [value]
        case "call-non-callable", ast.Call(func=value):
            return [value]
        case "invalid-await", ast.Await(value=value):
            return [value]
        case "no-matching-overload", ast.Call():
            return [*_receiver(node), *node.args, *(one.value for one in node.keywords)]
        case "invalid-argument-type", ast.expr():
            call = checked.call_of(node)
            return [node, *(_receiver(call) if call else ())]
        case "invalid-assignment", ast.Tuple():
            parent = checked.parents.get(id(node))
            return [parent.value] if isinstance(parent, ast.Assign) else []
        case _, ast.expr():
            return [node]
        case _:
            return []


def _receiver(call: ast.Call) -> list[ast.expr]:
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


# -- Queries to the checker --------------------------------------------------------------------------------------------


async def certain(
    check: Check,
    source: str,
    before: int,
    problems: Sequence[Problem],
    stubs: Mapping[str, str],
) -> list[Problem]:
    """Return the problems that certainly end the program if it reaches them. `stubs` are those of each module."""
    checked = await asyncio.to_thread(_Checked.of, source, before)
    classes = {
        name: module
        for module, stub in stubs.items()
        for names in _CLASS.findall(stub)
        for name in names
    }
    sites = [
        _site(one, checked) for one in problems[:_MAX_PROBLEMS] if one.line > before
    ]
    open_sites = [
        one for one in sites if one.problem.rule in _BY_TYPES and one.operands
    ]
    if open_sites:
        await _reveal(check, checked, open_sites)
    unions = [one for one in open_sites if any(_is_union(kind) for kind in one.types)]
    failing = (
        await _failing_for_all(check, checked, unions, classes)
        if unions
        else set[int]()
    )
    sure = [one for one in problems if one.line <= 0]
    for site in sites:
        if _is_certain(site, checked, frozenset(classes), id(site) in failing):
            sure.append(site.problem)
    return sure


def _is_certain(
    site: _Site, checked: _Checked, classes: frozenset[str], fails_for_all: bool
) -> bool:
    rule, node = site.problem.rule, site.node
    if rule == "missing-argument":
        return not (isinstance(node, ast.Call) and _is_spread(node))
    if rule == "invalid-key":
        return _is_missing_key(node, checked)
    if rule in _CERTAIN or rule not in _BY_TYPES:
        return rule in _CERTAIN
    if not site.types or any(_is_open(kind) for kind in site.types):
        return False
    if rule == "invalid-argument-type":
        return not _may_fit(site, checked, classes)
    if rule == "invalid-assignment" and not isinstance(node, ast.Tuple):
        return False
    if isinstance(node, ast.Attribute) and _is_set(node.attr, checked):
        return False
    if rule == "unsupported-operator" and all(
        _name_of(kind) == "list" for kind in site.types
    ):
        return False
    if any(_is_union(kind) for kind in site.types):
        return fails_for_all
    return True


def _is_set(name: str, checked: _Checked) -> bool:
    """Return whether the program sets an attribute of this name."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.ctx, ast.Store)
        for node in ast.walk(checked.tree)
    )


def _may_fit(site: _Site, checked: _Checked, classes: frozenset[str]) -> bool:
    """Return whether an argument may be valid: for a growing container, or if its type is only guessed."""
    call = checked.call_of(site.node) if site.node else None
    if call is not None and any(isinstance(one, ast.Starred) for one in call.args):
        return True
    if (
        isinstance(parent := checked.parents.get(id(site.node)), ast.keyword)
        and parent.arg is None
    ):
        return True
    if len(site.types) > 1 and _name_of(site.types[1]) in _GROWING:
        return True
    every = isinstance(site.node, ast.List) and all(
        isinstance(one, ast.Constant) for one in site.node.elts
    )
    return _may_be_right(site.problem.message, classes, every)


def _is_spread(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Starred) for one in call.args) or any(
        one.arg is None for one in call.keywords
    )


def _is_missing_key(node: ast.AST | None, checked: _Checked) -> bool:
    """Return whether a program reads a key that the type lacks, without first checking that the key exists."""
    parent = checked.parents.get(id(node))
    if not isinstance(node, ast.Constant) or not isinstance(parent, ast.Subscript):
        return False
    asks = any(
        isinstance(one, ast.Compare)
        and isinstance(one.left, ast.Constant)
        and one.left.value == node.value
        for one in ast.walk(checked.tree)
    )
    return isinstance(parent.ctx, ast.Load) and not asks


async def _reveal(check: Check, checked: _Checked, sites: Sequence[_Site]) -> None:
    """Make the checker name the type of each operand, by revealing a tuple of the operand and its number."""
    edits: list[Edit] = []
    wanted: dict[int, tuple[_Site, int]] = {}
    for site in sites:
        extra = ""
        if isinstance(site.node, ast.AugAssign):
            extra = f", {checked.lines.text(site.node.target)}"
            site.types.append("")
        for place, operand in enumerate(site.operands):
            number = len(wanted)
            wanted[number] = (site, place)
            site.types.append("")
            start, end = checked.lines.start(operand), checked.lines.end(operand)
            edits.append(Edit(start, start, "(reveal_type((", number))
            edits.append(Edit(end, end, f", {number}{extra})))[0]", -number))
    program, _ = with_edits(checked.lines, edits)
    above = "\n".join(checked.source.split("\n")[: checked.before])
    for problem in await check(f"{above}\n{program}"):
        if (
            problem.rule != "revealed-type"
            or (found := _REVEALED.search(problem.message)) is None
        ):
            continue
        parts = _tuple_parts(found[1]) or _unreadable(found[1])
        if parts is not None and (known := wanted.get(parts[1])) is not None:
            site, place = known
            site.types[place] = parts[0]
            if parts[2]:
                site.types[-1] = parts[2]


def _tuple_parts(text: str) -> tuple[str, int, str] | None:
    """Return the parts of `tuple[T, Literal[3], U]`, where U is optional; None for other texts."""
    tree = _parsed(text)
    if not isinstance(tree, ast.Subscript) or not isinstance(tree.slice, ast.Tuple):
        return None
    kind, number, *more = tree.slice.elts
    value = getattr(getattr(number, "slice", None), "value", None)
    if type(value) is not int:
        return None
    return ast.unparse(kind), value, ast.unparse(more[0]) if more else ""


def _unreadable(text: str) -> tuple[str, int, str] | None:
    """Return the number of a type that Python cannot parse, such as a function's, which counts as unknown; or None."""
    number = _NUMBER.search(text)
    if number is None:
        return None
    return ("module" if "<module " in text else "Any"), int(number[1]), ""


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(_LEFT_OUT.sub("", text), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _members(kind: str) -> list[ast.expr]:
    """Return the members of a union, or the type itself."""
    waiting, found = [_parsed(kind)], list[ast.expr]()
    while waiting:
        match waiting.pop():
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                waiting += [right, left]
            case ast.expr() as one:
                found.append(one)
            case _:
                pass
    return found


def _is_union(kind: str) -> bool:
    return len(_members(kind)) > 1


def _is_open(kind: str) -> bool:
    """Return whether the type, or a member of it, is unknown, so that a value may have any type."""
    return any(_parts(one)[0] in _ANYTHING for one in _members(kind))


def _name_of(kind: str) -> str:
    tree = _parsed(kind)
    return _parts(tree)[0] if tree is not None else ""


async def _failing_for_all(
    check: Check, checked: _Checked, sites: Sequence[_Site], classes: Mapping[str, str]
) -> set[int]:
    """Return the IDs (`id`) of the sites whose operation fails for every combination of members."""
    lines, owners = list[str](), list[int]()
    known = {
        *classes,
        "bool",
        "bytes",
        "dict",
        "float",
        "int",
        "list",
        "Literal",
        "None",
        "set",
        "str",
        "tuple",
        "Any",
    }
    for site in sites:
        template = _template(site, checked)
        combinations = [*itertools.product(*(_members(kind) for kind in site.types))]
        names = {
            one.id
            for members in combinations
            for kind in members
            for one in ast.walk(kind)
            if isinstance(one, ast.Name)
        }
        if not template or len(combinations) > _MAX_MEMBERS or not names <= known:
            lines.append("def _mcpagent_never() -> None: ...")
            owners.append(id(site))
            continue
        for members in combinations:
            parameters = ", ".join(
                f"v{number}: {ast.unparse(kind)}" for number, kind in enumerate(members)
            )
            lines.append(f"def _mcpagent_member({parameters}): {template}")
            owners.append(id(site))
    imports = "".join(
        f"from tools.{module} import {name}\n"
        for name, module in classes.items()
        if name
    )
    start = checked.source.count("\n") + imports.count("\n") + 2
    failed = {
        one.line
        for one in await check(f"{checked.source}\n{imports}" + "\n".join(lines))
    }
    passing = {
        owner for number, owner in enumerate(owners) if start + number not in failed
    }
    return {id(site) for site in sites} - passing


def _template(site: _Site, checked: _Checked) -> str:
    """Return the operation of a site, with `v0` and `v1` as operands; "" if it depends on other values."""
    match site.node:
        case ast.Attribute(attr=name):
            return f"v0.{name}"
        case ast.Subscript(slice=ast.Constant(value=value)):
            return f"v0[{value!r}]"
        case ast.BinOp(left=left, right=right):
            between = checked.lines.data[
                checked.lines.end(left) : checked.lines.start(right)
            ].decode()
            return f"v0 {between.strip('() ')} v1"
        case ast.Compare(left=left, comparators=[right]):
            between = checked.lines.data[
                checked.lines.end(left) : checked.lines.start(right)
            ].decode()
            return f"v0 {between.strip('() ')} v1"
        case ast.AugAssign(target=target, value=value):
            between = checked.lines.data[
                checked.lines.end(target) : checked.lines.start(value)
            ].decode()
            return f"v1 {between.strip('()= ')} v0"
        case _:
            return "[*v0]" if site.problem.rule == "not-iterable" else ""


# -- Comparison of types -----------------------------------------------------------------------------------------------


def _may_be_right(message: str, classes: frozenset[str], every: bool) -> bool:
    """Return whether expected and found type differ only in ways that the checker cannot judge.

    `every`: the value contains all members of a union, as a list of constants does; otherwise it has one of these
    types.
    """
    for before, between in (
        ("Expected `", "`, found `"),
        ("declared type `", "`: value of type `"),
    ):
        head, is_there, found = message.rpartition(between)
        expected = head.partition(before)[2].partition("` on TypedDict `")[0]
        if is_there and expected and len(message) <= _MAX_MESSAGE:
            what, wanted = _parsed(found[:-1]), _parsed(expected)
            return (
                what is not None
                and wanted is not None
                and _may_be(what, wanted, classes, every)
            )
    return False


def _may_be(
    found: ast.expr, expected: ast.expr, classes: frozenset[str], every: bool
) -> bool:
    if isinstance(found, ast.BinOp):
        members = (
            _may_be(one, expected, classes, every) for one in (found.left, found.right)
        )
        return all(members) if every else any(members)
    if isinstance(expected, ast.BinOp):
        return any(
            _may_be(found, one, classes, every)
            for one in (expected.left, expected.right)
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
        return all(_may_be(item, wanted_inner[0], classes, every) for item in items)
    if name == "dict" and wanted == "dict" and len(inner) == len(wanted_inner) == 2:
        return _may_be(inner[1], wanted_inner[1], classes, every)
    if name in classes and wanted == "dict":
        return not wanted_inner or _parts(wanted_inner[-1])[0] in _ANYTHING
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
    """Return the name of a type and its arguments: `dict` and `str, int` for `dict[str, int]`."""
    match kind:
        case ast.Name(id=name):
            return name, []
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=inner)):
            return name, inner
        case ast.Subscript(value=ast.Name(id=name), slice=inner):
            return name, [inner]
        case _:
            return "", []
