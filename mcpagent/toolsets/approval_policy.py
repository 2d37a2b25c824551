"""`ApprovalPolicy`: `Agent(approval=...)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType

from mcpagent.approval import OnApproval
from mcpagent.python.argument_checks import expect, expect_function
from mcpagent.toolsets.listed_tools import ApprovalPredicate


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Which calls wait for approval, and who decides.

    `required` True: those of every tool; a predicate `(context, definition, arguments)`: those for which it holds.
    `decide` answers at once, for one call at a time; without it, and where it gives its request back, such calls end
    the run (`CallsPendingError`, `resume`).
    """

    required: bool | ApprovalPredicate = False
    decide: OnApproval | None = None

    def __post_init__(self) -> None:
        expect("approval", self.required, (bool, Callable), "True, False, a predicate or ApprovalPolicy(...)")
        if not isinstance(self.required, bool):
            expect_function("approval", self.required, "context", "definition", "arguments")
        expect("ApprovalPolicy.decide", self.decide, (Callable, NoneType), "a function or None")
        if self.decide is not None:
            expect_function("ApprovalPolicy.decide", self.decide, "request")
