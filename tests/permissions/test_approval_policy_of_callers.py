"""The policy of an agent judges the calls of the agents that it calls: its rules, `required` and `decide`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcpagent import Agent, ApprovalPolicy, RunContext, ScriptedModel, ToolCall
from mcpagent.permissions.decision import CallFacts, Decision
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


class Person:
    """Somebody who decides, and remembers what they were asked."""

    def __init__(self, *, says: Any = True) -> None:
        self.asked: list[dict[str, Any]] = []
        self.says = says

    def __call__(self, request: PendingCall) -> Any:
        self.asked.append(request.arguments)
        if isinstance(self.says, dict):
            return request.approve(self.says)
        return self.says


async def paid(outer: ApprovalPolicy, inner: ApprovalPolicy, levels: int = 1, **more: Any) -> list[int]:
    """Return the amounts that the innermost agent paid, `levels` calls below the outer one."""
    amounts: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        amounts.append(amount)
        return "paid"

    agent = Agent(ScriptedModel([ToolCall("1", "pay", {"amount": 5}), "done"]), tools=[pay], approval=inner)
    for level in range(levels):
        model = ScriptedModel([ToolCall("1", "helper", {"prompt": "go"}), "done"])
        tools = [agent.as_tool("helper", "Help.")]
        policy = outer if level == levels - 1 else ApprovalPolicy()
        agent = Agent(model, tools=tools, approval=policy)
    async with agent:
        await agent.ask("go", **more)
    return amounts


def is_payment(context: RunContext[Any], definition: ToolDefinition, arguments: dict[str, Any]) -> bool:
    return definition.name == "pay" and arguments["amount"] > 1 and context.tool_name == "pay"


def is_help(_context: RunContext[Any], definition: ToolDefinition, _arguments: dict[str, Any]) -> bool:
    return definition.name == "helper"


def undecided(_context: RunContext[Any], definition: ToolDefinition, _arguments: dict[str, Any]) -> bool:
    return None if definition.name == "pay" else False  # type: ignore[return-value]


@each_row("levels", [1, 3])
async def test_a_caller_that_requires_approval_is_asked_about_the_calls_of_the_agent_that_it_calls(levels: int) -> None:
    for required in (True, is_payment):
        for says, amounts in ((True, [5]), (False, []), (None, [])):
            own = Person()

            def decide(request: PendingCall, says: Any = says) -> Any:
                return request.tool == "helper" or says

            for inner in (ApprovalPolicy(decide=own), ApprovalPolicy(rules={"pay": "allow"})):
                assert await paid(ApprovalPolicy(required, decide), inner, levels) == amounts
            assert own.asked == []  # its own policy asks about nothing


async def test_both_are_asked_if_both_want_it_and_the_second_sees_what_the_first_left() -> None:
    asks = {"pay": "ask"}
    for required, rules in ((is_payment, {}), (False, asks)):
        for edits in (True, {"amount": 3}):
            inner, outer = Person(says=edits), Person()
            left = {"amount": 5} if edits is True else edits
            policy = ApprovalPolicy(required, outer, rules=rules)  # type: ignore[arg-type]
            amounts = await paid(policy, ApprovalPolicy(True, inner))
            assert (inner.asked, outer.asked, amounts) == ([{"amount": 5}], [left], [left["amount"]])
    for inner, outer in ((Person(says=False), Person()), (Person(), Person(says=False))):
        assert await paid(ApprovalPolicy(is_payment, outer), ApprovalPolicy(True, inner)) == []


async def test_the_second_is_shown_what_runs_whatever_the_first_does_to_its_request() -> None:
    def meddles(request: PendingCall) -> bool:
        request.arguments["amount"] = 1
        return True

    def answers_another(request: PendingCall) -> Any:
        return replace(request, fingerprint="0" * 64).approve()

    person = Person()
    assert await paid(ApprovalPolicy(is_payment, person), ApprovalPolicy(True, meddles)) == [5]
    assert person.asked == [{"amount": 5}]
    person = Person()
    assert await paid(ApprovalPolicy(is_payment, person), ApprovalPolicy(True, answers_another)) == []
    assert person.asked == []


async def test_somebody_who_decides_for_both_is_asked_once() -> None:
    person = Person()
    for inner in (ApprovalPolicy(True), ApprovalPolicy(True, person), ApprovalPolicy(rules={"pay": "ask"})):
        person.asked.clear()
        assert await paid(ApprovalPolicy(is_payment, person), inner) == [5]
        assert person.asked == [{"amount": 5}]


async def test_without_anybody_who_decides_for_the_caller_the_call_is_denied() -> None:
    for inner in (ApprovalPolicy(), ApprovalPolicy(True, Person())):
        assert await paid(ApprovalPolicy(is_payment), inner) == []
        assert await paid(ApprovalPolicy(undecided, Person()), inner) == []
        assert await paid(ApprovalPolicy(decide=Person(), rules={"pay": "deny"}), inner) == []
    assert await paid(ApprovalPolicy(is_help, Person()), ApprovalPolicy()) == [5]  # it asks about its own call alone


async def test_each_hears_its_own_decisions() -> None:
    heard: list[tuple[str, str, str]] = []

    def listener(name: str) -> Any:
        def hear(request: PendingCall, _facts: CallFacts, decision: Decision) -> None:
            heard.append((name, request.tool, decision.verdict))

        return hear

    outer = ApprovalPolicy(rules={"pay": "deny"}, on_decision=listener("outer"))
    await paid(outer, ApprovalPolicy(rules={"pay": "ask"}, on_decision=listener("inner")))
    assert heard == [("inner", "pay", "ask"), ("outer", "pay", "deny")]
