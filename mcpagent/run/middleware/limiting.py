"""Enforce limits on turns, calls, tokens, dollars and seconds, and raise `Stop` when a run reaches one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.run_parts import CallState, StepState, Stop
from mcpagent.values.events import LIMIT_STOPS, LimitReached
from mcpagent.values.limits.run_limits import (
    FIRM,
    NO_LIMITS,
    LimitKind,
    LimitScope,
    ReachedLimit,
    used_up,
)
from mcpagent.values.messages import Message, Spent, Text

_OVER_LIMIT = "This call was not run: the limit of {} is used up."
_ALL_USED = "You have used all {}."


class Limiting(Middleware):
    """Stops a run that has reached a limit, and refuses calls that a limit does not allow."""

    @asynccontextmanager
    async def around_turns(self, run: AgentRun) -> AsyncIterator[None]:
        """Cancel the turns when the seconds of the run or of its session are used up."""
        clock, earlier, session = run.tally.clock, run.tally.earlier.seconds, run.budget
        limits: tuple[tuple[LimitScope, float | None, float], ...] = (
            ("run", run.limits.seconds, earlier),
            ("session", session.limits.seconds, earlier + session.before.seconds),
        )
        ends = sorted(
            (most - before, scope, most)
            for scope, most, before in limits
            if most is not None
        )
        try:
            async with clock.limited(ends[0][0] if ends else None):
                yield
        except TimeoutError:
            if not clock.is_up:
                raise
            left, scope, most = ends[0]
            raise _stop(
                _reached(
                    run,
                    ReachedLimit("seconds", most, most - left + clock.seconds),
                    scope,
                )
            ) from None
        finally:
            clock.stop()

    @contextmanager
    def around_step(self, run: AgentRun, step: StepState) -> Iterator[None]:
        """Stop a run whose limits allow no further turn. If the time runs out during a request, its text so far is the
        answer.
        """
        _require_within_limits(run)
        if not step.is_summary and not step.is_final:
            reached = _last_answer_due(run)
            if reached is not None:
                raise _stop(reached, final_note=_ALL_USED.format(reached.allowed))
        try:
            yield
        finally:
            if (
                run.tally.clock.is_up
                and step.response is None
                and not step.is_summary
                and step.heard.strip()
            ):
                run.conversation.append(Message("assistant", (Text(step.heard),)))

    @contextmanager
    def around_call(self, run: AgentRun, call: CallState) -> Iterator[None]:
        """Refuse a call over the limit immediately, without asking a person."""
        if call.tool is not None and call.answer is None:
            _refuse_over_limit(run, call, is_counted=_is_counted(run, call))
        yield

    @contextmanager
    def around_question(self, run: AgentRun, call: CallState) -> Iterator[None]:
        """Stop the clock while a person decides. Skip the question if other calls have used up the limit meanwhile."""
        _refuse_over_limit(run, call, is_counted=_is_counted(run, call))
        with run.asking_a_person():
            yield

    @contextmanager
    def around_execution(self, run: AgentRun, call: CallState) -> Iterator[None]:
        """Count a call when it starts. A call that the journal refuses is not counted."""
        is_counted = _is_counted(run, call)
        _refuse_over_limit(run, call, is_counted=is_counted)
        counted = int(is_counted and not call.is_settled)
        run.count(Spent(tool_calls=counted))
        yield
        if not call.has_begun:
            run.count(Spent(tool_calls=-counted))


def _require_within_limits(run: AgentRun) -> None:
    """Raise `Stop` if tokens, dollars or seconds are used up, in this run or in a run that called it."""
    if (reached := _first_reached(run, FIRM)) is not None:
        raise _stop(reached)


def _last_answer_due(run: AgentRun) -> LimitReached | None:
    """Return the limit because of which only one more answer is allowed, or None.

    Raises `Stop` if there was no turn yet, so that not even that answer is allowed.
    """
    reached = run.tally.reached or _first_reached(run, ("turns",))
    has_turns = run.tally.earlier.turns + run.tally.spent.turns
    if reached is not None and reached.limit == "turns" and not has_turns:
        raise _stop(reached)
    return reached


def _stop(reached: LimitReached, *, final_note: str = "") -> Stop:
    return Stop(LIMIT_STOPS[reached.limit], final_note=final_note)


def _refuse_over_limit(run: AgentRun, call: CallState, *, is_counted: bool) -> None:
    kinds: tuple[LimitKind, ...] = FIRM
    if is_counted:
        kinds = ("tool_calls", *FIRM)
    if (reached := _first_reached(run, kinds)) is not None:
        call.refuse(_OVER_LIMIT.format(reached.allowed), "cancelled")


def _is_counted(run: AgentRun, call: CallState) -> bool:
    """Return whether the limit of calls counts this call. A call that an earlier process sent was counted then."""
    assert call.tool is not None
    return not run.tools.is_own(call.tool) and not call.times_sent


def _first_reached(run: AgentRun, kinds: Sequence[LimitKind]) -> LimitReached | None:
    """Return the limit of these kinds that is used up in this run or in a run that called it; None if none is. The
    first one is also reported.
    """
    one: AgentRun | None = run
    while one is not None:
        if used := used_up(one.limits, one.tally.amounts, kinds):
            return _reached(run, used, "run" if one is run else "caller")
        budget = one.budget
        if budget.limits is not NO_LIMITS and (
            used := used_up(budget.limits, one.session_amounts, kinds)
        ):
            return _reached(run, used, "session" if one is run else "caller")
        one = one.parent
    return None


def _reached(run: AgentRun, used: ReachedLimit, scope: LimitScope) -> LimitReached:
    reached = LimitReached(used.kind, used.most, used.used, scope)
    if run.tally.reached is None:
        run.tally.reached = reached
        run.emit(reached)
    return reached
