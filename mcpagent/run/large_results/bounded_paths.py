"""Evaluate JSONPath with PyPI's `python-jsonpath`, within a time limit that also applies to patterns.

The library itself stores a path and an object for each value that it visits, never checks a clock, and runs a pattern
with Python's own `re`. mcpagent uses the library's syntax and its comparison of values (RFC 9535, strictly).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from jsonpath import JSONPathEnvironment
from jsonpath.filter import (
    BooleanLiteral,
    FilterExpression,
    FilterQuery,
    FloatLiteral,
    InfixExpression,
    IntegerLiteral,
    RelativeFilterQuery,
    StringLiteral,
)
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.match import NodeList
from jsonpath.path import JSONPath
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import (
    Filter,
    FilterContext,
    IndexSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from mcpagent.utilities.text.foreign_patterns import CpuBudget, compiled

if TYPE_CHECKING:
    from jsonpath.filter import BaseExpression
    from jsonpath.segments import JSONPathSegment

_LOOK = 256
_BUDGET = "budget"


class TimeUpError(Exception):
    """Raised if a query has used up its time."""


class Budget:
    """The CPU time of one query in this thread, checked once for every few hundred visited values."""

    __slots__ = ("_end", "_left", "patience")

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._left = _LOOK
        self.patience = CpuBudget(seconds)

    def step(self) -> None:
        """Count one visited value. Raises `TimeUpError`."""
        self._left -= 1
        if not self._left:
            self._left = _LOOK
            if time.thread_time() > self._end:
                raise TimeUpError


class _Reached:
    """A value in the form that the library's comparisons and functions expect."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj


class BoundedPath(JSONPath):
    """An RFC 9535 path whose evaluation stops when its time is used up."""

    def __init__(
        self, env: JSONPathEnvironment, segments: Iterable[JSONPathSegment]
    ) -> None:
        super().__init__(env=env, segments=segments)
        for segment in self.segments:
            for selector in segment.selectors:
                if isinstance(selector, Filter):
                    _bind(selector.expression)

    def values(self, root: Any, budget: Budget) -> Iterator[Any]:
        """Yield the values that the path selects. Raises `TimeUpError`, or the library's `JSONPathError`."""
        values: Iterator[Any] = iter((root,))
        for segment in self.segments:
            values = _selected(values, segment, root, budget)
        return values

    def finditer(self, data: Any, *, filter_context: Any = None) -> Any:
        """Yield the values that a query inside a filter selects."""
        return map(_Reached, self.values(data, filter_context[_BUDGET]))


def _bind(expression: BaseExpression) -> None:
    """Replace the queries inside a filter by ones with a time limit."""
    waiting = [expression]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, FilterQuery):
            inner.path = BoundedPath(inner.path.env, inner.path.segments)
        else:
            waiting += inner.children()


def _selected(
    values: Iterator[Any], segment: JSONPathSegment, root: Any, budget: Budget
) -> Iterator[Any]:
    selectors, is_deep = (
        segment.selectors,
        isinstance(segment, JSONPathRecursiveDescentSegment),
    )
    if not is_deep and len(selectors) == 1 and isinstance(selectors[0], NameSelector):
        name = (
            selectors[0].name
        )  # a fast path for the most common case, without a generator for each value
        for value in values:
            budget.step()
            if isinstance(value, dict) and name in value:
                yield value[name]
        return
    for value in values:
        for node in _and_below(value, budget) if is_deep else (value,):
            for selector in selectors:
                yield from _by_selector(selector, node, root, budget)


def _by_selector(
    selector: object, value: Any, root: Any, budget: Budget
) -> Iterator[Any]:
    budget.step()
    match selector:
        case NameSelector(name=name) if isinstance(value, dict) and name in value:
            yield value[name]
        case IndexSelector(index=index) if isinstance(value, list) and -len(
            value
        ) <= index < len(value):
            yield value[index]
        case SliceSelector(slice=wanted) if (
            isinstance(value, list) and wanted.step != 0
        ):
            yield from value[wanted]
        case WildcardSelector():
            for item in _children(value):
                budget.step()
                yield item
        case Filter(expression=expression, env=env):
            fits, _NOW.budget = _test(expression, env), budget
            for item in _children(value):
                budget.step()
                if fits(item, root, budget):
                    yield item
        case _:
            pass


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return value.values()
    return ()


