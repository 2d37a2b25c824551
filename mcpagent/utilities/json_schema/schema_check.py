"""Check a value against a schema: each schema is applied once to each part of the value, and every step counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcpagent.utilities.json_schema.misfits import Misfit
from mcpagent.utilities.json_schema.schema_form import Schema, UncheckedError
from mcpagent.utilities.text.foreign_patterns import CpuBudget, PatternError, compiled

MAX_NESTING = 200
"""Maximum depth of nested schemas that apply at once."""

MAX_MISFITS = 5
"""Maximum number of reported errors, for each location and in total."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """The limits of one check.

    `steps`: keywords evaluated and entries visited, about a microsecond each. `pattern_seconds`: CPU time of all
    patterns together. A pattern that would need more time counts as passed, or, with `ends_at_patterns`, ends the
    check.
    """

    steps: int
    pattern_seconds: float
    ends_at_patterns: bool = False


AT_ONCE = CheckLimits(20_000, 0.02, ends_at_patterns=True)
"""Limits of a check inside the event loop; a check that exceeds them continues in a worker thread."""

IN_ALL = CheckLimits(500_000, 0.2)
"""Limits of a check in the worker thread."""

MessageMatch: TypeAlias = Iterable[Misfit]
Judge: TypeAlias = Callable[["Check", Any, dict[str, Any], Any], MessageMatch]
"""The implementation of a keyword. Args: the check, the keyword's value, the schema that contains it, and the validated
value. Returns the errors."""

_PYTHON_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "string": str,
    "number": (int, float),
    "integer": int,
}


def is_of_type(value: Any, types: Any) -> bool:
    """Return whether the value has the JSON type, or one of a list of types. 1.0 is an integer; true is not a
    number.
    """
    for name in types if isinstance(types, list) else [types]:
        if isinstance(value, bool):
            if name == "boolean":
                return True
        elif isinstance(value, _PYTHON_TYPES[name]) or (
            name == "integer" and isinstance(value, float) and value.is_integer()
        ):
            return True
    return False


class TooLongError(UncheckedError):
    """Raised if a check exceeds its limits."""


class Check:
    """The check of one value. Its methods raise `UncheckedError` if they cannot decide within the limits."""

    def __init__(
        self,
        schema: Schema,
        keywords: Mapping[str, Judge],
        limits: CheckLimits = IN_ALL,
    ) -> None:
        self._schema = schema
        self._keywords = keywords
        self._limits = limits
        self._left = limits.steps
        self._depth = 0
        self._known: dict[tuple[int, int], tuple[Misfit, ...] | None] = {}
        self.evaluated: dict[tuple[int, int], frozenset[str | int]] = {}
        self._allowed: dict[int, frozenset[Any]] = {}
        self._patience: CpuBudget | None = None

    def spend(self, steps: int) -> None:
        """Count steps in advance. Raises `TooLongError` beyond the limit."""
        self._left -= steps
        if self._left < 0:
            raise TooLongError(f"checking takes more than {self._limits.steps:,} steps")

    def misfits(self, schema: Any, value: Any) -> tuple[Misfit, ...]:
        """Return the first few errors of the value against the schema; a repeated check of the same pair costs no
        steps.
        """
        if isinstance(schema, bool):
            if schema:
                return ()
            return (Misfit("False schema does not allow {}", (value,)),)
        key = (id(schema), id(value))
        if key in self._known:
            known = self._known[key]
            if known is None:
                raise UncheckedError("it refers to itself without an end")
            return known
        self._known[key] = None
        if self._depth >= MAX_NESTING:
            raise UncheckedError(f"it nests deeper than {MAX_NESTING} schemas")
        self._depth += 1
        self._known[key] = found = tuple(self._judged(schema, value))
        self._depth -= 1
        return found

    def fits(self, schema: Any, value: Any) -> bool:
        """Return whether the value has no error against the schema."""
        return not self.misfits(schema, value)

    def target(self, reference: str) -> Any:
        """Return the schema that a `$ref` points to."""
        return self._schema.targets[reference]

    def _judged(self, schema: dict[str, Any], value: Any) -> list[Misfit]:
        self.spend(1 + len(schema))
        alone = self._schema.refers_alone and "$ref" in schema
        found: list[Misfit] = []
        for keyword, rule in schema.items():
            judge = self._keywords.get(keyword)
            if (
                judge is None
                or (rule is None and keyword != "const")
                or (alone and keyword != "$ref")
            ):
                continue
            for misfit in judge(self, rule, schema, value):
                if not misfit.keyword:
                    types = schema.get("type")
                    right = types is not None and is_of_type(value, types)
                    misfit = misfit._replace(keyword=keyword, right_type=right)
                self.spend(2)
                found.append(misfit)
                if len(found) == MAX_MISFITS:
                    return found
        return found

    def matches(self, pattern: str, text: str) -> bool | None:
        """Return whether the pattern matches anywhere in the text; None if the limits do not allow a decision."""
        self.spend(1 + len(text) // 100)
        if self._patience is None:
            compiled(
                ""
            )  # imports the pattern engine, which must not count as CPU time of the check
            self._patience = CpuBudget(self._limits.pattern_seconds)
        try:
            if not self._patience.over:
                return self._patience.search(compiled(pattern), text)
        except PatternError:
            pass
        if self._limits.ends_at_patterns and self._patience.over:
            raise TooLongError(
                f"its patterns take more than {self._limits.pattern_seconds:g} s"
            )
        return None

    def is_one_of(self, value: Any, allowed: list[Any]) -> bool:
        """Return whether `allowed` contains the value by the rules of JSON: 1 equals 1.0, but not true."""
        if id(allowed) not in self._allowed:
            self._allowed[id(allowed)] = frozenset(
                self.comparable(one) for one in allowed
            )
        return self.comparable(value) in self._allowed[id(allowed)]

    def comparable(self, value: Any, depth: int = 0) -> Any:
        """Return a hashable value that is equal only for equal JSON values.

        Scalars become texts, because third parties choose the values. They could choose many numbers with the same hash
        (-1 and -2, or any number and itself plus 2**61 - 1), and a set of these takes quadratic time. Hashes of texts
        are salted.
        """
        self.spend(1)
        if depth > MAX_NESTING:
            raise UncheckedError(f"it nests deeper than {MAX_NESTING} levels")
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return ("list", *(self.comparable(item, depth + 1) for item in value))
        if isinstance(value, dict):
            return (
                "object",
                frozenset(
                    (key, self.comparable(item, depth + 1))
                    for key, item in value.items()
                ),
            )
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        # Hexadecimal, because writing a large number in decimal takes quadratic time.
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return ("other", hex(value) if is_whole else repr(value))
