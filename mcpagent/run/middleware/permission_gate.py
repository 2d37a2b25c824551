"""Decide on every tool call by the rules, and request approval if they require it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

from mcpagent.history.conversation import INNER, Conversation
from mcpagent.permissions.approval_policy import ApprovalPolicy, answer_of_predicate
from mcpagent.permissions.decision import CallFacts, Decision, decide, strictness
from mcpagent.run.agent_run import AgentRun, Middleware, current_run, run_context
from mcpagent.run.middleware.admission import misfit_of, misfit_text
from mcpagent.run.run_parts import CallState
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.python.orphaned_tasks import times_cancelled
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.utilities.text.safe_text import error_text, safe_line
from mcpagent.values.approval import (
    CallAnswer,
    OnApproval,
    PendingCall,
    PendingKind,
    call_fingerprint,
    denied_words,
    outdated_words,
)
from mcpagent.values.messages import ToolCall, ToolDefinition, json_copy
from mcpagent.values.tools import Tool, ToolOutput

MOST_SENT = 3
_DENIED = 'The rules do not allow "{}", so it was not run. Do not call it again.'
_LOST = '"{}" was not run again: the process that ran it died {} times. Go on without its result.'
_DECIDING: ContextVar[bool] = ContextVar("mcpagent_deciding", default=False)


class Permissions(Middleware):
    """Lets a call run only if the rules permit it, and the person that they require approves it."""

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        """Decide on the call."""
        await decide_on_call(run, call)
        yield


async def decide_on_call(run: AgentRun, call: CallState) -> None:  # noqa: C901 - one row of the table after the other
    """Decide whether a call runs, and with which arguments. If it does not run, set its `output`, or the request that
    it waits for.

    The first matching row applies. An approval may edit the arguments: if they then ask for something else, such as
    another resource, the call is decided again with them.

    | the call | |
    |---|---|
    | was denied | is refused, also if its tool is missing |
    | has no tool that the model may call | is refused with the reason |
    | ended its process three times | is not run again |
    | is denied by a rule (`permissions.decision.decide`) | is refused |
    | has no answer and is allowed by a rule | runs |
    | has no answer and needs one from outside of this run | waits |
    | has no answer, and a person can be asked | gets the person's answer, and is decided by it |
    | differs from the call that was answered | is refused |
    | was answered with a result | has this result |
    | was edited into a request for something else | has no answer, and is decided again |
    | was edited into invalid arguments | is refused |
    | was approved | runs |
    """
    asked, answer = call.call, call.answer
    while True:
        if answer is not None and not answer.approved:
            call.refuse(denied_words(asked.name, answer), "denied")
            return
        tool = call.tool
        if tool is None:
            call.settle(call.refusal or ToolOutput(()))
            return
        if call.times_sent >= MOST_SENT:
            call.refuse(_LOST.format(safe_line(asked.name, 80), MOST_SENT), "failed")
            return
        if answer is None:
            judged = await _judged(asked, tool, run, call)
            if call.is_settled:
                return
            if judged is None:
                call.arguments = asked.arguments
                return
            request, deciders = judged
            if request.kind == "external" or None in deciders:
                call.wait_with((request,))
                return
            answer = await _answer_of_all(request, deciders, run, call)
            if answer is None:
                return
            continue
        if answer.kind != _kind_of(tool) or answer.fingerprint != await _fingerprint(
            asked, tool, run
        ):
            call.refuse(outdated_words(tool.name), "denied")
            return
        if tool.external:
            if isinstance(answer.value, str):
                text = answer.value
            else:
                text = json.dumps(answer.value, default=str)
            call.settle(
                ToolOutput.of_text(text, error="failed" if answer.failed else None)
            )
            return
        if answer.arguments is None:
            arguments = asked.arguments
        else:
            arguments = answer.arguments
        is_another = tool.asked(arguments) != tool.asked(asked.arguments)
        if is_another and _decider_of(run) is not None:
            asked, answer = replace(asked, arguments=arguments), None
            continue
        if decision_in(run, facts_of(tool, arguments)).verdict == "deny":
            call.refuse(_DENIED.format(safe_line(tool.name, 80)), "denied")
            return
        problem = await misfit_of(tool, arguments, run)
        if problem:
            call.refuse(misfit_text(tool, problem), "invalid_arguments")
            return
        call.arguments, call.by_person = arguments, True
        return


def facts_of(tool: Tool, arguments: dict[str, Any]) -> CallFacts:
    """Return the facts about a call of this tool that rules judge."""
    return CallFacts(tool.asked(arguments), arguments, tool.rules)


def decision_in(run: AgentRun, facts: CallFacts) -> Decision:
    """Return the strictest decision, by the rules of the agent and of the agents that called it."""
    decisions = [_decision_of(judge, run, facts) for judge in _judges(run)]
    return max(decisions, key=strictness)


def instructs_at_once(tool: Tool, arguments: dict[str, Any]) -> bool:
    """Return whether the rules of the current run allow this call of the tool without asking."""
    run = current_run()
    if run is None or tool.approval is not None:
        return False
    return decision_in(run, facts_of(tool, arguments)).verdict == "allow"


def _decision_of(judge: AgentRun, run: AgentRun, facts: CallFacts) -> Decision:
    """Return the decision by the rules of `judge`, the run itself or a run that called it.

    Only the agent's own rules can replace a rule of a server's entry: callers can only make it stricter.
    """
    if judge is not run:
        facts = replace(facts, rules=())
    return decide(facts, judge.permissions.rules_now())


def _judges(run: AgentRun) -> list[AgentRun]:
    """Return the run, and the runs that called it whose policy judges its calls; equal policies only once."""
    judges, caller = [run], run.parent
    while caller is not None:
        policy = caller.permissions
        is_known = any(policy == judge.permissions for judge in judges)
        if not is_known and (policy.rules or policy.required is not False):
            judges.append(caller)
        caller = caller.parent
    return judges


def _decider_of(run: AgentRun) -> OnApproval | None:
    """Return the `decide` callback of the run's policy, else of the nearest caller with one, or None."""
    for judge in run.lineage:
        if judge.permissions.decide is not None:
            return judge.permissions.decide
    return None