def _and_below(value: Any, budget: Budget) -> Iterator[Any]:
    """Yield the value and all nested values, each before its children."""
    waiting = [iter((value,))]
    while waiting:
        for node in waiting[-1]:
            if isinstance(node, dict | list):
                budget.step()
                yield node
                waiting.append(iter(_children(node)))
                break
        else:
            waiting.pop()


# -- Filters -----------------------------------------------------------------------------------------------------------

_Test: TypeAlias = Callable[[Any, Any, Budget], bool]
"""A filter as a function of the item, the root and the budget."""

_NOTHING = NodeList()


def _test(expression: BaseExpression, env: JSONPathEnvironment) -> _Test:
    """Compile a JSONPath filter into a function.

    Most filters compare members with constants. These are evaluated without the library's context objects, which is
    faster.
    """
    while isinstance(expression, FilterExpression):
        expression = expression.expression
    if isinstance(expression, InfixExpression):
        if expression.operator in ("&&", "||"):
            one, other = _test(expression.left, env), _test(expression.right, env)
            if expression.operator == "&&":
                return lambda item, root, budget: (
                    one(item, root, budget) and other(item, root, budget)
                )
            return lambda item, root, budget: (
                one(item, root, budget) or other(item, root, budget)
            )
        left, right = _operand(expression.left), _operand(expression.right)
        if left is not None and right is not None:
            compare, operator = env.compare, expression.operator
            return lambda item, _root, _budget: compare(
                left(item), operator, right(item)
            )

    def evaluated(item: Any, root: Any, budget: Budget) -> bool:
        context = FilterContext(
            env=env, current=item, root=root, extra_context={_BUDGET: budget}
        )
        return env.is_truthy(expression.evaluate(context))

    return evaluated


def _operand(expression: BaseExpression) -> Callable[[Any], Any] | None:
    """Return a function from an item to one side of a comparison: a literal, or a member of the item. None for other
    expressions.
    """
    if isinstance(
        expression, StringLiteral | IntegerLiteral | FloatLiteral | BooleanLiteral
    ):
        value = expression.value
        return lambda _item: value
    if not isinstance(expression, RelativeFilterQuery):
        return None
    names: list[str] = []
    for segment in expression.path.segments:
        selector = None
        if len(segment.selectors) == 1:
            selector = segment.selectors[0]
        if isinstance(segment, JSONPathRecursiveDescentSegment) or not isinstance(
            selector, NameSelector
        ):
            return None
        names.append(selector.name)

    def member(item: Any) -> Any:
        for name in names:
            if not isinstance(item, dict) or name not in item:
                return _NOTHING
            item = item[name]
        return item

    return member


class _Fits(FilterFunction):
    """`match` and `search` of RFC 9535, with a time limit for the patterns."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library has them
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole

    def __call__(self, text: object, pattern: object) -> bool:
        """Return whether the text matches. Raises `PatternError` for an invalid pattern, or one that takes too long."""
        if not isinstance(text, str) or not isinstance(pattern, str):
            return False
        runnable = compiled(rf"\A(?:{pattern})\Z" if self._whole else pattern)
        patience: CpuBudget = _NOW.budget.patience
        return patience.search(runnable, text)


_NOW = threading.local()
"""The budget of this thread's query, for functions that get only values."""


class _Paths(JSONPathEnvironment):
    """The JSONPath environment of RFC 9535, with the standard's functions only."""

    def setup_function_extensions(self) -> None:
        """Register the standard's functions; `match` and `search` have a time limit."""
        super().setup_function_extensions()
        for name in {*self.function_extensions} - {"length", "count", "value"}:
            del self.function_extensions[name]
        self.function_extensions |= {
            "match": _Fits(whole=True),
            "search": _Fits(whole=False),
        }


_PATHS = _Paths(strict=True)


@lru_cache(maxsize=64)
def compiled_path(path: str) -> BoundedPath:
    """Compile a path. Raises `JSONPathError` if it is invalid."""
    read = _PATHS.compile(path)
    assert isinstance(read, JSONPath)  # strict paths are never compound
    return BoundedPath(_PATHS, read.segments)
