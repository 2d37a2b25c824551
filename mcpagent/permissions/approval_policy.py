"""`ApprovalPolicy`, the value of `Agent(approval=...)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, TypeAlias

from mcpagent.config.server_config import APPROVALS
from mcpagent.permissions.decision import CallFacts, Decision, Rules
from mcpagent.utilities.python.argument_checks import expect, expect_function
from mcpagent.values.approval import Approval, OnApproval, PendingCall
from mcpagent.values.messages import ToolDefinition

ApprovalPredicate: TypeAlias = Callable[
    [Any, ToolDefinition, dict[str, Any]], "bool | Awaitable[bool]"
]
"""Predicate that returns whether a call needs approval, by its `RunContext`, definition and arguments."""


def answer_of_predicate(answer: object) -> bool:
    """Return the answer of a predicate. Raises `TypeError` unless it is True or False, so that no call runs by
    mistake.
    """
    if not isinstance(answer, bool):
        raise TypeError(f"it returned {type(answer).__name__}; return True or False")
    return answer


OnDecision: TypeAlias = Callable[[PendingCall, CallFacts, Decision], object]
"""Callback for each call that a rule denies or wants approval for, before the user is asked."""


_NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Which calls need approval, and who approves them.

    `required`: True for the calls of every tool, or a predicate `(context, definition, arguments)` that returns True
    for such calls. `decide` answers at once, for one call at a time. Without it, or if it returns the request itself,
    these calls end the run (`CallsPendingError`, `resume`).

    The rules in the entries of servers (`approval`) apply as well; the arguments here can only be stricter. `rules` has
    the syntax of `--allow`: `{"git.*": "ask", "git.push": "deny"}`, or is a function that returns the current rules.
    The longest matching rule counts, and the exact name of a tool replaces the rule of its entry. `on_decision` is
    called for each call that the policy denies or wants approval for.

    The policy also applies to the calls of agents that its agent calls. Their own policies can only be stricter: if
    both want approval for a call, both must approve it.
    """

    required: bool | ApprovalPredicate = False
    decide: OnApproval | None = None
    rules: Mapping[str, Approval] | Callable[[], Rules] = field(
        default_factory=dict[str, Approval]
    )
    on_decision: OnDecision | None = None

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
            (Mapping, Callable),
            'an object such as {"git.git_push": "deny"}',
        )
        if not isinstance(self.rules, Mapping):
            expect_function("ApprovalPolicy.rules", self.rules)
        for name, rule in self.rules.items() if isinstance(self.rules, Mapping) else ():
            expect(
                "ApprovalPolicy.rules",
                name,
                str,
                'names such as "git.git_push"',
                holds=bool,
            )
            expect(
                f'ApprovalPolicy.rules["{name}"]',
                rule,
                str,
                "allow, ask or deny",
                holds=APPROVALS.__contains__,
            )
        expect(
            "ApprovalPolicy.decide",
            self.decide,
            (Callable, NoneType),
            "a function or None",
        )
        if self.decide is not None:
            expect_function("ApprovalPolicy.decide", self.decide, "request")
        expect(
            "ApprovalPolicy.on_decision",
            self.on_decision,
            (Callable, NoneType),
            "a function or None",
        )
        if self.on_decision is not None:
            expect_function(
                "ApprovalPolicy.on_decision",
                self.on_decision,
                "request",
                "call",
                "decision",
            )

    def rules_now(self) -> Rules:
        """Return the current rules."""
        if not self.rules:
            return _NO_RULES
        if isinstance(self.rules, Mapping):
            return Rules(
                named={name: APPROVALS[rule] for name, rule in self.rules.items()}
            )
        rules = self.rules()
        expect("ApprovalPolicy.rules()", rules, Rules, "Rules")
        return rules
