"""`Limits`, the limits of a run or a whole session; the check whether one is used up, and the text that reports it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Literal, NamedTuple, TypeAlias, get_args

from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.python.unknown_arguments import answers_unknown_arguments
from mcpagent.values.messages import Spent

LimitKind: TypeAlias = Literal["turns", "tool_calls", "tokens", "dollars", "seconds"]
"""The names of the fields of `Limits`."""

LimitScope: TypeAlias = Literal["run", "session", "caller"]
"""The owner of a limit. "caller": the agent that called this one as a tool, or that agent's session."""

KINDS: tuple[LimitKind, ...] = get_args(LimitKind)

FIRM: tuple[LimitKind, ...] = ("tokens", "dollars", "seconds")
"""Limits after which the model gets no further request. After the others, it must answer once more."""

MOST_TURNS = 100
MOST_CALLS = 10_000
"""Default maximum of tool calls of a run."""


@answers_unknown_arguments
@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run, or of all runs of a session together; None: no limit.

    Agents that are called as tools count towards their caller's limits. `turns`: answered requests, by default 100 in a
    run. `tool_calls`: calls that run, including those of programs, except the runtime's own tools such as
    `search_tools`; by default 10,000 in a run. `tokens`: input and output as the provider reports them, else estimated.
    `dollars`: US. `seconds`: from the prompt on, without the time of questions to a person. Raises `ConfigError` for a
    value that is not a number above 0.
    """

    turns: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for kind in KINDS:
            limit = getattr(self, kind)
            if limit is not None:
                _expect_limit(kind, limit)

    def of_run(self) -> Limits:
        """Return the limits with the defaults of a run for turns and tool calls."""
        if self.turns is not None and self.tool_calls is not None:
            return self
        if self.turns is None:
            turns = MOST_TURNS
        else:
            turns = self.turns
        return replace(
            self,
            turns=turns,
            tool_calls=MOST_CALLS if self.tool_calls is None else self.tool_calls,
        )

    def filled_by(self, others: Limits) -> Limits:
        """Return these limits, with missing fields taken from `others`."""
        return Limits(
            *(
                mine if mine is not None else theirs
                for mine, theirs in zip(astuple(self), astuple(others), strict=True)
            )
        )

    def within(self, others: Limits) -> Limits:
        """Return the lower of the two limits for each field."""
        pairs = zip(astuple(self), astuple(others), strict=True)
        return Limits(
            *(
                min(said, default=None)
                for said in ([it for it in pair if it is not None] for pair in pairs)
            )
        )

    def given(self) -> dict[str, float]:
        """Return the limits that are set, by field name."""
        return {kind: most for kind in KINDS if (most := self.most(kind)) is not None}

    def most(self, kind: LimitKind) -> float | None:
        """Return the limit of this kind; None if it is not set."""
        value: float | None = getattr(self, kind)
        return value


NO_LIMITS = Limits()


def _expect_limit(kind: LimitKind, limit: object) -> None:
    """Raise `ConfigError` unless the value is a valid limit of this kind."""
    place = f"Limits.{kind}"
    if kind in ("dollars", "seconds"):
        expect(
            place,
            limit,
            (int, float),
            "a number above 0 or None",
            holds=lambda it: it > 0 and math.isfinite(it),
        )
    else:
        expect(
            place,
            limit,
            int,
            "a whole number, 1 or more, or None",
            holds=lambda it: 0 < it <= sys.maxsize,
        )


class ReachedLimit(NamedTuple):
    """A used-up limit: its name, its amount and the usage.

    `used` is None if the usage is unknown, so that the limit cannot be enforced and counts as reached.
    """

    kind: LimitKind
    most: float
    used: float | None


def used_up(
    limits: Limits, amounts: Callable[[], Sequence[Spent]], kinds: Sequence[LimitKind]
) -> ReachedLimit | None:
    """Return the first limit of these kinds that the sum of the amounts has reached; None if none has.

    `amounts` is a function, called only if one of the limits is set: most are not, and each tool call asks several
    times. Dollars count as used up as soon as the price of one request is unknown, because the sum is then unknown too.
    """
    for kind in kinds:
        most: float | None = getattr(limits, kind)
        if most is None:
            continue
        used: float = 0
        for spent in amounts():
            if kind == "dollars" and not spent.cost_known:
                return ReachedLimit(kind, most, None)
            used += getattr(spent, kind)
        if used >= most:
            return ReachedLimit(kind, most, used)
    return None


_OF: dict[LimitScope, str] = {
    "run": "of a run",
    "session": "of the session",
    "caller": "of the agent that called this one",
}


def stopped_words(
    used: ReachedLimit, scope: LimitScope = "run", *, what: str = "", limit: str = ""
) -> str:
    """Return the reason why a run ended, in one line.

    `what` is inserted after the amount; `limit` replaces the limit's name in Python.
    """
    kind, most, amount = used
    limit = limit or f"Limits({kind}={most!r}) {_OF[scope]}"
    if what:
        what = f" {what}"
    else:
        what = ""
    if amount is None:
        unknown = (
            "the price of this model, or of a tool that its provider ran, is not known"
        )
        return f"stopped{what}: {unknown}, so a limit of dollars cannot be kept ({limit}); set one of tokens"
    return f"stopped after {shown_amount(kind, amount)}{what} ({limit})"


def shown_amount(kind: LimitKind, amount: float) -> str:
    """Return an amount of this kind as text, such as `5 tool calls`."""
    match kind:
        case "dollars":
            return f"${amount:.4f}"
        case "seconds":
            return f"{amount:.1f} seconds"
        case _:
            name = kind.replace("_", " ")
            return f"{amount:,.0f} {name if amount != 1 else name[:-1]}"
