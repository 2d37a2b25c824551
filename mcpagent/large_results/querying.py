"""`query_large_output`: JSONPath over what was read of an output, by PyPI `python-jsonpath`, within a bound of time.

Of two kept libraries it is the one that can be stopped, and that asks values which are there: `jq` reads the text
anew for each question, 1.1 s of CPU for 44 MB, and what it does inside of C nobody can end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcpagent.errors import InputError
from mcpagent.large_results.kinds import Data, shape_in_words
from mcpagent.large_results.large_output import LargeOutput
from mcpagent.large_results.reading_ranges import MAX_ANSWER, whole_number
from mcpagent.text.for_model import fenced, for_model, line_for_model
from mcpagent.text.foreign_patterns import Patience, PatternError, compiled

if TYPE_CHECKING:
    from jsonpath import JSONPathEnvironment

SECONDS = 2.0
"""CPU time of one query; most take a hundredth of it."""

USUAL_VALUES, MAX_VALUES = 20, 200
MAX_PATH = 500
MAX_VALUE = 2_000
"""Characters that are shown of one value."""

_LOOK = 64


class _TimeUpError(Exception):
    """A query has had its time."""


class _Budget:
    """Time of the query that this thread runs; asked at each value that it comes to."""

    def __init__(self) -> None:
        self._end = time.thread_time() + SECONDS
        self._steps = 0

    def step(self) -> None:
        self._steps += 1
        if self._steps % _LOOK == 0 and time.thread_time() > self._end:
            raise _TimeUpError


def query(output: LargeOutput, data: Data, arguments: Mapping[str, Any]) -> str:  # noqa: ARG001 - as all readers
    """The values that the path leads to. Raises `InputError` for a path that is none, and for what is no data."""
    if data.value is None:
        why = data.why or f"it is {data.kind}"
        raise InputError(f"It cannot be queried: {why}. Read or search it instead.")
    path = str(arguments.get("path") or "").strip()
    if not path or len(path) > MAX_PATH:
        raise InputError(f"path: expected a JSONPath of at most {MAX_PATH} characters, such as $.items[0:5].name")
    offset, limit = whole_number(arguments, "offset") or 0, whole_number(arguments, "limit") or USUAL_VALUES
    limit, offset = min(max(limit, 1), MAX_VALUES), max(offset, 0)
    found, is_whole = _found(path, data.value)
    if arguments.get("count_only") is True:
        return f"{len(found):,} values{'' if is_whole else ' so far; the time for one query was over'}."
    return _told(found, data, offset, limit, is_whole=is_whole)


def _found(path: str, value: Any) -> tuple[list[Any], bool]:
    from jsonpath import JSONPathError

    environment = _environment()
    values: list[Any] = []
    try:
        matches = environment.compile(path).finditer(value, filter_context={_BUDGET: (budget := _Budget())})
        for match in matches:
            budget.step()
            values.append(match.obj)
    except _TimeUpError:
        return values, False
    except (JSONPathError, PatternError) as error:
        said = line_for_model(str(error).partition("\n")[0], 160)
        raise InputError(f"path: {said}. JSONPath as in $.items[?@.price > 10].name, $[0:10], $..id") from None
    except (RecursionError, ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise InputError(f"path: it cannot be followed here: {type(error).__name__}; make it simpler") from None
    return values, True


_BUDGET = "mcpagent budget"


@cache
def _environment() -> JSONPathEnvironment:
    """JSONPath with patterns that are bounded, and a look at the clock at each value."""
    from jsonpath import JSONPathEnvironment, JSONPathMatch
    from jsonpath.function_extensions import ExpressionType, FilterFunction

    class Node(JSONPathMatch):
        """A value on the way; where it stands is not asked for, and takes most of the time to write."""

        def new_child(self, obj: object, key: int | str) -> JSONPathMatch:  # noqa: ARG002 - as it is called
            context = self._filter_context
            context[_BUDGET].step()
            child = Node.__new__(Node)
            child._filter_context, child.children, child.obj = context, _NO_CHILDREN, obj
            child.parent, child.parts, child.path, child.root = None, (), "", self.root
            return child

        def add_child(self, *children: JSONPathMatch) -> None:
            """Nobody looks at them."""

    class FitsPattern(FilterFunction):
        """`match` and `search` of RFC 9535 with patterns as others' are run."""

        arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library has them
        return_type = ExpressionType.LOGICAL

        def __init__(self, *, whole: bool) -> None:
            self._whole = whole

        def __call__(self, text: object, pattern: object) -> bool:
            if not isinstance(text, str) or not isinstance(pattern, str):
                return False
            runnable = compiled(f"^(?:{pattern})$" if self._whole else pattern)
            return Patience(_PATTERN_SECONDS).search(runnable, text)

    class BoundedPaths(JSONPathEnvironment):
        """As it is, but for what could take for ever."""

        match_class = Node
        max_recursion_depth = 250

        def setup_function_extensions(self) -> None:
            """The library's own, without those that run a pattern."""
            super().setup_function_extensions()
            for name in {*self.function_extensions} - {"length", "count", "value"}:
                del self.function_extensions[name]
            self.function_extensions |= {"match": FitsPattern(whole=True), "search": FitsPattern(whole=False)}

    return BoundedPaths(strict=True)


_PATTERN_SECONDS = 0.1
_NO_CHILDREN: list[Any] = []


def _told(found: list[Any], data: Data, offset: int, limit: int, *, is_whole: bool) -> str:
    so_far = "" if is_whole else " so far; the time for one query was over, so ask for less, such as $[0:1000]"
    if not found[offset:]:
        return f"{len(found):,} values{so_far or f': nothing is there. It is {data.kind}, {shape_in_words(data)}'}"
    lines, room = list[str](), MAX_ANSWER
    for value in islice(found, offset, offset + limit):
        line = _as_line(value)
        if len(line) > room and lines:
            break
        lines.append(line)
        room -= len(line) + 1
    first, last = offset + 1, offset + len(lines)
    more = f"; go on with offset={last}" if last < len(found) else ""
    which = f"Values {first:,} to {last:,} of {len(found):,}" if len(found) > 1 else "1 value"
    return fenced(for_model("\n".join(lines)), f"{which}{so_far}{more}", "json")


def _as_line(value: Any) -> str:
    """As JSON; of a large one its shape."""
    pieces, length = list[str](), 0
    for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_VALUE:
            return (
                f"{''.join(pieces)[: MAX_VALUE // 4]} ... (cut: {shape_in_words(Data('JSON', value)) or 'a long text'})"
            )
    return "".join(pieces)