def _kind_of(tool: Tool | None) -> PendingKind:
    if tool is not None and tool.external:
        return "external"
    return "approval"


async def _fingerprint(call: ToolCall, tool: Tool, run: AgentRun) -> str:
    place, session = run.conversation.place, run.context.thread_id
    is_much = is_large(call.arguments)
    return await beside_loop(
        lambda: call_fingerprint(call, tool.asked(call.arguments), place, session),
        is_much=is_much,
    )


async def _judged(
    asked: ToolCall, tool: Tool, run: AgentRun, call: CallState
) -> tuple[PendingCall, list[OnApproval | None]] | None:
    """Return the approval request of the call and the callbacks that answer it; None if the call may run.

    The agent, and each agent that called it, judges the call; an agent that requires approval uses its own `decide`. A
    denial refuses the call. Rules apply to tools of servers and of the user, not to the runtime's own tools, such as
    `search_tools`.
    """
    has_own_rules = tool.rules or tool.approval is not None or tool.external
    has_policies = run.permissions.rules or run.parent is not None
    if not (has_own_rules or has_policies):
        return None
    if tool.approval is None and run.tools.is_own(tool):
        return None
    facts = facts_of(tool, asked.arguments)
    decisions = list[tuple[AgentRun, Decision]]()
    for judge in _judges(run):
        decision = _decision_of(judge, run, facts)
        if decision.verdict == "allow" and await _needs_approval(
            judge, asked, tool, run, call
        ):
            required = replace(facts, is_required=True)
            decision = _decision_of(judge, run, required)
        if call.is_settled:
            return None
        if decision.verdict != "allow":
            decisions.append((judge, decision))
    if not (decisions or tool.external):
        return None
    place, session = run.conversation.place, run.context.thread_id
    request = await beside_loop(
        lambda: waiting_call(asked, tool, place=place, session=session),
        is_much=is_large(asked.arguments),
    )
    for judge, decision in decisions:
        if judge.permissions.on_decision is not None:
            judge.permissions.on_decision(request, facts, decision)
    if any(decision.verdict == "deny" for _, decision in decisions):
        call.refuse(_DENIED.format(safe_line(tool.name, 80)), "denied")
    deciders = [_decider_of(judge) for judge, _ in decisions]
    return request, list(dict.fromkeys(deciders))


