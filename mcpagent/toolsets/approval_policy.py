"""`ApprovalPolicy`: `Agent(approval=...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType

from mcpagent.config.permissions import APPROVALS
from mcpagent.toolsets.listed_tools import ApprovalPredicate
from mcpagent.utilities.python.argument_checks import expect, expect_function
from mcpagent.values.approval import Approval, OnApproval


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Which calls wait for approval, and who decides.

    `required` True: those of every tool; a predicate `(context, definition, arguments)`: those for which it holds.
    `decide` answers at once, for one call at a time; without it, and where it gives its request back, such calls end
    the run (`CallsPendingError`, `resume`).

    The rules in the entries of servers (`approval`) count besides, and these arguments can only be stricter. `rules`
    replace them by name: `{"git.git_push": "allow"}`. `decides_alone`: the predicate knows these rules already.
    """

    required: bool | ApprovalPredicate = False
    decide: OnApproval | None = None
    rules: Mapping[str, Approval] = field(default_factory=dict[str, Approval])
    decides_alone: bool = False

    def __post_init__(self) -> None:
        expect(
            "approval",
            self.required,
            (bool, Callable),
            "True, False, a predicate or ApprovalPolicy(...)",
        )
        if not isinstance(self.required, bool):
            expect_function(
                "approval", self.required, "context", "definition", "arguments"
            )
        expect(
            "ApprovalPolicy.rules",
            self.rules,
            Mapping,
            'an object such as {"git.git_push": "deny"}',
        )
        for name, rule in self.rules.items():
            expect(
                f'ApprovalPolicy.rules["{name}"]',
                rule,
                str,
                "allow, ask or deny",
                holds=APPROVALS.__contains__,
            )
        expect(
            "ApprovalPolicy.decides_alone", self.decides_alone, bool, "True or False"
        )
        expect(
            "ApprovalPolicy.decide",
            self.decide,
            (Callable, NoneType),
            "a function or None",
        )
        if self.decide is not None:
            expect_function("ApprovalPolicy.decide", self.decide, "request")