async def _needs_approval(
    judge: AgentRun, asked: ToolCall, tool: Tool, run: AgentRun, call: CallState
) -> bool:
    """Return whether the tool or the agent of `judge` requires approval for the call. A check that fails refuses the
    call.
    """
    check = tool.approval
    if judge is not run:
        check = partial(_required_by, judge.permissions, tool)
    if check is None:
        return False
    try:
        with run.for_call(call).entered():
            arguments = await beside_loop(
                lambda: json_copy(asked.arguments), is_much=is_large(asked.arguments)
            )
            needed = check(arguments)
            if inspect.isawaitable(needed):
                needed = await needed
        return answer_of_predicate(needed)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a check that fails lets no call through
        _raise_own_cancellation(error)
        text = f'The permission check for "{tool.name}" failed, so it was not run: {error_text(error)}'
        call.refuse(text, "denied")
        return False


def _required_by(
    policy: ApprovalPolicy, tool: Tool, arguments: dict[str, Any]
) -> bool | Awaitable[bool]:
    if isinstance(policy.required, bool):
        return policy.required
    return policy.required(run_context(), tool.asked(arguments), arguments)


async def _answer_of_all(
    request: PendingCall,
    deciders: Sequence[OnApproval | None],
    run: AgentRun,
    call: CallState,
) -> CallAnswer | None:
    """Ask each callback in turn, with the arguments of the previous answer, until one does not approve the call."""
    first, *others = deciders
    assert first is not None
    arguments = request.arguments
    if others:
        arguments = json_copy(arguments)  # each callback may change its copy
    answer = await _answer_of_person(request, first, run, call)
    for on_approval in others:
        assert on_approval is not None
        if (
            answer is None
            or not answer.approved
            or answer.fingerprint != request.fingerprint
        ):
            return answer
        if answer.arguments is not None:
            arguments = answer.arguments
        shown = replace(request, arguments=json_copy(arguments))
        before, answer = answer, await _answer_of_person(shown, on_approval, run, call)
        if answer is not None and answer.arguments is None:
            answer = replace(answer, arguments=before.arguments)
    return answer


async def _answer_of_person(
    request: PendingCall, on_approval: OnApproval, run: AgentRun, call: CallState
) -> CallAnswer | None:
    """Ask the person. Returns None if the call waits, or must not run after all."""
    # The callback may itself ask an agent, whose calls are decided meanwhile.
    async with (
        contextlib.nullcontext() if _DECIDING.get() else run.asking,
        run.pipeline.around_question(run, call),
    ):
        if call.is_settled:
            return None
        token = _DECIDING.set(True)
        try:
            answer = on_approval(request)
            if inspect.isawaitable(answer):
                answer = await answer
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - without an answer it is denied
            _raise_own_cancellation(error)
            return request.deny(
                f"nobody could be asked ({error_text(error)})", asked=False
            )
        finally:
            _DECIDING.reset(token)
    if answer is request:
        call.wait_with((request,))
        return None
    if isinstance(answer, CallAnswer):
        return answer
    if answer is True:
        return request.approve()
    if answer is False:
        return request.deny()
    got = type(answer).__name__
    return request.deny(
        f"ApprovalPolicy(decide=...) returned {got}, not True, False, an answer or the request",
        asked=False,
    )


def _raise_own_cancellation(error: BaseException) -> None:
    """Raise a cancellation of this run again. A `CancelledError` that the user's code raises itself counts as its
    error.
    """
    if isinstance(error, asyncio.CancelledError) and times_cancelled():
        raise error


# -- Pending calls -----------------------------------------------------------------------------------------------------


def waiting_calls(
    conversation: Conversation,
    tools: SessionTools,
    session: str,
    inner: Mapping[str, PendingCall],
) -> list[PendingCall]:
    """Return the requests for a session's open calls, each built from the history and its current tool.

    `inner` are pending calls of programs, by ID. They replace the call that runs their program.
    """
    waiting: list[PendingCall] = []
    for call in conversation.open_calls:
        own = [
            one
            for call_id, one in inner.items()
            if call_id.startswith(f"{call.id}{INNER}")
        ]
        if own:
            waiting += own
        else:
            waiting.append(
                waiting_call(
                    call,
                    tools.find(call.name),
                    place=conversation.place,
                    session=session,
                )
            )
    return waiting


def waiting_call(
    call: ToolCall, tool: Tool | None, *, place: int, session: str
) -> PendingCall:
    """Return the request for a call at this position in the history, even if its tool is missing."""
    if tool is not None:
        definition = tool.asked(call.arguments)
    else:
        definition = ToolDefinition(call.name, "", {})
    return PendingCall.of(
        _kind_of(tool), call, definition, place=place, session=session
    )
